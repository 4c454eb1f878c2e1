//go:build unix

package native

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/hermesd/hermesd/agentpool/native/llm"
	"github.com/hermesd/hermesd/daemon/session"
)

// script is a model that plays one message after the other.
type script struct {
	messages [][]llm.Event
	requests []llm.Request
	stop     llm.Stop
	err      error
}

func (s *script) Info() llm.Info {
	return llm.Info{Provider: "script", Name: "script", Window: 200_000}
}

func (s *script) Stream(_ context.Context, req llm.Request, yield func(llm.Event) error) (llm.Stop, error) {
	req.Messages = append([]llm.Message(nil), req.Messages...)
	s.requests = append(s.requests, req)
	if len(s.messages) == 0 {
		return llm.StopEnd, nil
	}
	events := s.messages[0]
	s.messages = s.messages[1:]
	for _, e := range events {
		if err := yield(e); err != nil {
			return llm.StopEnd, err
		}
	}
	if s.err != nil {
		return llm.StopEnd, s.err
	}
	if s.stop != "" {
		return s.stop, nil
	}
	return llm.StopEnd, nil
}

func calling(name, args string) llm.Event {
	return llm.Event{Kind: llm.EventCall, Call: &llm.ToolCall{Name: name, Args: json.RawMessage(args)}}
}

func TestSayIsStreamedAfterANotice(t *testing.T) {
	w := newWorld(t, Config{})
	w.prompt("say hello world")
	if got := w.said(); !strings.HasSuffix(got, "\n\nhello world") || !strings.Contains(got, "offline") {
		t.Errorf("said %q", got)
	}
	w.prompt("say again")
	if got := w.said(); strings.Count(got, "I am the offline model") != 1 || !strings.HasSuffix(got, "again") {
		t.Errorf("said %q", got)
	}
}

func TestMessageIDsChangeWithKindAndBehindACall(t *testing.T) {
	w := newWorld(t, Config{})
	put(t, filepath.Join(w.dir, "a"), "x")
	w.prompt("think a b\nsay c d\nread a\nsay e")
	var ids []string
	for _, r := range w.log {
		var u struct {
			Kind    string `json:"sessionUpdate"`
			Message string `json:"messageId"`
		}
		if r.Kind != session.KindUpdate || json.Unmarshal(r.Data, &u) != nil {
			continue
		}
		if id := strings.TrimSuffix(strings.TrimPrefix(u.Kind, "agent_"), "_chunk") + " " + u.Message; u.Message != "" && (len(ids) == 0 || ids[len(ids)-1] != id) {
			ids = append(ids, id)
		}
	}
	seq := w.log[1].First
	want := fmt.Sprintf("[message msg_%d_1 thought msg_%[1]d_2 message msg_%[1]d_3 message msg_%[1]d_4]", seq)
	if fmt.Sprint(ids) != want {
		t.Errorf("%v, want %s", ids, want)
	}
}

func TestACallIsAnnouncedAskedStartedMadeDurableAndEnded(t *testing.T) {
	w := newWorld(t, Config{})
	w.answer = choose(allowOnce)
	w.orders = nil
	w.prompt("write sub/a.txt\nhello\n.\nrun echo one")
	id := w.updates("tool_call")[0]["toolCallId"].(string)
	var got []string
	for _, o := range w.orders {
		if strings.Contains(o, "chunk") || strings.HasPrefix(o, "usage") || strings.HasPrefix(o, "session_info") || o == "record" {
			continue
		}
		if strings.HasSuffix(o, "tool_call_update "+strings.TrimSuffix(id, "1")+"2") {
			continue // live output
		}
		got = append(got, strings.ReplaceAll(o, strings.TrimSuffix(id, "1"), "#"))
	}
	want := "tool_call #1 pending, ask, tool_call_update #1 in_progress, barrier, tool_call_update #1 completed, " +
		"tool_call #2 pending, ask, tool_call_update #2 in_progress, barrier, tool_call_update #2 completed"
	if strings.Join(got, ", ") != want {
		t.Errorf("%s\nwant %s", strings.Join(got, ", "), want)
	}
	path := filepath.Join(w.dir, "sub", "a.txt")
	u := w.updates("tool_call")[0]
	if u["title"] != "Write "+filepath.Join("sub", "a.txt") || u["kind"] != "edit" || u["name"] != "write_file" {
		t.Error(u)
	}
	if want := (map[string]any{"type": "diff", "path": path, "oldText": nil, "newText": "hello\n"}); !reflect.DeepEqual(u["content"].([]any)[0], want) {
		t.Errorf("%v, want %v", u["content"], want)
	}
	if !reflect.DeepEqual(u["locations"], []any{map[string]any{"path": path, "line": 1.0}}) {
		t.Error(u["locations"])
	}
	if !reflect.DeepEqual(u["rawInput"], map[string]any{"path": "sub/a.txt", "content": "hello\n"}) {
		t.Error(u["rawInput"])
	}
	var asked map[string]any
	if err := json.Unmarshal(w.asked[0].ToolCall, &asked); err != nil {
		t.Fatal(err)
	}
	delete(u, "sessionUpdate")
	if !reflect.DeepEqual(asked, u) {
		t.Errorf("asked with %v\nannounced %v", asked, u)
	}
	end := w.last(1)
	if raw := end["rawOutput"].(map[string]any); raw["exitCode"] != 0.0 || raw["output"] != "one\n" {
		t.Error(raw)
	}
	if end["_meta"].(map[string]any)["hermes"].(map[string]any)["durationMs"] == nil {
		t.Error(end)
	}
	if data, err := os.ReadFile(path); err != nil || string(data) != "hello\n" {
		t.Error(data, err)
	}
}

func TestReadsInsideAreNotAskedAndHaveNoBarrier(t *testing.T) {
	w := newWorld(t, Config{})
	put(t, filepath.Join(w.dir, "a"), "one\ntwo\nthree\n")
	w.orders = nil
	w.prompt("read a 2-3\nsearch two\nplan first; second")
	for _, o := range w.orders {
		if o == "ask" || o == "barrier" {
			t.Error(o)
		}
	}
	call := w.updates("tool_call")[0]
	if call["title"] != "Read a (2-3)" || call["kind"] != "read" || w.last(0)["status"] != "completed" {
		t.Error(call)
	}
	if text := fmt.Sprint(w.last(0)["content"]); !strings.Contains(text, "2\ttwo\n3\tthree") {
		t.Error(text)
	}
	plan := w.updates("plan")
	if len(plan) != 1 || !reflect.DeepEqual(plan[0]["entries"], []any{
		map[string]any{"content": "first", "status": "pending", "priority": "medium"},
		map[string]any{"content": "second", "status": "pending", "priority": "medium"},
	}) {
		t.Error(plan)
	}
}

func TestTwoIdenticalCallsHaveTwoIDsAndAreAskedTwice(t *testing.T) {
	w := newWorld(t, Config{LLM: &script{messages: [][]llm.Event{{calling("terminal", `{"command":"echo 1"}`), calling("terminal", `{"command":"echo 1"}`)}}}})
	w.answer = choose(allowOnce)
	w.prompt("run both")
	calls := w.updates("tool_call")
	if len(calls) != 2 || calls[0]["toolCallId"] == calls[1]["toolCallId"] || len(w.asked) != 2 {
		t.Error(calls, len(w.asked))
	}
}

func TestALaterCallShowsTheDiffAgainstWhatAnEarlierOneMade(t *testing.T) {
	w := newWorld(t, Config{LLM: &script{messages: [][]llm.Event{{calling("write_file", `{"path":"a","content":"1"}`), calling("patch", `{"path":"a","old":"1","new":"2"}`)}}}})
	w.answer = choose(allowOnce)
	w.prompt("go")
	if data, _ := os.ReadFile(filepath.Join(w.dir, "a")); string(data) != "2" {
		t.Errorf("%q", data)
	}
	var q struct {
		Content []struct{ OldText, NewText string }
	}
	if err := json.Unmarshal(w.asked[1].ToolCall, &q); err != nil || q.Content[0].OldText != "1" || q.Content[0].NewText != "2" {
		t.Error(q, err)
	}
}

func TestOnlyAnOfferedAllowingChoiceIsConsentAndEveryOutcomeHasItsWords(t *testing.T) {
	words := map[string]bool{}
	for name, answer := range map[string]func(context.Context, session.Question) (session.Answer, error){
		"reject":           choose(rejectOnce),
		"notOffered":       outcome(session.NotOffered),
		"cancelled":        outcome(session.Cancelled),
		"timedOut":         outcome(session.TimedOut),
		"nobody":           outcome(session.NobodyThere),
		"dismissed":        outcome(session.Dismissed),
		"nobodyCan":        outcome(session.NobodyCould),
		"interrupt":        outcome(session.Interrupted),
		"future":           outcome("approved"),
		"empty":            outcome(""),
		"selected nothing": outcome(session.Selected),
		"error": func(context.Context, session.Question) (session.Answer, error) {
			return session.Answer{Outcome: session.Selected, Option: session.Option{Kind: "allow_once"}}, errors.New("broken")
		},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, Config{})
			w.answer = answer
			w.prompt("run touch ran.txt\nsay on")
			if _, err := os.Stat(filepath.Join(w.dir, "ran.txt")); err == nil {
				t.Error("the command ran")
			}
			end := w.last(0)
			if end["status"] != "failed" || !strings.HasSuffix(w.said(), "\n\non") {
				t.Error(end, w.said())
			}
			text := end["rawOutput"].(map[string]any)["error"].(string)
			if (name == "reject" || name == "selected nothing") != strings.Contains(text, "refused by the user") {
				t.Errorf("%s: %s", name, text)
			}
			if name != "selected nothing" && words[text] {
				t.Errorf("%s is told like another outcome: %s", name, text)
			}
			if name != "selected nothing" {
				words[text] = true
			}
			if !strings.Contains(w.said(), "did not work") {
				t.Error(w.said())
			}
		})
	}
}

func TestAlwaysCoversExactlyWhatItSaysAndOnlyThisSession(t *testing.T) {
	w := newWorld(t, Config{})
	w.answer = choose(allowAlways)
	w.prompt("run echo a")
	if name := w.asked[0].Options[1].Name; name != "Always allow exactly “echo a” in this workspace" {
		t.Error(name)
	}
	asks := func(prompt string, want int) {
		t.Helper()
		n := len(w.asked)
		w.prompt(prompt)
		if got := len(w.asked) - n; got != want {
			t.Errorf("%q asked %d times, want %d", prompt, got, want)
		}
	}
	w.answer = choose(allowOnce)
	asks("run echo a", 0)
	asks("run echo a; echo b", 1)
	asks("run echo  a", 1)
	asks("write echo\nx\n.", 1)
	w.answer = choose(allowAlways)
	asks("write n.txt\n1\n.", 1)
	if name := w.asked[len(w.asked)-1].Options[1].Name; name != "Always allow edits of n.txt in this session" {
		t.Error(name)
	}
	w.answer = choose(allowOnce)
	asks("write ./n.txt\n2\n.\nedit n.txt\n2\n---\n3\n.", 0)
	asks("write m.txt\n1\n.", 1)

	w.agent.Close()
	w.open(false, session.Settings{})
	asks("run echo a\nwrite n.txt\n4\n.", 0)
	asks("run echo a; echo b", 1)

	// A session made of this one's log, as a fork is, has not been granted anything.
	a, _, err := Open(context.Background(), session.Spec{Meta: session.Meta{ID: "fork", Cwd: w.dir}}, w.fakeHost, w.cfg)
	if err != nil {
		t.Fatal(err)
	}
	defer a.Close()
	if len(a.grants) != 0 || len(a.history.messages) != len(w.agent.history.messages) {
		t.Error(a.grants, len(a.history.messages))
	}
}

func TestSensitiveEditsAreAskedEveryTimeInEveryMode(t *testing.T) {
	w := newWorld(t, Config{ApprovalMode: "session"})
	w.answer = choose(allowOnce)
	w.prompt("write a.txt\nx\n.\nrun echo free")
	if len(w.asked) != 0 {
		t.Error(w.asked)
	}
	w.prompt("write .env\nx\n.\nwrite .env\ny\n.\nrun echo x > .npmrc")
	if len(w.asked) != 3 {
		t.Fatalf("asked %d times", len(w.asked))
	}
	for _, o := range w.asked[0].Options {
		if o.Kind == "allow_always" {
			t.Error("always is offered for a sensitive file")
		}
	}
	if !strings.Contains(string(w.asked[0].Meta), "holds keys") {
		t.Errorf("%s", w.asked[0].Meta)
	}
}

func TestHardlineIsRefusedUnaskedInEveryMode(t *testing.T) {
	for _, policy := range []string{"ask", "workspace_session", "session"} {
		w := newWorld(t, Config{ApprovalMode: policy})
		w.prompt("run rm -rf /")
		if end := w.last(0); end["status"] != "failed" || !strings.Contains(fmt.Sprint(end["rawOutput"]), "refused by hermesd") || len(w.asked) > 0 {
			t.Error(end)
		}
	}
}

func TestUnknownToolsAndBadArgumentsFailTheCallOnly(t *testing.T) {
	s := &script{messages: [][]llm.Event{{calling("no_such", `{}`), calling("read_file", `{"path":1}`), calling("read_file", `not json`), calling("read_file", ``)}}}
	w := newWorld(t, Config{LLM: s})
	w.prompt("go")
	for i, part := range []string{"there is no tool", "reading the arguments", "reading the arguments", "the path is empty"} {
		if got := s.requests[1].Messages[2].Parts[i].Result; !got.Failed || !strings.Contains(got.Text, part) {
			t.Errorf("%d: %+v", i, got)
		}
	}
}

func TestCancelEndsEveryStateAndTheNextPromptWorks(t *testing.T) {
	const two = "two calls"
	for _, c := range []struct {
		name, prompt string
		when         func(w *world, cancel func())
	}{
		{"before it begins", "say a", func(w *world, cancel func()) { cancel() }},
		{"while it streams", "stream 10000000 10", func(w *world, cancel func()) {
			go func() { <-w.signal; cancel() }()
		}},
		{"while the model waits", "sleep 1h", func(w *world, cancel func()) { time.AfterFunc(20*time.Millisecond, cancel) }},
		{"while a question is open", "run touch ran.txt", func(w *world, cancel func()) {
			w.answer = func(ctx context.Context, _ session.Question) (session.Answer, error) {
				cancel()
				<-ctx.Done()
				return session.Answer{Outcome: session.Cancelled}, nil
			}
		}},
		{"when the answer and the cancel meet", "run touch ran.txt", func(w *world, cancel func()) {
			w.answer = func(ctx context.Context, q session.Question) (session.Answer, error) {
				cancel()
				return choose(allowOnce)(ctx, q)
			}
		}},
		{"while a command runs", "run echo x > started; sleep 300; touch ran.txt", func(w *world, cancel func()) {
			w.answer = choose(allowOnce)
			go func() {
				for {
					if _, err := os.Stat(filepath.Join(w.dir, "started")); err == nil {
						cancel()
						return
					}
					time.Sleep(5 * time.Millisecond)
				}
			}()
		}},
		{"in the first of two calls", two, func(w *world, cancel func()) {
			w.answer = func(ctx context.Context, _ session.Question) (session.Answer, error) {
				cancel()
				return session.Answer{Outcome: session.Cancelled}, ctx.Err()
			}
		}},
	} {
		t.Run(c.name, func(t *testing.T) {
			cfg := Config{}
			if c.prompt == two {
				cfg.LLM = &script{messages: [][]llm.Event{{calling("terminal", `{"command":"touch ran.txt"}`), calling("terminal", `{"command":"touch ran.txt"}`)}}}
			}
			w := newWorld(t, cfg)
			for {
				select {
				case <-w.signal:
					continue
				default:
				}
				break
			}
			ctx, cancel := context.WithCancel(context.Background())
			defer cancel()
			c.when(w, cancel)
			r, err := w.run(ctx, textBlock(c.prompt))
			if err != nil || r.StopReason != "cancelled" {
				t.Errorf("%+v, %v", r, err)
			}
			if _, err := os.Stat(filepath.Join(w.dir, "ran.txt")); err == nil {
				t.Error("the command ran")
			}
			calls := w.updates("tool_call")
			for i := range calls {
				if end := w.last(i); end["status"] != "failed" {
					t.Error(end)
				}
			}
			if c.prompt == two && len(calls) != 2 {
				t.Errorf("%d calls", len(calls))
			}
			w.answer = choose(allowOnce)
			w.prompt("say on")
			live := w.agent.history.messages
			w.agent.Close()
			w.open(false, session.Settings{})
			if !reflect.DeepEqual(shape(live), shape(w.agent.history.messages)) {
				t.Errorf("the history read back is\n%s\nit was\n%s", shape(w.agent.history.messages), shape(live))
			}
		})
	}
}

func TestCloseEndsARunningTurn(t *testing.T) {
	w := newWorld(t, Config{})
	done := make(chan session.TurnResult)
	in := w.admit(textBlock("sleep 1h"))
	started := make(chan struct{})
	go func() {
		close(started)
		r, err := w.agent.Prompt(context.Background(), in)
		if err != nil && r.StopReason == "" {
			r.StopReason = err.Error() // it was closed before it began
		}
		done <- r
	}()
	<-started
	w.agent.Close()
	if r := <-done; r.StopReason != "cancelled" && r.StopReason != "the agent is closed" {
		t.Error(r)
	}
	w.agent.Close()
	if _, err := w.agent.Prompt(context.Background(), in); err == nil {
		t.Error("a closed agent took a prompt")
	}
}

func TestACommandEndsWithTheAgent(t *testing.T) {
	w := newWorld(t, Config{ApprovalMode: "session"})
	done := make(chan error)
	in := w.admit(textBlock("run echo x > started; sleep 300"))
	go func() {
		_, err := w.agent.Prompt(context.Background(), in)
		done <- err
	}()
	for {
		if _, err := os.Stat(filepath.Join(w.dir, "started")); err == nil {
			break
		}
		time.Sleep(5 * time.Millisecond)
	}
	w.agent.Close()
	if err := <-done; err != nil {
		t.Error(err)
	}
	w.noOpenCalls()
}

func TestAHostThatNoLongerTakesAnythingEndsTheTurn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, Config{})
		ctx, cancel := context.WithCancel(context.Background())
		stuck := &stuckHost{fakeHost: w.fakeHost}
		w.agent.host = stuck
		w.answer = func(ctx context.Context, _ session.Question) (session.Answer, error) {
			stuck.stuck = true
			cancel()
			return session.Answer{Outcome: session.Cancelled}, nil
		}
		start := time.Now()
		r, err := w.agent.Prompt(ctx, w.admit(textBlock("run true")))
		if err != nil || r.StopReason != "cancelled" || time.Since(start) > 3*partingTime {
			t.Errorf("%+v, %v after %s", r, err, time.Since(start))
		}
		w.agent.Close()
	})
}

type stuckHost struct {
	*fakeHost
	stuck bool
}

func (h *stuckHost) Update(ctx context.Context, update []byte) error {
	if h.stuck {
		<-ctx.Done()
		return ctx.Err()
	}
	return h.fakeHost.Update(ctx, update)
}

func (h *stuckHost) Record(ctx context.Context, data []byte) error {
	if h.stuck {
		<-ctx.Done()
		return ctx.Err()
	}
	return h.fakeHost.Record(ctx, data)
}

func TestAFailedModelCallIsToldWithAdviceAndForgotten(t *testing.T) {
	w := newWorld(t, Config{})
	w.prompt("say before")
	_, err := w.run(context.Background(), textBlock("fail no more\ncredit"))
	var e *session.Error
	if !errors.As(err, &e) || e.Code != session.CodeInternal || e.Message != "the model call to offline failed: no more" {
		t.Fatalf("%v", err)
	}
	var data map[string]string
	if json.Unmarshal(e.Data, &data) != nil || data["provider"] != "offline" || data["advice"] == "" {
		t.Errorf("%s", e.Data)
	}
	n := len(w.agent.history.messages)
	w.prompt("say after")
	if n != 2 || !strings.HasSuffix(w.said(), "after") {
		t.Errorf("%d messages kept, said %q", n, w.said())
	}
	w.agent.Close()
	live := w.agent.history.messages
	w.open(false, session.Settings{})
	if shape(live) != shape(w.agent.history.messages) {
		t.Errorf("%s\nwas %s", shape(w.agent.history.messages), shape(live))
	}
}

func TestStopReasonsOfTheModelReachTheEditor(t *testing.T) {
	for stop, want := range map[llm.Stop]string{llm.StopLength: "max_tokens", llm.StopRefusal: "refusal", llm.StopEnd: "end_turn"} {
		w := newWorld(t, Config{LLM: &script{stop: stop, messages: [][]llm.Event{{{Text: "x"}}}}})
		if r, err := w.run(context.Background(), textBlock("x")); err != nil || r.StopReason != want {
			t.Errorf("%s: %+v, %v", stop, r, err)
		}
	}
	var endless [][]llm.Event
	for range 10 {
		endless = append(endless, []llm.Event{calling("todo", `{"items":[]}`)})
	}
	w := newWorld(t, Config{LLM: &script{messages: endless}, MaxCalls: 4})
	if r, err := w.run(context.Background(), textBlock("x")); err != nil || r.StopReason != "max_turn_requests" {
		t.Errorf("%+v, %v", r, err)
	}
}

func TestTitleCommandsAndUsageAreTold(t *testing.T) {
	w := newWorld(t, Config{Version: "1.2.3"})
	if c := w.updates("available_commands_update"); len(c) != 1 || len(c[0]["availableCommands"].([]any)) != len(commands()) {
		t.Error(c)
	}
	w.prompt("/version")
	w.prompt("say  one\ttwo\nsay three")
	w.prompt("say more")
	if info := w.updates("session_info_update"); len(info) != 1 || info[0]["title"] != "say one two" {
		t.Error(info)
	}
	if u := w.updates("usage_update"); len(u) != 2 || u[0]["size"] != 200000.0 || u[1]["used"].(float64) <= u[0]["used"].(float64) {
		t.Error(u)
	}
	w.agent.Close()
	w.open(false, session.Settings{})
	w.prompt("say again")
	if len(w.updates("session_info_update")) != 1 || len(w.updates("available_commands_update")) != 1 {
		t.Error("told again after opening")
	}
	for prompt, part := range map[string]string{"/help": "say TEXT", " /tools ": "`terminal` (execute): Runs a shell command", "/version": "hermesd 1.2.3"} {
		n := len(w.agent.history.messages)
		w.prompt(prompt)
		if !strings.Contains(w.said(), part) || len(w.agent.history.messages) != n {
			t.Errorf("%s: %s", prompt, w.said())
		}
	}
	w.prompt("/etc/passwd what is it")
	if !strings.Contains(w.said(), "understand “/etc/passwd what is it”") {
		t.Error(w.said())
	}
}

func TestAnUpdateKeepsWhatAModelSaid(t *testing.T) {
	for _, s := range []string{"", "plain", "日本 😀", "a\"b\\c\nd\re\tf\x00\x1f\x7f", "\u2028<&>", "bad\xffbytes\xe6\x97", "\uFFFD"} {
		var got struct{ Content struct{ Text string } }
		if err := json.Unmarshal(appendChunk(chunkHead("agent_message_chunk", "m"), s), &got); err != nil || got.Content.Text != string([]rune(s)) {
			t.Errorf("%q became %q, %v", s, got.Content.Text, err)
		}
	}
}

func FuzzUpdateStrings(f *testing.F) {
	f.Add("a\"\xff\x01")
	f.Fuzz(func(t *testing.T, s string) {
		var got struct{ Content struct{ Text string } }
		if err := json.Unmarshal(appendChunk(chunkHead("agent_message_chunk", "m"), s), &got); err != nil || got.Content.Text != string([]rune(s)) {
			t.Errorf("%q became %q, %v", s, got.Content.Text, err)
		}
	})
}

type nullHost struct{ session.Host }

func (nullHost) Update(context.Context, []byte) error { return nil }
func (nullHost) Record(context.Context, []byte) error { return nil }

func BenchmarkStreamedChunks(b *testing.B) {
	a, _, err := Open(context.Background(), session.Spec{Fresh: true}, nullHost{}, Config{})
	if err != nil {
		b.Fatal(err)
	}
	defer a.Close()
	b.ReportAllocs()
	for b.Loop() {
		if _, err := a.Prompt(context.Background(), session.Turn{Seq: 1, Blocks: []json.RawMessage{json.RawMessage(textBlock("stream 100000 20"))}}); err != nil {
			b.Fatal(err)
		}
	}
	b.ReportMetric(float64(100000*b.N)/b.Elapsed().Seconds(), "chunks/s")
}

func put(t *testing.T, path, text string) {
	t.Helper()
	if err := os.WriteFile(path, []byte(text), 0o666); err != nil {
		t.Fatal(err)
	}
}
