package store

import (
	"fmt"

	"golang.org/x/sys/unix"
)

// bootID names the running kernel's life; "" if it cannot be known. The boot
// time is second best: it moves when the clock is set.
func bootID() string {
	if id, err := unix.Sysctl("kern.bootsessionuuid"); err == nil && id != "" {
		return id
	}
	tv, err := unix.SysctlTimeval("kern.boottime")
	if err != nil {
		return ""
	}
	return fmt.Sprintf("boottime-%d", tv.Sec)
}
