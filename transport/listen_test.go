package transport

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/hermesd/hermesd/transport/link"
)

func listen(t *testing.T, c ListenConfig) *Listener {
	t.Helper()
	l, err := Listen(t.Context(), c)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close() })
	return l
}

func TestThePeerIsNamed(t *testing.T) {
	p := tempPlaces(t)
	l := listen(t, ListenConfig{Places: p})
	c, err := link.Dial(t.Context(), p.Socket) // before Accept
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	s, err := l.Accept()
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	want := Principal{UID: os.Getuid(), PID: os.Getpid(), Network: "unix", Remote: p.Socket}
	if runtime.GOOS == "windows" {
		want.UID, want.PID = -1, 0
	}
	if s.Principal != want {
		t.Errorf("got %+v, want %+v", s.Principal, want)
	}
	if got := l.Address().String(); got != "unix:"+p.Socket {
		t.Errorf("address %s", got)
	}

	// One direction can be closed and the other used.
	if err := s.CloseWrite(); err != nil {
		t.Fatal(err)
	}
	if b, err := io.ReadAll(c); len(b) != 0 || err != nil {
		t.Errorf("got %q, %v", b, err)
	}
	fmt.Fprint(c, "x")
	c.Close()
	if b, err := io.ReadAll(s); string(b) != "x" || err != nil {
		t.Errorf("got %q, %v", b, err)
	}
}

func TestNobodyElseGetsToTheSocket(t *testing.T) {
	if runtime.GOOS == "windows" {
		t.Skip("access lists, not modes")
	}
	p := tempPlaces(t)
	if err := os.MkdirAll(p.Run, 0o755); err != nil {
		t.Fatal(err)
	}
	os.Chmod(p.Run, 0o755)
	listen(t, ListenConfig{Places: p})
	for path, want := range map[string]fs.FileMode{p.Run: 0o700 | fs.ModeDir, p.Socket: 0o600 | fs.ModeSocket, p.Lock: 0o600} {
		if info, err := os.Lstat(path); err != nil || info.Mode() != want {
			t.Errorf("%s: %v, %v; want %v", path, info.Mode(), err, want)
		}
	}
}

func TestWhoMayConnect(t *testing.T) {
	for uid, ok := range map[int]bool{1000: true, 0: true, 1001: false, 65534: false, -1: runtime.GOOS == "windows"} {
		if err := admit(Principal{UID: uid}, 1000); (err == nil) != ok {
			t.Errorf("uid %d: %v", uid, err)
		}
	}
	if err := admit(Principal{UID: 1000}, 0); err == nil {
		t.Error("root's daemon serves a user")
	}
}

func TestADaemonThatHoldsTheLockAndDoesNotListenIsWaitedFor(t *testing.T) {
	p := tempPlaces(t)
	first, err := Hold(t.Context(), p)
	if err != nil {
		t.Fatal(err)
	}
	// It neither ends nor listens: given up after a while.
	if _, err := hold(t.Context(), p, 30*time.Millisecond); !errors.Is(err, ErrRunning) || !strings.Contains(err.Error(), "end that process") {
		t.Fatalf("got %v", err)
	}
	// It ends.
	got := make(chan error)
	go func() {
		second, err := Hold(t.Context(), p)
		if err == nil {
			second.Close()
		}
		got <- err
	}()
	first.Close()
	if err := <-got; err != nil {
		t.Errorf("after its end: %v", err)
	}
	// It begins to listen.
	if first, err = Hold(t.Context(), p); err != nil {
		t.Fatal(err)
	}
	defer first.Close()
	go func() {
		_, err := Hold(t.Context(), p)
		got <- err
	}()
	listen(t, ListenConfig{Places: p, Lock: first})
	if err := <-got; !errors.Is(err, ErrRunning) {
		t.Errorf("once it listens: %v", err)
	}
}

func TestHoldEndsWithItsContext(t *testing.T) {
	p := tempPlaces(t)
	first, err := Hold(t.Context(), p)
	if err != nil {
		t.Fatal(err)
	}
	defer first.Close()
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := Hold(ctx, p); err == nil {
		t.Error("no error")
	}
}

func TestALockIsForItsSocketOnly(t *testing.T) {
	p := tempPlaces(t)
	lock, err := Hold(t.Context(), p)
	if err != nil {
		t.Fatal(err)
	}
	defer lock.Close()
	other, err := p.WithSocket(filepath.Join(p.Run, "other.sock"))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := Listen(t.Context(), ListenConfig{Places: other, Lock: lock}); err == nil {
		t.Error("no error")
	}
	listen(t, ListenConfig{Places: other})
}

// leave leaves a socket as a crash does.
func leave(t *testing.T, path string) {
	t.Helper()
	if err := link.PrivateDir(filepath.Dir(path)); err != nil {
		t.Fatal(err)
	}
	l, err := net.ListenUnix("unix", &net.UnixAddr{Name: path, Net: "unix"})
	if err != nil {
		t.Fatal(err)
	}
	l.SetUnlinkOnClose(false)
	l.Close()
}

func TestWhatIsAtTheSocketsPath(t *testing.T) {
	for _, test := range []struct {
		name string
		put  func(t *testing.T, path string)
		err  string
	}{
		{"a socket left by a crash is replaced", leave, ""},
		{"a file is left alone", func(t *testing.T, path string) {
			os.MkdirAll(filepath.Dir(path), 0o700)
			if err := os.WriteFile(path, []byte("precious"), 0o600); err != nil {
				t.Fatal(err)
			}
		}, "is not a socket (it is a regular file)"},
		{"an empty folder is left alone", func(t *testing.T, path string) {
			if err := os.MkdirAll(path, 0o700); err != nil {
				t.Fatal(err)
			}
		}, "is not a socket (it is a folder)"},
		{"a link to a socket is left alone", func(t *testing.T, path string) {
			leave(t, path+"2")
			if err := os.Symlink(path+"2", path); err != nil {
				t.Fatal(err)
			}
		}, "is not a socket (it is a symbolic link)"},
		{"a socket on which somebody listens is left alone", func(t *testing.T, path string) {
			link.PrivateDir(filepath.Dir(path))
			l, err := net.Listen("unix", path)
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { l.Close() })
		}, "somebody accepts connections"},
	} {
		t.Run(test.name, func(t *testing.T) {
			p := tempPlaces(t)
			test.put(t, p.Socket)
			before, err := os.Lstat(p.Socket)
			if err != nil {
				t.Fatal(err)
			}
			l, err := Listen(t.Context(), ListenConfig{Places: p})
			if test.err == "" {
				if err != nil {
					t.Fatal(err)
				}
				l.Close()
				return
			}
			if err == nil || !strings.Contains(err.Error(), test.err) {
				t.Fatalf("got %v, want %q", err, test.err)
			}
			if after, err := os.Lstat(p.Socket); err != nil || !os.SameFile(before, after) {
				t.Errorf("it is gone: %v", err)
			}
			// The failure does not keep the lock.
			lock, err := hold(t.Context(), p, 0)
			if err != nil {
				t.Fatal(err)
			}
			lock.Close()
		})
	}
}

func TestAPathThatIsTooLongIsSaidWithTheRemedy(t *testing.T) {
	p := tempPlaces(t)
	long, err := p.WithSocket(filepath.Join(p.Run, strings.Repeat("x", 200)))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := Listen(t.Context(), ListenConfig{Places: long}); err == nil || !strings.Contains(err.Error(), "too long") || !strings.Contains(err.Error(), "HERMESD_HOME") {
		t.Errorf("got %v", err)
	}
}

func TestAFolderOfAnotherUserIsRefused(t *testing.T) {
	if os.Getuid() != 0 {
		t.Skip("only root can give a folder away")
	}
	p := tempPlaces(t)
	if err := os.Mkdir(p.Run, 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.Chown(p.Run, 12345, 12345); err != nil {
		t.Fatal(err)
	}
	if _, err := Listen(t.Context(), ListenConfig{Places: p}); err == nil || !strings.Contains(err.Error(), "belongs to another user") {
		t.Errorf("got %v", err)
	}
}

func TestCloseRemovesItsOwnSocketAndNoOther(t *testing.T) {
	p := tempPlaces(t)
	l := listen(t, ListenConfig{Places: p})
	accepted := make(chan error)
	go func() {
		_, err := l.Accept()
		accepted <- err
	}()
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	if err := <-accepted; !errors.Is(err, net.ErrClosed) {
		t.Errorf("Accept: %v", err)
	}
	if _, err := os.Lstat(p.Socket); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("the socket is still there: %v", err)
	}
	if err := l.Close(); err != nil {
		t.Errorf("a second Close: %v", err)
	}

	l = listen(t, ListenConfig{Places: p})
	if err := os.Rename(p.Socket, p.Socket+".old"); err != nil {
		t.Fatal(err)
	}
	leave(t, p.Socket)
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Lstat(p.Socket); err != nil {
		t.Errorf("somebody else's socket was removed: %v", err)
	}
}

func TestConnectionsOutliveTheListener(t *testing.T) {
	p := tempPlaces(t)
	l := listen(t, ListenConfig{Places: p})
	c, err := link.Dial(t.Context(), p.Socket)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	s, err := l.Accept()
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	l.Close()
	fmt.Fprint(c, "x")
	if n, err := s.Read(make([]byte, 1)); n != 1 || err != nil {
		t.Errorf("got %d, %v", n, err)
	}
}

func TestParseAddress(t *testing.T) {
	for in, want := range map[string]Address{
		"unix":                       {Network: "unix"},
		"tcp://127.0.0.1:7777":       {Network: TCP, Host: "127.0.0.1", Port: 7777},
		"tcp://[::]:7777":            {Network: TCP, Host: "::", Port: 7777},
		"tcp://box.example:1":        {Network: TCP, Host: "box.example", Port: 1},
		"tcp://:0":                   {Network: TCP},
		"tcp+insecure://[::1]:1":     {Network: PlainTCP, Host: "::1", Port: 1},
		"tcp+insecure://localhost:1": {Network: PlainTCP, Host: "localhost", Port: 1},
		"unix:/a/b.sock":             {Network: "unix", Path: "/a/b.sock"},
		"unix:///a/b.sock":           {Network: "unix", Path: "/a/b.sock"},
		"/a/b.sock":                  {Network: "unix", Path: "/a/b.sock"},
		"unix:/a:b//c.sock":          {Network: "unix", Path: "/a:b/c.sock"},
		"//a":                        {Network: "unix", Path: "/a"},
	} {
		if runtime.GOOS == "windows" && want.Path != "" {
			continue
		}
		got, err := ParseAddress(in)
		if got != want || err != nil {
			t.Errorf("%q: got %+v, %v", in, got, err)
		}
	}
	for in, want := range map[string]string{
		"":                          "write unix",
		"unix:":                     "write unix",
		"unix:rel.sock":             "write unix",
		"rel.sock":                  "write unix",
		"http://127.0.0.1:7777":     `"http" is not supported`,
		"tcp://127.0.0.1":           "write HOST:PORT",
		"tcp://::1:7777":            "write HOST:PORT",
		"tcp://a:70000":             "is no port",
		"tcp://a:http":              "is no port",
		"tcp://a b:1":               "is no name of a machine",
		"tcp://user@host:1":         "is no name of a machine",
		"tcp+insecure://0.0.0.0:1":  "without TLS",
		"tcp+insecure://:1":         "without TLS",
		"tcp+insecure://10.0.0.1:1": "without TLS",
		"unix:/a\x00b":              "NUL",
	} {
		if _, err := ParseAddress(in); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: got %v, want %q", in, err, want)
		}
	}
}

func FuzzParseAddress(f *testing.F) {
	for _, s := range []string{"unix", "unix:/a", "unix:///a", "/a", "tcp://h:1", "tcp+insecure://[::1]:1", "tcp://[fe80::1%eth0]:1", "unix:", ":", "://", "unix:unix:/a", "//0", "unix:////a"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		a, err := ParseAddress(s)
		if err != nil {
			return
		}
		if again, err := ParseAddress(a.String()); again != a || err != nil {
			t.Errorf("%q is %+v, and again %+v, %v", s, a, again, err)
		}
	})
}

func TestPrincipalIsNamedForPeople(t *testing.T) {
	for want, p := range map[string]Principal{
		"unix uid 1000 pid 7": {UID: 1000, PID: 7, Network: "unix"},
		"unix":                {UID: -1, Network: "unix"},
		"stdio uid 0":         {Network: "stdio"},
	} {
		if got := p.String(); got != want {
			t.Errorf("got %q, want %q", got, want)
		}
	}
}

// tempPlaces returns the places of a daemon in a folder of its own. Not
// t.TempDir: the name of the test would make the socket's path too long.
func tempPlaces(t *testing.T) link.Places {
	t.Helper()
	dir, err := os.MkdirTemp("", "hd")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	t.Setenv("HERMESD_HOME", dir)
	p, err := link.Here()
	if err != nil {
		t.Fatal(err)
	}
	return p
}
