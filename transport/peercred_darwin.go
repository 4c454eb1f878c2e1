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
	var cred *unix.Xucred
	var cerr error
	var pid int
	if err := raw.Control(func(fd uintptr) {
		cred, cerr = unix.GetsockoptXucred(int(fd), unix.SOL_LOCAL, unix.LOCAL_PEERCRED)
		pid, _ = unix.GetsockoptInt(int(fd), unix.SOL_LOCAL, unix.LOCAL_PEERPID)
	}); err != nil {
		return Principal{}, fmt.Errorf("identifying the peer: %w", err)
	}
	if cerr != nil {
		return Principal{}, fmt.Errorf("identifying the peer: %w", cerr)
	}
	return Principal{UID: int(cred.Uid), PID: pid}, nil
}
