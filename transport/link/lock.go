package link

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strconv"
	"strings"
)

// ErrLocked: somebody else holds the lock.
var ErrLocked = errors.New("locked by another process")

// Lock is an exclusive lock on a file. The kernel gives it up when the process
// ends, however it ends. The file stays when the lock is given up: removing it
// would let two processes hold two files of one name.
type Lock struct{ f *os.File }

// TryLock takes the lock of a file, which it makes if needed, or says
// [ErrLocked] at once.
func TryLock(path string) (*Lock, error) {
	return take(path, false)
}

// WaitLock takes the lock of a file as soon as nobody else holds it. When ctx
// ends first, a goroutine stays behind that takes the lock when it can and
// gives it up again.
func WaitLock(ctx context.Context, path string) (*Lock, error) {
	if l, err := TryLock(path); !errors.Is(err, ErrLocked) {
		return l, err
	}
	type result struct {
		l   *Lock
		err error
	}
	done := make(chan result)
	go func() {
		l, err := take(path, true)
		select {
		case done <- result{l, err}:
		case <-ctx.Done():
			if l != nil {
				l.Close()
			}
		}
	}()
	select {
	case r := <-done:
		return r.l, r.err
	case <-ctx.Done():
		return nil, fmt.Errorf("waiting for the lock %s: %w", path, context.Cause(ctx))
	}
}

func take(path string, wait bool) (*Lock, error) {
	for {
		f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE, 0o600)
		if err != nil {
			return nil, fmt.Errorf("opening the lock: %w", err)
		}
		if err := lockFile(f, wait); err != nil {
			f.Close()
			return nil, fmt.Errorf("locking %s: %w", path, err)
		}
		// Somebody may have removed the file in between; a lock on a file that
		// has no name any more keeps nobody out.
		held, err1 := f.Stat()
		named, err2 := os.Stat(path)
		if err1 == nil && err2 == nil && os.SameFile(held, named) {
			return &Lock{f}, nil
		}
		f.Close()
		if err1 != nil {
			return nil, fmt.Errorf("checking the lock: %w", err1)
		}
		if err2 != nil && !os.IsNotExist(err2) {
			return nil, fmt.Errorf("checking the lock: %w", err2)
		}
	}
}

// Sign writes the process id into the lock, for [Holder].
func (l *Lock) Sign(pid int) error {
	if err := l.f.Truncate(0); err != nil {
		return fmt.Errorf("signing the lock: %w", err)
	}
	if _, err := l.f.WriteAt([]byte(strconv.Itoa(pid)+"\n"), 0); err != nil {
		return fmt.Errorf("signing the lock: %w", err)
	}
	return nil
}

// Close gives the lock up, and takes the signature back.
func (l *Lock) Close() error {
	l.f.Truncate(0) // best effort: Holder is for messages only
	return l.f.Close()
}

// Holder returns the process that signed the lock last, or 0. It says nothing
// about whether the lock is held: a killed process leaves its signature.
func Holder(path string) int {
	b, err := os.ReadFile(path)
	if err != nil {
		return 0
	}
	pid, err := strconv.Atoi(strings.TrimSpace(string(b)))
	if err != nil || pid < 0 {
		return 0
	}
	return pid
}
