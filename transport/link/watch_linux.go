package link

import (
	"os"
	"syscall"
	"unsafe"
)

const (
	pollIn    = 0x1
	pollRdHup = 0x2000

	sysPidfdOpen = 434 // the same on every architecture
)

type pollFD struct {
	fd      int32
	events  int16
	revents int16
}

// watch reports each departure once. One goroutine waits for them in the kernel,
// until the last one or for ever.
func watch(in, out *os.File, parent int) <-chan departure {
	seen := make(chan departure, 3)
	fds := []pollFD{
		hungUp:   {fd: descriptor(in), events: pollRdHup},
		unheard:  {fd: descriptor(out)}, // error and hang-up are always reported
		orphaned: {fd: -1, events: pollIn},
	}
	if parent > 0 {
		if pidfd, _, errno := syscall.Syscall(sysPidfdOpen, uintptr(parent), 0, 0); errno == 0 {
			fds[orphaned].fd = int32(pidfd) // the kernel has set close-on-exec
		}
		if os.Getppid() != parent { // it ended before we could watch it
			fds[orphaned].fd = -1
			seen <- orphaned
		}
	}
	go func() {
		for watching := true; watching; {
			_, _, errno := syscall.Syscall6(syscall.SYS_PPOLL,
				uintptr(unsafe.Pointer(&fds[0])), uintptr(len(fds)), 0, 0, 0, 0)
			if errno == syscall.EINTR {
				continue
			}
			if errno != 0 {
				return
			}
			watching = false
			for d := range fds {
				switch f := &fds[d]; {
				case f.fd < 0:
				case f.revents != 0:
					f.fd = -1 // passed over from now on
					seen <- departure(d)
				default:
					watching = true
				}
			}
		}
	}()
	return seen
}

// descriptor returns f's descriptor without changing its mode, as f.Fd might.
func descriptor(f *os.File) int32 {
	fd := int32(-1)
	if raw, err := f.SyscallConn(); err == nil {
		raw.Control(func(p uintptr) { fd = int32(p) })
	}
	return fd
}
