//go:build !windows

package store

import (
	"os"

	"golang.org/x/sys/unix"
)

// lockFile takes f for this process without waiting.
func lockFile(f *os.File) (bool, error) {
	for {
		switch err := unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB); err {
		case nil:
			return true, nil
		case unix.EINTR:
		case unix.EWOULDBLOCK:
			return false, nil
		default:
			return false, os.NewSyscallError("flock", err)
		}
	}
}

// letGo ends the lock on f, which closing alone does not while f is mapped.
func letGo(f *os.File) { _ = unix.Flock(int(f.Fd()), unix.LOCK_UN) }
