//go:build unix

package cases

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/hermesd/hermesd/daemon/daemontest"
)

// C29: only an option that was offered and allows is consent.
func c29(r *run) {
	r.play(2)
	a, s := r.ed("A"), r.vars["$S"]
	ran := filepath.Join(r.home.Work, "ran.txt")
	var table struct {
		Answers []json.RawMessage `json:"for_each_answer"`
		Steps   []json.RawMessage `json:"steps"`
	}
	must(r.T, json.Unmarshal(r.take(), &table))
	for _, answer := range table.Answers {
		r.vars["$n"] = jsonInt(r.nextID())
		mark := len(a.Frames())
		for _, step := range table.Steps {
			// The outcome names options by kind; they are known once it is asked.
			r.vars["$answer"] = r.expand(string(answer))
			r.step(step)
		}
		got := calls(a.updates(s, mark))
		if len(got) != 1 || got[0].last() != "failed" {
			r.Errorf("answered %s, the call is not failed: %s", answer, a.transcript(10))
		}
		if f := a.only(r.free); stopReason(f) != "end_turn" {
			r.Errorf("answered %s, the turn ended with %s", answer, f.Raw)
		}
		if text := said(a.updates(s, mark), "agent_message_chunk"); !strings.Contains(text, "terminal did not work") {
			r.Errorf("answered %s, the model was not told: %q", answer, text)
		}
	}
	r.skip(1, "a note")
	r.rest()
	r.wantStop(a.await(responseTo(50), patience), "end_turn")
	if _, err := os.Stat(ran); err == nil {
		r.Error("an error answer let the command run")
	}
}

func jsonInt(n int) string { data, _ := json.Marshal(n); return string(data) }

// C30: a question has an end, and a late answer is none.
func c30(r *run) {
	r.play(2)
	r.skip(1, "in the config of this case")
	r.play(3)
	a, s := r.ed("A"), r.vars["$S"]
	r.play(2)
	r.wantStop(a.only(2), "end_turn")
	got := calls(a.updates(s, 0))
	if len(got) != 1 || got[0].last() != "failed" {
		r.Errorf("the call that was not answered: %s", a.transcript(15))
	}
	if all := strings.ToLower(a.said(s) + strings.Join(got[0].raw, " ")); !strings.Contains(all, "time") && !strings.Contains(all, "in 2s") && !strings.Contains(all, "within") {
		r.Errorf("the reason is missing: %s", all)
	}
	r.play(3)
	if r.vars["$P1"] == r.vars["$P2"] {
		r.Errorf("the id %s was used for two questions", r.vars["$P1"])
	}
	r.rest()
	r.wantStop(a.only(3), "end_turn")
	for _, f := range a.Frames() {
		if f.Error != nil {
			r.Errorf("the late answer brought %s", f.Raw)
		}
	}
}

// C31: what "always" covers.
func c31(r *run) {
	r.play(4)
	a, s := r.ed("A"), r.vars["$S"]
	must(r.T, os.MkdirAll(filepath.Join(r.home.Work, "x"), 0o755))
	r.play(1) // the question
	q := question(a.questions()[0])
	for _, o := range q.Options {
		if o.Kind == "allow_always" && !strings.Contains(o.Name, "git") && !strings.Contains(strings.ToLower(o.Name), "session") {
			r.Errorf("the option %q does not say what is remembered", o.Name)
		}
	}
	r.play(2)
	r.play(1)
	a.answers("reject_once")
	before := len(a.questions())
	r.play(1)
	r.wantStop(a.await(responseTo(3), patience), "end_turn")
	r.skip(1, "counted here")
	asks := a.questions()[before:]
	if len(asks) != 2 {
		r.Errorf("%d questions, want 2: for the chained command and for the other tool\n%s", len(asks), a.transcript(40))
	}
	if _, err := os.Stat(filepath.Join(r.home.Work, "x")); err != nil {
		r.Error("the chained command ran")
	}
	r.play(4)
	b := r.ed("B")
	r.skip(1, "the option said that it holds in the workspace, which is B's too")
	r.wantStop(b.await(responseTo(2), patience), "end_turn")
	if n := len(b.questions()); n != 0 {
		r.Errorf("in the same workspace B was asked %d times", n)
	}
	b.answers("reject_once")
	if stop := b.prompt(b.open(filepath.Join(r.home.Work, "x")), "run git status"); stop != "end_turn" || len(b.questions()) != 1 {
		r.Errorf("in another workspace B was asked %d times", len(b.questions()))
	}
	r.vars["$S"] = s
	r.play(2)
	a = r.ed("A")
	a.answers("reject_once")
	r.rest()
	r.wantStop(a.await(responseTo(4), patience), "end_turn")
	if n := len(a.questions()); n > 1 {
		r.Errorf("after the restart there were %d questions for one command", n)
	} else if n == 0 {
		// The grant is kept: it must not have grown.
		if stop := a.prompt(s, "run git status; true"); stop != "end_turn" || len(a.questions()) != 1 {
			r.Errorf("the grant grew with the restart: %d questions", len(a.questions()))
		}
	}
}

// C33: a question is put to whoever comes, and answered once.
func c33(r *run) {
	r.play(5)
	s := r.vars["$S"]
	r.play(2)
	b := r.ed("B")
	pb := r.vars["$P"]
	qa, qb := question(r.ed("A").questions()[0]), question(b.questions()[0])
	r.play(2) // A is killed, C loads
	c := r.ed("C")
	at := len(c.Frames())
	r.play(1)
	pc := r.vars["$P"]
	qc := question(c.questions()[0])
	for name, q := range map[string]asked{"B": qb, "C": qc} {
		if q.ToolCall.ToolCallID != qa.ToolCall.ToolCallID || len(q.Options) != len(qa.Options) {
			r.Errorf("%s was asked %+v, A %+v", name, q, qa)
		}
	}
	// The question comes after the answer to the load.
	answered, put := -1, -1
	for i, f := range c.Frames() {
		if f.IsResponse() && string(f.ID) != "0" && answered < 0 {
			answered = i
		}
		if f.Method == "session/request_permission" {
			put = i
		}
	}
	if answered < 0 || put < answered {
		r.Errorf("C was asked (frame %d) before its load was answered (frame %d of %d)", put, answered, at)
	}
	r.vars["$P"] = pb
	r.play(1) // B allows
	c.await(func(f daemontest.Frame) bool {
		return f.Method == "$/cancel_request" && bytes.Contains(f.Params, json.RawMessage(pc))
	}, patience)
	r.vars["$P"] = pc
	mark := len(c.Frames())
	r.play(1) // C rejects, too late
	ran := filepath.Join(r.home.Work, "ran.txt")
	for limit := time.Now().Add(patience); ; time.Sleep(5 * time.Millisecond) {
		if _, err := os.Stat(ran); err == nil {
			break
		}
		if time.Now().After(limit) {
			r.Fatal("the command that B allowed did not run")
		}
	}
	r.play(1)
	b.await(hasUpdate("agent_message_chunk", "done"), patience)
	b.settle()
	c.settle()
	got := r.order(b, s)
	if len(got) != 1 || got[0].last() != "completed" {
		r.Errorf("the call: %s", b.transcript(20))
	}
	for _, f := range c.Frames()[mark:] {
		if f.Error != nil {
			r.Errorf("C's late answer brought %s", f.Raw)
		}
	}
}
