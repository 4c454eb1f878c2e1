package private

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"runtime"
	"sync"
	"time"

	"github.com/hermesd/hermesd/transport/link"
)

// lockWait is how long a change waits for another process's.
const lockWait = 10 * time.Second

// ErrNothing ends a change that changes nothing.
var ErrNothing = errors.New("nothing to change")

// File is a small file that belongs to its owner alone, and is read as a T. Path,
// Max, Parse and Exposed are set before it is used. Errors of Parse and Exposed
// are given on as they are.
type File[T any] struct {
	Path string
	// Max is how many bytes it may have. Of one that has more Parse is given one
	// more than that, and has to refuse it.
	Max int
	// Parse reads the text. What it gives is shared by all who ask for it, and
	// not changed by anybody.
	Parse func(text []byte) (T, error)
	// Exposed says what there is to do about a file that other users can get at;
	// it is not read. (On Windows, where modes say nothing, every file is.)
	Exposed func(mode fs.FileMode) error
	// Reading and Changing are what is said before an error of the system, as
	// "reading the tokens: ".
	Reading, Changing string

	mu    sync.Mutex
	info  fs.FileInfo // of what was read last; nil: nothing yet
	value T
}

// Load reads the file. If it is not there, errors.Is(err, fs.ErrNotExist).
func (f *File[T]) Load() (T, error) {
	value, _, err := f.load()
	return value, err
}

// Current gives what the file holds now, and reads it only if it has changed. A
// file that is not there is the zero T.
func (f *File[T]) Current() (T, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	var none T
	info, err := os.Stat(f.Path)
	if err == nil && f.info != nil && same(info, f.info) {
		return f.value, nil
	}
	f.info, f.value = nil, none
	if errors.Is(err, fs.ErrNotExist) {
		return none, nil
	}
	value, info, err := f.load()
	if errors.Is(err, fs.ErrNotExist) { // it went in between
		return none, nil
	}
	if err != nil {
		return none, err
	}
	f.info, f.value = info, value
	return value, nil
}

// same tells whether a file is the one it was: it is replaced by another one, or
// written to, or opened to others.
func same(a, b fs.FileInfo) bool {
	return os.SameFile(a, b) && a.ModTime().Equal(b.ModTime()) && a.Size() == b.Size() && a.Mode() == b.Mode()
}

// Change reads the file, if it is there, and replaces it by what do makes of it,
// while no other process does. It returns when that is on the disk. Errors of do
// are given on as they are and change nothing. The folder must exist.
func (f *File[T]) Change(do func(T) (text []byte, err error)) error {
	ctx, cancel := context.WithTimeout(context.Background(), lockWait)
	defer cancel()
	lock, err := link.WaitLock(ctx, f.Path+".lock")
	if err != nil {
		return fmt.Errorf("%s%w", f.Changing, err)
	}
	defer lock.Close()
	value, err := f.Load()
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	text, err := do(value)
	switch {
	case errors.Is(err, ErrNothing):
		return nil
	case err != nil:
		return err
	}
	if err := Replace(f.Path, text); err != nil {
		return fmt.Errorf("%s%w", f.Changing, err)
	}
	return nil
}

func (f *File[T]) load() (value T, info fs.FileInfo, err error) {
	text, info, err := f.text()
	if err != nil {
		return value, nil, err
	}
	if value, err = f.Parse(text); err != nil {
		var none T
		return none, nil, err
	}
	return value, info, nil
}

// text reads the file. It is looked at what has been opened, which is what is
// read.
func (f *File[T]) text() (text []byte, info fs.FileInfo, err error) {
	file, err := os.Open(f.Path)
	if err != nil {
		return nil, nil, fmt.Errorf("%s%w", f.Reading, err)
	}
	defer file.Close()
	if info, err = file.Stat(); err != nil {
		return nil, nil, fmt.Errorf("%s%w", f.Reading, err)
	}
	if runtime.GOOS != "windows" && info.Mode().Perm()&0o077 != 0 {
		return nil, nil, f.Exposed(info.Mode().Perm())
	}
	if text, err = io.ReadAll(io.LimitReader(file, int64(f.Max)+1)); err != nil {
		return nil, nil, fmt.Errorf("%s%w", f.Reading, err)
	}
	return text, info, nil
}
