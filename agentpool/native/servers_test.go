//go:build unix

package native

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/hermesd/hermesd/agentpool/native/llm"
	"github.com/hermesd/hermesd/agentpool/native/llm/fakellm"
	"github.com/hermesd/hermesd/agentpool/native/mcp"
	"github.com/hermesd/hermesd/agentpool/native/mcp/mcptest"
	"github.com/hermesd/hermesd/daemon/session"
	sdk "github.com/modelcontextprotocol/go-sdk/mcp"
)

// childServer is a server that is a child process.
func childServer(name, word string, env ...mcp.Pair) mcp.Server {
	return mcp.Server{Name: name, Transport: mcp.Stdio, Command: os.Args[0], Env: append(env, mcp.Pair{Name: mcptest.Variable, Value: word})}
}

// lateServer is a server over HTTP that answers nothing before it is let.
func lateServer(t *testing.T, name string) (s mcp.Server, let func()) {
	t.Helper()
	open := make(chan struct{})
	fake := mcptest.New()
	h := sdk.NewStreamableHTTPHandler(func(*http.Request) *sdk.Server { return fake.Server }, nil)
	hs := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		select {
		case <-open:
			h.ServeHTTP(w, r)
		case <-r.Context().Done():
		}
	}))
	t.Cleanup(func() {
		hs.CloseClientConnections()
		fake.Close()
		hs.Close()
	})
	return mcp.Server{Name: name, Transport: mcp.HTTP, URL: hs.URL}, func() { close(open) }
}

// until waits for something that other processes bring about.
func until(t *testing.T, is func() bool) {
	t.Helper()
	for end := time.Now().Add(time.Minute); !is(); time.Sleep(2 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatal("it has not come to be")
		}
	}
}

func (w *world) ready(server string) bool {
	for _, s := range w.agent.servers.Status() {
		if s.Name == server {
			return s.State == mcp.Ready
		}
	}
	return false
}

// The list of tools is told once. What comes later, changes or goes is told
// beside a prompt, so each request begins with the bytes of the one before,
// also in the next life of the session.
func TestLateAndChangingToolsLeaveThePrefixAlone(t *testing.T) {
	eachFormat(t, func(t *testing.T, f fakellm.Format) {
		s := fakellm.New(t, f, fakeKey, func(n int, _ []byte) fakellm.Reply {
			calls := [][]fakellm.Call{
				{{Name: "mcp__a__echo", Args: `{"t":"one"}`}}, nil,
				{{Name: "mcp_tools", Args: `{"server":"b","tool":"echo"}`}, {Name: "mcp_call", Args: `{"server":"b","tool":"echo","arguments":{"t":"two"}}`}}, nil,
				{{Name: "mcp__a__grow", Args: `{"t":"fresh"}`}, {Name: "mcp__a__shrink", Args: `{"t":"echo"}`}, {Name: "mcp__a__picture", Args: `{}`}}, nil,
				{{Name: "mcp_call", Args: `{"server":"a","tool":"fresh"}`}, {Name: "mcp__a__echo", Args: `{}`}}, nil,
				nil,
			}[n]
			return fakellm.Reply{Texts: []string{"Hm."}, Calls: calls}
		})
		late, let := lateServer(t, "b")
		cfg := provider(t, s)
		cfg.MCP = MCPConfig{Servers: []mcp.Server{childServer("a", "good"), late}}
		w := newWorld(t, cfg)
		until(t, func() bool { return w.ready("a") })
		results := func() string {
			m := w.agent.history.messages
			var all []string
			for _, p := range m[len(m)-2].Parts {
				if p.Result != nil {
					all = append(all, fmt.Sprintf("%s%v%d", p.Result.Text, p.Result.Failed, len(p.Result.Images)))
				}
			}
			return strings.Join(all, "|")
		}
		note := func() string {
			for _, m := range slices.Backward(w.agent.history.messages) {
				if m.Role == llm.RoleUser {
					return m.Parts[len(m.Parts)-1].Note
				}
			}
			return ""
		}
		w.prompt("first")
		if got := results(); got != "onefalse0" || note() != "" {
			t.Errorf("%s, note %q", got, note())
		}
		let()
		until(t, func() bool { return w.ready("b") })
		w.prompt("second")
		if got := results(); !strings.Contains(got, "echo of “b”") || !strings.HasSuffix(got, "|twofalse0") {
			t.Error(got)
		}
		if n := note(); !strings.Contains(n, "- server b is ready\n  It says of itself: Use echo for everything.\n- new, of server b: all: Gives all\n") || strings.Contains(n, "server a") {
			t.Error(n)
		}
		w.prompt("third")
		if got := results(); !strings.HasPrefix(got, "okfalse0|okfalse0|(an image of") || !strings.HasSuffix(got, "shown it)false1") {
			t.Error(got)
		}
		until(t, func() bool {
			return slices.ContainsFunc(w.agent.servers.Tools(), func(t mcp.Tool) bool { return t.Name == "fresh" }) &&
				!slices.ContainsFunc(w.agent.servers.Tools(), func(t mcp.Tool) bool { return t.Server == "a" && t.Name == "echo" })
		})
		w.prompt("fourth")
		if n := note(); !strings.HasSuffix(n, "- echo of a is gone\n- new, of server a: fresh: The tool fresh for tests.\n</system-note>") {
			t.Error(n)
		}
		if got := results(); got != `grownfalse0|the MCP server "a" has no tool "echo"true0` {
			t.Error(got)
		}
		live, told := shape(w.agent.history.messages), fmt.Sprint(w.agent.told)
		w.agent.Close()
		w.open(false, session.Settings{})
		if got := shape(w.agent.history.messages); got != live {
			t.Errorf("%s\nwas %s", got, live)
		}
		if got := fmt.Sprint(w.agent.told); got != told {
			t.Errorf("%s\nwas %s", got, told)
		}
		until(t, func() bool { return w.ready("a") && w.ready("b") })
		w.prompt("fifth") // a process that began anew: echo is back, fresh is gone
		if n := note(); !strings.Contains(n, "- fresh of a is gone\n") || !strings.Contains(n, "- new, of server a: echo") {
			t.Error(n)
		}
		requests := s.Requests()
		for i := 1; i < len(requests); i++ {
			if err := grows(requests[i-1].Body, requests[i].Body); err != nil {
				t.Fatal(i, err)
			}
		}
		// A fork is told of the tools anew.
		a, _, err := Open(context.Background(), session.Spec{Meta: session.Meta{ID: "fork", Cwd: w.dir}}, w.fakeHost, w.cfg)
		if err != nil {
			t.Fatal(err)
		}
		defer a.Close()
		if a.told != nil || a.prefix != nil || len(a.history.messages) != len(w.agent.history.messages) {
			t.Error(a.told, a.prefix)
		}
	})
}

// A prompt that failed is taken back, and the note beside it with it: the next
// prompt tells the same again.
func TestANoteThatWasNotReadIsToldAgain(t *testing.T) {
	for _, again := range []bool{false, true} {
		s := &script{}
		late, let := lateServer(t, "b")
		w := newWorld(t, Config{LLM: s, MCP: MCPConfig{Servers: []mcp.Server{late}}})
		reopen := func() {
			live := shape(w.agent.history.messages)
			w.agent.Close()
			w.open(false, session.Settings{})
			if got := shape(w.agent.history.messages); got != live {
				t.Errorf("%s\nwas %s", got, live)
			}
			until(t, func() bool { return w.ready("b") })
		}
		w.prompt("one")
		let()
		until(t, func() bool { return w.ready("b") })
		s.messages, s.err = [][]llm.Event{nil}, errors.New("no")
		if _, err := w.run(context.Background(), textBlock("two")); err == nil {
			t.Fatal("it did not fail")
		}
		s.err = nil
		if again {
			reopen()
		}
		for range 2 {
			w.prompt("three")
			last := s.requests[len(s.requests)-1].Messages
			noted := 0
			for _, m := range last {
				for _, p := range m.Parts {
					if strings.Contains(p.Note, "server b is ready") {
						noted++
					}
				}
			}
			if noted != 1 {
				t.Errorf("noted %d times (opened again: %v)", noted, again)
			}
		}
		reopen()
	}
}

// A session that is loaded with other servers has those from then on, and the
// model is told.
func TestAnotherSetOfServersIsToldOf(t *testing.T) {
	s := &script{}
	w := newWorld(t, Config{LLM: s, ApprovalMode: "session", MCP: MCPConfig{Wait: time.Minute, Servers: []mcp.Server{childServer("a", "good")}}})
	w.prompt("one")
	w.agent.Close()
	w.cfg.MCP.Servers = []mcp.Server{childServer("b", "good")}
	w.open(false, session.Settings{})
	s.messages = [][]llm.Event{{calling("mcp__a__echo", `{}`), calling("mcp_call", `{"server":"b","tool":"echo","arguments":{"t":"x"}}`)}}
	w.prompt("two")
	last := s.requests[len(s.requests)-1].Messages
	prompt, results := last[len(last)-3], last[len(last)-1]
	if n := prompt.Parts[1].Note; !strings.Contains(n, "- echo of a is gone\n") || !strings.Contains(n, "- new, of server b: echo: ") {
		t.Error(n)
	}
	if got := results.Parts[0].Result.Text + "|" + results.Parts[1].Result.Text; got != `there is no MCP server "a" in this session: there are b|x` {
		t.Error(got)
	}
	if string(encode(s.requests[0].Tools)) != string(encode(s.requests[len(s.requests)-1].Tools)) {
		t.Error("the list of tools has changed")
	}
}

func TestTheFirstTurnWaitsForServersAndCanBeCancelled(t *testing.T) {
	s := &script{}
	w := newWorld(t, Config{LLM: s, MCP: MCPConfig{Wait: time.Hour, Servers: []mcp.Server{childServer("a", "good"), childServer("mute", "mute")}}})
	ctx, cancel := context.WithCancel(context.Background())
	stopped := make(chan session.TurnResult, 1)
	go func() {
		r, _ := w.run(ctx, textBlock("one"))
		stopped <- r
	}()
	until(t, func() bool { return w.ready("a") })
	cancel()
	if r := <-stopped; r.StopReason != "cancelled" || len(s.requests) != 0 {
		t.Error(r, len(s.requests))
	}
	w.prompt("two") // it waited once
	if n := len(s.requests[0].Tools); n < 20 || !strings.Contains(s.requests[0].System, "- a: ") || !strings.Contains(s.requests[0].System, "- mute: not ready yet\n") {
		t.Errorf("%d tools, %s", n, s.requests[0].System)
	}
	live := shape(w.agent.history.messages)
	w.agent.Close()
	w.open(false, session.Settings{})
	if got := shape(w.agent.history.messages); got != live {
		t.Errorf("%s\nwas %s", got, live)
	}
}

func TestFailuresOfServersAreToldInTheSessionAndNoSecretIsWritten(t *testing.T) {
	s := &script{messages: [][]llm.Event{{calling("mcp__good__crash", `{}`)}, {{Kind: llm.EventText, Text: "well"}}}}
	w := newWorld(t, Config{LLM: s, ApprovalMode: "session", MCP: MCPConfig{Wait: time.Minute, Servers: []mcp.Server{
		{Name: "absent", Transport: mcp.Stdio, Command: "/no/such/program"},
		childServer("exits", "exit", mcp.Pair{Name: "TOKEN", Value: "hunter22"}),
		childServer("good", "good", mcp.Pair{Name: "TOKEN", Value: "hunter22"}),
	}}})
	until(t, func() bool {
		return strings.Contains(w.said(), "“absent” does not work: there is no such program") && strings.Contains(w.said(), "“exits” does not work: it ended with exit status 3")
	})
	w.prompt("crash it")
	if end := w.last(0); end["status"] != "failed" || !strings.Contains(fmt.Sprint(end["rawOutput"]), "exit status 7; the last it said was: panic: out of cheese") {
		t.Error(end)
	}
	until(t, func() bool { return strings.Contains(w.said(), "“good” works again") })
	w.prompt("/mcp")
	said := w.said()
	if !strings.Contains(said, "- `absent`: does not work: there is no such program") || !strings.Contains(said, "- `good`: ") {
		t.Error(said)
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, r := range w.log {
		if strings.Contains(string(r.Data), "hunter22") {
			t.Errorf("a secret is in the log: %s", r.Data)
		}
	}
}

func TestAlwaysIsForOneToolOfOneServer(t *testing.T) {
	s := &script{}
	w := newWorld(t, Config{LLM: s, MCP: MCPConfig{Wait: time.Minute, Servers: []mcp.Server{childServer("a", "good"), childServer("b", "good")}}})
	asks := func(name, args string, want int) {
		t.Helper()
		s.messages = [][]llm.Event{{calling(name, args)}}
		n := len(w.asked)
		w.prompt("go")
		if got := len(w.asked) - n; got != want {
			t.Errorf("%s %s: asked %d times, want %d", name, args, got, want)
		}
		if w.answer != nil && w.last(len(w.updates("tool_call")) - 1)["status"] != "completed" {
			t.Errorf("%s %s: %v", name, args, w.last(len(w.updates("tool_call"))-1))
		}
	}
	w.answer = choose(allowAlways)
	asks("mcp__a__remove", `{"t":"x"}`, 1)
	q := w.asked[0]
	if o := string(encode(q.Options)); !strings.Contains(o, "Always allow the tool remove of the MCP server “a”") || !strings.Contains(o, "a/remove") {
		t.Error(o)
	}
	if c := string(q.ToolCall); !strings.Contains(c, `"title":"a: remove"`) || !strings.Contains(c, "It says that it may destroy something.") || !strings.Contains(c, `"rawInput":{"t":"x"}`) {
		t.Error(c)
	}
	w.answer = choose(allowOnce)
	asks("mcp__a__remove", `{"t":"y"}`, 0)
	asks("mcp_call", `{"server":"a","tool":"remove"}`, 0)
	asks("mcp__b__remove", `{}`, 1)
	asks("mcp_call", `{"server":"b","tool":"remove"}`, 1)
	asks("mcp__a__echo", `{}`, 1) // it says it only reads: asked all the same
	asks("mcp_tools", `{}`, 0)
	w.answer = choose(rejectOnce)
	s.messages = [][]llm.Event{{calling("mcp__a__env_dump", `{}`)}}
	w.prompt("go")
	if end := w.last(len(w.updates("tool_call")) - 1); end["status"] != "failed" || !strings.Contains(fmt.Sprint(end["rawOutput"]), "refused by the user") {
		t.Error(end)
	}
	if _, err := w.agent.Set(context.Background(), session.Change{Mode: "dont_ask"}); err != nil {
		t.Fatal(err)
	}
	w.answer = nil
	asks("mcp__b__remove", `{}`, 0)
}

// What a server wants to know in the middle of a call is a form where there
// are forms, else a card for each choice.
func TestServersAskTheUser(t *testing.T) {
	s := &script{}
	w := newWorld(t, Config{LLM: s, ApprovalMode: "session", MCP: MCPConfig{Wait: time.Minute, Servers: []mcp.Server{childServer("a", "good")}}})
	ask := func(tool, want string) {
		t.Helper()
		s.messages = [][]llm.Event{{calling("mcp__a__"+tool, `{}`)}}
		w.prompt("go")
		m := w.agent.history.messages
		for _, p := range m[len(m)-1].Parts {
			if p.Result.Text != want {
				t.Errorf("%q, want %q", p.Result.Text, want)
			}
		}
	}
	var form session.Form
	for _, c := range []struct {
		filled session.Filled
		want   string
	}{
		{session.Filled{Outcome: session.Selected, Content: json.RawMessage(`{"colour":"red","note":"n"}`)}, `accept {"colour":"red","note":"n"}`},
		{session.Filled{Outcome: session.NotOffered}, "decline null"},
		{session.Filled{Outcome: session.Dismissed}, "cancel null"},
		{session.Filled{Outcome: session.TimedOut}, "cancel null"},
	} {
		w.fill = func(_ context.Context, f session.Form) (session.Filled, error) {
			form = f
			return c.filled, nil
		}
		ask("ask", c.want)
	}
	if calls := w.updates("tool_call"); form.ToolCall != calls[len(calls)-1]["toolCallId"] || form.Message != "a: Which\ncolour?" || !strings.Contains(string(form.Schema), `"red"`) {
		t.Errorf("%+v", form)
	}
	w.fill = nil
	for _, c := range []struct{ option, want string }{{"choice_2", `accept {"colour":"green"}`}, {skip, "decline null"}} {
		w.answer = choose(c.option)
		ask("ask", c.want)
	}
	w.answer = outcome(session.NobodyThere)
	ask("ask", "cancel null")
	q := w.asked[len(w.asked)-1]
	if len(q.Options) != 3 || !strings.Contains(string(q.ToolCall), `"title":"a asks: Which colour? (colour)"`) || q.Options[1].Name != "green" {
		t.Errorf("%s %+v", q.ToolCall, q.Options)
	}
	n := len(w.asked)
	ask("ask_text", "cancel null")
	if len(w.asked) != n || !strings.Contains(w.said(), "The MCP server “a” asked “Which colour?”, which was not put to you: it wants “Your name” to be filled in, and your editor shows no forms.") {
		t.Error(w.said())
	}
}

func TestCardsOfForms(t *testing.T) {
	for schema, want := range map[string]string{
		`{"type":"object","properties":{}}`: "[{[] [Accept]}]",
		`{"type":"object","properties":{"b":{"type":"boolean","title":"Sure?"},"a":{"type":"string","oneOf":[{"const":"x","title":"X"},{"const":"y"}]}}}`: "[{a [X y]} {Sure? [Yes No]}]",
		`{"properties":{"e":{"type":"string","enum":["1","2"],"enumNames":["one"]}}}`:                                                                     "[{e [one 2]}]",
		`{"properties":{"n":{"type":"number"}}}`:                  "[{[] [Accept]}]",
		`{"properties":{"n":{"type":"number"}},"required":["n"]}`: "it wants “n” to be filled in, and your editor shows no forms",
		`{"properties":{"a":{"type":"boolean"},"b":{"type":"boolean"},"c":{"type":"boolean"},"d":{"type":"boolean"},"e":{"type":"boolean"},"f":{"type":"boolean"},"g":{"type":"boolean"}}}`: "its form has 7 fields, and your editor shows no forms",
		`[]`: "its form could not be read",
	} {
		fields, why := cardsOf(json.RawMessage(schema))
		got := why
		if why == "" {
			var all []string
			for _, f := range fields {
				title := f.title
				if f.key == "" {
					title = "[]"
				}
				all = append(all, fmt.Sprintf("{%s %v}", title, f.names))
			}
			got = fmt.Sprint(all)
		}
		if got != want {
			t.Errorf("%s: %s, want %s", schema, got, want)
		}
	}
}

func TestASessionsOwnServerStandsForItsNamesake(t *testing.T) {
	cfg := MCPConfig{Servers: []mcp.Server{
		{Name: "a", Transport: mcp.Stdio, Command: "configured", Timeout: time.Second, Trusted: true},
		{Name: "b", Transport: mcp.HTTP, URL: "http://b", Trusted: true},
	}}
	all, err := serversOf(session.Meta{MCPServers: json.RawMessage(`[{"name":"a","command":"own","args":["x"],"env":[{"name":"E","value":"v"}]},{"type":"sse","name":"c","url":"http://c","headers":[{"name":"H","value":"v"}]}]`)}, cfg)
	want := []mcp.Server{
		{Name: "a", Transport: mcp.Stdio, Command: "own", Args: []string{"x"}, Env: []mcp.Pair{{Name: "E", Value: "v"}}, Headers: []mcp.Pair{}, Timeout: time.Second},
		{Name: "c", Transport: mcp.SSE, URL: "http://c", Env: []mcp.Pair{}, Headers: []mcp.Pair{{Name: "H", Value: "v"}}},
		cfg.Servers[1],
	}
	if err != nil || string(encode(all)) != string(encode(want)) {
		t.Errorf("%+v, %v", all, err)
	}
	if all, err := serversOf(session.Meta{MCPServers: json.RawMessage(`{`)}, cfg); err == nil || len(all) != 2 {
		t.Errorf("%+v, %v", all, err)
	}
	if all, err := serversOf(session.Meta{}, cfg); err != nil || len(all) != 2 {
		t.Errorf("%+v, %v", all, err)
	}
}

// A session is there before its servers have got so far as to have an
// environment.
func TestOpenWaitsForNothingOfAServer(t *testing.T) {
	asked := make(chan struct{})
	w := newWorld(t, Config{
		MCP: MCPConfig{Servers: []mcp.Server{childServer("a", "good")}},
		Environ: func(ctx context.Context) []string {
			close(asked)
			<-ctx.Done()
			return nil
		},
	})
	<-asked
	if w.ready("a") {
		t.Error("it is ready")
	}
	w.agent.Close()
}

// With the agent its servers go.
func TestCloseEndsTheServers(t *testing.T) {
	w := newWorld(t, Config{MCP: MCPConfig{Wait: time.Minute, Servers: []mcp.Server{childServer("a", "good")}}, ApprovalMode: "session"})
	w.prompt(`call a env_dump`)
	m := w.agent.history.messages
	var dump struct {
		Pid int
		Cwd string
		Env []string
	}
	if err := json.Unmarshal([]byte(m[len(m)-2].Parts[0].Result.Text), &dump); err != nil {
		t.Fatal(err)
	}
	real, _ := filepath.EvalSymlinks(w.dir)
	if dump.Cwd != w.dir && dump.Cwd != real {
		t.Error(dump.Cwd)
	}
	w.agent.Close()
	if err := syscall.Kill(dump.Pid, 0); err == nil {
		t.Error("it still runs")
	}
}

// Servers are the session's, not the model's: another model has the same tools.
func TestToolsOfServersStayWhenTheModelChanges(t *testing.T) {
	eachFormat(t, func(t *testing.T, f fakellm.Format) {
		s := fakellm.New(t, f, fakeKey, func(n int, _ []byte) fakellm.Reply {
			if n%2 == 0 {
				return fakellm.Reply{Calls: []fakellm.Call{{Name: "mcp__a__echo", Args: `{"t":"one"}`}}}
			}
			return fakellm.Reply{Texts: []string{"ok"}}
		})
		models := map[fakellm.Format][]string{fakellm.Anthropic: {"claude-sonnet-5-5", "claude-opus-5-5"}, fakellm.OpenAI: {"gpt-5.5", "gpt-6-sol"}}[f]
		s.SetModels(0, models...)
		cfg := provider(t, s)
		cfg.MCP = MCPConfig{Servers: []mcp.Server{childServer("a", "good")}}
		w := newWorld(t, cfg)
		until(t, func() bool { return w.ready("a") })
		for i, model := range models {
			id := strings.TrimPrefix(s.URL, "http://") + "/" + model
			if _, err := w.agent.Set(t.Context(), session.Change{Option: optionModel, Value: encode(id)}); err != nil {
				t.Fatal(err)
			}
			w.prompt("call it")
			if end := w.last(i); end["status"] != "completed" {
				t.Errorf("%s: %v", model, end)
			}
			if body := string(s.Requests()[2*i].Body); !strings.Contains(body, fmt.Sprintf(`"model":%q`, model)) || !strings.Contains(body, `"name":"mcp__a__echo"`) {
				t.Errorf("%s: %.500s", model, body)
			}
		}
	})
}
