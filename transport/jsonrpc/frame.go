package jsonrpc

import (
	"bytes"
	"io"
	"sync"
)

const (
	smallBuffer = 4 << 10  // what an idle reader holds
	largeBuffer = 64 << 10 // while more comes in than the small one takes
	largePart   = 1 << 20  // the pieces a long line is gathered in
)

// A lineReader cuts a stream into lines. Lines end in LF; a CR before it is
// white space to JSON and left alone. The last line may lack its LF. A byte
// order mark is dropped at the very start of the stream.
//
// It waits for input with a small buffer and takes a large one only while the
// small one comes back full, so that many idle connections cost little.
type lineReader struct {
	r   io.Reader
	max int // bytes of one line, without its LF

	small  []byte
	spare  sync.Pool // of *[]byte, large; the collector empties it when idle
	large  *[]byte   // set while buf is it
	buf    []byte
	lo, hi int   // buf[lo:hi] is not yet handed out
	err    error // of the reader, once buf is used up

	n    uint64 // lines begun so far
	skip bool   // inside a line that was too long
}

func newLineReader(r io.Reader, max int) *lineReader {
	l := &lineReader{r: r, max: max, small: make([]byte, smallBuffer)}
	l.buf = l.small
	return l
}

// next returns the next line without its LF, and whether the line's memory is
// the caller's to keep; if not it is valid until the next call. For a line
// longer than max it returns ErrLineTooLong as soon as that is known, and goes
// on behind the line at the next call. The other errors are the reader's.
func (l *lineReader) next() (line []byte, owned bool, err error) {
	seen := 0 // bytes from lo on that hold no LF
	for {
		if i := bytes.IndexByte(l.buf[l.lo+seen:l.hi], '\n'); i >= 0 {
			line = l.buf[l.lo : l.lo+seen+i]
			l.lo += seen + i + 1
			seen = 0
			switch {
			case l.skip:
				l.skip = false
				continue
			case len(line) > l.max:
				l.n++
				return nil, false, ErrLineTooLong
			}
			return l.line(line), false, nil
		}
		if l.skip {
			l.lo = l.hi
		}
		seen = l.hi - l.lo
		switch {
		case seen > l.max:
			l.n++
			l.skip = true
			return nil, false, ErrLineTooLong
		case l.err == io.EOF && seen > 0:
			line = l.buf[l.lo:l.hi]
			l.lo = l.hi
			return l.line(line), false, nil
		case l.err != nil:
			return nil, false, l.err
		case seen == largeBuffer:
			line, err = l.long()
			return line, true, err
		}
		l.fill()
	}
}

// line counts a line and drops the byte order mark.
func (l *lineReader) line(b []byte) []byte {
	l.n++
	if l.n == 1 {
		b = bytes.TrimPrefix(b, []byte("\xef\xbb\xbf"))
	}
	return b
}

// fill reads once, behind what is still there.
func (l *lineReader) fill() {
	rest := l.buf[l.lo:l.hi]
	switch {
	case l.large == nil && l.hi == len(l.small): // it came back full
		l.large, _ = l.spare.Get().(*[]byte)
		if l.large == nil {
			b := make([]byte, largeBuffer)
			l.large = &b
		}
		l.buf = *l.large
	case l.large != nil && l.hi < largeBuffer && len(rest) < smallBuffer: // it did not
		l.spare.Put(l.large)
		l.large = nil
		l.buf = l.small
	}
	l.lo, l.hi = 0, copy(l.buf, rest)
	l.hi += l.read(l.buf[l.hi:])
}

func (l *lineReader) read(b []byte) int {
	for range 100 {
		n, err := l.r.Read(b)
		if err != nil {
			l.err = err
		}
		if n > 0 || err != nil {
			return n
		}
	}
	l.err = io.ErrNoProgress
	return 0
}

// long gathers a line of which a full large buffer is only the beginning, and
// returns it in memory of its own, of exactly its size.
func (l *lineReader) long() ([]byte, error) {
	var parts [][]byte
	size := 0
	part := bytes.Clone(l.buf[l.lo:l.hi])
	l.lo, l.hi = 0, 0
	for {
		if len(part) == cap(part) {
			parts = append(parts, part)
			size += len(part)
			part = make([]byte, 0, min(max(size, largeBuffer), largePart))
		}
		// Never more at a time than the buffer can take back.
		room := part[len(part):min(cap(part), len(part)+largeBuffer)]
		n := l.read(room)
		i := bytes.IndexByte(room[:n], '\n')
		if i >= 0 {
			l.hi = copy(l.buf, room[i+1:n])
			n = i
		}
		part = part[:len(part)+n]
		switch {
		case size+len(part) > l.max:
			l.n++
			l.skip = i < 0
			return nil, ErrLineTooLong
		case i >= 0, l.err == io.EOF:
			line := make([]byte, 0, size+len(part))
			for _, p := range append(parts, part) {
				line = append(line, p...)
			}
			return l.line(line), nil
		case l.err != nil:
			return nil, l.err
		}
	}
}
