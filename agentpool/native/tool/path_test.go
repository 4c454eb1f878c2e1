package tool

import (
	"os"
	"path/filepath"
	"runtime"
	"testing"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// tempDir is a folder whose path has no links in it.
func tempDir(t *testing.T) string {
	t.Helper()
	dir, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	return dir
}

func put(t *testing.T, path, text string) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(path), 0o777); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(text), 0o666); err != nil {
		t.Fatal(err)
	}
}

func link(t *testing.T, target, path string) {
	t.Helper()
	if err := os.Symlink(target, path); err != nil {
		if runtime.GOOS == "windows" {
			t.Skip("links need a privilege here: ", err)
		}
		t.Fatal(err)
	}
}

func TestPathsAreJudgedByWhereTheyLead(t *testing.T) {
	base := tempDir(t)
	cwd, dirs, outside := filepath.Join(base, "w"), filepath.Join(base, "more"), filepath.Join(base, "out")
	for _, d := range []string{cwd, dirs, outside, filepath.Join(cwd, "sub")} {
		if err := os.Mkdir(d, 0o777); err != nil {
			t.Fatal(err)
		}
	}
	put(t, filepath.Join(outside, "f"), "x")
	link(t, outside, filepath.Join(cwd, "dirlink"))
	link(t, filepath.Join(outside, "f"), filepath.Join(cwd, "filelink"))
	link(t, filepath.Join(outside, "later"), filepath.Join(cwd, "dangling"))
	link(t, "../out", filepath.Join(cwd, "rellink"))
	link(t, "filelink", filepath.Join(cwd, "twice"))
	link(t, "sub", filepath.Join(cwd, "in"))
	link(t, "loop", filepath.Join(cwd, "loop"))
	e := &Env{Cwd: cwd, Dirs: []string{dirs}}

	for _, c := range []struct {
		path, real string
		out        bool
	}{
		{"a.txt", "w/a.txt", false},
		{"./sub/../a.txt", "w/a.txt", false},
		{"new/deep/a.txt", "w/new/deep/a.txt", false},
		{".", "w", false},
		{"~/x", "w/~/x", false},
		{"../more/a", "more/a", false},
		{dirs + "/a", "more/a", false},
		{"..", "", true},
		{"../w2/a", "w2/a", true},
		{outside + "/f", "out/f", true},
		{"dirlink/f", "out/f", true},
		{"dirlink/new", "out/new", true},
		{"filelink", "out/f", true},
		{"twice", "out/f", true},
		{"dangling", "out/later", true},
		{"rellink/x/y", "out/x/y", true},
		{"in/a", "w/sub/a", false},
	} {
		p, err := e.resolve(c.path)
		if err != nil {
			t.Errorf("%s: %v", c.path, err)
			continue
		}
		if want := filepath.Join(base, c.real); p.real != want || p.out != c.out {
			t.Errorf("%s leads to %s (outside %v), want %s (%v)", c.path, p.real, p.out, want, c.out)
		}
		if !filepath.IsAbs(p.shown) {
			t.Errorf("%s is shown as %s", c.path, p.shown)
		}
	}
	for _, path := range []string{"", "a\x00b", "loop", "loop/x"} {
		if p, err := e.resolve(path); err == nil {
			t.Errorf("%q resolves to %+v", path, p)
		}
	}
}

func TestSessionFolderBehindALinkIsInside(t *testing.T) {
	base := tempDir(t)
	put(t, filepath.Join(base, "real", "a"), "x")
	link(t, filepath.Join(base, "real"), filepath.Join(base, "link"))
	e := &Env{Cwd: filepath.Join(base, "link")}
	p, err := e.resolve("a")
	if err != nil || p.out || p.shown != filepath.Join(base, "link", "a") || p.label != "a" {
		t.Errorf("%+v, %v", p, err)
	}
}

func TestSensitivePathsAreKnown(t *testing.T) {
	base := tempDir(t)
	cwd := filepath.Join(base, "w")
	put(t, filepath.Join(cwd, ".git", "config"), "")
	put(t, filepath.Join(base, "home", ".bashrc"), "")
	link(t, ".git", filepath.Join(cwd, "innocent"))
	link(t, filepath.Join(base, "home", ".bashrc"), filepath.Join(cwd, "notes.txt"))
	link(t, filepath.Join(cwd, ".env"), filepath.Join(cwd, "settings"))
	link(t, "plain", filepath.Join(cwd, ".npmrc"))
	e := &Env{Cwd: cwd, Protected: []string{filepath.Join(base, "hermesd")}}
	for path, want := range map[string]bool{
		".git/config": true, ".git/hooks/pre-commit": true, "sub/.git": true, ".GIT/config": true,
		"innocent/config": true, "notes.txt": true, "settings": true, ".npmrc": true,
		".env": true, ".env.production": true, ".ENV": true, ".envrc": true, "x/.ssh/config": true, "id_ed25519": true, "server.pem": true, "tls.key": true,
		".netrc": true, ".zshrc": true, ".github/workflows/ci.yml": true, ".gitlab-ci.yml": true, "Jenkinsfile": true, ".vscode/tasks.json": true,
		"../hermesd/config.toml": true, "/etc/hosts": true, "/usr/bin/ls": true, ".githooks/pre-commit": true, ".husky/x": true, "lefthook.yml": true, ".pre-commit-config.yaml": true, ".mcp.json": true, ".claude/settings.json": true, ".devcontainer/devcontainer.json": true,
		"../home/.config/gh/hosts.yml": true, "../home/.config/gcloud/x": true, "../home/.config/systemd/user/a.service": true, "../home/.cargo/credentials.toml": true, "../home/.m2/settings-security.xml": true, "kubeconfig": true, ".vault-token": true, "secrets.yml": true, ".vimrc": true, ".direnvrc": true,
		"x.tfstate": true, "prod.tfvars": true, "cloudbuild.yaml": true, "../Library/LaunchAgents/x.plist": true, ".config/fish/conf.d/a.fish": true, "id_ed25519_sk": true,
		"docs/secrets.md": false, "etc/hosts": false, "usr/x": false, "config/git/x": false, "credentials.go": false, "mcp.go": false, "fish/a": false, "opt": false, ".env.": true, ".env:stream": true,
		"a.txt": false, ".gitignore": false, "git/config": false, "env": false, ".github/README.md": false, "environment.go": false, "monkey.txt": false, "workflows/a": false,
	} {
		p, err := e.resolve(path)
		if err != nil {
			t.Fatal(err)
		}
		if got := e.sensitive(p); (got != "") != want {
			t.Errorf("%s: %q, want sensitive: %v", path, got, want)
		}
	}
}
