//go:build !windows

package link

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"syscall"
	"testing"
)

// script makes an executable shell script.
func script(t *testing.T, path, body string) string {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		t.Fatal(err)
	}
	// Written elsewhere and renamed: a file that is open for writing, also in a
	// process that is just being forked, cannot be executed.
	if err := os.WriteFile(path+".new", []byte("#!/bin/sh\n"+body+"\n"), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.Rename(path+".new", path); err != nil {
		t.Fatal(err)
	}
	return path
}

// options are those of a start in an empty folder with a script as hermesd.
func options(t *testing.T, daemon string) Options {
	t.Helper()
	home := filepath.Join(tempDir(t), "h")
	p, err := Locate(func(name string) string {
		if name == "HERMESD_HOME" {
			return home
		}
		return ""
	}, "linux", 1, nil)
	if err != nil {
		t.Fatal(err)
	}
	return Options{
		Places:  p,
		Environ: []string{"HERMESD=" + script(t, filepath.Join(home, "bin", "hermesd"), daemon), "HOME=" + home, "PATH=" + os.Getenv("PATH"), "NOTIFY_SOCKET=/editor"},
		scope:   func([]string) []string { return nil },
	}
}

func TestStartWaitsForReadyOrDeath(t *testing.T) {
	for _, test := range []struct{ name, daemon, err string }{
		{"ready", `echo ready >&3`, ""},
		{"ready with noise on its standard output", `echo x; echo y >&2; echo ready >&3; sleep 0`, ""},
		{"its arguments", `[ "$*" = serve ] && echo ready >&3`, ""},
		{"its environment", `[ -z "$NOTIFY_SOCKET" ] && [ "$HERMESD_READY_FD" = 3 ] && [ -n "$HOME" ] && echo ready >&3`, ""},
		{"its working folder", `[ "$PWD" = / ] && echo ready >&3`, ""},
		{"nothing to read", `read x; [ $? = 1 ] && echo ready >&3`, ""},
		{"cannot start", `echo error: the disk is full >&3`, "hermesd did not start: the disk is full"},
		{"dies without a word", `exit 3`, "ended before it was ready; see "},
		{"dies with a panic", `echo noise >&2; echo panic: ouch >&2; exit 2`, "ended before it was ready: panic: ouch; see "},
		{"dies with half a word", `printf rea >&3`, "ended before it was ready; see "},
		{"says nonsense", `echo hi >&3`, "ended before it was ready; see "},
	} {
		t.Run(test.name, func(t *testing.T) {
			o := options(t, test.daemon)
			err := start(t.Context(), o)
			if (err == nil) != (test.err == "") || err != nil && !strings.Contains(err.Error(), test.err) {
				t.Errorf("got %v, want %q", err, test.err)
			}
			if got := mode(t, filepath.Join(o.Places.Log, "stderr.log")); got != 0o600 {
				t.Errorf("stderr.log has mode %#o", got)
			}
		})
	}
}

func TestStartIsGivenUpWithItsContext(t *testing.T) {
	o := options(t, `read go <"$HOME/fifo"; exit 1`)
	fifo := filepath.Join(filepath.Dir(o.Places.State), "fifo")
	if err := syscall.Mkfifo(fifo, 0o600); err != nil {
		t.Fatal(err)
	}
	cause := errors.New("too slow")
	ctx, cancel := context.WithCancelCause(t.Context())
	cancel(cause)
	if err := start(ctx, o); !errors.Is(err, cause) {
		t.Errorf("got %v", err)
	}
	// Lets the script end, and with it the goroutine that waits for it.
	if err := os.WriteFile(fifo, []byte("go\n"), 0); err != nil {
		t.Error(err)
	}
}

func TestANamedSocketIsPassedOn(t *testing.T) {
	o := options(t, `echo "error: $*" >&3`)
	socket := filepath.Join(tempDir(t), "x.sock")
	var err error
	if o.Places, err = o.Places.WithSocket(socket); err != nil {
		t.Fatal(err)
	}
	if err := start(t.Context(), o); err == nil || !strings.Contains(err.Error(), "serve --socket "+socket) {
		t.Errorf("got %v", err)
	}
}

func TestAScopeIsUsedAndNotReliedOn(t *testing.T) {
	for _, test := range []struct{ name, systemdRun, err string }{
		{"works", `echo "$1" >"$HOME/scope"; shift 2; exec "$@"`, ""},
		{"is refused", `echo Failed to connect to bus >&2; exit 1`, ""},
		{"is not there", ``, ""},
	} {
		t.Run(test.name, func(t *testing.T) {
			o := options(t, `echo x >>"$HOME/started"; echo ready >&3`)
			home := filepath.Dir(o.Places.State)
			run := filepath.Join(home, "none")
			if test.systemdRun != "" {
				run = script(t, filepath.Join(home, "bin", "systemd-run"), test.systemdRun)
			}
			o.scope = func([]string) []string { return []string{run, "--scope", "--"} }
			err := start(t.Context(), o)
			if test.systemdRun == "" {
				// What cannot be executed is a plain error of the start.
				if err == nil {
					t.Error("no error")
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			if b, _ := os.ReadFile(filepath.Join(home, "started")); string(b) != "x\n" {
				t.Errorf("started %q times", b)
			}
			if _, err := os.Stat(filepath.Join(home, "scope")); (err == nil) != (test.name == "works") {
				t.Errorf("scope: %v", err)
			}
		})
	}
}

func TestAFailureInsideTheScopeIsNotTriedAgain(t *testing.T) {
	o := options(t, `echo x >>"$HOME/started"; echo error: no >&3`)
	home := filepath.Dir(o.Places.State)
	run := script(t, filepath.Join(home, "bin", "systemd-run"), `exec "$@"`)
	o.scope = func([]string) []string { return []string{run} }
	if err := start(t.Context(), o); err == nil || !strings.Contains(err.Error(), "hermesd did not start: no") {
		t.Errorf("got %v", err)
	}
	if b, _ := os.ReadFile(filepath.Join(home, "started")); string(b) != "x\n" {
		t.Errorf("started %q times", b)
	}
}

func TestScopeOnlyInAUserSession(t *testing.T) {
	if runtime.GOOS != "linux" {
		t.Skip("systemd is Linux's")
	}
	dir := t.TempDir()
	script(t, filepath.Join(dir, "systemd-run"), "")
	all := []string{"/run/systemd/system", "/run/user/7/systemd/private"}
	for _, test := range []struct {
		name, runtime, path string
		there               []string
		want                bool
	}{
		{"all there", "/run/user/7", dir, all, true},
		{"no XDG_RUNTIME_DIR", "", dir, all, false},
		{"another init", "/run/user/7", dir, all[1:], false},
		{"no user manager", "/run/user/7", dir, all[:1], false},
		{"no systemd-run", "/run/user/7", "/nowhere", all, false},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Setenv("PATH", test.path)
			got := scopeCommand([]string{"XDG_RUNTIME_DIR=" + test.runtime}, func(path string) (fs.FileInfo, error) {
				if slices.Contains(test.there, path) {
					return nil, nil
				}
				return nil, fs.ErrNotExist
			})
			if (got != nil) != test.want {
				t.Errorf("got %q", got)
			}
			if test.want && (got[0] != filepath.Join(dir, "systemd-run") || got[len(got)-1] != "--" || !slices.Contains(got, "--scope")) {
				t.Errorf("got %q", got)
			}
		})
	}
}

func TestFindLooksBesideAndOnPath(t *testing.T) {
	dir := t.TempDir()
	onPath := script(t, filepath.Join(dir, "path", "hermesd"), "")
	named := script(t, filepath.Join(dir, "named"), "")
	t.Setenv("PATH", filepath.Dir(onPath))
	if got, err := Find(nil); got != onPath || err != nil {
		t.Errorf("on PATH: %q, %v", got, err)
	}
	if got, err := Find([]string{"HERMESD=" + named}); got != named || err != nil {
		t.Errorf("named: %q, %v", got, err)
	}
	if _, err := Find([]string{"HERMESD=" + dir + "/none"}); err == nil || !strings.Contains(err.Error(), dir+"/none") {
		t.Errorf("named and not there: %v", err)
	}
	t.Setenv("PATH", "/nowhere")
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	beside := filepath.Join(filepath.Dir(self), "hermesd")
	if _, err := Find([]string{"PATH=/nowhere"}); err == nil || !strings.Contains(err.Error(), beside) || !strings.Contains(err.Error(), "/nowhere") {
		t.Errorf("nowhere: %v", err)
	}
	script(t, beside, "")
	defer os.Remove(beside)
	t.Setenv("PATH", filepath.Dir(onPath))
	if got, err := Find(nil); got != beside || err != nil {
		t.Errorf("beside before PATH: %q, %v", got, err)
	}
}

func TestLastWordsAreKeptSmall(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "stderr.log")
	os.WriteFile(path, make([]byte, maxLastWords+1), 0o600)
	w, err := openLastWords(dir)
	if err != nil {
		t.Fatal(err)
	}
	defer w.f.Close()
	if info, _ := os.Stat(path); info.Size() != 0 {
		t.Errorf("still %d bytes", info.Size())
	}
	if got := w.since(); got != "" {
		t.Errorf("got %q", got)
	}
	fmt.Fprintf(w.f, "%s\nlast  one\n\n", strings.Repeat("x", 10_000))
	if got := w.since(); got != ": last one" {
		t.Errorf("got %q", got)
	}
}

func TestDialSaysWhatIsWrong(t *testing.T) {
	dir := tempDir(t)
	file := filepath.Join(dir, "file")
	os.WriteFile(file, []byte("precious"), 0o600)
	stale := filepath.Join(dir, "stale")
	l, err := net.ListenUnix("unix", &net.UnixAddr{Name: stale, Net: "unix"})
	if err != nil {
		t.Fatal(err)
	}
	l.SetUnlinkOnClose(false)
	l.Close()
	long := filepath.Join(dir, strings.Repeat("x", MaxSocketPath(runtime.GOOS)))
	for _, test := range []struct {
		name, path string
		none       bool
		err        string
	}{
		{"nothing", filepath.Join(dir, "none"), true, "no hermesd is running"},
		{"no folder", filepath.Join(dir, "a", "b", "none"), true, "no hermesd is running"},
		{"left by a crash", stale, true, "no hermesd is running"},
		{"a file", file, false, "is not a socket (it is a regular file)"},
		{"a folder", dir, false, "is not a socket (it is a folder)"},
		{"too long", long, false, fmt.Sprintf("too long (%d bytes, at most %d are possible)", len(long), MaxSocketPath(runtime.GOOS))},
	} {
		t.Run(test.name, func(t *testing.T) {
			_, err := Dial(t.Context(), test.path)
			if err == nil || errors.Is(err, ErrNoDaemon) != test.none || !strings.Contains(err.Error(), test.err) {
				t.Errorf("got %v, want %q", err, test.err)
			}
		})
	}
	if b, _ := os.ReadFile(file); string(b) != "precious" {
		t.Error("the file was touched")
	}
}

func TestTheLongestPathIsPossible(t *testing.T) {
	dir := tempDir(t)
	for n, ok := range map[int]bool{MaxSocketPath(runtime.GOOS): true, MaxSocketPath(runtime.GOOS) + 1: false} {
		path := dir + "/" + strings.Repeat("x", n-len(dir)-1)
		if err := CheckSocketPath(path); (err == nil) != ok {
			t.Errorf("%d bytes: %v", n, err)
		}
		if !ok {
			continue
		}
		l, err := net.Listen("unix", path)
		if err != nil {
			t.Fatalf("%d bytes: %v", n, err)
		}
		c, err := Dial(t.Context(), path)
		if err != nil {
			t.Errorf("%d bytes: %v", n, err)
		} else {
			c.Close()
		}
		l.Close()
	}
}

func TestOnlyOurListenersAndRootsAreTrusted(t *testing.T) {
	me := os.Geteuid()
	for uid, ok := range map[int]bool{me: true, 0: true, me + 1: false} {
		if err := trusted(uid); (err == nil) != ok {
			t.Errorf("uid %d: %v", uid, err)
		}
	}
}

func TestConnectDoesNotStartWhenAskedNotTo(t *testing.T) {
	o := options(t, `echo x >>"$HOME/started"; echo ready >&3`)
	o.NoStart = true
	if _, err := Connect(t.Context(), o); !errors.Is(err, ErrNoDaemon) {
		t.Errorf("got %v", err)
	}
	if _, err := os.Stat(o.Places.Run); err == nil {
		t.Error("it made a folder")
	}
}

func TestReadyIsTakenOnce(t *testing.T) {
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	fd, err := syscall.Dup(int(w.Fd()))
	w.Close()
	if err != nil {
		t.Fatal(err)
	}
	t.Setenv(ReadyFD, fmt.Sprint(fd))
	ready := TakeReady()
	if ready == nil || TakeReady() != nil {
		t.Fatal("not taken once")
	}
	if _, there := os.LookupEnv(ReadyFD); there {
		t.Error("a child would get it")
	}
	ready.Report(errors.New("two\nlines"))
	ready.Report(nil)
	var got [100]byte
	n, _ := r.Read(got[:])
	if string(got[:n]) != "error: two lines\n" {
		t.Errorf("got %q", got[:n])
	}
	if n, err := r.Read(got[:]); n != 0 {
		t.Errorf("and then %q, %v", got[:n], err)
	}
}

func TestReadyOfSomebodyElseIsLeftAlone(t *testing.T) {
	f, err := os.Create(filepath.Join(t.TempDir(), "f"))
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	for _, value := range []string{"", "x", "-1", "99999", fmt.Sprint(f.Fd())} {
		t.Setenv(ReadyFD, value)
		TakeReady().Report(nil)
	}
	if info, _ := f.Stat(); info.Size() != 0 {
		t.Error("a file that is no pipe was written to")
	}
}
