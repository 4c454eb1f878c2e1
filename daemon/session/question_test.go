package session

import (
	"context"
	"encoding/json"
	"testing"
	"testing/synctest"
	"time"
)

var yesNo = []Option{{ID: "yes", Name: "Yes", Kind: "allow_once"}, {ID: "no", Name: "No", Kind: "reject_once"}}

func (w *world) snapshot() (snap Snapshot) {
	w.s.Snapshot(func(s Snapshot) { snap = s }, func(err error) { w.t.Errorf("snapshot: %v", err) })
	synctest.Wait()
	return snap
}

// asking is an agent that asks one question in each turn and says what came
// of it.
type asking struct {
	fakeAgents
	answers []Answer
}

func newAsking() *asking {
	a := &asking{}
	a.turn = func(ctx context.Context, h Host, _ Turn) (TurnResult, error) {
		got, err := h.Ask(ctx, Question{ToolCall: json.RawMessage(`{"toolCallId":"x","title":"X"}`), Options: yesNo})
		a.answers = append(a.answers, got)
		return TurnResult{}, err
	}
	return a
}

// TestEveryWayAQuestionEnds plays the rules of a question. Each step is one
// thing that an editor does: "+a" attaches, "-a" leaves, "a:yes" selects, "a:-"
// dismisses, "a:later", "a:unable", "a:failed"; "shown a" says that it was
// written to a; a duration passes; "cancel" cancels the turn.
func TestEveryWayAQuestionEnds(t *testing.T) {
	const open = ""
	for _, c := range []struct {
		name   string
		deny   bool
		before []string
		steps  []string
		want   Outcome // open if it still is
		option string
	}{
		{"first answer wins", false, []string{"+a", "+b"}, []string{"shown a", "shown b", "b:yes", "a:no"}, Selected, "yes"},
		{"a refusal is an answer too", false, []string{"+a"}, []string{"shown a", "a:no"}, Selected, "no"},
		{"what was not offered is a refusal, once", false, []string{"+a"}, []string{"a:maybe", "a:yes"}, NotOffered, ""},
		{"one dismisses, the other may answer", false, []string{"+a", "+b"}, []string{"a:-"}, open, ""},
		{"one dismisses, the other answers", false, []string{"+a", "+b"}, []string{"a:-", "b:yes"}, Selected, "yes"},
		{"all dismiss", false, []string{"+a", "+b"}, []string{"a:-", "b:-"}, Dismissed, ""},
		{"one dismisses, the other can't", false, []string{"+a", "+b"}, []string{"a:-", "b:unable"}, Dismissed, ""},
		{"nobody can", false, []string{"+a", "+b"}, []string{"a:unable", "b:unable"}, NobodyCould, ""},
		{"all fail", false, []string{"+a", "+b"}, []string{"a:failed", "b:failed"}, NobodyCould, ""},
		{"the last who could leaves", false, []string{"+a", "+b"}, []string{"a:-", "-b"}, Dismissed, ""},
		{"nobody is there: it waits", false, nil, []string{"24h"}, open, ""},
		{"nobody is there: somebody comes", false, nil, []string{"24h", "+a", "shown a", "a:yes"}, Selected, "yes"},
		{"all leave: it waits", false, []string{"+a"}, []string{"shown a", "-a", "24h"}, open, ""},
		{"nobody is there and that counts as no", true, nil, nil, NobodyThere, ""},
		{"all leave and that counts as no", true, []string{"+a"}, []string{"shown a", "-a"}, NobodyThere, ""},
		{"time runs from when it was shown", false, []string{"+a"}, []string{"24h"}, open, ""},
		{"it stood there for long enough", false, []string{"+a"}, []string{"shown a", "61s"}, TimedOut, ""},
		{"not yet", false, []string{"+a"}, []string{"shown a", "59s"}, open, ""},
		{"the time does not begin again for a second editor", false, []string{"+a"}, []string{"shown a", "40s", "+b", "shown b", "21s"}, TimedOut, ""},
		{"who had it leaves: time stops", false, []string{"+a", "+b"}, []string{"shown a", "59s", "-a", "24h"}, open, ""},
		{"and begins anew when it is shown again", false, []string{"+a", "+b"}, []string{"shown a", "59s", "-a", "24h", "shown b", "59s"}, open, ""},
		{"and then runs out", false, []string{"+a", "+b"}, []string{"shown a", "59s", "-a", "24h", "shown b", "61s"}, TimedOut, ""},
		{"one of two leaves: time goes on", false, []string{"+a", "+b"}, []string{"shown a", "shown b", "40s", "-a", "21s"}, TimedOut, ""},
		{"later keeps it open", false, []string{"+a"}, []string{"shown a", "a:later", "24h"}, open, ""},
		{"later, and then an answer", false, []string{"+a"}, []string{"shown a", "a:later", "24h", "a:yes"}, Selected, "yes"},
		{"later keeps it open although another dismisses", false, []string{"+a", "+b"}, []string{"shown a", "a:later", "b:-", "24h"}, open, ""},
		{"later keeps it open although it is shown to another", false, []string{"+a"}, []string{"shown a", "a:later", "+b", "shown b", "24h"}, open, ""},
		{"who said later leaves: the others' time runs", false, []string{"+a", "+b"}, []string{"shown a", "shown b", "a:later", "24h", "-a", "61s"}, TimedOut, ""},
		{"the turn is cancelled", false, []string{"+a"}, []string{"shown a", "cancel", "a:yes"}, Cancelled, ""},
		{"cancelled with nobody there", false, nil, []string{"cancel"}, Cancelled, ""},
		{"an answer of somebody who is not attached counts nothing", false, []string{"+a"}, []string{"z:yes"}, open, ""},
		{"who attaches anew is asked again", false, []string{"+a", "+b"}, []string{"a:-", "+a", "b:-"}, open, ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			ag := newAsking()
			inWorld(t, &ag.fakeAgents, func(cfg *Config) { cfg.DenyDetached = c.deny; cfg.IdleAfter = 0 }, func(t *testing.T, w *world) {
				var q Seq
				step := func(s string) {
					if d, err := time.ParseDuration(s); err == nil {
						sleep(d)
						return
					}
					switch {
					case s == "cancel":
						w.s.CancelPrompt(Origin{Conn: "p"}, json.RawMessage("1"))
					case s[0] == '+':
						w.attach(s[1:])
					case s[0] == '-':
						w.s.Detach(s[1:])
					case s[:2] == "sh":
						w.s.Shown(s[6:], q)
					default:
						r := Reply{}
						switch how := s[2:]; how {
						case "-":
						case "later":
							r.Later = true
						case "unable":
							r.Unable, r.Failed = true, true
						case "failed":
							r.Failed = true
						default:
							r.Selected, r.Option = true, how
						}
						w.s.Answer(Origin{Conn: s[:1]}, q, r)
					}
					synctest.Wait()
				}
				for _, s := range c.before {
					step(s)
				}
				w.prompt("p", "1")
				q = 5 // Created, AgentStarted, admitted, started, asked
				for _, s := range c.steps {
					step(s)
				}
				if c.want == open {
					if len(ag.answers) != 0 {
						t.Fatalf("the question ended as %q, should be open", ag.answers[0].Outcome)
					}
					if snap := w.snapshot(); len(snap.Questions) != 1 || !w.s.IsOpen(q) {
						t.Errorf("%d questions open in the snapshot, IsOpen %v", len(snap.Questions), w.s.IsOpen(q))
					}
					return
				}
				if len(ag.answers) != 1 {
					t.Fatalf("%d answers, should be one", len(ag.answers))
				}
				got := ag.answers[0]
				if got.Outcome != c.want || got.Option.ID != c.option {
					t.Errorf("ended as %q %q, should be %q %q", got.Outcome, got.Option.ID, c.want, c.option)
				}
				if allowed := c.option == "yes"; got.Allowed() != allowed {
					t.Errorf("allowed: %v", got.Allowed())
				}
				if w.s.IsOpen(q) || len(w.snapshot().Questions) != 0 {
					t.Error("it still counts as open")
				}
				n := 0
				for _, f := range w.facts() {
					if len(f) > 8 && f[:8] == "answered" {
						n++
					}
				}
				if n != 1 {
					t.Errorf("%d answers in the log: %q", n, w.facts())
				}
			})
		})
	}
}

func TestAnOutcomeReachesTheAgentOnlyWhenItIsDurable(t *testing.T) {
	ag := newAsking()
	inWorld(t, &ag.fakeAgents, nil, func(t *testing.T, w *world) {
		w.attach("a")
		w.prompt("p", "1")
		w.st.mu.Lock()
		w.st.held = true
		w.st.mu.Unlock()
		w.s.Answer(Origin{Conn: "a"}, 5, Reply{Selected: true, Option: "yes"})
		synctest.Wait()
		l := w.st.log("s1")
		l.write()
		synctest.Wait()
		if len(ag.answers) != 0 {
			t.Error("the agent knows an answer that a power cut can take back")
		}
		w.st.mu.Lock()
		w.st.held = false
		w.st.mu.Unlock()
		l.sync()
		synctest.Wait()
		if len(ag.answers) != 1 || !ag.answers[0].Allowed() {
			t.Errorf("answers: %+v", ag.answers)
		}
	})
}

func TestDecideFromOutside(t *testing.T) {
	ag := newAsking()
	inWorld(t, &ag.fakeAgents, nil, func(t *testing.T, w *world) {
		w.prompt("p", "1")
		var errs []error
		say := func(option string, q Seq) {
			w.s.Decide(Origin{}, q, option, func(err error) { errs = append(errs, err) })
			synctest.Wait()
		}
		say("maybe", 5)
		say("yes", 4)
		say("yes", 5)
		say("no", 5)
		if len(errs) != 4 || errs[0] == nil || errs[1] != ErrNotFound || errs[2] != nil || errs[3] != ErrNotFound {
			t.Errorf("answers: %v", errs)
		}
		if len(ag.answers) != 1 || !ag.answers[0].Allowed() {
			t.Errorf("answers: %+v", ag.answers)
		}
	})
}

func TestAnEditorThatCannotIsNotWaitedForAgain(t *testing.T) {
	ag := newAsking()
	inWorld(t, &ag.fakeAgents, nil, func(t *testing.T, w *world) {
		w.attach("mute")
		w.prompt("p", "1")
		w.prompt("p", "2")
		if len(ag.answers) != 2 || ag.answers[0].Outcome != NobodyCould || ag.answers[1].Outcome != NobodyCould {
			t.Errorf("answers: %+v", ag.answers)
		}
	})
}
