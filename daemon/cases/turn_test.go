//go:build unix

package cases

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/hermesd/hermesd/daemon/daemontest"
)

// hasUpdate matches a session/update of one kind whose text contains s.
func hasUpdate(kind, s string) func(daemontest.Frame) bool {
	return func(f daemontest.Frame) bool {
		return f.Method == "session/update" && bytes.Contains(f.Params, []byte(`"`+kind+`"`)) && bytes.Contains(f.Params, []byte(s))
	}
}

func toolStatus(status string) func(daemontest.Frame) bool {
	return func(f daemontest.Frame) bool {
		return f.Method == "session/update" && bytes.Contains(f.Params, []byte(`"tool_call`)) &&
			bytes.Contains(f.Params, []byte(`"status":"`+status+`"`))
	}
}

// C17: files are read through the editor that asked, if it offered that.
func c17(r *run) {
	r.play(1)
	a := r.ed("A")
	a.await(responseTo(0), patience)
	a.initialized = true
	r.play(4)
	s := r.vars["$S"]
	r.play(1) // no fs/read_text_file for a second
	r.play(1)
	r.wantStop(a.only(2), "end_turn")
	if got := a.said(s); !strings.Contains(got, "disk") {
		r.Errorf("the file was not read from disk: %q", got)
	}
	r.play(1)
	b := r.ed("B")
	b.await(responseTo(0), patience)
	b.initialized = true
	r.play(3)
	// A asked, and A does not serve files: the disk, by the rule that only the
	// editor that asked is asked.
	r.wantStop(a.await(responseTo(3), patience), "end_turn")
	for _, e := range []*editor{a, b} {
		for _, f := range e.Frames() {
			if strings.HasPrefix(f.Method, "fs/") {
				r.Errorf("%s was asked for a file: %s", e.Name, f.Raw)
			}
		}
	}
	// B asks, and is asked; it goes away instead of answering: the disk.
	b.ask("session/prompt", prompt(s, "read f.txt"))
	b.await(isMethod("fs/read_text_file"), patience)
	mark := len(a.Frames())
	b.left = true
	b.Kill()
	a.await(hasUpdate("agent_message_chunk", "disk"), patience)
	if stop := a.prompt(s, "say after"); stop != "end_turn" {
		r.Errorf("the turn after B's ended with %q", stop)
	}
	if got := calls(a.updates(s, mark)); len(got) != 1 || got[0].last() != "completed" {
		r.Errorf("the read of B's turn: %s", a.transcript(10))
	}
	// Missing keys and null count as not offered.
	c := r.ed("C")
	c.initializeWith(obj{"fs": nil})
	sc := c.open(r.home.Work)
	if stop := c.prompt(sc, "read f.txt"); stop != "end_turn" || !strings.Contains(c.said(sc), "disk") {
		r.Errorf("without fs: %s", c.transcript(10))
	}
}

// C18: commands run without the editor's terminal.
func c18(r *run) {
	r.play(6)
	a, s := r.ed("A"), r.vars["$S"]
	r.wantStop(a.only(2), "end_turn")
	got := calls(a.updates(s, 0))
	if len(got) != 1 {
		r.Fatalf("%d calls, want 1\n%s", len(got), a.transcript(20))
	}
	if !bytes.Contains(got[0].content, []byte("hi")) {
		r.Errorf("the call does not carry the output: %s", got[0].content)
	}
	all := strings.Join(got[0].raw, "\n")
	if !strings.Contains(all, "3") || (got[0].last() != "failed" && got[0].last() != "completed") {
		r.Errorf("the exit status is missing: %s", all)
	}
	for _, f := range a.Frames() {
		if strings.HasPrefix(f.Method, "terminal/") {
			r.Errorf("A was asked for a terminal: %s", f.Raw)
		}
	}
	r.skip(5, "terminals of an external agent")
}

// C19: five hundred chunks and the answer, in order.
func c19(r *run) {
	r.play(3)
	a, b, s := r.ed("A"), r.ed("B"), r.vars["$S"]
	mark := len(b.Frames())
	// A chunk of 8 bytes holds its number.
	r.model = []string{"stream 500 8"}
	r.play(1)
	r.skip(2, "streamed by the built-in agent")
	r.wantStop(a.await(responseTo(2), patience), "end_turn")
	end := slices.IndexFunc(a.Frames(), responseTo(2))
	var want strings.Builder
	for n := 1; n <= 500; n++ {
		d := strconv.Itoa(n)
		want.WriteString(d + strings.Repeat(".", 7-len(d)) + " ")
	}
	if got := a.said(s); !strings.HasSuffix(got, want.String()) {
		r.Errorf("A was told %d bytes that are not 1 to 500 in order: %.200q…", len(got), got)
	}
	a.settle()
	for _, u := range a.updates(s, end) {
		if u.Kind == "agent_message_chunk" || u.Kind == "tool_call" {
			r.Errorf("after the answer: %s", u.raw)
		}
	}
	b.await(func(f daemontest.Frame) bool {
		return strings.HasSuffix(said(b.updates(s, mark), "agent_message_chunk"), want.String())
	}, patience)
	if got := said(b.updates(s, mark), "agent_message_chunk"); strings.Count(got, want.String()) != 1 {
		r.Errorf("B was told %d bytes, the stream is in it %d times", len(got), strings.Count(got, want.String()))
	}
}

// order checks the life of each tool call as an editor saw it.
func (r *run) order(e *editor, session string) []*call {
	r.Helper()
	got := calls(e.updates(session, 0))
	rank := map[string]int{"pending": 0, "in_progress": 1, "completed": 2, "failed": 2}
	ids := make(map[string]bool)
	for _, c := range got {
		if c.created != 1 {
			r.Errorf("the call %s was made %d times", c.id, c.created)
		}
		if ids[c.id] {
			r.Errorf("the id %s was used twice", c.id)
		}
		ids[c.id] = true
		for i := 1; i < len(c.statuses); i++ {
			if rank[c.statuses[i]] < rank[c.statuses[i-1]] {
				r.Errorf("the call %s went %v", c.id, c.statuses)
			}
		}
	}
	return got
}

// C21: two calls that look the same.
func c21(r *run) {
	r.rest()
	a, s := r.ed("A"), r.vars["$S"]
	r.wantStop(a.only(2), "end_turn")
	end := slices.IndexFunc(a.Frames(), responseTo(2))
	got := r.order(a, s)
	if len(got) != 2 {
		r.Fatalf("%d calls, want 2\n%s", len(got), a.transcript(40))
	}
	for _, c := range got {
		if !slices.Equal(c.statuses, []string{"pending", "in_progress", "completed"}) {
			r.Errorf("the call %s went %v", c.id, c.statuses)
		}
	}
	known := make(map[string]string) // call → status when a question came
	asked := 0
	for i, f := range a.Frames() {
		if f.Method == "session/request_permission" {
			asked++
			id := question(f).ToolCall.ToolCallID
			if known[id] != "pending" {
				r.Errorf("asked about the call %s while it was %q", id, known[id])
			}
		}
		for _, u := range a.updates(s, i) {
			if u.at != i {
				break
			}
			if u.ToolCallID != "" && i > end {
				r.Errorf("after the answer: %s", u.raw)
			}
			if u.Kind == "tool_call" && u.Status == "" {
				u.Status = "pending"
			}
			if u.Status != "" {
				known[u.ToolCallID] = u.Status
			}
		}
	}
	if asked != 2 {
		r.Errorf("%d questions, want one for each call", asked)
	}
	// The ids are unique in the session for ever.
	r.restart()
	b := r.ed("B")
	b.initialize()
	b.load(s, r.home.Work)
	b.mode(s, "dont_ask")
	b.prompt(s, "run echo 1")
	if got := r.order(b, s); len(got) != 3 {
		r.Errorf("after a restart and one more call there are %d, want 3", len(got))
	}
}

// C22: cancel right behind the prompt.
func c22(r *run) {
	r.play(3)
	a, s := r.ed("A"), r.vars["$S"]
	r.play(1)
	r.wantStop(a.await(responseTo(2), time.Second+slack), "cancelled")
	r.skip(1, "with a limit of a second")
	r.play(3)
	r.wantStop(a.only(3), "end_turn")
	r.play(1) // two hundred races
	for id := 1001; id <= r.free; id++ {
		f := a.only(id)
		if stop := stopReason(f); stop != "cancelled" && stop != "end_turn" {
			r.Errorf("prompt %d of the races: %s", id-1000, f.Raw)
		}
	}
	if stop := a.prompt(s, "say usable"); stop != "end_turn" {
		r.Errorf("after the races a prompt ended with %q", stop)
	}
}

// slack is added to what the product promises, for a machine that is busy.
const slack = 4 * time.Second

// C23: cancel while a question is open.
func c23(r *run) {
	r.play(2)
	b := r.ed("B") // another editor, that is asked too
	b.initialize()
	s := r.vars["$S"]
	b.load(s, r.home.Work)
	r.play(3)
	a := r.ed("A")
	q := b.await(isMethod("session/request_permission"), patience)
	r.play(2)
	r.wantStop(a.only(2), "cancelled")
	frames := a.Frames()
	end := slices.IndexFunc(frames, responseTo(2))
	got := calls(a.updates(s, 0))
	if len(got) != 1 || got[0].last() != "failed" {
		r.Errorf("the call is not failed: %s", a.transcript(20))
	}
	for _, u := range a.updates(s, end) {
		if u.ToolCallID != "" {
			r.Errorf("after the answer: %s", u.raw)
		}
	}
	b.await(func(f daemontest.Frame) bool {
		return f.Method == "$/cancel_request" && bytes.Contains(f.Params, q.ID)
	}, patience)
	r.rest()
	r.wantStop(a.only(3), "end_turn")
	a.settle() // the late outcome is swallowed
	for _, f := range a.Frames()[len(frames):] {
		if f.Error != nil {
			r.Errorf("the late outcome brought %s", f.Raw)
		}
	}
}

// C24: cancel takes back what waits.
func c24(r *run) {
	r.play(8)
	a, s := r.ed("A"), r.vars["$S"]
	r.play(2)
	at := make([]int, 0, 3)
	for id := 2; id <= 4; id++ {
		r.wantStop(a.only(id), "cancelled")
		at = append(at, slices.IndexFunc(a.Frames(), responseTo(id)))
	}
	if !slices.IsSorted(at) {
		r.Errorf("2, 3 and 4 were answered in another order: %v", at)
	}
	if got := a.said(s); strings.Contains(got, "queued") {
		r.Errorf("a prompt that was taken back ran: %q", got)
	}
	r.skip(1, "the offline model would have quoted the prompts")
	r.play(3)
	r.wantStop(a.only(5), "end_turn")
	r.play(5)
	f := a.only(7)
	if f.Error != nil {
		r.wantCode(f, -32800)
	} else {
		r.wantStop(f, "cancelled")
	}
	a.settle()
	if len(a.responses(6)) != 0 {
		r.Errorf("the running turn ended too: %s", a.only(6).Raw)
	}
	a.notify("session/cancel", obj{"sessionId": s})
	r.wantStop(a.await(responseTo(6), patience), "cancelled")
}

// C26: one session's cancel is not another's, and two are one.
func c26(r *run) {
	r.play(5)
	a, b := r.ed("A"), r.ed("B")
	r.model = []string{"say a\nsleep 10m", "say b\nsleep 1s\nsay whole"}
	r.play(2)
	a.await(hasUpdate("agent_message_chunk", `"a"`), patience)
	r.skip(1, "the built-in agent")
	r.play(2)
	r.skip(3, "the built-in agent")
	r.wantStop(a.await(responseTo(2), patience), "cancelled")
	r.wantStop(b.await(responseTo(2), patience), "end_turn")
	if got := b.said(r.vars["$SB"]); !strings.HasSuffix(got, "whole") {
		r.Errorf("B's turn was cut: %q", got)
	}
	if stop := a.prompt(r.vars["$SA"], "say next"); stop != "end_turn" {
		r.Errorf("the turn after two cancels ended with %q", stop)
	}
}

// running says whether a process with this argument runs.
func running(arg string) bool {
	entries, _ := os.ReadDir("/proc")
	for _, e := range entries {
		line, err := os.ReadFile(filepath.Join("/proc", e.Name(), "cmdline"))
		if err == nil && slices.Contains(strings.Split(string(line), "\x00"), arg) {
			return true
		}
	}
	return false
}

// gone waits for the end of the processes with this argument.
func (r *run) goneSoon(arg string) {
	r.Helper()
	for limit := time.Now().Add(patience); running(arg); time.Sleep(5 * time.Millisecond) {
		if time.Now().After(limit) {
			r.Errorf("%s still runs", arg)
			return
		}
	}
}

// C27: cancel, and crash, during a command.
func c27(r *run) {
	r.play(2)
	a, s := r.ed("A"), r.vars["$S"]
	// A length no other process sleeps for.
	nap := fmt.Sprintf("%d.25", 3000+os.Getpid()%1000)
	r.model = []string{"run sleep " + nap + "\nrun echo b"}
	r.skip(1, "with a sleep that can be told from others")
	r.play(2)
	a.await(toolStatus("in_progress"), patience)
	r.skip(1, "as said before")
	r.play(2)
	r.wantStop(a.only(2), "cancelled")
	end := slices.IndexFunc(a.Frames(), responseTo(2))
	r.goneSoon(nap)
	for _, c := range r.order(a, s) {
		if c.last() != "failed" {
			r.Errorf("the call %s is %q when the prompt is answered", c.id, c.last())
		}
	}
	for _, u := range a.updates(s, end) {
		if u.ToolCallID != "" {
			r.Errorf("after the answer: %s", u.raw)
		}
	}
	r.skip(1, "what a language model is sent")
	r.play(3)
	r.wantStop(a.only(3), "end_turn")
	r.skip(1, "played here")

	// The same with a crash in place of the cancel.
	nap = nap[:len(nap)-2] + "75"
	a.ask("session/prompt", prompt(s, "run sleep "+nap))
	a.await(toolStatus("in_progress"), patience)
	r.crash()
	r.forget()
	r.serve()
	b := r.ed("B")
	b.initialize()
	if f := b.load(s, r.home.Work); f.Error != nil {
		r.Fatalf("load after the crash: %s", f.Raw)
	}
	got := r.order(b, s)
	if len(got) < 2 || got[len(got)-1].last() != "failed" {
		r.Errorf("the interrupted call: %s", b.transcript(20))
	}
	if all := strings.ToLower(strings.Join(got[len(got)-1].raw, " ")); !strings.Contains(all, "unknown") && !strings.Contains(all, "interrupted") {
		r.Errorf("the interrupted call does not say that its outcome is unknown: %s", all)
	}
	if stop := b.prompt(s, "say on"); stop != "end_turn" {
		r.Errorf("after the crash a prompt ended with %q", stop)
	}
	// With holders the end of the command will be known; until then it outlives
	// the daemon that was killed.
	for _, p := range r.home.Processes() {
		if strings.Contains(p.Command, nap) {
			_ = syscall.Kill(p.PID, syscall.SIGKILL)
		}
	}
}

// C49: an editor dies in mid-turn.
func c49(r *run) {
	r.skip(1, "a wrapper around an external agent")
	r.play(2)
	a, s := r.ed("A"), r.vars["$S"]
	r.skip(1, "the runner knows its processes")
	r.model = []string{"say begun\nsleep 300ms\nstream 1000 16\nsay done"}
	r.play(1)
	a.await(hasUpdate("agent_message_chunk", "begun"), patience)
	r.skip(1, "the built-in agent")
	r.play(1) // A is killed
	r.skip(4, "the built-in agent streams on")
	r.play(2)
	b := r.ed("B")
	if f := b.await(responseTo(1), patience); !bytes.Contains(f.Result, []byte(s)) {
		r.Errorf("the session is not listed: %s", f.Raw)
	}
	if f := b.load(s, r.home.Work); f.Error != nil {
		r.Fatalf("load: %s", f.Raw)
	}
	b.await(func(daemontest.Frame) bool { return strings.HasSuffix(b.said(s), "done") }, patience)
	// Editors that go away in other ways, while they are written to.
	c := r.ed("C")
	c.initialize()
	c.load(s, r.home.Work)
	c.Pause(true)
	b.ask("session/prompt", prompt(s, "stream 20000 200"))
	b.await(hasUpdate("agent_message_chunk", "19000"), patience)
	c.left = true
	c.Kill()
	b.settle()
	r.play(1) // stop
	r.skip(1, "checked of every case: nothing is left")
	if _, err := os.Lstat(r.home.Socket()); err == nil {
		r.Error("the socket is still there after `hermesd stop`")
	}
	if left := r.home.Processes(); len(left) > 0 {
		r.Errorf("still running: %v", left)
	}
}

// C52: an editor that does not read.
func c52(r *run) {
	r.play(3)
	a, b, s := r.ed("A"), r.ed("B"), r.vars["$S"]
	chunks := scale(20000, 6000, 1000)
	r.play(1) // B pauses
	pid := r.daemon.Cmd.Process.Pid
	before := memory(pid)
	a.Lean(true)
	counted := a.Received()
	r.model = []string{fmt.Sprintf("stream %d 16384", chunks)}
	began := time.Now()
	r.play(1)
	r.skip(2, "streamed by the built-in agent")
	most := int64(0)
	for id, limit := 2, time.Now().Add(2*time.Minute); len(a.responses(id)) == 0; time.Sleep(10 * time.Millisecond) {
		most = max(most, memory(pid)-before)
		if time.Now().After(limit) {
			r.Fatalf("A's turn did not end; it got %d frames", a.Received()-counted)
		}
	}
	r.play(1)
	r.wantStop(a.only(2), "end_turn")
	if got := a.Received() - counted; got < chunks {
		r.Logf("A got its %d chunks in %d frames: it was behind and they were joined", chunks, got)
	}
	r.Logf("%v: the daemon grew by %d MiB while A got %d MiB", time.Since(began), most>>20, chunks*16384>>20)
	if most > 64<<20 && !daemontest.Race {
		r.Errorf("the daemon grew by %d MiB", most>>20)
	}
	// B goes on reading: it is caught up without a hole.
	a.Lean(false)
	r.play(1)
	b.await(hasUpdate("agent_message_chunk", fmt.Sprintf("%d....", chunks)), 2*time.Minute)
	text := b.said(s)
	at := strings.Index(text, "1...")
	for n := 1; n <= chunks; n++ {
		if !strings.HasPrefix(text[at:], strconv.Itoa(n)+".") {
			r.Fatalf("B misses chunk %d", n)
		}
		at += 16384
	}
	// The variant: A itself does not read, and goes on later.
	a.Pause(true)
	fewer := chunks / 4
	mark := len(b.Frames())
	id := a.ask("session/prompt", prompt(s, fmt.Sprintf("stream %d 16384", fewer)))
	ctx, cancel := context.WithTimeout(r.Context(), 2*time.Minute)
	defer cancel()
	if _, _, err := b.Await(ctx, mark, func(f daemontest.Frame) bool {
		return f.Method == "session/update" && bytes.Contains(f.Params, fmt.Appendf(nil, "%d....", fewer))
	}); err != nil {
		r.Fatalf("B did not get what A does not read: %v", err)
	}
	a.Pause(false)
	r.wantStop(a.await(responseTo(id), 2*time.Minute), "end_turn")
	r.skip(1, "played here")
}

func tail(s string, n int) string { return s[max(0, len(s)-n):] }

// C60: two prompts at once.
func c60(r *run) {
	r.play(3)
	a, b, s := r.ed("A"), r.ed("B"), r.vars["$S"]
	r.play(3)
	// The first prompt is there before the second, also where shims race.
	b.await(hasUpdate("user_message_chunk", "A1"), patience)
	r.play(3)
	r.wantStop(a.only(2), "end_turn")
	fb := b.only(2)
	queued := fb.Error == nil
	if queued {
		r.wantStop(fb, "end_turn")
		for _, e := range []*editor{a, b} {
			e.settle()
			got := e.said(s)
			first, second := strings.Index(got, "A1"), strings.Index(got, "B1")
			if first < 0 || second < first {
				r.Errorf("%s was told %q, want A1 and then B1", e.Name, got)
			}
		}
		// Each sees the other's prompt, once, before its turn.
		if got := said(a.updates(s, 0), "user_message_chunk"); got != "say B1" {
			r.Errorf("A saw the prompts %q", got)
		}
		if got := said(b.updates(s, 0), "user_message_chunk"); got != "sleep 300ms\nsay A1" {
			r.Errorf("B saw the prompts %q", got)
		}
	}
	// The history has the order of execution.
	c := r.ed("C")
	c.initialize()
	c.load(s, r.home.Work)
	var order []string
	for _, u := range c.updates(s, 0) {
		if u.Kind == "user_message_chunk" || (u.Kind == "agent_message_chunk" && (strings.Contains(u.text(), "A1") || strings.Contains(u.text(), "B1"))) {
			order = append(order, tail(strings.TrimSpace(u.text()), 2))
		}
	}
	if queued && !slices.Equal(order, []string{"A1", "A1", "B1", "B1"}) {
		r.Errorf("the history has the order %v", order)
	}
	r.skip(1, "what a language model is sent")
	// A hundred prompts, each sent as soon as the one before was answered.
	var repeat struct{ Steps []json.RawMessage }
	must(r.T, json.Unmarshal(r.take(), &repeat))
	for range 100 {
		if stop := a.prompt(s, "say k"); stop != "end_turn" {
			r.Fatalf("a prompt right after an answer ended with %q", stop)
		}
	}
}
