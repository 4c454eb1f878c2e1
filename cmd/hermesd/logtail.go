package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"time"
)

// tailPoll is how often a followed file is looked at.
const tailPoll = 200 * time.Millisecond

// tailFile prints the last lines of a log file, and with follow what is added to
// it until ctx ends, also in the file that takes its place when it is rotated.
func tailFile(ctx context.Context, w io.Writer, path string, lines int, follow bool) error {
	f, err := os.Open(path)
	if errors.Is(err, fs.ErrNotExist) && !follow {
		return notFoundf("there is no log yet: %s", path)
	}
	for errors.Is(err, fs.ErrNotExist) && wait(ctx, tailPoll) {
		f, err = os.Open(path)
	}
	if err != nil {
		if ctx.Err() != nil {
			return nil
		}
		return fmt.Errorf("opening the log: %w", err)
	}
	if err := seekLines(f, lines); err != nil {
		f.Close()
		return fmt.Errorf("reading the log: %w", err)
	}
	if follow {
		return followFile(ctx, w, f, path)
	}
	defer f.Close()
	if _, err := io.Copy(w, f); err != nil {
		return fmt.Errorf("reading the log: %w", err)
	}
	return nil
}

// followFile prints what f still has, and what is added to the file at path until
// ctx ends. It closes f.
func followFile(ctx context.Context, w io.Writer, f *os.File, path string) error {
	defer func() { f.Close() }()
	for {
		if _, err := io.Copy(w, f); err != nil {
			return fmt.Errorf("reading the log: %w", err)
		}
		if !wait(ctx, tailPoll) {
			return nil
		}
		if now, err := os.Stat(path); err == nil {
			if old, err := f.Stat(); err == nil && !os.SameFile(now, old) {
				if _, err := io.Copy(w, f); err != nil { // its end
					return fmt.Errorf("reading the log: %w", err)
				}
				next, err := os.Open(path)
				if err != nil {
					continue // once more is rotated
				}
				f.Close()
				f = next
			}
		}
	}
}

func wait(ctx context.Context, d time.Duration) bool {
	select {
	case <-time.After(d):
		return true
	case <-ctx.Done():
		return false
	}
}

// seekLines goes to where the last n lines of a file begin.
func seekLines(f *os.File, n int) error {
	end, err := f.Seek(0, io.SeekEnd)
	if err != nil || n == 0 {
		return err
	}
	const block = 64 << 10
	buf := make([]byte, block)
	at := end
	for at > 0 {
		size := min(at, block)
		at -= size
		if _, err := f.ReadAt(buf[:size], at); err != nil {
			return err
		}
		part := buf[:size]
		for i := len(part); ; {
			i = bytes.LastIndexByte(part[:i], '\n')
			if i < 0 {
				break
			}
			if at+int64(i)+1 == end {
				continue // ends the last line
			}
			if n--; n <= 0 {
				_, err := f.Seek(at+int64(i)+1, io.SeekStart)
				return err
			}
		}
	}
	_, err = f.Seek(0, io.SeekStart)
	return err
}
