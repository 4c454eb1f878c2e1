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

// watch reports each departure once. One goroutine waits for them in the kernel;
// stop ends it. Until then the kernel keeps in and out open for it, also if they
// are closed here.
func watch(in, out *os.File, parent int) (seen <-chan departure, stop func()) {
	found := make(chan departure, 3)
	const stopped = orphaned + 1
	fds := []pollFD{
		hungUp:   {fd: descriptor(in), events: pollRdHup},
		unheard:  {fd: descriptor(out)}, // error and hang-up are always reported
		orphaned: {fd: -1, events: pollIn},
		stopped:  {fd: -1, events: pollIn},
	}
	wake, _, errno := syscall.Syscall(syscall.SYS_EVENTFD2, 0, syscall.O_CLOEXEC, 0)
	if errno != 0 { // no descriptors left: reading and writing have to do
		return found, func() {}
	}
	fds[stopped].fd = int32(wake)
	if parent > 0 {
		if pidfd, _, errno := syscall.Syscall(sysPidfdOpen, uintptr(parent), 0, 0); errno == 0 {
			fds[orphaned].fd = int32(pidfd) // the kernel has set close-on-exec
		}
		if os.Getppid() != parent { // it ended before we could watch it
			found <- orphaned
			if pidfd := fds[orphaned].fd; pidfd >= 0 {
				syscall.Close(int(pidfd))
				fds[orphaned].fd = -1
			}
		}
	}
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		for fds[stopped].revents == 0 {
			_, _, errno := syscall.Syscall6(syscall.SYS_PPOLL,
				uintptr(unsafe.Pointer(&fds[0])), uintptr(len(fds)), 0, 0, 0, 0)
			if errno == syscall.EINTR {
				continue
			}
			if errno != 0 {
				return
			}
			for d := hungUp; d < stopped; d++ {
				if f := &fds[d]; f.fd >= 0 && f.revents != 0 {
					f.fd = ^f.fd // negative: passed over from now on
					found <- d
				}
			}
		}
	}()
	return found, func() {
		syscall.Write(int(wake), []byte{1, 0, 0, 0, 0, 0, 0, 0})
		<-ended
		syscall.Close(int(wake))
		if pidfd := fds[orphaned].fd; pidfd != -1 {
			syscall.Close(int(max(pidfd, ^pidfd)))
		}
	}
}

// descriptor returns f's descriptor without changing its mode, as f.Fd might.
func descriptor(f *os.File) int32 {
	fd := int32(-1)
	if raw, err := f.SyscallConn(); err == nil {
		raw.Control(func(p uintptr) { fd = int32(p) })
	}
	return fd
}
