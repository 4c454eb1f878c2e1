package jsonrpc

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"sync"
)

// An answer is the response to one of our requests.
type answer struct {
	result json.RawMessage
	err    *Error
}

// calls is the table of our requests that wait for their answer.
type calls struct {
	mu      sync.Mutex
	pending map[string]chan answer // by id; each takes one answer without blocking
}

func (c *calls) add(id string) (chan answer, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.pending[id] != nil {
		return nil, ErrDuplicateID
	}
	if c.pending == nil {
		c.pending = make(map[string]chan answer)
	}
	ch := make(chan answer, 1)
	c.pending[id] = ch
	return ch, nil
}

// take removes a request from the table. Whoever gets it decides its fate.
func (c *calls) take(id string) (chan answer, bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	ch, ok := c.pending[id]
	delete(c.pending, id)
	return ch, ok
}

// Call sends a request and waits for its answer. The id is the caller's and
// must not be in use; on the wire it is a JSON string. Params are raw JSON or
// anything encoding/json takes; nil leaves them out.
//
// An error answer is returned as *Error. When ctx ends first, Call returns its
// error at once, having told the other side with $/cancel_request; what is
// answered later goes to Options.Unclaimed. When the peer closes or its input
// ends there will be no answer, and the error says so.
func (p *Peer) Call(ctx context.Context, id, method string, params any) (json.RawMessage, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	var raw json.RawMessage
	if params != nil {
		var err error
		if raw, err = encode(params); err != nil {
			return nil, fmt.Errorf("encoding the params of %s: %w", method, err)
		}
	}
	select {
	case <-p.eof:
		return nil, p.unanswered(method)
	default:
	}
	ch, err := p.calls.add(id)
	if err != nil {
		return nil, fmt.Errorf("calling %s: %w", method, err)
	}
	if err := p.Enqueue(RequestLine(id, method, raw)); err != nil {
		p.calls.take(id)
		return nil, fmt.Errorf("calling %s: %w", method, err)
	}

	select {
	case a := <-ch:
		return a.get()
	case <-ctx.Done():
	case <-p.eof:
	case <-p.done:
	}
	if _, ok := p.calls.take(id); !ok { // the answer came at the same moment
		a := <-ch
		return a.get()
	}
	select {
	case <-p.done:
		return nil, p.unanswered(method)
	case <-p.eof:
		return nil, p.unanswered(method)
	default:
	}
	// The reason to give up may be that nobody reads: an overflow closes
	// the peer, which is all there is to do about it.
	_ = p.Enqueue(Notification("$/cancel_request", append(appendString([]byte(`{"requestId":`), id), '}')))
	return nil, ctx.Err()
}

// unanswered says why a call will have no answer.
func (p *Peer) unanswered(method string) error {
	if err := p.Err(); err != nil && err != io.EOF {
		return fmt.Errorf("calling %s: %w", method, err)
	}
	return fmt.Errorf("calling %s: the other side has ended without an answer: %w", method, ErrClosed)
}

func (a answer) get() (json.RawMessage, error) {
	if a.err != nil {
		return nil, a.err
	}
	return a.result, nil
}

// settle gives a response to the call it answers. own says that its memory may
// be kept.
func (p *Peer) settle(m *message, own bool) {
	var a answer
	if m.fault != nil {
		a.err = parseError(keep(m.fault, own))
	} else {
		a.result = keep(m.result, own)
	}
	if m.id[0] == '"' {
		if ch, ok := p.calls.take(unquote(m.id)); ok {
			ch <- a
			return
		}
	}
	if p.o.Unclaimed != nil {
		p.o.Unclaimed(keep(m.id, own), a.result, a.err, p.lines.n)
	}
}
