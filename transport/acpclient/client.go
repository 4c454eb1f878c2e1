// Package acpclient answers: how does a program take an editor's part?
//
// A Client is one ACP connection seen from the editor's end. It calls (session/
// new, load, prompt, …), it answers questions, and it keeps what passed as one
// list of entries in the order of the wire: updates, responses, requests of the
// agent and their withdrawal. Tests and tools look into that list, wait for an
// entry without polling, and compare what two editors saw (Story).
//
// # Concurrency
//
// All methods may be called from any goroutine. Entries of what was received
// are appended by the one goroutine that reads, in wire order, and before the
// call that a response belongs to returns. Options.Received runs in that
// goroutine: it must not block and must not call the Client's calling methods.
// Options.Permission and Options.Request run in goroutines of their own, whose
// context ends when the agent withdraws its request or the connection ends.
// Close ends the connection and returns when no goroutine of the Client is left.
package acpclient

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strconv"
	"sync"
	"time"

	"github.com/hermesd/hermesd/transport/acp"
	"github.com/hermesd/hermesd/transport/jsonrpc"
)

// Options say how the Client behaves. The zero value is an editor without any
// capability, that leaves questions open.
type Options struct {
	// Name and Version are the clientInfo; "acpclient" and "0" if empty.
	Name, Version string
	// Capabilities is the clientCapabilities object; {} if nil.
	Capabilities json.RawMessage
	// Forget keeps no entries: for connections that live long. Entries, Await
	// and Story then know nothing; Received is still told everything.
	Forget bool
	// Received is told of every entry of what was received, in wire order.
	Received func(Entry)
	// Permission answers session/request_permission. If it is nil a question
	// stays open until Answer is called.
	Permission func(ctx context.Context, q Question) (optionID string, err error)
	// Request answers every other request of the agent; nil means "method not
	// found". The result is encoded as JSON; a *jsonrpc.Error is sent as it is.
	Request func(ctx context.Context, method string, params json.RawMessage) (any, error)
	// MaxLine bounds one line from the agent; 64 MiB if 0.
	MaxLine int
}

// Errors a caller branches on.
var (
	// ErrClosed: the connection has ended.
	ErrClosed = errors.New("the connection has ended")
	// ErrNotOpen: the question is not open, or not any more.
	ErrNotOpen = errors.New("the question is not open")
)

// Kind says what an Entry is.
type Kind string

// Kinds of entries.
const (
	Sent         Kind = "sent"         // our request or notification; Raw is its params
	Response     Kind = "response"     // the answer to a request of ours; Raw is the result, or Err
	Update       Kind = "update"       // session/update; Raw is the update object
	Notification Kind = "notification" // any other notification; Raw is its params
	Asked        Kind = "asked"        // a request of the agent; Raw is its params
	Withdrawn    Kind = "withdrawn"    // $/cancel_request for a request of the agent
	Answered     Kind = "answered"     // our answer to a request of the agent; Raw is the result, or Err
	Closed       Kind = "closed"       // the connection ended
)

// Entry is one thing that passed.
type Entry struct {
	Index   int // place in Entries; 0 if they are not kept
	Time    time.Time
	Kind    Kind
	Method  string // of the request or notification; for a Response, that of its request
	ID      string // of the request: ours as we made it, the agent's as it stood on the wire
	Session string // sessionId, if there is one
	Update  string // sessionUpdate, for Kind Update
	Raw     json.RawMessage
	Err     *jsonrpc.Error
}

// Question is an open session/request_permission.
type Question struct {
	ID       string // of the request, as it stood on the wire
	Session  string
	ToolCall json.RawMessage
	Title    string // of the tool call
	Options  []Option
	Raw      json.RawMessage // the params
}

// Option is one choice of a Question.
type Option struct {
	ID   string `json:"optionId"`
	Name string `json:"name"`
	Kind string `json:"kind"`
}

// Find gives the first option of this kind.
func (q Question) Find(kind string) (Option, bool) {
	for _, o := range q.Options {
		if o.Kind == kind {
			return o, true
		}
	}
	return Option{}, false
}

// Client is one connection. Make it with New, Dial or Spawn.
type Client struct {
	peer *jsonrpc.Peer
	o    Options
	wait sync.WaitGroup // watch, and the process's waiter

	mu        sync.Mutex
	entries   []Entry
	changed   chan struct{} // closed and replaced whenever entries grow
	calls     map[string]*Call
	questions map[string]*question
	nextID    uint64
	closed    error // why the connection ended; nil while it lives
}

type question struct {
	Question
	answer chan answer // takes one
}

type answer struct {
	result json.RawMessage
	err    *jsonrpc.Error
}

// New makes a Client on a connection and starts it. Closing the Client closes w.
func New(r io.Reader, w io.WriteCloser, o Options) *Client {
	c := &Client{
		o:         o,
		changed:   make(chan struct{}),
		calls:     map[string]*Call{},
		questions: map[string]*question{},
	}
	c.peer = jsonrpc.New(r, w, jsonrpc.Options{
		MaxLine:   o.MaxLine,
		Notify:    c.notified,
		Admit:     c.admit,
		Unclaimed: c.response,
	})
	c.wait.Add(1)
	go c.watch()
	c.peer.Start()
	return c
}

// watch ends the connection when the other side has: no answer can come any more.
func (c *Client) watch() {
	defer c.wait.Done()
	select {
	case <-c.peer.EOF():
		c.peer.Close(io.EOF)
	case <-c.peer.Done():
	}
	<-c.peer.Done()
	<-c.peer.EOF() // from here on nothing is received
	err := c.peer.Err()
	switch {
	case errors.Is(err, io.EOF):
		err = fmt.Errorf("%w: the agent's side closed it", ErrClosed)
	case !errors.Is(err, ErrClosed):
		err = fmt.Errorf("%w: %w", ErrClosed, err)
	}
	c.mu.Lock()
	c.closed = err
	calls := c.calls
	c.calls = map[string]*Call{}
	c.questions = map[string]*question{}
	e := c.appendLocked(Entry{Kind: Closed, Err: &jsonrpc.Error{Message: err.Error()}})
	c.mu.Unlock()
	for _, call := range calls {
		call.finish(nil, err)
	}
	c.tell(e)
}

// Close ends the connection and returns when nothing of the Client runs. Its
// error is nil; Err says whether the connection had ended before, and why.
func (c *Client) Close() error {
	c.peer.Close(ErrClosed)
	_ = c.peer.Wait() // Err has it
	c.wait.Wait()
	return nil
}

// Done is closed when the connection has ended.
func (c *Client) Done() <-chan struct{} { return c.peer.Done() }

// Err says why the connection ended; nil while it lives.
func (c *Client) Err() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.closed
}

// appendLocked keeps an entry and wakes who waits.
func (c *Client) appendLocked(e Entry) Entry {
	e.Time = time.Now()
	if !c.o.Forget {
		e.Index = len(c.entries)
		c.entries = append(c.entries, e)
		close(c.changed)
		c.changed = make(chan struct{})
	}
	return e
}

func (c *Client) append(e Entry) Entry {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.appendLocked(e)
}

func (c *Client) tell(e Entry) {
	if c.o.Received != nil {
		c.o.Received(e)
	}
}

// notified takes a notification, in the reading goroutine.
func (c *Client) notified(method string, params json.RawMessage, _ uint64) {
	e := Entry{Kind: Notification, Method: method, Raw: params}
	e.Session, _ = acp.GetString(params, "sessionId")
	switch method {
	case "session/update":
		e.Kind = Update
		e.Raw, _ = acp.Get(params, "update")
		e.Update = acp.UpdateKind(e.Raw)
	case "$/cancel_request":
		id, _ := acp.Get(params, "requestId")
		c.mu.Lock()
		if q := c.questions[string(id)]; q != nil {
			e.Kind, e.ID, e.Method, e.Session = Withdrawn, q.ID, "session/request_permission", q.Session
			delete(c.questions, q.ID)
		}
		e = c.appendLocked(e)
		c.mu.Unlock()
		c.tell(e)
		c.peer.CancelRequest(id)
		return
	}
	c.tell(c.append(e))
}

// admit takes a request of the agent, in the reading goroutine.
func (c *Client) admit(r *jsonrpc.Request) jsonrpc.Handler {
	e := Entry{Kind: Asked, Method: r.Method, ID: string(r.ID), Raw: r.Params}
	e.Session, _ = acp.GetString(r.Params, "sessionId")
	var handler jsonrpc.Handler
	switch {
	case r.Method == "session/request_permission":
		q := &question{Question: ParseQuestion(e.ID, r.Params), answer: make(chan answer, 1)}
		c.mu.Lock()
		c.questions[q.ID] = q
		e = c.appendLocked(e)
		c.mu.Unlock()
		handler = c.permission(q)
	case c.o.Request != nil:
		method, params := r.Method, r.Params
		handler = func(ctx context.Context) (any, error) { return c.o.Request(ctx, method, params) }
		e = c.append(e)
	default:
		e = c.append(e)
	}
	c.tell(e)
	if handler == nil {
		return nil
	}
	return func(ctx context.Context) (any, error) {
		result, err := handler(ctx)
		if ctx.Err() == nil {
			done := Entry{Kind: Answered, Method: e.Method, ID: e.ID, Session: e.Session}
			if err != nil {
				done.Err = wireError(err)
			} else {
				done.Raw, _ = json.Marshal(result)
			}
			c.wait.Go(func() { // when it is on its way: what is sent after that comes after it
				<-r.Sent()
				c.append(done)
			})
		}
		return result, err
	}
}

func wireError(err error) *jsonrpc.Error {
	var e *jsonrpc.Error
	if errors.As(err, &e) {
		return e
	}
	return &jsonrpc.Error{Code: -32603, Message: err.Error()}
}

// permission answers a question: with Options.Permission, or when Answer is called.
func (c *Client) permission(q *question) jsonrpc.Handler {
	return func(ctx context.Context) (any, error) {
		if c.o.Permission != nil {
			option, err := c.o.Permission(ctx, q.Question)
			c.take(q.ID)
			if err != nil {
				return nil, err
			}
			return selected(option), nil
		}
		select {
		case a := <-q.answer:
			if a.err != nil {
				return nil, a.err
			}
			return a.result, nil
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
}

// selected is the result of a question: the option, or "cancelled" if it is "".
func selected(option string) json.RawMessage {
	var o acp.Builder
	if option == "" {
		return o.Raw("outcome", []byte(`{"outcome":"cancelled"}`)).JSON()
	}
	var inner acp.Builder
	return o.Raw("outcome", inner.String("outcome", "selected").String("optionId", option).JSON()).JSON()
}

// ParseQuestion reads the params of a session/request_permission.
func ParseQuestion(id string, params json.RawMessage) Question {
	q := Question{ID: id, Raw: params}
	q.Session, _ = acp.GetString(params, "sessionId")
	q.ToolCall, _ = acp.Get(params, "toolCall")
	q.Title, _ = acp.GetString(q.ToolCall, "title")
	if options, ok := acp.Get(params, "options"); ok {
		_ = json.Unmarshal(options, &q.Options)
	}
	return q
}

// Questions lists the questions that are open.
func (c *Client) Questions() []Question {
	c.mu.Lock()
	defer c.mu.Unlock()
	list := make([]Question, 0, len(c.questions))
	for _, q := range c.questions {
		list = append(list, q.Question)
	}
	return list
}

// take removes an open question; nil if it is not open.
func (c *Client) take(id string) *question {
	c.mu.Lock()
	defer c.mu.Unlock()
	q := c.questions[id]
	delete(c.questions, id)
	return q
}

// Answer selects an option of an open question; "" puts the question away with
// the outcome "cancelled". ErrNotOpen if somebody was faster.
func (c *Client) Answer(questionID, optionID string) error {
	return c.AnswerRaw(questionID, selected(optionID), nil)
}

// AnswerRaw answers an open question with any result, or with an error.
func (c *Client) AnswerRaw(questionID string, result json.RawMessage, err *jsonrpc.Error) error {
	q := c.take(questionID)
	if q == nil {
		return ErrNotOpen
	}
	q.answer <- answer{result: result, err: err}
	return nil
}

// Call is a request of ours under way.
type Call struct {
	ID     string
	Method string
	client *Client
	done   chan struct{}
	result json.RawMessage
	err    error
}

func (k *Call) finish(result json.RawMessage, err error) {
	k.result, k.err = result, err
	close(k.done)
}

// Done is closed when the response is there.
func (k *Call) Done() <-chan struct{} { return k.done }

// Wait gives the result. If ctx ends first, it returns ctx's error; the request
// stays under way.
func (k *Call) Wait(ctx context.Context) (json.RawMessage, error) {
	select {
	case <-k.done:
		return k.result, k.err
	default:
	}
	select {
	case <-k.done:
		return k.result, k.err
	case <-ctx.Done():
		return nil, fmt.Errorf("waiting for the answer to %s: %w", k.Method, context.Cause(ctx))
	}
}

// Cancel sends $/cancel_request for the call. The response still comes.
func (k *Call) Cancel() error {
	var o acp.Builder
	return k.client.Notify("$/cancel_request", o.String("requestId", k.ID).JSON())
}

// Start sends a request and returns at once. Requests and notifications leave
// in the order in which Start and Notify return.
func (c *Client) Start(method string, params any) (*Call, error) {
	raw, err := encode(params)
	if err != nil {
		return nil, err
	}
	call := &Call{Method: method, client: c, done: make(chan struct{})}
	c.mu.Lock()
	if c.closed != nil {
		c.mu.Unlock()
		return nil, c.closed
	}
	c.nextID++
	call.ID = "c" + strconv.FormatUint(c.nextID, 10)
	c.calls[call.ID] = call
	session, _ := acp.GetString(raw, "sessionId")
	c.appendLocked(Entry{Kind: Sent, Method: method, ID: call.ID, Session: session, Raw: raw})
	c.mu.Unlock()
	if err := c.peer.Enqueue(jsonrpc.RequestLine(call.ID, method, raw)); err != nil {
		c.mu.Lock()
		delete(c.calls, call.ID)
		c.mu.Unlock()
		return nil, fmt.Errorf("%w: %w", ErrClosed, err)
	}
	return call, nil
}

// Notify sends a notification.
func (c *Client) Notify(method string, params any) error {
	raw, err := encode(params)
	if err != nil {
		return err
	}
	session, _ := acp.GetString(raw, "sessionId")
	c.append(Entry{Kind: Sent, Method: method, Session: session, Raw: raw})
	return c.peer.Enqueue(jsonrpc.Notification(method, raw))
}

// Send puts complete lines on the wire as they are, newline and all: for tests
// of what no client should say. Answers to requests in them become
// Notification entries without a method.
func (c *Client) Send(lines ...[]byte) error { return c.peer.Enqueue(lines...) }

// Call sends a request and waits for its result, which is decoded into result
// unless that is nil. If ctx ends, the request is cancelled and ctx's error
// returned. An error of the agent is a *jsonrpc.Error.
func (c *Client) Call(ctx context.Context, method string, params, result any) error {
	call, err := c.Start(method, params)
	if err != nil {
		return err
	}
	raw, err := call.Wait(ctx)
	if err != nil {
		select {
		case <-call.done:
		default:
			_ = call.Cancel()
		}
		return err
	}
	if result == nil {
		return nil
	}
	if err := json.Unmarshal(raw, result); err != nil {
		return fmt.Errorf("reading the answer to %s: %w", method, err)
	}
	return nil
}

func encode(params any) (json.RawMessage, error) {
	switch p := params.(type) {
	case nil:
		return json.RawMessage(`{}`), nil
	case json.RawMessage:
		return p, nil
	}
	return json.Marshal(params)
}

// response takes an answer, in the reading goroutine. The Peer has no table of
// our calls: so answers come here in wire order with everything else.
func (c *Client) response(id, result json.RawMessage, failed *jsonrpc.Error, _ uint64) {
	var name string
	if json.Unmarshal(id, &name) != nil {
		name = string(id)
	}
	e := Entry{Kind: Response, ID: name, Raw: result, Err: failed}
	c.mu.Lock()
	call := c.calls[name]
	if call != nil {
		delete(c.calls, name)
		e.Method = call.Method
	} else {
		e.Kind = Notification
	}
	e = c.appendLocked(e)
	c.mu.Unlock()
	c.tell(e)
	if call == nil {
		return
	}
	if failed != nil {
		call.finish(nil, failed)
	} else {
		call.finish(result, nil)
	}
}

// Entries is what has passed so far.
func (c *Client) Entries() []Entry {
	c.mu.Lock()
	defer c.mu.Unlock()
	return append([]Entry(nil), c.entries...)
}

// Len is the number of entries so far: the index of the next one.
func (c *Client) Len() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return len(c.entries)
}

// Await returns the first entry from the index from on that matches, waiting
// for it if need be. If the connection ends without one it returns ErrClosed,
// if ctx ends ctx's error.
func (c *Client) Await(ctx context.Context, from int, match func(Entry) bool) (Entry, error) {
	for {
		c.mu.Lock()
		fresh, changed, closed := c.entries[min(from, len(c.entries)):], c.changed, c.closed
		c.mu.Unlock()
		for _, e := range fresh {
			if match(e) {
				return e, nil
			}
		}
		from += len(fresh)
		if closed != nil {
			return Entry{}, closed
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return Entry{}, context.Cause(ctx)
		}
	}
}
