//go:build unix

package cases

import (
	"bufio"
	"bytes"
	"context"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/hermesd/hermesd/daemon/daemontest"
)

// patience is how long a step waits for what it waits for. It is no promise of
// the product: those are asserted where a case makes them.
const patience = 90 * time.Second

// scale is how much of something large a case plays: all of it where
// HERMESD_CASES=full asks for that, else enough to see the same, and less under
// the race detector, which makes each step some ten times slower.
func scale(full, enough, race int) int {
	switch {
	case os.Getenv("HERMESD_CASES") == "full":
		return full
	case daemontest.Race:
		return race
	}
	return enough
}

// kase is one line of testdata/cases.jsonl.
type kase struct {
	ID      string            `json:"id"`
	Kind    string            `json:"kind"`
	Source  string            `json:"source"`
	Symptom string            `json:"symptom"`
	Input   []json.RawMessage `json:"input"`
	Expect  []string          `json:"expect"`
}

func readCases(t *testing.T) map[string]kase {
	t.Helper()
	f, err := os.Open(filepath.Join("testdata", "cases.jsonl"))
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	cases := make(map[string]kase)
	lines := bufio.NewScanner(f)
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		var c kase
		if err := json.Unmarshal(lines.Bytes(), &c); err != nil {
			t.Fatalf("%v in %.80s", err, lines.Text())
		}
		if _, twice := cases[c.ID]; twice {
			t.Fatalf("case %s stands there twice", c.ID)
		}
		cases[c.ID] = c
	}
	if err := lines.Err(); err != nil {
		t.Fatal(err)
	}
	return cases
}

// run is one case being played against real processes.
type run struct {
	*testing.T
	c       kase
	home    *daemontest.Home
	daemon  *daemontest.Daemon
	schemas *daemontest.Schemas // nil where they are not installed

	steps   []json.RawMessage // those not played yet
	editors map[string]*editor
	gone    []*editor         // editors of an earlier daemon
	vars    map[string]string // "$S" and so on; "$P" is JSON, the others are text
	model   []string          // what the offline model is to do at the next prompts
	prompts []string          // the texts of the prompts sent, in order
	free    int               // next free id
}

// start makes a home and a daemon in it; config is its config.toml.
func start(t *testing.T, c kase, schemas *daemontest.Schemas, config string) *run {
	t.Helper()
	home, err := daemontest.NewHome(bin, config)
	if err != nil {
		t.Fatal(err)
	}
	r := &run{
		T: t, c: c, home: home, schemas: schemas, steps: c.Input,
		editors: make(map[string]*editor), vars: map[string]string{"$W": home.Work}, free: 1000,
	}
	t.Cleanup(r.end)
	return r
}

// end checks what holds in every case: no editor was sent anything the schema
// does not know, every shim exits cleanly with its editor and says nothing on
// stderr, and `hermesd stop` leaves no process.
func (r *run) end() {
	for _, e := range r.editors {
		if err := e.Faults(); err != nil {
			r.Errorf("%s received: %v", e.Name, err)
		}
		if !e.left {
			r.leave(e)
		}
	}
	for _, e := range r.gone {
		if err := e.Faults(); err != nil {
			r.Errorf("%s received: %v", e.Name, err)
		}
	}
	if r.Failed() {
		r.Logf("log of the daemon:\n%s", r.home.Log())
		if r.daemon != nil {
			r.Logf("stderr of the daemon:\n%s", r.daemon.Stderr())
		}
		for _, e := range r.editors {
			r.Logf("%s\nstderr: %q", e.transcript(8), e.Stderr())
		}
	}
	if err := r.home.Close(); err != nil {
		r.Error(err)
	}
}

// leave closes an editor's side and checks that its shim follows at once.
func (r *run) leave(e *editor) {
	r.Helper()
	e.left = true
	e.Pause(false)
	_ = e.CloseInput()
	select {
	case <-e.Done():
		if err := e.Exit(); err != nil || e.Stderr() != "" {
			r.Errorf("the shim of %s ended with %v and said %q", e.Name, err, e.Stderr())
		}
	case <-time.After(patience):
		r.Errorf("the shim of %s did not exit when its stdin was closed", e.Name)
		e.Kill()
	}
}

// serve starts the daemon if none runs.
func (r *run) serve(args ...string) {
	r.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	d, err := r.home.Serve(ctx, args...)
	if err != nil {
		r.Fatal(err)
	}
	r.daemon = d
}

// stop ends the daemon as `hermesd stop` does, and forgets the editors.
func (r *run) stop() {
	r.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	if err := r.home.Stop(ctx); err != nil {
		r.Fatal(err)
	}
	if r.daemon != nil {
		select {
		case <-r.daemon.Done():
		case <-ctx.Done():
			r.Fatal("the daemon still runs after `hermesd stop`")
		}
	}
	r.daemon = nil
	r.forget()
}

// crash kills the daemon. The editors stay as they are.
func (r *run) crash() {
	r.daemon.Kill()
	r.daemon = nil
}

func (r *run) restart() {
	r.Helper()
	r.stop()
	r.serve()
}

// forget lets all editors go; the next step that names one starts a new shim.
// What becomes of the shims of a daemon that ended is not this runner's matter.
func (r *run) forget() {
	for name, e := range r.editors {
		e.left = true
		e.Pause(false)
		_ = e.CloseInput()
		select {
		case <-e.Done():
		case <-time.After(patience):
			r.Errorf("the shim of %s did not exit when its stdin was closed", e.Name)
			e.Kill()
		}
		r.gone = append(r.gone, e)
		delete(r.editors, name)
	}
}

// ed is the editor of that name; the first time its shim is started.
func (r *run) ed(name string) *editor {
	r.Helper()
	if e := r.editors[name]; e != nil {
		return e
	}
	if r.daemon == nil {
		r.serve()
	}
	var tap *daemontest.Tap
	if r.schemas != nil {
		tap = r.schemas.Tap()
	}
	w, err := r.home.Shim(name, tap)
	if err != nil {
		r.Fatal(err)
	}
	e := &editor{Wire: w, watch: tap, r: r, used: make(map[int]bool)}
	r.editors[name] = e
	return e
}

// nextID is an id no case uses itself.
func (r *run) nextID() int {
	r.free++
	return r.free
}

// ---- the step language ----

// play plays the next n steps of the case.
func (r *run) play(n int) {
	r.Helper()
	for range n {
		r.step(r.take())
	}
}

// rest plays all steps that are left.
func (r *run) rest() {
	r.Helper()
	r.play(len(r.steps))
}

// take hands out the next step for a case that plays it itself.
func (r *run) take() json.RawMessage {
	r.Helper()
	if len(r.steps) == 0 {
		r.Fatal("the case has no further step")
	}
	s := r.steps[0]
	r.steps = r.steps[1:]
	return s
}

// skip passes over n steps that are played otherwise; why says how.
func (r *run) skip(n int, why string) {
	r.Helper()
	for range n {
		r.Logf("not played as written (%s): %.100s", why, r.take())
	}
}

var actor = regexp.MustCompile(`^[A-E][0-9]?`)

// step plays one step.
func (r *run) step(raw json.RawMessage) {
	r.Helper()
	var s map[string]json.RawMessage
	if err := json.Unmarshal(raw, &s); err != nil {
		r.Fatal(err)
	}
	for key, value := range s {
		switch name := actor.FindString(key); {
		case slices.Contains([]string{"note", "ms", "save", "steps", "then"}, key):
		case name != "" && key != "D":
			r.editorStep(r.ed(name), strings.TrimPrefix(key, name), value, s)
			return
		case key == "L":
			r.model = append(r.model, offline(r, value))
			return
		case key == "do":
			r.do(text(value))
			return
		case key == "sh":
			r.sh(text(value))
			return
		case key == "sleep_ms":
			r.sleep(value)
			return
		case key == "D":
			switch text(value) {
			case "start":
				r.serve()
			case "stop":
				r.stop()
			case "kill", "kill -9":
				r.crash()
			case "restart":
				r.restart()
			default:
				r.Fatalf("step not understood: %s", raw)
			}
			return
		case key == "repeat":
			var times int
			var steps []json.RawMessage
			must(r.T, json.Unmarshal(value, &times))
			must(r.T, json.Unmarshal(s["steps"], &steps))
			r.repeat(times, steps)
			return
		default:
			r.Fatalf("step not understood: %s", raw)
		}
	}
}

func (r *run) repeat(times int, steps []json.RawMessage) {
	r.Helper()
	for range times {
		r.vars["$n"] = strconv.Itoa(r.nextID())
		for _, step := range steps {
			r.step(step)
		}
	}
}

func (r *run) editorStep(e *editor, what string, value json.RawMessage, all map[string]json.RawMessage) {
	r.Helper()
	switch what {
	case "": // a frame
		var word string
		if json.Unmarshal(value, &word) == nil {
			r.Fatalf("step not understood: %s", value)
		}
		if isNote(value) {
			return
		}
		e.send(r.frame(value))
	case ".raw":
		e.send1(r.expand(text(value)))
	case ".hex":
		data, err := hex.DecodeString(text(value))
		must(r.T, err)
		e.send1(string(data))
	case ".gen":
		var g struct {
			Frame json.RawMessage `json:"frame"`
			At    string          `json:"at"`
			Unit  string          `json:"unit"`
			Times int             `json:"times"`
		}
		must(r.T, json.Unmarshal(value, &g))
		line := r.frame(g.Frame)
		// The string at the pointer is empty in the frame and the only one.
		if strings.Count(line, `""`) != 1 {
			r.Fatalf("cannot tell where to put it: %s", line)
		}
		e.send(strings.Replace(line, `""`, `"`+strings.Repeat(g.Unit, g.Times)+`"`, 1))
	case ".burst":
		var frames []json.RawMessage
		must(r.T, json.Unmarshal(value, &frames))
		var all strings.Builder
		for _, f := range frames {
			all.WriteString(r.frame(f) + "\n")
		}
		e.send1(all.String())
	case ".eof":
		r.leave(e)
		if text(value) == "all" {
			r.gone = append(r.gone, e)
			delete(r.editors, e.Name)
		}
	case ".kill":
		e.left = true
		e.Kill()
	case ".pause":
		e.Pause(string(value) == "true")
	case "<":
		f := e.await(r.matcher(value), limit(all, patience))
		if save := text(all["save"]); save != "" {
			r.vars[save] = string(f.ID)
		}
	case "<!":
		e.never(r.matcher(value), limit(all, time.Second))
	default:
		r.Fatalf("step not understood: %s%s", e.Name, what)
	}
}

// do plays a macro.
func (r *run) do(macro string) {
	r.Helper()
	words := strings.Fields(macro)
	switch {
	case len(words) == 2 && words[0] == "init":
		r.ed(words[1]).initialize()
	case len(words) >= 2 && words[0] == "new":
		cwd := r.home.Work
		for _, w := range words[2:] {
			if dir, ok := strings.CutPrefix(w, "cwd="); ok {
				cwd = r.expand(dir)
				must(r.T, os.MkdirAll(cwd, 0o755))
			}
		}
		id := r.ed(words[1]).newSession(cwd)
		r.vars["$S"], r.vars["$S"+words[1]] = id, id
	case len(words) == 3 && words[0] == "load":
		e := r.ed(words[1])
		if !e.initialized {
			e.initialize()
		}
		if f := e.load(r.expand(words[2]), r.home.Work); f.Error != nil {
			r.Fatalf("%s: load: %+v", e.Name, f.Error)
		}
	case len(words) == 3 && words[1] == "allows" && words[2] == "all":
		r.ed(words[0]).answers("allow_once")
	default:
		r.Fatalf("macro not understood: %s", macro)
	}
}

func (r *run) sh(command string) {
	r.Helper()
	cmd := exec.Command("sh", "-c", r.expand(command))
	cmd.Dir = r.home.Work
	if out, err := cmd.CombinedOutput(); err != nil {
		r.Errorf("%s: %v\n%s", command, err, out)
	}
}

// sleep is a pause the case asks for: between a deed and the proof that
// nothing comes of it, or at random to hit a race.
func (r *run) sleep(value json.RawMessage) {
	var ms int
	if json.Unmarshal(value, &ms) == nil {
		time.Sleep(time.Duration(ms) * time.Millisecond)
		return
	}
	var from, to int
	if _, err := fmt.Sscanf(text(value), "rand %d..%d", &from, &to); err != nil {
		r.Fatalf("sleep not understood: %s", value)
	}
	time.Sleep(time.Duration(from)*time.Millisecond + rand.N(time.Duration(to-from)*time.Millisecond))
}

var variable = regexp.MustCompile(`\$[A-Z][A-Z_]*[0-9]?`)

// expand puts variables into text.
func (r *run) expand(s string) string {
	return variable.ReplaceAllStringFunc(s, func(name string) string {
		if v, ok := r.vars[name]; ok {
			return v
		}
		return name
	})
}

// frame is a frame of a step as one line: variables filled in, and the words of
// the offline model in place of the text of a prompt.
func (r *run) frame(raw json.RawMessage) string {
	r.Helper()
	var compact bytes.Buffer
	must(r.T, json.Compact(&compact, raw))
	line := compact.String()
	for name, v := range r.vars {
		if name == "$P" || name == "$n" || strings.HasPrefix(name, "$P") || name == "$answer" {
			line = strings.ReplaceAll(line, `"`+name+`"`, v)
		}
	}
	line = variable.ReplaceAllStringFunc(line, func(name string) string {
		if v, ok := r.vars[name]; ok {
			quoted, _ := json.Marshal(v)
			return string(quoted[1 : len(quoted)-1])
		}
		return name
	})
	var f struct {
		Method string `json:"method"`
	}
	must(r.T, json.Unmarshal([]byte(line), &f))
	if f.Method != "session/prompt" {
		return line
	}
	var whole map[string]any
	must(r.T, json.Unmarshal([]byte(line), &whole))
	blocks, _ := whole["params"].(map[string]any)["prompt"].([]any)
	said := ""
	for _, b := range blocks {
		if b, _ := b.(map[string]any); b["type"] == "text" {
			if said == "" && len(r.model) > 0 {
				b["text"] = r.model[0]
				r.model = r.model[1:]
			}
			said, _ = b["text"].(string)
			break
		}
	}
	r.prompts = append(r.prompts, said)
	out, err := json.Marshal(whole)
	must(r.T, err)
	return string(out)
}

// offline puts what a language model would say into the offline model's words.
func offline(r *run, value json.RawMessage) string {
	type step struct {
		Text    *string                `json:"text"`
		Delay   int                    `json:"delay_ms"`
		Tool    string                 `json:"tool"`
		Args    map[string]any         `json:"args"`
		Tools   []step                 `json:"tools"`
		Stall   bool                   `json:"stall"`
		StallMS int                    `json:"stall_ms"`
		Error   *struct{ Body string } `json:"error"`
	}
	var lines []string
	var add func(step)
	add = func(s step) {
		arg := func(name string) string { v, _ := s.Args[name].(string); return r.expand(v) }
		if s.Delay > 0 {
			lines = append(lines, fmt.Sprintf("sleep %dms", s.Delay))
		}
		switch {
		case s.Tools != nil:
			for _, t := range s.Tools {
				add(t)
			}
		case s.Tool == "shell":
			lines = append(lines, "run "+arg("command"))
		case s.Tool == "read":
			lines = append(lines, "read "+arg("path"))
		case s.Tool == "write":
			lines = append(lines, "write "+arg("path"), arg("content"), ".")
		case s.Tool == "edit":
			lines = append(lines, "edit "+arg("path"), arg("old"), "---", arg("new"), ".")
		case strings.Contains(s.Tool, "."):
			server, name, _ := strings.Cut(s.Tool, ".")
			args, err := json.Marshal(s.Args)
			must(r.T, err)
			lines = append(lines, "call "+server+" "+name+" "+string(args))
		case s.Stall:
			lines = append(lines, "sleep 10m")
		case s.StallMS > 0:
			lines = append(lines, fmt.Sprintf("sleep %dms", s.StallMS))
		case s.Error != nil:
			lines = append(lines, "fail "+s.Error.Body)
		case s.Text != nil && strings.TrimSpace(*s.Text) != "":
			lines = append(lines, "say "+strings.TrimSpace(*s.Text))
		case s.Text != nil: // an empty answer: nothing to say
		default:
			r.Fatalf("no words for %+v", s)
		}
	}
	var steps []step
	must(r.T, json.Unmarshal(value, &steps))
	for _, s := range steps {
		add(s)
	}
	return strings.Join(lines, "\n")
}

// matcher reads the pattern of a "<" step: a subset of a frame, or
// {"update":KIND,…} for a session/update with those members.
func (r *run) matcher(value json.RawMessage) func(daemontest.Frame) bool {
	r.Helper()
	var want map[string]any
	must(r.T, json.Unmarshal([]byte(r.expandJSON(value)), &want))
	if kind, ok := want["update"]; ok {
		delete(want, "update")
		want["sessionUpdate"] = kind
		want = map[string]any{"method": "session/update", "params": map[string]any{"update": want}}
	}
	_, isResponse := want["id"]
	return func(f daemontest.Frame) bool {
		if isResponse && !f.IsResponse() {
			return false
		}
		var have any
		return json.Unmarshal(f.Raw, &have) == nil && contains(have, want)
	}
}

func (r *run) expandJSON(value json.RawMessage) string {
	line := string(value)
	for name, v := range r.vars {
		line = strings.ReplaceAll(line, `"`+name+`"`, v)
	}
	return line
}

// contains says whether have has everything of want.
func contains(have, want any) bool {
	switch want := want.(type) {
	case map[string]any:
		have, ok := have.(map[string]any)
		if !ok {
			return false
		}
		for name, w := range want {
			h, there := have[name]
			if !there || !contains(h, w) {
				return false
			}
		}
		return true
	default:
		return fmt.Sprint(have) == fmt.Sprint(want)
	}
}

func isNote(value json.RawMessage) bool {
	var m map[string]json.RawMessage
	return json.Unmarshal(value, &m) == nil && len(m) == 1 && m["note"] != nil
}

func limit(all map[string]json.RawMessage, otherwise time.Duration) time.Duration {
	var ms int
	if all["ms"] == nil || json.Unmarshal(all["ms"], &ms) != nil {
		return otherwise
	}
	return time.Duration(ms) * time.Millisecond
}

func text(value json.RawMessage) string {
	var s string
	_ = json.Unmarshal(value, &s)
	return s
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// ---- editors ----

// editor is a wire with what a case wants to do and know.
type editor struct {
	*daemontest.Wire
	watch       *daemontest.Tap // nil where the schemas are not installed
	r           *run
	used        map[int]bool // frames a wait has already taken
	initialized bool
	left        bool
}

// send writes one line.
func (e *editor) send(line string) { e.r.Helper(); e.send1(line + "\n") }

// send1 writes text as it is.
func (e *editor) send1(s string) {
	e.r.Helper()
	if _, err := e.Write([]byte(s)); err != nil {
		e.r.Fatalf("writing to the shim of %s: %v; stderr: %q", e.Name, err, e.Stderr())
	}
}

// tap notes a line that is going to be written in pieces.
func (e *editor) tap(line string) {
	if e.watch != nil {
		e.watch.Sent([]byte(line))
	}
}

// await takes the first frame that matches and was not taken before. A
// permission request sets $P and the variables of its options.
func (e *editor) await(match func(daemontest.Frame) bool, limit time.Duration) daemontest.Frame {
	e.r.Helper()
	ctx, cancel := context.WithTimeout(e.r.Context(), limit)
	defer cancel()
	from := 0
	for {
		f, at, err := e.Await(ctx, from, match)
		if err != nil {
			e.r.Fatalf("%v (waited %v)\n%s", err, limit, e.transcript(30))
		}
		if e.used[at] {
			from = at + 1
			continue
		}
		e.used[at] = true
		if f.Method == "session/request_permission" {
			e.remember(f)
		}
		return f
	}
}

// remember sets the variables of a permission request.
func (e *editor) remember(f daemontest.Frame) {
	e.r.vars["$P"] = string(f.ID)
	for _, o := range question(f).Options {
		e.r.vars["$"+strings.ToUpper(o.Kind)] = o.OptionID
	}
}

// never fails the case if a frame matches that was not taken before, within d.
func (e *editor) never(match func(daemontest.Frame) bool, d time.Duration) {
	e.r.Helper()
	ctx, cancel := context.WithTimeout(e.r.Context(), d)
	defer cancel()
	from := 0
	for {
		f, at, err := e.Await(ctx, from, match)
		if err != nil {
			return
		}
		if !e.used[at] {
			e.r.Errorf("%s received what it must not: %.300s", e.Name, f.Raw)
			return
		}
		from = at + 1
	}
}

// responseTo matches the answer to an id.
func responseTo(id any) func(daemontest.Frame) bool {
	want, err := json.Marshal(id)
	if err != nil {
		panic(err)
	}
	return func(f daemontest.Frame) bool { return f.IsResponse() && string(f.ID) == string(want) }
}

func isMethod(method string) func(daemontest.Frame) bool {
	return func(f daemontest.Frame) bool { return f.Method == method }
}

// call makes a request and waits for its answer.
func (e *editor) call(method string, params any) daemontest.Frame {
	e.r.Helper()
	id := e.ask(method, params)
	return e.await(responseTo(id), patience)
}

// ask makes a request and returns its id.
func (e *editor) ask(method string, params any) int {
	e.r.Helper()
	id := e.r.nextID()
	line, err := json.Marshal(map[string]any{"jsonrpc": "2.0", "id": id, "method": method, "params": params})
	must(e.r.T, err)
	e.send(string(line))
	return id
}

func (e *editor) notify(method string, params any) {
	e.r.Helper()
	line, err := json.Marshal(map[string]any{"jsonrpc": "2.0", "method": method, "params": params})
	must(e.r.T, err)
	e.send(string(line))
}

func (e *editor) answer(id json.RawMessage, result any) {
	e.r.Helper()
	line, err := json.Marshal(map[string]any{"jsonrpc": "2.0", "id": id, "result": result})
	must(e.r.T, err)
	e.send(string(line))
}

type obj = map[string]any

// initialize is the macro of that name: file system and terminal offered.
func (e *editor) initialize() {
	e.r.Helper()
	e.initializeWith(obj{"fs": obj{"readTextFile": true, "writeTextFile": true}, "terminal": true})
}

func (e *editor) initializeWith(caps obj) {
	e.r.Helper()
	line, err := json.Marshal(obj{"jsonrpc": "2.0", "id": 0, "method": "initialize", "params": obj{
		"protocolVersion": 1, "clientCapabilities": caps, "clientInfo": obj{"name": e.Name, "version": "1"},
	}})
	must(e.r.T, err)
	e.send(string(line))
	if f := e.await(responseTo(0), patience); f.Error != nil {
		e.r.Fatalf("%s: initialize: %+v", e.Name, f.Error)
	}
	e.initialized = true
	// The macro's editors offer files and answer from the disk.
	go e.serveFiles()
}

// serveFiles answers fs/* from the disk until the editor is gone. Cases that
// watch fs/* themselves say initializeWith less.
func (e *editor) serveFiles() {
	for from := 0; ; {
		f, at, err := e.Await(context.Background(), from, func(f daemontest.Frame) bool {
			return f.Method == "fs/read_text_file" || f.Method == "fs/write_text_file"
		})
		if err != nil {
			return
		}
		from = at + 1
		var p struct{ Path, Content string }
		_ = json.Unmarshal(f.Params, &p)
		reply := obj{"jsonrpc": "2.0", "id": f.ID}
		if f.Method == "fs/read_text_file" {
			data, err := os.ReadFile(p.Path)
			if err != nil {
				reply["error"] = obj{"code": -32002, "message": "no such file"}
			} else {
				reply["result"] = obj{"content": string(data)}
			}
		} else if err := os.WriteFile(p.Path, []byte(p.Content), 0o644); err != nil {
			reply["error"] = obj{"code": -32603, "message": "cannot be written"}
		} else {
			reply["result"] = obj{}
		}
		line, _ := json.Marshal(reply)
		_ = e.Send(string(line))
	}
}

// newSession is the macro "new": session/new with the id 1.
func (e *editor) newSession(cwd string) string {
	e.r.Helper()
	line, err := json.Marshal(obj{"jsonrpc": "2.0", "id": 1, "method": "session/new", "params": obj{"cwd": cwd, "mcpServers": []any{}}})
	must(e.r.T, err)
	e.send(string(line))
	f := e.await(responseTo(1), patience)
	return e.sessionID(f)
}

// open makes one more session with an id of the runner's.
func (e *editor) open(cwd string) string {
	e.r.Helper()
	return e.sessionID(e.call("session/new", obj{"cwd": cwd, "mcpServers": []any{}}))
}

func (e *editor) sessionID(f daemontest.Frame) string {
	e.r.Helper()
	var made struct{ SessionID string }
	if f.Error != nil || json.Unmarshal(f.Result, &made) != nil || made.SessionID == "" {
		e.r.Fatalf("%s: session/new: %s", e.Name, f.Raw)
	}
	return made.SessionID
}

func (e *editor) load(session, cwd string) daemontest.Frame {
	e.r.Helper()
	return e.call("session/load", obj{"sessionId": session, "cwd": cwd, "mcpServers": []any{}})
}

func prompt(session, script string) obj {
	return obj{"sessionId": session, "prompt": []any{obj{"type": "text", "text": script}}}
}

// prompt asks and waits for the stop reason, "" for an error.
func (e *editor) prompt(session, script string) string {
	e.r.Helper()
	return stopReason(e.call("session/prompt", prompt(session, script)))
}

// mode sets the approval mode of a session.
func (e *editor) mode(session, mode string) {
	e.r.Helper()
	if f := e.call("session/set_mode", obj{"sessionId": session, "modeId": mode}); f.Error != nil {
		e.r.Fatalf("%s: set_mode %s: %+v", e.Name, mode, f.Error)
	}
}

// answers lets the editor answer every question from now on with the option of
// a kind.
func (e *editor) answers(kind string) {
	from := len(e.Frames())
	for i, f := range e.Frames() { // those not answered yet
		if f.Method == "session/request_permission" && !e.used[i] {
			from = i
			break
		}
	}
	go func() {
		for {
			f, at, err := e.Await(context.Background(), from, isMethod("session/request_permission"))
			if err != nil {
				return
			}
			from = at + 1
			line, _ := json.Marshal(obj{"jsonrpc": "2.0", "id": f.ID, "result": selected(question(f).option(kind))})
			if e.Send(string(line)) != nil {
				return
			}
		}
	}()
}

func selected(option string) obj {
	return obj{"outcome": obj{"outcome": "selected", "optionId": option}}
}

// settle waits until everything the daemon had to say to an editor before now
// has arrived: the answer to a request that changes nothing.
func (e *editor) settle() {
	e.r.Helper()
	e.call("session/list", obj{})
}

// transcript shows the last n frames.
func (e *editor) transcript(n int) string {
	frames := e.Frames()
	var b strings.Builder
	fmt.Fprintf(&b, "%s received %d frames", e.Name, len(frames))
	if len(frames) > n {
		frames = frames[len(frames)-n:]
	}
	for _, f := range frames {
		fmt.Fprintf(&b, "\n  %.300s", f.Raw)
	}
	return b.String()
}

// ---- what a transcript says ----

// responses are the answers to an id.
func (e *editor) responses(id any) (all []daemontest.Frame) {
	for _, f := range e.Frames() {
		if responseTo(id)(f) {
			all = append(all, f)
		}
	}
	return all
}

// only is the answer to an id, which must be there exactly once.
func (e *editor) only(id any) daemontest.Frame {
	e.r.Helper()
	all := e.responses(id)
	if len(all) != 1 {
		e.r.Fatalf("%s received %d answers to %v, want 1\n%s", e.Name, len(all), id, e.transcript(40))
	}
	return all[0]
}

// code is the error code of an answer, 0 for a result.
func code(f daemontest.Frame) int {
	if f.Error == nil {
		return 0
	}
	return f.Error.Code
}

func stopReason(f daemontest.Frame) string {
	var result struct{ StopReason string }
	_ = json.Unmarshal(f.Result, &result)
	return result.StopReason
}

// wantCode checks an answer's error code against the allowed ones; 0 allows a
// result.
func (r *run) wantCode(f daemontest.Frame, allowed ...int) {
	r.Helper()
	if !slices.Contains(allowed, code(f)) {
		r.Errorf("answered %.300s, want one of the codes %v (0: a result)", f.Raw, allowed)
	}
}

func (r *run) wantStop(f daemontest.Frame, want string) {
	r.Helper()
	if got := stopReason(f); got != want {
		r.Errorf("answered %.300s, want stop reason %s", f.Raw, want)
	}
}

// update is the update of a session/update with what cases look at.
type update struct {
	at      int // number of the frame
	session string
	raw     json.RawMessage

	Kind       string          `json:"sessionUpdate"`
	MessageID  string          `json:"messageId"`
	ToolCallID string          `json:"toolCallId"`
	Title      *string         `json:"title"`
	ToolKind   string          `json:"kind"`
	Status     string          `json:"status"`
	Content    json.RawMessage `json:"content"`
	Locations  json.RawMessage `json:"locations"`
	Mode       string          `json:"currentModeId"`
	Options    json.RawMessage `json:"configOptions"`
	Meta       json.RawMessage `json:"_meta"`
}

// text is the text of a chunk.
func (u update) text() string {
	var c struct{ Text string }
	_ = json.Unmarshal(u.Content, &c)
	return c.Text
}

// updates are the updates of one session from frame number from on.
func (e *editor) updates(session string, from int) (all []update) {
	frames := e.Frames()
	for i := from; i < len(frames); i++ {
		if frames[i].Method != "session/update" {
			continue
		}
		var p struct {
			SessionID string          `json:"sessionId"`
			Update    json.RawMessage `json:"update"`
		}
		if json.Unmarshal(frames[i].Params, &p) != nil || p.SessionID != session {
			continue
		}
		u := update{at: i, session: p.SessionID, raw: p.Update}
		_ = json.Unmarshal(p.Update, &u)
		all = append(all, u)
	}
	return all
}

// said joins the text of the chunks of one kind.
func said(updates []update, kind string) string {
	var b strings.Builder
	for _, u := range updates {
		if u.Kind == kind {
			b.WriteString(u.text())
		}
	}
	return b.String()
}

func (e *editor) said(session string) string {
	return said(e.updates(session, 0), "agent_message_chunk")
}

// call is the life of one tool call as an editor saw it.
type call struct {
	id       string
	created  int      // how often tool_call came
	statuses []string // each change
	title    string
	kind     string
	content  json.RawMessage
	places   json.RawMessage
	raw      []string
}

// calls are the tool calls among updates in the order they were made.
func calls(updates []update) []*call {
	var all []*call
	for _, u := range updates {
		if u.Kind != "tool_call" && u.Kind != "tool_call_update" {
			continue
		}
		i := slices.IndexFunc(all, func(c *call) bool { return c.id == u.ToolCallID })
		if i < 0 {
			all = append(all, &call{id: u.ToolCallID})
			i = len(all) - 1
		}
		c := all[i]
		c.raw = append(c.raw, string(u.raw))
		if u.Kind == "tool_call" {
			c.created++
			if u.Status == "" {
				u.Status = "pending"
			}
		}
		if u.Status != "" && (len(c.statuses) == 0 || c.statuses[len(c.statuses)-1] != u.Status) {
			c.statuses = append(c.statuses, u.Status)
		}
		if u.Title != nil {
			c.title = *u.Title
		}
		if u.ToolKind != "" {
			c.kind = u.ToolKind
		}
		if u.Content != nil {
			c.content = u.Content
		}
		if u.Locations != nil {
			c.places = u.Locations
		}
	}
	return all
}

func (c *call) last() string {
	if len(c.statuses) == 0 {
		return ""
	}
	return c.statuses[len(c.statuses)-1]
}

// asked is a permission request taken apart.
type asked struct {
	SessionID string `json:"sessionId"`
	ToolCall  struct {
		ToolCallID string `json:"toolCallId"`
		Title      string `json:"title"`
	} `json:"toolCall"`
	Options []struct {
		OptionID string `json:"optionId"`
		Name     string `json:"name"`
		Kind     string `json:"kind"`
	} `json:"options"`
}

func question(f daemontest.Frame) (q asked) {
	_ = json.Unmarshal(f.Params, &q)
	return q
}

func (q asked) option(kind string) string {
	for _, o := range q.Options {
		if o.Kind == kind {
			return o.OptionID
		}
	}
	return ""
}

// questions are the permission requests an editor got.
func (e *editor) questions() (all []daemontest.Frame) {
	for _, f := range e.Frames() {
		if f.Method == "session/request_permission" {
			all = append(all, f)
		}
	}
	return all
}

// sessions walks session/list to its end.
func (e *editor) sessions(params obj) (all []listed) {
	e.r.Helper()
	for {
		page, next := e.page(params)
		all = append(all, page...)
		if next == "" {
			return all
		}
		params = obj{"cursor": next, "cwd": params["cwd"]}
		if params["cwd"] == nil {
			delete(params, "cwd")
		}
	}
}

type listed struct {
	SessionID string  `json:"sessionId"`
	Cwd       string  `json:"cwd"`
	Title     *string `json:"title"`
	UpdatedAt *string `json:"updatedAt"`
}

// page is one page of session/list and the cursor of the next.
func (e *editor) page(params obj) ([]listed, string) {
	e.r.Helper()
	f := e.call("session/list", params)
	var result struct {
		Sessions   []listed `json:"sessions"`
		NextCursor *string  `json:"nextCursor"`
	}
	if f.Error != nil || json.Unmarshal(f.Result, &result) != nil || result.Sessions == nil {
		e.r.Fatalf("%s: session/list: %.400s", e.Name, f.Raw)
	}
	if result.NextCursor == nil {
		return result.Sessions, ""
	}
	if *result.NextCursor == "" {
		e.r.Errorf("nextCursor is empty, it should be absent: %.300s", f.Raw)
	}
	return result.Sessions, *result.NextCursor
}

// memory is the resident memory of a process in bytes, without the pages of
// files it has mapped; 0 where that cannot be told.
func memory(pid int) int64 {
	if runtime.GOOS != "linux" {
		return 0
	}
	data, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	if err != nil {
		return 0
	}
	_, after, _ := strings.Cut(string(data), "RssAnon:")
	fields := strings.Fields(after)
	if len(fields) == 0 {
		return 0
	}
	kb, _ := strconv.ParseInt(fields[0], 10, 64)
	return kb << 10
}
