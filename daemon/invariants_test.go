package daemon_test

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/hermesd/hermesd/daemon/daemontest"
	"github.com/hermesd/hermesd/daemon/session"
	"github.com/hermesd/hermesd/transport/acp"
	"github.com/hermesd/hermesd/transport/acpclient"
	"github.com/hermesd/hermesd/transport/jsonrpc"
)

// The nine tests of this file are what hermesd promises. Each is played in
// memory, over a real socket and, where only the outside matters, with real
// processes. Above each stands which break of the product makes it fail; that
// was tried.

// allow answers every question with its first allowing option.
func allow(_ context.Context, q acpclient.Question) (string, error) {
	o, _ := q.Find("allow_once")
	return o.ID, nil
}

// Fails when Block.Frames leaves out the first event of a block.
func TestInvariant1_EveryEditorSeesTheSameEventsInTheSameOrder(t *testing.T) {
	everywhere(t, settings{}, func(t *testing.T, p *place) {
		a := p.editor(acpclient.Options{Permission: allow})
		id := p.newSession(a)
		b, c := p.joined(id, acpclient.Options{}), p.joined(id, acpclient.Options{})
		for i := range 3 {
			if _, err := a.Prompt(within(t), id, fmt.Sprintf("say hello %d\nstream 500 20\nrun echo %d\nstream 50 2000", i, i)); err != nil {
				t.Fatal(err)
			}
		}
		for _, e := range []*acpclient.Client{a, b, c} {
			awaitIdle(t, e, 3)
		}
		story := b.Story(id)
		if len(story.Tools()) != 3 || !strings.Contains(story.Says(acp.AgentMessageChunk), "500..") {
			t.Fatalf("the story is not the one that was told:\n%s", story)
		}
		if err := story.Same(c.Story(id)); err != nil {
			t.Errorf("two that were there: %v", err)
		}
		if err := a.Story(id).Same(story.Without(acp.UserMessageChunk)); err != nil {
			t.Errorf("who asked and who was there: %v", err)
		}
		if err := p.joined(id, acpclient.Options{}).Story(id).Same(story); err != nil {
			t.Errorf("who loads afterwards and who was there: %v", err)
		}
	})
}

// Fails when turnStarted answers the prompt already.
func TestInvariant2_NoUpdateOfATurnFollowsTheResponseToItsPrompt(t *testing.T) {
	everywhere(t, settings{}, func(t *testing.T, p *place) {
		a := p.editor(acpclient.Options{Permission: allow})
		id := p.newSession(a)
		for range 20 {
			if _, err := a.Prompt(within(t), id, "stream 200 16"); err != nil {
				t.Fatal(err)
			}
		}
		roundTrip(t, a)
		open, turns := false, 0
		for _, e := range a.Entries() {
			switch {
			case e.Kind == acpclient.Sent && e.Method == "session/prompt":
				open = true
			case e.Kind == acpclient.Response && e.Method == "session/prompt":
				open = false
				turns++
			case acp.IsChunk(e.Update) && !open:
				t.Fatalf("after the response of turn %d came %s", turns, e.Raw)
			}
		}
		text := message(a.Entries())
		if turns != 20 || strings.Count(text, "200......") != 20 {
			t.Errorf("%d turns were answered, %d streams complete", turns, strings.Count(text, "200......"))
		}
	})
}

// Fails when a cursor begins one event before or behind its snapshot.
func TestInvariant3_AttachingInMidTurnLosesNothingAndDoublesNothing(t *testing.T) {
	everywhere(t, settings{}, func(t *testing.T, p *place) {
		a := p.editor(acpclient.Options{})
		id := p.newSession(a)
		const chunks, last = 6000, "6000...."
		prompt := start(t, a, id, fmt.Sprintf("stream %d 10", chunks))
		var joined []*acpclient.Client
		for running := true; running && len(joined) < 12; {
			e := p.plain(acpclient.Options{}) // no process has to start: many are to come in time
			if _, err := e.Load(within(t), id, p.cwd); err != nil {
				t.Fatal(err)
			}
			joined = append(joined, e)
			select {
			case <-prompt.Done():
				running = false
			default:
			}
		}
		stop(t, prompt)
		t.Logf("%d editors came while the turn ran", len(joined))
		want := a.Story(id).Says(acp.AgentMessageChunk)
		for i, e := range joined {
			await(t, e, "the last chunk", func(n acpclient.Entry) bool { return strings.Contains(textOf(n), last) })
			if got := message(e.Entries()); got != want {
				t.Errorf("editor %d was told %d bytes, should be %d", i, len(got), len(want))
			}
		}
	})
}

// Fails when the pump does not wait for room in the connection's queue: then
// the connection is closed, or, with a larger queue, the memory grows.
func TestInvariant4_AReaderThatNeverReadsCostsTheOthersNothingAndAFixedAmountOfMemory(t *testing.T) {
	everywhere(t, settings{usual: true}, func(t *testing.T, p *place) {
		var mu sync.Mutex
		said := 0
		a := p.editor(acpclient.Options{Forget: true, Received: func(e acpclient.Entry) {
			if e.Update == acp.AgentMessageChunk {
				mu.Lock()
				said += len(textOf(e))
				mu.Unlock()
			}
		}})
		id := p.newSession(a)
		silent, lines := p.dial(), (*bufio.Reader)(nil)
		t.Cleanup(func() { silent.Close() })
		sent := make(chan error, 1)
		go func() {
			_, err := fmt.Fprintf(silent, `{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":1}}
{"jsonrpc":"2.0","id":2,"method":"session/load","params":{"sessionId":%q,"cwd":%q,"mcpServers":[]}}
`, id, p.cwd)
			sent <- err
		}()
		lines = bufio.NewReaderSize(silent, 64<<10)
		for {
			line, err := lines.ReadString('\n')
			if err != nil {
				t.Fatal(err)
			}
			if strings.Contains(line, `"id":2`) {
				break // and from here on it reads nothing
			}
		}
		if err := <-sent; err != nil {
			t.Fatal(err)
		}
		const size = 16 << 10
		chunks := p.chunks
		before := p.memory(a)
		ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
		defer cancel()
		if _, err := a.Prompt(ctx, id, fmt.Sprintf("stream %d %d", chunks, size)); err != nil {
			t.Fatal(err)
		}
		grown := p.memory(a) - before
		for grown > p.bound && ctx.Err() == nil { // what waits for the database goes soon
			time.Sleep(10 * time.Millisecond)
			grown = p.memory(a) - before
		}
		mu.Lock()
		t.Logf("%d MiB were streamed, the memory grew by %d KiB", said>>20, grown>>10)
		if said < chunks*size {
			t.Errorf("the reader that reads was told %d bytes", said)
		}
		mu.Unlock()
		if grown > p.bound {
			t.Errorf("the memory grew by %d MiB", grown>>20)
		}
		// When it reads again it is told everything.
		text := 0
		for text < chunks*size {
			line, err := lines.ReadBytes('\n')
			if err != nil {
				t.Fatalf("after %d bytes of text: %v", text, err)
			}
			params, _ := acp.Get(line, "params")
			u, _ := acp.Get(params, "update")
			if acp.UpdateKind(u) == acp.AgentMessageChunk {
				text += len(textOf(acpclient.Entry{Raw: u}))
			}
		}
	})
}

// Fails when publish does not look at written (order), and when mustSync leaves
// out TurnEnded (power). The part kill fails when a log of the store says
// Written and has dropped the events.
func TestInvariant5_WhatAnEditorHasBeenToldIsNotTakenBack(t *testing.T) {
	t.Run("kill", func(t *testing.T) {
		everywhere(t, settings{}, func(t *testing.T, p *place) {
			a := p.plain(acpclient.Options{})
			id := p.newSession(a)
			if _, err := a.Prompt(within(t), id, "say first"); err != nil {
				t.Fatal(err)
			}
			start(t, a, id, "stream 100000 30")
			await(t, a, "some of the stream", func(e acpclient.Entry) bool { return strings.Contains(textOf(e), "300....") })
			told := a.Story(id)
			p.crash(true)
			b := p.plain(acpclient.Options{})
			if _, err := b.Load(within(t), id, p.cwd); err != nil {
				t.Fatal(err)
			}
			if err := told.BeginningOf(b.Story(id).Without(acp.UserMessageChunk)); err != nil {
				t.Errorf("what was told before the crash: %v", err)
			}
		})
	})
	t.Run("power", func(t *testing.T) {
		// The power of real processes can't be cut.
		everywhere(t, settings{agent: reader(new(counter))}, func(t *testing.T, p *place) {
			a := p.plain(acpclient.Options{Permission: allow})
			id := p.newSession(a)
			if err := a.SetMode(within(t), id, "two"); err != nil {
				t.Fatal(err)
			}
			for i := range 5 {
				if _, err := a.Prompt(within(t), id, fmt.Sprintf("run echo %d\nsay turn %d", i, i)); err != nil {
					t.Fatal(err)
				}
			}
			told := a.Story(id)
			p.crash(false)
			b := p.plain(acpclient.Options{})
			s, err := b.Load(within(t), id, p.cwd)
			if err != nil {
				t.Fatal(err)
			}
			if err := told.Same(b.Story(id).Without(acp.UserMessageChunk)); err != nil {
				t.Errorf("five turns that were answered: %v", err)
			}
			if !strings.Contains(string(raw(t, s)), `"two"`) {
				t.Errorf("a mode that was acknowledged is gone: %s", raw(t, s))
			}
		})
	})
	t.Run("order", func(t *testing.T) { writtenBeforeTold(t) })
}

func textOf(e acpclient.Entry) string {
	content, _ := acp.Get(e.Raw, "content")
	text, _ := acp.GetString(content, "text")
	return text
}

// strange are updates of a version that we do not know yet.
var strange = []string{
	`{"sessionUpdate":"hologram","depth":3,"_meta":{"x":[1,2,{"y":null}]}}`,
	`{ "sessionUpdate" : "agent_message_chunk" , "content":{"type":"text","text":"a\u00e9\ud83d\ude00\/"},"messageId":"m","unknown":{"deep":[true,false,null]} }`,
	`{"sessionUpdate":"hologram","big":123456789012345678901234567890,"float":1.0,"exp":1e400,"neg":-0}`,
	`{"sessionUpdate":"tool_call","toolCallId":"t","title":"T","kind":"kind_of_tomorrow","status":"status_of_tomorrow","extra":{"n":9007199254740993}}`,
	`{"sessionUpdate":"agent_message_chunk","content":{"type":"hologram","data":"<&>\u2028"},"_meta":{"vendor/x":{"a":1}}}`,
	`{"content":{"text":"kind comes last","type":"text","annotations":{"audience":["user"]}},"sessionUpdate":"agent_thought_chunk"}`,
	`{"sessionUpdate":"hologram","sessionUpdate2":"agent_message_chunk","dup":1,"dup":2}`,
}

// Fails when Project drops kinds it does not know, and when AppendUpdateFrame
// encodes the update anew.
func TestInvariant6_WhatWeDoNotUnderstandReachesTheEditorUnchanged(t *testing.T) {
	agent := &daemontest.Script{Turn: func(ctx context.Context, st *daemontest.Stage) (session.TurnResult, error) {
		for _, u := range strange {
			if err := st.Update(ctx, []byte(u)); err != nil {
				return session.TurnResult{}, err
			}
		}
		return session.TurnResult{StopReason: "reason_of_tomorrow", Usage: json.RawMessage(`{"totalTokens":9007199254740993,"x":1.0}`), Meta: json.RawMessage(`{"v":{"big":12345678901234567890}}`)}, nil
	}}
	everywhere(t, settings{agent: agent}, func(t *testing.T, p *place) {
		a := p.editor(acpclient.Options{})
		id := p.newSession(a)
		b := p.joined(id, acpclient.Options{})
		c, err := a.StartPrompt(id, "x")
		if err != nil {
			t.Fatal(err)
		}
		res, err := c.Wait(within(t))
		if err != nil {
			t.Fatal(err)
		}
		for _, want := range []string{`"reason_of_tomorrow"`, `{"totalTokens":9007199254740993,"x":1.0}`, `12345678901234567890`} {
			if !bytes.Contains(res, []byte(want)) {
				t.Errorf("the answer %s lacks %s", res, want)
			}
		}
		awaitIdle(t, b, 1)
		unchanged(t, "live, asking", a, strange)
		unchanged(t, "live, observing", b, strange)
		// A replay joins and completes what it knows: messages and calls.
		unchanged(t, "replayed", p.joined(id, acpclient.Options{}), []string{strange[0], strange[2], strange[4], strange[6]})
	})
}

// unchanged checks that e was sent each update byte for byte, in this order.
func unchanged(t *testing.T, who string, e *acpclient.Client, want []string) {
	t.Helper()
	for _, n := range e.Entries() {
		if len(want) > 0 && n.Kind == acpclient.Update && string(n.Raw) == want[0] {
			want = want[1:]
		}
	}
	if len(want) > 0 {
		t.Errorf("%s: was not sent, or not in its place: %s", who, want[0])
	}
}

// Fails when detach cancels the turn.
func TestInvariant7_ClosingAConnectionCancelsNothing(t *testing.T) {
	everywhere(t, settings{}, func(t *testing.T, p *place) {
		a := p.editor(acpclient.Options{})
		id := p.newSession(a)
		start(t, a, id, "say begun\nsleep 300ms\nsay done")
		start(t, a, id, "say queued")
		awaitText(t, a, "begun")
		a.Close()
		b := p.joined(id, acpclient.Options{})
		await(t, b, "the queued prompt's turn", func(e acpclient.Entry) bool { return strings.Contains(textOf(e), "queued") })
		if text := message(b.Entries()); !strings.Contains(text, "done") {
			t.Errorf("the turn of a closed connection said %q", text)
		}
		// What does cancel: cancel, close by the last who is there and started
		// it, deletion.
		for _, end := range []func() error{
			func() error { return b.Cancel(id) },
			func() error { return b.CloseSession(within(t), id) },
			func() error { return b.Delete(within(t), id) },
		} {
			if _, err := b.Load(within(t), id, p.cwd); err != nil {
				t.Fatal(err)
			}
			n := b.Len()
			c := start(t, b, id, "say long\nsleep 1h")
			if _, err := b.Await(within(t), n, func(e acpclient.Entry) bool { return strings.Contains(textOf(e), "long") }); err != nil {
				t.Fatal(err)
			}
			if err := end(); err != nil {
				t.Fatal(err)
			}
			if got := stop(t, c); got != "cancelled" {
				t.Errorf("answered %s", got)
			}
		}
	})
}

// Fails when the time limit selects an option or counts as a refusal, when it
// runs without anybody having been asked, and when NotOffered counts as
// selected.
func TestInvariant8_AQuestionIsNeverAnsweredBySilence(t *testing.T) {
	asked := func(t *testing.T, e *acpclient.Client) string { return awaitQuestion(t, e).ID }
	for _, c := range []struct {
		name string
		s    settings
		// play does what an editor does with a question; b is a second editor.
		play    func(t *testing.T, a, b *acpclient.Client)
		outcome session.Outcome
	}{
		{"nobody answers in time", settings{timeout: 50 * time.Millisecond}, func(*testing.T, *acpclient.Client, *acpclient.Client) {}, session.TimedOut},
		{"all dismiss", settings{}, func(t *testing.T, a, b *acpclient.Client) {
			for _, e := range []*acpclient.Client{a, b} {
				if err := e.Answer(asked(t, e), ""); err != nil {
					t.Error(err)
				}
			}
		}, session.Dismissed},
		{"nobody could", settings{}, func(t *testing.T, a, b *acpclient.Client) {
			for i, e := range []*acpclient.Client{a, b} {
				if err := e.AnswerRaw(asked(t, e), nil, &jsonrpc.Error{Code: []int{-32601, -32603}[i], Message: "no"}); err != nil {
					t.Error(err)
				}
			}
		}, session.NobodyCould},
		{"nonsense is no answer", settings{}, func(t *testing.T, a, b *acpclient.Client) {
			for i, e := range []*acpclient.Client{a, b} {
				if err := e.AnswerRaw(asked(t, e), json.RawMessage([]string{`{"outcome":{"outcome":"approved"}}`, `null`}[i]), nil); err != nil {
					t.Error(err)
				}
			}
		}, session.NobodyCould},
		{"not offered", settings{}, func(t *testing.T, a, b *acpclient.Client) {
			if err := b.Answer(asked(t, b), "whatever"); err != nil {
				t.Error(err)
			}
		}, session.NotOffered},
		{"nobody is there, which counts as no", settings{deny: true}, func(t *testing.T, a, b *acpclient.Client) {
			asked(t, a)
			a.Close()
			b.Close()
		}, session.NobodyThere},
		{"the turn is cancelled", settings{}, func(t *testing.T, a, b *acpclient.Client) {
			id := asked(t, a)
			s := awaitQuestion(t, a).Session
			if err := a.Cancel(s); err != nil {
				t.Error(err)
			}
			await(t, a, "the withdrawal", func(e acpclient.Entry) bool { return e.Kind == acpclient.Withdrawn && e.ID == id })
		}, session.Cancelled},
		{"later, and then no answer of the other", settings{timeout: 50 * time.Millisecond}, func(t *testing.T, a, b *acpclient.Client) {
			// later stops the clock: only the answer of the other ends it
			later(t, a, asked(t, a))
			if err := b.Answer(asked(t, b), "no"); err != nil {
				t.Error(err)
			}
		}, ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			var mu sync.Mutex
			var got []session.Answer
			answered := make(chan struct{}, 8)
			s := c.s
			s.agent = &daemontest.Script{Turn: func(ctx context.Context, st *daemontest.Stage) (session.TurnResult, error) {
				a, err := st.Permit(ctx, "launch")
				mu.Lock()
				got = append(got, a)
				mu.Unlock()
				answered <- struct{}{}
				return session.TurnResult{}, err
			}}
			everywhere(t, s, func(t *testing.T, p *place) {
				a := p.editor(acpclient.Options{})
				id := p.newSession(a)
				b := p.joined(id, acpclient.Options{})
				start(t, a, id, "x")
				c.play(t, a, b)
				select {
				case <-answered:
				case <-within(t).Done():
					t.Fatal("the question does not end")
				}
				mu.Lock()
				defer mu.Unlock()
				last := got[len(got)-1]
				if last.Allowed() {
					t.Errorf("allowed: %+v", last)
				}
				if c.outcome != "" && (last.Outcome != c.outcome || last.Option.ID != "") {
					t.Errorf("ended as %s %q, should be %s", last.Outcome, last.Option.ID, c.outcome)
				}
			})
		})
	}
	t.Run("nobody is there: it waits, and is put to who comes", func(t *testing.T) {
		const limit = 50 * time.Millisecond
		everywhere(t, settings{timeout: limit}, func(t *testing.T, p *place) {
			a := p.editor(acpclient.Options{})
			id := p.newSession(a)
			start(t, a, id, "sleep 200ms\nrun echo hello") // the question comes when a has gone
			await(t, a, "the turn", func(e acpclient.Entry) bool { return strings.Contains(string(e.Raw), `"state":"running"`) })
			a.Close()
			// It stands there for far more than the limit, which does not run:
			// nobody has been asked.
			cmd := p.editor(acpclient.Options{})
			ctx := within(t)
			for seen := false; ; {
				var res struct {
					Questions []struct {
						AskedAt time.Time `json:"askedAt"`
					} `json:"questions"`
				}
				if err := cmd.Call(ctx, "_hermes/permissions/list", nil, &res); err != nil {
					t.Fatal(err)
				}
				if len(res.Questions) == 0 && seen {
					t.Fatal("the question is gone")
				}
				if len(res.Questions) == 1 {
					if seen = true; time.Since(res.Questions[0].AskedAt) > 4*limit {
						break
					}
				}
			}
			b := p.joined(id, acpclient.Options{Permission: allow})
			awaitIdle(t, b, 1)
			if tools := b.Story(id).Tools(); len(tools) != 1 || !strings.Contains(string(tools[0].JSON), `"completed"`) {
				t.Errorf("the call that was allowed: %v", tools)
			}
		})
	})
}

func later(t *testing.T, e *acpclient.Client, q string) {
	t.Helper()
	if err := e.AnswerRaw(q, json.RawMessage(`{"outcome":{"outcome":"cancelled"},"_meta":{"hermes":{"later":true}}}`), nil); err != nil {
		t.Error(err)
	}
}

// Fails when recover does not end the open calls, and when it starts what was
// queued.
func TestInvariant9_AfterACrashAnInterruptedActionIsUnknownAndNotRunAgain(t *testing.T) {
	t.Run("scripted", func(t *testing.T) {
		runs, turns := new(counter), new(counter)
		agent := reader(runs)
		play := agent.Turn
		agent.Turn = func(ctx context.Context, st *daemontest.Stage) (session.TurnResult, error) {
			turns.add()
			return play(ctx, st)
		}
		everywhere(t, settings{agent: agent}, func(t *testing.T, p *place) {
			before, turned := runs.is(), turns.is()
			a := p.plain(acpclient.Options{})
			id := p.newSession(a)
			start(t, a, id, "work launch")
			start(t, a, id, "work again") // waits
			await(t, a, "the call", func(e acpclient.Entry) bool { return strings.Contains(string(e.Raw), "in_progress") })
			ctx := within(t)
			for runs.is() == before && ctx.Err() == nil {
				roundTrip(t, a)
			}
			p.crash(false)
			b := p.plain(acpclient.Options{})
			if _, err := b.Load(within(t), id, p.cwd); err != nil {
				t.Fatal(err)
			}
			interrupted(t, b.Story(id))
			roundTrip(t, b)
			if n := runs.is() - before; n != 1 {
				t.Errorf("the action ran %d times", n)
			}
			if n := turns.is() - turned; n != 1 {
				t.Errorf("%d turns began, should be the interrupted one", n)
			}
		})
	})
	t.Run("run", func(t *testing.T) {
		outside(t, settings{}, func(t *testing.T, p *place) {
			a := p.plain(acpclient.Options{Permission: allow})
			id := p.newSession(a)
			marker := filepath.Join(p.cwd, "marker")
			start(t, a, id, "run echo x >> marker; sleep 600")
			ctx := within(t)
			for ctx.Err() == nil {
				if b, err := os.ReadFile(marker); err == nil && len(b) > 0 {
					break
				}
				time.Sleep(time.Millisecond)
			}
			p.crash(true)
			b := p.plain(acpclient.Options{})
			if _, err := b.Load(within(t), id, p.cwd); err != nil {
				t.Fatal(err)
			}
			interrupted(t, b.Story(id))
			if _, err := b.Prompt(within(t), id, "say alive"); err != nil {
				t.Fatal(err)
			}
			if m, err := os.ReadFile(marker); err != nil || string(m) != "x\n" {
				t.Errorf("the action ran again: %q, %v", m, err)
			}
		})
	})
}

func interrupted(t *testing.T, s acpclient.Story) {
	t.Helper()
	tools := s.Tools()
	if len(tools) != 1 {
		t.Fatalf("%d calls in the story:\n%s", len(tools), s)
	}
	if call := string(tools[0].JSON); !strings.Contains(call, `"status":"failed"`) || !strings.Contains(call, "unknown") {
		t.Errorf("the interrupted call is told as %s", call)
	}
}

// writtenBeforeTold holds the disk: nobody is told what it does not have.
func writtenBeforeTold(t *testing.T) {
	p := inProcess(t, settings{}, false)
	a := p.editor(acpclient.Options{})
	id := p.newSession(a)
	b := p.joined(id, acpclient.Options{})
	free := p.stall()
	t.Cleanup(free)
	call := start(t, a, id, "say secret")
	for range 50 {
		roundTrip(t, a)
		roundTrip(t, b)
	}
	for _, e := range []*acpclient.Client{a, b} {
		for _, n := range e.Entries() {
			if n.Kind != acpclient.Sent && strings.Contains(string(n.Raw), "secret") {
				t.Errorf("was told what is not written: %s", n.Raw)
			}
		}
	}
	free()
	if got := stop(t, call); got != "end_turn" {
		t.Errorf("answered %s", got)
	}
	awaitText(t, b, "secret")
}
