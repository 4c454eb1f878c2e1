package session

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/hermesd/hermesd/transport/acp"
	"pgregory.net/rapid"
)

// readAll reads from c until head and gives the events one by one.
func readAll(t rapid.TB, c *Cursor, head, limit Seq) []Event {
	var all []Event
	for c.Pos() < head {
		before := c.Pos()
		p, err := c.Next(context.Background(), limit)
		if err != nil {
			t.Fatalf("after %d: %v", before, err)
		}
		if p.Last != c.Pos() || c.Pos() <= before || limit != 0 && c.Pos() > limit {
			t.Fatalf("a page ends at %d, the cursor stands at %d, it stood at %d, limit %d", p.Last, c.Pos(), before, limit)
		}
		if p.Block != nil {
			for _, e := range p.Block.Events {
				if e.Seq >= p.From {
					all = append(all, e)
				}
			}
			continue
		}
		for _, r := range p.Records {
			all = append(all, r.Events()...)
		}
	}
	return all
}

func eventsEqual(got, want []Event) error {
	if len(got) != len(want) {
		return fmt.Errorf("%d events, should be %d", len(got), len(want))
	}
	for i := range got {
		g, w := got[i], want[i]
		if g.Seq != w.Seq || g.Kind != w.Kind || g.Version != w.Version || !bytes.Equal(g.Data, w.Data) {
			return fmt.Errorf("event %d is %d %s %s, should be %d %s %s", i, g.Seq, g.Kind, g.Data, w.Seq, w.Kind, w.Data)
		}
	}
	return nil
}

// A cursor that starts anywhere, lags as far as it likes and stops at any limit
// reads every event once, in order, byte for byte.
func TestACursorReadsEveryEventOnceWhereverItStands(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		texts := rapid.SliceOfN(rapid.StringMatching(`[a-z"\\é]{0,12}`), 1, 60).Draw(rt, "texts")
		tailBytes := rapid.SampledFrom([]int{0, 300, 1500, 1 << 20}).Draw(rt, "tail")
		ids := rapid.SliceOfN(rapid.SampledFrom([]string{"m1", "m1", "m1", "m2"}), len(texts), len(texts)).Draw(rt, "ids")
		breath := rapid.SliceOfN(rapid.Bool(), len(texts), len(texts)).Draw(rt, "breath")
		from := rapid.Uint64Range(0, uint64(len(texts))).Draw(rt, "from")
		limit := rapid.Uint64Range(0, uint64(len(texts))).Draw(rt, "limit")
		var failure error
		synctest.Test(t, func(t *testing.T) {
			ag := &fakeAgents{turn: func(ctx context.Context, h Host, _ Turn) (TurnResult, error) {
				for i, text := range texts {
					if err := h.Update(ctx, chunkUpdate(ids[i], text)); err != nil {
						return TurnResult{}, err
					}
					if breath[i] {
						time.Sleep(time.Millisecond)
					}
				}
				return TurnResult{}, nil
			}}
			w := &world{t: t, cfg: DefaultConfig(), st: newFakeStore(), ag: ag}
			w.cfg.TailBytes = tailBytes
			w.s = w.make("s1")
			w.prompt("a", "1")
			sleep(100 * time.Millisecond)
			want := append([]Event(nil), w.st.log("s1").events...)
			head := Seq(len(want))
			c := &Cursor{s: w.s, pos: Seq(from)}
			var got []Event
			if Seq(limit) > c.Pos() {
				got = readAll(rt, c, Seq(limit), Seq(limit))
			}
			got = append(got, readAll(rt, c, head, 0)...)
			failure = eventsEqual(got, want[from:])
			if used := w.s.credit.used; used != 0 && failure == nil {
				failure = fmt.Errorf("%d bytes of credit are still taken", used)
			}
			w.stop(w.s)
		})
		if failure != nil {
			rt.Fatal(failure)
		}
	})
}

func TestACursorWaitsForWhatComesAndEndsWithTheSession(t *testing.T) {
	inWorld(t, &fakeAgents{}, nil, func(t *testing.T, w *world) {
		_, c := w.attach("a")
		if _, ready := c.Ready(); ready {
			t.Error("ready, though nothing has come")
		}
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		if _, err := c.Next(ctx, 0); !errors.Is(err, context.Canceled) {
			t.Errorf("a cancelled Next gives %v", err)
		}
		got := make(chan error, 1)
		go func() {
			_, err := c.Next(t.Context(), 0)
			got <- err
		}()
		synctest.Wait()
		w.prompt("a", "1")
		if err := <-got; err != nil {
			t.Error(err)
		}
		readAll(t, c, w.st.log("s1").Head(), 0)
		w.s.Stop(time.Minute)
		if _, err := c.Next(t.Context(), 0); !errors.Is(err, ErrClosed) {
			t.Errorf("after the end a cursor gets %v", err)
		}
	})
}

// What may not be taken back is not shown before it can't be.
func TestPublishedIsWrittenAndWhatIsActedOnIsDurable(t *testing.T) {
	ag := &fakeAgents{turn: func(ctx context.Context, h Host, _ Turn) (TurnResult, error) {
		return TurnResult{}, h.Update(ctx, chunkUpdate("m", "x"))
	}}
	inWorld(t, ag, nil, func(t *testing.T, w *world) {
		l := w.st.log("s1")
		hold := func(held bool) {
			w.st.mu.Lock()
			w.st.held = held
			w.st.mu.Unlock()
		}
		hold(true)
		_, c := w.attach("a")
		w.prompt("a", "1")
		at := c.Pos()
		if head := w.s.tail.headNow(); head != at {
			t.Errorf("events up to %d are shown and not written", head)
		}
		l.write()
		synctest.Wait()
		end := l.Head()
		if e := l.events[end-1]; e.Kind != KindTurnEnded {
			t.Fatalf("the last event is %s", e.Kind)
		}
		if head := w.s.tail.headNow(); head != end-1 {
			t.Errorf("events up to %d of %d are shown; all but the end of the turn should be", head, end)
		}
		if snap := w.snapshot(); snap.Turn == nil {
			t.Error("a snapshot knows of a turn's end that a power cut can take back")
		}
		hold(false)
		l.sync()
		synctest.Wait()
		if head := w.s.tail.headNow(); head != end {
			t.Errorf("events up to %d of %d are shown", head, end)
		}
	})
}

func TestABarrierReturnsWhenEverythingIsDurable(t *testing.T) {
	inWorld(t, &fakeAgents{}, nil, func(t *testing.T, w *world) {
		w.st.mu.Lock()
		w.st.held = true
		w.st.mu.Unlock()
		h := w.ag.last()
		passed := false
		go func() {
			_ = h.Update(t.Context(), chunkUpdate("m", "x"))
			if err := h.Barrier(t.Context()); err != nil {
				t.Error(err)
			}
			passed = true
		}()
		synctest.Wait()
		l := w.st.log("s1")
		l.write()
		synctest.Wait()
		if passed {
			t.Error("passed before the sync")
		}
		w.st.mu.Lock()
		w.st.held = false
		w.st.mu.Unlock()
		l.sync()
		synctest.Wait()
		if !passed {
			t.Error("did not pass after the sync")
		}
	})
}

func TestAStoreThatFailsRefusesPromptsAndLosesNothing(t *testing.T) {
	inWorld(t, &fakeAgents{}, nil, func(t *testing.T, w *world) {
		l := w.st.log("s1")
		l.sink.Failed(errors.New("disk full"))
		w.prompt("a", "1")
		if len(w.refused) != 1 || !strings.Contains(w.refused[0], "disk full") {
			t.Errorf("refused: %q", w.refused)
		}
		l.sink.Failed(nil)
		w.prompt("a", "2")
		w.expect("admitted a/2", "started a/2", "ended a/2 end_turn")
	})
}

func TestAnAgentAheadOfTheDiskIsHeldBackAndNobodyElse(t *testing.T) {
	said := 0
	ag := &fakeAgents{turn: func(ctx context.Context, h Host, _ Turn) (TurnResult, error) {
		for range 100 {
			if err := h.Update(ctx, chunkUpdate("m", strings.Repeat("x", 1000))); err != nil {
				return TurnResult{}, err
			}
			said++
		}
		return TurnResult{}, nil
	}}
	inWorld(t, ag, func(c *Config) { c.MaxUnwritten = 10_000 }, func(t *testing.T, w *world) {
		w.st.mu.Lock()
		w.st.held = true
		w.st.mu.Unlock()
		w.prompt("a", "1")
		if said < 5 || said > 10 {
			t.Errorf("%d kB said ahead of the disk, 10 are allowed", said)
		}
		w.snapshot() // the session itself goes on
		w.st.mu.Lock()
		w.st.held = false
		w.st.mu.Unlock()
		w.st.log("s1").write()
		w.st.log("s1").sync()
		synctest.Wait()
		if said != 100 {
			t.Errorf("%d of 100 said after the disk was back", said)
		}
	})
}

func TestCreditTakesWhatIsTooLargeWhenNothingElseIsOut(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := credit{max: 10}
		if err := c.take(t.Context(), 100); err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithCancel(t.Context())
		got := make(chan error, 2)
		go func() { got <- c.take(ctx, 1) }()
		synctest.Wait()
		cancel()
		if err := <-got; !errors.Is(err, context.Canceled) {
			t.Errorf("a cancelled take gives %v", err)
		}
		go func() { got <- c.take(t.Context(), 1) }()
		synctest.Wait()
		c.release(100)
		if err := <-got; err != nil {
			t.Error(err)
		}
		go func() { got <- c.take(t.Context(), 10) }()
		synctest.Wait()
		c.close()
		if err := <-got; !errors.Is(err, ErrClosed) {
			t.Errorf("a take of a closed credit gives %v", err)
		}
	})
}

// An update that arrives in the moment in which the session gives back its
// memory is kept.
func TestGivingBackMemoryLosesNothing(t *testing.T) {
	inWorld(t, &fakeAgents{}, nil, func(t *testing.T, w *world) {
		sleep(2 * w.cfg.TrimAfter)
		hold := make(chan struct{})
		w.s.post(func() { <-hold }, nil)
		synctest.Wait()
		if err := w.ag.last().Update(t.Context(), chunkUpdate("m", "x")); err != nil {
			t.Fatal(err)
		}
		w.s.post(w.s.rest, nil)
		close(hold)
		synctest.Wait()
		w.prompt("a", "1")
		w.expect("update "+string(chunkUpdate("m", "x")), "admitted a/1", "started a/1", "ended a/1 end_turn")
	})
}

// Who comes in the moment in which an idle session leaves memory is served.
func TestAnIdleSessionDoesNotLeaveUnderAVisitor(t *testing.T) {
	inWorld(t, &fakeAgents{}, func(c *Config) { c.IdleAfter = time.Minute }, func(t *testing.T, w *world) {
		sleep(59 * time.Second)
		hold := make(chan struct{})
		w.s.post(func() { <-hold }, nil)
		sleep(2 * time.Second) // the timer has posted what ends it
		ok := false
		w.s.Attach(fakeEditor("a"), func(Snapshot, *Cursor) { ok = true }, func(err error) { t.Errorf("attaching: %v", err) })
		close(hold)
		synctest.Wait()
		if !ok {
			t.Fatal("the editor was not attached")
		}
		sleep(time.Hour)
		if w.s.Leaving() {
			t.Error("it left with an editor attached")
		}
		w.s.Detach("a")
		sleep(2 * time.Minute)
		<-w.s.Done()
		w.s = Open("s1", w.cfg, w.st, w.ag, w.s.Done())
		w.prompt("a", "1")
		w.expect("admitted a/1", "started a/1", "ended a/1 end_turn")
	})
}

// A crash leaves a running turn, a queue, a question and a tool call. The next
// life says so, and runs none of it.
func TestWhatACrashInterruptedIsReportedAndNotRunAgain(t *testing.T) {
	ran := 0
	ag := &fakeAgents{turn: func(ctx context.Context, h Host, _ Turn) (TurnResult, error) {
		ran++
		if err := h.Update(ctx, []byte(`{"sessionUpdate":"tool_call","toolCallId":"x","title":"X","status":"in_progress"}`)); err != nil {
			return TurnResult{}, err
		}
		_, err := h.Ask(ctx, Question{ToolCall: json.RawMessage(`{"toolCallId":"x"}`), Options: yesNo})
		return TurnResult{}, err
	}}
	inWorld(t, ag, nil, func(t *testing.T, w *world) {
		w.prompt("a", "1")
		w.prompt("b", "1")
		// The crash: a second life on a copy of what is written.
		l := w.st.log("s1")
		next := newFakeStore()
		next.logs["s1"] = &fakeLog{of: next, meta: l.meta, events: append([]Event(nil), l.events...), shown: l.Head(), closed: true}
		again := &world{t: t, cfg: w.cfg, st: next, ag: &fakeAgents{turn: func(context.Context, Host, Turn) (TurnResult, error) {
			t.Error("a turn was run again")
			return TurnResult{}, nil
		}}}
		again.s = Open("s1", again.cfg, next, again.ag, nil)
		snap, _ := again.attach("a")
		if snap.Turn != nil || len(snap.Queue) != 0 || len(snap.Questions) != 0 || len(snap.Calls) != 0 {
			t.Errorf("still open after a crash: %+v", snap)
		}
		facts := again.facts()
		n := len(facts)
		for _, want := range []string{"answered interrupted", "ended a/1 error -33101", "withdrawn b/1 -33101"} {
			if !strings.Contains(strings.Join(facts, "\n"), want) {
				t.Errorf("the log lacks %q:\n%s", want, strings.Join(facts, "\n"))
			}
		}
		for _, f := range facts {
			if strings.HasPrefix(f, "update") && strings.Contains(f, `"tool_call_update"`) {
				if !strings.Contains(f, `"status":"failed"`) || !strings.Contains(f, "unknown") {
					t.Errorf("the call ends as %s", f)
				}
			}
		}
		if used := again.s.credit.used; used != 0 {
			t.Errorf("%d bytes of credit are out", used)
		}
		again.reopen()
		if got := again.facts(); len(got) != n {
			t.Errorf("the third life adds %q", got[n:])
		}
		again.stop(again.s)
	})
	if ran != 1 {
		t.Errorf("%d turns ran", ran)
	}
}

func TestForkCopiesUpToTheLastEndedTurnWithItsNumbers(t *testing.T) {
	ag := &fakeAgents{}
	inWorld(t, ag, func(c *Config) { c.MaxUnwritten = 4096 }, func(t *testing.T, w *world) {
		g := make(gate, 1)
		ag.turn = func(ctx context.Context, h Host, t Turn) (TurnResult, error) {
			for i := range 5 {
				if err := h.Update(ctx, chunkUpdate("m", fmt.Sprint(i))); err != nil {
					return TurnResult{}, err
				}
			}
			_ = h.Record(ctx, []byte("memory"))
			return g.turn(ctx, h, t)
		}
		w.attach("a")
		g <- "end_turn"
		w.prompt("a", "1")
		w.prompt("a", "2") // runs
		w.prompt("b", "3") // waits
		ready := make(chan error, 1)
		f := Fork(w.s, Meta{ID: "s2", Cwd: "/other"}, origin("a", "4"), w.cfg, w.st, ag, func(err error) { ready <- err })
		if err := <-ready; err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		src, dst := w.st.log("s1").events, w.st.log("s2").events
		var end Seq
		for _, e := range src {
			if e.Kind == KindTurnEnded {
				end = e.Seq
			}
		}
		for i := Seq(2); i <= end; i++ {
			a, b := src[i-1], dst[i-1]
			if a.Seq != b.Seq || a.Kind != b.Kind {
				t.Fatalf("event %d is %d %s, should be %d %s", i, b.Seq, b.Kind, a.Seq, a.Kind)
			}
			if a.Kind == KindUpdate && !bytes.Equal(a.Data, b.Data) {
				t.Errorf("update %d is %s, should be %s", i, b.Data, a.Data)
			}
			if bytes.Contains(b.Data, []byte(`"conn"`)) {
				t.Errorf("event %d names who caused it: %s", i, b.Data)
			}
		}
		for _, e := range dst[end:] {
			if e.Kind != KindSettingsChanged && e.Kind != KindRootsChanged && e.Kind != KindPromptWithdrawn {
				t.Errorf("behind the fork point: %s", e.Kind)
			}
		}
		m := w.st.log("s2").meta
		if m.Parent != "s1" || m.ForkedAt != end || m.Cwd != "/other" || m.Turns != 1 {
			t.Errorf("meta: %+v", m)
		}
		if used := f.credit.used; used != 0 {
			t.Errorf("%d bytes of credit are out", used)
		}
		w2 := &world{t: t, cfg: w.cfg, st: w.st, ag: ag, s: f}
		snap, _ := w2.attach("z")
		if snap.Turn != nil || len(snap.Queue) != 0 {
			t.Errorf("a fork is born busy: %+v", snap)
		}
		w2.stop(f)
	})
}

// scene draws the events of a plausible life.
func drawEvents(rt *rapid.T) []Event {
	n := rapid.IntRange(1, 80).Draw(rt, "n")
	events := []Event{{Seq: 1, Time: 1, Kind: KindCreated, Data: encode(Created{Meta: Meta{ID: "s", Cwd: "/w"}})}}
	add := func(k Kind, data []byte) Seq {
		seq := Seq(len(events) + 1)
		version := uint8(0)
		if k == KindUpdate {
			version = 1
		}
		events = append(events, Event{Seq: seq, Time: int64(seq), Kind: k, Version: version, Data: data})
		return seq
	}
	var queued, asked []Seq
	var turn Seq
	for range n {
		switch rapid.IntRange(0, 11).Draw(rt, "what") {
		case 0, 1, 2, 3:
			id := rapid.SampledFrom([]string{"a", "a", "b"}).Draw(rt, "id")
			for _, s := range rapid.SliceOfN(rapid.StringMatching(`[a-z \\"]{0,5}`), 1, 6).Draw(rt, "chunks") {
				add(KindUpdate, chunkUpdate(id, s))
			}
		case 4:
			add(KindUpdate, fmt.Appendf(nil, `{"sessionUpdate":"tool_call","toolCallId":"t%d","title":"T","status":"pending"}`, rapid.IntRange(0, 3).Draw(rt, "call")))
		case 5:
			add(KindUpdate, fmt.Appendf(nil, `{"sessionUpdate":"tool_call_update","toolCallId":"t%d","status":%q}`, rapid.IntRange(0, 3).Draw(rt, "call"),
				rapid.SampledFrom([]string{"in_progress", "completed", "failed"}).Draw(rt, "status")))
		case 6:
			queued = append(queued, add(KindPromptAdmitted, encode(PromptAdmitted{Origin: Origin{Conn: "c"}, Prompt: json.RawMessage(`[{"type":"text","text":"hi"}]`)})))
		case 7:
			if turn == 0 && len(queued) > 0 {
				turn, queued = queued[0], queued[1:]
				add(KindTurnStarted, encode(TurnStarted{Prompt: turn}))
			} else if len(queued) > 0 {
				add(KindPromptWithdrawn, encode(PromptWithdrawn{Prompt: queued[0]}))
				queued = queued[1:]
			}
		case 8:
			if turn != 0 {
				add(KindTurnEnded, encode(TurnEnded{Prompt: turn, StopReason: "end_turn"}))
				turn = 0
			}
		case 9:
			asked = append(asked, add(KindQuestionAsked, encode(QuestionAsked{Prompt: turn, ToolCall: json.RawMessage(`{}`), Options: json.RawMessage(`[]`)})))
		case 10:
			if len(asked) > 0 {
				add(KindQuestionAnswered, encode(QuestionAnswered{Question: asked[0], Outcome: Dismissed}))
				asked = asked[1:]
			}
		case 11:
			add(KindUpdate, fmt.Appendf(nil, `{"sessionUpdate":"session_info_update","title":"t%d"}`, len(events)))
		}
	}
	return events
}

// However the store groups and joins a log, it means the same.
func TestAnyGroupingOfEventsFoldsAndReplaysAlike(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		events := drawEvents(rt)
		var one State
		whole := NewReplay("s", acp.ClientCaps{}, 0)
		for _, e := range events {
			if err := one.Apply(e.Record()); err != nil {
				rt.Fatal(err)
			}
			whole.Add(e.Record())
		}
		var records []Record
		for rest := events; len(rest) > 0; {
			n := rapid.IntRange(1, len(rest)).Draw(rt, "group")
			records = JoinEvents(records, rest[:n])
			rest = rest[n:]
		}
		if rapid.Bool().Draw(rt, "again") {
			records = JoinRecords(records)
		}
		var two State
		again := NewReplay("s", acp.ClientCaps{}, 0)
		var back []Event
		for _, r := range records {
			if err := two.Apply(r); err != nil {
				rt.Fatal(err)
			}
			again.Add(r)
			back = append(back, r.Events()...)
		}
		if !reflect.DeepEqual(one, two) {
			rt.Errorf("states differ:\n%+v\n%+v", one, two)
		}
		a, b := bytes.Join(whole.Finish(), []byte("\n")), bytes.Join(again.Finish(), []byte("\n"))
		if !bytes.Equal(a, b) {
			rt.Errorf("replays differ:\n%s\n\n%s", a, b)
		}
		if err := eventsEqual(back, events); err != nil {
			rt.Error(err)
		}
	})
}

func TestInbox(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newInbox()
		var got []int
		done := make(chan struct{})
		go func() {
			defer close(done)
			for len(got) < 3 {
				q := b.take()
				for _, m := range q {
					m.act()
				}
				b.done(q)
			}
		}()
		synctest.Wait()
		for i := range 3 {
			b.post(message{act: func() { got = append(got, i) }})
		}
		<-done
		if fmt.Sprint(got) != "[0 1 2]" {
			t.Errorf("taken as %v", got)
		}
		b.nudge()
		if q := b.take(); len(q) != 0 {
			t.Errorf("a nudge is %d messages", len(q))
		}
		b.post(message{})
		if _, ok := b.close(true); ok {
			t.Error("closed with a message in it")
		}
		if left, ok := b.close(false); !ok || len(left) != 1 {
			t.Errorf("left %d", len(left))
		}
		if b.post(message{}) {
			t.Error("took a message after it was closed")
		}
		b.nudge()
	})
}
