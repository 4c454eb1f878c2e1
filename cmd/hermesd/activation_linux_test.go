package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/hermesd/hermesd/daemon/daemontest"
	"github.com/hermesd/hermesd/transport/acpclient"
)

// activated is systemd-socket-activate, which listens on a home's socket and
// becomes hermesd when somebody comes.
type activated struct {
	*exec.Cmd
	home   *daemontest.Home
	notify *net.UnixConn // what the daemon tells its manager
	out    bytes.Buffer
	done   chan struct{} // closed when it has ended
}

func activate(t *testing.T, bin, config string) *activated {
	t.Helper()
	tool, err := exec.LookPath("systemd-socket-activate")
	if err != nil {
		daemontest.Skip(t, "socket activation (systemd is not installed)")
	}
	home, err := daemontest.NewHome(bin, config)
	if err != nil {
		t.Fatal(err)
	}
	a := &activated{home: home, done: make(chan struct{})}
	t.Cleanup(func() {
		if err := home.Close(); err != nil {
			t.Error(err)
		}
		<-a.done
		if t.Failed() {
			t.Logf("it says\n%s", &a.out)
		}
	})
	if err := os.Mkdir(filepath.Join(home.Dir, "run"), 0o700); err != nil {
		t.Fatal(err)
	}
	address := filepath.Join(home.Dir, "notify")
	if a.notify, err = net.ListenUnixgram("unixgram", &net.UnixAddr{Name: address, Net: "unixgram"}); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { a.notify.Close() })
	args := []string{"--listen=" + home.Socket(), "--setenv=NOTIFY_SOCKET=" + address}
	for _, kv := range home.Env {
		args = append(args, "--setenv="+kv)
	}
	a.Cmd = exec.Command(tool, append(args, filepath.Join(bin, "hermesd"), "serve", "--service")...)
	a.Env, a.Dir = home.Env, "/"
	a.Stdout, a.Stderr = &a.out, &a.out
	a.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	if err := a.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = a.Process.Signal(syscall.SIGTERM) }) // before the home is closed
	go func() {
		_ = a.Wait()
		close(a.done)
	}()
	for limit := time.Now().Add(10 * time.Second); ; time.Sleep(time.Millisecond) {
		if _, err := os.Lstat(home.Socket()); err == nil {
			break
		}
		if time.Now().After(limit) {
			t.Fatal("systemd-socket-activate does not listen")
		}
	}
	return a
}

// told reads what the daemon tells its manager until it says want.
func (a *activated) told(t *testing.T, want string) {
	t.Helper()
	b := make([]byte, 4096)
	for {
		_ = a.notify.SetReadDeadline(time.Now().Add(30 * time.Second))
		n, err := a.notify.Read(b)
		if err != nil {
			t.Fatalf("the manager is never told %s: %v", want, err)
		}
		if strings.Contains(string(b[:n]), want) {
			return
		}
	}
}

// call runs a command in the home.
func (a *activated) call(t *testing.T, program string, args ...string) (said string, code int) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	cmd := exec.CommandContext(ctx, filepath.Join(a.home.Bin, program), args...)
	cmd.Dir, cmd.Env = a.home.Work, a.home.Env
	out, err := cmd.CombinedOutput()
	if cmd.ProcessState == nil || ctx.Err() != nil {
		t.Fatalf("%s %v: %v\n%s", program, args, err, out)
	}
	return string(out), cmd.ProcessState.ExitCode()
}

// pid is that of the daemon which serves.
func (a *activated) pid(t *testing.T) int {
	t.Helper()
	said, _ := a.call(t, "hermesd", "status", "--json")
	var s struct{ PID int }
	if err := json.Unmarshal([]byte(said), &s); err != nil {
		t.Fatalf("%v\n%s", err, said)
	}
	return s.PID
}

// ended waits for the daemon's end and gives its exit code.
func (a *activated) ended(t *testing.T) int {
	t.Helper()
	select {
	case <-a.done:
	case <-time.After(30 * time.Second):
		t.Fatal("the daemon does not end")
	}
	return a.ProcessState.ExitCode()
}

func TestSocketActivation(t *testing.T) {
	bin := t.TempDir()
	if err := daemontest.Build(t.Context(), bin, daemontest.RaceFlags()...); err != nil {
		t.Fatal(err)
	}
	const offline = "[agents.hermes]\nprovider = \"offline\"\n"

	t.Run("a shim that may start nothing is served", func(t *testing.T) {
		a := activate(t, bin, offline)
		before, err := os.Lstat(a.home.Socket())
		if err != nil {
			t.Fatal(err)
		}
		cmd := exec.Command(filepath.Join(bin, "hermes-acp-shim"), "--no-start")
		cmd.Dir, cmd.Env = a.home.Work, a.home.Env
		editor, err := acpclient.Spawn(cmd, acpclient.Options{Name: "editor"})
		if err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		if _, err := editor.Initialize(ctx); err != nil {
			t.Fatalf("%v\n%s", err, editor.Stderr())
		}
		if err := editor.Close(); err != nil {
			t.Error(err)
		}
		a.told(t, "READY=1")
		// systemd-socket-activate becomes the program it starts.
		if got := a.pid(t); got != a.Process.Pid {
			t.Errorf("process %d serves, not the activated one, %d", got, a.Process.Pid)
		}
		// Never two.
		if said, code := a.call(t, "hermesd", "serve"); code != exitFailed || !strings.Contains(said, fmt.Sprintf("(pid %d)", a.Process.Pid)) {
			t.Errorf("a second daemon exits %d and says %s", code, said)
		}
		if said, code := a.call(t, "hermesd", "chat", "say hello"); code != 0 || !strings.Contains(said, "hello") {
			t.Errorf("chat exits %d and says %s", code, said)
		}
		if said, code := a.call(t, "hermesd", "stop"); code != 0 {
			t.Errorf("stop: %s", said)
		}
		a.told(t, "STOPPING=1")
		if code := a.ended(t); code != 0 {
			t.Errorf("it exits %d", code)
		}
		if after, err := os.Lstat(a.home.Socket()); err != nil || !os.SameFile(before, after) {
			t.Errorf("the manager's socket is another one now: %v", err)
		}
	})

	t.Run("a daemon started by hand leaves the manager's socket alone", func(t *testing.T) {
		a := activate(t, bin, offline)
		if said, code := a.call(t, "hermesd", "serve"); code != exitFailed || !strings.Contains(said, "hermesd service stop") {
			t.Errorf("it exits %d and says %s", code, said)
		}
		a.told(t, "READY=1")
		if got := a.pid(t); got != a.Process.Pid {
			t.Errorf("process %d serves, not the activated one, %d", got, a.Process.Pid)
		}
	})

	t.Run("a wrong configuration is told to who waits, and is no reason to start again", func(t *testing.T) {
		a := activate(t, bin, "[permissions]\ntimeuot = \"1s\"\n")
		said, code := a.call(t, "hermes-acp-shim")
		if code != exitFailed || !strings.Contains(said, "config.toml:2: permissions.timeuot: unknown key") {
			t.Errorf("the shim exits %d and says %s", code, said)
		}
		a.told(t, "STATUS=")
		if code := a.ended(t); code != exitMisconfigured {
			t.Errorf("it exits %d", code)
		}
		// Nobody is left in the backlog for whom it would be started again.
		last, err := os.ReadFile(filepath.Join(a.home.Dir, "state", "service.json"))
		if err != nil || !strings.Contains(string(last), `"misconfigured":true`) {
			t.Errorf("it is not remembered: %s, %v", last, err)
		}
	})
}
