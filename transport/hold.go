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
// Another daemon that is just ending is waited for, for a few seconds at most.
func Hold(ctx context.Context, p link.Places) (*Lock, error) {
	return hold(ctx, p, lockWait)
}

func hold(ctx context.Context, p link.Places, wait time.Duration) (*Lock, error) {
	if err := link.CheckSocketPath(p.Socket); err != nil {
		return nil, err
	}
	if err := p.MakeRun(); err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(ctx, wait)
	defer cancel()
	for {
		l, err := link.TryLock(p.Lock)
		if err == nil {
			if err := l.Sign(os.Getpid()); err != nil {
				l.Close()
				return nil, err
			}
			return &Lock{p, l}, nil
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
