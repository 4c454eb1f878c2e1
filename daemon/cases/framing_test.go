//go:build unix

package cases

import (
	"bytes"
	"fmt"
	"strings"
	"time"

	"github.com/hermesd/hermesd/daemon/daemontest"
)

// C02: CRLF, blank lines, BOM, a last line without its end.
func c02(r *run) {
	r.play(3)
	a := r.ed("A")
	r.play(1) // stdin is closed
	<-a.Done()
	for id := range 3 {
		if f := a.only(id); f.Error != nil {
			r.Errorf("id %d: %s", id, f.Raw)
		}
	}
	if n := len(a.Frames()); n != 3 {
		r.Errorf("blank lines have been answered\n%s", a.transcript(10))
	}
	// A BOM counts as such only at the very start. (That every line ends in a
	// single LF, and that no CR is in one, is checked of all frames.)
	b := r.ed("B")
	b.initialize()
	b.send1("\ufeff{\"jsonrpc\":\"2.0\",\"id\":5,\"method\":\"session/list\",\"params\":{}}\n")
	f := b.await(func(f daemontest.Frame) bool { return f.IsResponse() && string(f.ID) == "null" }, patience)
	r.wantCode(f, -32700)
}

// C03: garbage, batches, frames that are no request.
func c03(r *run) {
	r.rest()
	a := r.ed("A")
	last := a.await(responseTo(6), patience)
	if last.Error != nil {
		r.Errorf("the good request after the garbage: %s", last.Raw)
	}
	a.settle()
	count := make(map[string]int)
	for _, f := range a.Frames() {
		if f.IsResponse() {
			count[fmt.Sprintf("%s %d", f.ID, code(f))]++
		}
	}
	if count["null -32700"] != 2 {
		r.Errorf("two lines that are no JSON, answered %v", count)
	}
	for _, id := range []string{"2", "3"} {
		if count[id+" -32700"] > 0 {
			r.Errorf("the batch was called unparsable: %v", count)
		}
	}
	// The batch, [] and id 5 are refused; id 4 may be answered normally.
	if n := count["null -32600"] + count["5 -32600"] + count["4 -32600"]; n < 2 || n > 4 {
		r.Errorf("two arrays and two odd frames, answered %v", count)
	}
	if count["4 0"]+count["4 -32600"]+count["null -32600"] == 0 {
		r.Errorf("silence for id 4: %v", count)
	}
	arrays := 0
	for _, f := range a.Frames() {
		if f.Error != nil && f.Error.Code == -32600 && bytes.Contains(bytes.ToLower(f.Raw), []byte("batch")) {
			arrays++
		}
	}
	if arrays < 1 {
		r.Errorf("nothing says that batches are not accepted\n%s", a.transcript(10))
	}
}

// C05: a line of 14 MB, and one that never ends.
func c05(r *run) {
	r.play(5)
	a := r.ed("A")
	// The first answer of a session tells who speaks; the image is quoted with
	// its size, so nothing of it was lost.
	if s := a.said(r.vars["$S"]); !strings.Contains(s, "seen") {
		r.Errorf("A was told %q", s)
	}
	b := r.ed("B")
	b.initialize()
	r.skip(1, "B is at hand already")
	before := memory(r.daemon.Cmd.Process.Pid)
	r.skip(2, "with the flood beside A's request, and less of it: thrice the cap")
	flooded := make(chan error, 1)
	go func() {
		_, err := b.WriteUnseen([]byte(`{"jsonrpc":"2.0","id":1,"method":"session/list","params":{"x":"`))
		block := bytes.Repeat([]byte("a"), 1<<20)
		for i := 0; i < 200 && err == nil; i++ {
			_, err = b.WriteUnseen(block)
		}
		if err == nil {
			_, err = b.WriteUnseen([]byte("\"}}\n"))
		}
		flooded <- err
	}()
	// A is served while B floods, and the daemon stays of a size.
	for done := false; !done; {
		select {
		case err := <-flooded:
			if err != nil {
				r.Logf("B was closed: %v", err)
			}
			done = true
		default:
			began := time.Now()
			a.settle()
			if took := time.Since(began); took > 5*time.Second {
				r.Errorf("A waited %v while B flooded", took)
			}
			grown := memory(r.daemon.Cmd.Process.Pid) - before
			if limit := int64(200 << 20); grown > limit && !daemontest.Race {
				r.Fatalf("the daemon grew by %d MiB", grown>>20)
			}
		}
	}
	r.play(1) // A's id 3
	a.await(responseTo(3), patience)
	f := b.await(func(f daemontest.Frame) bool { return f.IsResponse() && string(f.ID) == "null" }, patience)
	r.wantCode(f, -32600, -32700)
	b.settle() // its connection lives
}

// C07: characters that arrive in pieces, here from the editor.
func c07(r *run) {
	r.play(2)
	a, s := r.ed("A"), r.vars["$S"]
	r.skip(4, "the built-in agent says what the prompt says, which is written byte by byte")
	const want = "日本 👩\u200d🚀 é\u0301 end"
	line := fmt.Sprintf(`{"jsonrpc":"2.0","id":2,"method":"session/prompt","params":{"sessionId":%q,"prompt":[{"type":"text","text":"say %s"}]}}`+"\n", s, want)
	a.tap(line)
	for i := range len(line) {
		if _, err := a.WriteUnseen([]byte(line[i : i+1])); err != nil {
			r.Fatal(err)
		}
		time.Sleep(200 * time.Microsecond) // so that the pieces are read apart
	}
	r.wantStop(a.await(responseTo(2), patience), "end_turn")
	if got := a.said(s); !strings.HasSuffix(got, want) {
		r.Errorf("A was told %q, want %q at its end", got, want)
	}
	r.restart()
	b := r.ed("B")
	b.initialize()
	b.load(s, r.home.Work)
	if got := b.said(s); !strings.HasSuffix(got, want) {
		r.Errorf("the replay says %q, want %q at its end", got, want)
	}
	if got := said(b.updates(s, 0), "user_message_chunk"); got != "say "+want {
		r.Errorf("the replay of the prompt says %q", got)
	}
	for _, f := range b.Frames() {
		if bytes.ContainsRune(f.Raw, '\uFFFD') {
			r.Errorf("a character was broken: %s", f.Raw)
		}
	}
}

// C09: half a surrogate pair, bytes that are no UTF-8.
func c09(r *run) {
	r.play(2)
	a, s := r.ed("A"), r.vars["$S"]
	r.skip(1, "the offline model quotes the prompt")
	r.play(2) // id 2 with its answer
	r.wantStop(a.only(2), "end_turn")
	if got := a.said(s); !strings.Contains(got, "cut \uFFFD here") {
		r.Errorf("the model saw %q, want the half pair replaced", got)
	}
	from := len(a.Frames())
	r.play(2)
	f := a.await(func(f daemontest.Frame) bool {
		return f.IsResponse() && (string(f.ID) == "3" || string(f.ID) == "null")
	}, patience)
	r.wantCode(f, 0, -32700, -32602)
	f = a.await(func(f daemontest.Frame) bool { return f.IsResponse() && string(f.ID) == "null" }, patience)
	r.wantCode(f, -32700)
	if f.Error == nil || len(a.Frames()) < from+2 {
		r.Errorf("a line that is one bad byte\n%s", a.transcript(5))
	}
	r.play(3)
	r.wantStop(a.only(4), "end_turn")
	if got := a.said(s); !strings.HasSuffix(got, "two") {
		r.Errorf("after the bad bytes A was told %q", got)
	}
	// What is stored is Unicode too: another editor gets no half pair.
	b := r.ed("B")
	b.initialize()
	b.load(s, r.home.Work)
	for _, f := range b.Frames() {
		if bytes.Contains(bytes.ToLower(f.Raw), []byte(`\ud83d here`)) {
			r.Errorf("half a pair was handed on: %s", f.Raw)
		}
	}
	if got := said(b.updates(s, 0), "user_message_chunk"); !strings.Contains(got, "cut \uFFFD here") {
		r.Errorf("the replayed prompt says %q", got)
	}
	// Long output that is cut stays whole characters: all frames are UTF-8 and
	// hold no half pair, which is checked of every line; here a long one.
	a.mode(s, "dont_ask")
	mark := len(a.Frames())
	if got := a.prompt(s, "run for i in $(seq 40000); do printf '日本👩'; done"); got != "end_turn" {
		r.Errorf("long output ended with %q", got)
	}
	for _, f := range a.Frames()[mark:] {
		if i := bytes.IndexRune(f.Raw, '\uFFFD'); i >= 0 {
			r.Errorf("cut in the middle of a character: %.200s", f.Raw[max(0, i-100):])
		}
	}
}

// C10: ids of every kind.
func c10(r *run) {
	r.rest()
	a := r.ed("A")
	for _, id := range []string{`"req-a1"`, `0`, `""`, `"0"`, `-7`} {
		want := 1
		if id == "0" {
			want = 2 // initialize had it too
		}
		var got []daemontest.Frame
		for range 2 {
			a.settle()
			got = got[:0]
			for _, f := range a.Frames() {
				if f.IsResponse() && string(f.ID) == id {
					got = append(got, f)
				}
			}
		}
		if len(got) != want || got[len(got)-1].Error != nil {
			r.Errorf("the id %s got %d answers, want %d\n%s", id, len(got), want, a.transcript(12))
		}
	}
	var null []string
	for _, f := range a.Frames() {
		if f.IsResponse() && string(f.ID) == "null" {
			null = append(null, fmt.Sprint(code(f)))
		}
	}
	// One for the id null (a result or -32600), two for the object and the boolean.
	if len(null) != 3 || strings.Count(strings.Join(null, " "), "-32600") < 2 {
		r.Errorf("ids null, object and boolean were answered with the codes %v, want three with at least two -32600", null)
	}
}

// C12: two editors with the same ids, and an id used twice.
func c12(r *run) {
	r.play(4)
	a, b := r.ed("A"), r.ed("B")
	sa, sb := r.vars["$SA"], r.vars["$SB"]
	r.model = []string{"sleep 100ms\nsay for A", "say for B"}
	r.play(2)
	r.skip(5, "the built-in agent answers")
	r.wantStop(b.await(responseTo(5), patience), "end_turn")
	r.wantStop(a.await(responseTo(5), patience), "end_turn")
	if got := a.said(sa); !strings.HasSuffix(got, "for A") {
		r.Errorf("A was told %q", got)
	}
	if got := b.said(sb); !strings.HasSuffix(got, "for B") {
		r.Errorf("B was told %q", got)
	}
	if a.updates(sb, 0) != nil || b.updates(sa, 0) != nil {
		r.Error("a session's updates went to the editor of the other")
	}
	r.rest() // id 6 twice
	a.await(responseTo(6), patience)
	a.await(responseTo(6), patience)
	good, codes := 0, []int{}
	for _, f := range a.responses(6) {
		codes = append(codes, code(f))
		if f.Error == nil {
			good++
		}
	}
	if len(codes) != 2 || good == 0 || (good == 1 && codes[0]+codes[1] != -32600) {
		r.Errorf("id 6 twice was answered with the codes %v", codes)
	}
}

// C13: methods nobody knows.
func c13(r *run) {
	r.play(2)
	a, s := r.ed("A"), r.vars["$S"]
	r.play(5)
	r.wantCode(a.await(responseTo(2), patience), -32601)
	r.wantCode(a.await(responseTo(3), patience), -32601)
	// session/fork is offered here, and these params lack the cwd.
	r.wantCode(a.await(responseTo(4), patience), 0, -32602, -32601)
	a.settle()
	for _, f := range a.Frames() {
		if f.IsResponse() && string(f.ID) == "null" {
			r.Errorf("a notification was answered: %s", f.Raw)
		}
	}
	r.model = []string{"say on"}
	r.play(1)
	r.skip(5, "the part of an external agent")
	r.wantStop(a.await(responseTo(5), patience), "end_turn")
	if got := a.said(s); !strings.HasSuffix(got, "on") {
		r.Errorf("A was told %q", got)
	}
}
