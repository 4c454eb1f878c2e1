//go:build !windows

package main

import (
	"errors"
	"testing"
)

func TestTheExitCodeOfAWrongConfiguration(t *testing.T) {
	a := newApp(nil, nil, nil)
	a.started = true
	wrong := misconfigured(errors.New("x"))
	if got := a.code(wrong); got != exitFailed {
		t.Errorf("by hand: %d", got)
	}
	for goos, want := range map[string]int{"linux": 78, "freebsd": 78, "darwin": 0} {
		if got := a.code(&exit{serviceExit(goos), wrong}); got != want {
			t.Errorf("%s: %d", goos, got)
		}
	}
}
