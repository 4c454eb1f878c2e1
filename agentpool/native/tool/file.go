package tool

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"unicode/utf8"
)

const maxFile = 10 << 20 // bytes of a file that is read or written whole

// errMissing marks a file that is not there.
var errMissing = errors.New("there is no such file")

// readText returns the text of a file as the editor has it, else as it stands
// on the disk. An editor is asked only inside the session's folders; if it
// fails, the disk is read.
func (e *Env) readText(ctx context.Context, p place) (string, error) {
	info, err := os.Stat(p.real)
	if err == nil && !info.Mode().IsRegular() {
		return "", irregular(p, info)
	}
	if err == nil && info.Size() > maxFile {
		return "", fmt.Errorf("%s is too large (%d bytes, the limit is %d): use search_files or a command that shows a part of it", p.label, info.Size(), maxFile)
	}
	if !p.out && e.Files != nil && (err != nil || !binaryFile(p.real)) {
		text, err := e.Files.ReadTextFile(ctx, p.shown)
		if err == nil {
			if len(text) > maxFile {
				return "", fmt.Errorf("%s is too large (%d bytes, the limit is %d)", p.label, len(text), maxFile)
			}
			return text, nil
		}
		if ctx.Err() != nil {
			return "", ctx.Err()
		}
	}
	if err != nil {
		return "", missing(p, err)
	}
	data, err := readRegular(p.real)
	if err != nil {
		return "", missing(p, err)
	}
	if isBinary(data) {
		return "", fmt.Errorf("%s is a binary file of %d bytes, not text", p.label, len(data))
	}
	return string(data), nil
}

// readRegular reads a file without ever waiting for a pipe or a device that
// took its place.
func readRegular(path string) ([]byte, error) {
	f, err := os.OpenFile(path, os.O_RDONLY|dontWait, 0)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return nil, err
	}
	if !info.Mode().IsRegular() {
		return nil, fmt.Errorf("%s is no regular file", path)
	}
	data, err := io.ReadAll(io.LimitReader(f, maxFile+1))
	if err == nil && len(data) > maxFile {
		err = fmt.Errorf("%s is larger than %d bytes", path, maxFile)
	}
	return data, err
}

// binaryFile tells whether the file on the disk begins like a binary one; an
// editor is not asked for such.
func binaryFile(path string) bool {
	f, err := os.OpenFile(path, os.O_RDONLY|dontWait, 0)
	if err != nil {
		return false
	}
	defer f.Close()
	head := make([]byte, 8000)
	n, _ := io.ReadFull(f, head)
	return isBinary(head[:n])
}

func irregular(p place, info fs.FileInfo) error {
	if info.IsDir() {
		return fmt.Errorf("%s is a folder, not a file: search_files looks into it", p.label)
	}
	return fmt.Errorf("%s is no regular file (%s)", p.label, info.Mode().Type())
}

func missing(p place, err error) error {
	if errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("%s: %w (%s)", p.label, errMissing, p.shown)
	}
	return fmt.Errorf("reading %s: %w", p.label, err)
}

// isBinary looks for a NUL byte near the beginning, as git does.
func isBinary(data []byte) bool {
	return bytes.IndexByte(data[:min(len(data), 8000)], 0) >= 0
}

// change is an edit of one file, shown as a diff and made only if the file is
// still the one that was shown.
type change struct {
	place
	old *string // nil: the file is new
	new string
}

const maxDiff = 1 << 20 // bytes of both sides that are shown

func (c change) content() []Content {
	size := len(c.new)
	if c.old != nil {
		size += len(*c.old)
	}
	if size > maxDiff {
		was := "a new file"
		if c.old != nil {
			was = strconv.Itoa(len(*c.old)) + " bytes"
		}
		return []Content{{Text: fmt.Sprintf("The change is too large to show: %s: %s before, %d bytes after.", c.shown, was, len(c.new))}}
	}
	return []Content{{Diff: &Diff{Path: c.shown, Old: c.old, New: c.new}}}
}

func (c change) need(e *Env) Need {
	return Need{
		Class:     Editing,
		Outside:   c.out,
		Sensitive: e.sensitive(c.place),
		Grants:    []string{c.real},
		Scope:     "edits of " + c.label + " in this session",
	}
}

// check looks whether the file is still the one that was shown.
func (c change) check(ctx context.Context, e *Env) error {
	now, err := e.resolve(c.shown)
	if err != nil {
		return err
	}
	if now.real != c.real {
		return fmt.Errorf("%s leads to another file than before: nothing was written, read it again", c.label)
	}
	text, err := e.readText(ctx, now)
	switch {
	case errors.Is(err, errMissing):
		if c.old != nil {
			return fmt.Errorf("%s is gone since its change was shown: nothing was written", c.label)
		}
	case err != nil:
		return err
	case c.old == nil || text != *c.old:
		return fmt.Errorf("%s has changed since its change was shown: nothing was written, read it again", c.label)
	}
	return nil
}

// apply makes the change: through the editor if one serves the file, else on
// the disk.
func (c change) apply(ctx context.Context, e *Env) error {
	if err := c.check(ctx, e); err != nil {
		return err
	}
	if !c.out && e.Files != nil {
		err := e.Files.WriteTextFile(ctx, c.shown, c.new)
		if err == nil {
			return nil
		}
		if e.NoEditor == nil || !e.NoEditor(err) {
			return fmt.Errorf("the editor did not write %s: %w", c.label, err)
		}
	}
	if err := replaceFile(c.real, []byte(c.new)); err != nil {
		return fmt.Errorf("writing %s: %w", c.label, err)
	}
	return nil
}

// replaceFile puts data in place of the file at path, which is resolved, in
// one step: whoever reads sees the old text or the new one. It keeps the mode
// and makes missing folders.
func replaceFile(path string, data []byte) (err error) {
	mode, exists := fs.FileMode(0), false
	f, err := os.OpenFile(path, os.O_WRONLY|dontWait, 0)
	switch {
	case err == nil:
		// A file we may not write must not be replaced either.
		info, serr := f.Stat()
		f.Close()
		if serr != nil {
			return serr
		}
		if !info.Mode().IsRegular() {
			return fmt.Errorf("%s is no regular file", path)
		}
		mode, exists = info.Mode().Perm(), true
	case !errors.Is(err, fs.ErrNotExist):
		return err
	}
	dir := filepath.Dir(path)
	if err := os.MkdirAll(dir, 0o777); err != nil {
		return err
	}
	tmp, err := createBeside(path)
	if err != nil {
		return err
	}
	defer func() {
		if err != nil {
			os.Remove(tmp.Name())
		}
	}()
	if _, err = tmp.Write(data); err == nil && exists {
		err = tmp.Chmod(mode)
	}
	if err == nil {
		err = tmp.Sync()
	}
	if cerr := tmp.Close(); err == nil {
		err = cerr
	}
	if err != nil {
		return err
	}
	return os.Rename(tmp.Name(), path)
}

// createBeside makes a temporary file in the folder of path, with the mode the
// umask gives a new file (os.CreateTemp would make it private).
func createBeside(path string) (*os.File, error) {
	for i := 0; ; i++ {
		name := filepath.Join(filepath.Dir(path), fmt.Sprintf(".hermesd-%d-%d.tmp", os.Getpid(), i))
		f, err := os.OpenFile(name, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o666)
		if errors.Is(err, fs.ErrExist) && i < 10000 {
			continue
		}
		return f, err
	}
}

// loadOld reads the text a change starts from; nil if the file is new.
func (e *Env) loadOld(ctx context.Context, p place) (*string, error) {
	text, err := e.readText(ctx, p)
	if errors.Is(err, errMissing) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	if !utf8.ValidString(text) {
		return nil, fmt.Errorf("%s is not UTF-8 text: it cannot be edited here", p.label)
	}
	return &text, nil
}
