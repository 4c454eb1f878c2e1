package tool

import (
	"bytes"
	"context"
	"encoding/base64"
	"image"
	"image/png"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func gonePath(path string) bool {
	_, err := os.Lstat(path)
	return os.IsNotExist(err)
}

func TestDeleteShowsAndRemoves(t *testing.T) {
	e := &Env{Cwd: tempDir(t)}
	at := func(name string) string { return filepath.Join(e.Cwd, name) }
	put(t, at("text"), "words\n")
	put(t, at("bin"), "a\x00b")
	os.Mkdir(at("empty"), 0o777)
	put(t, at("full/sub/x"), "x")
	out := filepath.Join(tempDir(t), "kept")
	put(t, out, "kept")
	link(t, out, at("link"))
	link(t, filepath.Dir(out), at("full/away"))
	for _, c := range []struct {
		args  m
		shown string
		asked string
	}{
		{m{"path": "text"}, `{"type":"diff","path":"` + at("text") + `","oldText":"words\n","newText":""}`, ""},
		{m{"path": "bin"}, "bin, 3 bytes", ""},
		{m{"path": "empty"}, "empty, an empty folder", ""},
		{m{"path": "link"}, "link, a link to " + out, ""},
		{m{"path": "full", "recursive": true}, "a folder with 3 things in it", "with all that is in it"},
	} {
		a, err := plan(t, DeleteFile{}, e, c.args)
		if err != nil {
			t.Errorf("%v: %v", c.args, err)
			continue
		}
		data, _ := a.Content[0].MarshalJSON()
		if !strings.Contains(string(data), c.shown) || a.Need.Class != Editing || a.Need.Outside || !strings.Contains(a.Need.Sensitive, c.asked) || (c.asked == "") != (a.Need.Sensitive == "") {
			t.Errorf("%v: %s, %+v", c.args, data, a.Need)
		}
		path := at(c.args["path"].(string))
		if _, err := a.Run(context.Background(), nil); err != nil || !gonePath(path) {
			t.Errorf("%v: %v, gone %v", c.args, err, gonePath(path))
		}
	}
	if content(t, out) != "kept" {
		t.Error("what a link pointed at was removed")
	}
}

func TestDeleteRefuses(t *testing.T) {
	e := &Env{Cwd: filepath.Join(tempDir(t), "in", "cwd")}
	put(t, filepath.Join(e.Cwd, "full/x"), "x")
	more := tempDir(t)
	e.Dirs = []string{more}
	for path, want := range map[string]string{
		"full": "with recursive all of them are removed", "none": "there is no such file", ".": "stays where it is", "..": "stays where it is", "/": "stays where it is",
		more: "stays where it is", "": "the path is empty",
	} {
		_, err := plan(t, DeleteFile{}, e, m{"path": path})
		wantError(t, err, want)
		if path == "full" {
			continue
		}
		if _, err := plan(t, DeleteFile{}, e, m{"path": path, "recursive": true}); err == nil {
			t.Errorf("%q is removed recursively", path)
		}
	}
	put(t, filepath.Join(e.Cwd, ".env"), "k")
	if a, err := plan(t, DeleteFile{}, e, m{"path": ".env"}); err != nil || a.Need.Sensitive == "" {
		t.Errorf("%+v, %v", a, err)
	}
	out := filepath.Join(tempDir(t), "x")
	put(t, out, "x")
	if a, err := plan(t, DeleteFile{}, e, m{"path": out}); err != nil || !a.Need.Outside {
		t.Errorf("%+v, %v", a, err)
	}
}

func TestWhatChangedSinceItWasShownIsNotDeletedOrMoved(t *testing.T) {
	for name, change := range map[string]func(t *testing.T, path string){
		"text":      func(t *testing.T, path string) { put(t, path, "other") },
		"bin":       func(t *testing.T, path string) { put(t, path, "\x00other") },
		"dir":       func(t *testing.T, path string) { put(t, filepath.Join(path, "more"), "x") },
		"gone":      func(t *testing.T, path string) { os.Remove(path) },
		"to folder": func(t *testing.T, path string) { os.Remove(path); os.Mkdir(path, 0o777) },
	} {
		for _, tl := range []struct {
			Tool
			args m
		}{{DeleteFile{}, m{"path": "x", "recursive": true}}, {MoveFile{}, m{"from": "x", "to": "y"}}} {
			e := &Env{Cwd: tempDir(t)}
			path := filepath.Join(e.Cwd, "x")
			switch name {
			case "dir":
				put(t, filepath.Join(path, "a"), "x")
			case "bin":
				put(t, path, "\x00")
			default:
				put(t, path, "text")
			}
			if tl.Name() == "move_file" {
				delete(tl.args, "recursive")
			}
			a, err := plan(t, tl.Tool, e, tl.args)
			if err != nil {
				t.Fatal(name, err)
			}
			change(t, path)
			if _, err := a.Run(context.Background(), nil); err == nil || !strings.Contains(err.Error(), "nothing was done") {
				t.Errorf("%s %s: %v", tl.Name(), name, err)
			}
			if name != "gone" && gonePath(path) {
				t.Errorf("%s %s: it is gone", tl.Name(), name)
			}
		}
	}
}

func TestMoveMoves(t *testing.T) {
	e := &Env{Cwd: tempDir(t)}
	at := func(name string) string { return filepath.Join(e.Cwd, name) }
	put(t, at("a"), "text")
	put(t, at("dir/x"), "x")
	link(t, at("nowhere"), at("link"))
	for from, to := range map[string]string{"a": "new/deep/a2", "dir": "dir2", "link": "link2"} {
		a, err := plan(t, MoveFile{}, e, m{"from": from, "to": to})
		if err != nil || len(a.Locations) != 2 || len(a.Need.Grants) != 2 || a.Need.Grants[1] != at(to) || a.Title != "Move "+from+" to "+filepath.FromSlash(to) {
			t.Fatalf("%+v, %v", a, err)
		}
		r, err := a.Run(context.Background(), nil)
		if err != nil || !gonePath(at(from)) || gonePath(at(to)) || r.Locations[0].Path != at(to) {
			t.Errorf("%s: %+v, %v", from, r, err)
		}
	}
	if content(t, at("new/deep/a2")) != "text" || content(t, at("dir2/x")) != "x" {
		t.Error("the content is another")
	}
}

func TestMoveReplacesNothing(t *testing.T) {
	e := &Env{Cwd: tempDir(t)}
	at := func(name string) string { return filepath.Join(e.Cwd, name) }
	put(t, at("a"), "a")
	put(t, at("b"), "b")
	put(t, at("dir/x"), "x")
	for _, c := range []struct{ from, to, want string }{
		{"a", "b", "is there already"}, {"a", "dir", "give the whole new path"}, {"a", "a", "into itself"}, {"dir", "dir/in", "into itself"}, {"none", "c", "no such file"},
		{".", "c", "stays where it is"}, {"a", "..", "stays where it is"}, {"", "c", "the path is empty"},
	} {
		_, err := plan(t, MoveFile{}, e, m{"from": c.from, "to": c.to})
		wantError(t, err, c.want)
	}
	a, err := plan(t, MoveFile{}, e, m{"from": "a", "to": "c"})
	if err != nil {
		t.Fatal(err)
	}
	put(t, at("c"), "came in between")
	_, err = a.Run(context.Background(), nil)
	wantError(t, err, "there is something at c now")
	if content(t, at("a")) != "a" || content(t, at("c")) != "came in between" {
		t.Error("something was replaced")
	}
	put(t, at(".env"), "k")
	if a, err := plan(t, MoveFile{}, e, m{"from": ".env", "to": "plain"}); err != nil || a.Need.Sensitive == "" {
		t.Errorf("%+v, %v", a, err)
	}
	if a, err := plan(t, MoveFile{}, e, m{"from": "b", "to": filepath.Join(tempDir(t), "b")}); err != nil || !a.Need.Outside {
		t.Errorf("%+v, %v", a, err)
	}
}

// What a folder holds has other names in another place, and is judged by both.
func TestMovingAFolderIsJudgedByAllThatIsInIt(t *testing.T) {
	base := tempDir(t)
	e := &Env{Cwd: filepath.Join(base, "w"), Protected: []string{filepath.Join(base, "p/state")}}
	put(t, filepath.Join(base, "p/state/file"), "")
	for _, c := range []struct {
		holds, from, to string
		want            bool
	}{
		{"x/workflows/ci.yml", "x", ".github", true}, {".github/workflows/ci.yml", ".github", "x", true}, {"x/.github/workflows/ci.yml", "x", "y", true}, {"x/a/.git/hooks/pre-commit", "x", "y", true}, {"x/systemd/user/a.service", "x", ".config", true},
		{"x/a\tb/.git/config", "x", "y", true}, {"x/.git\t1\t2", "x", "y", false}, {"x/deep/er/key.pem", "x/deep", "y", true}, {"../p/more/a", "../p", "q", true},
		{"x/README.md", "x", ".github", false}, {"x/workflows/ci.yml", "x", "y", false}, {"x/a.go", "x", "y/z", false},
	} {
		put(t, filepath.Join(e.Cwd, c.holds), "x")
		a, err := plan(t, MoveFile{}, e, m{"from": c.from, "to": c.to})
		if err != nil || (a.Need.Sensitive != "") != c.want {
			t.Errorf("%+v: %+v, %v", c, a, err)
		}
		if !strings.HasPrefix(c.from, "..") {
			os.RemoveAll(e.Cwd)
		}
	}
}

func TestAPictureIsReadAsOne(t *testing.T) {
	e := &Env{Cwd: tempDir(t), Files: &editor{files: map[string]string{}}}
	var b bytes.Buffer
	if err := png.Encode(&b, image.NewGray(image.Rect(0, 0, 3, 2))); err != nil {
		t.Fatal(err)
	}
	put(t, filepath.Join(e.Cwd, "p.txt"), b.String()) // the name does not matter
	r, err := do(t, ReadFile{}, e, m{"path": "p.txt"})
	data := base64.StdEncoding.EncodeToString(b.Bytes())
	if err != nil || len(r.Images) != 1 || r.Images[0] != (Image{"image/png", data}) || !strings.Contains(r.Text, "3 × 2") {
		t.Fatalf("%+v, %v", r, err)
	}
	shown, err := r.Content[0].MarshalJSON()
	if want := `{"type":"content","content":{"type":"image","mimeType":"image/png","data":"` + data + `"}}`; err != nil || string(shown) != want {
		t.Errorf("%s, want %s", shown, want)
	}
	put(t, filepath.Join(e.Cwd, "large.png"), b.String()+strings.Repeat("\x00", maxPicture))
	_, err = do(t, ReadFile{}, e, m{"path": "large.png"})
	wantError(t, err, "make it smaller")
	put(t, filepath.Join(e.Cwd, "b.bmp"), "BM\x00\x00")
	_, err = do(t, ReadFile{}, e, m{"path": "b.bmp"})
	wantError(t, err, "is a binary file of 4 bytes")
	put(t, filepath.Join(e.Cwd, "v.svg"), "<svg/>")
	if r, err := do(t, ReadFile{}, e, m{"path": "v.svg"}); err != nil || r.Text != "1\t<svg/>\n" {
		t.Errorf("%+v, %v", r, err)
	}
}
