package external

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/hermesd/hermesd/daemon/session"
	"go.uber.org/goleak"
)

// The test binary is also the agent: with this variable set it speaks ACP as
// its value says.
const fakeVar = "HERMESD_TEST_AGENT"

func TestMain(m *testing.M) {
	if how, ok := os.LookupEnv(fakeVar); ok {
		(&fake{how: strings.Fields(how), out: os.Stdout}).run()
		return
	}
	goleak.VerifyTestMain(m)
}

// fake is an agent that does what prompts say, and what its own words say of its
// manners.
type fake struct {
	how  []string
	out  *os.File
	mu   sync.Mutex
	id   int
	wait map[string]chan json.RawMessage
	stop chan struct{} // closed by session/cancel
}

func (f *fake) has(word string) bool {
	for _, w := range f.how {
		if w == word {
			return true
		}
	}
	return false
}

func (f *fake) send(v any) {
	data, _ := json.Marshal(v)
	f.mu.Lock()
	defer f.mu.Unlock()
	fmt.Fprintf(f.out, "%s\n", data)
}

func (f *fake) update(u string) {
	f.send(map[string]any{"jsonrpc": "2.0", "method": "session/update", "params": map[string]any{"sessionId": f.session(), "update": json.RawMessage(u)}})
}

func (f *fake) session() string {
	if f.has("one") {
		return "1"
	}
	return fmt.Sprint("s", os.Getpid())
}

func (f *fake) call(method string, params map[string]any) json.RawMessage {
	params["sessionId"] = f.session()
	f.mu.Lock()
	f.id++
	id := fmt.Sprint(f.id)
	ch := make(chan json.RawMessage, 1)
	f.wait[id] = ch
	f.mu.Unlock()
	f.send(map[string]any{"jsonrpc": "2.0", "id": json.RawMessage(id), "method": method, "params": params})
	return <-ch
}

func (f *fake) text(s string) {
	quoted, _ := json.Marshal(s)
	f.update(`{"sessionUpdate":"agent_message_chunk","content":{"type":"text","text":` + string(quoted) + `}}`)
}

func (f *fake) run() {
	f.wait = map[string]chan json.RawMessage{}
	if f.has("noisy") {
		fmt.Fprintln(f.out, "Welcome to the agent!")
		fmt.Fprintln(os.Stderr, "warming up")
	}
	if f.has("deaf") {
		time.Sleep(time.Hour)
	}
	if f.has("dies") {
		fmt.Fprintln(os.Stderr, "no \x1b[31mconfiguration\x1b[0m found")
		os.Exit(7)
	}
	in := bufio.NewReader(os.Stdin)
	for {
		line, err := in.ReadBytes('\n')
		if err != nil {
			if f.has("stays") {
				time.Sleep(time.Hour)
			}
			return
		}
		var m struct {
			ID     json.RawMessage
			Method string
			Params json.RawMessage
			Result json.RawMessage
			Error  json.RawMessage
		}
		if json.Unmarshal(line, &m) != nil {
			continue
		}
		if m.Method == "" {
			f.mu.Lock()
			ch := f.wait[string(m.ID)]
			f.mu.Unlock()
			if m.Result == nil {
				m.Result = m.Error
			}
			ch <- m.Result
			continue
		}
		f.serve(m.ID, m.Method, m.Params)
	}
}

func (f *fake) answer(id json.RawMessage, result string) {
	f.send(map[string]any{"jsonrpc": "2.0", "id": id, "result": json.RawMessage(result)})
}

func (f *fake) refuse(id json.RawMessage, code int, message string) {
	f.send(map[string]any{"jsonrpc": "2.0", "id": id, "error": map[string]any{"code": code, "message": message, "data": map[string]any{"big": json.RawMessage("12345678901234567890")}}})
}

const fakeModes = `"modes":{"currentModeId":"ask","availableModes":[{"id":"ask","name":"Ask"},{"id":"code","name":"Code"}]}`

func fakeOptions(model string) string {
	return `"configOptions":[{"id":"model","name":"Model","type":"select","currentValue":"` + model + `","options":[{"value":"a","name":"A"},{"value":"b","name":"B"}]}]`
}

func (f *fake) serve(id json.RawMessage, method string, params json.RawMessage) {
	if log := os.Getenv("FAKE_LOG"); log != "" {
		w, err := os.OpenFile(log, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600)
		if err == nil {
			fmt.Fprintf(w, "%s %s\n", method, params)
			w.Close()
		}
	}
	switch method {
	case "initialize":
		version := "1"
		if f.has("version2") {
			version = "2"
		}
		caps := `"loadSession":` + fmt.Sprint(f.has("load"))
		if f.has("resume") {
			caps += `,"sessionCapabilities":{"resume":{},"close":{}}`
		}
		f.answer(id, `{"protocolVersion":`+version+`,"agentCapabilities":{`+caps+`}}`)
	case "session/new":
		if f.has("login") {
			f.refuse(id, -32000, "Authentication required")
			return
		}
		f.answer(id, `{"sessionId":"`+f.session()+`",`+fakeModes+`,`+fakeOptions("a")+`}`)
		f.update(`{"sessionUpdate":"available_commands_update","availableCommands":[]}`)
	case "session/resume":
		f.answer(id, `{`+fakeModes+`,`+fakeOptions("a")+`}`)
	case "session/load":
		if f.has("forgets") {
			f.refuse(id, -32002, "Resource not found")
			return
		}
		var p struct{ SessionID string }
		_ = json.Unmarshal(params, &p)
		f.how = append(f.how, "one") // whatever it was
		f.send(map[string]any{"jsonrpc": "2.0", "method": "session/update", "params": json.RawMessage(`{"sessionId":"` + p.SessionID + `","update":{"sessionUpdate":"user_message_chunk","content":{"type":"text","text":"REPLAYED"}}}`)})
		f.answer(id, `{`+fakeModes+`,`+fakeOptions("a")+`}`)
	case "session/set_mode":
		f.answer(id, `{}`)
	case "session/set_config_option":
		f.answer(id, `{`+fakeOptions("b")+`}`)
	case "session/close":
		f.answer(id, `{}`)
	case "session/cancel":
		f.mu.Lock()
		if f.stop != nil {
			close(f.stop)
			f.stop = nil
		}
		f.mu.Unlock()
	case "session/prompt":
		var p struct {
			SessionID string
			Prompt    []struct{ Text string }
		}
		_ = json.Unmarshal(params, &p)
		f.mu.Lock()
		f.stop = make(chan struct{})
		stop := f.stop
		f.mu.Unlock()
		go f.turn(id, p.Prompt[len(p.Prompt)-1].Text, stop)
	default:
		if id != nil {
			f.refuse(id, -32601, "Method not found")
		}
	}
}

// turn does what the prompt says.
func (f *fake) turn(id json.RawMessage, prompt string, stop chan struct{}) {
	word, rest, _ := strings.Cut(prompt, " ")
	switch word {
	case "say":
		for w := range strings.FieldsSeq(rest) {
			f.text(w)
		}
	case "late":
		f.answer(id, `{"stopReason":"end_turn"}`)
		f.text("late")
		return
	case "call": // an update of a call that was never announced, then its end
		f.update(`{"sessionUpdate":"tool_call_update","toolCallId":"t1","status":"in_progress","future":{"big":12345678901234567890}}`)
		f.update(`{"sessionUpdate":"tool_call_update","toolCallId":"t1","status":"completed"}`)
	case "ask":
		got := f.call("session/request_permission", map[string]any{
			"toolCall": json.RawMessage(`{"toolCallId":"p1","title":"Do it","kind":"execute"}`),
			"options":  json.RawMessage(`[{"optionId":"yes","name":"Yes","kind":"allow_once"},{"optionId":"no","name":"No","kind":"reject_once"}]`),
		})
		f.text(string(got))
	case "read", "write":
		path, content, _ := strings.Cut(rest, " ")
		if word == "read" {
			f.text(string(f.call("fs/read_text_file", map[string]any{"path": path, "line": 2, "limit": 1})))
		} else {
			f.text(string(f.call("fs/write_text_file", map[string]any{"path": path, "content": content})))
		}
	case "other":
		f.text(string(f.call("craft/unknown", map[string]any{})))
	case "mode":
		f.update(`{"sessionUpdate":"current_mode_update","currentModeId":"code"}`)
	case "hang":
		f.update(`{"sessionUpdate":"tool_call","toolCallId":"h1","title":"Hang","status":"in_progress"}`)
		<-stop
		f.answer(id, `{"stopReason":"cancelled"}`)
		return
	case "tool": // that leaves the agent's group and session
		cmd := exec.Command("setsid", "sh", "-c", "echo $$ > "+filepath.Join(rest, "pid")+"; exec sleep 300")
		_ = cmd.Start()
		for {
			if data, err := os.ReadFile(filepath.Join(rest, "pid")); err == nil && len(data) > 1 {
				break
			}
			time.Sleep(5 * time.Millisecond)
		}
		f.text("started")
	case "die":
		f.update(`{"sessionUpdate":"tool_call","toolCallId":"d1","title":"Die","status":"in_progress"}`)
		fmt.Fprintln(os.Stderr, "out of luck")
		os.Exit(3)
	case "fail":
		f.refuse(id, -32000, "Authentication required")
		return
	}
	f.answer(id, `{"stopReason":"end_turn","usage":{"totalTokens":3},"_meta":{"x":1}}`)
}

// host is a session in memory.
type host struct {
	t      *testing.T
	answer func(session.Question) session.Answer
	files  map[string]string // of an editor; nil: none

	mu      sync.Mutex
	log     []session.Record
	now     []session.Settings // as they changed
	changed chan struct{}
}

func newHost(t *testing.T) *host { return &host{t: t, changed: make(chan struct{}, 100)} }

func (h *host) append(k session.Kind, data []byte) session.Seq {
	h.mu.Lock()
	defer h.mu.Unlock()
	n := session.Seq(len(h.log) + 1)
	h.log = append(h.log, session.Record{First: n, Last: n, Kind: k, Version: 1, Data: data})
	select {
	case h.changed <- struct{}{}:
	default:
	}
	return n
}

func (h *host) Update(ctx context.Context, u []byte) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	if !json.Valid(u) {
		h.t.Errorf("update %q", u)
	}
	h.append(session.KindUpdate, append([]byte(nil), u...))
	return nil
}

func (h *host) Record(_ context.Context, data []byte) error {
	h.append(session.KindAgentRecord, data)
	return nil
}
func (h *host) Barrier(ctx context.Context) error { return ctx.Err() }
func (h *host) Ask(ctx context.Context, q session.Question) (session.Answer, error) {
	if h.answer == nil {
		<-ctx.Done()
		return session.Answer{Outcome: session.Cancelled}, nil
	}
	return h.answer(q), nil
}
func (h *host) Elicit(context.Context, session.Form) (session.Filled, error) {
	return session.Filled{}, session.ErrNoEditor
}
func (h *host) ReadTextFile(_ context.Context, path string) (string, error) {
	if text, ok := h.files[path]; ok {
		return text, nil
	}
	return "", session.ErrNoEditor
}
func (h *host) WriteTextFile(_ context.Context, path, content string) error {
	if h.files == nil {
		return session.ErrNoEditor
	}
	h.files[path] = content
	return nil
}
func (h *host) Set(context.Context, session.Change) error { return nil }
func (h *host) Changed(_ context.Context, now session.Settings) error {
	h.mu.Lock()
	h.now = append(h.now, now)
	h.mu.Unlock()
	return nil
}
func (h *host) Replay(_ context.Context, yield func(session.Record) error) error {
	h.mu.Lock()
	all := append([]session.Record(nil), h.log...)
	h.mu.Unlock()
	for _, r := range all {
		if err := yield(r); err != nil {
			return err
		}
	}
	return nil
}

// updates are all updates, in order.
func (h *host) updates() []string {
	h.mu.Lock()
	defer h.mu.Unlock()
	var all []string
	for _, r := range h.log {
		if r.Kind == session.KindUpdate {
			all = append(all, string(r.Data))
		}
	}
	return all
}

func (h *host) said() string { return strings.Join(h.updates(), "\n") }

// world is an agent in a session.
type world struct {
	*host
	t     *testing.T
	dir   string
	cfg   Config
	agent *Agent
}

func newWorld(t *testing.T, how string) *world {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	w := &world{host: newHost(t), t: t, dir: dir, cfg: Config{Name: "fake", Command: []string{self}, Version: "1", Env: map[string]string{fakeVar: how, "FAKE_LOG": filepath.Join(dir, "log")}}}
	return w
}

func (w *world) open(fresh bool) (session.Settings, error) {
	a, s, err := Open(context.Background(), session.Spec{Meta: session.Meta{ID: "sess", Cwd: w.dir}, Fresh: fresh}, w.host, w.cfg)
	if err == nil {
		w.agent = a
		w.t.Cleanup(func() { a.Close() })
	}
	return s, err
}

func started(t *testing.T, how string) *world {
	t.Helper()
	w := newWorld(t, how)
	if _, err := w.open(true); err != nil {
		t.Fatal(err)
	}
	return w
}

func (w *world) prompt(ctx context.Context, text string) (session.TurnResult, error) {
	block, _ := json.Marshal(map[string]string{"type": "text", "text": text})
	blocks := []json.RawMessage{block}
	raw, _ := json.Marshal(blocks)
	fact, _ := json.Marshal(session.PromptAdmitted{Prompt: raw})
	seq := w.append(session.KindPromptAdmitted, fact)
	fact, _ = json.Marshal(session.TurnStarted{Prompt: seq})
	w.append(session.KindTurnStarted, fact)
	return w.agent.Prompt(ctx, session.Turn{Seq: seq, Blocks: blocks})
}

// does is a prompt that must end well.
func (w *world) does(text string) session.TurnResult {
	w.t.Helper()
	r, err := w.prompt(context.Background(), text)
	if err != nil || r.StopReason != "end_turn" {
		w.t.Fatalf("%s: %+v, %v", text, r, err)
	}
	return r
}

// heard is what the program was told, line by line.
func (w *world) heard() string {
	data, _ := os.ReadFile(filepath.Join(w.dir, "log"))
	return string(data)
}

func (w *world) until(what string, ok func() bool) {
	w.t.Helper()
	limit := time.NewTimer(20 * time.Second)
	defer limit.Stop()
	for !ok() {
		select {
		case <-w.changed:
		case <-limit.C:
			w.t.Fatalf("waiting for %s; said\n%s", what, w.said())
		}
	}
}
