package store

import (
	"os"

	"golang.org/x/sys/unix"
)

func syncData(f *os.File) error {
	conn, err := f.SyscallConn()
	if err != nil {
		return err
	}
	var errno error
	// Control keeps the descriptor from being closed under the call.
	err = conn.Control(func(fd uintptr) {
		for {
			if errno = unix.Fdatasync(int(fd)); errno != unix.EINTR {
				return
			}
		}
	})
	if err != nil {
		return err
	}
	return os.NewSyscallError("fdatasync", errno)
}
