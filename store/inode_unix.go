//go:build !windows

package store

import (
	"os"
	"syscall"
)

// inode is the file's number on its file system, 0 if there is none. A file
// that was put back from a backup has another one.
func inode(info os.FileInfo) uint64 {
	if st, ok := info.Sys().(*syscall.Stat_t); ok {
		return uint64(st.Ino)
	}
	return 0
}
