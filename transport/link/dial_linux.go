package link

import (
	"fmt"
	"net"
	"syscall"
)

// checkListener refuses a listener of another user. The kernel remembers who
// called listen.
func checkListener(c net.Conn, _ string) error {
	raw, err := c.(*net.UnixConn).SyscallConn()
	if err != nil {
		return err
	}
	var cred *syscall.Ucred
	var cerr error
	if err := raw.Control(func(fd uintptr) {
		cred, cerr = syscall.GetsockoptUcred(int(fd), syscall.SOL_SOCKET, syscall.SO_PEERCRED)
	}); err != nil {
		return err
	}
	if cerr != nil {
		return fmt.Errorf("asking whose listener it is: %w", cerr)
	}
	return trusted(int(cred.Uid))
}
