package transport

import (
	"context"
	"errors"
	"fmt"
	"os"
	"time"

	"github.com/hermesd/hermesd/transport/link"
)

// ErrRunning: another daemon has the socket.
var ErrRunning = errors.New("hermesd is already running")

// lockWait is how long a daemon waits for another one that holds the lock and
// does not accept connections: it is about to end, or about to be ready.
const lockWait = 30 * time.Second

// Lock is what makes this process the daemon of its socket.
type Lock struct {
	places link.Places
	lock   *link.Lock
}

// Hold makes this process the daemon of the places' socket, or says [ErrRunning]
// with the process that is. It comes before anything that only one daemon may
// do: opening the store, listening.
//
// Another daemon that is just ending is waited for, for a few seconds at most. A
// service manager that listens on the socket, to start a daemon when somebody
// comes, is as good as a daemon: its socket is not taken from it.
func Hold(ctx context.Context, p link.Places) (*Lock, error) {
	return hold(ctx, p, lockWait)
}

func hold(ctx context.Context, p link.Places, wait time.Duration) (*Lock, error) {
	if err := prepare(p); err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(ctx, wait)
	defer cancel()
	for {
		l, err := try(p)
		if err == nil {
			c, err := link.Dial(ctx, p.Socket)
			if err != nil { // what else may be wrong with it Listen says
				return l, nil
			}
			c.Close()
			l.Close()
			return nil, attended(p.Socket)
		}
		if !errors.Is(err, link.ErrLocked) {
			return nil, err
		}
		c, err := link.Dial(ctx, p.Socket)
		if err == nil {
			c.Close()
			return nil, running(p, "%w%s; use it, or end it with: hermesd stop")
		}
		// Locked, and nobody listens: the kernel tells when the lock is free, or
		// when somebody listens, but not whichever is first.
		select {
		case <-time.After(20 * time.Millisecond):
		case <-ctx.Done():
			return nil, running(p, "%w%s but does not accept connections on "+p.Socket+"; wait until it has ended, or end that process")
		}
	}
}

// HoldActivated is [Hold] for a daemon that was handed the listener of its
// socket. That somebody connects then proves nothing: it is our own listener.
// Another daemon that holds the lock, because it was there before the listener
// was made, is waited for until ctx ends.
func HoldActivated(ctx context.Context, p link.Places) (*Lock, error) {
	if err := prepare(p); err != nil {
		return nil, err
	}
	l, err := try(p)
	if !errors.Is(err, link.ErrLocked) {
		return l, err
	}
	waited, err := link.WaitLock(ctx, p.Lock)
	if err != nil {
		if ctx.Err() != nil {
			err = running(p, "%w%s, started by something else than the service; end it with: hermesd stop, or by its process id, then: hermesd service start")
		}
		return nil, err
	}
	return sign(p, waited)
}

// HoldWhenFree is [Hold] for a daemon that a service manager wants to have
// running: one that was started by other means is waited for until it ends, and
// told of with waiting, instead of being run into again and again. It returns
// when ctx ends.
func HoldWhenFree(ctx context.Context, p link.Places, waiting func(error)) (*Lock, error) {
	for {
		l, err := Hold(ctx, p)
		if !errors.Is(err, ErrRunning) || errors.Is(err, errAttended) || ctx.Err() != nil {
			return l, err
		}
		waiting(err)
		free, err := link.WaitLock(ctx, p.Lock)
		if err != nil {
			return nil, err
		}
		if err := free.Close(); err != nil {
			return nil, err
		}
		// It is tried again in the ordinary way: whoever starts a daemon for an
		// editor may be first.
	}
}

func prepare(p link.Places) error {
	if err := link.CheckSocketPath(p.Socket); err != nil {
		return err
	}
	return p.MakeRun()
}

// try takes the lock if it is free.
func try(p link.Places) (*Lock, error) {
	l, err := link.TryLock(p.Lock)
	if err != nil {
		return nil, err
	}
	return sign(p, l)
}

func sign(p link.Places, l *link.Lock) (*Lock, error) {
	if err := l.Sign(os.Getpid()); err != nil {
		l.Close()
		return nil, err
	}
	return &Lock{p, l}, nil
}

// attended says that somebody accepts connections on a socket whose lock is
// ours.
func attended(socket string) error {
	return fmt.Errorf("%w: somebody accepts connections on %s without holding its lock. If that is the service (see: hermesd service status), it starts hermesd by itself when somebody comes; hermesd service stop ends that. Any other process has to be ended first", errAttended, socket)
}

// errAttended: a socket has a listener that is not, or not yet, a daemon's.
var errAttended = fmt.Errorf("%w, or about to", ErrRunning)

func running(p link.Places, format string) error {
	who := ""
	if pid := link.Holder(p.Lock); pid > 0 {
		who = fmt.Sprintf(" (pid %d)", pid)
	}
	return fmt.Errorf(format, ErrRunning, who)
}

// Close lets another process become the daemon. It comes last, after the
// listener and the store are closed.
func (l *Lock) Close() error { return l.lock.Close() }
