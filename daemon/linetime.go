package daemon

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"time"
)

// lineRate is what a peer has to keep up in a long line beyond the limit of time:
// so many bytes in each further second.
const lineRate = 64 << 10

// lineTime is a connection from the network whose lines have to be complete
// within a limit of time: one that comes byte by byte would be held in memory for
// as long as its sender likes. Between lines it may be silent for ever.
type lineTime struct {
	r     io.Reader
	c     interface{ SetReadDeadline(time.Time) error }
	limit time.Duration

	began time.Time // of the line in progress; zero if there is none
	got   int       // bytes of it
}

func (l *lineTime) Read(b []byte) (int, error) {
	n, err := l.r.Read(b)
	if err != nil && errors.Is(err, os.ErrDeadlineExceeded) && !l.began.IsZero() {
		err = fmt.Errorf("a line was not complete after %s: %w", l.allowed(), err)
	}
	if n == 0 {
		return n, err
	}
	end := bytes.LastIndexByte(b[:n], '\n')
	switch {
	case end == n-1: // nothing is in progress
		if !l.began.IsZero() {
			l.began = time.Time{}
			_ = l.c.SetReadDeadline(time.Time{})
		}
		return n, err
	case end >= 0 || l.began.IsZero():
		l.began, l.got = time.Now(), n-end-1
	default:
		l.got += n
	}
	_ = l.c.SetReadDeadline(l.began.Add(l.allowed()))
	return n, err
}

// allowed is how long the line in progress may take.
func (l *lineTime) allowed() time.Duration {
	return l.limit + time.Duration(l.got/lineRate)*time.Second
}
