package transport

import (
	"context"
	"errors"
	"io"
	"net"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"github.com/hermesd/hermesd/transport/link"
)

// managed listens on the socket as a service manager does.
func managed(t *testing.T, p link.Places) *net.UnixListener {
	t.Helper()
	if err := link.PrivateDir(filepath.Dir(p.Socket)); err != nil {
		t.Fatal(err)
	}
	ln, err := net.ListenUnix("unix", &net.UnixAddr{Name: p.Socket, Net: "unix"})
	if err != nil {
		t.Fatal(err)
	}
	ln.SetUnlinkOnClose(false)
	t.Cleanup(func() { ln.Close() })
	return ln
}

func TestAnInheritedListenerIsServedAndItsNameLeft(t *testing.T) {
	if runtime.GOOS == "windows" {
		t.Skip("no service manager there hands listeners over")
	}
	p := tempPlaces(t)
	ln := managed(t, p)
	// Somebody is there already: that is why the daemon was started.
	early, err := link.Dial(t.Context(), p.Socket)
	if err != nil {
		t.Fatal(err)
	}
	defer early.Close()
	lock, err := HoldActivated(t.Context(), p)
	if err != nil {
		t.Fatal(err)
	}
	defer lock.Close()
	l := listen(t, ListenConfig{Places: p, Lock: lock, Inherited: ln})
	c, err := l.Accept()
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	if c.Principal.UID != os.Getuid() {
		t.Errorf("the peer is %+v", c.Principal)
	}
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Lstat(p.Socket); err != nil {
		t.Errorf("the manager's socket was removed: %v", err)
	}
}

func TestADaemonStartedByHandLeavesTheManagersSocketAlone(t *testing.T) {
	p := tempPlaces(t)
	ln := managed(t, p)
	before, err := os.Lstat(p.Socket)
	if err != nil {
		t.Fatal(err)
	}
	_, err = Hold(t.Context(), p)
	if !errors.Is(err, ErrRunning) || !strings.Contains(err.Error(), "hermesd service stop") {
		t.Fatalf("got %v", err)
	}
	if after, err := os.Lstat(p.Socket); err != nil || !os.SameFile(before, after) {
		t.Errorf("the socket was replaced: %v", err)
	}
	// And the one the manager starts is not kept from its work.
	lock, err := HoldActivated(t.Context(), p)
	if err != nil {
		t.Fatal(err)
	}
	defer lock.Close()
	listen(t, ListenConfig{Places: p, Lock: lock, Inherited: ln})
}

func TestAnActivatedDaemonWaitsForTheLockAndSaysWhoHasIt(t *testing.T) {
	p := tempPlaces(t)
	first, err := Hold(t.Context(), p)
	if err != nil {
		t.Fatal(err)
	}
	managed(t, p) // it accepts connections, which says nothing about the first
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := HoldActivated(ctx, p); !errors.Is(err, ErrRunning) || !strings.Contains(err.Error(), "(pid ") {
		t.Fatalf("got %v", err)
	}
	got := make(chan error)
	go func() {
		second, err := HoldActivated(t.Context(), p)
		if err == nil {
			second.Close()
		}
		got <- err
	}()
	first.Close()
	if err := <-got; err != nil {
		t.Errorf("after its end: %v", err)
	}
}

func TestAManagedDaemonTakesOverWhenTheOtherEnds(t *testing.T) {
	p := tempPlaces(t)
	first := listen(t, ListenConfig{Places: p})
	waiting := make(chan error, 1)
	got := make(chan error)
	go func() {
		second, err := HoldWhenFree(t.Context(), p, func(why error) { waiting <- why })
		if err == nil {
			second.Close()
		}
		got <- err
	}()
	if err := <-waiting; !errors.Is(err, ErrRunning) {
		t.Errorf("waiting for %v", err)
	}
	first.Close()
	if err := <-got; err != nil {
		t.Error(err)
	}
	// A socket without a lock behind it is not waited for: that may be for ever.
	managed(t, p)
	if _, err := HoldWhenFree(t.Context(), p, func(error) { t.Error("it waits") }); !errors.Is(err, ErrRunning) {
		t.Errorf("got %v", err)
	}
}

func TestWhoWaitsForADaemonThatCannotStartIsToldWhy(t *testing.T) {
	p := tempPlaces(t)
	ln := managed(t, p)
	var shims []net.Conn
	for range 3 {
		c, err := link.Dial(t.Context(), p.Socket)
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
		if _, err := c.Write(link.Hello{Link: link.Number, ID: link.NewID()}.Line()); err != nil {
			t.Fatal(err)
		}
		shims = append(shims, c)
	}
	plain, err := link.Dial(t.Context(), p.Socket)
	if err != nil {
		t.Fatal(err)
	}
	defer plain.Close()
	if _, err := plain.Write([]byte(`{"jsonrpc":"2.0","id":1,"method":"initialize"}` + "\n")); err != nil {
		t.Fatal(err)
	}
	Refuse(ln, "v", errors.New("config.toml:2: x: unknown key"))
	for _, c := range shims {
		line, err := io.ReadAll(c)
		if err != nil {
			t.Fatal(err)
		}
		w, ok, err := link.ParseWelcome(line)
		if !ok || err != nil || w.Error != "hermesd did not start: config.toml:2: x: unknown key" {
			t.Errorf("got %q, %v", line, err)
		}
	}
	// What the manager listens with is a copy; nobody is left in its backlog.
	if _, err := ln.Accept(); !errors.Is(err, net.ErrClosed) {
		t.Errorf("got %v", err)
	}
}
