package store

import (
	"errors"
	"os"

	"golang.org/x/sys/windows"
)

// lockFile takes f for this process without waiting. The byte locked lies far
// behind the text, which others must be able to read.
func lockFile(f *os.File) (bool, error) {
	at := &windows.Overlapped{OffsetHigh: 1}
	const flags = windows.LOCKFILE_EXCLUSIVE_LOCK | windows.LOCKFILE_FAIL_IMMEDIATELY
	err := windows.LockFileEx(windows.Handle(f.Fd()), flags, 0, 1, 0, at)
	if err == nil {
		return true, nil
	}
	if errors.Is(err, windows.ERROR_LOCK_VIOLATION) || errors.Is(err, windows.ERROR_IO_PENDING) {
		return false, nil
	}
	return false, os.NewSyscallError("LockFileEx", err)
}

// letGo leaves it to the end of the process to end the lock on f.
func letGo(*os.File) {}
