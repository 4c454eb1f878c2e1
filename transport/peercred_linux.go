package transport

import (
	"fmt"
	"net"

	"golang.org/x/sys/unix"
)

// identify asks the kernel who connected.
func identify(c *net.UnixConn) (Principal, error) {
	raw, err := c.SyscallConn()
	if err != nil {
		return Principal{}, fmt.Errorf("identifying the peer: %w", err)
	}
	var cred *unix.Ucred
	var cerr error
	if err := raw.Control(func(fd uintptr) {
		cred, cerr = unix.GetsockoptUcred(int(fd), unix.SOL_SOCKET, unix.SO_PEERCRED)
	}); err != nil {
		return Principal{}, fmt.Errorf("identifying the peer: %w", err)
	}
	if cerr != nil {
		return Principal{}, fmt.Errorf("identifying the peer: %w", cerr)
	}
	return Principal{UID: int(cred.Uid), PID: int(cred.Pid)}, nil
}
