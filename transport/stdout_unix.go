//go:build !windows

package transport

import (
	"fmt"
	"os"

	"golang.org/x/sys/unix"
)

// takeStdout moves the standard output to another descriptor, on which a broken
// pipe is an error and not the end of a Go program, and lets descriptor 1 be the
// standard error.
func takeStdout() (*os.File, error) {
	fd, err := unix.FcntlInt(1, unix.F_DUPFD_CLOEXEC, 3)
	if err != nil {
		return nil, fmt.Errorf("taking the standard output: %w", err)
	}
	if err := unix.Dup2(2, 1); err != nil {
		unix.Close(fd)
		return nil, fmt.Errorf("taking the standard output: %w", err)
	}
	return os.NewFile(uintptr(fd), "stdout"), nil
}
