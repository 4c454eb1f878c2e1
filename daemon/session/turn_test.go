package session

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

func TestCancelEndsOwnPromptsAndAForeignTurnOnlyIfItWasSeen(t *testing.T) {
	for _, c := range []struct {
		name    string
		prompts []string // conn/request; the first one runs
		conn    string
		passed  Seq // of the cancelling connection's cursor
		want    []string
	}{
		{"own turn", []string{"a/1"}, "a", 0, []string{"admitted a/1", "started a/1", "ended a/1 cancelled"}},
		{"own turn and own queue", []string{"a/1", "a/2", "a/3"}, "a", 0, []string{
			"admitted a/1", "started a/1", "admitted a/2", "admitted a/3", "ended a/1 cancelled", "withdrawn a/2 0", "withdrawn a/3 0"}},
		{"own turn, a foreign prompt waits and then runs", []string{"a/1", "b/1"}, "a", 0, []string{
			"admitted a/1", "started a/1", "admitted b/1", "ended a/1 cancelled", "started b/1"}},
		{"own queue only: the foreign turn goes on", []string{"b/1", "a/1"}, "a", 1000, []string{
			"admitted b/1", "started b/1", "admitted a/1", "withdrawn a/1 0"}},
		{"no own prompt, turn seen", []string{"b/1", "b/2"}, "a", 1000, []string{
			"admitted b/1", "started b/1", "admitted b/2", "ended b/1 cancelled", "started b/2"}},
		{"no own prompt, turn not seen yet", []string{"b/1"}, "a", 3, []string{"admitted b/1", "started b/1"}},
		{"nothing runs", nil, "a", 1000, nil},
	} {
		t.Run(c.name, func(t *testing.T) {
			inWorld(t, &fakeAgents{turn: untilCancelled}, nil, func(t *testing.T, w *world) {
				for _, p := range c.prompts {
					conn, req, _ := strings.Cut(p, "/")
					w.prompt(conn, req)
				}
				w.s.Cancel(Origin{Conn: c.conn}, c.passed)
				w.expect(c.want...)
			})
		})
	}
}

func TestCancelRequestTakesBackExactlyThatPrompt(t *testing.T) {
	inWorld(t, &fakeAgents{turn: untilCancelled}, nil, func(t *testing.T, w *world) {
		for _, p := range []string{"1", "2", "3"} {
			w.prompt("a", p)
		}
		w.prompt("b", "2")
		w.s.CancelPrompt(Origin{Conn: "a"}, json.RawMessage("2")) // queued
		w.s.CancelPrompt(Origin{Conn: "a"}, json.RawMessage("9")) // nobody's
		w.s.CancelPrompt(Origin{Conn: "c"}, json.RawMessage("3")) // not c's
		w.s.CancelPrompt(Origin{Conn: "a"}, json.RawMessage("1")) // running
		w.expect("admitted a/1", "started a/1", "admitted a/2", "admitted a/3", "admitted b/2",
			"withdrawn a/2 -32800", "ended a/1 cancelled", "started a/3")
	})
}

func TestQueueIsFirstInFirstOut(t *testing.T) {
	ag := &fakeAgents{}
	inWorld(t, ag, func(c *Config) { c.MaxQueue = 4 }, func(t *testing.T, w *world) {
		g := make(gate)
		var ran []string
		ag.turn = func(ctx context.Context, h Host, t Turn) (TurnResult, error) {
			ran = append(ran, string(t.Blocks[0]))
			return g.turn(ctx, h, t)
		}
		order := []string{"a/1", "b/1", "a/2", "c/1", "b/2"}
		for _, p := range order {
			conn, req, _ := strings.Cut(p, "/")
			w.prompt(conn, req)
		}
		w.prompt("d", "1") // one runs, four wait
		if len(w.refused) != 1 || !strings.HasPrefix(w.refused[0], "d/1") {
			t.Errorf("refused: %q, should be d/1 only", w.refused)
		}
		for range order {
			g <- "end_turn"
			synctest.Wait()
		}
		for i, p := range order {
			if i >= len(ran) || !strings.Contains(ran[i], p) {
				t.Errorf("turns ran as %q, should be in the order %q", ran, order)
				break
			}
		}
	})
}

func TestCloseEndsTheTurnOnlyOfItsStarterAndOnlyIfNobodyElseIsThere(t *testing.T) {
	for _, c := range []struct {
		name    string
		editors []string
		prompts []string
		want    []string
	}{
		{"starter, alone", []string{"a"}, []string{"a/1", "a/2"}, []string{
			"admitted a/1", "started a/1", "admitted a/2", "withdrawn a/2 0", "ended a/1 cancelled", "detached a"}},
		{"starter, with another", []string{"a", "b"}, []string{"a/1"}, []string{"admitted a/1", "started a/1", "detached a"}},
		{"not the starter, alone", []string{"a"}, []string{"gone/1"}, []string{"admitted gone/1", "started gone/1", "detached a"}},
		{"not the starter, with the starter", []string{"a", "b"}, []string{"b/1", "a/1"}, []string{
			"admitted b/1", "started b/1", "admitted a/1", "withdrawn a/1 0", "detached a"}},
		{"idle", []string{"a"}, nil, []string{"detached a"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			inWorld(t, &fakeAgents{turn: untilCancelled}, nil, func(t *testing.T, w *world) {
				for _, e := range c.editors {
					w.attach(e)
				}
				for _, p := range c.prompts {
					conn, req, _ := strings.Cut(p, "/")
					w.prompt(conn, req)
				}
				w.s.Close(origin("a", "9"), func(err error) { t.Error(err) })
				w.expect(c.want...)
			})
		})
	}
}

// An editor that closes and loads again in one breath is attached: what it
// answers counts.
func TestLoadRightAfterCloseStaysAttached(t *testing.T) {
	var answers []Answer
	ag := &fakeAgents{turn: func(ctx context.Context, h Host, t Turn) (TurnResult, error) {
		if strings.Contains(string(t.Blocks[0]), "a/1") {
			<-ctx.Done()
			time.Sleep(time.Second) // a slow end
			return TurnResult{}, nil
		}
		a, err := h.Ask(ctx, Question{ToolCall: json.RawMessage(`{"toolCallId":"x"}`), Options: yesNo})
		answers = append(answers, a)
		return TurnResult{}, err
	}}
	inWorld(t, ag, nil, func(t *testing.T, w *world) {
		w.attach("a")
		w.prompt("a", "1")
		w.s.Close(origin("a", "8"), func(err error) { t.Error(err) })
		w.attach("a") // before the turn has ended
		sleep(2 * time.Second)
		w.prompt("a", "2")
		snap := w.snapshot()
		if len(snap.Questions) != 1 || snap.Editors != 1 {
			t.Fatalf("%d questions, %d editors; should be one each", len(snap.Questions), snap.Editors)
		}
		w.s.Answer(Origin{Conn: "a"}, snap.Questions[0].Seq, Reply{Selected: true, Option: "yes"})
		synctest.Wait()
		if len(answers) != 1 || !answers[0].Allowed() {
			t.Errorf("answers: %+v, should be allowed once", answers)
		}
	})
}

func TestAnAgentThatIgnoresACancelLosesItsTurnAfterTheGrace(t *testing.T) {
	release := make(chan struct{})
	n := 0
	var old Host
	ag := &fakeAgents{}
	ag.turn = func(ctx context.Context, h Host, t Turn) (TurnResult, error) {
		if n++; n == 1 {
			old = h
			<-release
			_ = h.Update(context.Background(), chunkUpdate("m", "late"))
			return TurnResult{StopReason: "end_turn"}, nil
		}
		return TurnResult{}, nil
	}
	synctest.Test(t, func(t *testing.T) {
		release = make(chan struct{})
		w := &world{t: t, cfg: DefaultConfig(), st: newFakeStore(), ag: ag}
		w.s = w.make("s1")
		w.prompt("a", "1")
		w.prompt("a", "2")
		w.prompt("b", "1")
		w.s.CancelPrompt(Origin{Conn: "a"}, json.RawMessage("1"))
		sleep(w.cfg.CancelGrace - time.Second)
		w.expect("admitted a/1", "started a/1", "admitted a/2", "admitted b/1")
		sleep(2 * time.Second)
		want := []string{"admitted a/1", "started a/1", "admitted a/2", "admitted b/1", "agent_died", "ended a/1 cancelled",
			"started a/2", "ended a/2 end_turn", "started b/1", "ended b/1 end_turn"}
		w.expect(want...)
		close(release) // what the old agent says and answers now is nobody's
		w.expect(want...)
		if err := old.Update(context.Background(), chunkUpdate("m", "later")); err != nil {
			t.Errorf("an agent that was given up hears %v", err)
		}
		if a, _ := old.Ask(context.Background(), Question{Options: yesNo}); a.Outcome != Cancelled {
			t.Errorf("a question of an agent that was given up: %s", a.Outcome)
		}
		w.expect(want...)
		w.stop(w.s)
		if ever, open := ag.opened(); ever != 2 || open != 0 {
			t.Errorf("%d agents opened, %d still open; should be 2 and 0", ever, open)
		}
	})
}

func TestErrorsAndPanicsOfAnAgentEndItsTurnOnly(t *testing.T) {
	ag := &fakeAgents{turn: func(_ context.Context, _ Host, t Turn) (TurnResult, error) {
		switch {
		case strings.Contains(string(t.Blocks[0]), "a/1"):
			return TurnResult{}, errors.New("plain")
		case strings.Contains(string(t.Blocks[0]), "a/2"):
			return TurnResult{}, fmt.Errorf("wrapped: %w", &Error{Code: CodeAuthRequired, Message: "log in"})
		case strings.Contains(string(t.Blocks[0]), "a/3"):
			panic("oh")
		}
		return TurnResult{StopReason: "refusal"}, nil
	}}
	inWorld(t, ag, nil, func(t *testing.T, w *world) {
		for _, p := range []string{"1", "2", "3", "4"} {
			w.prompt("a", p)
		}
		w.expect("admitted a/1", "started a/1", "ended a/1 error -32603", "admitted a/2", "started a/2", "ended a/2 error -32000",
			"admitted a/3", "started a/3", "ended a/3 error -32603", "admitted a/4", "started a/4", "ended a/4 refusal")
	})
}

func TestDeleteWhileRunningCancelsTellsAndRemoves(t *testing.T) {
	inWorld(t, &fakeAgents{turn: untilCancelled}, nil, func(t *testing.T, w *world) {
		_, c := w.attach("b")
		w.prompt("a", "1")
		w.prompt("b", "1")
		done := make(chan error, 2)
		w.s.Delete(origin("a", "2"), func(err error) { done <- err })
		w.s.Delete(origin("b", "2"), func(err error) { done <- err })
		for range 2 {
			if err := <-done; err != nil {
				t.Errorf("delete: %v", err)
			}
		}
		var kinds []string
		for {
			p, err := c.Next(t.Context(), 0)
			if err != nil {
				if !errors.Is(err, ErrNotFound) {
					t.Errorf("a reader of a deleted session gets %v", err)
				}
				break
			}
			for _, e := range p.Block.Events {
				kinds = append(kinds, e.Kind.String())
			}
		}
		if got := strings.Join(kinds, " "); got != "prompt_admitted turn_started prompt_admitted prompt_withdrawn turn_ended deleted" {
			t.Errorf("a reader sees %s", got)
		}
		if _, ok := w.st.Lookup(w.s.ID()); ok {
			t.Error("the session is still stored")
		}
		w.prompt("a", "3")
		if len(w.refused) != 1 {
			t.Errorf("refused %q, should be the prompt after the deletion", w.refused)
		}
	})
}

// Nothing follows Deleted, whatever was under way.
func TestDeletedIsTheLastEvent(t *testing.T) {
	set := make(chan struct{})
	ag := &fakeAgents{}
	synctest.Test(t, func(t *testing.T) {
		set = make(chan struct{})
		ag.setting = func(context.Context, Change) (Settings, error) {
			<-set
			return Settings{Modes: json.RawMessage(`{"currentModeId":"x"}`)}, nil
		}
		w := &world{t: t, cfg: DefaultConfig(), st: newFakeStore(), ag: ag}
		w.s = w.make("s1")
		w.attach("a")
		w.s.Set(origin("a", "1"), Change{Mode: "x"}, func(error) {})
		synctest.Wait()
		w.st.mu.Lock()
		w.st.held = true // Deleted is decided, not yet written
		w.st.mu.Unlock()
		done := make(chan error, 1)
		w.s.Delete(origin("a", "2"), func(err error) { done <- err })
		synctest.Wait()
		close(set)
		synctest.Wait()
		go func() { _, _ = ag.last().Ask(context.Background(), Question{Options: yesNo}) }()
		_ = ag.last().Update(context.Background(), chunkUpdate("m", "x"))
		w.s.Close(origin("a", "3"), func(error) {})
		w.s.SetRoots(origin("a", "4"), []string{"/x"}, nil, func(bool) {})
		synctest.Wait()
		l := w.st.log("s1")
		facts := w.facts()
		l.write()
		l.sync()
		synctest.Wait()
		l.write()
		l.sync()
		if err := <-done; err != nil {
			t.Error(err)
		}
		<-w.s.Done()
		if last := facts[len(facts)-1]; last != "deleted" {
			t.Errorf("the log ends with %q", facts)
		}
	})
}

func TestStopAnswersEverythingAndTheNextLifeRunsNothingAgain(t *testing.T) {
	ran := 0
	ag := &fakeAgents{turn: func(ctx context.Context, h Host, t Turn) (TurnResult, error) {
		ran++
		return untilCancelled(ctx, h, t)
	}}
	inWorld(t, ag, nil, func(t *testing.T, w *world) {
		w.prompt("a", "1")
		w.prompt("b", "1")
		w.s.Stop(time.Minute)
		w.prompt("c", "1")
		<-w.s.Done()
		want := []string{"admitted a/1", "started a/1", "admitted b/1", "withdrawn b/1 0", "ended a/1 cancelled"}
		w.expect(want...)
		w.s = Open(w.s.ID(), w.cfg, w.st, w.ag, nil)
		w.expect(want...)
		if ran != 1 {
			t.Errorf("%d turns ran", ran)
		}
		if len(w.refused) != 1 {
			t.Errorf("refused %q, should be c/1", w.refused)
		}
	})
}
