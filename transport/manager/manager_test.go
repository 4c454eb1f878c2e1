//go:build unix

package manager

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"
)

// TestMain makes this binary a process that says what it was handed, see
// TestWhatAManagerHandsOver.
func TestMain(m *testing.M) {
	if path, ok := os.LookupEnv("MANAGER_TEST_SOCKET"); ok {
		report(path)
		os.Exit(0)
	}
	goleak.VerifyTestMain(m)
}

func report(path string) {
	m, err := Take()
	fmt.Println("error:", err)
	fmt.Println("activated:", m.Activated(path), "foreign:", len(m.Foreign()))
	ln := m.Listener(path)
	fmt.Println("listener:", ln != nil, "again:", m.Listener(path) != nil)
	if ln != nil {
		ln.Close()
		_, err := os.Lstat(path)
		fmt.Println("name left:", err == nil)
	}
	for _, kv := range os.Environ() {
		if strings.HasPrefix(kv, "LISTEN_") || strings.HasPrefix(kv, "NOTIFY_SOCKET") || strings.HasPrefix(kv, "WATCHDOG_") {
			fmt.Println("left in the environment:", kv)
		}
	}
	m.Close()
}

func shortDir(t *testing.T) string {
	t.Helper()
	dir, err := os.MkdirTemp("", "hd")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	return dir
}

func TestWhatAManagerHandsOver(t *testing.T) {
	dir := shortDir(t)
	path := filepath.Join(dir, "a.sock")
	if err := os.Symlink(dir, dir+"-link"); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.Remove(dir + "-link") })
	tcp, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer tcp.Close()
	other, err := tcp.(*net.TCPListener).File()
	if err != nil {
		t.Fatal(err)
	}
	defer other.Close()
	plain, err := os.Create(filepath.Join(dir, "plain"))
	if err != nil {
		t.Fatal(err)
	}
	defer plain.Close()

	for name, c := range map[string]struct {
		asked string
		pid   string
		want  string
	}{
		"its socket":           {path, "$$", "activated: true foreign: 1\nlistener: true again: false\nname left: true\n"},
		"through a link":       {filepath.Join(dir+"-link", "a.sock"), "$$", "activated: true foreign: 1\nlistener: true again: false\nname left: true\n"},
		"another socket":       {path + "2", "$$", "activated: false foreign: 1\nlistener: false again: false\n"},
		"meant for its parent": {path, "1", "activated: false foreign: 0\nlistener: false again: false\n"},
	} {
		t.Run(name, func(t *testing.T) {
			os.Remove(path)
			ln, err := net.ListenUnix("unix", &net.UnixAddr{Name: path, Net: "unix"})
			if err != nil {
				t.Fatal(err)
			}
			defer ln.Close()
			f, err := ln.File()
			if err != nil {
				t.Fatal(err)
			}
			defer f.Close()
			self, err := os.Executable()
			if err != nil {
				t.Fatal(err)
			}
			cmd := exec.Command("sh", "-c", `export LISTEN_PID=`+c.pid+`; exec "$0"`, self)
			cmd.ExtraFiles = []*os.File{f, other, plain}
			cmd.Env = append(os.Environ(), "MANAGER_TEST_SOCKET="+c.asked, "LISTEN_FDS=3", "LISTEN_FDNAMES=a:b:c", "LISTEN_PIDFDID=7",
				"NOTIFY_SOCKET="+dir+"/n", "WATCHDOG_USEC=1000000", "WATCHDOG_PID=1", "GORACE=atexit_sleep_ms=0")
			out, err := cmd.CombinedOutput()
			if err != nil {
				t.Fatalf("%v\n%s", err, out)
			}
			first, rest, _ := strings.Cut(string(out), "\n")
			if rest != c.want {
				t.Errorf("got\n%s\nwant\n%s", out, c.want)
			}
			if wantErr := c.pid == "$$"; strings.Contains(first, "is no listener") != wantErr {
				t.Errorf("the plain file: %s", first)
			}
		})
	}
}

// listenNotify is a manager's end.
func listenNotify(t *testing.T) (address string, next func() string) {
	t.Helper()
	address = filepath.Join(shortDir(t), "n")
	c, err := net.ListenUnixgram("unixgram", &net.UnixAddr{Name: address, Net: "unixgram"})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	return address, func() string {
		b := make([]byte, 4096)
		_ = c.SetReadDeadline(time.Now().Add(10 * time.Second))
		n, err := c.Read(b)
		if err != nil {
			t.Fatal(err)
		}
		return string(b[:n])
	}
}

func TestWhatTheManagerIsTold(t *testing.T) {
	address, next := listenNotify(t)
	t.Setenv("NOTIFY_SOCKET", address)
	m, err := Take()
	if err != nil {
		t.Fatal(err)
	}
	if _, left := os.LookupEnv("NOTIFY_SOCKET"); left || !m.Watched() {
		t.Error("the address is still in the environment")
	}
	for _, c := range []struct {
		say  func() error
		want string
	}{
		{func() error { return m.Status("waiting\n1 s", 2*time.Second) }, "STATUS=waiting 1 s\nEXTEND_TIMEOUT_USEC=32000000"},
		{func() error { return m.Ready("3 sessions") }, "READY=1\nSTATUS=3 sessions"},
		{func() error { return m.Status("x", 0) }, "STATUS=x"},
		{func() error { return m.Stopping("turns end") }, "STOPPING=1\nSTATUS=turns end"},
		{func() error { return m.Failed(errors.New("a\nREADY=1")) }, "STATUS=a READY=1"},
	} {
		if err := c.say(); err != nil {
			t.Fatal(err)
		}
		if got := next(); got != c.want {
			t.Errorf("got %q, want %q", got, c.want)
		}
	}
}

func TestNobodyIsTold(t *testing.T) {
	for _, name := range []string{"NOTIFY_SOCKET", "WATCHDOG_USEC", "LISTEN_FDS"} {
		t.Setenv(name, "")
	}
	m, err := Take()
	if err != nil || m.Watched() || m.Ready("x") != nil || m.Activated("/x") {
		t.Errorf("got %+v, %v", m, err)
	}
	m.Watch(context.Background(), func(context.Context) error { t.Error("asked"); return nil }) // returns
}

func TestTheWatchdogIsFedOnlyByTheLiving(t *testing.T) {
	address, next := listenNotify(t)
	m := &Manager{notify: address, watchdog: 20 * time.Millisecond}
	ctx, cancel := context.WithCancel(t.Context())
	asked := make(chan bool)
	done := make(chan struct{})
	go func() {
		defer close(done)
		m.Watch(ctx, func(limited context.Context) error {
			if _, ok := limited.Deadline(); !ok {
				t.Error("it may take for ever")
			}
			select {
			case alive := <-asked:
				if !alive {
					return errors.New("stuck")
				}
			case <-ctx.Done():
				return ctx.Err()
			}
			return nil
		})
	}()
	asked <- true
	if got := next(); got != "WATCHDOG=1" {
		t.Errorf("got %q", got)
	}
	for range 3 {
		asked <- false
	}
	asked <- true
	if got := next(); got != "WATCHDOG=1" {
		t.Errorf("got %q", got)
	}
	cancel()
	<-done
	// What was sent is one for each time it lived: nothing more is there.
	if err := m.tell("end"); err != nil {
		t.Fatal(err)
	}
	if got := next(); got != "end" {
		t.Errorf("a stuck process was reported as alive: %q", got)
	}
}
