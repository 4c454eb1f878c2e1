//go:build unix

package external

import (
	"context"
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/hermesd/hermesd/daemon/session"
)

func TestATurnIsTheProgramsOwn(t *testing.T) {
	w := newWorld(t, "noisy")
	set, err := w.open(true)
	if err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(string(set.Modes), `"currentModeId":"ask"`) || !strings.Contains(string(set.Options), `"currentValue":"a"`) {
		t.Errorf("settings %s %s", set.Modes, set.Options)
	}
	r := w.does("say one two")
	if string(r.Usage) != `{"totalTokens":3}` || string(r.Meta) != `{"x":1}` {
		t.Errorf("%+v", r)
	}
	w.does("call")
	all := w.said()
	for _, want := range []string{
		`{"sessionUpdate":"available_commands_update","availableCommands":[]}`,
		`"text":"one"},"messageId":"m_`,
		`{"sessionUpdate":"tool_call_update","toolCallId":"t1","status":"completed"}`,
	} {
		if !strings.Contains(all, want) {
			t.Errorf("%s is not in\n%s", want, all)
		}
	}
	if !strings.Contains(all, `"sessionUpdate":"tool_call","toolCallId":"t1","status":"in_progress","future":{"big":12345678901234567890},"title":"Tool call"`) {
		t.Errorf("the call is not announced as it is:\n%s", all)
	}
	var ids []string
	for _, u := range w.updates() {
		var x struct{ MessageID string }
		if json.Unmarshal([]byte(u), &x) == nil && x.MessageID != "" {
			ids = append(ids, x.MessageID)
		}
	}
	if len(ids) != 2 || ids[0] != ids[1] {
		t.Errorf("two chunks of a message have the ids %q", ids)
	}
}

func TestWhatTheProgramAsks(t *testing.T) {
	w := started(t, "")
	var asked session.Question
	for name, c := range map[string]struct {
		answer session.Answer
		want   string
	}{
		"yes":          {session.Answer{Outcome: session.Selected, Option: session.Option{ID: "yes"}}, `{"outcome":{"outcome":"selected","optionId":"yes"}}`},
		"not offered":  {session.Answer{Outcome: session.NotOffered}, `{"outcome":{"outcome":"selected","optionId":"no"}}`},
		"nobody there": {session.Answer{Outcome: session.NobodyThere}, `{"outcome":{"outcome":"cancelled"}}`},
	} {
		w.answer = func(q session.Question) session.Answer { asked = q; return c.answer }
		w.does("ask")
		quoted, _ := json.Marshal(c.want)
		if !strings.Contains(w.said(), string(quoted)) {
			t.Errorf("%s: %s is not in\n%s", name, quoted, w.said())
		}
	}
	if len(asked.Options) != 2 || asked.Options[1].Kind != "reject_once" || !strings.Contains(string(asked.ToolCall), `"p1"`) {
		t.Errorf("asked %+v", asked)
	}
	if n := strings.Count(w.said(), `"sessionUpdate":"tool_call",`); n != 1 {
		t.Errorf("the call is announced %d times:\n%s", n, w.said())
	}
	w.does("other")
	if !strings.Contains(w.said(), "-32601") {
		t.Error("what nobody serves is not refused")
	}
}

func TestFilesAreThoseOfTheEditorOrTheSession(t *testing.T) {
	w := started(t, "")
	outside := t.TempDir()
	write := func(path, text string) {
		t.Helper()
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	write(filepath.Join(w.dir, "a"), "1\n2\n3\n")
	write(filepath.Join(outside, "s"), "1\nSECRET\n")
	for link, to := range map[string]string{"in": filepath.Join(w.dir, "a"), "out": filepath.Join(outside, "s"), "dir": outside, "nowhere": filepath.Join(outside, "new")} {
		if err := os.Symlink(to, filepath.Join(w.dir, link)); err != nil {
			t.Fatal(err)
		}
	}
	w.does("read " + filepath.Join(w.dir, "a"))
	w.does("read " + filepath.Join(w.dir, "in"))
	if got := strings.Count(w.said(), `{\"content\":\"2\\n\"}`); got != 2 {
		t.Errorf("read %d times:\n%s", got, w.said())
	}
	for _, path := range []string{"out", "dir/s", "../" + filepath.Base(outside) + "/s", "dir/new", "nowhere"} {
		w.does("read " + filepath.Join(w.dir, path))
		w.does("write " + filepath.Join(w.dir, path) + " x")
	}
	if strings.Contains(w.said(), "SECRET") {
		t.Error("a file outside was read")
	}
	if all, _ := os.ReadDir(outside); len(all) != 1 {
		t.Errorf("a file outside was made: %v", all)
	}
	w.does("write " + filepath.Join(w.dir, "new/b") + " hello")
	if got, _ := os.ReadFile(filepath.Join(w.dir, "new/b")); string(got) != "hello" {
		t.Errorf("written %q", got)
	}
	w.files = map[string]string{filepath.Join(w.dir, "a"): "x\nunsaved\n"}
	w.does("read " + filepath.Join(w.dir, "a"))
	if !strings.Contains(w.said(), "unsaved") {
		t.Error("the editor was not asked")
	}
}

func TestModesAndOptions(t *testing.T) {
	w := started(t, "")
	now, err := w.agent.Set(context.Background(), session.Change{Mode: "code"})
	if err != nil || !strings.Contains(string(now.Modes), `"currentModeId":"code"`) {
		t.Errorf("%s, %v", now.Modes, err)
	}
	now, err = w.agent.Set(context.Background(), session.Change{Option: "model", Value: json.RawMessage(`"b"`)})
	if err != nil || !strings.Contains(string(now.Options), `"currentValue":"b"`) {
		t.Errorf("%s, %v", now.Options, err)
	}
	if _, err := w.agent.Set(context.Background(), session.Change{Mode: "ask"}); err != nil {
		t.Fatal(err)
	}
	w.does("mode") // the program changes it itself
	if len(w.now) != 1 || !strings.Contains(string(w.now[0].Modes), `"currentModeId":"code"`) {
		t.Errorf("told of %s", w.now)
	}
	if strings.Contains(w.said(), "current_mode_update") {
		t.Error("a mode is a setting, no update")
	}
}

func TestACancelReachesTheProgram(t *testing.T) {
	w := started(t, "")
	ctx, cancel := context.WithCancel(context.Background())
	go func() {
		w.until("the call", func() bool { return strings.Contains(w.said(), "Hang") })
		cancel()
	}()
	r, err := w.prompt(ctx, "hang")
	if err != nil || r.StopReason != "cancelled" || !strings.Contains(w.heard(), "session/cancel") {
		t.Errorf("%+v, %v", r, err)
	}
	w.does("late")
	w.until("what comes after the answer", func() bool { return strings.Contains(w.said(), `"late"`) })
}

func TestAProgramThatDiesIsStartedAgain(t *testing.T) {
	for how, restored := range map[string]string{"resume": "session/resume", "load": "session/load", "load forgets": "transcript", "": "transcript"} {
		t.Run(how, func(t *testing.T) {
			w := started(t, how)
			w.does("say remember")
			if _, err := w.agent.Set(context.Background(), session.Change{Mode: "code"}); err != nil {
				t.Fatal(err)
			}
			_, err := w.prompt(context.Background(), "die")
			var e *session.Error
			if !errors.As(err, &e) || !strings.Contains(e.Message, "exit status 3") || !strings.Contains(e.Message, "out of luck") || !strings.Contains(e.Message, "unknown") {
				t.Errorf("%v", err)
			}
			if !strings.Contains(w.said(), `"toolCallId":"d1","status":"failed"`) {
				t.Errorf("its call has no end:\n%s", w.said())
			}
			w.does("say again")
			heard := w.heard()
			if restored == "transcript" {
				last := heard[strings.LastIndex(heard, "session/prompt"):]
				if !strings.Contains(last, "User: say remember") || !strings.Contains(last, "Agent: remember") || !strings.Contains(w.said(), "has no memory") {
					t.Errorf("told %s", last)
				}
				w.does("say more")
				if heard = w.heard(); strings.Contains(heard[strings.LastIndex(heard, "session/prompt"):], "remember") {
					t.Error("told twice")
				}
			} else if !strings.Contains(heard, restored) || strings.Contains(w.said(), "has no memory") {
				t.Errorf("not restored by %s:\n%s", restored, heard)
			}
			if strings.Contains(w.said(), "REPLAYED") {
				t.Error("the replay of a load is shown")
			}
			if strings.Count(heard, `"modeId":"code"`) != 2 {
				t.Errorf("the mode was not asked for again:\n%s", heard)
			}
		})
	}
}

func TestProgramsThatDoNotStart(t *testing.T) {
	for how, want := range map[string]string{
		"dies":     "no configuration found",
		"version2": "version 2 of the protocol",
		"login":    "Authentication required",
	} {
		w := newWorld(t, how)
		_, err := w.open(true)
		var e *session.Error
		if !errors.As(err, &e) || !strings.Contains(e.Message, want) {
			t.Errorf("%s: %v", how, err)
		}
		if how == "login" && e.Code != session.CodeAuthRequired {
			t.Errorf("code %d", e.Code)
		}
	}
	w := newWorld(t, "")
	w.cfg.Command = []string{"no-such-agent"}
	if _, err := w.open(true); err == nil || !strings.Contains(err.Error(), "[agents.fake] command") {
		t.Error(err)
	}
	w = newWorld(t, "deaf")
	ctx, cancel := context.WithTimeout(context.Background(), 200*time.Millisecond)
	defer cancel()
	if _, _, err := Open(ctx, session.Spec{Meta: session.Meta{ID: "s", Cwd: w.dir}, Fresh: true}, w.host, w.cfg); err == nil || !strings.Contains(err.Error(), "did not answer in time") {
		t.Error(err)
	}
}

// A fork has its parent's records, and an agent session of its own.
func TestAForkIsNotItsParent(t *testing.T) {
	w := started(t, "resume")
	w.does("say remember")
	parent := w.agent
	a, _, err := Open(context.Background(), session.Spec{Meta: session.Meta{ID: "fork", Cwd: w.dir}}, w.host, w.cfg)
	if err != nil {
		t.Fatal(err)
	}
	defer a.Close()
	if strings.Contains(w.heard(), "session/resume") || !strings.Contains(w.said(), "has no memory") {
		t.Errorf("it took up the session of its parent:\n%s", w.heard())
	}
	_ = parent
}

func TestNothingOfAProgramOutlivesIt(t *testing.T) {
	w := started(t, "stays") // does not end with its input
	w.does("tool " + w.dir)
	data, err := os.ReadFile(filepath.Join(w.dir, "pid"))
	if err != nil {
		t.Fatal(err)
	}
	tool, _ := strconv.Atoi(strings.TrimSpace(string(data)))
	agent := w.agent.life.cmd.Process.Pid
	w.agent.Close()
	for name, pid := range map[string]int{"the program": agent, "its tool": tool} {
		stat, _ := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/stat")
		if syscall.Kill(pid, 0) == nil && !strings.Contains(string(stat), ") Z ") {
			t.Errorf("%s lives on", name)
			_ = syscall.Kill(pid, syscall.SIGKILL)
		}
	}
	if _, err := w.prompt(context.Background(), "say x"); err == nil {
		t.Error("it works after Close")
	}
}

func TestCutLines(t *testing.T) {
	for _, c := range []struct {
		line, limit int
		want        string
	}{{0, -1, "a\nb\nc"}, {1, -1, "a\nb\nc"}, {2, 1, "b\n"}, {3, 5, "c"}, {4, -1, ""}, {1, 0, ""}, {2, -1, "b\nc"}} {
		if got := cutLines("a\nb\nc", c.line, c.limit); got != c.want {
			t.Errorf("%d, %d: %q, want %q", c.line, c.limit, got, c.want)
		}
	}
}

// What an agent says is checked as far as hermesd depends on it: an update has a
// kind, and hermesd's own words are its own.
func TestWhatIsNoUpdateIsLeftOut(t *testing.T) {
	w := started(t, "")
	l := w.agent.life
	for _, u := range []string{`5`, `{}`, `{"sessionUpdate":3}`, `{"sessionUpdate":""}`} {
		l.update([]byte(u))
	}
	l.update([]byte(`{"sessionUpdate":"session_info_update","title":"x","_meta":{"hermes":{"deleted":true},"own":1}}`))
	all := w.updates()
	if last := all[len(all)-1]; last != `{"sessionUpdate":"session_info_update","title":"x","_meta":{"own":1}}` {
		t.Errorf("the last update is %s", last)
	}
	for _, u := range all {
		if u == "5" || u == "{}" {
			t.Errorf("%s is an update", u)
		}
	}
}

func TestManyOpenCallsCostNoMoreThanFew(t *testing.T) {
	var o order
	for i := range 3 * maxCalls {
		o.repair([]byte(`{"sessionUpdate":"tool_call","toolCallId":"t` + strconv.Itoa(i) + `","title":"x","status":"pending"}`))
	}
	if len(o.calls) > maxCalls || len(o.ids) > maxCalls {
		t.Errorf("%d calls are remembered", len(o.calls))
	}
}
