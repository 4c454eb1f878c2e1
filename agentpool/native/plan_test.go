//go:build unix

package native

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/hermesd/hermesd/agentpool/native/grants"
	"github.com/hermesd/hermesd/agentpool/native/llm"
	"github.com/hermesd/hermesd/daemon/session"
)

func TestPlanModeReadsAndChangesNothing(t *testing.T) {
	w := newWorld(t, Config{ApprovalMode: "plan"})
	put(t, filepath.Join(w.dir, "a"), "text")
	// Not even what was always allowed.
	if _, err := w.cfg.Grants.Give(grants.Workspace(w.dir), grants.Command, "touch granted", "s"); err != nil {
		t.Fatal(err)
	}
	w.agent.grants[grant{Kind: "edit", What: filepath.Join(w.agent.workspace, "a")}] = true
	w.answer = choose(allowOnce)
	w.prompt("read a\nsearch text\nplan one; two\nrun ls\nwrite a\nx\n.\nwrite .env\nx\n.\nedit a\ntext\n---\nx\n.\nrun touch granted\nrun echo x > b\nrun go test\nrun rm a\nsay on")
	if len(w.asked) != 0 {
		t.Errorf("asked %d times", len(w.asked))
	}
	for i, c := range w.updates("tool_call") {
		end := w.last(i)
		if want := map[bool]string{true: "completed", false: "failed"}[i < 4]; end["status"] != want {
			t.Errorf("%v is %v, want %s", c["title"], end["status"], want)
		}
		if i >= 4 && !strings.Contains(end["rawOutput"].(map[string]any)["error"].(string), "call exit_plan") {
			t.Error(end)
		}
	}
	names, err := os.ReadDir(w.dir)
	if err != nil || len(names) != 1 {
		t.Error(names, err)
	}
	if data, _ := os.ReadFile(filepath.Join(w.dir, "a")); string(data) != "text" {
		t.Errorf("%q", data)
	}
}

func TestPlanModeCountsAtOnce(t *testing.T) {
	w := newWorld(t, Config{})
	w.answer = func(ctx context.Context, q session.Question) (session.Answer, error) {
		if _, err := w.agent.Set(ctx, session.Change{Mode: "plan"}); err != nil {
			t.Error(err)
		}
		return choose(rejectOnce)(ctx, q)
	}
	w.prompt("run touch a\nrun touch b\nwrite c\n.")
	if names, _ := os.ReadDir(w.dir); len(w.asked) != 1 || len(names) != 0 {
		t.Error(len(w.asked), names)
	}
}

func TestExitPlanAsksAndChangesTheModeForAll(t *testing.T) {
	const plan = `{"plan":"1. write\n2. test"}`
	for _, c := range []struct {
		name   string
		answer func(context.Context, session.Question) (session.Answer, error)
		mode   mode
		tells  string
		asks   int // of the edit afterwards
	}{
		{"accept edits", choose("accept_edits"), modeAcceptEdits, "mode is now accept_edits", 0},
		{"ask for each", choose("default"), modeDefault, "mode is now default", 1},
		{"no", choose("plan"), modePlan, "the user wants to keep planning", 0},
		{"no answer", outcome(session.TimedOut), modePlan, "nobody answered the question in time", 0},
		{"nobody there", outcome(session.NobodyThere), modePlan, "nobody was there", 0},
		{"not offered", outcome(session.NotOffered), modePlan, "not offered", 0},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := &script{messages: [][]llm.Event{{calling("exit_plan", plan)}, {calling("write_file", `{"path":"a","content":"x"}`)}}}
			w := newWorld(t, Config{LLM: s, ApprovalMode: "plan"})
			w.answer = func(ctx context.Context, q session.Question) (session.Answer, error) {
				if len(w.asked) == 1 {
					return c.answer(ctx, q)
				}
				return choose(allowOnce)(ctx, q)
			}
			w.prompt("go")
			call := w.updates("tool_call")[0]
			if call["kind"] != "switch_mode" || !strings.Contains(string(encode(call["content"])), "2. test") {
				t.Error(call)
			}
			var offered []string
			for _, o := range w.asked[0].Options {
				offered = append(offered, o.ID+"="+o.Kind+" "+o.Name)
			}
			if strings.Join(offered, "; ") != "accept_edits=allow_always Yes, and accept edits; default=allow_once Yes, and ask for each edit; plan=reject_once No, keep planning" {
				t.Error(offered)
			}
			if got := s.requests[1].Messages[2].Parts[0].Result.Text; !strings.Contains(got, c.tells) {
				t.Errorf("the model is told %q", got)
			}
			if w.agent.currentMode() != c.mode || len(w.asked)-1 != c.asks {
				t.Errorf("the mode is %s, %d questions", w.agent.currentMode(), len(w.asked))
			}
			changed := 0
			for _, r := range w.log {
				if r.Kind == session.KindSettingsChanged {
					changed++
				}
			}
			if (changed == 1) != (c.mode != modePlan) {
				t.Errorf("the session was told of %d changes", changed)
			}
			if _, err := os.Stat(filepath.Join(w.dir, "a")); (err == nil) != (c.mode != modePlan) {
				t.Error(err)
			}
		})
	}
}

func TestExitPlanOutsideOfPlanModeSaysSo(t *testing.T) {
	s := &script{messages: [][]llm.Event{{calling("exit_plan", `{"plan":"x"}`), calling("exit_plan", `{"plan":" "}`), calling("exit_plan", `{}`)}}}
	w := newWorld(t, Config{LLM: s})
	w.prompt("go")
	r := s.requests[1].Messages[2].Parts
	if r[0].Result.Failed || !strings.Contains(r[0].Result.Text, "not in plan mode") || !r[1].Result.Failed || !r[2].Result.Failed || len(w.asked) != 0 || w.agent.currentMode() != modeDefault {
		t.Errorf("%s", encode(r))
	}
}

// The model hears of plan mode beside a prompt, once, and its tools and system
// prompt are the same in every mode.
func TestTheModelIsToldOfPlanModeByWords(t *testing.T) {
	s := &script{}
	w := newWorld(t, Config{LLM: s})
	notes := func() string {
		var all []string
		for _, m := range s.requests[len(s.requests)-1].Messages {
			for _, p := range m.Parts {
				switch p.Note {
				case planNote:
					all = append(all, "plan")
				case planOver:
					all = append(all, "over")
				}
			}
		}
		return strings.Join(all, " ")
	}
	set := func(m string) {
		t.Helper()
		if _, err := w.agent.Set(context.Background(), session.Change{Mode: m}); err != nil {
			t.Fatal(err)
		}
	}
	for _, step := range []struct{ mode, want string }{
		{"default", ""}, {"plan", "plan"}, {"plan", "plan"}, {"accept_edits", "plan over"}, {"dont_ask", "plan over"}, {"plan", "plan over plan"},
	} {
		set(step.mode)
		w.prompt("hello")
		if got := notes(); got != step.want {
			t.Errorf("in %s the model has been told %q, want %q", step.mode, got, step.want)
		}
	}
	first, last := s.requests[0], s.requests[len(s.requests)-1]
	if first.System != last.System || string(encode(first.Tools)) != string(encode(last.Tools)) || !strings.Contains(string(encode(first.Tools)), "exit_plan") {
		t.Error("system prompt or tools changed with the mode")
	}
	// It is the same when the session is opened again, and a prompt that failed takes its note with it.
	live := shape(w.agent.history.messages)
	w.agent.Close()
	w.open(false, settings(w.agent.choice, nil))
	if got := shape(w.agent.history.messages); got != live {
		t.Errorf("%s\nwas %s", got, live)
	}
	w.prompt("hello")
	if got := notes(); got != "plan over plan" {
		t.Errorf("after opening again the model has been told %q", got)
	}
	set("default")
	s.err, s.messages = context.DeadlineExceeded, [][]llm.Event{{}}
	if _, err := w.run(context.Background(), textBlock("fails")); err == nil {
		t.Error("it did not fail")
	}
	s.err = nil
	w.prompt("hello")
	if got := notes(); got != "plan over plan over" {
		t.Errorf("after a failure the model has been told %q", got)
	}
}
