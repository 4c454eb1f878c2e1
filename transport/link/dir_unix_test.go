//go:build !windows

package link

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestPrivateDir(t *testing.T) {
	for _, test := range []struct {
		name string
		make func(t *testing.T, path string)
		err  string
	}{
		{"is made", func(*testing.T, string) {}, ""},
		{"stays", func(t *testing.T, path string) { makeDir(t, path, 0o700) }, ""},
		{"is closed to others", func(t *testing.T, path string) { makeDir(t, path, 0o755) }, ""},
		{"is closed to the group", func(t *testing.T, path string) { makeDir(t, path, 0o770) }, ""},
		{"is opened for its owner", func(t *testing.T, path string) { makeDir(t, path, 0o500) }, ""},
		{"is not taken from everybody", func(t *testing.T, path string) { makeDir(t, path, 0o777) }, "shared"},
		{"is not taken from a folder like /tmp", func(t *testing.T, path string) { makeDir(t, path, 0o770|os.ModeSticky) }, "shared"},
		{"is no file", func(t *testing.T, path string) {
			if err := os.WriteFile(path, nil, 0o600); err != nil {
				t.Fatal(err)
			}
		}, "not a directory"},
		{"is not another user's", func(t *testing.T, path string) {
			if os.Getuid() != 0 {
				t.Skip("only root can give a folder away")
			}
			makeDir(t, path, 0o700)
			if err := os.Chown(path, 12345, 12345); err != nil {
				t.Fatal(err)
			}
		}, "belongs to another user"},
	} {
		t.Run(test.name, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "a")
			test.make(t, path)
			if test.name == "is made" {
				path = filepath.Join(path, "b", "c")
			}
			before, _ := os.Stat(path)
			err := PrivateDir(path)
			if (err == nil) != (test.err == "") || err != nil && !strings.Contains(err.Error(), test.err) {
				t.Fatalf("got %v, want %q", err, test.err)
			}
			if err == nil && mode(t, path) != 0o700 {
				t.Errorf("mode %#o", mode(t, path))
			}
			if err != nil && mode(t, path) != before.Mode().Perm() {
				t.Errorf("refused, and changed to mode %#o", mode(t, path))
			}
		})
	}
}

func TestANamedSocketsFolderKeepsItsMode(t *testing.T) {
	for perm, ok := range map[os.FileMode]bool{0o700: true, 0o755: true, 0o711: true, 0o775: false, 0o777: false, 0o777 | os.ModeSticky: false} {
		dir := filepath.Join(t.TempDir(), "d")
		makeDir(t, dir, perm)
		p, err := Places{}.WithSocket(filepath.Join(dir, "x.sock"))
		if err != nil {
			t.Fatal(err)
		}
		if err := p.MakeRun(); (err == nil) != ok {
			t.Errorf("mode %v: got %v", perm, err)
		}
		if got := mode(t, dir); got != perm.Perm() {
			t.Errorf("mode %v became %v", perm, got)
		}
	}
	p, _ := Places{}.WithSocket(filepath.Join(t.TempDir(), "new", "x.sock"))
	if err := p.MakeRun(); err != nil || mode(t, p.Run) != 0o700 {
		t.Errorf("a new folder: %v, mode %v", err, mode(t, p.Run))
	}
}

func TestOwner(t *testing.T) {
	dir := t.TempDir()
	file := filepath.Join(dir, "f")
	os.WriteFile(file, nil, 0o600)
	for path, want := range map[string]Owner{dir: Ours, filepath.Join(dir, "none"): Absent, file: Foreign} {
		if got := owner(path); got != want {
			t.Errorf("owner(%s) = %v, want %v", path, got, want)
		}
	}
}

// makeDir makes a folder with a mode, whatever the umask.
func makeDir(t *testing.T, path string, perm os.FileMode) {
	t.Helper()
	if err := os.Mkdir(path, 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.Chmod(path, perm); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.Chmod(path, 0o700) })
}
