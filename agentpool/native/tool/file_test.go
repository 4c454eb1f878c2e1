package tool

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
)

// plan plans a call; args are given as JSON.
func plan(t *testing.T, tl Tool, e *Env, args any) (*Action, error) {
	t.Helper()
	data, err := json.Marshal(args)
	if err != nil {
		t.Fatal(err)
	}
	return tl.Plan(context.Background(), e, data)
}

// do plans and runs a call.
func do(t *testing.T, tl Tool, e *Env, args any) (Result, error) {
	t.Helper()
	a, err := plan(t, tl, e, args)
	if err != nil {
		return Result{}, err
	}
	return a.Run(context.Background(), func([]Content) {})
}

type m = map[string]any

func wantError(t *testing.T, err error, part string) {
	t.Helper()
	if err == nil || !strings.Contains(err.Error(), part) {
		t.Errorf("error %v, want one with %q", err, part)
	}
}

func content(t *testing.T, path string) string {
	t.Helper()
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return string(data)
}

// editor is an editor's files.
type editor struct {
	files map[string]string
	fail  error
	reads int
}

var errNoEditor = errors.New("no editor")

func (f *editor) ReadTextFile(_ context.Context, path string) (string, error) {
	f.reads++
	if text, ok := f.files[path]; ok {
		return text, nil
	}
	return "", errors.New("not open")
}

func (f *editor) WriteTextFile(_ context.Context, path, text string) error {
	if f.fail != nil {
		return f.fail
	}
	f.files[path] = text
	return nil
}

func TestReadShowsNumberedLinesOfTheRange(t *testing.T) {
	e := &Env{Cwd: tempDir(t)}
	put(t, filepath.Join(e.Cwd, "a"), "one\ntwo\r\nthree")
	put(t, filepath.Join(e.Cwd, "empty"), "")
	put(t, filepath.Join(e.Cwd, "latin"), "caf\xe9\n")
	for _, c := range []struct {
		args m
		want string
	}{
		{m{"path": "a"}, "1\tone\n2\ttwo\n3\tthree\n"},
		{m{"path": "a", "start": 2}, "2\ttwo\n3\tthree\n"},
		{m{"path": "a", "start": 2, "end": 2}, "2\ttwo\n"},
		{m{"path": "a", "end": 99}, "1\tone\n2\ttwo\n3\tthree\n"},
		{m{"path": "a", "start": 9}, "[the file has 3 lines]\n"},
		{m{"path": "empty"}, "[the file is empty]\n"},
		{m{"path": "latin"}, "1\tcaf\uFFFD\n"},
	} {
		r, err := do(t, ReadFile{}, e, c.args)
		if err != nil || r.Text != c.want {
			t.Errorf("%v: %q, %v, want %q", c.args, r.Text, err, c.want)
		}
	}
}

func TestReadSaysWhatItLeftOut(t *testing.T) {
	e := &Env{Cwd: tempDir(t)}
	put(t, filepath.Join(e.Cwd, "long"), strings.Repeat("x\n", maxReadLines+5))
	r, err := do(t, ReadFile{}, e, m{"path": "long"})
	if err != nil || !strings.HasSuffix(r.Text, "2000\tx\n[lines 1 to 2000 of 2005 are shown, read on from 2001]\n") {
		t.Errorf("%q, %v", r.Text[max(0, len(r.Text)-100):], err)
	}
	put(t, filepath.Join(e.Cwd, "wide"), strings.Repeat("é", maxReadBytes)+"\nnext\n")
	r, err = do(t, ReadFile{}, e, m{"path": "wide"})
	if err != nil || len(r.Text) > maxReadBytes+200 || !strings.Contains(r.Text, "the line goes on") || !strings.Contains(r.Text, "read on from 2") {
		t.Errorf("%d bytes, %v", len(r.Text), err)
	}
}

func TestReadRefusesWhatIsNoText(t *testing.T) {
	e := &Env{Cwd: tempDir(t)}
	put(t, filepath.Join(e.Cwd, "bin"), "ab\x00c")
	f, err := os.Create(filepath.Join(e.Cwd, "huge"))
	if err != nil {
		t.Fatal(err)
	}
	if err := f.Truncate(maxFile + 1); err != nil {
		t.Fatal(err)
	}
	f.Close()
	for path, part := range map[string]string{"bin": "binary", "huge": "too large", ".": "folder", "gone": "no such file"} {
		_, err := do(t, ReadFile{}, e, m{"path": path})
		wantError(t, err, part)
	}
	_, err = do(t, ReadFile{}, e, m{"path": "a", "lines": 3})
	wantError(t, err, `unknown field "lines"`)
	_, err = do(t, ReadFile{}, e, m{"path": "a", "start": 3, "end": 2})
	wantError(t, err, "start ≤ end")
}

func TestTheEditorsTextComesFirstAndTheDiskWhenItFails(t *testing.T) {
	e := &Env{Cwd: tempDir(t)}
	open := filepath.Join(e.Cwd, "open")
	put(t, open, "saved")
	put(t, filepath.Join(e.Cwd, "closed"), "disk")
	put(t, filepath.Join(e.Cwd, "bin"), "\x00")
	ed := &editor{files: map[string]string{open: "unsaved", filepath.Join(e.Cwd, "new"): "only in the editor"}}
	e.Files = ed
	for path, want := range map[string]string{"open": "1\tunsaved\n", "closed": "1\tdisk\n", "new": "1\tonly in the editor\n"} {
		if r, err := do(t, ReadFile{}, e, m{"path": path}); err != nil || r.Text != want {
			t.Errorf("%s: %q, %v", path, r.Text, err)
		}
	}
	ed.reads = 0
	if _, err := do(t, ReadFile{}, e, m{"path": "bin"}); err == nil || ed.reads != 0 {
		t.Errorf("the editor was asked for a binary file: %v, %d", err, ed.reads)
	}
	out := filepath.Join(tempDir(t), "f")
	put(t, out, "x")
	if _, err := do(t, ReadFile{}, e, m{"path": out}); err != nil || ed.reads != 0 {
		t.Errorf("the editor was asked for a file outside: %v, %d", err, ed.reads)
	}
}

func TestReadsOutsideNeedPermissionAndThoseInsideDoNot(t *testing.T) {
	e := &Env{Cwd: tempDir(t)}
	out := filepath.Join(tempDir(t), "f")
	put(t, filepath.Join(e.Cwd, ".env"), "")
	for _, tl := range []struct {
		tool Tool
		args func(string) m
	}{
		{ReadFile{}, func(p string) m { return m{"path": p} }},
		{SearchFiles{}, func(p string) m { return m{"pattern": "x", "path": p} }},
	} {
		a, err := plan(t, tl.tool, e, tl.args("x"))
		if err != nil || a.Need.Class != Free {
			t.Errorf("inside: %+v, %v", a, err)
		}
		a, err = plan(t, tl.tool, e, tl.args(out))
		if err != nil || a.Need.Class != Reading || !a.Need.Outside || a.Need.Grants[0] != out {
			t.Errorf("outside: %+v, %v", a, err)
		}
	}
}

func TestWriteMakesAndReplacesFilesKeepingTheirMode(t *testing.T) {
	e := &Env{Cwd: tempDir(t)}
	path := filepath.Join(e.Cwd, "sub", "a.sh")
	a, err := plan(t, WriteFile{}, e, m{"path": "sub/a.sh", "content": "one\n"})
	if err != nil {
		t.Fatal(err)
	}
	if d := a.Content[0].Diff; d == nil || d.Old != nil || d.New != "one\n" || d.Path != path {
		t.Errorf("diff %+v", d)
	}
	if got := string(must(t)(json.Marshal(a.Content[0]))); got != fmt.Sprintf(`{"type":"diff","path":%q,"oldText":null,"newText":"one\n"}`, path) {
		t.Error(got)
	}
	if _, err := os.Stat(filepath.Dir(path)); err == nil {
		t.Error("planning made a folder")
	}
	if _, err := a.Run(context.Background(), nil); err != nil || content(t, path) != "one\n" {
		t.Fatal(err)
	}
	if err := os.Chmod(path, 0o755); err != nil {
		t.Fatal(err)
	}
	if _, err := do(t, WriteFile{}, e, m{"path": "sub/a.sh", "content": ""}); err != nil || content(t, path) != "" {
		t.Error(err)
	}
	if info, err := os.Stat(path); err != nil || runtime.GOOS != "windows" && info.Mode().Perm() != 0o755 {
		t.Error(info.Mode(), err)
	}
	if entries, _ := os.ReadDir(filepath.Dir(path)); len(entries) != 1 {
		t.Errorf("something was left: %v", entries)
	}
	_, err = do(t, WriteFile{}, e, m{"path": "b"})
	wantError(t, err, "content is missing")
	_, err = do(t, WriteFile{}, e, m{"path": "sub", "content": ""})
	wantError(t, err, "folder")
}

func must(t *testing.T) func([]byte, error) []byte {
	return func(b []byte, err error) []byte {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
		return b
	}
}

func TestWriteFollowsALinkToItsTarget(t *testing.T) {
	e := &Env{Cwd: tempDir(t)}
	target := filepath.Join(e.Cwd, "target")
	put(t, target, "old")
	link(t, "target", filepath.Join(e.Cwd, "link"))
	if _, err := do(t, WriteFile{}, e, m{"path": "link", "content": "new"}); err != nil || content(t, target) != "new" {
		t.Error(err)
	}
	if info, err := os.Lstat(filepath.Join(e.Cwd, "link")); err != nil || info.Mode()&os.ModeSymlink == 0 {
		t.Error("the link was replaced")
	}
}

func TestAChangeIsMadeOnlyToWhatWasShown(t *testing.T) {
	e := &Env{Cwd: tempDir(t)}
	path := filepath.Join(e.Cwd, "a")
	outside := filepath.Join(tempDir(t), "b")
	put(t, outside, "old")
	for name, meddle := range map[string]func(){
		"has changed":        func() { put(t, path, "other") },
		"is gone":            func() { os.Remove(path) },
		"leads to another":   func() { os.Remove(path); link(t, outside, path) },
		"is a folder":        func() { os.Remove(path); os.Mkdir(path, 0o777) },
		"has changed since ": func() { put(t, path, "") },
	} {
		os.RemoveAll(path)
		put(t, path, "old")
		a, err := plan(t, WriteFile{}, e, m{"path": "a", "content": "new"})
		if err != nil {
			t.Fatal(err)
		}
		meddle()
		_, err = a.Run(context.Background(), nil)
		wantError(t, err, name)
	}
	if content(t, outside) != "old" {
		t.Error("a file outside was written through a link")
	}
	os.RemoveAll(path)
	a, err := plan(t, WriteFile{}, e, m{"path": "a", "content": "new"})
	if err != nil {
		t.Fatal(err)
	}
	put(t, path, "made meanwhile")
	_, err = a.Run(context.Background(), nil)
	wantError(t, err, "has changed")
}

func TestWritesGoThroughTheEditorAndItsFailureIsTold(t *testing.T) {
	e := &Env{Cwd: tempDir(t), NoEditor: func(err error) bool { return errors.Is(err, errNoEditor) }}
	path := filepath.Join(e.Cwd, "a")
	put(t, path, "disk")
	ed := &editor{files: map[string]string{path: "buffer"}}
	e.Files = ed
	a, err := plan(t, WriteFile{}, e, m{"path": "a", "content": "new"})
	if err != nil || *a.Content[0].Diff.Old != "buffer" {
		t.Fatal(a, err)
	}
	if _, err := a.Run(context.Background(), nil); err != nil || ed.files[path] != "new" || content(t, path) != "disk" {
		t.Error(err, ed.files)
	}
	ed.fail = errors.New("read-only buffer")
	_, err = do(t, WriteFile{}, e, m{"path": "a", "content": "newer"})
	wantError(t, err, "read-only buffer")
	if content(t, path) != "disk" {
		t.Error("the disk was written behind the editor's back")
	}
	ed.fail = errNoEditor
	if _, err = do(t, WriteFile{}, e, m{"path": "a", "content": "newer"}); err != nil || content(t, path) != "newer" {
		t.Error(err)
	}
}

func TestPatchReplacesExactlyOnePiece(t *testing.T) {
	for _, c := range []struct{ text, old, new, want, err string }{
		{"a\nb\nc\n", "b", "B", "a\nB\nc\n", ""},
		{"a\nb", "b", "c\nd", "a\nc\nd", ""},
		{"a\r\nb\r\nc", "a\nb", "x\ny", "x\r\ny\r\nc", ""},
		{"a\r\nb\r\n", "b", "c", "a\r\nc\r\n", ""},
		{"a\r\nb\r\n", "a\r\nb", "x\ny", "x\r\ny\r\n", ""},
		{"a\nb\n", "b\n", "", "a\n", ""},
		{"\uFEFFa\n", "a", "b", "\uFEFFb\n", ""},
		{"x x", "x", "y", "", "occurs 2 times"},
		{"aaa", "aa", "b", "", "occurs 2 times"},
		{"abc", "d", "e", "", "does not occur"},
		{"abc", "", "e", "", "empty"},
		{"abc", "b", "b", "", "the same"},
	} {
		r, err := replacePiece(c.text, c.old, c.new, false)
		got := r.text
		if r.note != "" {
			t.Errorf("%q %q→%q: not exact: %s", c.text, c.old, c.new, r.note)
		}
		if c.err != "" {
			wantError(t, err, c.err)
		} else if err != nil || got != c.want {
			t.Errorf("%q %q→%q: %q, %v, want %q", c.text, c.old, c.new, got, err, c.want)
		}
	}
}

func TestPatchWritesTheFileAndShowsWhere(t *testing.T) {
	e := &Env{Cwd: tempDir(t)}
	path := filepath.Join(e.Cwd, "a")
	put(t, path, "1\n2\n3\n")
	a, err := plan(t, Patch{}, e, m{"path": "a", "old": "3", "new": "three"})
	if err != nil || a.Locations[0] != (Location{Path: path, Line: 3}) || a.Title != "Edit a" {
		t.Fatal(a, err)
	}
	if _, err := a.Run(context.Background(), nil); err != nil || content(t, path) != "1\n2\nthree\n" {
		t.Error(err)
	}
	_, err = plan(t, Patch{}, e, m{"path": "gone", "old": "3", "new": "x"})
	wantError(t, err, "write_file")
	put(t, path, "caf\xe9")
	_, err = plan(t, Patch{}, e, m{"path": "a", "old": "c", "new": "x"})
	wantError(t, err, "not UTF-8")
}

func TestAFailingEditOutsideTellsNothingUnasked(t *testing.T) {
	e := &Env{Cwd: tempDir(t)}
	out := filepath.Join(tempDir(t), "secret")
	put(t, out, "text text")
	for _, old := range []string{"text", "nothing"} {
		a, err := plan(t, Patch{}, e, m{"path": out, "old": old, "new": "x"})
		if err != nil || a.Need.Class != Editing || !a.Need.Outside {
			t.Fatalf("%+v, %v", a, err)
		}
		if _, err := a.Run(context.Background(), nil); err == nil {
			t.Error("it worked")
		}
	}
}

func FuzzPatch(f *testing.F) {
	f.Add("a\r\nb", "a\nb", "c")
	f.Add("aaa", "a", "")
	f.Add("", "", "")
	f.Fuzz(func(t *testing.T, text, old, new string) {
		r, err := replacePiece(text, old, new, false)
		if err != nil {
			return
		}
		got := r.text
		if got == text {
			t.Errorf("nothing changed and no error: %q %q %q", text, old, new)
		}
		if !strings.Contains(text, "\r") && !strings.Contains(new, "\r") {
			if r.note != "" { // whole lines, found without regard to white space
				if strings.HasSuffix(text, "\n") != strings.HasSuffix(got, "\n") && got != "" && new != "" && strings.TrimRight(new, "\n") == new {
					t.Errorf("the newline at the end came or went: %q %q %q: %q", text, old, new, got)
				}
				return
			}
			if want := strings.Replace(text, old, new, 1); got != want {
				t.Errorf("%q, want %q", got, want)
			}
			if strings.Contains(got, "\r") {
				t.Errorf("a line ending was invented: %q", got)
			}
		}
	})
}

func TestSearchFindsLinesAndNames(t *testing.T) {
	e := &Env{Cwd: tempDir(t)}
	put(t, filepath.Join(e.Cwd, "a.go"), "package a\r\nfunc Needle() {}\n")
	put(t, filepath.Join(e.Cwd, "sub", "needle.txt"), "nothing")
	put(t, filepath.Join(e.Cwd, ".git", "config"), "Needle")
	put(t, filepath.Join(e.Cwd, "bin"), "Needle\x00")
	out := tempDir(t)
	put(t, filepath.Join(out, "x"), "Needle")
	link(t, out, filepath.Join(e.Cwd, "away"))
	link(t, filepath.Join(out, "x"), filepath.Join(e.Cwd, "file-away"))
	r, err := do(t, SearchFiles{}, e, m{"pattern": "(?i)needle"})
	want := filepath.Join("sub", "needle.txt") + "\na.go:2:func Needle() {}\n[1 line and 1 name in 2 files]"
	if err != nil || r.Text != want {
		t.Errorf("%q, %v, want %q", r.Text, err, want)
	}
	r, err = do(t, SearchFiles{}, e, m{"pattern": "^func", "path": "a.go"})
	if err != nil || !strings.HasPrefix(r.Text, "a.go:2:func") {
		t.Errorf("%q, %v", r.Text, err)
	}
	_, err = do(t, SearchFiles{}, e, m{"pattern": "("})
	wantError(t, err, "RE2")
	_, err = do(t, SearchFiles{}, e, m{"pattern": "x", "path": "gone"})
	wantError(t, err, "no such file")
	put(t, filepath.Join(e.Cwd, "many"), strings.Repeat("hit\n", maxHits+1))
	r, err = do(t, SearchFiles{}, e, m{"pattern": "^hit$"})
	if err != nil || strings.Count(r.Text, ":hit\n") != maxHits || !strings.Contains(r.Text, "only the first 200") {
		t.Errorf("%v %s", err, r.Text[len(r.Text)-80:])
	}
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	a, err := plan(t, SearchFiles{}, e, m{"pattern": "x"})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := a.Run(ctx, nil); !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
}

func TestTodoGivesTheWholePlan(t *testing.T) {
	r, err := do(t, Todo{}, &Env{}, m{"items": []m{{"content": "a", "status": "completed"}, {"content": "b", "status": "pending", "priority": "high"}}})
	if err != nil || fmt.Sprint(r.Plan) != "[{a medium completed} {b high pending}]" || r.Text != "The plan has 2 steps, 1 done." {
		t.Errorf("%+v, %v", r, err)
	}
	if r, err := do(t, Todo{}, &Env{}, m{"items": []m{}}); err != nil || r.Plan == nil {
		t.Errorf("an empty plan must be shown too: %+v, %v", r, err)
	}
	for part, items := range map[string]any{
		"missing": nil, "empty": []m{{"content": " ", "status": "pending"}},
		"status": []m{{"content": "a", "status": "done"}}, "priority": []m{{"content": "a", "status": "pending", "priority": "urgent"}},
	} {
		_, err := do(t, Todo{}, &Env{}, m{"items": items})
		wantError(t, err, part)
	}
}

func TestSchemasNameTheArgumentsTheToolsRead(t *testing.T) {
	for _, tl := range Standard().All() {
		var s struct {
			Properties map[string]any `json:"properties"`
			Required   []string       `json:"required"`
		}
		if err := json.Unmarshal(tl.Schema(), &s); err != nil {
			t.Errorf("%s: %v", tl.Name(), err)
		}
		if tl.Description() == "" {
			t.Errorf("%s has no description", tl.Name())
		}
		for name := range s.Properties {
			_, err := tl.Plan(context.Background(), &Env{Cwd: "/"}, json.RawMessage(fmt.Sprintf(`{%q:[{}]}`, name)))
			if err != nil && strings.Contains(err.Error(), "unknown field \""+name) {
				t.Errorf("%s does not read its argument %s", tl.Name(), name)
			}
		}
		if Standard().Find(tl.Name()) == nil {
			t.Errorf("%s is not found", tl.Name())
		}
	}
}

func TestTitlesAreOneHarmlessLine(t *testing.T) {
	e := &Env{Cwd: tempDir(t)}
	a, err := plan(t, Terminal{}, e, m{"command": "echo a\n\trm\u202e x\x1b[2J " + strings.Repeat("y", 500)})
	if err != nil {
		t.Fatal(err)
	}
	if strings.ContainsAny(a.Title, "\n\t\x1b\u202e") || len([]rune(a.Title)) > 120 || !strings.HasSuffix(a.Title, "…`") {
		t.Errorf("%q", a.Title)
	}
	if !strings.Contains(a.Content[0].Text, strings.Repeat("y", 500)) {
		t.Error("the whole command is not shown")
	}
}

func TestFenceCannotBeLeft(t *testing.T) {
	for in, want := range map[string]string{"a": "```\na\n```", "a\n": "```\na\n```", "": "```\n```", "x```y": "````\nx```y\n````"} {
		if got := Fence("", in); got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
}
