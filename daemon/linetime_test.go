package daemon

import (
	"errors"
	"io"
	"net"
	"os"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

// One byte a second: between lines a peer may take its time, within one not.
func TestALineHasToBeCompleteInTime(t *testing.T) {
	for name, tc := range map[string]struct {
		say  func(c net.Conn)
		want time.Duration // when the reader gives up; 0: it does not
	}{
		"silence": {say: func(c net.Conn) { time.Sleep(time.Hour) }},
		"silence between lines": {say: func(c net.Conn) {
			for range 10 {
				io.WriteString(c, "{}\n")
				time.Sleep(time.Hour)
			}
		}},
		"a slow line that is in time": {say: func(c net.Conn) {
			for range 3 {
				for range 50 {
					io.WriteString(c, "x")
					time.Sleep(time.Second)
				}
				io.WriteString(c, "\n")
			}
		}},
		"one byte a second": {want: time.Minute, say: func(c net.Conn) {
			for range 1000 {
				if _, err := io.WriteString(c, "x"); err != nil {
					return
				}
				time.Sleep(time.Second)
			}
		}},
		"one byte a second behind a whole line": {want: time.Minute, say: func(c net.Conn) {
			if _, err := io.WriteString(c, "{}\n{"); err != nil {
				return
			}
			for range 1000 {
				time.Sleep(time.Second)
				if _, err := io.WriteString(c, "x"); err != nil {
					return
				}
			}
		}},
		"a beginning and nothing more": {want: time.Minute, say: func(c net.Conn) {
			io.WriteString(c, "{")
			time.Sleep(time.Hour)
		}},
		"a long line that comes as slowly as it may": {say: func(c net.Conn) {
			for range 300 {
				if _, err := io.WriteString(c, strings.Repeat("x", lineRate)); err != nil {
					return
				}
				time.Sleep(time.Second)
			}
			io.WriteString(c, "\n")
		}},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				theirs, ours := net.Pipe()
				began := time.Now()
				var said sync.WaitGroup
				said.Go(func() {
					tc.say(theirs)
					theirs.Close()
				})
				_, err := io.Copy(io.Discard, &lineTime{r: ours, c: ours, limit: time.Minute})
				took := time.Since(began)
				ours.Close()
				said.Wait()
				if tc.want == 0 && err != nil {
					t.Errorf("after %v: %v", took, err)
				}
				if tc.want > 0 && (!errors.Is(err, os.ErrDeadlineExceeded) || !strings.Contains(err.Error(), "a line was not complete after 1m0s") || took != tc.want) {
					t.Errorf("after %v: %v", took, err)
				}
			})
		})
	}
}
