//go:build unix

package cases

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/hermesd/hermesd/daemon/daemontest"
)

// frameLimit is what the official SDK can take in one line.
const frameLimit = 32 << 20

// C06: a tool result larger than a frame, and a history of thousands of turns.
func c06(r *run) {
	r.play(3)
	a, s := r.ed("A"), r.vars["$S"]
	a.mode(s, "dont_ask")
	r.play(3)
	r.wantStop(a.only(2), "end_turn")

	turns := scale(3000, 1000, 200)
	var repeat struct{ Steps []json.RawMessage }
	must(r.T, json.Unmarshal(r.take(), &repeat))
	r.repeat(turns, repeat.Steps)

	r.play(2)
	b := r.ed("B")
	other := r.ed("C") // somebody else, served meanwhile
	other.initialize()
	began := time.Now()
	r.play(1)
	other.settle()
	if took := time.Since(began); took > 10*time.Second {
		r.Errorf("another editor waited %v for its list during the load", took)
	}
	r.play(1)
	took := time.Since(began)
	if f := b.only(1); f.Error != nil {
		r.Fatalf("load: %s", f.Raw)
	}
	r.Logf("loading %d turns took %v", turns, took)
	if took > 60*time.Second {
		r.Errorf("loading %d turns took %v", turns, took)
	}
	if got := strings.Count(said(b.updates(s, 0), "user_message_chunk"), "run true"); got != turns {
		r.Errorf("the replay has %d of the %d prompts", got, turns)
	}
	for _, e := range []*editor{a, b} {
		for _, f := range e.Frames() {
			if len(f.Raw) >= frameLimit {
				r.Errorf("a frame of %d bytes: %.100s", len(f.Raw), f.Raw)
			}
		}
	}
	r.rest()
	r.wantStop(b.await(responseTo(2), patience), "end_turn")
	if got := b.said(s); !strings.HasSuffix(got, "still here") {
		r.Errorf("after the load B was told %q", got[max(0, len(got)-80):])
	}
}

// C15: no session before initialize, and only one initialize.
func c15(r *run) {
	r.rest()
	a := r.ed("A")
	r.wantCode(a.await(responseTo(1), patience), -32600, -32002)
	r.wantCode(a.await(responseTo(2), patience), -32600, -32002)
	r.wantCode(a.await(responseTo(3), patience), -32600, -32601)
	if f := a.await(responseTo(4), patience); f.Error != nil {
		r.Errorf("initialize: %s", f.Raw)
	}
	r.wantCode(a.await(responseTo(5), patience), -32600, 0)
	a.sessionID(a.await(responseTo(6), patience))
	if n := len(a.sessions(obj{})); n != 1 {
		r.Errorf("%d sessions are listed, want the one made after initialize", n)
	}
	for _, f := range a.Frames() {
		if f.IsResponse() && string(f.ID) == "null" {
			r.Errorf("the early cancel was answered: %s", f.Raw)
		}
	}
	// The file system offered by the first initialize is still in force.
	s := a.open(r.home.Work)
	must(r.T, os.WriteFile(filepath.Join(r.home.Work, "f"), []byte("disk"), 0o644))
	id := a.ask("session/prompt", prompt(s, "read f"))
	f := a.await(isMethod("fs/read_text_file"), patience)
	a.answer(f.ID, obj{"content": "unsaved"})
	r.wantStop(a.await(responseTo(id), patience), "end_turn")
	if got := a.said(s); !strings.Contains(got, "unsaved") {
		r.Errorf("the editor's text was not used: %q", got)
	}
	// Another connection begins at the beginning.
	b := r.ed("B")
	r.wantCode(b.call("session/list", obj{}), -32600)
	b.initialize()
	if f := b.call("session/list", obj{}); f.Error != nil {
		r.Errorf("B after its own initialize: %s", f.Raw)
	}
}

// C16: versions nobody knows.
func c16(r *run) {
	r.play(4)
	version := func(f daemontest.Frame) int {
		var result struct{ ProtocolVersion int }
		_ = json.Unmarshal(f.Result, &result)
		return result.ProtocolVersion
	}
	for _, name := range []string{"A", "C"} {
		if f := r.ed(name).await(responseTo(0), patience); version(f) != 1 {
			r.Errorf("%s: %s, want version 1", name, f.Raw)
		}
	}
	for _, name := range []string{"B", "E"} {
		e := r.ed(name)
		f := e.await(responseTo(0), patience)
		if f.Error == nil {
			if version(f) != 1 { // leniency, as documented
				r.Errorf("%s: %s", name, f.Raw)
			}
			continue
		}
		r.wantCode(f, -32602)
		if !bytes.Contains(f.Raw, []byte("protocolVersion")) {
			r.Errorf("%s: the error does not name protocolVersion: %s", name, f.Raw)
		}
		e.initialize() // the editor may try again
		e.settle()
	}
	r.play(1)
	r.ed("A").sessionID(r.ed("A").await(responseTo(1), patience))
	r.skip(2, "an external agent")
}

// C34: sessions that do not exist.
func c34(r *run) {
	r.rest()
	a := r.ed("A")
	for id := 1; id <= 3; id++ {
		f := a.await(responseTo(id), patience)
		r.wantCode(f, -32002)
		if f.Error != nil && !bytes.Contains(f.Error.Data, []byte("sess_does_not_exist")) {
			r.Errorf("id %d: data does not name the session: %s", id, f.Raw)
		}
	}
	r.wantCode(a.await(responseTo(4), patience), -32002, -32602)
	r.wantCode(a.await(responseTo(5), patience), -32002, -32602)
	if f := a.await(responseTo(6), patience); !bytes.Contains(f.Result, []byte(`"sessions":[]`)) {
		r.Errorf("a session was made: %s", f.Raw)
	}
}

// outline is what a replay must keep of a session: the order of everything,
// joined where only the borders of chunks differ.
func outline(updates []update) []string {
	var all []string
	last := ""
	finals := make(map[string]*call)
	for _, c := range calls(updates) {
		finals[c.id] = c
	}
	for _, u := range updates {
		switch u.Kind {
		case "user_message_chunk", "agent_message_chunk", "agent_thought_chunk":
			key := u.Kind + u.MessageID
			if key == last {
				all[len(all)-1] += u.text()
			} else {
				all = append(all, u.Kind+": "+u.text())
			}
			last = key
			continue
		case "tool_call":
			c := finals[u.ToolCallID]
			all = append(all, fmt.Sprintf("call %s %s %q %s at %s with %s", c.id, c.kind, c.title, c.last(), c.places, c.content))
			last = ""
		}
		// Other updates are part of their call or stand beside the conversation.
	}
	return all
}

// C35: the replay is as rich as life was.
func c35(r *run) {
	r.play(10)
	a, s := r.ed("A"), r.vars["$S"]
	r.wantStop(a.only(2), "end_turn")
	r.wantStop(a.only(3), "end_turn")
	// A was not told its own prompts; another editor's view has them.
	live := outline(a.updates(s, 0))
	prompts := slices.Clone(r.prompts)
	r.skip(1, "kept by the runner")
	r.play(4)
	b := r.ed("B")
	response := b.only(1)
	if response.Error != nil {
		r.Fatalf("load: %s", response.Raw)
	}
	if bytes.Contains(response.Result, []byte("sessionId")) {
		r.Errorf("the answer to load carries a sessionId: %s", response.Raw)
	}
	var replay []string
	mine := 0
	for _, line := range outline(b.updates(s, 0)) {
		if user, ok := strings.CutPrefix(line, "user_message_chunk: "); ok {
			if mine < len(prompts) && user != prompts[mine] {
				r.Errorf("prompt %d is replayed as %q, was %q", mine+1, user, prompts[mine])
			}
			mine++
			continue
		}
		replay = append(replay, line)
	}
	if mine != 2 {
		r.Errorf("%d prompts are replayed, want 2", mine)
	}
	if !slices.Equal(live, replay) {
		r.Errorf("live:\n  %s\nreplayed:\n  %s", strings.Join(live, "\n  "), strings.Join(replay, "\n  "))
	}
	diff := false
	for _, c := range calls(b.updates(s, 0)) {
		if c.created != 1 {
			r.Errorf("the call %s is made %d times in the replay", c.id, c.created)
		}
		diff = diff || bytes.Contains(c.content, []byte(`"diff"`))
	}
	if !diff {
		r.Error("the edit has no diff in the replay")
	}
	// All of the replay comes before the answer.
	at := slices.IndexFunc(b.Frames(), responseTo(1))
	for _, u := range b.updates(s, at) {
		if slices.Contains([]string{"user_message_chunk", "agent_message_chunk", "agent_thought_chunk", "tool_call", "plan"}, u.Kind) {
			r.Errorf("replayed after the answer: %s", u.raw)
		}
	}
}

// C36: loading changes nothing.
func c36(r *run) {
	r.play(5)
	a, s := r.ed("A"), r.vars["$S"]
	r.wantStop(a.only(2), "end_turn")
	export := func(e *editor) []string {
		e.initialize()
		if f := e.load(s, r.home.Work); f.Error != nil {
			r.Fatalf("load: %s", f.Raw)
		}
		return outline(e.updates(s, 0))
	}
	before := export(r.ed("E"))
	r.skip(1, "compared by what is replayed: the files hold attachment marks too")
	r.play(1)
	for _, e := range r.gone {
		if got := outline(e.updates(s, 0)); e.Name == "B" && !slices.Equal(got, before) {
			r.Errorf("B's load replayed\n  %s\nwant\n  %s", strings.Join(got, "\n  "), strings.Join(before, "\n  "))
		}
	}
	// A load that cannot be: another folder, and a server that is not there.
	b := r.ed("B2")
	b.initialize()
	r.play(1)
	f := b.await(responseTo(1), patience)
	r.wantCode(f, -32602, -32002)
	if n := len(b.sessions(obj{})); n != 1 {
		r.Errorf("%d sessions are listed after a load that failed, want 1", n)
	}
	r.rest() // restart, load in C
	c := r.ed("C")
	if got := outline(c.updates(s, 0)); !slices.Equal(got, before) {
		r.Errorf("after restart\n  %s\nbefore\n  %s", strings.Join(got, "\n  "), strings.Join(before, "\n  "))
	}
	if n := len(c.sessions(obj{})); n != 1 {
		r.Errorf("%d sessions are listed after the restart, want 1", n)
	}
	// A session that was never prompted can be loaded, now and later.
	empty := c.open(r.home.Work)
	d := r.ed("D")
	d.initialize()
	if f := d.load(empty, r.home.Work); f.Error != nil {
		r.Errorf("loading a session without a prompt: %s", f.Raw)
	}
	r.restart()
	d = r.ed("D")
	d.initialize()
	if f := d.load(empty, r.home.Work); f.Error != nil {
		r.Errorf("loading a session without a prompt after a restart: %s", f.Raw)
	}
}

// C38: loading twice is one subscription.
func c38(r *run) {
	r.play(3)
	b, s := r.ed("B"), r.vars["$S"]
	r.play(1)
	b.await(responseTo(1), patience)
	r.play(1)
	if f := b.await(responseTo(2), patience); f.Error != nil {
		r.Logf("the second load is refused: %s", f.Raw)
	}
	r.play(1)
	// "new C" changes $S; the prompt goes to A's session.
	r.play(1)
	r.vars["$S"] = s
	a, c := r.ed("A"), r.ed("C")
	mark := len(b.Frames())
	r.rest()
	a.settle()
	b.settle()
	c.settle()
	if got := strings.Count(a.said(s), "tick"); got != 1 {
		r.Errorf("A was told 'tick' %d times", got)
	}
	if got := said(a.updates(s, 0), "user_message_chunk"); got != "" {
		r.Errorf("A was told its own prompt: %q", got)
	}
	got := b.updates(s, mark)
	if user := said(got, "user_message_chunk"); user != "say tick" {
		r.Errorf("B was told the prompt as %q, want it once", user)
	}
	if n := strings.Count(said(got, "agent_message_chunk"), "tick"); n != 1 {
		r.Errorf("B was told 'tick' %d times", n)
	}
	user := slices.IndexFunc(got, func(u update) bool { return u.Kind == "user_message_chunk" })
	agent := slices.IndexFunc(got, func(u update) bool { return u.Kind == "agent_message_chunk" })
	if user > agent {
		r.Error("B was told the answer before the question")
	}
	if c.updates(s, 0) != nil {
		r.Error("C was told of a session it did not load")
	}
	if len(b.responses(5)) != 0 {
		r.Error("B got the answer to A's prompt")
	}
	// The signal of a turn's end for observers.
	ended := slices.ContainsFunc(got, func(u update) bool {
		return u.Kind == "session_info_update" && bytes.Contains(u.Meta, []byte(`"hermes"`))
	})
	if !ended {
		r.Error("B cannot tell that the turn has ended: no session_info_update with _meta.hermes")
	}
	// Gone and back, B is one subscriber.
	r.leave(b)
	delete(r.editors, "B")
	b = r.ed("B")
	b.initialize()
	b.load(s, r.home.Work)
	mark = len(b.Frames())
	a.prompt(s, "say tock")
	b.settle()
	if n := strings.Count(said(b.updates(s, mark), "agent_message_chunk"), "tock"); n != 1 {
		r.Errorf("after coming back B was told 'tock' %d times", n)
	}
}

// C39: lists, pages and filters.
func c39(r *run) {
	r.play(1)
	a, w := r.ed("A"), r.home.Work
	for _, dir := range []string{"a", "b", "a b", "ab"} {
		must(r.T, os.Mkdir(filepath.Join(w, dir), 0o755))
	}
	r.skip(1, "made one after the other; equal times are the store's tests")
	old := make(map[string]bool)
	inA := make(map[string]bool)
	for i := range 130 {
		dir := []string{"a", "b"}[i%2]
		id := a.open(filepath.Join(w, dir))
		old[id] = true
		inA[id] = dir == "a"
	}
	for _, dir := range []string{"a b", "ab"} {
		old[a.open(filepath.Join(w, dir))] = true
	}
	r.play(1)
	if f := a.await(responseTo(2), patience); f.Error != nil {
		r.Errorf("list: %s", f.Raw)
	}
	r.skip(1, "played here")
	seen := make(map[string]int)
	var times []time.Time
	page, next := a.page(obj{})
	pages := 1
	for {
		for _, s := range page {
			seen[s.SessionID]++
			if !filepath.IsAbs(s.Cwd) {
				r.Errorf("the cwd %q of a listed session is not absolute", s.Cwd)
			}
			if s.UpdatedAt == nil {
				r.Errorf("%s has no updatedAt", s.SessionID)
				continue
			}
			at, err := time.Parse(time.RFC3339Nano, *s.UpdatedAt)
			if err != nil {
				r.Errorf("updatedAt %q: %v", *s.UpdatedAt, err)
			}
			times = append(times, at)
		}
		if next == "" {
			break
		}
		if len(page) == 0 {
			r.Error("an empty page with a cursor")
		}
		if pages == 1 {
			a.open(filepath.Join(w, "a")) // new between the pages
		}
		pages++
		page, next = a.page(obj{"cursor": next})
	}
	if pages < 2 {
		r.Errorf("132 sessions came in %d page", pages)
	}
	for id := range old {
		if seen[id] != 1 {
			r.Errorf("the walk gives %s %d times", id, seen[id])
		}
	}
	if !slices.IsSortedFunc(times, func(x, y time.Time) int { return y.Compare(x) }) {
		r.Error("the list is not newest first")
	}
	r.play(5)
	for _, s := range a.sessions(obj{"cwd": filepath.Join(w, "a")}) {
		if s.Cwd != filepath.Join(w, "a") {
			r.Errorf("the filter lets %q through", s.Cwd)
		}
		delete(inA, s.SessionID)
	}
	for id, missing := range inA {
		if missing {
			r.Errorf("the filter hides %s", id)
		}
	}
	if f := a.await(responseTo(4), patience); !bytes.Contains(f.Result, []byte(`"sessions":[]`)) {
		r.Errorf("a folder without sessions: %s", f.Raw)
	}
	r.wantCode(a.await(responseTo(5), patience), -32602)
	r.wantCode(a.await(responseTo(6), patience), -32602)
	if f := a.await(responseTo(7), patience); f.Error != nil {
		r.Errorf("null cursor and cwd: %s", f.Raw)
	}
}

// C41: references to files.
func c41(r *run) {
	r.play(5)
	a, s := r.ed("A"), r.vars["$S"]
	r.wantStop(a.await(responseTo(2), patience), "end_turn")
	if got := a.said(s); !strings.Contains(got, "my file.txt") {
		r.Errorf("the model did not see the link: %q", got)
	}
	mark := len(a.Frames())
	r.play(2)
	r.wantStop(a.await(responseTo(3), patience), "end_turn")
	if got := said(a.updates(s, mark), "agent_message_chunk"); !strings.Contains(got, "unsaved.go") || !strings.Contains(got, "ok") {
		r.Errorf("the model did not see the embedded file: %q", got)
	}
	mark = len(a.Frames())
	r.play(2)
	r.wantStop(a.await(responseTo(4), patience), "end_turn")
	got := said(a.updates(s, mark), "agent_message_chunk")
	for _, name := range []string{"mem://b", "nope.txt", "example.test"} {
		if !strings.Contains(got, name) && !strings.Contains(got, filepath.Base(name)) {
			r.Errorf("the model did not hear of %s: %q", name, got)
		}
	}
	r.model = []string{"say hi"}
	r.play(1)
	f := a.await(responseTo(5), patience)
	r.wantCode(f, -32602, 0)
	if f.Error != nil && !bytes.Contains(f.Raw, []byte("hologram")) {
		r.Errorf("the error does not name the block: %s", f.Raw)
	}
	init := a.only(0)
	var caps struct {
		AgentCapabilities struct {
			PromptCapabilities struct{ EmbeddedContext bool }
		}
	}
	must(r.T, json.Unmarshal(init.Result, &caps))
	if !caps.AgentCapabilities.PromptCapabilities.EmbeddedContext {
		r.Error("embedded files are taken and not advertised")
	}
}

// C42: prompts with nothing in them, images that are none.
func c42(r *run) {
	r.play(5)
	a, s := r.ed("A"), r.vars["$S"]
	for id := 2; id <= 4; id++ {
		f := a.await(responseTo(id), patience)
		r.wantCode(f, -32602, 0)
		if f.Error == nil {
			r.wantStop(f, "end_turn")
		}
	}
	r.model = nil
	r.skip(1, "the offline model says what it was given")
	r.play(1)
	r.wantStop(a.await(responseTo(5), patience), "end_turn")
	r.skip(1, "no provider refuses an image here")
	r.play(1)
	f := a.await(responseTo(6), patience)
	r.wantCode(f, 0, -32602, -32603)
	r.play(1)
	r.wantCode(a.await(responseTo(7), patience), -32602)
	a.mode(s, "dont_ask")
	r.play(2)
	r.wantStop(a.await(responseTo(8), patience), "end_turn")
	r.skip(1, "what the model is sent, with the language models")
	r.play(3)
	r.wantStop(a.only(9), "end_turn")
	if got := a.said(s); !strings.HasSuffix(got, "alive") {
		r.Errorf("A was told %q", got)
	}
	// Nothing that was refused or empty is in the history.
	b := r.ed("B")
	b.initialize()
	b.load(s, r.home.Work)
	for _, u := range b.updates(s, 0) {
		if u.Kind == "user_message_chunk" && (bytes.Contains(u.Content, []byte("%%%")) ||
			bytes.Contains(u.Content, []byte(`"text":""`)) || bytes.Contains(u.Content, []byte(`"text":" \n"`))) {
			r.Errorf("in the history: %s", u.raw)
		}
	}
}

// C43: the session's folder, and folders that are none.
func c43(r *run) {
	r.skip(1, "every daemon here is started in /")
	r.play(4)
	a, w := r.ed("A"), r.home.Work
	one := a.sessionID(a.await(responseTo(1), patience))
	two := a.sessionID(a.await(responseTo(2), patience))
	r.skip(1, "in the words of the offline model")
	for _, s := range []string{one, two} {
		a.mode(s, "dont_ask")
	}
	script := "run cat id; pwd\nread id"
	ids := []int{a.ask("session/prompt", prompt(one, script)), a.ask("session/prompt", prompt(two, script))}
	for _, id := range ids {
		r.wantStop(a.await(responseTo(id), patience), "end_turn")
	}
	for s, want := range map[string][2]string{one: {"one", "p1"}, two: {"two", "p2"}} {
		got := calls(a.updates(s, 0))
		if len(got) != 2 {
			r.Errorf("%d calls in %s, want 2", len(got), want[1])
			continue
		}
		for _, c := range got {
			all := strings.Join(c.raw, "\n")
			if !strings.Contains(all, want[0]) || c.last() != "completed" {
				r.Errorf("in %s: %s", want[1], all)
			}
		}
		if all := strings.Join(got[0].raw, "\n"); !strings.Contains(all, filepath.Join(w, want[1])) {
			r.Errorf("the command did not run in %s: %s", want[1], all)
		}
		var places []struct{ Path string }
		must(r.T, json.Unmarshal(got[1].places, &places))
		if len(places) == 0 || !filepath.IsAbs(places[0].Path) {
			r.Errorf("the location of the file is %s", got[1].places)
		}
	}
	before := len(a.sessions(obj{}))
	r.play(6)
	for _, id := range []int{5, 6, 7, 8, 10} {
		f := a.await(responseTo(id), patience)
		r.wantCode(f, -32602)
		if f.Error != nil && !bytes.Contains(f.Raw, []byte("cwd")) {
			r.Errorf("the error does not name cwd: %s", f.Raw)
		}
	}
	r.wantCode(a.await(responseTo(9), patience), -32602, -32002)
	if n := len(a.sessions(obj{})); n != before {
		r.Errorf("%d sessions were made of bad folders", n-before)
	}
	r.play(1)
	linked := a.sessionID(a.await(responseTo(11), patience))
	found := false
	for _, s := range a.sessions(obj{}) {
		if s.SessionID == linked {
			found = true
			if s.Cwd != filepath.Join(w, "link") {
				r.Errorf("the list says %q, the editor said %q", s.Cwd, filepath.Join(w, "link"))
			}
		}
	}
	if !found {
		r.Error("the session in the linked folder is not listed")
	}
}

// C44: the session's folder goes away.
func c44(r *run) {
	r.play(3)
	a := r.ed("A")
	s := a.sessionID(a.await(responseTo(1), patience))
	r.vars["$S"] = s
	wt := filepath.Join(r.home.Work, "wt")
	r.play(4)
	r.wantStop(a.only(2), "end_turn")
	got := calls(a.updates(s, 0))
	if len(got) != 2 || got[0].last() != "completed" || got[1].last() != "failed" {
		r.Fatalf("the two calls ended %v\n%s", got, a.transcript(30))
	}
	if all := strings.Join(got[1].raw, "\n"); !strings.Contains(all, wt) {
		r.Errorf("the second call does not name the folder that is missing: %s", all)
	}
	other := a.open(r.home.Work) // others are unharmed
	if stop := a.prompt(other, "say fine"); stop != "end_turn" {
		r.Errorf("another session ended with %q", stop)
	}
	r.play(2)
	b := r.ed("B")
	r.play(5)
	f1 := b.await(responseTo(1), patience)
	if f1.Error != nil {
		r.wantCode(f1, -32002, -32602)
		if !bytes.Contains(f1.Raw, []byte(wt)) {
			r.Errorf("the error does not name the folder: %s", f1.Raw)
		}
	} else if !strings.Contains(b.said(s), "end") {
		r.Errorf("the history is not replayed: %s", b.transcript(20))
	}
	f2 := b.await(responseTo(2), patience)
	r.wantCode(f2, 0, -32602, -32002)
	f3 := b.await(responseTo(3), patience)
	if f3.Error != nil || !bytes.Contains(f3.Result, []byte(s)) {
		r.Errorf("list: %s", f3.Raw)
	}
	if f := b.await(responseTo(4), patience); f.Error != nil {
		r.Errorf("delete: %s", f.Raw)
	}
	f5 := b.await(responseTo(5), patience)
	r.wantCode(f5, -32602, -32002)
	if !bytes.Contains(f5.Raw, []byte("never")) {
		r.Errorf("the error does not name the folder: %s", f5.Raw)
	}
}

// C45: paths of Windows, here on a system that is none.
func c45(r *run) {
	r.skip(4, "tables of functions, tested where they are: file URIs in transport/acp")
	r.rest()
	a := r.ed("A")
	f := a.await(responseTo(1), patience)
	r.wantCode(f, -32602)
	if n := len(a.sessions(obj{})); n != 0 {
		r.Errorf("%d sessions were made", n)
	}
}

// C47: failures of the model, one prompt after the other.
func c47(r *run) {
	r.skip(1, "without a key the offline model answers")
	r.play(4)
	a := r.ed("A")
	r.wantStop(a.only(2), "end_turn")
	r.play(1)
	r.wantCode(a.await(responseTo(3), patience), -32602)
	r.skip(1, "there is no key to restart with")
	r.skip(2, "A is at hand already")
	s := r.vars["$S"]
	mark := 0
	for id := 4; id <= 6; id++ {
		r.play(2)
		mark = len(a.Frames())
		f := a.await(responseTo(id), patience)
		r.wantCode(f, -32603)
		if f.Error != nil && id > 4 && !bytes.Contains(f.Raw, []byte(map[int]string{5: "slow down", 6: "boom"}[id])) {
			r.Errorf("the reason is missing: %s", f.Raw)
		}
	}
	r.play(2)
	r.wantStop(a.await(responseTo(7), patience), "end_turn")
	if got := said(a.updates(s, mark), "agent_message_chunk"); !strings.HasSuffix(got, "fine") {
		r.Errorf("after the failures A was told %q", got)
	}
	for id := 2; id <= 7; id++ {
		a.only(id)
	}
	r.skip(1, "an external agent")
}

// C54: mcpServers of every shape.
func c54(r *run) {
	r.play(1)
	a := r.ed("A")
	a.answers("allow_once")
	r.mcpServer("good")
	r.play(1)
	s := a.sessionID(a.await(responseTo(1), patience))
	r.skip(1, "in the words of the offline model")
	dump := envOfM(r, a, s)
	if !slices.Contains(dump.Env, "TOKEN=t=1 2") || !slices.Contains(dump.Env, "EMPTY=") || !slices.Equal(dump.Args, []string{"--x"}) {
		r.Errorf("M got %q and %q", dump.Args, dump.Env)
	}
	// What the tool itself gave away stands in the session, and nowhere else.
	secretsAreNowhere(r, a, "t=1 2")
	// Another session has servers of its own.
	other := a.withM()
	if dump := envOfM(r, a, other); slices.Contains(dump.Env, "TOKEN=t=1 2") || len(dump.Args) != 0 {
		r.Errorf("the M of another session got %q and %q", dump.Args, dump.Env)
	}
	r.play(6)
	for _, id := range []int{2, 6, 7} {
		f := a.await(responseTo(id), patience)
		if id == 2 && f.Error == nil {
			continue // leniency
		}
		r.wantCode(f, -32602)
		if f.Error != nil && !bytes.Contains(f.Raw, []byte("mcpServers")) {
			r.Errorf("the error does not say where: %s", f.Raw)
		}
	}
	f := a.await(responseTo(3), patience)
	r.wantCode(f, 0, -32602)
	if f.Error != nil && !bytes.Contains(f.Raw, []byte("mcpServers")) {
		r.Errorf("the error does not name mcpServers: %s", f.Raw)
	}
	a.sessionID(a.await(responseTo(4), patience))
	f = a.await(responseTo(5), patience)
	r.wantCode(f, 0, -32602)
	if f.Error != nil && !strings.Contains(f.Error.Message+string(f.Error.Data), "m") {
		r.Errorf("the error does not name the doubled name: %s", f.Raw)
	}
}

// C59: a choice made stays made. The choice here is the option of category mode.
func c59(r *run) {
	r.play(2)
	a := r.ed("A")
	created := a.await(responseTo(1), patience)
	s := a.sessionID(created)
	r.vars["$S"] = s
	option, values := modeOption(r, created)
	r.play(1)
	b := r.ed("B")
	swap := strings.NewReplacer(`"configId":"model"`, `"configId":"`+option+`"`, `"configId": "model"`, `"configId":"`+option+`"`,
		"model-b", values[1], "model-c", values[2])
	for i, step := range r.steps {
		r.steps[i] = json.RawMessage(swap.Replace(string(step)))
	}
	mark := len(b.Frames())
	r.play(1)
	f := a.await(responseTo(2), patience)
	if got := current(f.Result, option); got != values[1] {
		r.Errorf("set_config_option answered %s, want %s as the current value", f.Raw, values[1])
	}
	b.settle()
	if !slices.ContainsFunc(b.updates(s, mark), func(u update) bool {
		return u.Kind == "config_option_update" && current(u.raw, option) == values[1]
	}) {
		r.Errorf("B was not told\n%s", b.transcript(10))
	}
	r.play(6) // a turn, in it another value, and its end
	if f := a.only(4); f.Error == nil {
		if got := current(f.Result, option); got != values[2] {
			r.Errorf("set in mid-turn answered %s, want %s", f.Raw, values[2])
		}
	}
	r.wantStop(a.only(3), "end_turn")
	r.play(2)
	r.wantStop(a.await(responseTo(5), patience), "end_turn")
	r.play(2)
	r.wantCode(a.await(responseTo(6), patience), -32602)
	r.wantCode(a.await(responseTo(7), patience), -32602)
	r.play(3)
	c := r.ed("C")
	if f := c.await(responseTo(1), patience); current(f.Result, option) != values[2] {
		r.Errorf("load says %s, want %s", f.Raw, values[2])
	}
	r.rest()
	r.wantStop(c.await(responseTo(2), patience), "end_turn")
}

// modeOption finds the config option of category mode and its values, the
// current one first.
func modeOption(r *run, created daemontest.Frame) (string, []string) {
	r.Helper()
	var result struct {
		ConfigOptions []struct {
			ID, Category string
			CurrentValue any
			Options      []struct{ Value string }
		}
	}
	must(r.T, json.Unmarshal(created.Result, &result))
	for _, o := range result.ConfigOptions {
		if o.Category == "mode" && len(o.Options) >= 3 {
			values := []string{fmt.Sprint(o.CurrentValue)}
			for _, v := range o.Options {
				if v.Value != values[0] {
					values = append(values, v.Value)
				}
			}
			return o.ID, values
		}
	}
	r.Fatalf("no option of category mode with three values: %s", created.Raw)
	return "", nil
}

// current is the value of an option in something that has configOptions.
func current(in json.RawMessage, option string) string {
	var result struct {
		ConfigOptions []struct {
			ID           string
			CurrentValue any
		}
	}
	_ = json.Unmarshal(in, &result)
	for _, o := range result.ConfigOptions {
		if o.ID == option {
			return fmt.Sprint(o.CurrentValue)
		}
	}
	return ""
}
