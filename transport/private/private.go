// Package private answers: how is a small file kept that belongs to its owner
// alone (tokens, keys, grants)? It is read only if nobody else can get at it, and
// written whole or not at all.
//
// # Concurrency
//
// A [File] is safe for concurrent use, also by several processes: changes are
// made under a lock beside the file. It owns no goroutine.
package private

import (
	"errors"
	"os"
	"path/filepath"
	"runtime"
)

// Replace puts text in the place of the file, with mode 0600: after a crash, or
// a power cut, there is the old file or the new one. Its folder must exist. When
// it returns nil the new one is on the disk.
func Replace(path string, text []byte) (err error) {
	dir := filepath.Dir(path)
	tmp, err := os.CreateTemp(dir, ".hermesd-*") // mode 0600
	if err != nil {
		return err
	}
	defer func() {
		if err != nil {
			os.Remove(tmp.Name())
		}
	}()
	_, err = tmp.Write(text)
	if err = errors.Join(err, tmp.Sync(), tmp.Close()); err != nil {
		return err
	}
	if err := os.Rename(tmp.Name(), path); err != nil {
		return err
	}
	if runtime.GOOS == "windows" {
		return nil // a folder cannot be synced there
	}
	d, err := os.Open(dir)
	if err != nil {
		return err
	}
	return errors.Join(d.Sync(), d.Close())
}
