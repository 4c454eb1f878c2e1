package link

import (
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
)

func TestLocate(t *testing.T) {
	type env map[string]string
	for _, test := range []struct {
		name, goos string
		env        env
		owners     map[string]Owner
		want       Places
		err        string
	}{
		{name: "XDG", goos: "linux",
			env: env{"HOME": "/home/u", "XDG_CONFIG_HOME": "/c", "XDG_STATE_HOME": "/s", "XDG_RUNTIME_DIR": "/run/user/7"},
			want: Places{Config: "/c/hermesd/config.toml", State: "/s/hermesd", Log: "/s/hermesd/log", Run: "/run/user/7/hermesd",
				Socket: "/run/user/7/hermesd/hermesd.sock", Lock: "/run/user/7/hermesd/hermesd.lock", Start: "/run/user/7/hermesd/hermesd.start"}},
		{name: "XDG without HOME", goos: "linux",
			env: env{"XDG_CONFIG_HOME": "/c/", "XDG_STATE_HOME": "/s", "XDG_RUNTIME_DIR": "/r"},
			want: Places{Config: "/c/hermesd/config.toml", State: "/s/hermesd", Log: "/s/hermesd/log", Run: "/r/hermesd",
				Socket: "/r/hermesd/hermesd.sock", Lock: "/r/hermesd/hermesd.lock", Start: "/r/hermesd/hermesd.start"}},
		{name: "an editor from the dock meets a terminal", goos: "linux",
			env: env{"HOME": "/home/u"}, owners: map[string]Owner{"/run/user/7": Ours},
			want: Places{Config: "/home/u/.config/hermesd/config.toml", State: "/home/u/.local/state/hermesd", Log: "/home/u/.local/state/hermesd/log", Run: "/run/user/7/hermesd",
				Socket: "/run/user/7/hermesd/hermesd.sock", Lock: "/run/user/7/hermesd/hermesd.lock", Start: "/run/user/7/hermesd/hermesd.start"}},
		{name: "no runtime folder at all", goos: "linux",
			env: env{"HOME": "/home/u"},
			want: Places{Config: "/home/u/.config/hermesd/config.toml", State: "/home/u/.local/state/hermesd", Log: "/home/u/.local/state/hermesd/log", Run: "/home/u/.local/state/hermesd/run",
				Socket: "/home/u/.local/state/hermesd/run/hermesd.sock", Lock: "/home/u/.local/state/hermesd/run/hermesd.lock", Start: "/home/u/.local/state/hermesd/run/hermesd.start"}},
		{name: "another user's runtime folder, as after su", goos: "linux",
			env:    env{"HOME": "/root", "XDG_RUNTIME_DIR": "/run/user/1000"},
			owners: map[string]Owner{"/run/user/1000": Foreign, "/run/user/7": Foreign},
			want: Places{Config: "/root/.config/hermesd/config.toml", State: "/root/.local/state/hermesd", Log: "/root/.local/state/hermesd/log", Run: "/root/.local/state/hermesd/run",
				Socket: "/root/.local/state/hermesd/run/hermesd.sock", Lock: "/root/.local/state/hermesd/run/hermesd.lock", Start: "/root/.local/state/hermesd/run/hermesd.start"}},
		{name: "a service of the machine before a login's folder", goos: "linux",
			env: env{"HOME": "/home/u", "XDG_RUNTIME_DIR": "/run/user/7"}, owners: map[string]Owner{"/run/hermesd/by-uid/7": Ours},
			want: Places{Config: "/home/u/.config/hermesd/config.toml", State: "/home/u/.local/state/hermesd", Log: "/home/u/.local/state/hermesd/log", Run: "/run/hermesd/by-uid/7",
				Socket: "/run/hermesd/by-uid/7/hermesd.sock", Lock: "/run/hermesd/by-uid/7/hermesd.lock", Start: "/run/hermesd/by-uid/7/hermesd.start"}},
		{name: "HERMESD_HOME before everything", goos: "linux",
			env: env{"HERMESD_HOME": "/h/", "HOME": "/home/u", "XDG_STATE_HOME": "relative", "XDG_RUNTIME_DIR": "/r"},
			want: Places{Home: "/h/", Config: "/h/config.toml", State: "/h/state", Log: "/h/log", Run: "/h/run",
				Socket: "/h/run/hermesd.sock", Lock: "/h/run/hermesd.lock", Start: "/h/run/hermesd.start"}},
		{name: "macOS", goos: "darwin",
			env: env{"HOME": "/Users/u", "XDG_STATE_HOME": "/s", "XDG_RUNTIME_DIR": "/r", "TMPDIR": "/var/folders/x"},
			want: Places{Config: "/Users/u/Library/Application Support/hermesd/config.toml", State: "/Users/u/Library/Application Support/hermesd/state",
				Log: "/Users/u/Library/Logs/hermesd", Run: "/Users/u/Library/Application Support/hermesd/run",
				Socket: "/Users/u/Library/Application Support/hermesd/run/hermesd.sock",
				Lock:   "/Users/u/Library/Application Support/hermesd/run/hermesd.lock", Start: "/Users/u/Library/Application Support/hermesd/run/hermesd.start"}},
		{name: "Windows", goos: "windows",
			env: env{"LOCALAPPDATA": `C:\Users\u\AppData\Local`, "HOME": "relative"},
			want: Places{Config: `C:\Users\u\AppData\Local\hermesd\config.toml`, State: `C:\Users\u\AppData\Local\hermesd\state`,
				Log: `C:\Users\u\AppData\Local\hermesd\log`, Run: `C:\Users\u\AppData\Local\hermesd\run`,
				Socket: `C:\Users\u\AppData\Local\hermesd\run\hermesd.sock`,
				Lock:   `C:\Users\u\AppData\Local\hermesd\run\hermesd.lock`, Start: `C:\Users\u\AppData\Local\hermesd\run\hermesd.start`}},
		{name: "Windows with HERMESD_HOME", goos: "windows",
			env: env{"HERMESD_HOME": `\\host\share\h`},
			want: Places{Home: `\\host\share\h`, Config: `\\host\share\h\config.toml`, State: `\\host\share\h\state`, Log: `\\host\share\h\log`, Run: `\\host\share\h\run`,
				Socket: `\\host\share\h\run\hermesd.sock`, Lock: `\\host\share\h\run\hermesd.lock`, Start: `\\host\share\h\run\hermesd.start`}},

		{name: "relative home", goos: "linux", env: env{"HERMESD_HOME": "h"}, err: "HERMESD_HOME is the relative path"},
		{name: "relative config", goos: "linux", env: env{"HOME": "/u", "XDG_CONFIG_HOME": "./c"}, err: "XDG_CONFIG_HOME is the relative path"},
		{name: "relative state", goos: "linux", env: env{"HOME": "/u", "XDG_STATE_HOME": "~/s"}, err: "XDG_STATE_HOME is the relative path"},
		{name: "relative runtime", goos: "linux", env: env{"HOME": "/u", "XDG_RUNTIME_DIR": "run"}, err: "XDG_RUNTIME_DIR is the relative path"},
		{name: "relative HOME", goos: "darwin", env: env{"HOME": "u"}, err: "HOME is the relative path"},
		{name: "no HOME", goos: "linux", env: env{}, err: "HOME is not set"},
		{name: "no HOME on macOS", goos: "darwin", env: env{}, err: "HOME is not set"},
		{name: "no LOCALAPPDATA", goos: "windows", env: env{}, err: "LOCALAPPDATA is not set"},
		{name: "a drive's current folder is relative", goos: "windows", env: env{"LOCALAPPDATA": `C:AppData`}, err: "LOCALAPPDATA is the relative path"},
		{name: "a Unix path is relative on Windows", goos: "windows", env: env{"HERMESD_HOME": "/h"}, err: "HERMESD_HOME is the relative path"},
	} {
		t.Run(test.name, func(t *testing.T) {
			got, err := Locate(func(name string) string { return test.env[name] }, test.goos, 7,
				func(dir string) Owner { return test.owners[dir] })
			if (err == nil) != (test.err == "") || err != nil && !strings.Contains(err.Error(), test.err) {
				t.Fatalf("got error %v, want %q", err, test.err)
			}
			if got != test.want {
				t.Errorf("got  %+v\nwant %+v", got, test.want)
			}
		})
	}
}

func TestNoPlaceIsInAFolderForTemporaryFiles(t *testing.T) {
	for _, goos := range []string{"linux", "darwin", "windows"} {
		p, err := Locate(func(name string) string {
			return map[string]string{"HOME": "/u", "LOCALAPPDATA": `C:\u`, "TMPDIR": "/tmp", "TMP": `C:\tmp`, "TEMP": `C:\tmp`}[name]
		}, goos, 1, func(string) Owner { return Absent })
		if err != nil {
			t.Fatal(err)
		}
		for _, path := range []string{p.Config, p.State, p.Log, p.Run, p.Socket, p.Lock, p.Start} {
			if strings.Contains(path, "tmp") {
				t.Errorf("%s: %s", goos, path)
			}
		}
	}
}

func TestAnotherSocketHasItsOwnLocks(t *testing.T) {
	root := "/"
	if runtime.GOOS == "windows" {
		root = `C:\`
	}
	base, err := Locate(func(string) string { return root + "h" }, runtime.GOOS, 1, nil)
	if err != nil {
		t.Fatal(err)
	}
	p, err := base.WithSocket(filepath.Join(root, "d", "x.sock"))
	if err != nil {
		t.Fatal(err)
	}
	if p.Run != filepath.Join(root, "d") || p.Lock != filepath.Join(root, "d", "x.lock") || p.Start != filepath.Join(root, "d", "x.start") || p.State != base.State {
		t.Errorf("got %+v", p)
	}
	if p, err := base.WithSocket(root + "x"); err != nil || p.Run != root || p.Lock != root+"x.lock" {
		t.Errorf("got %+v, %v", p, err)
	}
	if same, err := base.WithSocket(base.Socket); err != nil || same != base {
		t.Errorf("the same socket: got %+v, %v", same, err)
	}
	if _, err := base.WithSocket("x.sock"); err == nil {
		t.Error("a relative path was taken")
	}
}

func TestHereIsWhatTheEnvironmentSays(t *testing.T) {
	dir := t.TempDir()
	t.Setenv("HERMESD_HOME", dir)
	if p, err := Here(); err != nil || p.Home != dir {
		t.Errorf("got %+v, %v", p, err)
	}
	t.Setenv("HERMESD_HOME", "x")
	if _, err := Here(); err == nil {
		t.Error("a relative path was taken")
	}
}

func mode(t *testing.T, path string) os.FileMode {
	t.Helper()
	info, err := os.Stat(path)
	if err != nil {
		t.Fatal(err)
	}
	return info.Mode().Perm()
}
