// Package manager answers: what did a service manager hand to this process, and
// how is it told how the process fares? It speaks the protocol of systemd
// (sd_listen_fds(3), sd_notify(3)); under any other parent there is nothing to
// take and nobody to tell, and everything here does nothing.
//
// go-systemd was chosen for the descriptors and the watchdog's interval: it is
// what systemd's own documentation names for Go, and small. It reads the
// address of the notification socket from the environment at every message;
// here that is taken out of the environment at once, so that no agent and no
// command can speak for the daemon, and the one write it takes is done here.
//
// # Concurrency
//
// A Manager is safe for concurrent use. It owns no goroutine.
package manager

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"strings"
	"sync"
	"time"

	"github.com/coreos/go-systemd/v22/activation"
	"github.com/coreos/go-systemd/v22/daemon"
)

// Manager is whoever started this process and watches it. The zero Manager is
// nobody.
type Manager struct {
	notify   string        // address of the notification socket, "" if there is none
	watchdog time.Duration // within which it wants to hear from us, 0 if it does not

	mu        sync.Mutex
	listeners []*net.UnixListener // not yet taken
	foreign   []string            // what else was handed over
}

// Take takes what the manager handed over, and out of the environment what it
// was announced with. It comes before the first child is started and is called
// once. An error says what could not be used; the Manager is usable all the
// same.
func Take() (*Manager, error) {
	m := &Manager{notify: os.Getenv("NOTIFY_SOCKET")}
	os.Unsetenv("NOTIFY_SOCKET")
	var err error
	m.watchdog, err = daemon.SdWatchdogEnabled(true)
	defer os.Unsetenv("LISTEN_PIDFDID") // systemd 259 has it beside LISTEN_PID
	for _, f := range activation.Files(true) {
		ln, lerr := net.FileListener(f) // a copy of the descriptor
		f.Close()
		unix, ok := ln.(*net.UnixListener)
		switch {
		case lerr != nil:
			err = errors.Join(err, fmt.Errorf("the descriptor %s of the service manager is no listener: %w", f.Name(), lerr))
		case !ok:
			m.foreign = append(m.foreign, ln.Addr().String())
			ln.Close()
		default:
			// The name belongs to the manager: it goes on listening when we end.
			unix.SetUnlinkOnClose(false)
			m.listeners = append(m.listeners, unix)
		}
	}
	return m, err
}

// Foreign names listeners that were handed over and cannot be used: everything
// but Unix sockets.
func (m *Manager) Foreign() []string { return m.foreign }

// Activated says whether a listener for the socket at path was handed over and
// not yet taken.
func (m *Manager) Activated(path string) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.find(path) >= 0
}

// Listener gives the listener for the socket at path to the caller, nil if there
// is none. Closing it leaves the socket's name alone.
func (m *Manager) Listener(path string) *net.UnixListener {
	m.mu.Lock()
	defer m.mu.Unlock()
	i := m.find(path)
	if i < 0 {
		return nil
	}
	ln := m.listeners[i]
	m.listeners = append(m.listeners[:i], m.listeners[i+1:]...)
	return ln
}

// find looks for the listener of a path; m.mu is held.
func (m *Manager) find(path string) int {
	for i, ln := range m.listeners {
		if bound := ln.Addr().String(); bound == path || sameFile(bound, path) {
			return i
		}
	}
	return -1
}

// sameFile: one of the two may lead through a link.
func sameFile(a, b string) bool {
	x, err := os.Stat(a)
	if err != nil {
		return false
	}
	y, err := os.Stat(b)
	return err == nil && os.SameFile(x, y)
}

// Watched says whether there is somebody to tell.
func (m *Manager) Watched() bool { return m.notify != "" }

// Ready tells that connections are accepted, with a line for people.
func (m *Manager) Ready(status string) error {
	return m.tell(daemon.SdNotifyReady, "STATUS="+oneLine(status))
}

// Status tells people what the process is doing. If it is not ready yet, the
// manager is asked to wait for it for longer than limit.
func (m *Manager) Status(status string, limit time.Duration) error {
	lines := []string{"STATUS=" + oneLine(status)}
	if limit > 0 {
		lines = append(lines, fmt.Sprintf("EXTEND_TIMEOUT_USEC=%d", (limit+30*time.Second).Microseconds()))
	}
	return m.tell(lines...)
}

// Stopping tells that the process is about to end.
func (m *Manager) Stopping(status string) error {
	return m.tell(daemon.SdNotifyStopping, "STATUS="+oneLine(status))
}

// Failed tells why the process is about to end.
func (m *Manager) Failed(why error) error { return m.tell("STATUS=" + oneLine(why.Error())) }

func oneLine(s string) string { return strings.Join(strings.Fields(s), " ") }

// tell sends lines as sd_notify(3) does.
func (m *Manager) tell(lines ...string) error {
	if m.notify == "" {
		return nil
	}
	c, err := net.DialUnix("unixgram", nil, &net.UnixAddr{Name: m.notify, Net: "unixgram"})
	if err != nil {
		return fmt.Errorf("telling the service manager: %w", err)
	}
	defer c.Close()
	if _, err := c.Write([]byte(strings.Join(lines, "\n"))); err != nil {
		return fmt.Errorf("telling the service manager: %w", err)
	}
	return nil
}

// Watch tells the manager, twice in the time it gives, that the process lives,
// as long as alive says so: it gets a context that ends when it is too late.
// It returns when ctx ends, at once if the manager does not want to be told.
func (m *Manager) Watch(ctx context.Context, alive func(context.Context) error) {
	if m.watchdog <= 0 || m.notify == "" {
		return
	}
	tick := time.NewTicker(m.watchdog / 2)
	defer tick.Stop()
	for {
		limited, cancel := context.WithTimeout(ctx, m.watchdog/2)
		if alive(limited) == nil {
			_ = m.tell(daemon.SdNotifyWatchdog) // a manager that cannot be told ends us, which is its right
		}
		cancel()
		select {
		case <-tick.C:
		case <-ctx.Done():
			return
		}
	}
}

// Close closes what was handed over and not taken.
func (m *Manager) Close() error {
	m.mu.Lock()
	defer m.mu.Unlock()
	var err error
	for _, ln := range m.listeners {
		err = errors.Join(err, ln.Close())
	}
	m.listeners = nil
	return err
}
