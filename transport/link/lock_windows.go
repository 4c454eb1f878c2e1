package link

import (
	"os"
	"syscall"
	"unsafe"
)

const (
	lockFailImmediately = 0x1
	lockExclusive       = 0x2
	errorLockViolation  = syscall.Errno(33)
)

func lockFile(f *os.File, wait bool) error {
	proc := syscall.NewLazyDLL("kernel32.dll").NewProc("LockFileEx")
	flags := uintptr(lockExclusive)
	if !wait {
		flags |= lockFailImmediately
	}
	// One byte far behind the content: what is locked cannot be read by others,
	// and the signature is there to be read.
	at := syscall.Overlapped{OffsetHigh: 0x7fffffff}
	ok, _, err := proc.Call(f.Fd(), flags, 0, 1, 0, uintptr(unsafe.Pointer(&at)))
	switch {
	case ok != 0:
		return nil
	case err == errorLockViolation || err == syscall.ERROR_IO_PENDING:
		return ErrLocked
	}
	return err
}
