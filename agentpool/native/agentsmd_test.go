//go:build unix

package native

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"unicode/utf8"
)

func TestWhatAProjectSaysToAgents(t *testing.T) {
	root := t.TempDir()
	write := func(name, text string) {
		t.Helper()
		path := filepath.Join(root, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	write("AGENTS.md", "OUTSIDE")
	write("repo/.git/HEAD", "ref: refs/heads/main")
	write("repo/AGENTS.md", "  root\n")
	write("repo/a/AGENTS.md", "middle")
	write("repo/a/b/AGENTS.md/not", "a folder of this name")
	write("repo/a/b/c/AGENTS.md", strings.Repeat("ä", maxProjectFile)+"END")
	write("repo/empty/AGENTS.md", " \n")
	write("alone/AGENTS.md", "alone")

	got := projectWords(filepath.Join(root, "repo/a/b/c"))
	i, j, k := strings.Index(got, ">\nroot\n<"), strings.Index(got, ">\nmiddle\n<"), strings.Index(got, "ää")
	if i < 0 || j < i || k < j || strings.Contains(got, "OUTSIDE") {
		t.Errorf("in the repository: %.300s", got)
	}
	if !strings.Contains(got, "not shown") || strings.Contains(got, "END") || !utf8.ValidString(got) || strings.Contains(got, "\uFFFD") {
		t.Error("the long file is not cut well")
	}
	if got := projectWords(filepath.Join(root, "alone")); !strings.Contains(got, "alone") || strings.Contains(got, "OUTSIDE") {
		t.Errorf("without a repository: %s", got)
	}
	if got := projectWords(filepath.Join(root, "repo/empty")); !strings.Contains(got, "root") || strings.Count(got, "<instructions") != 1 {
		t.Errorf("beside an empty file: %s", got)
	}
	if got := projectWords(filepath.Join(root, "gone")); got != "" {
		t.Errorf("in no folder: %s", got)
	}
}

func TestALinkedAgentsFileTellsNoSecrets(t *testing.T) {
	root := t.TempDir()
	repo := filepath.Join(root, "repo")
	if err := os.MkdirAll(filepath.Join(repo, ".git"), 0o700); err != nil {
		t.Fatal(err)
	}
	for name, text := range map[string]string{"id.md": "OUTSIDE", "repo/.env": "KEY", "repo/CLAUDE.md": "words"} {
		if err := os.WriteFile(filepath.Join(root, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	for target, want := range map[string]bool{"../id.md": false, ".env": false, "CLAUDE.md": true, "gone.md": false, "AGENTS.md": false} {
		link := filepath.Join(repo, "AGENTS.md")
		_ = os.Remove(link)
		if err := os.Symlink(target, link); err != nil {
			t.Fatal(err)
		}
		got := projectWords(repo)
		if strings.Contains(got, "words") != want || strings.Contains(got, "OUTSIDE") || strings.Contains(got, "KEY") {
			t.Errorf("linked to %s: %q", target, got)
		}
	}
}

// It is the session's folder that counts, not the daemon's, and what was read
// at the first request stays for the session's life.
func TestAgentsFilesAreReadOncePerSession(t *testing.T) {
	m := &script{}
	w := newWorld(t, Config{LLM: m})
	path := filepath.Join(w.dir, "AGENTS.md")
	if err := os.WriteFile(path, []byte("use tabs"), 0o600); err != nil {
		t.Fatal(err)
	}
	w.prompt("one")
	if err := os.WriteFile(path, []byte("use spaces"), 0o600); err != nil {
		t.Fatal(err)
	}
	w.prompt("two")
	if !strings.Contains(m.requests[0].System, "use tabs") || m.requests[1].System != m.requests[0].System {
		t.Errorf("%q", m.requests[1].System)
	}
}
