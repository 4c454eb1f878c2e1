package store

import (
	"os"

	"golang.org/x/sys/unix"
)

// reserve gives the file blocks up to size, which read as zeros until they are
// written.
func reserve(f *os.File, from, size int64) error {
	conn, err := f.SyscallConn()
	if err != nil {
		return err
	}
	var errno error
	err = conn.Control(func(fd uintptr) {
		for {
			if errno = unix.Fallocate(int(fd), 0, from, size-from); errno != unix.EINTR {
				return
			}
		}
	})
	if err != nil {
		return err
	}
	return os.NewSyscallError("fallocate", errno)
}
