package daemon

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"runtime/debug"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/rs/zerolog"

	"github.com/hermesd/hermesd/daemon/session"
	"github.com/hermesd/hermesd/transport"
	"github.com/hermesd/hermesd/transport/acp"
	"github.com/hermesd/hermesd/transport/jsonrpc"
	"github.com/hermesd/hermesd/transport/link"
)

// editor is one connection: an editor, a command, or anything else that speaks
// ACP as a client.
type editor struct {
	d     *Daemon
	conn  *transport.Conn
	peer  *jsonrpc.Peer
	hello link.Hello // ID names the connection
	said  bool       // it is of the shim's; else it is made here
	// environ is the editor's environment: what runs for it gets. It is nowhere but
	// here and in what this connection asks for, and goes with them.
	environ *session.Environ
	log     zerolog.Logger
	since   time.Time

	gone   chan struct{}   // closed when the daemon does not know it any more
	ctx    context.Context // ends with the connection
	cancel context.CancelFunc
	pumps  sync.WaitGroup

	// init is written by the reader once and read by everybody after it.
	mu    sync.Mutex
	init  *acp.Initialize
	open  map[session.ID]*attachment
	quick []*jsonrpc.Request // may be in flight, and are answered without waiting for a turn

	in, out atomic.Uint64 // bytes

	unable atomic.Bool // it does not know permission requests: none is sent to it any more
}

// meet reads what a connection says first and makes an editor of it. A hello
// is answered with a welcome; anything else is a plain ACP client.
func (d *Daemon) meet(c *transport.Conn) (*editor, error) {
	_ = c.SetDeadline(time.Now().Add(d.cfg.Limits.FirstFrame)) // a pipe has none and needs none
	hello, said, rest, err := link.ReadHello(c)
	if err == nil {
		err = d.letIn(c, &hello, said)
	}
	if err != nil {
		return nil, err
	}
	if said {
		_ = c.SetDeadline(time.Time{})
		w := d.welcome(hello)
		if !d.agents.Has(hello.Agent) {
			w.Error = d.noAgent(hello.Agent)
		}
		if _, err := c.Write(w.Line()); err != nil {
			return nil, err
		}
		if w.Error != "" {
			return nil, errors.New(w.Error)
		}
	} else {
		_ = c.SetWriteDeadline(time.Time{})
		rest = &firstLine{r: rest, c: c}
		hello = link.Hello{ID: link.NewID()}
	}
	environ := session.NewEnviron(hello.Env) // letIn leaves none of another machine's
	hello.Env = nil
	e := &editor{d: d, conn: c, hello: hello, said: said, environ: environ, gone: make(chan struct{}), since: time.Now(), open: make(map[session.ID]*attachment)}
	e.log = identified(d.cfg.Log.With().Str("conn", short(e.hello.ID)), c.Principal).Logger()
	e.ctx, e.cancel = context.WithCancel(context.Background())
	if c.Principal.Remotely() {
		rest = &lineTime{r: rest, c: c, limit: d.cfg.Limits.LineTime}
	}
	e.peer = jsonrpc.New(inbound{rest, e}, outbound{e}, jsonrpc.Options{
		MaxLine: d.maxLine(c.Principal), MaxQueue: d.cfg.Limits.HardQueue + d.cfg.Limits.MaxFrame, // an update alone is no reason: pumps wait for room
		MaxInFlight:   d.cfg.Limits.MaxInFlight,
		AnswerGarbage: true,
		Notify: func(method string, params json.RawMessage, line uint64) {
			defer e.guard(method)
			e.notified(method, params, line)
		},
		Admit: func(r *jsonrpc.Request) jsonrpc.Handler {
			defer e.guard(r.Method)
			return e.admit(r)
		},
		Unclaimed: func(id, result json.RawMessage, failure *jsonrpc.Error, line uint64) {
			defer e.guard("response")
			e.replied(id, result, failure, line)
		},
		Panicked: func(method string, value any, stack []byte) {
			e.log.Error().Str("method", method).Interface("panic", value).Bytes("stack", stack).Msg("a handler panicked")
		},
		Garbage: func(line []byte, err error) { e.log.Debug().Err(err).Int("bytes", len(line)).Msg("line refused") },
	})
	return e, nil
}

// guard keeps a mistake of ours in one connection from ending the sessions of
// all others: the connection is closed, and the log says why.
func (e *editor) guard(method string) {
	if x := recover(); x != nil {
		e.log.Error().Str("method", method).Interface("panic", x).Bytes("stack", debug.Stack()).Msg("a connection is closed: handling its line panicked")
		e.peer.Close(fmt.Errorf("handling %s panicked: %v", method, x))
	}
}

// firstLine keeps a plain client's read deadline until its first line is whole.
type firstLine struct {
	r io.Reader
	c *transport.Conn // nil when it is
}

func (f *firstLine) Read(b []byte) (int, error) {
	n, err := f.r.Read(b)
	if f.c != nil && bytes.IndexByte(b[:n], '\n') >= 0 {
		_ = f.c.SetReadDeadline(time.Time{})
		f.c = nil
	}
	return n, err
}

// serve runs until the connection ends.
func (e *editor) serve() {
	if !e.d.join(e) {
		e.conn.Close()
		return
	}
	defer e.d.part(e)
	if !e.conn.Allowed() { // revoked since, and not among those that were cut for it
		e.cut(transport.ErrRevoked)
	}
	e.log.Debug().Str("shim", bounded(e.hello.Version)).Str("agent", bounded(e.hello.Agent)).Msg("connected")
	e.peer.Start()
	select {
	case <-e.peer.EOF():
		e.leave()
	case <-e.peer.Done():
	}
	e.cancel()
	err := e.peer.Wait()
	e.pumps.Wait()
	line := e.log.Debug()
	if errors.Is(err, os.ErrDeadlineExceeded) {
		line = e.log.Warn()
	}
	line.AnErr("reason", err).Msg("disconnected")
}

// leave is what happens when the editor has closed its end: what can be
// answered at once still is, a running turn is not waited for.
func (e *editor) leave() {
	ctx, cancel := context.WithTimeout(e.ctx, e.d.cfg.Limits.Leave)
	defer cancel()
	e.mu.Lock()
	quick := e.quick
	e.quick = nil
	e.mu.Unlock()
	for _, r := range quick {
		select {
		case <-r.Sent(): // also closed when the peer is
		case <-ctx.Done():
		}
	}
	e.hangUp(ctx)
}

// dismiss closes the connection of an editor all of whose sessions have ended,
// when it has been told of that and its requests are answered.
func (e *editor) dismiss(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, e.d.cfg.Limits.Leave) // one that does not read is not waited for
	defer cancel()
	for _, a := range e.attachments() {
		select {
		case <-a.done:
		case <-e.peer.Done():
		case <-ctx.Done():
		}
	}
	e.leave()
}

// hangUp closes the connection when what is queued has been written.
func (e *editor) hangUp(ctx context.Context) {
	_ = e.peer.Drain(ctx)
	e.peer.Close(io.EOF)
}

// CanAnswer says whether questions are put to it.
func (e *editor) CanAnswer() bool { return e.mayChange() && !e.unable.Load() }

// Conn, CanReadFiles, CanWriteFiles and Call make editor a session.Editor.

func (e *editor) Conn() string { return e.hello.ID }

func (e *editor) CanReadFiles() bool { return e.caps().FSRead && e.sharesFiles() }

func (e *editor) CanWriteFiles() bool { return e.caps().FSWrite && e.sharesFiles() }

func (e *editor) CanElicit() bool { return e.caps().ElicitationForm && e.mayChange() }

func (e *editor) CanDecide() bool { return e.mayChange() }

func (e *editor) Call(ctx context.Context, id, method string, params any) (json.RawMessage, error) {
	return e.peer.Call(ctx, id, method, params)
}

func (e *editor) caps() acp.ClientCaps {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.init == nil {
		return acp.ClientCaps{}
	}
	return e.init.Caps
}

// origin says that a line of this connection caused an event.
func (e *editor) origin(line uint64, request json.RawMessage) session.Origin {
	o := session.Origin{Conn: e.hello.ID, Line: line, Request: request, Environ: e.environ}
	if p := e.conn.Principal; p.Remotely() {
		o.Token, o.Remote = p.Token, p.Remote
	} else {
		o.UID, o.PID = p.UID, p.PID
	}
	e.mu.Lock()
	if e.init != nil {
		o.Client = e.init.ClientInfo.Name
	}
	e.mu.Unlock()
	return o
}

// attachment gives the connection's attachment to a session, nil if it has
// none.
func (e *editor) attachment(id string) *attachment {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.open[session.ID(id)]
}

// attach gives the attachment to s, made anew if there is none or the old one
// is closing.
func (e *editor) attach(s *session.Session) *attachment {
	e.mu.Lock()
	defer e.mu.Unlock()
	old := e.open[s.ID()]
	if old != nil && !old.closing.Load() && old.session == s {
		return old
	}
	a := newAttachment(e, s)
	e.open[s.ID()] = a
	client := ""
	if e.init != nil {
		client = e.init.ClientInfo.Name
	}
	e.pumps.Go(func() {
		log := e.log.With().Str("session", string(s.ID())).Logger()
		log.Info().Str("client", bounded(client)).Str("shim", bounded(e.hello.Version)).Msg("attached")
		defer func() { log.Info().Msg("detached") }()
		if old != nil {
			<-old.done
		}
		knows := false
		func() {
			defer e.guard("the pump of session " + string(s.ID()))
			knows = a.pump()
		}()
		e.mu.Lock()
		defer e.mu.Unlock()
		if e.open[s.ID()] == a { // else the connection has attached anew
			delete(e.open, s.ID())
			if !knows {
				s.Detach(e.Conn())
			}
		}
	})
	return a
}

// began notes a request that does not wait for a turn.
func (e *editor) began(r *jsonrpc.Request) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.quick = append(slices.DeleteFunc(e.quick, func(r *jsonrpc.Request) bool {
		select {
		case <-r.Sent():
			return true
		default:
			return false
		}
	}), r)
}

// send puts lines on the connection's queue. A failure is the end of the
// connection, which everybody hears of by other ways.
func (e *editor) send(lines ...[]byte) { _ = e.peer.Enqueue(lines...) }
