package main

import (
	"fmt"
	"io"
	"sync"
	"time"
)

// spinner shows on a terminal that something goes on, once it has taken longer
// than a second. Everything else that prints there stops it first.
type spinner struct {
	w  io.Writer
	on bool // w is a terminal

	mu    sync.Mutex // guards what follows and, so that stop is the end of it, writing
	timer *time.Timer
	what  string
	since time.Time
	drawn bool
}

// Times of the spinner.
const (
	spinAfter = time.Second
	spinEvery = 120 * time.Millisecond
)

func newSpinner(w io.Writer, on bool) *spinner { return &spinner{w: w, on: on} }

// start begins to wait, unless it does already.
func (s *spinner) start(what string) {
	if !s.on {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.timer != nil {
		return
	}
	s.what, s.since = what, time.Now()
	s.timer = time.AfterFunc(spinAfter, s.draw)
}

func (s *spinner) draw() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.timer == nil {
		return // stopped in the meantime
	}
	waited := time.Since(s.since)
	frames := []rune("⠋⠙⠹⠸⠼⠴⠦⠧⠇⠏")
	frame := frames[int(waited/spinEvery)%len(frames)]
	fmt.Fprintf(s.w, "\r\x1b[K%c %s %ds", frame, s.what, int(waited.Seconds()))
	s.drawn = true
	s.timer.Reset(spinEvery)
}

// stop takes it away.
func (s *spinner) stop() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.timer == nil {
		return
	}
	s.timer.Stop()
	s.timer = nil
	if s.drawn {
		fmt.Fprint(s.w, "\r\x1b[K")
		s.drawn = false
	}
}
