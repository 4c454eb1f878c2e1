package session

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// fakeStore keeps logs in memory. While held is set nothing is written or
// synced before the test says so.
type fakeStore struct {
	mu   sync.Mutex
	held bool
	logs map[ID]*fakeLog
}

func newFakeStore() *fakeStore { return &fakeStore{logs: make(map[ID]*fakeLog)} }

func (f *fakeStore) Epoch() string { return "epoch" }

func (f *fakeStore) List() []Meta { return nil }

func (f *fakeStore) Lookup(id ID) (Meta, bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	l := f.logs[id]
	if l == nil || len(l.events) == 0 {
		return Meta{}, false
	}
	return l.meta, true
}

func (f *fakeStore) Create(m Meta, s Sink) (Log, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	l := &fakeLog{of: f, meta: m, sink: s}
	f.logs[m.ID] = l
	return l, nil
}

func (f *fakeStore) Open(id ID, s Sink) (Log, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	l := f.logs[id]
	if l == nil {
		return nil, ErrNotFound
	}
	l.sink, l.closed = s, false
	return l, nil
}

func (f *fakeStore) Delete(_ context.Context, id ID) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	if l := f.logs[id]; l != nil && !l.closed {
		return ErrInUse
	}
	delete(f.logs, id)
	return nil
}

func (f *fakeStore) log(id ID) *fakeLog {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.logs[id]
}

type fakeLog struct {
	of     *fakeStore
	meta   Meta
	sink   Sink
	events []Event
	synced Seq // what was asked to be durable
	shown  Seq // written
	closed bool
	groups int // calls of Append
}

func (l *fakeLog) Head() Seq {
	l.of.mu.Lock()
	defer l.of.mu.Unlock()
	return Seq(len(l.events))
}

func (l *fakeLog) Append(m *Meta, events []Event, sync bool) {
	l.of.mu.Lock()
	for i, e := range events {
		if want := Seq(len(l.events) + 1); e.Seq != want {
			panic(fmt.Sprintf("event %d of a group appended as %d where %d belongs", i, e.Seq, want))
		}
		l.events = append(l.events, e)
	}
	l.groups++
	if m != nil {
		l.meta = *m
	}
	if sync {
		l.synced = Seq(len(l.events))
	}
	held := l.of.held
	l.of.mu.Unlock()
	if !held {
		l.write()
		l.sync()
	}
}

// write says that all there is is written.
func (l *fakeLog) write() {
	l.of.mu.Lock()
	l.shown = Seq(len(l.events))
	n, s := l.shown, l.sink
	l.of.mu.Unlock()
	s.Written(n)
}

// sync says that what should be durable is.
func (l *fakeLog) sync() {
	l.of.mu.Lock()
	n, s := l.synced, l.sink
	l.of.mu.Unlock()
	s.Durable(n)
}

func (l *fakeLog) Read(from Seq, maxBytes int) ([]Record, error) {
	l.of.mu.Lock()
	defer l.of.mu.Unlock()
	if l.closed {
		return nil, ErrClosed
	}
	if from > l.shown {
		return nil, nil
	}
	// Like the store: a page may begin before from, in a joined record.
	start := from
	for start > 1 && from-start < 3 {
		start--
	}
	all := JoinEvents(nil, l.events[start-1:l.shown])
	for len(all) > 0 && all[0].Last < from {
		all = all[1:]
	}
	size := 0
	for i, r := range all {
		size += len(r.Data)
		if size >= maxBytes {
			return all[:i+1], nil
		}
	}
	return all, nil
}

func (l *fakeLog) Close() error {
	l.of.mu.Lock()
	defer l.of.mu.Unlock()
	l.closed = true
	return nil
}

// fakeAgents plays turn for every prompt.
type fakeAgents struct {
	turn    func(ctx context.Context, h Host, t Turn) (TurnResult, error)
	opening func(ctx context.Context, spec Spec) error
	setting func(ctx context.Context, c Change) (Settings, error)
	joiner  Joiner // nil: its agents take no prompts into a turn

	mu    sync.Mutex
	hosts []Host
	open  int
}

func (f *fakeAgents) Has(string) bool { return true }
func (f *fakeAgents) Default() string { return "fake" }

func (f *fakeAgents) Open(ctx context.Context, spec Spec, h Host) (Agent, Settings, error) {
	if f.opening != nil {
		if err := f.opening(ctx, spec); err != nil {
			return nil, Settings{}, err
		}
	}
	f.mu.Lock()
	f.hosts = append(f.hosts, h)
	f.open++
	f.mu.Unlock()
	if f.joiner != nil {
		return struct {
			*fakeAgent
			Joiner
		}{&fakeAgent{f, h}, f.joiner}, spec.Settings, nil
	}
	return &fakeAgent{f, h}, spec.Settings, nil
}

func (f *fakeAgents) last() Host {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.hosts[len(f.hosts)-1]
}

func (f *fakeAgents) opened() (ever, now int) {
	f.mu.Lock()
	defer f.mu.Unlock()
	return len(f.hosts), f.open
}

type fakeAgent struct {
	f *fakeAgents
	h Host
}

func (a *fakeAgent) Prompt(ctx context.Context, t Turn) (TurnResult, error) {
	if a.f.turn == nil {
		return TurnResult{}, nil
	}
	return a.f.turn(ctx, a.h, t)
}

func (a *fakeAgent) Set(ctx context.Context, c Change) (Settings, error) {
	if a.f.setting != nil {
		return a.f.setting(ctx, c)
	}
	return Settings{Modes: json.RawMessage(fmt.Sprintf(`{"currentModeId":%q}`, c.Mode))}, nil
}

func (a *fakeAgent) Close() error {
	a.f.mu.Lock()
	a.f.open--
	a.f.mu.Unlock()
	return nil
}

// fakeEditor is a connection.
type fakeEditor string

func (e fakeEditor) Conn() string       { return string(e) }
func (e fakeEditor) CanDecide() bool    { return !strings.HasPrefix(string(e), "observer") }
func (e fakeEditor) CanAnswer() bool    { return e.CanDecide() && e != "mute" }
func (e fakeEditor) CanReadFiles() bool { return false }
func (e fakeEditor) CanElicit() bool    { return false }
func (e fakeEditor) CanWriteFiles() bool {
	return false
}
func (e fakeEditor) Call(context.Context, string, string, any) (json.RawMessage, error) {
	return nil, errors.New("not in this test")
}

// world is a session in a bubble of its own time.
type world struct {
	t   *testing.T
	cfg Config
	st  *fakeStore
	ag  *fakeAgents
	s   *Session

	mu      sync.Mutex
	refused []string
}

// inWorld runs do with a session that has just been made, and stops the
// session afterwards.
func inWorld(t *testing.T, ag *fakeAgents, adjust func(*Config), do func(t *testing.T, w *world)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		w := &world{t: t, cfg: DefaultConfig(), st: newFakeStore(), ag: ag}
		w.cfg.Warn = func(_ ID, what string, err error) { t.Errorf("warned: %s: %v", what, err) }
		if adjust != nil {
			adjust(&w.cfg)
		}
		w.s = w.make("s1")
		defer func() { // also when the test gives up: the bubble must end
			w.stop(w.s)
			if _, open := ag.opened(); open != 0 {
				t.Errorf("%d agents are still open after the session's end", open)
			}
		}()
		do(t, w)
	})
}

func (w *world) make(id ID) *Session {
	ready := make(chan error, 1)
	s := Create(Meta{ID: id, Agent: "fake", Cwd: "/w"}, Origin{}, w.cfg, w.st, w.ag, func(err error) { ready <- err })
	if err := <-ready; err != nil {
		w.t.Fatalf("making a session: %v", err)
	}
	synctest.Wait()
	return s
}

func (w *world) stop(s *Session) {
	s.Stop(time.Minute)
	<-s.Done()
	synctest.Wait()
}

// reopen stops the session and takes it from the store again.
func (w *world) reopen() {
	w.stop(w.s)
	w.s = Open(w.s.ID(), w.cfg, w.st, w.ag, nil)
	synctest.Wait()
}

func origin(conn, request string) Origin {
	return Origin{Conn: conn, Request: json.RawMessage(request)}
}

// prompt sends a prompt whose text is its request.
func (w *world) prompt(conn, request string) {
	blocks := json.RawMessage(fmt.Sprintf(`[{"type":"text","text":"%s/%s"}]`, conn, request))
	w.s.Prompt(origin(conn, request), blocks, nil, func(err error) {
		w.mu.Lock()
		defer w.mu.Unlock()
		w.refused = append(w.refused, fmt.Sprintf("%s/%s: %v", conn, request, err))
	})
	synctest.Wait()
}

func (w *world) attach(conn string) (snap Snapshot, c *Cursor) {
	w.t.Helper()
	var failed error
	w.s.Attach(fakeEditor(conn), func(s Snapshot, cur *Cursor) { snap, c = s, cur }, func(err error) { failed = err })
	synctest.Wait()
	if failed != nil {
		w.t.Fatalf("attaching %s: %v", conn, failed)
	}
	return snap, c
}

// facts is the log in words, without its beginning.
func (w *world) facts() []string { return w.factsOf(w.s.ID()) }

func (w *world) factsOf(id ID) []string {
	l := w.st.log(id)
	if l == nil {
		return nil
	}
	w.st.mu.Lock()
	defer w.st.mu.Unlock()
	names := map[Seq]string{} // prompts by seq
	var out []string
	for _, e := range l.events {
		switch e.Kind {
		case KindCreated, KindAgentStarted:
		case KindUpdate, KindAgentRecord:
			out = append(out, fmt.Sprintf("%s %s", e.Kind, e.Data))
		case KindPromptAdmitted:
			f, _ := decode[PromptAdmitted](e.Data)
			names[e.Seq] = f.Origin.Conn + "/" + string(f.Origin.Request)
			out = append(out, "admitted "+names[e.Seq])
		case KindPromptWithdrawn:
			f, _ := decode[PromptWithdrawn](e.Data)
			out = append(out, fmt.Sprintf("withdrawn %s %d", names[f.Prompt], f.Code))
		case KindPromptJoined:
			f, _ := decode[PromptJoined](e.Data)
			out = append(out, strings.TrimSpace("joined "+names[f.Prompt]+" to "+names[f.Turn]+" "+string(f.Update)))
		case KindTurnStarted:
			f, _ := decode[TurnStarted](e.Data)
			out = append(out, "started "+names[f.Prompt])
		case KindTurnEnded:
			f, _ := decode[TurnEnded](e.Data)
			how := f.StopReason
			if f.Error != nil {
				how = fmt.Sprint("error ", f.Error.Code)
			}
			out = append(out, "ended "+names[f.Prompt]+" "+how)
		case KindQuestionAsked:
			out = append(out, "asked")
		case KindQuestionAnswered:
			f, _ := decode[QuestionAnswered](e.Data)
			out = append(out, strings.TrimSpace(fmt.Sprintf("answered %s %s", f.Outcome, f.Option)))
		case KindDetached:
			f, _ := decode[Detached](e.Data)
			out = append(out, "detached "+f.Origin.Conn)
		default:
			out = append(out, e.Kind.String())
		}
	}
	return out
}

func (w *world) expect(want ...string) {
	w.t.Helper()
	synctest.Wait()
	if got := w.facts(); !slices.Equal(got, want) {
		w.t.Errorf("the log has\n  %s\nshould have\n  %s", strings.Join(got, "\n  "), strings.Join(want, "\n  "))
	}
}

// untilCancelled is a turn that ends when it is cancelled.
func untilCancelled(ctx context.Context, _ Host, _ Turn) (TurnResult, error) {
	<-ctx.Done()
	return TurnResult{StopReason: "cancelled"}, nil
}

// gate is a turn that ends when the test says so, or when it is cancelled.
type gate chan string

func (g gate) turn(ctx context.Context, _ Host, _ Turn) (TurnResult, error) {
	select {
	case stop := <-g:
		return TurnResult{StopReason: stop}, nil
	case <-ctx.Done():
		return TurnResult{}, ctx.Err()
	}
}

func sleep(d time.Duration) {
	time.Sleep(d) // time of the bubble
	synctest.Wait()
}

func chunkUpdate(id, text string) []byte {
	return fmt.Appendf(nil, `{"sessionUpdate":"agent_message_chunk","messageId":%q,"content":{"type":"text","text":%q}}`, id, text)
}
