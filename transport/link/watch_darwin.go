package link

import (
	"os"
	"syscall"
)

// watch reports when the parent has ended. The other departures are noticed by
// reading and writing only. One goroutine waits in the kernel until then or for
// ever; there is nothing to stop it with.
func watch(_, _ *os.File, parent int) (<-chan departure, func()) {
	seen := make(chan departure, 1)
	if parent <= 0 {
		return seen, func() {}
	}
	kq, err := syscall.Kqueue()
	if err != nil {
		return seen, func() {}
	}
	syscall.CloseOnExec(kq)
	change := []syscall.Kevent_t{{
		Ident:  uint64(parent),
		Filter: syscall.EVFILT_PROC,
		Flags:  syscall.EV_ADD | syscall.EV_ONESHOT,
		Fflags: syscall.NOTE_EXIT,
	}}
	if _, err := syscall.Kevent(kq, change, nil, nil); err == syscall.ESRCH || os.Getppid() != parent {
		seen <- orphaned // it ended before we could watch it
		return seen, func() {}
	}
	go func() {
		events := make([]syscall.Kevent_t, 1)
		for {
			n, err := syscall.Kevent(kq, nil, events, nil)
			if err == syscall.EINTR {
				continue
			}
			if err != nil || n == 0 {
				return
			}
			seen <- orphaned
			return
		}
	}()
	return seen, func() {}
}
