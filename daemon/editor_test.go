package daemon_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/hermesd/hermesd/daemon"
	"github.com/hermesd/hermesd/daemon/daemontest"
	"github.com/hermesd/hermesd/daemon/session"
	"github.com/hermesd/hermesd/store"
	"github.com/hermesd/hermesd/transport"
	"github.com/hermesd/hermesd/transport/acp"
	"github.com/hermesd/hermesd/transport/acpclient"
	"github.com/hermesd/hermesd/transport/jsonrpc"
	"github.com/hermesd/hermesd/transport/link"
)

// room is a house with one session and its first editor.
type room struct {
	*daemontest.House
	t   *testing.T
	cwd string
	a   *acpclient.Client
	id  string
}

func newRoom(t *testing.T, agent *daemontest.Script, adjust func(*daemon.Config)) *room {
	t.Helper()
	return newRoomOn(t, store.NewMemory(), agent, adjust)
}

// newRoomOn makes a room with a store of the test's.
func newRoomOn(t *testing.T, st session.Store, agent *daemontest.Script, adjust func(*daemon.Config)) *room {
	t.Helper()
	r := &room{House: daemontest.NewHouse(t, st, agent, adjust), t: t, cwd: t.TempDir()}
	r.a = r.Editor(acpclient.Options{Name: "a"})
	s, err := r.a.NewSession(within(t), r.cwd)
	if err != nil {
		t.Fatal(err)
	}
	r.id = s.ID
	return r
}

// join connects one more editor and loads the session.
func (r *room) join(o acpclient.Options) *acpclient.Client {
	r.t.Helper()
	e := r.Editor(o)
	if _, err := e.Load(within(r.t), r.id, r.cwd); err != nil {
		r.t.Fatal(err)
	}
	return e
}

func start(t *testing.T, e *acpclient.Client, id, text string) *acpclient.Call {
	t.Helper()
	c, err := e.StartPrompt(id, text)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// stop is how a prompt was answered: its stop reason, or the error's code.
func stop(t *testing.T, c *acpclient.Call) string {
	t.Helper()
	raw, err := c.Wait(within(t))
	var e *jsonrpc.Error
	switch {
	case errors.As(err, &e):
		return fmt.Sprint(e.Code)
	case err != nil:
		t.Fatal(err)
	}
	res, err := acpclient.ParsePromptResult(raw)
	if err != nil {
		t.Fatal(err)
	}
	return res.StopReason
}

func await(t *testing.T, e *acpclient.Client, what string, match func(acpclient.Entry) bool) acpclient.Entry {
	t.Helper()
	got, err := e.Await(within(t), 0, match)
	if err != nil {
		t.Fatalf("waiting for %s: %v", what, err)
	}
	return got
}

func awaitText(t *testing.T, e *acpclient.Client, text string) {
	t.Helper()
	await(t, e, text, func(n acpclient.Entry) bool {
		return n.Kind == acpclient.Update && strings.Contains(string(n.Raw), text)
	})
}

func awaitQuestion(t *testing.T, e *acpclient.Client) acpclient.Entry {
	t.Helper()
	return await(t, e, "a question", func(n acpclient.Entry) bool { return n.Kind == acpclient.Asked })
}

// roundTrip returns when the daemon has read what e sent before, and e what
// the daemon sent it before.
func roundTrip(t *testing.T, e *acpclient.Client) {
	t.Helper()
	if err := e.Call(within(t), "_hermes/agents/list", nil, nil); err != nil {
		t.Fatal(err)
	}
}

// code is the code of a JSON-RPC error, 0 for none.
func code(t *testing.T, err error) int {
	t.Helper()
	var e *jsonrpc.Error
	if err != nil && !errors.As(err, &e) {
		t.Fatalf("not an answer: %v", err)
	}
	if e == nil {
		return 0
	}
	return e.Code
}

// untilCancelled says "going" and ends when it is cancelled.
func untilCancelled() *daemontest.Script {
	return &daemontest.Script{Turn: func(ctx context.Context, st *daemontest.Stage) (session.TurnResult, error) {
		if err := st.Say(ctx, "going %s", st.Text()); err != nil {
			return session.TurnResult{}, err
		}
		<-ctx.Done()
		return session.TurnResult{StopReason: "cancelled"}, nil
	}}
}

// gated says its prompt when a turn starts and ends when the test lets it.
func gated() (*daemontest.Script, chan<- string) {
	g := make(chan string)
	return &daemontest.Script{Turn: func(ctx context.Context, st *daemontest.Stage) (session.TurnResult, error) {
		if err := st.Say(ctx, "going %s", st.Text()); err != nil {
			return session.TurnResult{}, err
		}
		select {
		case text := <-g:
			return session.TurnResult{StopReason: "end_turn"}, st.Say(ctx, " %s", text)
		case <-ctx.Done():
			return session.TurnResult{}, ctx.Err()
		}
	}}, g
}

func TestASessionThatIsNotOpenHereIsAnErrorThatNamesIt(t *testing.T) {
	r := newRoom(t, &daemontest.Script{}, nil)
	stranger := r.Editor(acpclient.Options{})
	for _, id := range []string{r.id, "sess_nonsense"} {
		for method, params := range map[string]any{
			"session/prompt":            map[string]any{"sessionId": id, "prompt": []any{map[string]any{"type": "text", "text": "x"}}},
			"session/set_mode":          map[string]any{"sessionId": id, "modeId": "two"},
			"session/set_config_option": map[string]any{"sessionId": id, "configId": "mode", "value": "two"},
			"session/close":             map[string]any{"sessionId": id},
		} {
			t.Run(method, func(t *testing.T) {
				err := stranger.Call(within(t), method, params, nil)
				var e *jsonrpc.Error
				if !errors.As(err, &e) || e.Code != -32002 {
					t.Fatalf("answered %v, should be -32002", err)
				}
				var data struct {
					SessionID string `json:"sessionId"`
				}
				if json.Unmarshal(e.Data, &data) != nil || data.SessionID != id {
					t.Errorf("data is %s, should name %s", e.Data, id)
				}
			})
		}
	}
	for _, method := range []string{"session/load", "session/resume"} {
		err := stranger.Call(within(t), method, map[string]any{"sessionId": "sess_nonsense", "cwd": r.cwd, "mcpServers": []any{}}, nil)
		if code(t, err) != -32002 {
			t.Errorf("%s of an unknown session: %v", method, err)
		}
		err = stranger.Call(within(t), method, map[string]any{"sessionId": r.id, "cwd": t.TempDir(), "mcpServers": []any{}}, nil)
		if code(t, err) != -32602 {
			t.Errorf("%s from another cwd: %v", method, err)
		}
	}
}

func TestNothingIsTakenBeforeInitialize(t *testing.T) {
	h := daemontest.NewHouse(t, store.NewMemory(), &daemontest.Script{}, nil)
	c := h.Pipe()
	e := acpclient.New(c, c, acpclient.Options{})
	t.Cleanup(func() { e.Close() })
	if _, err := e.NewSession(within(t), t.TempDir()); code(t, err) != -32600 {
		t.Errorf("session/new before initialize: %v", err)
	}
	if _, err := e.Initialize(within(t)); err != nil {
		t.Fatal(err)
	}
	if _, err := e.Initialize(within(t)); code(t, err) != -32600 {
		t.Errorf("initialize twice: %v", err)
	}
}

func TestObserversSeeThePromptAndTheEditorThatAskedDoesNot(t *testing.T) {
	agent, g := gated()
	r := newRoom(t, agent, nil)
	b := r.join(acpclient.Options{})
	p := start(t, r.a, r.id, "hello")
	awaitText(t, b, "going hello")
	g <- "end"
	if got := stop(t, p); got != "end_turn" {
		t.Fatal(got)
	}
	awaitText(t, b, `"state":"idle"`)
	if text := b.Story(r.id).Says(acp.UserMessageChunk); text != "hello" {
		t.Errorf("the observer was told the prompt %q", text)
	}
	if text := r.a.Story(r.id).Says(acp.UserMessageChunk); text != "" {
		t.Errorf("who asked was told his prompt %q", text)
	}
	first := b.Story(r.id)[0]
	if first.Kind != acp.UserMessageChunk {
		t.Errorf("the observer saw %s before the prompt", first)
	}
	c := r.join(acpclient.Options{})
	if err := c.Story(r.id).Same(b.Story(r.id)); err != nil {
		t.Errorf("a replay and what was seen live: %v", err)
	}
}

func TestLoadOfAnOpenSessionWhileTheOwnPromptRuns(t *testing.T) {
	agent, g := gated()
	r := newRoom(t, agent, nil)
	p := start(t, r.a, r.id, "one")
	awaitText(t, r.a, "going one")
	for range 2 {
		from := r.a.Len()
		if _, err := r.a.Load(within(t), r.id, r.cwd); err != nil {
			t.Fatal(err)
		}
		story := acpclient.StoryOf(r.id, r.a.Entries()[from:])
		if u, m := story.Says(acp.UserMessageChunk), story.Says(acp.AgentMessageChunk); u != "one" || m != "going one" {
			t.Errorf("the replay says %q and %q", u, m)
		}
	}
	g <- "end"
	if got := stop(t, p); got != "end_turn" {
		t.Errorf("the prompt was answered %s", got)
	}
	n := 0
	for _, e := range r.a.Entries() {
		if e.Kind == acpclient.Update && strings.Contains(string(e.Raw), " end") {
			n++
		}
	}
	if n != 1 {
		t.Errorf("what came after the loads came %d times", n)
	}
}

// An editor may load a session that it has open while updates rush by: from
// its load on it has everything once.
func TestLoadAgainInTheMiddleOfAStream(t *testing.T) {
	done := make(chan struct{})
	agent := &daemontest.Script{Turn: func(ctx context.Context, st *daemontest.Stage) (session.TurnResult, error) {
		for i := 0; ; i++ {
			if err := st.Say(ctx, "%d ", i); err != nil {
				return session.TurnResult{}, err
			}
			select {
			case <-done:
				return session.TurnResult{}, nil
			case <-time.After(50 * time.Microsecond): // the history is to stay short
			}
		}
	}}
	r := newRoom(t, agent, nil)
	p := start(t, r.a, r.id, "go")
	awaitText(t, r.a, "0 ")
	b := r.join(acpclient.Options{})
	type span struct{ from, to int }
	var loads []span
	for range 20 {
		from := b.Len()
		if _, err := b.Load(within(t), r.id, r.cwd); err != nil {
			t.Fatal(err)
		}
		loads = append(loads, span{from, b.Len()})
	}
	close(done)
	stop(t, p)
	awaitText(t, b, `"state":"idle"`)
	entries := b.Entries()
	whole := message(r.join(acpclient.Options{}).Entries())
	for i, l := range loads {
		// The replay begins with the prompt: what came before it is what was
		// live between the request and the replay.
		at := l.from
		for at < len(entries) && entries[at].Update != acp.UserMessageChunk {
			at++
		}
		if got := message(append(slices.Clone(entries[at:l.to]), live(entries[l.to:])...)); got != whole {
			t.Fatalf("load %d and what came after it are %d bytes, the message is %d", i, len(got), len(whole))
		}
	}
}

// A load overtakes nothing that was live before it, and nothing live overtakes
// the load: also if the connection was full when it came.
func TestLoadAgainWhileTheConnectionIsFull(t *testing.T) {
	words := make(chan string)
	agent := &daemontest.Script{Turn: func(ctx context.Context, st *daemontest.Stage) (session.TurnResult, error) {
		for w := range words {
			if err := st.Say(ctx, "%s", w); err != nil {
				return session.TurnResult{}, err
			}
		}
		return session.TurnResult{}, nil
	}}
	r := newRoom(t, agent, func(c *daemon.Config) { c.Limits.SoftQueue, c.Session.TailBytes = 1000, 1 })
	hold := make(chan struct{})
	free := sync.OnceFunc(func() { close(hold) })
	t.Cleanup(free)
	b := r.Editor(acpclient.Options{Received: func(e acpclient.Entry) {
		if e.Update == acp.AgentMessageChunk {
			<-hold
		}
	}})
	if _, err := b.Load(within(t), r.id, r.cwd); err != nil {
		t.Fatal(err)
	}
	p := start(t, r.a, r.id, "go")
	pad := strings.Repeat(".", 10_000)
	for _, w := range []string{"<1>", "<2>", "<3>", "<4>"} {
		words <- w + pad
		awaitText(t, r.a, w)
	}
	load, err := b.Start("session/load", map[string]any{"sessionId": r.id, "cwd": r.cwd, "mcpServers": []any{}})
	if err != nil {
		t.Fatal(err)
	}
	next := start(t, b, r.id, "next")
	for ctx := within(t); ; { // until the daemon has heard both
		var show struct{ Queue []any }
		if err := r.a.Call(ctx, "_hermes/sessions/show", map[string]any{"sessionId": r.id}, &show); err != nil {
			t.Fatal(err)
		}
		if len(show.Queue) == 1 {
			break
		}
	}
	words <- "<5>" + pad
	awaitText(t, r.a, "<5>")
	close(words)
	stop(t, p)
	free()
	if _, err := load.Wait(within(t)); err != nil {
		t.Fatal(err)
	}
	stop(t, next)
	entries := b.Entries()
	at := len(entries) - 1 // the replay begins with the last mention of the first prompt
	for at > 0 && (entries[at].Update != acp.UserMessageChunk || textOf(entries[at]) != "go") {
		at--
	}
	text := strings.ReplaceAll(message(entries[at:]), pad, "")
	if text != "<1><2><3><4><5>" {
		t.Errorf("from the replay on it was told %s", text)
	}
}

// message joins what the agent says.
func message(entries []acpclient.Entry) string {
	var b strings.Builder
	for _, e := range entries {
		if e.Update == acp.AgentMessageChunk {
			content, _ := acp.Get(e.Raw, "content")
			text, _ := acp.GetString(content, "text")
			b.WriteString(text)
		}
	}
	return b.String()
}

// live is what came outside of later replays.
func live(entries []acpclient.Entry) []acpclient.Entry {
	var out []acpclient.Entry
	replay := false
	for _, e := range entries {
		switch {
		case e.Update == acp.UserMessageChunk:
			replay = true
		case e.Kind == acpclient.Response:
			replay = false
		case !replay:
			out = append(out, e)
		}
	}
	return out
}

func TestResumeTellsWhatIsOpenAndNoHistory(t *testing.T) {
	agent := &daemontest.Script{Turn: func(ctx context.Context, st *daemontest.Stage) (session.TurnResult, error) {
		if err := st.Say(ctx, "before"); err != nil {
			return session.TurnResult{}, err
		}
		_, err := st.Permit(ctx, "rm -rf /")
		return session.TurnResult{}, err
	}}
	r := newRoom(t, agent, nil)
	p := start(t, r.a, r.id, "x")
	awaitQuestion(t, r.a)
	b := r.Editor(acpclient.Options{})
	if _, err := b.Resume(within(t), r.id, r.cwd); err != nil {
		t.Fatal(err)
	}
	q := awaitQuestion(t, b)
	story := b.Story(r.id)
	if text := story.Says(acp.AgentMessageChunk); text != "" {
		t.Errorf("resume replayed %q", text)
	}
	if tools := story.Tools(); len(tools) != 1 {
		t.Errorf("%d open tool calls were told", len(tools))
	}
	for _, e := range b.Entries() {
		if e.Kind == acpclient.Response && e.Method == "session/resume" && e.Index > q.Index {
			t.Error("the question came before the response")
		}
	}
	if err := b.Answer(q.ID, "no"); err != nil {
		t.Fatal(err)
	}
	stop(t, p)
	await(t, r.a, "the withdrawal", func(e acpclient.Entry) bool { return e.Kind == acpclient.Withdrawn })
}

func TestCloseLeavesTheSessionToTheOthers(t *testing.T) {
	agent, g := gated()
	r := newRoom(t, agent, nil)
	b := r.join(acpclient.Options{})
	p := start(t, r.a, r.id, "one")
	awaitText(t, b, "going one")
	queued := start(t, r.a, r.id, "two")
	if err := r.a.CloseSession(within(t), r.id); err != nil {
		t.Fatal(err)
	}
	if x, y := stop(t, p), stop(t, queued); x != "cancelled" || y != "cancelled" {
		t.Errorf("own prompts were answered %s and %s", x, y)
	}
	if _, err := r.a.Prompt(within(t), r.id, "x"); code(t, err) != -32002 {
		t.Errorf("a prompt after the close: %v", err)
	}
	n := r.a.Len()
	g <- "end"
	awaitText(t, b, " end")
	awaitText(t, b, `"stopReason":"end_turn"`)
	roundTrip(t, r.a)
	for _, e := range r.a.Entries()[n:] {
		if e.Kind == acpclient.Update {
			t.Errorf("after its close an editor was sent %s", e.Raw)
		}
	}
	if text := b.Story(r.id).Says(acp.AgentMessageChunk); strings.Contains(text, "two") {
		t.Error("a prompt ran that was taken back")
	}
}

func TestCloseOfTheLastEditorEndsItsTurn(t *testing.T) {
	r := newRoom(t, untilCancelled(), nil)
	p := start(t, r.a, r.id, "one")
	awaitText(t, r.a, "going one")
	if err := r.a.CloseSession(within(t), r.id); err != nil {
		t.Fatal(err)
	}
	if got := stop(t, p); got != "cancelled" {
		t.Errorf("answered %s", got)
	}
	b := r.join(acpclient.Options{})
	for _, e := range b.Entries() {
		if strings.Contains(string(e.Raw), `"state":"running"`) {
			t.Error("a turn still runs")
		}
	}
}

func TestDeleteTellsEveryEditorAndIsIdempotent(t *testing.T) {
	r := newRoom(t, untilCancelled(), nil)
	b := r.join(acpclient.Options{})
	p := start(t, b, r.id, "one")
	awaitText(t, r.a, "going one")
	for range 2 {
		if err := r.a.Delete(within(t), r.id); err != nil {
			t.Fatal(err)
		}
	}
	if got := stop(t, p); got != "cancelled" {
		t.Errorf("the running prompt was answered %s", got)
	}
	for _, e := range []*acpclient.Client{r.a, b} {
		awaitText(t, e, `"deleted":true`)
		if _, err := e.Prompt(within(t), r.id, "x"); code(t, err) != -32002 {
			t.Errorf("a prompt after the deletion: %v", err)
		}
	}
	if all, err := b.List(within(t), ""); err != nil || len(all) != 0 {
		t.Errorf("listed after the deletion: %v, %v", all, err)
	}
	if _, err := b.Load(within(t), r.id, r.cwd); code(t, err) != -32002 {
		t.Errorf("load after the deletion: %v", err)
	}
}

// An editor that is far behind when the session is deleted hears of it too.
func TestDeleteReachesAnEditorThatLags(t *testing.T) {
	agent := &daemontest.Script{Turn: func(ctx context.Context, st *daemontest.Stage) (session.TurnResult, error) {
		text := strings.Repeat("x", 10_000)
		for range 1000 {
			if err := st.Say(ctx, "%s", text); err != nil {
				return session.TurnResult{}, err
			}
		}
		return session.TurnResult{}, nil
	}}
	r := newRoom(t, agent, func(c *daemon.Config) { c.Limits.SoftQueue = 10_000; c.Session.TailBytes = 10_000 })
	hold := make(chan struct{})
	var once sync.Once
	free := func() { once.Do(func() { close(hold) }) }
	t.Cleanup(free)
	b := r.Editor(acpclient.Options{Received: func(e acpclient.Entry) {
		if e.Update == acp.AgentMessageChunk {
			<-hold
		}
	}})
	if _, err := b.Load(within(t), r.id, r.cwd); err != nil {
		t.Fatal(err)
	}
	if _, err := r.a.Prompt(within(t), r.id, "x"); err != nil {
		t.Fatal(err)
	}
	if err := r.a.Delete(within(t), r.id); err != nil {
		t.Fatal(err)
	}
	free()
	awaitText(t, b, `"deleted":true`)
}

func TestListPagesAndFilters(t *testing.T) {
	agents := &twoAgents{Script: &daemontest.Script{}}
	h := daemontest.NewHouse(t, store.NewMemory(), agents, nil)
	e := h.Editor(acpclient.Options{})
	here, there := t.TempDir(), t.TempDir()
	want := map[string]string{}
	for i := range 120 {
		cwd := here
		if i%4 == 0 {
			cwd = there
		}
		s, err := e.NewSession(within(t), cwd)
		if err != nil {
			t.Fatal(err)
		}
		want[s.ID] = cwd
	}
	check := func(e *acpclient.Client, cwd string, n int) {
		t.Helper()
		all, err := e.List(within(t), cwd)
		if err != nil {
			t.Fatal(err)
		}
		seen := map[string]bool{}
		for _, s := range all {
			if seen[s.ID] || cwd != "" && want[s.ID] != cwd {
				t.Errorf("listed wrongly: %+v", s)
			}
			seen[s.ID] = true
		}
		if len(all) != n {
			t.Errorf("%d listed, should be %d", len(all), n)
		}
	}
	check(e, "", 120)
	check(e, there, 30)
	other := h.EditorWithHello(link.Hello{Link: 1, ID: link.NewID(), Agent: "other"}, acpclient.Options{})
	check(other, "", 0)
	s, err := other.NewSession(within(t), here)
	if err != nil {
		t.Fatal(err)
	}
	check(other, "", 1)
	check(e, "", 121)
	if _, err := e.Load(within(t), s.ID, here); err != nil {
		t.Errorf("loading the session of another agent: %v", err)
	}
	for _, bad := range []string{"x", "MSAw", "!!"} {
		if err := e.Call(within(t), "session/list", map[string]any{"cursor": bad}, nil); code(t, err) != -32602 {
			t.Errorf("cursor %q: %v", bad, err)
		}
	}
}

// twoAgents has one more agent, named other.
type twoAgents struct{ *daemontest.Script }

func (a *twoAgents) Has(name string) bool { return name == "other" || a.Script.Has(name) }

func TestModesReachEveryEditor(t *testing.T) {
	r := newRoom(t, &daemontest.Script{}, nil)
	b := r.join(acpclient.Options{})
	if err := r.a.SetMode(within(t), r.id, "two"); err != nil {
		t.Fatal(err)
	}
	for _, e := range []*acpclient.Client{r.a, b} {
		await(t, e, "the mode", func(n acpclient.Entry) bool {
			return n.Update == acp.CurrentMode && strings.Contains(string(n.Raw), `"two"`)
		})
		await(t, e, "the options", func(n acpclient.Entry) bool {
			return n.Update == acp.ConfigOption && strings.Contains(string(n.Raw), `"currentValue":"two"`)
		})
	}
	if err := b.SetOption(within(t), r.id, "mode", "one"); err != nil {
		t.Fatal(err)
	}
	await(t, r.a, "the mode", func(n acpclient.Entry) bool {
		return n.Update == acp.CurrentMode && strings.Contains(string(n.Raw), `"one"`)
	})
	if err := b.SetMode(within(t), r.id, "nine"); code(t, err) != -32602 {
		t.Errorf("an unknown mode: %v", err)
	}
	c := r.Editor(acpclient.Options{})
	s, err := c.Load(within(t), r.id, r.cwd)
	if err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(string(raw(t, s)), `"one"`) {
		t.Errorf("load gives %s", raw(t, s))
	}
}

func raw(t *testing.T, v any) []byte {
	t.Helper()
	b, err := json.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

func TestLimits(t *testing.T) {
	t.Run("64 prompts wait", func(t *testing.T) {
		r := newRoom(t, untilCancelled(), nil)
		var calls []*acpclient.Call
		for range 66 {
			calls = append(calls, start(t, r.a, r.id, "x"))
		}
		if got := stop(t, calls[65]); got != "-33100" {
			t.Errorf("the 65th that waits is answered %s", got)
		}
		if err := r.a.Cancel(r.id); err != nil {
			t.Fatal(err)
		}
		for _, c := range calls[:65] {
			if got := stop(t, c); got != "cancelled" {
				t.Fatalf("answered %s", got)
			}
		}
	})
	t.Run("64 editors", func(t *testing.T) {
		r := newRoom(t, &daemontest.Script{}, nil)
		for range 63 {
			r.join(acpclient.Options{})
		}
		e := r.Editor(acpclient.Options{})
		if _, err := e.Load(within(t), r.id, r.cwd); code(t, err) != -33100 {
			t.Errorf("the 65th editor: %v", err)
		}
		if _, err := e.Prompt(within(t), r.id, "x"); code(t, err) != -32002 {
			t.Errorf("a prompt of the 65th editor: %v", err)
		}
		r.a.Close()
		// The place is free when the daemon has noticed.
		ctx := within(t)
		for {
			_, err := e.Load(ctx, r.id, r.cwd)
			if err == nil {
				break
			}
			if code(t, err) != -33100 {
				t.Fatal(err)
			}
		}
	})
	t.Run("256 requests in flight", func(t *testing.T) {
		r := newRoom(t, untilCancelled(), func(c *daemon.Config) { c.Session.MaxQueue = 1000 })
		var calls []*acpclient.Call
		for range 257 {
			calls = append(calls, start(t, r.a, r.id, "x"))
		}
		if got := stop(t, calls[256]); got != "-33100" {
			t.Errorf("the 257th is answered %s", got)
		}
		if err := r.a.Cancel(r.id); err != nil {
			t.Fatal(err)
		}
		for _, c := range calls[:256] {
			if got := stop(t, c); got != "cancelled" {
				t.Fatalf("answered %s", got)
			}
		}
	})
}

func TestCancelRequestOfAPrompt(t *testing.T) {
	r := newRoom(t, untilCancelled(), nil)
	one, two, three := start(t, r.a, r.id, "one"), start(t, r.a, r.id, "two"), start(t, r.a, r.id, "three")
	awaitText(t, r.a, "going one")
	if err := two.Cancel(); err != nil {
		t.Fatal(err)
	}
	if got := stop(t, two); got != "-32800" {
		t.Errorf("a queued prompt is answered %s", got)
	}
	if err := one.Cancel(); err != nil {
		t.Fatal(err)
	}
	if got := stop(t, one); got != "cancelled" {
		t.Errorf("a running prompt is answered %s", got)
	}
	awaitText(t, r.a, "going three")
	if err := three.Cancel(); err != nil {
		t.Fatal(err)
	}
	stop(t, three)
}

// An editor that closes its end at once still gets every answer that does not
// wait for a turn.
func TestWhatIsInFlightAtTheEndOfTheInputIsAnswered(t *testing.T) {
	h := daemontest.NewHouse(t, store.NewMemory(), &daemontest.Script{}, nil)
	cwd := t.TempDir()
	for range 20 {
		ln, err := net.Listen("tcp", "127.0.0.1:0") // a pair that can be closed by halves
		if err != nil {
			t.Fatal(err)
		}
		accepted := make(chan net.Conn, 1)
		go func() {
			c, err := ln.Accept()
			if err == nil {
				accepted <- c
			}
			close(accepted)
		}()
		c, err := net.Dial("tcp", ln.Addr().String())
		if err != nil {
			t.Fatal(err)
		}
		go h.Daemon.ServeConn(connOf(<-accepted))
		ln.Close()
		lines := []string{
			`{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":1}}`,
			`{"jsonrpc":"2.0","id":2,"method":"session/new","params":{"cwd":` + string(raw(t, cwd)) + `,"mcpServers":[]}}`,
			`{"jsonrpc":"2.0","id":3,"method":"session/list","params":{}}`,
			`{"jsonrpc":"2.0","id":4,"method":"_hermes/status"}`,
			`{"jsonrpc":"2.0","id":5,"method":"no/such"}`,
			`{"jsonrpc":"2.0","id":6,"method":"session/prompt","params":{"sessionId":"none","prompt":[]}}`,
		}
		if _, err := c.Write([]byte(strings.Join(lines, "\n"))); err != nil {
			t.Fatal(err)
		}
		if err := c.(*net.TCPConn).CloseWrite(); err != nil {
			t.Fatal(err)
		}
		_ = c.SetReadDeadline(time.Now().Add(20 * time.Second))
		got := readAll(t, c)
		for id := 1; id <= 6; id++ {
			if !strings.Contains(got, fmt.Sprintf(`"id":%d,`, id)) {
				t.Fatalf("request %d was not answered:\n%s", id, got)
			}
		}
	}
}

func TestHelloAndWelcome(t *testing.T) {
	h := daemontest.NewHouse(t, store.NewMemory(), &daemontest.Script{}, nil)
	hello := link.Hello{Link: 1, ID: link.NewID()}
	e, w, err := acpclient.Greet(within(t), h.Pipe(), hello, acpclient.Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { e.Close() })
	if w.Link != 1 || w.Epoch == "" || w.Version != "test" || w.PID == 0 {
		t.Errorf("welcome: %+v", w)
	}
	if _, err := e.Initialize(within(t)); err != nil {
		t.Fatal(err)
	}
	hello.Agent = "nobody"
	if _, _, err := acpclient.Greet(within(t), h.Pipe(), hello, acpclient.Options{}); err == nil || !strings.Contains(err.Error(), `"nobody": choose one of `) {
		t.Errorf("an unknown agent in the hello: %v", err)
	}
	err = e.Call(within(t), "session/new", map[string]any{"cwd": t.TempDir(), "mcpServers": []any{}, "_meta": map[string]any{"hermes": map[string]any{"agent": "nobody"}}}, nil)
	if code(t, err) != -32602 || !strings.Contains(err.Error(), `"nobody": choose one of `) {
		t.Errorf("an unknown agent in session/new: %v", err)
	}
}

func TestHermesMethods(t *testing.T) {
	agent := &daemontest.Script{Turn: func(ctx context.Context, st *daemontest.Stage) (session.TurnResult, error) {
		a, err := st.Permit(ctx, "launch")
		if err != nil {
			return session.TurnResult{}, err
		}
		return session.TurnResult{}, st.Say(ctx, "allowed: %v", a.Allowed())
	}}
	stopped := make(chan struct{})
	r := newRoom(t, agent, func(c *daemon.Config) { c.Stop = func() { close(stopped) } })
	cmd := r.Editor(acpclient.Options{Name: "command"})
	call := func(method string, params any) (res map[string]json.RawMessage) {
		t.Helper()
		if err := cmd.Call(within(t), method, params, &res); err != nil {
			t.Fatalf("%s: %v", method, err)
		}
		return res
	}
	p := start(t, r.a, r.id, "x")
	awaitQuestion(t, r.a)
	var questions []struct {
		ID    string `json:"id"`
		Title string `json:"title"`
	}
	if err := json.Unmarshal(call("_hermes/permissions/list", nil)["questions"], &questions); err != nil || len(questions) != 1 || questions[0].Title != "launch" {
		t.Fatalf("questions: %+v, %v", questions, err)
	}
	status := call("_hermes/status", nil)
	if s := string(status["sessions"]); !strings.Contains(s, `"waiting"`) || !strings.Contains(s, r.id) {
		t.Errorf("status: %s", s)
	}
	if s := string(raw(t, call("_hermes/sessions/show", map[string]any{"sessionId": r.id}))); !strings.Contains(s, questions[0].ID) {
		t.Errorf("show: %s", s)
	}
	if err := cmd.Call(within(t), "_hermes/permissions/answer", map[string]any{"id": questions[0].ID, "optionId": "maybe"}, nil); code(t, err) != -32602 || !strings.Contains(err.Error(), "choose one of yes, ") {
		t.Errorf("an option that was not offered: %v", err)
	}
	call("_hermes/permissions/answer", map[string]any{"id": questions[0].ID, "optionId": "yes"})
	if err := cmd.Call(within(t), "_hermes/permissions/answer", map[string]any{"id": questions[0].ID, "optionId": "yes"}, nil); code(t, err) != -32002 {
		t.Errorf("answering twice: %v", err)
	}
	stop(t, p)
	awaitText(t, r.a, "allowed: true")
	await(t, r.a, "the withdrawal", func(e acpclient.Entry) bool { return e.Kind == acpclient.Withdrawn })
	var next, last session.Seq
	for {
		var page struct {
			Events []struct {
				Seq, Last session.Seq
			}
			Head, Next session.Seq
		}
		if err := cmd.Call(within(t), "_hermes/sessions/tail", map[string]any{"sessionId": r.id, "from": next, "limitBytes": 100}, &page); err != nil {
			t.Fatal(err)
		}
		for _, e := range page.Events {
			if e.Seq != last+1 {
				t.Errorf("event %d follows %d", e.Seq, last)
			}
			last = e.Last
		}
		if next = page.Next; next == page.Head {
			break
		}
	}
	if err := cmd.Call(within(t), "_hermes/sessions/show", map[string]any{"sessionId": "none"}, nil); code(t, err) != -32002 {
		t.Errorf("show of an unknown session: %v", err)
	}
	if err := cmd.Call(within(t), "_hermes/nonsense", nil, nil); code(t, err) != -32601 {
		t.Errorf("an unknown method: %v", err)
	}
	call("_hermes/stop", nil)
	<-stopped
}

func TestDrainInMidTurnAnswersEverything(t *testing.T) {
	for range 10 {
		r := newRoom(t, untilCancelled(), nil)
		b := r.join(acpclient.Options{})
		one := start(t, r.a, r.id, "one")
		awaitText(t, b, "going one")
		two := start(t, b, r.id, "two")
		roundTrip(t, b) // the daemon has read the second prompt
		r.Drain()
		if x, y := stop(t, one), stop(t, two); x != "cancelled" || y != "cancelled" {
			t.Fatalf("answered %s and %s", x, y)
		}
		for _, e := range []*acpclient.Client{r.a, b} {
			end := await(t, e, "the end", func(n acpclient.Entry) bool { return n.Kind == acpclient.Closed })
			if !strings.Contains(end.Err.Message, "closed it") {
				t.Errorf("the connection ended with %v", end.Err)
			}
		}
	}
}

func TestForkIsASessionOfItsOwn(t *testing.T) {
	agent := &daemontest.Script{Turn: func(ctx context.Context, st *daemontest.Stage) (session.TurnResult, error) {
		return session.TurnResult{}, st.Say(ctx, "echo %s.", st.Text())
	}}
	r := newRoom(t, agent, nil)
	if _, err := r.a.Prompt(within(t), r.id, "one"); err != nil {
		t.Fatal(err)
	}
	b := r.Editor(acpclient.Options{})
	var s acpclient.Session
	if err := b.Call(within(t), "session/fork", map[string]any{"sessionId": r.id, "cwd": r.cwd}, &s); err != nil {
		t.Fatal(err)
	}
	if s.ID == "" || s.ID == r.id {
		t.Fatalf("fork gives %q", s.ID)
	}
	for i, e := range []*acpclient.Client{r.a, b} {
		if _, err := e.Prompt(within(t), []string{r.id, s.ID}[i], "two"); err != nil {
			t.Fatal(err)
		}
	}
	c := r.Editor(acpclient.Options{})
	if _, err := c.Load(within(t), s.ID, r.cwd); err != nil {
		t.Fatal(err)
	}
	if text := c.Story(s.ID).Says(acp.AgentMessageChunk); text != "echo one.echo two." {
		t.Errorf("the fork says %q", text)
	}
	var show struct {
		Turns  int    `json:"turns"`
		Parent string `json:"parent"`
	}
	if err := c.Call(within(t), "_hermes/sessions/show", map[string]any{"sessionId": s.ID}, &show); err != nil {
		t.Fatal(err)
	}
	if show.Turns != 2 || show.Parent != r.id {
		t.Errorf("fork: %+v", show)
	}
}

func TestWhoDoesNotKnowQuestionsIsNotAskedAgain(t *testing.T) {
	agent := &daemontest.Script{Turn: func(ctx context.Context, st *daemontest.Stage) (session.TurnResult, error) {
		_, err := st.Permit(ctx, "x")
		return session.TurnResult{}, err
	}}
	r := newRoom(t, agent, nil)
	yes := func(context.Context, acpclient.Question) (string, error) { return "yes", nil }
	b := r.Editor(acpclient.Options{Permission: func(context.Context, acpclient.Question) (string, error) {
		return "", &jsonrpc.Error{Code: -32601, Message: "Method not found"}
	}})
	if _, err := b.Load(within(t), r.id, r.cwd); err != nil {
		t.Fatal(err)
	}
	p := start(t, r.a, r.id, "one")
	q := awaitQuestion(t, r.a)
	await(t, b, "b's answer", func(e acpclient.Entry) bool { return e.Kind == acpclient.Answered })
	roundTrip(t, b)
	if err := r.a.Answer(q.ID, "yes"); err != nil {
		t.Fatal(err)
	}
	stop(t, p)
	r.join(acpclient.Options{Permission: yes})
	if got := stop(t, start(t, r.a, r.id, "two")); got != "end_turn" {
		t.Fatal(got)
	}
	awaitIdle(t, b, 2)
	n := 0
	for _, e := range b.Entries() {
		if e.Kind == acpclient.Asked {
			n++
		}
	}
	if n != 1 {
		t.Errorf("asked %d times", n)
	}
}

// awaitIdle waits until e has seen n turns end.
func awaitIdle(t *testing.T, e *acpclient.Client, n int) {
	t.Helper()
	await(t, e, "the end of a turn", func(x acpclient.Entry) bool {
		if strings.Contains(string(x.Raw), `"state":"idle"`) {
			n--
		}
		return n == 0
	})
}

func connOf(c net.Conn) *transport.Conn {
	return &transport.Conn{Conn: c, Principal: transport.Principal{UID: os.Getuid(), Network: "test"}}
}

func readAll(t *testing.T, r io.Reader) string {
	t.Helper()
	b, err := io.ReadAll(r)
	if err != nil {
		t.Fatalf("after %q: %v", b, err)
	}
	return string(b)
}

// What a client calls itself is written into every event it causes.
func TestALongNameOfAClientIsCutBetweenCharacters(t *testing.T) {
	h := daemontest.NewHouse(t, store.NewMemory(), &daemontest.Script{}, nil)
	name := strings.Repeat("x", 199) + "é" + strings.Repeat("y", 100)
	e := h.Editor(acpclient.Options{Name: name})
	var status struct {
		Connections []struct{ Client string }
	}
	if err := e.Call(within(t), "_hermes/status", nil, &status); err != nil {
		t.Fatal(err)
	}
	if len(status.Connections) != 1 || status.Connections[0].Client != name[:199] {
		t.Errorf("%+v", status)
	}
}

// The protocol: additional directories that a load or a resume leaves out are
// none.
func TestDirectoriesThatAreLeftOutAreNone(t *testing.T) {
	h := daemontest.NewHouse(t, store.NewMemory(), &daemontest.Script{}, nil)
	e := h.Editor(acpclient.Options{})
	cwd := t.TempDir()
	var made struct{ SessionID string }
	if err := e.Call(within(t), "session/new", map[string]any{"cwd": cwd, "mcpServers": []any{}, "additionalDirectories": []string{cwd}}, &made); err != nil {
		t.Fatal(err)
	}
	dirs := func() int {
		var s struct{ Dirs []string }
		if err := e.Call(within(t), "_hermes/sessions/show", map[string]any{"sessionId": made.SessionID}, &s); err != nil {
			t.Fatal(err)
		}
		return len(s.Dirs)
	}
	if dirs() != 1 {
		t.Fatal("the new session has none")
	}
	if err := e.Call(within(t), "session/resume", map[string]any{"sessionId": made.SessionID, "cwd": cwd}, nil); err != nil {
		t.Fatal(err)
	}
	if n := dirs(); n != 0 {
		t.Errorf("%d directories after a resume without", n)
	}
}
