package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"github.com/hermesd/hermesd/transport"
	"github.com/hermesd/hermesd/transport/link"
)

// start is what is remembered of the last start of the service: how it went,
// and how many before it went wrong. It tells a planned end from a crash, which
// a service manager's "active" does not.
type start struct {
	PID     int       `json:"pid"`
	Version string    `json:"version"`
	Began   time.Time `json:"began"`
	Ready   time.Time `json:"ready,omitzero"` // it accepted connections
	Ended   time.Time `json:"ended,omitzero"` // in an orderly way, or with Error
	Error   string    `json:"error,omitempty"`
	// Misconfigured: Error is one that starting again does not mend.
	Misconfigured bool `json:"misconfigured,omitempty"`
	// Failures are the starts before this one, in a row, that ended in an error or
	// without a word, soon after they had begun.
	Failures int `json:"failures,omitempty"`
	// Last is the error of the newest of them, "" if it ended without a word.
	Last string `json:"last,omitempty"`

	path string
}

const (
	// settled is how long a daemon has to have been ready to count as one that
	// works.
	settled = 10 * time.Minute

	// A service manager starts a daemon that failed at once: one crash a month
	// shall not be noticed. Pauses that grow with every further failure are ours,
	// because most managers know none: systemd has them since version 254 and
	// never forgets a failure, launchd and Windows have none.
	firstPause = 100 * time.Millisecond
	maxPause   = 30 * time.Second
)

func startsFile(p link.Places) string { return filepath.Join(p.State, "service.json") }

// lastStart reads what is remembered; nil if the service never started.
func lastStart(p link.Places) (*start, error) {
	b, err := os.ReadFile(startsFile(p))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("reading how the service started last: %w", err)
	}
	s := &start{path: startsFile(p)}
	if err := json.Unmarshal(b, s); err != nil {
		return nil, fmt.Errorf("%s is damaged (%w); it may be removed", s.path, err)
	}
	return s, nil
}

// follow makes the start that comes after last (nil: none), at now.
func (last *start) follow(now time.Time) *start {
	s := &start{PID: os.Getpid(), Version: buildVersion(), Began: now}
	if last == nil || !last.failed(now) {
		return s
	}
	s.Failures, s.Last = last.Failures+1, last.Error
	return s
}

// failed says whether a start that is over counts as a failure. A crash leaves
// no mark: it is a start that was not seen to end.
func (s *start) failed(now time.Time) bool {
	switch {
	case !s.Ended.IsZero() && s.Error == "":
		return false
	case s.Misconfigured:
		return false // somebody has been at it since
	case !s.Ready.IsZero():
		end := now
		if !s.Ended.IsZero() {
			end = s.Ended
		}
		return end.Sub(s.Ready) < settled
	}
	return now.Sub(s.Began) < settled
}

// pause is how long this start waits before it begins.
func (s *start) pause() time.Duration {
	if s.Failures < 2 {
		return 0
	}
	return min(firstPause<<min(s.Failures-2, 20), maxPause)
}

// why tells a person what the pause is for.
func (s *start) why() string {
	last := s.Last
	if last == "" {
		last = "it ended without a word, see its log"
	}
	return fmt.Sprintf("waiting %s after %d failed starts; the last one: %s", s.pause(), s.Failures, last)
}

// save writes it. That it cannot is a reason to say so, not to fail.
func (s *start) save() error {
	b, err := json.Marshal(s)
	if err != nil {
		return err
	}
	if err := transport.Dir(filepath.Dir(s.path)); err != nil {
		return err
	}
	tmp := s.path + ".new"
	if err := os.WriteFile(tmp, append(b, '\n'), 0o600); err != nil {
		return fmt.Errorf("noting how the service starts: %w", err)
	}
	if err := os.Rename(tmp, s.path); err != nil {
		return fmt.Errorf("noting how the service starts: %w", err)
	}
	return nil
}

// ready notes that it serves.
func (s *start) ready(now time.Time) error {
	s.Ready = now
	return s.save()
}

// end notes how it ended.
func (s *start) end(err error, now time.Time) error {
	s.Ended, s.Error = now, ""
	if err != nil {
		s.Error = err.Error()
		s.Misconfigured = errors.Is(err, errMisconfigured)
	}
	return s.save()
}

// summary says how the last start went, for `service status`; "" if there is
// nothing to worry about.
func (s *start) summary() string {
	switch {
	case s.Misconfigured:
		return "The last start ended because of the configuration, and is not tried again by itself:\n  " + s.Error +
			"\nCorrect that, then: hermesd service restart"
	case s.Error != "" && s.Failures > 0:
		return fmt.Sprintf("The last %d starts failed, the last one with:\n  %s", s.Failures+1, s.Error)
	case s.Error != "":
		return "The last start failed:\n  " + s.Error
	case s.Failures > 0 && s.Ready.IsZero():
		return fmt.Sprintf("%d starts in a row failed; %s", s.Failures, s.why())
	}
	return ""
}
