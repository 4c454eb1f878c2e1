//go:build !windows

package linktest

import (
	"fmt"
	"os"

	"golang.org/x/sys/unix"
)

func group() (pgid, sid int) {
	pgid = unix.Getpgrp()
	sid, _ = unix.Getsid(0)
	return pgid, sid
}

// files lists "FD TARGET" of the descriptors that are not the runtime's.
func files() []string {
	dir, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		return nil
	}
	var all []string
	for _, e := range dir {
		if to, err := os.Readlink("/proc/self/fd/" + e.Name()); err == nil {
			all = append(all, fmt.Sprintf("%s %s", e.Name(), to))
		}
	}
	return all
}
