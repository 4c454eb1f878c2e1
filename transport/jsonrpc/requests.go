package jsonrpc

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"runtime/debug"
	"strconv"
	"sync"
	"unicode/utf8"

	"github.com/creachadair/jrpc2"
)

// A Request is a request of the other side.
type Request struct {
	ID     json.RawMessage // verbatim; "null" is possible
	Method string
	Params json.RawMessage // verbatim; nil if absent
	// Line is the number of the line it came in. All lines count, from 1,
	// also blank and bad ones.
	Line uint64

	sent     chan struct{}
	in       *inbound
	deferred func() // set by Defer
}

// Defer says, while Admit runs, that no Handler answers r: the owner will, with
// [Peer.Answer], from anywhere and at any time. No goroutine waits for it in
// the meantime. cancelled, if not nil, is called by CancelRequest when it names
// r before that; it must not block.
func (r *Request) Defer(cancelled func()) {
	if cancelled == nil {
		cancelled = func() {}
	}
	r.deferred = cancelled
}

// Sent returns a channel that is closed when the response to r has been put on
// the queue, so that what is enqueued afterwards is written after it. It is
// also closed when the peer closes.
func (r *Request) Sent() <-chan struct{} { return r.sent }

// A Handler produces the response to one request. A result that is a
// json.RawMessage is sent verbatim (line breaks between values become spaces);
// any other is encoded; nil is null. An *Error is sent as it is, also out of a
// wrapping error; context.Canceled becomes -32800; every other error, and a
// panic, becomes -32603.
//
// The context is cancelled by [Peer.CancelRequest] and when the peer closes,
// not when the input ends.
type Handler func(ctx context.Context) (result any, err error)

// An inbound is a request in flight: from its admission until its response is
// on the queue.
type inbound struct {
	*Request
	seq    string // our own number for it, the id that the server sees
	key    string // equal for equal ids; "" for null, which equals nothing
	handle Handler
	ctx    context.Context // of the handler

	// Guarded by requests.mu.
	cancel    func() // nil while Admit runs
	cancelled bool   // it was to be called
	over      bool   // answered, or never to be

	// line is the response. It is written by the handler's goroutine, and
	// then sent by the same one.
	line []byte

	once sync.Once // of closing sent
}

// markSent closes the sent channel: when the response is on the queue and when
// the peer closes, whichever comes first.
func (in *inbound) markSent() { in.once.Do(func() { close(in.sent) }) }

// requests is the table of what is in flight.
type requests struct {
	max int

	mu     sync.Mutex
	byKey  map[string]*inbound // without those whose key is ""
	bySeq  map[string]*inbound
	last   uint64
	closed bool // the sent channels of all in the table are closed

	running sync.WaitGroup // one for each in the table; added to by the reader only
}

// add enters a request, or says why not.
func (t *requests) add(in *inbound) *Error {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.byKey[in.key] != nil {
		return invalid("a request with this id is in flight")
	}
	if len(t.bySeq) >= t.max {
		return &Error{Code: codeBusy, Message: fmt.Sprintf("too many requests in flight (%d): wait for answers before you send more", t.max)}
	}
	if t.bySeq == nil {
		t.byKey, t.bySeq = make(map[string]*inbound), make(map[string]*inbound)
	}
	t.last++
	in.seq = strconv.FormatUint(t.last, 10)
	t.bySeq[in.seq] = in
	if in.key != "" {
		t.byKey[in.key] = in
	}
	if t.closed {
		in.markSent()
	}
	t.running.Add(1)
	return nil
}

func (t *requests) get(seq string) *inbound {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.bySeq[seq]
}

// remove frees the id, and says whether it was still taken. It comes before
// the response is sent: once the other side has that, it may use the id again.
func (t *requests) remove(in *inbound) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.removeLocked(in)
}

func (t *requests) removeLocked(in *inbound) bool {
	if in.over {
		return false
	}
	in.over = true
	delete(t.bySeq, in.seq)
	delete(t.byKey, in.key)
	return true
}

// admitted says what cancels in from here on, and reports whether it is to be
// cancelled at once.
func (t *requests) admitted(in *inbound, cancel func()) (now bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	in.cancel = cancel
	if in.deferred != nil && t.closed && t.removeLocked(in) {
		t.running.Done()
	}
	return in.cancelled
}

// close ends what nobody runs: the answers of the others come to nothing.
func (t *requests) close() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.closed = true
	for _, in := range t.bySeq {
		in.markSent()
		if in.cancel != nil && in.deferred != nil && t.removeLocked(in) { // else Admit still runs
			t.running.Done()
		}
	}
}

// CancelRequest cancels the context of a request that is in flight (one that is
// deferred is told in its own way) and reports whether it is. The id is compared as it was sent: 1, 1.0 and "1" are three
// ids, and null names no request.
func (p *Peer) CancelRequest(id json.RawMessage) bool {
	key := idKey(bytes.TrimSpace(id))
	if key == "" {
		return false
	}
	p.requests.mu.Lock()
	in := p.requests.byKey[key]
	var cancel func()
	if in != nil {
		in.cancelled, cancel = true, in.cancel
	}
	p.requests.mu.Unlock()
	if cancel != nil {
		cancel()
	}
	return in != nil
}

// idKey maps ids that are spelled differently but are the same string to one key.
func idKey(id []byte) string {
	switch {
	case isNull(id):
		return ""
	case bytes.IndexByte(id, '\\') >= 0 && json.Valid(id):
		return `"` + unquote(id) + `"`
	}
	return string(id)
}

// admit takes a request in, in the reader: it asks the owner and hands the
// handler, if there is one, to the server.
func (p *Peer) admit(m *message, own bool) {
	r := &Request{ID: keep(m.id, own), Method: p.methodName(m.method), Params: keep(m.params, own), Line: p.lines.n, sent: make(chan struct{})}
	in := &inbound{Request: r, key: idKey(r.ID)}
	r.in = in
	if e := p.requests.add(in); e != nil {
		p.send(errorLine(r.ID, e))
		return
	}
	p.queue.hold()
	if p.o.Admit != nil {
		in.handle = p.o.Admit(r)
	}
	switch {
	case r.deferred != nil:
		if p.requests.admitted(in, r.deferred) {
			r.deferred()
		}
		return
	case in.handle == nil:
		in.line = errorLine(r.ID, &Error{Code: codeNoMethod, Message: "Method not found: " + short(r.Method)})
		p.respond(in)
		return
	}
	ctx, cancel := context.WithCancel(p.ctx)
	in.ctx = ctx
	if p.requests.admitted(in, cancel) {
		cancel()
	}
	if p.server == nil {
		p.feed = make(chan []byte)
		p.server = jrpc2.NewServer(assigner{p}, &jrpc2.ServerOptions{
			Concurrency:    1 << 30, // requests.max is the limit
			DisableBuiltin: true,    // no rpc.* method but ours
		}).Start(half{p})
	}
	p.feed <- []byte(`{"jsonrpc":"2.0","id":` + in.seq + `,"method":"run"}`)
}

// Answer gives the response to a request that was deferred, as a [Handler]
// would return it. When it returns, the response is on the queue: what is
// enqueued afterwards is written after it. Only the first answer to a request
// counts, and none once the peer has closed.
func (p *Peer) Answer(r *Request, result any, err error) {
	line := p.line(r.in, func() (any, error) { return result, err })
	if !p.requests.remove(r.in) {
		return
	}
	p.sent(r.in, line)
}

// short keeps a name from making an answer long.
func short(name string) string {
	const limit = 200
	if len(name) <= limit {
		return name
	}
	n := limit
	for n > 0 && !utf8.RuneStart(name[n]) {
		n--
	}
	return name[:n] + "…"
}

// respond puts the response of a handler on the queue and ends the request.
func (p *Peer) respond(in *inbound) {
	p.requests.remove(in)
	if in.cancel != nil {
		defer in.cancel()
	}
	p.sent(in, in.line)
}

// sent puts the response to a request on the queue that was just removed.
func (p *Peer) sent(in *inbound, line []byte) {
	p.send(line)
	in.markSent()
	p.queue.release()
	p.requests.running.Done()
}

// The server sees our own numbers instead of the other side's ids, and neither
// params nor results: it would decode, compact and escape them. What it does
// is to run the handlers and to say when a response is due.

// half is the server's channel.
type half struct{ p *Peer }

// Recv gives the server its next request, in a goroutine of the server.
func (h half) Recv() ([]byte, error) {
	b, ok := <-h.p.feed
	if !ok {
		return nil, io.EOF
	}
	return b, nil
}

// Send takes the server's response and sends the real one in its place.
func (h half) Send(b []byte) error {
	var s scanner
	in := h.p.requests.get(string(s.classify(b).id))
	if in == nil {
		return fmt.Errorf("response to nothing: %q", b)
	}
	if in.line == nil { // the server did not run the handler
		in.line = errorLine(in.ID, wireError(fmt.Errorf("request was not run: %s", b)))
	}
	h.p.respond(in)
	return nil
}

// Close is called by the server when feed is closed; there is nothing to do.
func (h half) Close() error { return nil }

// assigner finds the handler of a request that was admitted.
type assigner struct{ p *Peer }

// Assign is called with a lock of the server held and never returns nil: the
// server would keep the id of such a request for ever.
func (a assigner) Assign(ctx context.Context, _ string) jrpc2.Handler {
	in := a.p.requests.get(jrpc2.InboundRequest(ctx).ID())
	return func(context.Context, *jrpc2.Request) (any, error) {
		if in != nil {
			in.line = a.p.line(in, func() (any, error) { return in.handle(in.ctx) })
		}
		return nil, nil
	}
}

// line encodes the response that answer gives.
func (p *Peer) line(in *inbound, answer func() (any, error)) (line []byte) {
	defer func() {
		if x := recover(); x != nil {
			line = errorLine(in.ID, &Error{Code: codeInternal, Message: "Internal error"})
			if p.o.Panicked != nil {
				p.o.Panicked(in.Method, x, debug.Stack())
			}
		}
	}()
	result, err := answer()
	if err == nil {
		var raw json.RawMessage
		if raw, err = encode(result); err == nil {
			return resultLine(in.ID, raw)
		}
		err = fmt.Errorf("encoding the result: %w", err)
	}
	return errorLine(in.ID, wireError(err))
}
