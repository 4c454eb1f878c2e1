package tool

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"
)

// listed are the files that a search finds, without folders, relative to the
// session's folder and with slashes.
func listed(t *testing.T, e *Env, args m) []string {
	t.Helper()
	if args["pattern"] == nil {
		args["pattern"] = ""
		args["include"] = "*"
	}
	args["what"] = "names"
	r, err := do(t, SearchFiles{}, e, args)
	if err != nil {
		t.Fatal(err)
	}
	var all []string
	for line := range strings.SplitSeq(r.Text, "\n") {
		if !strings.HasPrefix(line, "[") && !strings.HasSuffix(line, string(filepath.Separator)) {
			all = append(all, filepath.ToSlash(line))
		}
	}
	return all
}

// What the patterns mean is what `git check-ignore` says of them.
func TestSearchLeavesOutWhatGitIgnores(t *testing.T) {
	for _, c := range []struct {
		name    string
		files   map[string]string
		visible string
	}{
		{"names at any depth", map[string]string{".gitignore": "*.log\n# comment\n\n\\#odd\n", "a.log": "", "b/c.log": "", "#odd": "", "b/d": ""}, ".gitignore b/d"},
		{"folders", map[string]string{".gitignore": "build/\n", "build/x": "", "a/build/y": "", "b/build": ""}, ".gitignore b/build"},
		{"from the top", map[string]string{".gitignore": "/a\nb/c\n", "a": "", "d/a": "", "b/c": "", "e/b/c": ""}, ".gitignore d/a e/b/c"},
		{"taken back", map[string]string{".gitignore": "*.txt\n!keep.txt\n", "a.txt": "", "keep.txt": "", "b/keep.txt": ""}, ".gitignore b/keep.txt keep.txt"},
		{"not out of an ignored folder", map[string]string{".gitignore": "dir/\n!dir/keep\n", "dir/keep": ""}, ".gitignore"},
		{"a folder taken back is not its files", map[string]string{".gitignore": "*.log\n!/logs/\n", "logs/a.log": "", "logs/b": ""}, ".gitignore logs/b"},
		{"everything but", map[string]string{".gitignore": "/*\n!/src\n", "src/a": "", "b": ""}, "src/a"},
		{"nested", map[string]string{".gitignore": "*.o\n", "a/.gitignore": "!keep.o\n/x\n", "a/keep.o": "", "keep.o": "", "a/x": "", "x": "", "a/b/x": "", "a/b/keep.o": ""}, ".gitignore a/.gitignore a/b/keep.o a/b/x a/keep.o x"},
		{"stars", map[string]string{".gitignore": "**/gen\na/**/z\nd/**\n", "gen": "", "x/gen": "", "a/z": "", "a/b/c/z": "", "d/e/f": "", "b/z": ""}, ".gitignore b/z"},
		{"a path behind stars that begins twice", map[string]string{".gitignore": "**/a/b\n", "a/x/a/b": "", "a/c": ""}, ".gitignore a/c"},
		{"sets", map[string]string{".gitignore": "[!ab].c\n", "a.c": "", "x.c": ""}, ".gitignore a.c"},
		{"CRLF and spaces", map[string]string{".gitignore": "a.txt  \r\nb.txt\r\n", "a.txt": "", "b.txt": "", "c.txt": ""}, ".gitignore c.txt"},
		{"exclude", map[string]string{".git/info/exclude": "secret\n", ".gitignore": "!sub/secret\n", "secret": "", "sub/secret": ""}, ".gitignore sub/secret"},
	} {
		t.Run(c.name, func(t *testing.T) {
			e := &Env{Cwd: tempDir(t)}
			os.Mkdir(filepath.Join(e.Cwd, ".git"), 0o777)
			for name, text := range c.files {
				put(t, filepath.Join(e.Cwd, filepath.FromSlash(name)), text)
			}
			if got := strings.Join(listed(t, e, m{}), " "); got != c.visible {
				t.Errorf("found %q, want %q", got, c.visible)
			}
			want := 0
			for name := range c.files {
				if !strings.HasPrefix(name, ".git/") {
					want++
				}
			}
			if got := listed(t, e, m{"ignored": true}); len(got) != want {
				t.Errorf("with what is ignored: %q", got)
			}
		})
	}
}

func TestSearchBelowTheTopOfARepository(t *testing.T) {
	root := tempDir(t)
	put(t, filepath.Join(root, ".git", "info", "exclude"), "private\n")
	put(t, filepath.Join(root, ".gitignore"), "*.log\n/sub/gen\nnode_modules/\n")
	for _, f := range []string{"sub/a", "sub/a.log", "sub/gen", "sub/private", "sub/node_modules/m/a.js", "sub/node_modules/m/b.log"} {
		put(t, filepath.Join(root, filepath.FromSlash(f)), "x")
	}
	e := &Env{Cwd: filepath.Join(root, "sub")}
	if got := fmt.Sprint(listed(t, e, m{})); got != "[a]" {
		t.Errorf("found %s", got)
	}
	// What was asked for by name is looked into.
	if got := fmt.Sprint(listed(t, e, m{"path": "node_modules"})); got != "[node_modules/m/a.js node_modules/m/b.log]" {
		t.Errorf("found %s", got)
	}
	// Another working tree of the repository has the same exclude.
	tree := tempDir(t)
	put(t, filepath.Join(root, ".git", "worktrees", "t", "commondir"), "../..\n")
	put(t, filepath.Join(tree, ".git"), "gitdir: "+filepath.Join(root, ".git", "worktrees", "t")+"\n")
	put(t, filepath.Join(tree, "private"), "")
	put(t, filepath.Join(tree, "public"), "")
	if got := fmt.Sprint(listed(t, &Env{Cwd: tree}, m{})); !strings.HasSuffix(got, "public]") || strings.Contains(got, "private") {
		t.Errorf("found %s", got)
	}
}

func TestSearchTakesTheFilesThatAreIncluded(t *testing.T) {
	e := &Env{Cwd: tempDir(t)}
	for _, f := range []string{"a.go", "b.txt", "src/c.go", "src/x/d.ts", "e.ts"} {
		put(t, filepath.Join(e.Cwd, filepath.FromSlash(f)), "needle")
	}
	for include, want := range map[string]string{"*.go": "[a.go src/c.go]", "src/**/*.ts": "[src/x/d.ts]", "/e.ts": "[e.ts]", "none": "[]"} {
		if got := fmt.Sprint(listed(t, e, m{"pattern": "", "include": include})); got != want {
			t.Errorf("%s: %s, want %s", include, got, want)
		}
		r, err := do(t, SearchFiles{}, e, m{"pattern": "needle", "include": include, "what": "lines"})
		if got := r.Raw.(m)["lines"]; err != nil || got != len(strings.Fields(want))-strings.Count(want, "[]") {
			t.Errorf("%s: %v lines, %v", include, got, err)
		}
		for _, l := range r.Locations {
			if !filepath.IsAbs(l.Path) || l.Line != 1 {
				t.Errorf("%+v", l)
			}
		}
	}
	for _, args := range []m{{}, {"pattern": "("}, {"pattern": "x", "what": "all"}} {
		if _, err := plan(t, SearchFiles{}, e, args); err == nil {
			t.Errorf("%v is accepted", args)
		}
	}
}

func TestSearchDoesNotGoInCirclesNorOut(t *testing.T) {
	e := &Env{Cwd: tempDir(t)}
	put(t, filepath.Join(e.Cwd, "a/b/needle"), "needle")
	link(t, e.Cwd, filepath.Join(e.Cwd, "a/up"))
	link(t, "self", filepath.Join(e.Cwd, "a/self"))
	link(t, "/", filepath.Join(e.Cwd, "a/root"))
	r, err := do(t, SearchFiles{}, e, m{"pattern": "needle"})
	if err != nil || r.Raw.(m)["lines"] != 1 || r.Raw.(m)["files"] != 1 {
		t.Errorf("%+v, %v", r, err)
	}
	_, err = do(t, SearchFiles{}, e, m{"pattern": "needle", "path": "a/self"})
	wantError(t, err, "too many links")
}

func TestSearchOfAGiganticTreeIsBounded(t *testing.T) {
	e := &Env{Cwd: tempDir(t)}
	for i := range 40 {
		for k := range 50 {
			put(t, filepath.Join(e.Cwd, fmt.Sprintf("d%02d", i), fmt.Sprintf("f%02d", k)), "line\nline\n")
		}
	}
	p, err := e.resolve(e.Cwd)
	if err != nil {
		t.Fatal(err)
	}
	find := func(change func(*search)) Result {
		t.Helper()
		a, err := plan(t, SearchFiles{}, e, m{"pattern": "nothing there"})
		if err != nil || a == nil {
			t.Fatal(err)
		}
		s := search{at: p, re: regexp.MustCompile("nothing there"), lines: true, names: true, limit: searchLimits{maxSearched, maxFolder, maxFolderDepth, maxSearchTime}}
		change(&s)
		r, err := s.run(context.Background())
		if err != nil {
			t.Fatal(err)
		}
		return r
	}
	for _, c := range []struct {
		change func(*search)
		want   string
		files  int
	}{
		{func(*search) {}, "[0 lines and 0 names in 2000 files]", 2000},
		{func(s *search) { s.limit.entries = 101 }, "stopped after 101 files and folders", 99},
		{func(s *search) { s.limit.folder = 10 }, "of one folder only 10 entries", 100},
		{func(s *search) { s.limit.time = -time.Second }, "stopped after -1s", 0},
		{func(s *search) { s.limit.depth = 0 }, "40 could not be read", 0},
		{func(s *search) { s.re = regexp.MustCompile("line") }, "only the first 200 lines", 101},
		{func(s *search) { s.re = regexp.MustCompile("f"); s.lines = false }, "only the first 500 names", 2000},
	} {
		r := find(c.change)
		if !strings.Contains(r.Text, c.want) || r.Raw.(m)["files"] != c.files || len(r.Locations) > maxHitsLocations {
			t.Errorf("%q after %v files, want %q after %d", r.Text[strings.LastIndexByte(r.Text, '[')+0:], r.Raw.(m)["files"], c.want, c.files)
		}
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

func FuzzIgnore(f *testing.F) {
	f.Add("a/**/b\n!c\n[", "a/x/b")
	f.Add("**/\n/\n!\n\\", "a")
	f.Fuzz(func(t *testing.T, text, path string) {
		parts := strings.Split(path, "/")
		var file ignoreFile
		for line := range strings.SplitSeq(text, "\n") {
			if strings.TrimSpace(line) != "" {
				file.rules = append(file.rules, newIgnoreRule(line, nil))
			}
		}
		ignored([]ignoreFile{file}, parts, false)
		ignored([]ignoreFile{file}, parts, true)
	})
}
