package daemon_test

import (
	"context"
	"testing"

	"github.com/hermesd/hermesd/daemon/daemontest"
	"github.com/hermesd/hermesd/daemon/session"
)

// A cancel while nothing runs is nothing: what is prompted right behind it runs.
func TestACancelWhenNothingRunsIsNothing(t *testing.T) {
	r := newRoom(t, &daemontest.Script{Turn: func(ctx context.Context, st *daemontest.Stage) (session.TurnResult, error) {
		return session.TurnResult{StopReason: "end_turn"}, st.Say(ctx, "ran")
	}}, nil)
	for range 3 {
		for range 2 {
			if err := r.a.Cancel(r.id); err != nil {
				t.Fatal(err)
			}
		}
		if got := stop(t, start(t, r.a, r.id, "go")); got != "end_turn" {
			t.Errorf("the prompt behind it is answered %s", got)
		}
	}
}
