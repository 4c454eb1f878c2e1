package transport

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"runtime"
	"sync"
	"syscall"
	"time"

	"github.com/hermesd/hermesd/transport/link"
)

// Listener accepts connections on a Unix socket from peers that may connect.
type Listener struct {
	unix    *net.UnixListener
	socket  string
	file    fs.FileInfo // of the socket as it was made; nil if it is not ours to remove
	uid     int
	refused func(Principal, error)
	owned   *Lock // taken by Listen itself; nil if it is the caller's

	once   sync.Once
	closed chan struct{}
	err    error
}

// ListenConfig says where to listen.
type ListenConfig struct {
	Places link.Places

	// Lock is the lock of Places as Hold returned it. If it is nil, Listen takes
	// it and the listener gives it up when it is closed.
	Lock *Lock

	// Inherited is a listener that a service manager made and handed over. It is
	// served as it is: the socket's name is neither made nor removed. The Listener
	// owns it, also when Listen fails. May be nil.
	Inherited *net.UnixListener

	// Refused is told about peers that were turned away, for the log. It is
	// called by Accept. May be nil.
	Refused func(p Principal, why error)
}

// Listen makes the socket and listens on it. From then on clients can connect;
// they wait until Accept is called, so a daemon may listen before it has read
// its store.
//
// A socket that a crash left behind is replaced. Anything else at its path, and
// a socket on which somebody accepts, is left alone and is an error.
func Listen(ctx context.Context, c ListenConfig) (_ *Listener, err error) {
	l := &Listener{
		socket:  c.Places.Socket,
		uid:     os.Geteuid(),
		refused: c.Refused,
		closed:  make(chan struct{}),
	}
	if c.Inherited != nil {
		defer func() {
			if err != nil {
				c.Inherited.Close()
			}
		}()
	}
	if c.Lock == nil {
		if l.owned, err = Hold(ctx, c.Places); err != nil {
			return nil, err
		}
		defer func() {
			if err != nil {
				l.owned.Close()
			}
		}()
	} else if c.Lock.places.Lock != c.Places.Lock {
		return nil, fmt.Errorf("listening on %s: the lock %s is another socket's", l.socket, c.Lock.places.Lock)
	}
	if c.Inherited != nil {
		l.unix = c.Inherited
		return l, nil
	}
	if err := removeStale(ctx, l.socket); err != nil {
		return nil, err
	}
	var lc net.ListenConfig
	ln, err := lc.Listen(ctx, "unix", l.socket)
	if err != nil {
		return nil, fmt.Errorf("listening: %w", err)
	}
	l.unix = ln.(*net.UnixListener)
	l.unix.SetUnlinkOnClose(false) // Close removes it if it is still ours
	if runtime.GOOS != "windows" {
		// Until here the folder keeps others out, and the peer's name after it.
		if err = os.Chmod(l.socket, 0o600); err != nil {
			ln.Close()
			return nil, fmt.Errorf("closing the socket to other users: %w", err)
		}
	}
	if l.file, err = os.Lstat(l.socket); err != nil {
		ln.Close()
		return nil, fmt.Errorf("listening: %w", err)
	}
	return l, nil
}

// removeStale removes a socket on which nobody listens. The lock is held, so nobody
// starts to listen in between.
func removeStale(ctx context.Context, socket string) error {
	if _, err := os.Lstat(socket); errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err := link.CheckSocketFile(socket); err != nil {
		return err
	}
	conn, err := link.Dial(ctx, socket)
	if err == nil {
		conn.Close()
		return attended(socket)
	}
	if !errors.Is(err, link.ErrNoDaemon) {
		return err
	}
	if err := os.Remove(socket); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("removing a socket left by a crash: %w", err)
	}
	return nil
}

// Accept returns the next connection of a peer that may connect, or
// [net.ErrClosed] (wrapped) once the listener is closed. When the process has no
// descriptors left it waits for some, instead of failing.
func (l *Listener) Accept() (*Conn, error) {
	for {
		c, err := patiently(l.unix.AcceptUnix, l.closed)
		if err != nil {
			return nil, fmt.Errorf("accepting: %w", err)
		}
		p, err := identify(c)
		p.Network = "unix"
		p.Remote = l.socket
		if err == nil {
			err = admit(p, l.uid)
		}
		if err != nil {
			c.Close()
			if l.refused != nil {
				l.refused(p, err)
			}
			continue
		}
		return &Conn{Conn: c, Principal: p}, nil
	}
}

// admit is the rule of who may connect to a daemon of user me.
func admit(p Principal, me int) error {
	if p.UID == me || p.UID == 0 || p.UID == -1 && runtime.GOOS == "windows" {
		return nil
	}
	return fmt.Errorf("user %d may not connect to the hermesd of user %d", p.UID, me)
}

// patiently accepts, and waits while it fails for a reason that passes. What
// accept says once closed is closed is returned.
func patiently[C any](accept func() (C, error), closed <-chan struct{}) (C, error) {
	for pause := 5 * time.Millisecond; ; pause = min(2*pause, time.Second) {
		c, err := accept()
		if err == nil || !passing(err) {
			return c, err
		}
		select {
		case <-time.After(pause):
		case <-closed:
		}
	}
}

// passing tells whether accept may work again later.
func passing(err error) bool {
	for _, e := range []error{syscall.EMFILE, syscall.ENFILE, syscall.ENOBUFS, syscall.ENOMEM, syscall.ECONNABORTED} {
		if errors.Is(err, e) {
			return true
		}
	}
	return false
}

// Address returns where the listener listens.
func (l *Listener) Address() Address { return Address{Network: "unix", Path: l.socket} }

// Close ends listening and removes the socket, if it is still the one that was
// made. Connections that were accepted live on.
func (l *Listener) Close() error {
	l.once.Do(func() {
		close(l.closed)
		// First the name, then the listener: who finds the name is accepted.
		if now, err := os.Lstat(l.socket); l.file != nil && err == nil && os.SameFile(now, l.file) && now.ModTime().Equal(l.file.ModTime()) {
			l.err = os.Remove(l.socket)
		}
		l.err = errors.Join(l.err, l.unix.Close())
		if l.owned != nil {
			l.err = errors.Join(l.err, l.owned.Close())
		}
	})
	return l.err
}
