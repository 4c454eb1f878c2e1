package daemon

import (
	"context"
	"encoding/json"
	"errors"
	"sync"
	"sync/atomic"
	"time"

	"github.com/hermesd/hermesd/daemon/session"
	"github.com/hermesd/hermesd/transport/acp"
	"github.com/hermesd/hermesd/transport/jsonrpc"
)

// attachment is one session that a connection has open. Its pump reads the
// session's events in order and writes what they project to; it gives the
// answers that events bring where it passes them.
type attachment struct {
	e       *editor
	session *session.Session
	ctx     context.Context
	cancel  context.CancelFunc
	started atomic.Bool   // the pump has a cursor, or is about to
	done    chan struct{} // closed when the pump has ended
	closing atomic.Bool   // session/close was admitted: no more requests

	passed atomic.Uint64 // Seq of the last event the pump has passed

	mu        sync.Mutex
	waiting   map[string]*waiting    // requests by id, verbatim, until they are answered
	promptIDs map[string]*waiting    // prompts not answered, by id of the request
	asked     map[session.Seq]string // questions that stand before the editor: id of our request
	todo      []todo
	swept     error         // why nothing is answered any more: the pump has ended
	wake      chan struct{} // capacity 1: todo has grown

	// Only the pump's.
	cursor  *session.Cursor
	prompts map[session.Seq]*waiting // own prompts admitted and not answered
}

// waiting is a request that an event will answer.
type waiting struct {
	req    *jsonrpc.Request
	handed chan answer                // capacity 1; nil if req is deferred: the answer then goes straight out
	result func(session.Settings) any // for SettingsChanged: what is answered
	origin session.Origin             // of a prompt that was admitted; the pump's
}

type answer struct {
	result any
	err    error
}

// todo is something the pump does when it has passed the event at.
type todo struct {
	at     session.Seq
	cursor *session.Cursor // where the pump starts if it has not yet
	do     func(ctx context.Context) error
}

func newAttachment(e *editor, s *session.Session) *attachment {
	ctx, cancel := context.WithCancel(e.ctx)
	return &attachment{
		ctx: ctx, cancel: cancel, e: e, session: s, done: make(chan struct{}), wake: make(chan struct{}, 1),
		waiting: make(map[string]*waiting), promptIDs: make(map[string]*waiting), asked: make(map[session.Seq]string), prompts: make(map[session.Seq]*waiting),
	}
}

// expect notes that an event will answer r, which is being admitted.
func (a *attachment) expect(r *jsonrpc.Request) *waiting {
	w := &waiting{req: r}
	r.Defer(func() { a.refuse(w, context.Canceled) })
	if err := a.note(w); err != nil {
		a.refuse(w, err)
	}
	return w
}

// note has the pump answer w, or says why it will not.
func (a *attachment) note(w *waiting) error {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.swept == nil {
		a.waiting[string(w.req.ID)] = w
	}
	return a.swept
}

// await has a handler's own goroutine wait for the event that answers r: do
// sets going what will bring it.
func (a *attachment) await(ctx context.Context, r *jsonrpc.Request, do func(*waiting)) (any, error) {
	w := &waiting{req: r, handed: make(chan answer, 1)}
	if err := a.note(w); err != nil {
		return nil, err
	}
	defer a.forget(w)
	do(w)
	select {
	case got := <-w.handed:
		return got.result, got.err
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

// take gives the request that an event of this origin answers, nil if the
// event is not of this connection or was answered.
func (a *attachment) take(o session.Origin) *waiting {
	if o.Conn != a.e.Conn() || o.Request == nil {
		return nil
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	w := a.waiting[string(o.Request)]
	delete(a.waiting, string(o.Request))
	return w
}

// refuse answers a request that no event will answer.
func (a *attachment) refuse(w *waiting, err error) { a.settle(w, nil, err) }

// settle gives the answer, of which only the first one counts.
func (a *attachment) settle(w *waiting, result any, err error) {
	a.forget(w)
	if w.handed == nil {
		a.e.peer.Answer(w.req, result, err)
		return
	}
	select {
	case w.handed <- answer{result, err}:
	default: // answered already
	}
}

// reply answers w and returns when the answer is on the connection's queue, so
// that what the pump writes next comes after it.
func (a *attachment) reply(w *waiting, result any, err error) {
	a.settle(w, result, err)
	if w.handed == nil {
		return
	}
	select {
	case <-w.req.Sent():
	case <-a.e.ctx.Done():
	}
}

// later puts something in line for the pump.
func (a *attachment) later(t todo) {
	a.mu.Lock()
	a.todo = append(a.todo, t)
	a.mu.Unlock()
	a.started.Store(true)
	select {
	case a.wake <- struct{}{}:
	default:
	}
}

// at has the pump do something when it stands exactly at a snapshot. If it is
// ahead of this one already, because the session was attached before, it takes
// another: between it and what is done nothing else is said.
func (a *attachment) at(snap session.Snapshot, c *session.Cursor, do func(context.Context, session.Snapshot) error) {
	a.later(todo{at: snap.At, cursor: c, do: func(ctx context.Context) error {
		if a.cursor.Pos() == snap.At {
			return do(ctx, snap)
		}
		got := make(chan session.Snapshot, 1)
		a.session.Snapshot(func(s session.Snapshot) { got <- s }, func(error) {}) // the pump ends as well then
		select {
		case now := <-got:
			a.mu.Lock()
			a.todo = append([]todo{{at: now.At, do: func(ctx context.Context) error { return do(ctx, now) }}}, a.todo...)
			a.mu.Unlock()
		case <-a.session.Done():
		case <-ctx.Done():
		}
		return nil
	}})
}

func (a *attachment) next() (todo, bool) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if len(a.todo) == 0 {
		return todo{}, false
	}
	return a.todo[0], true
}

func (a *attachment) drop() {
	a.mu.Lock()
	a.todo[0] = todo{} // it holds a whole answer
	if a.todo = a.todo[1:]; len(a.todo) == 0 {
		a.todo = nil
	}
	a.mu.Unlock()
}

var errPumpDone = errors.New("the session is closed on this connection")

// pump runs until the connection or the attachment ends. It says whether the
// session knows of the end already.
func (a *attachment) pump() (known bool) {
	defer a.cancel()
	err := a.run(a.ctx)
	a.closing.Store(true)
	defer close(a.done)
	if errors.Is(err, session.ErrNotFound) {
		a.endPrompts()
		a.tellDeleted(time.Now())
	}
	a.mu.Lock()
	left := a.waiting
	a.waiting, a.swept = make(map[string]*waiting), wire(err, a.session.ID())
	a.todo = nil // their requests are among those left
	a.mu.Unlock()
	for _, w := range left {
		a.reply(w, nil, wire(err, a.session.ID()))
	}
	for _, w := range a.prompts {
		a.reply(w, nil, wire(err, a.session.ID()))
	}
	if known = errors.Is(err, errPumpDone) || errors.Is(err, session.ErrNotFound) || errors.Is(err, session.ErrClosed); !known && a.e.ctx.Err() == nil && a.ctx.Err() == nil {
		a.e.log.Warn().Str("session", string(a.session.ID())).Err(err).Msg("the session is closed on this connection")
	}
	return known
}

func (a *attachment) run(ctx context.Context) error {
	soft := a.e.d.cfg.Limits.SoftQueue
	for {
		t, some := a.next()
		if some && (a.cursor == nil || a.cursor.Pos() >= t.at) {
			if a.cursor == nil {
				a.cursor = t.cursor
				a.passed.Store(uint64(t.at))
			}
			a.drop()
			if err := t.do(ctx); err != nil {
				return err
			}
			continue
		}
		if a.cursor == nil {
			select {
			case <-a.wake:
				continue
			case <-ctx.Done():
				return ctx.Err()
			}
		}
		moved, ready := a.cursor.Ready()
		if !ready {
			select {
			case <-moved:
			case <-a.wake:
			case <-ctx.Done():
				return ctx.Err()
			}
			continue
		}
		if err := a.e.peer.Room(ctx, soft); err != nil {
			return err
		}
		page, err := a.cursor.Next(ctx, t.at)
		if err != nil {
			return err
		}
		if err := a.deliver(ctx, page); err != nil {
			return err
		}
	}
}

// deliver writes a page and notes how far the connection is.
func (a *attachment) deliver(ctx context.Context, p session.Page) error {
	if b := p.Block; b != nil {
		if b.Plain {
			a.e.send(b.Frames(p.From))
			a.passed.Store(uint64(b.Last))
			return nil
		}
		for i := range b.Events {
			if b.Events[i].Seq < p.From {
				continue
			}
			if err := a.pass(ctx, b.Events[i].Record()); err != nil {
				return err
			}
		}
		return nil
	}
	for _, r := range p.Records {
		if err := a.e.peer.Room(ctx, a.e.d.cfg.Limits.SoftQueue); err != nil {
			return err
		}
		if err := a.pass(ctx, r); err != nil {
			return err
		}
	}
	return nil
}

func (a *attachment) pass(ctx context.Context, r session.Record) error {
	err := a.project(ctx, r)
	a.passed.Store(uint64(r.Last))
	return err
}

// put asks the editor a question, unless it has it already.
func (a *attachment) put(q session.Seq, fact session.QuestionAsked) {
	if !a.session.IsOpen(q) || !a.e.CanAnswer() {
		return
	}
	id := questionID(a.session.ID(), q)
	a.mu.Lock()
	_, has := a.asked[q]
	a.asked[q] = id
	a.mu.Unlock()
	if has {
		return
	}
	line := jsonrpc.RequestLine(id, "session/request_permission", acp.PermissionParams(string(a.session.ID()), fact.ToolCall, fact.Options, fact.Meta))
	conn := a.e.Conn()
	_ = a.e.peer.EnqueueNotify(line, func() { a.session.Shown(conn, q) })
}

// withdraw takes a question back that somebody else has answered, or nobody.
func (a *attachment) withdraw(q session.Seq) {
	a.mu.Lock()
	id, has := a.asked[q]
	delete(a.asked, q)
	a.mu.Unlock()
	if has {
		a.e.send(jsonrpc.Notification("$/cancel_request", raw(map[string]any{"requestId": id})))
	}
}

// answered notes that the editor has replied to a question; false if it was
// not before it.
func (a *attachment) answered(q session.Seq) bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	_, has := a.asked[q]
	delete(a.asked, q)
	return has
}

func raw(v any) json.RawMessage {
	b, err := json.Marshal(v)
	if err != nil {
		panic(err) // our own types
	}
	return b
}

// expectPrompt is expect for a prompt, which $/cancel_request treats like
// session/cancel.
func (a *attachment) expectPrompt(r *jsonrpc.Request) *waiting {
	w := a.expect(r)
	a.mu.Lock()
	if a.swept == nil {
		a.promptIDs[string(r.ID)] = w
	}
	a.mu.Unlock()
	return w
}

func (a *attachment) isPrompt(id string) bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.promptIDs[id] != nil
}

// forget removes what is left of a request that has been answered.
func (a *attachment) forget(w *waiting) {
	id := string(w.req.ID)
	a.mu.Lock()
	if a.promptIDs[id] == w {
		delete(a.promptIDs, id)
	}
	if a.waiting[id] == w {
		delete(a.waiting, id)
	}
	a.mu.Unlock()
}

// abandon refuses the request that was to attach, and ends an attachment that
// never came to be. Who has been refused finds nothing left of it.
func (a *attachment) abandon(w *waiting, err error) {
	never := !a.started.Load()
	if never {
		a.closing.Store(true)
	}
	a.refuse(w, err)
	if never {
		a.cancel()
	}
}
