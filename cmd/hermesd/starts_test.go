package main

import (
	"errors"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/hermesd/hermesd/transport/link"
)

func TestPausesGrowWithFailuresInARow(t *testing.T) {
	now := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	var last *start
	var pauses []time.Duration
	for range 14 { // each crashes a second after it was ready, without a word
		s := last.follow(now)
		pauses = append(pauses, s.pause())
		now = now.Add(s.pause())
		s.Began, s.Ready = now, now
		now = now.Add(time.Second)
		last = s
	}
	for i, p := range pauses {
		if i < 2 && p != 0 {
			t.Errorf("start %d waits %s: the first restart is at once", i, p)
		}
		if i >= 2 && p < pauses[i-1] || p > maxPause {
			t.Errorf("pauses %v", pauses)
		}
	}
	if pauses[2] != 100*time.Millisecond || pauses[13] != maxPause {
		t.Errorf("pauses %v", pauses)
	}
}

func TestWhatCountsAsAFailure(t *testing.T) {
	now := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	ago := func(d time.Duration) time.Time { return now.Add(-d) }
	for name, c := range map[string]struct {
		s    start
		want bool
	}{
		"a planned end":                {start{Began: ago(time.Minute), Ready: ago(time.Minute), Ended: ago(0)}, false},
		"a crash soon after":           {start{Began: ago(time.Minute), Ready: ago(time.Minute)}, true},
		"a crash after a day":          {start{Began: ago(24 * time.Hour), Ready: ago(24 * time.Hour)}, false},
		"never ready":                  {start{Began: ago(time.Second)}, true},
		"never ready, last week":       {start{Began: ago(168 * time.Hour)}, false},
		"an error at once":             {start{Began: ago(time.Second), Ended: ago(time.Second), Error: "x"}, true},
		"an error after a day's work":  {start{Began: ago(24 * time.Hour), Ready: ago(24 * time.Hour), Ended: ago(0), Error: "x"}, false},
		"an error soon, a day ago":     {start{Began: ago(24 * time.Hour), Ready: ago(24 * time.Hour), Ended: ago(24*time.Hour - time.Minute), Error: "x"}, true},
		"a configuration, put right":   {start{Began: ago(time.Second), Ended: ago(time.Second), Error: "x", Misconfigured: true}, false},
		"a crash while it was waiting": {start{Began: ago(time.Second), Failures: 3}, true},
	} {
		if got := c.s.failed(now); got != c.want {
			t.Errorf("%s: %v", name, got)
		}
	}
}

func TestAStartIsRememberedAndExplained(t *testing.T) {
	p := link.Places{State: filepath.Join(t.TempDir(), "state")}
	if last, err := lastStart(p); last != nil || err != nil {
		t.Fatalf("before the first: %+v, %v", last, err)
	}
	now := time.Now()
	var last *start
	for _, err := range []error{errors.New("no space left"), misconfigured(errors.New("config.toml:2: x: unknown key"))} {
		s := last.follow(now)
		s.path = startsFile(p)
		if err := s.end(err, now); err != nil {
			t.Fatal(err)
		}
		var rerr error
		if last, rerr = lastStart(p); rerr != nil {
			t.Fatal(rerr)
		}
	}
	if !last.Misconfigured || last.Failures != 1 || last.Last != "no space left" {
		t.Errorf("got %+v", last)
	}
	if text := last.summary(); !strings.Contains(text, "config.toml:2: x: unknown key") || !strings.Contains(text, "hermesd service restart") {
		t.Errorf("it is explained as %q", text)
	}
	waiting := start{Failures: 4, Last: "no space left"}
	if text := waiting.why(); text != "waiting 400ms after 4 failed starts; the last one: no space left" {
		t.Errorf("got %q", text)
	}
	fine := start{Ready: now}
	if text := fine.summary(); text != "" {
		t.Errorf("a daemon that serves is worried about: %q", text)
	}
}
