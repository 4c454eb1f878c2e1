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
	h, err := syscall.OpenProcess(syscall.SYNCHRONIZE, false, uint32(parent))
	if err != nil {
		return seen, func() {}
	}
	go func() {
		if event, err := syscall.WaitForSingleObject(h, syscall.INFINITE); err == nil && event == syscall.WAIT_OBJECT_0 {
			seen <- orphaned
		}
	}()
	return seen, func() {}
}
