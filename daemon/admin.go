package daemon

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"os"
	"runtime"
	"runtime/debug"
	"sort"
	"time"

	"github.com/hermesd/hermesd/daemon/session"
	"github.com/hermesd/hermesd/transport/acp"
	"github.com/hermesd/hermesd/transport/jsonrpc"
)

var pid = os.Getpid()

// admin takes the `_hermes/` methods, which the commands use; nil for others.
func (e *editor) admin(r *jsonrpc.Request) jsonrpc.Handler {
	call := map[string]func(context.Context, *jsonrpc.Request) (any, error){
		"_hermes/status":             e.status,
		"_hermes/stop":               e.stop,
		"_hermes/sessions/show":      e.show,
		"_hermes/backup":             e.backup,
		"_hermes/sessions/import":    e.importSession,
		"_hermes/sessions/pin":       e.pin,
		"_hermes/sessions/tail":      e.tail,
		"_hermes/permissions/list":   e.questions,
		"_hermes/permissions/answer": e.decide,
		"_hermes/agents/list":        e.agents,
		"_hermes/tokens/changed":     e.tokensChanged,
		"_hermes/doctor":             e.doctor,
	}[r.Method]
	if call == nil {
		return nil
	}
	return func(ctx context.Context) (any, error) {
		res, err := call(ctx, r)
		if err != nil {
			return nil, wire(err, "")
		}
		return raw(res), nil
	}
}

type connectionStatus struct {
	ID       string       `json:"id"`
	Client   string       `json:"client,omitempty"`
	PID      int          `json:"pid,omitempty"`
	UID      int          `json:"uid"` // -1: not known
	Network  string       `json:"network"`
	Token    string       `json:"token,omitempty"`   // over the network: its name
	Role     string       `json:"role,omitempty"`    // of the token
	Remote   string       `json:"remote,omitempty"`  // over the network: the address
	Version  string       `json:"version,omitempty"` // of its shim
	Agent    string       `json:"agent,omitempty"`
	Since    string       `json:"since"`
	Queued   int          `json:"queuedBytes"`
	Behind   uint64       `json:"behind"` // events of its sessions that it has not been given
	In       uint64       `json:"inBytes"`
	Out      uint64       `json:"outBytes"`
	Sessions []session.ID `json:"sessions"`
}

type sessionStatus struct {
	ID        session.ID  `json:"id"`
	State     string      `json:"state"` // idle, running, waiting (for an answer)
	Agent     string      `json:"agent"`
	Cwd       string      `json:"cwd"`
	Title     string      `json:"title,omitempty"`
	Editors   int         `json:"editors"`
	Queue     int         `json:"queue"`
	Questions int         `json:"questions"`
	Events    session.Seq `json:"events"`
}

// status describes the daemon. With {"collect":true} the figures of memory are
// what it needs, without what the collector has yet to give back.
func (e *editor) status(ctx context.Context, r *jsonrpc.Request) (any, error) {
	var p struct {
		Collect bool `json:"collect"`
	}
	if json.Unmarshal(r.Params, &p) == nil && p.Collect && e.mayChange() {
		debug.FreeOSMemory()
	}
	var mem runtime.MemStats
	runtime.ReadMemStats(&mem)
	conns := []connectionStatus{}
	connected := e.d.connected()
	for _, o := range connected {
		conns = append(conns, o.describe())
	}
	sort.Slice(conns, func(i, j int) bool { return conns[i].Since < conns[j].Since })
	live := []sessionStatus{}
	snaps := e.d.snapshots(ctx)
	for _, snap := range snaps {
		live = append(live, sessionStatus{
			ID: snap.Meta.ID, State: stateOf(snap), Agent: snap.Meta.Agent, Cwd: snap.Meta.Cwd, Title: snap.Meta.Title,
			Editors: snap.Editors, Queue: len(snap.Queue), Questions: len(snap.Questions), Events: snap.At,
		})
	}
	sort.Slice(live, func(i, j int) bool { return live[i].ID < live[j].ID })
	out := e.d.figures(snaps, connected, time.Now()).inWords()
	for name, text := range e.d.cfg.About {
		out[name] = text
	}
	maps.Copy(out, map[string]any{
		"pid": pid, "version": e.d.cfg.Version, "uptimeSeconds": time.Since(e.d.started).Seconds(),
		"goroutines": runtime.NumGoroutine(),
		"memory":     map[string]any{"heapBytes": mem.HeapAlloc, "rssBytes": residentBytes()},
		"epoch":      e.d.store.Epoch(), "socket": e.d.cfg.Socket, "listen": e.d.addresses(), "stored": len(e.d.store.List()),
		"connections": conns, "sessions": live, "agents": e.d.cfg.Agents(), "removed": e.d.removed.Load(),
	})
	return out, nil
}

func (e *editor) describe() connectionStatus {
	c := connectionStatus{
		ID: e.hello.ID, PID: e.conn.Principal.PID, UID: e.conn.Principal.UID, Version: e.hello.Version, Agent: e.hello.Agent,
		Since: acp.Time(e.since), Queued: e.peer.Queued(), Behind: e.behind(), In: e.in.Load(), Out: e.out.Load(), Sessions: []session.ID{},
	}
	c.Network = e.conn.Principal.Network
	if p := e.conn.Principal; p.Remotely() {
		c.Token, c.Role, c.Remote = p.Token, string(p.Role), p.Remote
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.init != nil {
		c.Client = e.init.ClientInfo.Name
	}
	for id := range e.open {
		c.Sessions = append(c.Sessions, id)
	}
	return c
}

func stateOf(s session.Snapshot) string {
	switch {
	case len(s.Questions) > 0:
		return "waiting"
	case s.Turn != nil:
		return "running"
	}
	return "idle"
}

// snapshots asks every live session; one that does not answer in time is left
// out.
func (d *Daemon) snapshots(ctx context.Context) []session.Snapshot {
	ctx, cancel := context.WithTimeout(ctx, time.Second)
	defer cancel()
	all := d.reg.all()
	got := make(chan *session.Snapshot, len(all))
	for _, s := range all {
		s.Snapshot(func(snap session.Snapshot) { got <- &snap }, func(error) { got <- nil })
	}
	var snaps []session.Snapshot
	for range all {
		select {
		case s := <-got:
			if s != nil {
				snaps = append(snaps, *s)
			}
		case <-ctx.Done():
			return snaps
		}
	}
	return snaps
}

func (e *editor) stop(context.Context, *jsonrpc.Request) (any, error) {
	e.log.Info().Str("audit", "stop").Msg("asked to stop")
	if e.d.cfg.Stop != nil {
		go e.d.cfg.Stop()
	}
	return struct{}{}, nil
}

type sessionParams struct {
	SessionID session.ID  `json:"sessionId"`
	From      session.Seq `json:"from"`
	Limit     int         `json:"limitBytes"`
	Wait      bool        `json:"wait"`
	Exact     bool        `json:"exact"` // events as lines of session.AppendLine, byte for byte
}

func decodeParams(r *jsonrpc.Request, v any) error {
	if len(r.Params) == 0 {
		return &acp.ParamError{Message: "params are missing"}
	}
	if err := json.Unmarshal(r.Params, v); err != nil {
		return &acp.ParamError{Message: err.Error()}
	}
	return nil
}

// snapshot gives the present state of a session, bringing it into memory.
func (d *Daemon) snapshot(ctx context.Context, id session.ID) (*session.Session, session.Snapshot, error) {
	s, err := d.reg.get(id)
	if err != nil {
		return nil, session.Snapshot{}, wire(err, id)
	}
	type result struct {
		snap session.Snapshot
		err  error
	}
	got := make(chan result, 1)
	s.Snapshot(func(snap session.Snapshot) { got <- result{snap: snap} }, func(err error) { got <- result{err: err} })
	select {
	case r := <-got:
		return s, r.snap, wire(r.err, id)
	case <-ctx.Done():
		return nil, session.Snapshot{}, ctx.Err()
	}
}

type openQuestion struct {
	ID      string          `json:"id"`
	Session session.ID      `json:"sessionId"`
	Prompt  session.Seq     `json:"prompt"`
	Title   string          `json:"title"`
	Options json.RawMessage `json:"options"`
	AskedAt string          `json:"askedAt"`
}

func describeQuestions(snap session.Snapshot) []openQuestion {
	out := []openQuestion{}
	for _, q := range snap.Questions {
		title, _ := acp.GetString(q.ToolCall, "title")
		out = append(out, openQuestion{questionID(snap.Meta.ID, q.Seq), snap.Meta.ID, q.Prompt, title, q.Options, acp.Time(time.UnixMilli(q.Time))})
	}
	return out
}

func (e *editor) show(ctx context.Context, r *jsonrpc.Request) (any, error) {
	var p sessionParams
	if err := decodeParams(r, &p); err != nil {
		return nil, err
	}
	live := e.d.reg.peek(p.SessionID) != nil
	_, snap, err := e.d.snapshot(ctx, p.SessionID)
	if err != nil {
		return nil, err
	}
	queue := []map[string]any{}
	for _, q := range snap.Queue {
		queue = append(queue, map[string]any{"prompt": q.Seq, "client": q.Origin.Client, "conn": q.Origin.Conn, "origin": q.Origin.Who()})
	}
	m := snap.Meta
	out := map[string]any{
		"id": m.ID, "agent": m.Agent, "cwd": m.Cwd, "dirs": m.Dirs, "title": m.Title,
		"created": acp.Time(m.Created), "updated": acp.Time(m.Updated), "turns": m.Turns, "events": snap.At,
		"live": live, "state": stateOf(snap), "editors": snap.Editors, "queue": queue, "questions": describeQuestions(snap),
	}
	if t := snap.Turn; t != nil {
		out["turn"] = map[string]any{"prompt": t.Prompt, "since": acp.Time(time.UnixMilli(t.Since)), "origin": t.Origin.Who()}
	}
	attached := []connectionStatus{}
	for _, o := range e.d.connected() {
		if o.attachment(string(p.SessionID)) != nil {
			attached = append(attached, o.describe())
		}
	}
	out["attached"] = attached
	if m.Pinned {
		out["pinned"] = true
	}
	if m.Imported != "" {
		out["imported"] = m.Imported
	}
	m.MCPServers = nil // they stand in the log
	out["meta"] = m
	if m.Parent != "" {
		out["parent"], out["forkedAt"] = m.Parent, m.ForkedAt
	}
	if len(snap.Settings.Modes) > 0 {
		out["modes"] = snap.Settings.Modes
	}
	if len(snap.Settings.Options) > 0 {
		out["configOptions"] = snap.Settings.Options
	}
	return out, nil
}

type tailEvent struct {
	Seq  session.Seq     `json:"seq"`
	Last session.Seq     `json:"last"`
	Time string          `json:"time"`
	Kind string          `json:"kind"`
	Data json.RawMessage `json:"data"`
}

// tail gives events after From. With Wait it answers when there is one.
func (e *editor) tail(ctx context.Context, r *jsonrpc.Request) (any, error) {
	p := sessionParams{Limit: 256 << 10}
	if err := decodeParams(r, &p); err != nil {
		return nil, err
	}
	p.Limit = min(max(p.Limit, 1), 4<<20)
	s, snap, err := e.d.snapshot(ctx, p.SessionID)
	if err != nil {
		return nil, err
	}
	head := snap.At
	for p.Wait && p.From >= head {
		// A session that leaves memory meanwhile is opened again: who follows it
		// must not keep it there, nor lose it.
		if head, err = s.WaitPast(ctx, p.From); errors.Is(err, session.ErrClosed) {
			s, snap, err = e.d.snapshot(ctx, p.SessionID)
			head = snap.At
		}
		if err != nil {
			return nil, wire(err, p.SessionID)
		}
	}
	events, size, next := []tailEvent{}, 0, p.From
	lines := [][]byte{}
	errFull := fmt.Errorf("page is full")
	err = s.Read(ctx, p.From+1, head, func(rec session.Record) error {
		if size > 0 && size+len(rec.Data) > p.Limit {
			return errFull
		}
		size += len(rec.Data)
		next = rec.Last
		if p.Exact {
			lines = append(lines, session.AppendLine(nil, rec))
			return nil
		}
		data := json.RawMessage(rec.Data)
		if !json.Valid(data) {
			data = raw(string(rec.Data))
		}
		events = append(events, tailEvent{rec.First, rec.Last, acp.Time(time.UnixMilli(rec.Time)), rec.Kind.String(), data})
		return nil
	})
	if err != nil && err != errFull {
		return nil, wire(err, p.SessionID)
	}
	if p.Exact {
		return map[string]any{"lines": lines, "head": head, "next": next}, nil
	}
	return map[string]any{"events": events, "head": head, "next": next}, nil
}

func (e *editor) questions(ctx context.Context, _ *jsonrpc.Request) (any, error) {
	out := []openQuestion{}
	for _, snap := range e.d.snapshots(ctx) {
		out = append(out, describeQuestions(snap)...)
	}
	sort.Slice(out, func(i, j int) bool { return out[i].AskedAt < out[j].AskedAt })
	return map[string]any{"questions": out}, nil
}

func (e *editor) decide(ctx context.Context, r *jsonrpc.Request) (any, error) {
	var p struct {
		ID     string `json:"id"`
		Option string `json:"optionId"`
	}
	if err := decodeParams(r, &p); err != nil {
		return nil, err
	}
	id, q, ok := parseQuestionID(raw(p.ID))
	gone := &session.Error{Code: session.CodeNotFound, Message: "no open question " + shown(p.ID) + ": see `hermesd permissions list`", Data: raw(map[string]any{"id": p.ID})}
	if !ok {
		return nil, gone
	}
	s := e.d.reg.peek(session.ID(id))
	if s == nil {
		return nil, gone
	}
	done := make(chan error, 1)
	s.Decide(e.origin(r.Line, r.ID), q, p.Option, func(err error) { done <- err })
	select {
	case err := <-done:
		if err == session.ErrNotFound || err == session.ErrClosed {
			return nil, gone
		}
		return map[string]any{"outcome": session.Selected, "optionId": p.Option}, err
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

func (e *editor) agents(context.Context, *jsonrpc.Request) (any, error) {
	return map[string]any{"agents": e.d.cfg.Agents()}, nil
}
