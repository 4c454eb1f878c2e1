package daemon_test

import (
	"context"
	"sync"
	"testing"
	"testing/synctest"

	"github.com/hermesd/hermesd/daemon/daemontest"
	"github.com/hermesd/hermesd/daemon/session"
	"github.com/hermesd/hermesd/transport/acpclient"
	"github.com/hermesd/hermesd/transport/jsonrpc"
)

// outcomes is an agent that asks in every turn, and how its questions ended.
type outcomes struct {
	mu  sync.Mutex
	all []session.Outcome
}

func (o *outcomes) agent() *daemontest.Script {
	return &daemontest.Script{Turn: func(ctx context.Context, st *daemontest.Stage) (session.TurnResult, error) {
		a, err := st.Permit(ctx, "launch")
		o.mu.Lock()
		o.all = append(o.all, a.Outcome)
		o.mu.Unlock()
		return session.TurnResult{StopReason: "end_turn"}, err
	}}
}

func (o *outcomes) are(t *testing.T, want ...session.Outcome) {
	t.Helper()
	o.mu.Lock()
	defer o.mu.Unlock()
	if len(o.all) != len(want) {
		t.Fatalf("questions ended as %q, should be %q", o.all, want)
	}
	for i := range want {
		if o.all[i] != want[i] {
			t.Fatalf("questions ended as %q, should be %q", o.all, want)
		}
	}
}

var unknownMethod = &jsonrpc.Error{Code: -32601, Message: "Method not found"}

// What an editor says of questions it says of all: those that stand before it
// in its other sessions wait for nobody.
func TestWhoDoesNotKnowQuestionsIsWaitedForInNoneOfItsSessions(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var o outcomes
		r := newRoom(t, o.agent(), nil)
		other, err := r.a.NewSession(within(t), r.cwd)
		if err != nil {
			t.Fatal(err)
		}
		one, two := start(t, r.a, r.id, "x"), start(t, r.a, other.ID, "x")
		synctest.Wait()
		open := r.a.Questions()
		if len(open) != 2 {
			t.Fatalf("%d questions were put, should be two", len(open))
		}
		if err := r.a.AnswerRaw(open[0].ID, nil, unknownMethod); err != nil {
			t.Fatal(err)
		}
		if x, y := stop(t, one), stop(t, two); x != "end_turn" || y != "end_turn" {
			t.Errorf("the prompts were answered %s and %s", x, y)
		}
		o.are(t, session.NobodyCould, session.NobodyCould)
	})
}

// The same after the session was closed and loaded again on the connection.
func TestWhoDoesNotKnowQuestionsDoesNotLearnThemByLoadingAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var o outcomes
		r := newRoom(t, o.agent(), nil)
		one := start(t, r.a, r.id, "x")
		if err := r.a.AnswerRaw(awaitQuestion(t, r.a).ID, nil, unknownMethod); err != nil {
			t.Fatal(err)
		}
		stop(t, one)
		if err := r.a.CloseSession(within(t), r.id); err != nil {
			t.Fatal(err)
		}
		if _, err := r.a.Load(within(t), r.id, r.cwd); err != nil {
			t.Fatal(err)
		}
		if got := stop(t, start(t, r.a, r.id, "x")); got != "end_turn" {
			t.Errorf("the prompt was answered %s", got)
		}
		o.are(t, session.NobodyCould, session.NobodyCould)
		n := 0
		for _, e := range r.a.Entries() {
			if e.Kind == acpclient.Asked {
				n++
			}
		}
		if n != 1 {
			t.Errorf("it was asked %d times", n)
		}
	})
}
