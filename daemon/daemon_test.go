package daemon_test

import (
	"context"
	"os"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/hermesd/hermesd/daemon/daemontest"
	"github.com/hermesd/hermesd/daemon/session"
	"github.com/hermesd/hermesd/store"
	"github.com/hermesd/hermesd/transport/acpclient"
)

// programsDir is where the programs under test were built, "" if they were not.
var programsDir string

func TestMain(m *testing.M) {
	goleak.VerifyTestMain(m, goleak.Cleanup(func(code int) {
		os.RemoveAll(programsDir)
		os.Exit(code)
	}))
}

func within(t testing.TB) context.Context {
	ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
	t.Cleanup(cancel)
	return ctx
}

func openStore(t testing.TB) *store.Store {
	t.Helper()
	st, err := store.Open(t.TempDir(), store.Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := st.Close(); err != nil {
			t.Errorf("closing the store: %v", err)
		}
	})
	return st
}

func TestPromptIsAnsweredAfterItsUpdates(t *testing.T) {
	agent := &daemontest.Script{Turn: func(ctx context.Context, st *daemontest.Stage) (session.TurnResult, error) {
		for i := range 100 {
			if err := st.Say(ctx, "%d ", i); err != nil {
				return session.TurnResult{}, err
			}
		}
		return session.TurnResult{StopReason: "end_turn"}, nil
	}}
	h := daemontest.NewHouse(t, openStore(t), agent, nil)
	a := h.Editor(acpclient.Options{})
	s, err := a.NewSession(within(t), t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	for range 20 {
		res, err := a.Prompt(within(t), s.ID, "count")
		if err != nil {
			t.Fatal(err)
		}
		if res.StopReason != "end_turn" {
			t.Fatalf("stop reason %q", res.StopReason)
		}
	}
	t.Log(a.Story(s.ID).String()[:200])
}
