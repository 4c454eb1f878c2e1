package native

import (
	"context"
	"encoding/json"
	"fmt"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/hermesd/hermesd/agentpool/native/grants"
	"github.com/hermesd/hermesd/agentpool/native/llm"
	"github.com/hermesd/hermesd/agentpool/native/mcp/mcptest"
	"github.com/hermesd/hermesd/daemon/session"
	"go.uber.org/goleak"
)

func TestMain(m *testing.M) {
	if mcptest.Child() {
		return
	}
	goleak.VerifyTestMain(m)
}

// fakeHost is a session in memory: it keeps what the agent says as a log and
// answers its questions with answer.
type fakeHost struct {
	t      *testing.T
	answer func(context.Context, session.Question) (session.Answer, error)
	fill   func(context.Context, session.Form) (session.Filled, error) // nil: no editor with forms
	files  map[string]string                                           // what an editor has; nil: no editor
	setter func(context.Context, session.Change) (session.Settings, error)
	werr   error // of WriteTextFile

	mu     sync.Mutex
	log    []session.Record
	asked  []session.Question
	orders []string // update kinds, asks, barriers and records in order
	signal chan struct{}
}

func newHost(t *testing.T) *fakeHost {
	return &fakeHost{t: t, signal: make(chan struct{}, 1)}
}

func (h *fakeHost) append(kind session.Kind, data []byte) session.Seq {
	h.mu.Lock()
	defer h.mu.Unlock()
	n := session.Seq(len(h.log) + 1)
	h.log = append(h.log, session.Record{First: n, Last: n, Kind: kind, Data: data})
	select {
	case h.signal <- struct{}{}:
	default:
	}
	return n
}

func (h *fakeHost) order(s string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.orders = append(h.orders, s)
}

func (h *fakeHost) Update(ctx context.Context, update []byte) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	var u struct {
		Kind   string `json:"sessionUpdate"`
		ID     string `json:"toolCallId"`
		Status string `json:"status"`
	}
	if err := json.Unmarshal(update, &u); err != nil {
		h.t.Errorf("update %q: %v", update, err)
	}
	h.order(strings.TrimSpace(fmt.Sprint(u.Kind, " ", u.ID, " ", u.Status)))
	h.append(session.KindUpdate, update)
	return nil
}

func (h *fakeHost) Record(ctx context.Context, data []byte) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	if !json.Valid(data) {
		h.t.Errorf("record %q", data)
	}
	h.order("record")
	h.append(session.KindAgentRecord, data)
	return nil
}

func (h *fakeHost) Changed(context.Context, session.Settings) error { return nil }

func (h *fakeHost) Barrier(ctx context.Context) error {
	h.order("barrier")
	return ctx.Err()
}

func (h *fakeHost) Ask(ctx context.Context, q session.Question) (session.Answer, error) {
	h.order("ask")
	h.mu.Lock()
	h.asked = append(h.asked, q)
	h.mu.Unlock()
	if h.answer == nil {
		h.t.Errorf("unexpected question %s", q.ToolCall)
		return session.Answer{Outcome: session.NobodyThere}, nil
	}
	return h.answer(ctx, q)
}

func (h *fakeHost) Elicit(ctx context.Context, f session.Form) (session.Filled, error) {
	h.order("elicit")
	if h.fill == nil {
		return session.Filled{}, session.ErrNoEditor
	}
	return h.fill(ctx, f)
}

func (h *fakeHost) Set(ctx context.Context, c session.Change) error {
	h.order("set")
	s, err := h.setter(ctx, c)
	if err == nil {
		h.append(session.KindSettingsChanged, encode(session.SettingsChanged{Settings: s, Mode: true, Options: true}))
	}
	return err
}

func (h *fakeHost) ReadTextFile(_ context.Context, path string) (string, error) {
	if h.files == nil {
		return "", session.ErrNoEditor
	}
	text, ok := h.files[path]
	if !ok {
		return "", fmt.Errorf("no such buffer")
	}
	return text, nil
}

func (h *fakeHost) WriteTextFile(_ context.Context, path, content string) error {
	if h.werr != nil {
		return h.werr
	}
	if h.files == nil {
		return session.ErrNoEditor
	}
	h.files[path] = content
	return nil
}

func (h *fakeHost) Replay(_ context.Context, yield func(session.Record) error) error {
	h.mu.Lock()
	log := h.log
	h.mu.Unlock()
	for _, r := range log {
		if err := yield(r); err != nil {
			return err
		}
	}
	return nil
}

// choose answers every question with the option of this id.
func choose(id string) func(context.Context, session.Question) (session.Answer, error) {
	return func(_ context.Context, q session.Question) (session.Answer, error) {
		for _, o := range q.Options {
			if o.ID == id {
				return session.Answer{Outcome: session.Selected, Option: o}, nil
			}
		}
		return session.Answer{Outcome: session.NotOffered}, nil
	}
}

func outcome(o session.Outcome) func(context.Context, session.Question) (session.Answer, error) {
	return func(context.Context, session.Question) (session.Answer, error) {
		return session.Answer{Outcome: o}, nil
	}
}

// world is an agent with its host in a folder of its own.
type world struct {
	*fakeHost
	t     *testing.T
	dir   string
	agent *Agent
	cfg   Config
}

func newWorld(t *testing.T, cfg Config) *world {
	t.Helper()
	w := &world{fakeHost: newHost(t), t: t, dir: t.TempDir(), cfg: cfg}
	if cfg.Grants == nil {
		w.cfg.Grants = grants.Open(filepath.Join(t.TempDir(), grants.FileName))
	}
	w.open(true, session.Settings{})
	return w
}

func (w *world) open(fresh bool, s session.Settings) session.Settings {
	w.t.Helper()
	a, settings, err := Open(context.Background(), session.Spec{Meta: session.Meta{ID: "s", Cwd: w.dir}, Fresh: fresh, Settings: s}, w.fakeHost, w.cfg)
	if err != nil {
		w.t.Fatal(err)
	}
	w.agent = a
	w.setter = a.Set
	w.t.Cleanup(func() { a.Close() })
	if len(w.cfg.MCP.Servers) == 0 { // those may have something to say at any time
		a.work.Wait() // the commands are announced
	}
	return settings
}

// admit puts a prompt into the log as a session does, and returns its turn.
func (w *world) admit(blocks ...string) session.Turn {
	raw := make([]json.RawMessage, len(blocks))
	for i, b := range blocks {
		raw[i] = json.RawMessage(b)
	}
	seq := w.append(session.KindPromptAdmitted, encode(session.PromptAdmitted{Prompt: encode(raw)}))
	w.append(session.KindTurnStarted, encode(session.TurnStarted{Prompt: seq}))
	return session.Turn{Seq: seq, Blocks: raw}
}

func textBlock(text string) string {
	return string(encode(map[string]string{"type": "text", "text": text}))
}

// run runs a turn of blocks to its end.
func (w *world) run(ctx context.Context, blocks ...string) (session.TurnResult, error) {
	in := w.admit(blocks...)
	r, err := w.agent.Prompt(ctx, in)
	ended := session.TurnEnded{Prompt: in.Seq, StopReason: r.StopReason}
	if err != nil {
		ended.Error = &session.Error{Code: session.CodeInternal, Message: err.Error()}
	}
	w.append(session.KindTurnEnded, encode(ended))
	w.noOpenCalls()
	return r, err
}

// prompt runs a turn of text that must end well.
func (w *world) prompt(text string) {
	w.t.Helper()
	r, err := w.run(context.Background(), textBlock(text))
	if err != nil || r.StopReason != "end_turn" {
		w.t.Fatalf("prompt %q: %+v, %v", text, r, err)
	}
}

// updates returns all updates of a kind, decoded.
func (w *world) updates(kind string) []map[string]any {
	w.mu.Lock()
	defer w.mu.Unlock()
	var all []map[string]any
	for _, r := range w.log {
		var u map[string]any
		if r.Kind == session.KindUpdate && json.Unmarshal(r.Data, &u) == nil && u["sessionUpdate"] == kind {
			all = append(all, u)
		}
	}
	return all
}

// said is the text of all agent messages.
func (w *world) said() string {
	var b strings.Builder
	for _, u := range w.updates("agent_message_chunk") {
		b.WriteString(u["content"].(map[string]any)["text"].(string))
	}
	return b.String()
}

// last is the last update of a call with a status.
func (w *world) last(n int) map[string]any {
	w.t.Helper()
	calls := w.updates("tool_call")
	if n >= len(calls) {
		w.t.Fatalf("there are %d calls, none of index %d", len(calls), n)
	}
	var found map[string]any
	for _, u := range w.updates("tool_call_update") {
		if u["toolCallId"] == calls[n]["toolCallId"] && u["status"] != nil {
			found = u
		}
	}
	return found
}

// noOpenCalls checks that every call has been announced once and ended once,
// and that the history is one a provider takes.
func (w *world) noOpenCalls() {
	w.t.Helper()
	state := map[any]string{}
	for _, u := range w.updates("tool_call") {
		if state[u["toolCallId"]] != "" {
			w.t.Errorf("call %v was announced twice", u["toolCallId"])
		}
		state[u["toolCallId"]] = u["status"].(string)
	}
	for _, u := range w.updates("tool_call_update") {
		was := state[u["toolCallId"]]
		if was == "" {
			w.t.Errorf("an update of the unknown call %v", u["toolCallId"])
		}
		if was == "completed" || was == "failed" {
			w.t.Errorf("an update of the ended call %v", u["toolCallId"])
		}
		if s, ok := u["status"].(string); ok {
			state[u["toolCallId"]] = s
		}
	}
	for id, s := range state {
		if s != "completed" && s != "failed" {
			w.t.Errorf("call %v was left %s", id, s)
		}
	}
	checkHistory(w.t, w.agent.history.messages)
}

func checkHistory(t *testing.T, messages []llm.Message) {
	t.Helper()
	for i, m := range messages {
		var calls, results []string
		for _, p := range m.Parts {
			if p == (llm.Part{}) {
				t.Errorf("message %d has an empty part", i)
			}
			if p.Call != nil {
				calls = append(calls, p.Call.ID)
			}
		}
		if len(m.Parts) == 0 {
			t.Errorf("message %d is empty", i)
		}
		if len(calls) == 0 {
			continue
		}
		if i+1 == len(messages) {
			t.Errorf("the calls %v have no results", calls)
			continue
		}
		for _, p := range messages[i+1].Parts {
			if p.Result != nil {
				results = append(results, p.Result.CallID)
			}
		}
		if fmt.Sprint(calls) != fmt.Sprint(results) {
			t.Errorf("calls %v have the results %v", calls, results)
		}
	}
}

// shape writes a history for comparison.
func shape(messages []llm.Message) string { return string(encode(messages)) }
