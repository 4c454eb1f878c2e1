package storetest

import (
	"fmt"
	"math"
	"sync"
	"testing"
	"time"

	"github.com/hermesd/hermesd/daemon/session"
)

// patience is how long a store may take for anything before a test fails.
const patience = 30 * time.Second

// Sink is a session.Sink that remembers and can be waited on. It checks, call
// by call, what a store promises of the order.
type Sink struct {
	mu       sync.Mutex
	base     session.Seq // head when the log was opened
	cond     *sync.Cond
	written  session.Seq
	durable  session.Seq
	durables int
	failed   error
	failures int
	wrong    []string
}

// NewSink returns a Sink for a log that is created.
func NewSink() *Sink {
	s := &Sink{}
	s.cond = sync.NewCond(&s.mu)
	return s
}

// OpenSink returns a Sink for a log that is opened. As long as From has not
// been called any Durable is right.
func OpenSink() *Sink {
	s := NewSink()
	s.base = math.MaxUint64
	return s
}

// From tells the Sink the head its log had when it was opened: up to there it
// may be told that something is durable without hearing that it is written.
func (s *Sink) From(head session.Seq) {
	s.mu.Lock()
	s.base = head
	s.mu.Unlock()
}

// Written implements session.Sink.
func (s *Sink) Written(n session.Seq) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if n < s.written {
		s.wrong = append(s.wrong, fmt.Sprintf("Written(%d) after Written(%d)", n, s.written))
	}
	s.written = n
	s.cond.Broadcast()
}

// Durable implements session.Sink.
func (s *Sink) Durable(n session.Seq) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if n < s.durable {
		s.wrong = append(s.wrong, fmt.Sprintf("Durable(%d) after Durable(%d)", n, s.durable))
	}
	if n > max(s.written, s.base) {
		s.wrong = append(s.wrong, fmt.Sprintf("Durable(%d) before Written of it; %d was", n, s.written))
	}
	s.durable = n
	s.durables++
	s.cond.Broadcast()
}

// Failed implements session.Sink.
func (s *Sink) Failed(err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if (err == nil) == (s.failed == nil) {
		s.wrong = append(s.wrong, fmt.Sprintf("Failed(%v) after Failed(%v)", err, s.failed))
	}
	s.failed = err
	s.failures++
	s.cond.Broadcast()
}

// Seen returns the last Written and Durable.
func (s *Sink) Seen() (written, durable session.Seq) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.written, s.durable
}

// Err is what the last Failed said.
func (s *Sink) Err() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.failed
}

// Failures counts the calls of Failed.
func (s *Sink) Failures() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.failures
}

// WaitWritten waits for Written(n) or more.
func (s *Sink) WaitWritten(t testing.TB, n session.Seq) {
	t.Helper()
	s.Wait(t, fmt.Sprintf("Written(%d)", n), func(written, _ session.Seq, _ error) bool { return written >= n })
}

// WaitDurable waits for Durable(n) or more.
func (s *Sink) WaitDurable(t testing.TB, n session.Seq) {
	t.Helper()
	s.wait(t, fmt.Sprintf("Durable(%d)", n), func() bool { return s.durables > 0 && s.durable >= n })
}

// WaitFailed waits until writing fails, or works again.
func (s *Sink) WaitFailed(t testing.TB, failed bool) {
	t.Helper()
	s.wait(t, fmt.Sprintf("failed = %v", failed), func() bool { return s.failures > 0 && (s.failed != nil) == failed })
}

// Wait waits until cond holds for what the store last said, and fails the test
// if it broke a promise.
func (s *Sink) Wait(t testing.TB, what string, cond func(written, durable session.Seq, failed error) bool) {
	t.Helper()
	s.wait(t, what, func() bool { return cond(s.written, s.durable, s.failed) })
}

// wait is Wait with a cond that looks at s itself.
func (s *Sink) wait(t testing.TB, what string, cond func() bool) {
	t.Helper()
	timer := time.AfterFunc(patience, func() {
		s.mu.Lock()
		s.cond.Broadcast()
		s.mu.Unlock()
	})
	defer timer.Stop()
	deadline := time.Now().Add(patience)
	s.mu.Lock()
	defer s.mu.Unlock()
	for !cond() {
		if !time.Now().Before(deadline) {
			t.Fatalf("the store never said %s: written %d, durable %d, failed %v", what, s.written, s.durable, s.failed)
		}
		s.cond.Wait()
	}
	for _, w := range s.wrong {
		t.Errorf("Sink: %s", w)
	}
}
