package grants

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"testing"

	"go.uber.org/goleak"
	"pgregory.net/rapid"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// here is an absolute folder.
func here(t interface{ TempDir() string }) string { return t.TempDir() }

func TestAGrantHoldsInItsWorkspaceUntilItIsRevoked(t *testing.T) {
	dir, ws, other := here(t), here(t), here(t)
	f := Open(filepath.Join(dir, "state", FileName))
	if all, err := f.List(); err != nil || len(all) != 0 {
		t.Fatal(all, err)
	}
	g, err := f.Give(ws, Prefix, "go test", "s")
	if err != nil {
		t.Fatal(err)
	}
	again, err := f.Give(ws, Prefix, "go test", "other")
	if err != nil || again != g {
		t.Errorf("%+v, %v: given twice it is another one than %+v", again, err, g)
	}
	if _, err := f.Give(ws, Command, "go test", "s"); err != nil {
		t.Fatal(err)
	}
	// Another opening of the same file, as of another process.
	second := Open(f.Path())
	in, err := second.In(ws)
	if err != nil || len(in) != 2 || in[0] != g || in[1].Kind != Command {
		t.Errorf("%+v, %v", in, err)
	}
	if in, err := second.In(other); err != nil || len(in) != 0 {
		t.Errorf("another workspace has %+v, %v", in, err)
	}
	if got, err := second.Revoke(g.ID); err != nil || got != g {
		t.Errorf("%+v, %v", got, err)
	}
	if in, err := f.In(ws); err != nil || len(in) != 1 || in[0].Kind != Command {
		t.Errorf("after the revocation: %+v, %v", in, err)
	}
	if _, err := f.Revoke(g.ID); !errors.Is(err, ErrUnknown) {
		t.Error(err)
	}
	if runtime.GOOS != "windows" {
		if info, err := os.Stat(f.Path()); err != nil || info.Mode().Perm() != 0o600 {
			t.Error(info.Mode(), err)
		}
	}
	names, err := filepath.Glob(filepath.Join(dir, "state", ".grants-*"))
	if err != nil || len(names) != 0 {
		t.Error("left behind: ", names, err)
	}
}

func TestWhatIsNoGrantIsNotTaken(t *testing.T) {
	f := Open(filepath.Join(here(t), FileName))
	for _, c := range []struct {
		ws   string
		kind Kind
		what string
	}{
		{"relative", Command, "x"}, {"", Command, "x"}, {here(t), "all", "x"}, {here(t), Command, ""}, {here(t), Prefix, " \n"},
		{here(t), Command, strings.Repeat("x", maxWhat+1)},
	} {
		if g, err := f.Give(c.ws, c.kind, c.what, "s"); err == nil {
			t.Errorf("%+v is taken", g)
		}
	}
}

func TestAFileThatIsNotUnderstoodWholeGrantsNothing(t *testing.T) {
	dir, ws := here(t), here(t)
	f := Open(filepath.Join(dir, FileName))
	g, err := f.Give(ws, Command, "make", "s")
	if err != nil {
		t.Fatal(err)
	}
	good, err := os.ReadFile(f.Path())
	if err != nil {
		t.Fatal(err)
	}
	text := string(good)
	for name, bad := range map[string]string{
		"empty": "", "no JSON": "x", "cut": text[:len(text)/2], "another version": strings.Replace(text, `"version": 1`, `"version": 2`, 1),
		"an unknown field": strings.Replace(text, `"kind"`, `"until": 1, "kind"`, 1), "an unknown kind": strings.Replace(text, `"command"`, `"anything"`, 1),
		"widened by hand": strings.Replace(text, `"make"`, `"make x"`, 1), "two values": text + "{}",
		"twice": strings.Replace(text, `"grants": [`, fmt.Sprintf(`"grants": [{"id":%q,"workspace":%q,"kind":"command","what":"make","created":"2026-01-01T00:00:00Z"},`, g.ID, ws), 1),
	} {
		if err := os.WriteFile(f.Path(), []byte(bad), 0o600); err != nil {
			t.Fatal(err)
		}
		if in, err := f.In(ws); err == nil || len(in) != 0 {
			t.Errorf("%s: %+v, %v", name, in, err)
		}
		if _, err := f.Give(ws, Command, "x", "s"); err == nil {
			t.Errorf("%s: it is replaced", name)
		}
		if now, _ := os.ReadFile(f.Path()); string(now) != bad {
			t.Errorf("%s: it was touched", name)
		}
	}
	if err := os.WriteFile(f.Path(), good, 0o600); err != nil {
		t.Fatal(err)
	}
	if in, err := f.In(ws); err != nil || len(in) != 1 {
		t.Error(in, err)
	}
	if runtime.GOOS != "windows" {
		if err := os.Chmod(f.Path(), 0o620); err != nil {
			t.Fatal(err)
		}
		if in, err := f.In(ws); err == nil || len(in) != 0 || !strings.Contains(err.Error(), "chmod 600") {
			t.Errorf("a file others can write grants %+v, %v", in, err)
		}
	}
}

func TestManyWritersLoseNothing(t *testing.T) {
	dir, ws := here(t), here(t)
	path := filepath.Join(dir, FileName)
	var wg sync.WaitGroup
	const writers, each = 4, 8
	for w := range writers {
		wg.Go(func() {
			f := Open(path)
			for i := range each {
				if _, err := f.Give(ws, Command, fmt.Sprintf("run %d %d", w, i), "s"); err != nil {
					t.Error(err)
				}
				if _, err := f.In(ws); err != nil { // never a half-written file
					t.Error(err)
				}
			}
		})
	}
	wg.Wait()
	if in, err := Open(path).In(ws); err != nil || len(in) != writers*each {
		t.Error(len(in), err)
	}
}

// Whatever is given and revoked, the file says exactly what is left, to whoever
// had it open and to whoever opens it now.
func TestTheFileIsWhatWasGivenAndNotRevoked(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		dir, err := os.MkdirTemp("", "grants")
		if err != nil {
			rt.Fatal(err)
		}
		defer os.RemoveAll(dir)
		old := Open(filepath.Join(dir, FileName))
		model := map[string]Grant{}
		for range rapid.IntRange(1, 12).Draw(rt, "steps") {
			ws := filepath.Join(dir, rapid.SampledFrom([]string{"a", "b"}).Draw(rt, "workspace"))
			kind, what := rapid.SampledFrom(kinds).Draw(rt, "kind"), rapid.SampledFrom([]string{"x", "x y", "\"é\n"}).Draw(rt, "what")
			f := old
			if rapid.Bool().Draw(rt, "afresh") {
				f = Open(old.Path())
			}
			key := id(ws, kind, what)
			if rapid.Bool().Draw(rt, "revoke") {
				_, err := f.Revoke(key)
				if _, there := model[key]; there != (err == nil) {
					rt.Fatal(err)
				}
				delete(model, key)
			} else if g, err := f.Give(ws, kind, what, "s"); err != nil {
				rt.Fatal(err)
			} else {
				model[key] = g
			}
			for _, f := range []*File{old, Open(old.Path())} {
				all, err := f.List()
				if err != nil || len(all) != len(model) {
					rt.Fatalf("%+v, %v, want %+v", all, err, model)
				}
				for _, g := range all {
					if model[g.ID].What != g.What || model[g.ID].Workspace != g.Workspace || model[g.ID].Kind != g.Kind {
						rt.Fatalf("%+v, want %+v", g, model[g.ID])
					}
				}
			}
		}
	})
}

func FuzzParse(f *testing.F) {
	f.Add([]byte(`{"version":1,"grants":[]}`))
	f.Add([]byte(`{"version":1,"grants":[{"id":"grant_0","workspace":"/","kind":"command","what":"x","created":"2026-01-01T00:00:00Z"}]}`))
	f.Fuzz(func(t *testing.T, text []byte) {
		c, err := parse(text)
		if err != nil {
			return
		}
		for _, g := range c.Grants {
			if err := check(g); err != nil {
				t.Error(err)
			}
		}
	})
}

func TestTheWorkspaceIsTheRepository(t *testing.T) {
	base, err := filepath.EvalSymlinks(here(t))
	if err != nil {
		t.Fatal(err)
	}
	mk := func(parts ...string) string {
		p := filepath.Join(append([]string{base}, parts...)...)
		if err := os.MkdirAll(p, 0o777); err != nil {
			t.Fatal(err)
		}
		return p
	}
	home := mk("home")
	t.Setenv("HOME", home)
	t.Setenv("USERPROFILE", home)
	mk("home", ".git") // dotfiles
	mk("home", "repo", ".git")
	deep := mk("home", "repo", "a", "b")
	plain := mk("home", "plain", "x")
	tree := mk("tree")
	if err := os.WriteFile(filepath.Join(tree, ".git"), []byte("gitdir: elsewhere"), 0o666); err != nil {
		t.Fatal(err)
	}
	below := mk("tree", "sub")
	for cwd, want := range map[string]string{
		deep: filepath.Join(home, "repo"), filepath.Join(home, "repo"): filepath.Join(home, "repo"),
		plain: plain, home: home, below: tree, filepath.Join(base, "gone"): filepath.Join(base, "gone"),
	} {
		if got := Workspace(cwd); got != want {
			t.Errorf("%s: %s, want %s", cwd, got, want)
		}
	}
}
