//go:build unix

package cases

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/hermesd/hermesd/agentpool/native/mcp/mcptest"
	"github.com/hermesd/hermesd/daemon/daemontest"
)

// mcpServer sets $M to a program that is an MCP server: this test's binary,
// behaving as word says.
func (r *run) mcpServer(word string) {
	r.Helper()
	self, err := os.Executable()
	must(r.T, err)
	path := filepath.Join(r.home.Dir, "m")
	script := fmt.Sprintf("#!/bin/sh\n%s='%s' exec '%s' \"$@\"\n", mcptest.Variable, word, self)
	must(r.T, os.WriteFile(path, []byte(script), 0o755))
	r.vars["$M"] = path
}

// withM makes a session that has M under the name m.
func (e *editor) withM() string {
	e.r.Helper()
	return e.sessionID(e.call("session/new", obj{"cwd": e.r.home.Work, "mcpServers": []any{
		obj{"name": "m", "command": e.r.vars["$M"], "args": []any{}, "env": []any{}},
	}}))
}

// results are the ends of the tool calls of a session, in order: "STATUS TEXT".
func (e *editor) results(session string, from int) (all []string) {
	for _, u := range e.updates(session, from) {
		if u.Kind == "tool_call_update" && (u.Status == "completed" || u.Status == "failed") {
			all = append(all, u.Status+" "+string(u.raw))
		}
	}
	return all
}

// C28: a cancel takes nothing away. The part of an external agent is played
// when there are some.
func c28(r *run) {
	r.play(1)
	r.skip(len(r.steps), "an external agent; M as the note says")
	r.mcpServer("good")
	a := r.ed("A")
	a.answers("allow_once")
	s := a.withM()
	if stop := a.prompt(s, "call m env_dump"); stop != "end_turn" {
		r.Fatalf("the first turn ended with %q", stop)
	}
	began := a.results(s, 0)
	id := a.ask("session/prompt", prompt(s, `call m sleep {"n":20000}`))
	// M says of itself that the call has begun there.
	a.await(func(f daemontest.Frame) bool { return bytes.Contains(f.Raw, []byte("asleep")) }, patience)
	start := time.Now()
	a.notify("session/cancel", obj{"sessionId": s})
	r.wantStop(a.await(responseTo(id), patience), "cancelled")
	if d := time.Since(start); d > 15*time.Second {
		r.Errorf("the cancel took %v", d)
	}
	mark := len(a.Frames())
	if stop := a.prompt(s, "call m cancelled\ncall m env_dump"); stop != "end_turn" {
		r.Errorf("the turn after the cancel ended with %q", stop)
	}
	after := a.results(s, mark)
	if len(after) != 2 || !strings.HasPrefix(after[0], "completed") || !strings.HasPrefix(after[1], "completed") {
		r.Fatalf("M did not serve on: %q", after)
	}
	if !strings.Contains(after[0], `"text":"1"`) {
		r.Errorf("M was not told of the cancel: %s", after[0])
	}
	if before, now := pidIn(began[0]), pidIn(after[1]); before == "" || before != now {
		r.Errorf("M was process %s and is %s", before, now)
	}
}

// pidIn is the process of an env_dump.
func pidIn(result string) string {
	_, rest, _ := strings.Cut(strings.ReplaceAll(result, `\"`, `"`), `"pid":`)
	return rest[:max(0, strings.IndexFunc(rest, func(c rune) bool { return c < '0' || c > '9' }))]
}

// envOfM is what M says of its environment and arguments, in the session whose
// creation was answered with the frame of this id.
func envOfM(r *run, a *editor, session string) (dump struct{ Env, Args []string }) {
	r.Helper()
	mark := len(a.Frames())
	if stop := a.prompt(session, "call m env_dump"); stop != "end_turn" {
		r.Fatalf("env_dump ended with %q", stop)
	}
	for _, u := range a.updates(session, mark) {
		if u.Kind != "tool_call_update" || u.Status != "completed" {
			continue
		}
		var content []struct{ Content struct{ Text string } }
		must(r.T, json.Unmarshal(u.Content, &content))
		text := strings.TrimSuffix(strings.TrimPrefix(content[0].Content.Text, "```json\n"), "\n```")
		must(r.T, json.Unmarshal([]byte(text), &dump))
	}
	return dump
}

// C56: servers that are mute, gone, or die in a call.
func c56(r *run) {
	r.mcpServer("noisy") // prints non-JSON lines, CRLF and a BOM
	r.play(1)
	a := r.ed("A")
	a.answers("allow_once")
	r.play(2) // answered within the limit of the case
	s := a.sessionID(a.only(1))
	r.vars["$S"] = s
	mark := len(a.Frames())
	r.play(3)
	r.wantStop(a.only(2), "end_turn")
	if got := a.results(s, mark); len(got) != 1 || !strings.HasPrefix(got[0], "completed") || !strings.Contains(got[0], `"text":"x"`) {
		r.Errorf("good was not of use: %q", got)
	}
	if text := a.said(s); !strings.Contains(text, "“gone” does not work: there is no such program") || strings.Contains(text, "“good”") {
		r.Errorf("the user was told: %s", text)
	}
	if f := a.call("session/prompt", prompt(s, "/mcp")); stopReason(f) != "end_turn" || !strings.Contains(a.said(s), "`mute`: starting") {
		r.Errorf("/mcp says: %s", a.said(s))
	}
	mark = len(a.Frames())
	began := time.Now()
	r.play(3)
	r.wantStop(a.only(3), "end_turn")
	got := a.results(s, mark)
	if len(got) != 2 || !strings.HasPrefix(got[0], "failed") || !strings.Contains(got[0], "exit status 7") {
		r.Fatalf("the crash: %q", got)
	}
	if !strings.HasPrefix(got[1], "completed") {
		r.Errorf("the call after the crash: %s", got[1])
	}
	if d := time.Since(began); d > 15*time.Second {
		r.Errorf("the crash took %v", d)
	}
	r.skip(2, "M is noisy all the time")
	mark = len(a.Frames())
	if stop := a.prompt(s, `call good huge {"n":5000000}`); stop != "end_turn" {
		r.Errorf("a huge result ended the turn with %q", stop)
	}
	if got := a.results(s, mark); len(got) != 1 || !strings.HasPrefix(got[0], "completed") || len(got[0]) > 400_000 || !strings.Contains(got[0], "the result is cut: ") {
		r.Errorf("a huge result: %.200q", got)
	}
	// A call that waits for the mute server, which is still starting.
	id := a.ask("session/prompt", prompt(s, "call mute echo"))
	a.await(r.matcher(json.RawMessage(`{"update":"tool_call_update","status":"in_progress","toolCallId":"`+lastCall(r, a, s)+`"}`)), patience)
	a.notify("session/cancel", obj{"sessionId": s})
	r.wantStop(a.await(responseTo(id), patience), "cancelled")
}

// lastCall waits for the announcement of a call of mute and gives its id.
func lastCall(r *run, a *editor, s string) string {
	a.await(r.matcher(json.RawMessage(`{"update":"tool_call","title":"mute: echo"}`)), patience)
	for _, u := range a.updates(s, 0) {
		if u.Kind == "tool_call" && u.Title != nil && *u.Title == "mute: echo" {
			return u.ToolCallID
		}
	}
	return ""
}

// secretsAreNowhere checks that values of M's environment are in no log and in
// no list.
func secretsAreNowhere(r *run, a *editor, secret string) {
	r.Helper()
	if list := a.call("session/list", obj{}); bytes.Contains(list.Raw, []byte(secret)) {
		r.Errorf("session/list shows %s: %s", secret, list.Raw)
	}
	if log := r.home.Log(); strings.Contains(log, secret) {
		r.Errorf("the log shows %s", secret)
	}
}
