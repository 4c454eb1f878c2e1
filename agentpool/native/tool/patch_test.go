package tool

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestPatchFindsLinesWithoutRegardToWhiteSpace(t *testing.T) {
	for _, c := range []struct{ name, text, old, new, want, note, err string }{
		{"spaces at the end", "a  \nb\t\nc\n", "a\nb", "x\ny", "x\ny\nc\n", "white space at the ends of lines", ""},
		{"other indentation", "func f() {\n\tif a {\n\t\tb()\n\t}\n}\n", "if a {\n  b()\n}", "if a {\n  c()\n}", "func f() {\n\tif a {\n\t\tc()\n\t}\n}\n", "indentation", ""},
		{"more lines than before", "\t\tone\n\t\ttwo\n", "one\ntwo", "one\n\tnew\ntwo", "\t\tone\n\t\t\tnew\n\t\ttwo\n", "indentation", ""},
		{"less than any of old", "    if x:\n        y()\n", "  if x:\n      y()", "  if x:\n      z()\nend", "    if x:\n        z()\n  end\n", "indentation", ""},
		{"inside of a line", "a =  1\nb = 2\n", "a = 1", "a = 3", "a = 3\nb = 2\n", "white space", ""},
		{"no newline at the end", "a\n  b", "a\nb\n", "a\nc\n", "a\n  c", "indentation", ""},
		{"lines go", "a\n b \nc\n", "b\n", "", "a\nc\n", "indentation", ""},
		{"the last line goes", "a\n b ", "b\n", "", "a\n", "indentation", ""},
		{"CRLF stays", "a \r\nb\r\nc\r\n", "a\nb", "x\ny", "x\r\ny\r\nc\r\n", "white space at the ends of lines", ""},
		{"CRLF stays in a mixed file", "a \r\nb\nc\n", "a\n", "x\ny\n", "x\r\ny\r\nb\nc\n", "white space at the ends of lines", ""},
		{"not a part of a line", "abc\n", " b ", "x", "", "", "does not occur"},
		{"twice", "  a\n\ta\n", "    a", "b", "", "", "without regard to indentation it occurs 2 times"},
		{"white space only", "a\n\n\nb\n", " \n ", "x", "", "", "does not occur"},
		{"nothing to do", "\ta\n", "    a", "    a\n", "", "", "the same but for white space"},
	} {
		r, err := replacePiece(c.text, c.old, c.new, false)
		if c.err != "" {
			wantError(t, err, c.err)
			continue
		}
		if err != nil || r.text != c.want {
			t.Errorf("%s: %q, %v, want %q", c.name, r.text, err, c.want)
		}
		if !strings.Contains(r.note, "only without regard to "+c.note+". In its place stands now:\n") {
			t.Errorf("%s: the model is told %q", c.name, r.note)
		}
	}
}

func TestPatchOfSeveralFilesIsShownAndMadeAsOne(t *testing.T) {
	e := &Env{Cwd: tempDir(t)}
	for _, name := range []string{"a", "b"} {
		put(t, filepath.Join(e.Cwd, name), "1\n2\n2\n3\n")
	}
	args := m{"edits": []m{
		{"path": "a", "old": "1", "new": "one"}, {"path": "b", "old": "2\n", "new": "two\n", "all": true},
		{"path": "./a", "old": "one\n", "new": "uno\n"}, {"path": "sub/new", "old": "", "new": "made"},
	}}
	a, err := plan(t, Patch{}, e, args)
	if err != nil {
		t.Fatal(err)
	}
	var shown []string
	for _, c := range a.Content {
		old := "-"
		if c.Diff.Old != nil {
			old = *c.Diff.Old
		}
		shown = append(shown, fmt.Sprintf("%s %q %q", filepath.Base(c.Diff.Path), old, c.Diff.New))
	}
	if got := strings.Join(shown, "|"); got != `a "1\n2\n2\n3\n" "uno\n2\n2\n3\n"|b "1\n2\n2\n3\n" "1\ntwo\ntwo\n3\n"|new "-" "made"` {
		t.Errorf("shown: %s", got)
	}
	want := []string{filepath.Join(e.Cwd, "a"), filepath.Join(e.Cwd, "b"), filepath.Join(e.Cwd, "sub", "new")}
	if fmt.Sprint(a.Need.Grants) != fmt.Sprint(want) || a.Title != "Edit 3 files: a, b, "+filepath.Join("sub", "new") || len(a.Locations) != 3 || a.Locations[1].Line != 2 {
		t.Errorf("%+v", a)
	}
	if r, err := a.Run(context.Background(), nil); err != nil || strings.Count(r.Text, "is written") != 3 {
		t.Errorf("%+v, %v", r, err)
	}
	if content(t, want[0]) != "uno\n2\n2\n3\n" || content(t, want[2]) != "made" {
		t.Error("not written")
	}
}

func TestPatchOfSeveralFilesIsAllOrNothing(t *testing.T) {
	fresh := func(t *testing.T) (*Env, *Action) {
		e := &Env{Cwd: tempDir(t)}
		put(t, filepath.Join(e.Cwd, "a"), "1")
		put(t, filepath.Join(e.Cwd, "z"), "2")
		a, err := plan(t, Patch{}, e, m{"edits": []m{{"path": "a", "old": "1", "new": "one"}, {"path": "n", "old": "", "new": "new"}, {"path": "z", "old": "2", "new": "two"}}})
		if err != nil {
			t.Fatal(err)
		}
		return e, a
	}
	untouched := func(t *testing.T, e *Env) {
		t.Helper()
		if content(t, filepath.Join(e.Cwd, "a")) != "1" {
			t.Error("the first file was written")
		}
		if _, err := os.Stat(filepath.Join(e.Cwd, "n")); err == nil {
			t.Error("the new file was made")
		}
	}
	t.Run("one does not fit", func(t *testing.T) {
		e, _ := fresh(t)
		_, err := plan(t, Patch{}, e, m{"edits": []m{{"path": "a", "old": "1", "new": "one"}, {"path": "z", "old": "9", "new": "x"}}})
		wantError(t, err, "edit 2 of 2: z: the old text does not occur")
	})
	t.Run("the last changed since", func(t *testing.T) {
		e, a := fresh(t)
		put(t, filepath.Join(e.Cwd, "z"), "other")
		_, err := a.Run(context.Background(), nil)
		wantError(t, err, "z has changed since its change was shown")
		untouched(t, e)
	})
	t.Run("the last cannot be written", func(t *testing.T) {
		e, a := fresh(t)
		ed := &writer{fail: filepath.Join(e.Cwd, "z")}
		e.Files, e.NoEditor = ed, func(err error) bool { return errors.Is(err, errNoEditor) }
		_, err := a.Run(context.Background(), nil)
		wantError(t, err, "was taken back, nothing is changed")
		untouched(t, e)
	})
	t.Run("and the first cannot be taken back", func(t *testing.T) {
		e, a := fresh(t)
		ed := &writer{fail: filepath.Join(e.Cwd, "z"), before: func() { put(t, filepath.Join(e.Cwd, "a"), "somebody else") }}
		e.Files, e.NoEditor = ed, func(err error) bool { return errors.Is(err, errNoEditor) }
		_, err := a.Run(context.Background(), nil)
		wantError(t, err, "before that a had been changed, and that could not be taken back")
		if content(t, filepath.Join(e.Cwd, "a")) != "somebody else" {
			t.Error("what somebody else has written is gone")
		}
	})
}

// writer is an editor that refuses to write one file.
type writer struct {
	fail   string
	before func()
}

func (*writer) ReadTextFile(context.Context, string) (string, error) { return "", errNoEditor }
func (w *writer) WriteTextFile(_ context.Context, path, _ string) error {
	if path != w.fail {
		return errNoEditor
	}
	if w.before != nil {
		w.before()
	}
	return errors.New("read-only")
}

func TestPatchArgumentsAreChecked(t *testing.T) {
	e := &Env{Cwd: tempDir(t)}
	put(t, filepath.Join(e.Cwd, "a"), "x x")
	for _, c := range []struct {
		args m
		want string
	}{
		{m{}, "the path is empty"},
		{m{"path": "a", "old": "x", "new": "y", "edits": []m{{"path": "a", "old": "x", "new": "y"}}}, "give either"},
		{m{"edits": []m{{"path": "a", "old": "x x", "new": "y"}, {"path": "a", "old": "y", "new": "x x"}}}, "leave the file as it is"},
		{m{"path": "a", "old": "", "new": "y"}, "the old text is empty"},
		{m{"path": "b", "old": "", "new": ""}, "the old text is empty"},
		{m{"path": "a", "old": "x", "new": "y"}, "occurs 2 times"},
	} {
		_, err := plan(t, Patch{}, e, c.args)
		wantError(t, err, c.want)
	}
	if r, err := do(t, Patch{}, e, m{"path": "a", "old": "x", "new": "y", "all": true}); err != nil || content(t, filepath.Join(e.Cwd, "a")) != "y y" {
		t.Errorf("%+v, %v", r, err)
	}
}

// Whether an edit of a file outside would fit must not be found out unasked,
// not even by the failure of another edit.
func TestAnEditOutsideAmongOthersTellsNothingUnasked(t *testing.T) {
	e := &Env{Cwd: tempDir(t)}
	put(t, filepath.Join(e.Cwd, "in"), "x")
	out := filepath.Join(tempDir(t), "secret")
	put(t, out, "text")
	for _, old := range []string{"text", "nothing"} {
		a, err := plan(t, Patch{}, e, m{"edits": []m{{"path": out, "old": old, "new": "y"}, {"path": "in", "old": "nothing", "new": "y"}}})
		if err != nil || !a.Need.Outside || len(a.Need.Grants) != 2 || a.Content[0].Text != "The edit cannot be shown." {
			t.Fatalf("%+v, %v", a, err)
		}
		if _, err := a.Run(context.Background(), nil); err == nil {
			t.Error("it worked")
		}
	}
}
