package store

import (
	"errors"
	"io"
	"io/fs"
	"os"
)

// Files is the file system as the journal uses it. Tests put one under the
// store that fails, fills up or is slow; everybody else leaves Options.Files
// nil and gets the real one.
type Files interface {
	// Create makes a file that must not exist yet, readable by its owner only.
	Create(name string) (File, error)
	// OpenWrite opens an existing file for writing.
	OpenWrite(name string) (File, error)
	// ReadFile returns a file's content.
	ReadFile(name string) ([]byte, error)
	// Rename and Remove are those of package os.
	Rename(from, to string) error
	Remove(name string) error
	// SyncDir makes what was created in, renamed in and removed from a
	// directory survive a power cut.
	SyncDir(dir string) error
}

// File is one file of the journal, open for writing.
type File interface {
	io.WriterAt
	// Sync makes what was written survive a power cut.
	Sync() error
	Truncate(size int64) error
	Close() error
}

// Reserver is what a File may do besides: take space ahead of what is written,
// from one offset to another. The space reads as zeros. With it a sync need not
// also write how long the file has become. An error is of no consequence.
type Reserver interface {
	Reserve(from, to int64) error
}

// osFiles is the operating system's file system.
type osFiles struct{}

func (osFiles) Create(name string) (File, error) {
	f, err := os.OpenFile(name, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return nil, err
	}
	return osFile{f}, nil
}

func (osFiles) OpenWrite(name string) (File, error) {
	f, err := os.OpenFile(name, os.O_WRONLY, 0)
	if err != nil {
		return nil, err
	}
	return osFile{f}, nil
}

func (osFiles) ReadFile(name string) ([]byte, error) { return os.ReadFile(name) }
func (osFiles) Rename(from, to string) error         { return os.Rename(from, to) }
func (osFiles) SyncDir(dir string) error             { return syncDir(dir) }

func (osFiles) Remove(name string) error {
	if err := os.Remove(name); !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return nil
}

type osFile struct{ *os.File }

// Reserve implements Reserver.
func (f osFile) Reserve(from, to int64) error { return reserve(f.File, from, to) }

// Sync writes the data and what is needed to find it again; it may leave out
// the times of the file.
func (f osFile) Sync() error { return syncData(f.File) }
