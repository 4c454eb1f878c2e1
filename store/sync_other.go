//go:build !linux

package store

import "os"

// syncData is os.File.Sync, which on macOS is F_FULLFSYNC: fsync(2) alone does
// not reach the disk there.
func syncData(f *os.File) error { return f.Sync() }
