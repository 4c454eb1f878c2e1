//go:build unix

package main

import (
	"fmt"

	"golang.org/x/sys/unix"
)

// diskFree is how many bytes this user can still write where a folder is.
func diskFree(dir string) (uint64, error) {
	var st unix.Statfs_t
	if err := unix.Statfs(dir, &st); err != nil {
		return 0, fmt.Errorf("asking for the space at %s: %w", dir, err)
	}
	return st.Bavail * uint64(st.Bsize), nil
}
