package daemon

import (
	"context"
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"runtime"
	"time"

	"github.com/hermesd/hermesd/daemon/session"
	"github.com/hermesd/hermesd/transport/acp"
	"github.com/hermesd/hermesd/transport/jsonrpc"
)

// admit takes a request in wire order. What it posts to a session here, the
// session hears in that order; the handler it returns only waits. All that
// does not wait for a turn or for events is answered before the connection is
// closed.
func (e *editor) admit(r *jsonrpc.Request) jsonrpc.Handler {
	if r.Method != "session/prompt" && r.Method != "_hermes/sessions/tail" {
		e.began(r)
	}
	return e.route(r)
}

func (e *editor) route(r *jsonrpc.Request) jsonrpc.Handler {
	if r.Method == "initialize" {
		res, err := e.initialize(r.Params)
		return done(res, err)
	}
	e.mu.Lock()
	ready := e.init != nil
	e.mu.Unlock()
	if !ready {
		return done(nil, &jsonrpc.Error{Code: session.CodeInvalid, Message: "send initialize first"})
	}
	if err := e.forbidden(r.Method); err != nil {
		if r.Method == "session/prompt" || r.Method == "_hermes/sessions/tail" {
			e.began(r)
		}
		return fail(err, "")
	}
	switch r.Method {
	case "session/prompt":
		return e.prompt(r)
	case "session/load":
		return e.load(r, acp.ParseLoad, true)
	case "session/resume":
		return e.load(r, acp.ParseResume, false)
	case "session/close":
		return e.close(r)
	case "session/set_mode":
		return e.setMode(r)
	case "session/set_config_option":
		return e.setOption(r)
	case "session/new":
		return e.newSession(r)
	case "session/fork":
		return e.fork(r)
	case "session/list":
		return e.list(r)
	case "session/delete":
		return e.delete(r)
	case "authenticate":
		return e.authenticate(r)
	case "logout":
		return e.logout(r)
	}
	if h := e.admin(r); h != nil {
		return h
	}
	return nil
}

// maxClientName is how many bytes of the name that a client gives itself are
// kept: it is written into every event that the client causes.
const maxClientName = 200

func (e *editor) initialize(params json.RawMessage) (any, error) {
	p, err := acp.ParseInitialize(params)
	if err != nil {
		return nil, wire(err, "")
	}
	p.ClientInfo.Name = cut(p.ClientInfo.Name, maxClientName)
	e.mu.Lock()
	again := e.init != nil
	if !again {
		e.init = &p
	}
	e.mu.Unlock()
	if again {
		return nil, &jsonrpc.Error{Code: session.CodeInvalid, Message: "this connection is initialized already"}
	}
	e.log.Debug().Str("client", p.ClientInfo.Name).Str("version", p.ClientInfo.Version).Msg("initialized")
	methods, logout := e.loginMethods()
	caps := agentCaps
	caps.Logout = logout
	return acp.InitializeResult(1, acp.Implementation{Name: "hermesd", Title: "hermesd", Version: e.d.cfg.Version}, caps, methods, p.Caps,
		acp.HermesMeta(raw(map[string]any{"epoch": e.d.store.Epoch()}))), nil
}

// agentCaps is what the daemon delivers whatever agent a session has. Whether one
// can log out is not among it.
var agentCaps = acp.AgentCaps{
	Load: true, Image: true, EmbeddedContext: true,
	MCPHTTP: true, MCPSSE: true,
	List: true, Resume: true, Close: true, Delete: true, Fork: true, AdditionalDirs: true,
}

// notified takes a notification in wire order.
func (e *editor) notified(method string, params json.RawMessage, line uint64) {
	e.mu.Lock()
	ready := e.init != nil
	e.mu.Unlock()
	if !ready {
		return
	}
	switch method {
	case "session/cancel":
		if !e.mayChange() {
			e.log.Debug().Msg("session/cancel ignored: this token may only observe")
			return
		}
		p, err := acp.ParseCancel(params)
		if err != nil {
			e.log.Debug().Err(err).Msg("session/cancel ignored")
			return
		}
		if a := e.attachment(p.SessionID); a != nil {
			a.session.Cancel(e.origin(line, nil), session.Seq(a.passed.Load()))
		}
	case "$/cancel_request":
		p, err := acp.ParseCancelRequest(params)
		if err != nil {
			return
		}
		for _, a := range e.attachments() {
			if a.isPrompt(string(p.RequestID)) {
				a.session.CancelPrompt(e.origin(line, nil), p.RequestID)
				return
			}
		}
		e.peer.CancelRequest(p.RequestID)
	}
}

func (e *editor) attachments() []*attachment {
	e.mu.Lock()
	defer e.mu.Unlock()
	all := make([]*attachment, 0, len(e.open))
	for _, a := range e.open {
		all = append(all, a)
	}
	return all
}

func (e *editor) prompt(r *jsonrpc.Request) jsonrpc.Handler {
	p, err := acp.ParsePrompt(r.Params)
	if err != nil {
		e.began(r)
		return fail(err, "")
	}
	a := e.attachment(p.SessionID)
	if a == nil || a.closing.Load() {
		e.began(r)
		return fail(session.ErrNotFound, session.ID(p.SessionID))
	}
	w := a.expectPrompt(r)
	a.session.Prompt(e.origin(r.Line, r.ID), p.Content, p.Meta, func(err error) { a.refuse(w, wire(err, a.session.ID())) })
	return nil
}

// load is session/load and session/resume.
func (e *editor) load(r *jsonrpc.Request, parse func(json.RawMessage) (acp.SessionSetup, error), replay bool) jsonrpc.Handler {
	p, err := parse(r.Params)
	if err == nil {
		err = checkServers(p.Servers)
	}
	if err != nil {
		return fail(err, "")
	}
	id := session.ID(p.SessionID)
	meta, ok := e.d.store.Lookup(id)
	if !ok {
		return fail(unknown(id), id)
	}
	if !sameDir(meta.Cwd, p.Cwd) {
		return fail(&session.Error{Code: session.CodeParams, Message: "cwd: this session belongs to " + meta.Cwd + ", not to " + oneLine(p.Cwd)}, id)
	}
	s, err := e.d.reg.get(id)
	if err != nil {
		return fail(err, id)
	}
	a := e.attach(s)
	w := a.expect(r)
	kept := false
	if e.mayChange() {
		servers := p.MCPServers // directories that are not said are none, so the protocol
		if !p.ServersGiven {
			servers = meta.MCPServers
		}
		s.SetRoots(e.origin(r.Line, r.ID), p.Dirs, servers, func(k bool) { kept = k })
	}
	s.Attach(e, func(snap session.Snapshot, c *session.Cursor) {
		a.at(snap, c, func(ctx context.Context, snap session.Snapshot) error {
			res := acp.SessionResult("", snap.Settings.Modes, acp.FilterOptions(snap.Settings.Options, e.caps()), sessionMeta(snap.Meta, kept))
			if replay {
				return a.catchUp(ctx, w, snap, res)
			}
			return a.present(w, snap, res)
		})
	}, func(err error) {
		a.abandon(w, wire(err, id))
	})
	return nil // deferred
}

// sessionMeta is what `_meta` says of a session besides the protocol's words.
func sessionMeta(m session.Meta, kept bool) json.RawMessage {
	h := map[string]any{"agent": m.Agent}
	if m.Parent != "" {
		h["sessionProvenance"] = map[string]any{"parent": m.Parent, "forkedAt": m.ForkedAt}
	}
	if m.Imported != "" {
		h["sessionProvenance"] = map[string]any{"imported": m.Imported}
	}
	if m.Pinned {
		h["pinned"] = true
	}
	if kept {
		h["warnings"] = []string{"the session keeps its own mcpServers and additionalDirectories: it is in use"}
	}
	return acp.HermesMeta(raw(h))
}

// sameDir says whether two absolute paths name the same directory, also
// through links if both are there.
func sameDir(a, b string) bool {
	if acp.SamePath(runtime.GOOS, a, b) {
		return true
	}
	x, err1 := filepath.EvalSymlinks(a)
	y, err2 := filepath.EvalSymlinks(b)
	return err1 == nil && err2 == nil && acp.SamePath(runtime.GOOS, x, y)
}

func checkDir(cwd string) error {
	info, err := os.Stat(cwd)
	switch {
	case errors.Is(err, os.ErrNotExist):
		return &acp.ParamError{Path: "cwd", Message: "there is no directory " + oneLine(cwd)}
	case err != nil:
		return &acp.ParamError{Path: "cwd", Message: oneLine(err.Error())}
	case !info.IsDir():
		return &acp.ParamError{Path: "cwd", Message: oneLine(cwd) + " is not a directory"}
	}
	return nil
}

func (e *editor) newSession(r *jsonrpc.Request) jsonrpc.Handler {
	p, err := acp.ParseNewSession(r.Params)
	if err == nil {
		err = checkServers(p.Servers)
	}
	if err != nil {
		return fail(err, "")
	}
	return func(ctx context.Context) (any, error) {
		if err := checkDir(p.Cwd); err != nil {
			return nil, wire(err, "")
		}
		meta := newMeta(time.Now())
		meta.Cwd, meta.Dirs, meta.MCPServers = p.Cwd, p.Dirs, p.MCPServers
		meta.Agent = p.Agent
		if meta.Agent == "" {
			meta.Agent = e.hello.Agent
		}
		if meta.Agent == "" {
			meta.Agent = e.d.agents.Default()
		}
		if !e.d.agents.Has(meta.Agent) {
			return nil, wire(&session.Error{Code: session.CodeParams, Message: "_meta.hermes.agent: " + e.d.noAgent(meta.Agent)}, "")
		}
		s, err := e.d.reg.create(ctx, meta, e.origin(r.Line, r.ID))
		if err != nil {
			return nil, wire(err, "")
		}
		return e.enter(ctx, r, s, (*session.Session).AttachMaker)
	}
}

// checkServers refuses transports that were not offered at initialize.
func checkServers(servers []acp.MCPServer) error {
	return acp.CheckTransports(servers, agentCaps.MCPHTTP, agentCaps.MCPSSE)
}

// enter attaches the connection to a session that was made for it, and gives
// the answer to session/new or session/fork.
func (e *editor) enter(ctx context.Context, r *jsonrpc.Request, s *session.Session,
	attach func(*session.Session, session.Editor, func(session.Snapshot, *session.Cursor), func(error))) (any, error) {
	a := e.attach(s)
	return a.await(ctx, r, func(w *waiting) {
		attach(s, e, func(snap session.Snapshot, c *session.Cursor) {
			res := acp.SessionResult(string(s.ID()), snap.Settings.Modes, acp.FilterOptions(snap.Settings.Options, e.caps()), sessionMeta(snap.Meta, false))
			a.later(todo{at: snap.At, cursor: c, do: func(context.Context) error { return a.present(w, snap, res) }})
		}, func(err error) {
			a.abandon(w, wire(err, s.ID()))
		})
	})
}

func (e *editor) fork(r *jsonrpc.Request) jsonrpc.Handler {
	p, err := acp.ParseFork(r.Params)
	if err == nil {
		err = checkServers(p.Servers)
	}
	if err != nil {
		return fail(err, "")
	}
	id := session.ID(p.SessionID)
	return func(ctx context.Context) (any, error) {
		old, ok := e.d.store.Lookup(id)
		if !ok {
			return nil, wire(unknown(id), id)
		}
		if err := checkDir(p.Cwd); err != nil {
			return nil, wire(err, id)
		}
		src, err := e.d.reg.get(id)
		if err != nil {
			return nil, wire(err, id)
		}
		meta := newMeta(time.Now())
		meta.Cwd, meta.Title = p.Cwd, old.Title
		meta.Dirs, meta.MCPServers = old.Dirs, old.MCPServers
		if p.DirsGiven {
			meta.Dirs = p.Dirs
		}
		if p.ServersGiven {
			meta.MCPServers = p.MCPServers
		}
		s, err := e.d.reg.fork(ctx, src, meta, e.origin(r.Line, r.ID))
		if err != nil {
			return nil, wire(err, id)
		}
		return e.enter(ctx, r, s, (*session.Session).Attach)
	}
}

func (e *editor) close(r *jsonrpc.Request) jsonrpc.Handler {
	p, err := acp.ParseClose(r.Params)
	if err != nil {
		return fail(err, "")
	}
	a := e.attachment(p.SessionID)
	if a == nil || a.closing.Load() {
		return fail(session.ErrNotFound, session.ID(p.SessionID))
	}
	w := a.expect(r)
	a.closing.Store(true)
	a.session.Close(e.origin(r.Line, r.ID), func(err error) { a.refuse(w, wire(err, a.session.ID())) })
	return nil // deferred
}

func (e *editor) setMode(r *jsonrpc.Request) jsonrpc.Handler {
	p, err := acp.ParseSetMode(r.Params)
	if err != nil {
		return fail(err, "")
	}
	return e.set(r, p.SessionID, session.Change{Mode: p.ModeID}, func(session.Settings) any { return acp.EmptyResult() })
}

func (e *editor) setOption(r *jsonrpc.Request) jsonrpc.Handler {
	p, err := acp.ParseSetConfigOption(r.Params)
	if err != nil {
		return fail(err, "")
	}
	return e.set(r, p.SessionID, session.Change{Option: p.ConfigID, Value: p.Value}, func(now session.Settings) any {
		return acp.ConfigOptionsResult(acp.FilterOptions(now.Options, e.caps()))
	})
}

func (e *editor) set(r *jsonrpc.Request, id string, c session.Change, result func(session.Settings) any) jsonrpc.Handler {
	a := e.attachment(id)
	if a == nil || a.closing.Load() {
		return fail(session.ErrNotFound, session.ID(id))
	}
	w := a.expect(r)
	w.result = result
	a.session.Set(e.origin(r.Line, r.ID), c, func(err error) { a.refuse(w, wire(err, a.session.ID())) })
	return nil // deferred
}

func (e *editor) delete(r *jsonrpc.Request) jsonrpc.Handler {
	p, err := acp.ParseDelete(r.Params)
	if err != nil {
		return fail(err, "")
	}
	return func(ctx context.Context) (any, error) {
		if err := e.d.reg.delete(context.WithoutCancel(ctx), session.ID(p.SessionID), e.origin(r.Line, r.ID)); err != nil {
			return nil, wire(err, session.ID(p.SessionID))
		}
		return acp.EmptyResult(), nil
	}
}
