package main

import (
	"fmt"

	"golang.org/x/sys/windows"
)

// diskFree is how many bytes this user can still write where a folder is.
func diskFree(dir string) (uint64, error) {
	path, err := windows.UTF16PtrFromString(dir)
	if err != nil {
		return 0, err
	}
	var free uint64
	if err := windows.GetDiskFreeSpaceEx(path, &free, nil, nil); err != nil {
		return 0, fmt.Errorf("asking for the space at %s: %w", dir, err)
	}
	return free, nil
}
