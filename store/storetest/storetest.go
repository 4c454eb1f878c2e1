// Package storetest says what every session.Store has to keep, as one suite of
// tests that all of them run.
package storetest

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/hermesd/hermesd/daemon/session"
)

// Factory makes the store under test.
type Factory struct {
	// Open opens the store; after Close it opens what was stored before. A
	// store that forgets is the same one every time.
	Open func() session.Store
	// Close closes what Open gave.
	Close func(session.Store)
}

// Run runs the suite.
func Run(t *testing.T, make func(t *testing.T) Factory) {
	for _, test := range []struct {
		name string
		run  func(*testing.T, *fixture)
	}{
		{"events come back as they were appended", testRoundTrip},
		{"a log continues at its head after the store was reopened", testReopen},
		{"a page begins with the record that holds the Seq asked for", testPagesFromEverySeq},
		{"pages of any size give every event once and in order", testPageSizes},
		{"chunks are joined only if they differ in nothing but text", testJoins},
		{"reading at or behind the end gives an empty page", testEnd},
		{"only what is written is read", testOnlyWritten},
		{"written comes before durable and durable only for those who ask", testSinkOrder},
		{"a sync of nothing new says durable", testBareSync},
		{"a sync covers what was appended before without one", testSyncCoversEarlier},
		{"a log is opened once at a time", testInUse},
		{"an unknown session is not found", testNotFound},
		{"a log that was never appended to leaves nothing", testNothing},
		{"closing a log loses nothing that was appended", testCloseLosesNothing},
		{"a closed log's sink is not called any more", testClosedSink},
		{"meta is kept with the events", testMeta},
		{"the list is newest first, ties by id descending", testList},
		{"a deleted session is gone for good", testDelete},
		{"deleting is idempotent and refuses an open log", testDeleteIdempotent},
		{"what a caller does to its slices afterwards changes nothing", testOwnSlices},
		{"fifty logs at once keep their order", testConcurrency},
		{"readers beside a writer see a prefix", testReadersBesideWriter},
		{"large events come back", testLarge},
		{"an append that does not continue the head panics", testWrongSeq},
	} {
		t.Run(test.name, func(t *testing.T) {
			f := &fixture{t: t, Factory: make(t)}
			f.open()
			defer f.close()
			test.run(t, f)
		})
	}
}

type fixture struct {
	t *testing.T
	Factory
	store session.Store
}

func (f *fixture) open() { f.store = f.Open() }

func (f *fixture) close() {
	if f.store != nil {
		f.Close(f.store)
		f.store = nil
	}
}

func (f *fixture) reopen() {
	f.close()
	f.open()
}

var start = time.Date(2026, 11, 30, 12, 0, 0, 123456789, time.UTC)

func meta(id session.ID) session.Meta {
	return session.Meta{ID: id, Agent: "hermes", Cwd: "/work", Created: start, Updated: start}
}

func (f *fixture) create(id session.ID) (session.Log, *Sink) {
	f.t.Helper()
	sink := NewSink()
	log, err := f.store.Create(meta(id), sink)
	if err != nil {
		f.t.Fatal(err)
	}
	return log, sink
}

func (f *fixture) openLog(id session.ID) (session.Log, *Sink) {
	f.t.Helper()
	sink := OpenSink()
	log, err := f.store.Open(id, sink)
	if err != nil {
		f.t.Fatal(err)
	}
	sink.From(log.Head())
	return log, sink
}

// Chunk is a message chunk as agents send it.
func Chunk(seq session.Seq, message, text string) session.Event {
	quoted, _ := json.Marshal(text)
	data := fmt.Sprintf(`{"sessionUpdate":"agent_message_chunk","content":{"type":"text","text":%s},"messageId":%q}`, quoted, message)
	return session.Event{Seq: seq, Time: start.UnixMilli() + int64(seq), Kind: session.KindUpdate, Version: 1, Data: []byte(data)}
}

// Tool is an update that is joined with nothing.
func Tool(seq session.Seq) session.Event {
	data := fmt.Sprintf(`{"sessionUpdate":"tool_call_update","toolCallId":"call-%d","status":"in_progress"}`, seq)
	return session.Event{Seq: seq, Time: start.UnixMilli() + int64(seq), Kind: session.KindUpdate, Version: 1, Data: []byte(data)}
}

// Fact is an event of ours.
func Fact(seq session.Seq, kind session.Kind, data string) session.Event {
	return session.Event{Seq: seq, Time: start.UnixMilli() + int64(seq), Kind: kind, Data: []byte(data)}
}

// Mixed gives n events as a session has them: facts, runs of chunks of some
// messages, tools between.
func Mixed(first session.Seq, n int) []session.Event {
	events := make([]session.Event, 0, n)
	for i := range n {
		seq := first + session.Seq(i)
		switch k := (seq - 1) % 20; {
		case k == 0:
			events = append(events, Fact(seq, session.KindTurnStarted, `{"prompt":1}`))
		case k < 9:
			events = append(events, Chunk(seq, fmt.Sprintf("a-%d", seq/20), fmt.Sprintf("wörd \"%d\" \\ ", seq)))
		case k < 12:
			events = append(events, Chunk(seq, fmt.Sprintf("b-%d", seq/20), ""))
		case k == 12:
			events = append(events, Tool(seq))
		default:
			events = append(events, Chunk(seq, fmt.Sprintf("c-%d", seq/20), "x"))
		}
	}
	return events
}

// Split takes the record of a page apart into the events that are in it.
func Split(r session.Record) []session.Event {
	if r.Ends == nil {
		return []session.Event{{Seq: r.First, Time: r.Time, Kind: r.Kind, Version: r.Version, Data: r.Data}}
	}
	var events []session.Event
	from, last := r.Text, r.Ends[len(r.Ends)-1]
	for i, end := range r.Ends {
		data := slices.Concat(r.Data[:r.Text], r.Data[from:end], r.Data[last:])
		events = append(events, session.Event{Seq: r.First + session.Seq(i), Time: r.Time, Kind: r.Kind, Version: r.Version, Data: data})
		from = end
	}
	return events
}

// ReadAll reads a log from a Seq on in pages of maxBytes and returns its
// events. Times of joined ones are those of their record.
func ReadAll(t testing.TB, log session.Log, from session.Seq, maxBytes int) []session.Event {
	t.Helper()
	var all []session.Event
	for next := from; ; {
		page, err := log.Read(next, maxBytes)
		if err != nil {
			t.Fatalf("Read(%d): %v", next, err)
		}
		if len(page) == 0 {
			return all
		}
		for i, r := range page {
			if r.First > next || r.Last < next || (i > 0 && r.First != next) {
				t.Fatalf("Read: record %d of %d–%d where %d was due", i, r.First, r.Last, next)
			}
			all = append(all, Split(r.From(next))...)
			next = r.Last + 1
		}
	}
}

// Same compares events by all but their time.
func Same(t testing.TB, got, want []session.Event) {
	t.Helper()
	for i := range min(len(got), len(want)) {
		g, w := got[i], want[i]
		if g.Seq != w.Seq || g.Kind != w.Kind || g.Version != w.Version || !bytes.Equal(g.Data, w.Data) {
			t.Fatalf("event %d:\n got %d kind %d version %d %s\nwant %d kind %d version %d %s",
				i, g.Seq, g.Kind, g.Version, g.Data, w.Seq, w.Kind, w.Version, w.Data)
		}
	}
	if len(got) != len(want) {
		t.Fatalf("%d events, want %d", len(got), len(want))
	}
}

func testRoundTrip(t *testing.T, f *fixture) {
	want := []session.Event{
		Fact(1, session.KindCreated, `{"meta":{}}`),
		{Seq: 2, Time: -5, Kind: session.KindUpdate, Version: 2, Data: []byte(`{ "sessionUpdate" : "new_thing", "n": 12345678901234567890 }`)},
		{Seq: 3, Kind: session.KindAgentRecord, Data: []byte{0, 1, 2, 0xff}},
		{Seq: 4, Time: 1 << 50, Kind: session.KindDetached, Data: nil},
	}
	log, sink := f.create("s")
	log.Append(nil, want, true)
	sink.WaitDurable(t, 4)
	for range 2 {
		page, err := log.Read(0, 1<<20)
		if err != nil {
			t.Fatal(err)
		}
		if len(page) != len(want) {
			t.Fatalf("%d records, want %d", len(page), len(want))
		}
		for i, r := range page {
			if r.First != want[i].Seq || r.Last != want[i].Seq || r.Time != want[i].Time || r.Ends != nil {
				t.Errorf("record %d is %+v", i, r)
			}
		}
		Same(t, ReadAll(t, log, 1, 1<<20), want)
		log.Close()
		f.reopen()
		log, _ = f.openLog("s")
	}
}

func testReopen(t *testing.T, f *fixture) {
	want := Mixed(1, 137)
	log, sink := f.create("s")
	if log.Head() != 0 {
		t.Errorf("head of a new log is %d", log.Head())
	}
	epoch := f.store.Epoch()
	for at := 0; at < len(want); {
		n := min(1+at/3, len(want)-at)
		log.Append(nil, want[at:at+n], at%2 == 0)
		at += n
		if log.Head() != session.Seq(at) {
			t.Fatalf("head is %d, want %d", log.Head(), at)
		}
		sink.WaitWritten(t, session.Seq(at))
		log.Close()
		f.reopen()
		log, sink = f.openLog("s")
		if log.Head() != session.Seq(at) {
			t.Fatalf("head is %d after reopening, want %d", log.Head(), at)
		}
	}
	Same(t, ReadAll(t, log, 1, 1000), want)
	if f.store.Epoch() != epoch || epoch == "" {
		t.Errorf("the epoch went from %q to %q", epoch, f.store.Epoch())
	}
}

func testPagesFromEverySeq(t *testing.T, f *fixture) {
	want := Mixed(1, 90)
	log, sink := f.create("s")
	log.Append(nil, want[:50], false)
	sink.WaitWritten(t, 50)
	log.Close()
	f.reopen() // some of it comes from disk, some from memory
	log, sink = f.openLog("s")
	log.Append(nil, want[50:], false)
	sink.WaitWritten(t, 90)
	for from := session.Seq(1); from <= 90; from++ {
		page, err := log.Read(from, 1)
		if err != nil {
			t.Fatal(err)
		}
		if len(page) == 0 || page[0].First > from || page[0].Last < from {
			t.Fatalf("Read(%d) begins with %+v", from, page)
		}
		Same(t, ReadAll(t, log, from, 200), want[from-1:])
	}
}

func testPageSizes(t *testing.T, f *fixture) {
	want := Mixed(1, 400)
	log, sink := f.create("s")
	log.Append(nil, want, false)
	sink.WaitWritten(t, 400)
	for range 2 {
		for _, size := range []int{-1, 0, 1, 100, 1000, 10000, 1 << 20} {
			Same(t, ReadAll(t, log, 1, size), want)
		}
		log.Close()
		f.reopen()
		log, _ = f.openLog("s")
	}
	page, err := log.Read(1, 2000)
	if err != nil {
		t.Fatal(err)
	}
	size := 0
	for _, r := range page[:len(page)-1] {
		size += len(r.Data)
	}
	if size > 2000 {
		t.Errorf("a page of 2000 bytes has %d before its last record", size)
	}
}

func testJoins(t *testing.T, f *fixture) {
	other := Chunk(5, "m", "e")
	other.Version = 2
	thought := Chunk(7, "m", "g")
	thought.Data = bytes.Replace(thought.Data, []byte("agent_message_chunk"), []byte("agent_thought_chunk"), 1)
	record := Chunk(9, "m", "i")
	record.Kind = session.KindAgentRecord
	events := []session.Event{
		Chunk(1, "m", "a"), Chunk(2, "m", "b"), Chunk(3, "n", "c"), Chunk(4, "n", "d\""), other, Chunk(6, "m", "f"), thought, Chunk(8, "m", "h"), record,
	}
	log, sink := f.create("s")
	log.Append(nil, events, false)
	sink.WaitWritten(t, 9)
	for range 2 {
		Same(t, ReadAll(t, log, 1, 1<<20), events)
		page, err := log.Read(1, 1<<20)
		if err != nil {
			t.Fatal(err)
		}
		var got []string
		for _, r := range page {
			got = append(got, fmt.Sprintf("%d-%d", r.First, r.Last))
		}
		if want := []string{"1-2", "3-4", "5-5", "6-6", "7-7", "8-8", "9-9"}; !slices.Equal(got, want) {
			t.Errorf("records %v, want %v", got, want)
		}
		if want := Chunk(0, "n", "cd\"").Data; !bytes.Equal(page[1].Data, want) {
			t.Errorf("joined: %s, want %s", page[1].Data, want)
		}
		log.Close()
		f.reopen()
		log, _ = f.openLog("s")
	}
}

func testEnd(t *testing.T, f *fixture) {
	log, sink := f.create("s")
	for range 2 {
		for _, from := range []session.Seq{0, 1, 2, 100} {
			if from <= log.Head() {
				continue
			}
			if page, err := log.Read(from, 1000); err != nil || len(page) != 0 {
				t.Errorf("Read(%d) of %d events: %v, %v", from, log.Head(), page, err)
			}
		}
		if log.Head() == 0 {
			log.Append(nil, []session.Event{Tool(1)}, false)
			sink.WaitWritten(t, 1)
		}
	}
}

func testOnlyWritten(t *testing.T, f *fixture) {
	log, sink := f.create("s")
	for seq := session.Seq(1); seq <= 300; seq++ {
		log.Append(nil, []session.Event{Tool(seq)}, false)
		before, _ := sink.Seen()
		page, err := log.Read(1, 1<<20)
		if err != nil {
			t.Fatal(err)
		}
		if n := session.Seq(len(page)); n < before || n > seq {
			t.Fatalf("%d events read, %d reported, %d appended", n, before, seq)
		}
	}
}

func testSinkOrder(t *testing.T, f *fixture) {
	asking, a := f.create("asking")
	silent, b := f.create("silent")
	for seq := session.Seq(1); seq <= 200; seq++ {
		asking.Append(nil, []session.Event{Chunk(seq, "m", "x")}, seq%10 == 0)
		silent.Append(nil, []session.Event{Chunk(seq, "m", "x")}, false)
	}
	a.WaitDurable(t, 200)
	b.WaitWritten(t, 200)
	if _, durable := b.Seen(); durable != 0 {
		t.Errorf("Durable(%d) without asking", durable)
	}
}

func testBareSync(t *testing.T, f *fixture) {
	log, sink := f.create("s")
	log.Append(nil, []session.Event{Tool(1)}, true)
	sink.WaitDurable(t, 1)
	_, before := sink.Seen()
	log.Append(nil, nil, true)
	sink.wait(t, "durable once more", func() bool { return sink.durables >= 2 && sink.durable == before })
	log.Close()
	f.reopen()
	log, sink = f.openLog("s")
	log.Append(nil, nil, true)
	sink.wait(t, "durable after reopening", func() bool { return sink.durable == 1 })
}

func testSyncCoversEarlier(t *testing.T, f *fixture) {
	log, sink := f.create("s")
	log.Append(nil, []session.Event{Tool(1), Tool(2)}, false)
	sink.WaitWritten(t, 2)
	log.Append(nil, nil, true)
	sink.WaitDurable(t, 2)
}

func testInUse(t *testing.T, f *fixture) {
	log, sink := f.create("s")
	if _, err := f.store.Create(meta("s"), NewSink()); !errors.Is(err, session.ErrInUse) {
		t.Errorf("creating an open session: %v", err)
	}
	log.Append(nil, []session.Event{Tool(1)}, false)
	sink.WaitWritten(t, 1)
	if _, err := f.store.Open("s", OpenSink()); !errors.Is(err, session.ErrInUse) {
		t.Errorf("opening an open session: %v", err)
	}
	log.Close()
	if _, err := f.store.Create(meta("s"), NewSink()); !errors.Is(err, session.ErrInUse) {
		t.Errorf("creating a stored session: %v", err)
	}
	again, _ := f.openLog("s")
	log.Close() // a second time, by whoever had it before
	if _, err := f.store.Open("s", OpenSink()); !errors.Is(err, session.ErrInUse) {
		t.Errorf("opening an open session after an old handle was closed: %v", err)
	}
	log.Append(nil, []session.Event{Tool(2)}, false)
	if again.Head() != 1 {
		t.Errorf("a closed log took an event: head %d", again.Head())
	}
	if _, err := log.Read(1, 100); !errors.Is(err, session.ErrClosed) {
		t.Errorf("reading a closed log: %v", err)
	}
}

func testNotFound(t *testing.T, f *fixture) {
	if _, err := f.store.Open("nobody", OpenSink()); !errors.Is(err, session.ErrNotFound) {
		t.Errorf("Open: %v", err)
	}
	if _, ok := f.store.Lookup("nobody"); ok {
		t.Error("Lookup found it")
	}
	if _, err := f.store.Create(session.Meta{}, NewSink()); err == nil {
		t.Error("a session without an id was created")
	}
}

func testNothing(t *testing.T, f *fixture) {
	log, _ := f.create("s")
	if err := log.Close(); err != nil {
		t.Fatal(err)
	}
	if _, ok := f.store.Lookup("s"); ok {
		t.Error("it is in the index")
	}
	if _, err := f.store.Open("s", OpenSink()); !errors.Is(err, session.ErrNotFound) {
		t.Errorf("Open: %v", err)
	}
	log, sink := f.create("s")
	log.Append(nil, nil, true)
	sink.WaitDurable(t, 0)
	if _, ok := f.store.Lookup("s"); !ok {
		t.Error("the first Append did not store the meta of Create")
	}
	log.Close()
}

func testCloseLosesNothing(t *testing.T, f *fixture) {
	want := Mixed(1, 3000)
	log, _ := f.create("s")
	for i := 0; i < len(want); i += 100 {
		log.Append(nil, want[i:i+100], false)
		log.Close()
		var sink *Sink
		log, sink = f.openLog("s")
		if log.Head() != session.Seq(i+100) {
			t.Fatalf("head %d, want %d", log.Head(), i+100)
		}
		_ = sink
	}
	log.Close()
	f.reopen()
	log, _ = f.openLog("s")
	Same(t, ReadAll(t, log, 1, 1<<16), want)
}

func testClosedSink(t *testing.T, f *fixture) {
	log, first := f.create("s")
	for seq := session.Seq(1); seq <= 200; seq += 2 {
		log.Append(nil, []session.Event{Tool(seq)}, true)
		log.Close()
		written, durable := first.Seen()
		second := OpenSink()
		var err error
		if log, err = f.store.Open("s", second); err != nil {
			t.Fatal(err)
		}
		second.From(seq)
		log.Append(nil, []session.Event{Tool(seq + 1)}, true)
		second.WaitDurable(t, seq+1)
		if w, d := first.Seen(); w != written || d != durable {
			t.Fatalf("told %d and %d after Close, %d and %d before", w, d, written, durable)
		}
		first = second
	}
	late, sink := f.create("late")
	for seq := session.Seq(1); seq <= 100; seq++ {
		late.Append(nil, []session.Event{Tool(seq)}, true)
	}
	late.Close()
	written, durable := sink.Seen()
	log.Append(nil, []session.Event{Tool(201)}, true)
	first.WaitDurable(t, 201)
	if w, d := sink.Seen(); w != written || d != durable {
		t.Errorf("told %d and %d after Close, %d and %d before", w, d, written, durable)
	}
}

func testMeta(t *testing.T, f *fixture) {
	log, sink := f.create("s")
	m := meta("s")
	m.Title, m.Dirs, m.MCPServers = "größer", []string{"/a", "/b"}, json.RawMessage(`[{"name":"x"}]`)
	m.Parent, m.ForkedAt, m.Turns = "p", 17, 3
	m.Updated = start.Add(time.Hour)
	log.Append(nil, []session.Event{Tool(1)}, false)
	log.Append(&m, []session.Event{Tool(2)}, false)
	sink.WaitWritten(t, 2)
	check := func(want session.Meta) {
		t.Helper()
		got, ok := f.store.Lookup("s")
		a, _ := json.Marshal(got)
		b, _ := json.Marshal(want)
		if !ok || !bytes.Equal(a, b) {
			t.Errorf("meta is\n%s\nwant\n%s", a, b)
		}
	}
	check(m)
	log.Close()
	f.reopen()
	check(m)
	log, sink = f.openLog("s")
	empty := session.Meta{ID: "s"}
	log.Append(&empty, nil, true)
	sink.WaitDurable(t, 0)
	check(empty)
	log.Close()
	f.reopen()
	check(empty)
}

func testList(t *testing.T, f *fixture) {
	if got := f.store.List(); len(got) != 0 {
		t.Errorf("a new store lists %d sessions", len(got))
	}
	logs, sinks := map[session.ID]session.Log{}, map[session.ID]*Sink{}
	for i, id := range []session.ID{"b", "d", "a", "c"} {
		m := meta(id)
		m.Updated = start.Add(time.Duration(i/2) * time.Minute)
		sink := NewSink()
		log, err := f.store.Create(m, sink)
		if err != nil {
			t.Fatal(err)
		}
		log.Append(nil, []session.Event{Tool(1)}, false)
		sink.WaitWritten(t, 1)
		logs[id], sinks[id] = log, sink
	}
	check := func(want ...session.ID) {
		t.Helper()
		var got []session.ID
		for _, m := range f.store.List() {
			got = append(got, m.ID)
		}
		if !slices.Equal(got, want) {
			t.Errorf("list is %v, want %v", got, want)
		}
	}
	check("c", "a", "d", "b")
	m := meta("d")
	m.Updated = start.Add(time.Hour)
	logs["d"].Append(&m, nil, true)
	sinks["d"].WaitDurable(t, 1)
	for _, log := range logs {
		log.Close()
	}
	f.reopen()
	check("d", "c", "a", "b")
	if err := f.store.Delete(context.Background(), "c"); err != nil {
		t.Fatal(err)
	}
	check("d", "a", "b")
	list := f.store.List()
	list[0] = session.Meta{}
	check("d", "a", "b")
}

func testDelete(t *testing.T, f *fixture) {
	log, sink := f.create("s")
	log.Append(nil, Mixed(1, 500), false)
	sink.WaitWritten(t, 500)
	kept, keptSink := f.create("kept")
	kept.Append(nil, Mixed(1, 10), false)
	keptSink.WaitWritten(t, 10)
	log.Close()
	kept.Close()
	f.reopen()
	log, _ = f.openLog("s")
	log.Append(nil, Mixed(501, 10), false)
	log.Close()
	if err := f.store.Delete(context.Background(), "s"); err != nil {
		t.Fatal(err)
	}
	for range 2 {
		if _, ok := f.store.Lookup("s"); ok {
			t.Error("Lookup found it")
		}
		if _, err := f.store.Open("s", OpenSink()); !errors.Is(err, session.ErrNotFound) {
			t.Errorf("Open: %v", err)
		}
		if n := len(f.store.List()); n != 1 {
			t.Errorf("%d sessions listed, want 1", n)
		}
		f.reopen()
	}
	kept, _ = f.openLog("kept")
	Same(t, ReadAll(t, kept, 1, 1000), Mixed(1, 10))
}

func testDeleteIdempotent(t *testing.T, f *fixture) {
	ctx := context.Background()
	if err := f.store.Delete(ctx, "nobody"); err != nil {
		t.Errorf("deleting nothing: %v", err)
	}
	log, sink := f.create("s")
	log.Append(nil, []session.Event{Tool(1)}, false)
	sink.WaitWritten(t, 1)
	if err := f.store.Delete(ctx, "s"); !errors.Is(err, session.ErrInUse) {
		t.Errorf("deleting an open session: %v", err)
	}
	log.Close()
	var wg sync.WaitGroup
	for range 4 {
		wg.Go(func() {
			if err := f.store.Delete(ctx, "s"); err != nil {
				t.Errorf("deleting: %v", err)
			}
		})
	}
	wg.Wait()
	if err := f.store.Delete(ctx, "s"); err != nil {
		t.Errorf("deleting again: %v", err)
	}
}

func testOwnSlices(t *testing.T, f *fixture) {
	log, sink := f.create("s")
	events := []session.Event{Tool(1), Tool(2)}
	want := slices.Clone(events)
	m := meta("s")
	m.Dirs = []string{"/a"}
	log.Append(&m, events, false)
	events[0], events[1] = session.Event{}, session.Event{}
	m.Dirs[0] = "/b"
	sink.WaitWritten(t, 2)
	Same(t, ReadAll(t, log, 1, 1000), want)
	if got, _ := f.store.Lookup("s"); len(got.Dirs) != 1 || got.Dirs[0] != "/a" {
		t.Errorf("dirs are %v", got.Dirs)
	}
	page, _ := log.Read(1, 1000)
	page[0], page[1] = session.Record{}, session.Record{}
	Same(t, ReadAll(t, log, 1, 1000), want)
}

func testConcurrency(t *testing.T, f *fixture) {
	const logs, events = 50, 600
	var wg sync.WaitGroup
	for i := range logs {
		wg.Go(func() {
			rng := rand.New(rand.NewPCG(1, uint64(i)))
			id := session.ID(fmt.Sprintf("s%02d", i))
			sink := NewSink()
			log, err := f.store.Create(meta(id), sink)
			if err != nil {
				t.Error(err)
				return
			}
			all := Mixed(1, events)
			for at := 0; at < events; {
				n := min(1+rng.IntN(40), events-at)
				m := meta(id)
				m.Turns = at + n
				sync := rng.IntN(4) == 0
				log.Append(&m, all[at:at+n], sync)
				at += n
				if sync {
					sink.WaitDurable(t, session.Seq(at))
				}
				if rng.IntN(8) == 0 {
					log.Close()
					sink = OpenSink()
					if log, err = f.store.Open(id, sink); err != nil {
						t.Error(err)
						return
					}
					sink.From(log.Head())
				}
			}
			log.Append(nil, nil, true)
			sink.WaitDurable(t, events)
			log.Close()
		})
	}
	wg.Wait()
	f.reopen()
	if n := len(f.store.List()); n != logs {
		t.Errorf("%d sessions, want %d", n, logs)
	}
	for i := range logs {
		id := session.ID(fmt.Sprintf("s%02d", i))
		log, _ := f.openLog(id)
		Same(t, ReadAll(t, log, 1, 5000), Mixed(1, events))
		if m, _ := f.store.Lookup(id); m.Turns != events {
			t.Errorf("%s: meta is that of event %d", id, m.Turns)
		}
		log.Close()
	}
}

func testReadersBesideWriter(t *testing.T, f *fixture) {
	const events = 4000
	all := Mixed(1, events)
	log, sink := f.create("s")
	var wg sync.WaitGroup
	for range 3 {
		wg.Go(func() {
			var got []session.Event
			for next := session.Seq(1); next <= events; {
				sink.WaitWritten(t, next)
				page, err := log.Read(next, 3000)
				if err != nil || len(page) == 0 {
					t.Errorf("Read(%d): %d records, %v", next, len(page), err)
					return
				}
				for _, r := range page {
					got = append(got, Split(r.From(next))...)
					next = r.Last + 1
				}
			}
			Same(t, got, all)
		})
	}
	for at := 0; at < events; at += 10 {
		log.Append(nil, all[at:at+10], false)
	}
	wg.Wait()
	log.Close()
}

func testLarge(t *testing.T, f *fixture) {
	var want []session.Event
	for seq, size := range []int{70 << 10, 1 << 20, 3, 9 << 20, 300 << 10, 300 << 10} {
		want = append(want, Chunk(session.Seq(seq+1), "m", string(bytes.Repeat([]byte("x"), size))))
	}
	log, sink := f.create("s")
	log.Append(nil, want, true)
	sink.WaitDurable(t, 6)
	for range 2 {
		Same(t, ReadAll(t, log, 1, 100), want)
		log.Close()
		f.reopen()
		log, _ = f.openLog("s")
	}
}

func testWrongSeq(t *testing.T, f *fixture) {
	log, sink := f.create("s")
	log.Append(nil, []session.Event{Tool(1)}, false)
	for _, events := range [][]session.Event{{Tool(1)}, {Tool(3)}, {Tool(2), Tool(4)}} {
		func() {
			defer func() {
				if recover() == nil {
					t.Errorf("Append of %d took it", events[len(events)-1].Seq)
				}
			}()
			log.Append(nil, events, false)
		}()
	}
	log.Append(nil, []session.Event{Tool(2)}, false)
	sink.WaitWritten(t, 2)
	Same(t, ReadAll(t, log, 1, 100), []session.Event{Tool(1), Tool(2)})
}
