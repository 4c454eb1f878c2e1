package external

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"

	"github.com/hermesd/hermesd/agentpool/process"
	"github.com/hermesd/hermesd/daemon/session"
	"github.com/hermesd/hermesd/transport/acp"
	"github.com/hermesd/hermesd/transport/jsonrpc"
)

const defaultStderr = 64 << 10

// Marker is the environment variable by which what an agent started is found
// again when it has left the agent's process group. Its value names the session
// and the life.
const Marker = "HERMESD_AGENT"

// life is one process of an agent.
type life struct {
	a      *Agent
	mark   string
	cmd    *exec.Cmd
	group  *process.Group
	stderr *process.Tail
	peer   *jsonrpc.Peer
	exited chan struct{} // the process has been waited for
	status error         // of it, once exited is closed
	ended  sync.Once
	over   chan struct{} // end has returned once

	// Requests of the program are ended with it.
	ctx    context.Context
	cancel context.CancelFunc

	calls atomic.Uint64
	caps  json.RawMessage        // agentCapabilities
	name  atomic.Pointer[string] // the session's id at the program; nil before it has one
	mute  atomic.Bool            // a replay is left out

	order order
}

var lives atomic.Uint64 // so that no two lives of this daemon have one mark

// start starts the program and says hello.
func (a *Agent) start(ctx context.Context) (*life, error) {
	environ := a.findEnviron(ctx)
	l := &life{a: a, exited: make(chan struct{}), over: make(chan struct{})}
	l.mark = fmt.Sprintf("%s.%d.%d", a.meta.ID, os.Getpid(), lives.Add(1))
	l.order.life = rand.Text()[:6]
	environ = append(environ, Marker+"="+l.mark)
	program, err := process.Find(a.cfg.Command[0], a.meta.Cwd, environ)
	if err != nil {
		return nil, &session.Error{Code: session.CodeInternal, Message: fmt.Sprintf(
			"the agent %s cannot start: there is no program %q on the PATH of this editor: install it, or write its whole path into [agents.%s] command", a.cfg.Name, a.cfg.Command[0], a.cfg.Name)}
	}
	max := a.cfg.Stderr
	if max <= 0 {
		max = defaultStderr
	}
	l.stderr = process.NewTail(max)
	l.cmd = exec.Command(program, a.cfg.Command[1:]...)
	l.cmd.Args[0] = a.cfg.Command[0]
	l.cmd.Dir, l.cmd.Env, l.cmd.Stderr = a.meta.Cwd, environ, l.stderr
	l.cmd.WaitDelay = exitTime // what it started may hold its stderr
	stdin, err := l.cmd.StdinPipe()
	if err != nil {
		return nil, fmt.Errorf("making a pipe: %w", err)
	}
	out, w, err := os.Pipe() // of our own: Wait would close that of StdoutPipe under the reader
	if err != nil {
		return nil, fmt.Errorf("making a pipe: %w", err)
	}
	l.cmd.Stdout = w
	l.group, err = process.Start(l.cmd)
	w.Close()
	if err != nil {
		out.Close()
		return nil, &session.Error{Code: session.CodeInternal, Message: fmt.Sprintf("the agent %s cannot start: %s", a.cfg.Name, process.StartError(err))}
	}
	l.ctx, l.cancel = context.WithCancel(a.ctx)
	l.peer = jsonrpc.New(out, stdin, jsonrpc.Options{
		Notify:    l.hear,
		Admit:     l.admit,
		Unclaimed: func(json.RawMessage, json.RawMessage, *jsonrpc.Error, uint64) {},
		Garbage: func(line []byte, err error) {
			a.cfg.Log.Debug().Str("agent", a.cfg.Name).Str("session", string(a.meta.ID)).Err(err).Int("bytes", len(line)).Msg("a line of the agent is no message")
		},
		Panicked: func(method string, value any, stack []byte) {
			a.cfg.Log.Error().Str("agent", a.cfg.Name).Str("session", string(a.meta.ID)).Str("method", method).Interface("panic", value).Bytes("stack", stack).Msg("serving an agent panicked")
		},
	})
	go l.wait()
	l.peer.Start()
	if err := l.hello(ctx); err != nil {
		err = l.explain(err, starting)
		l.end()
		return nil, err
	}
	return l, nil
}

// findEnviron is the environment of the editor that prompted last, else that of
// the configuration, with what is configured for the agent.
func (a *Agent) findEnviron(ctx context.Context) []string {
	a.mu.Lock()
	environ := slices.Clone(a.environ)
	a.mu.Unlock()
	switch {
	case environ != nil:
	case a.cfg.Environ != nil:
		environ = slices.Clone(a.cfg.Environ(ctx))
	default:
		environ = os.Environ()
	}
	for k, v := range a.cfg.Env {
		environ = append(environ, k+"="+v)
	}
	return environ
}

// wait ends when the process and its group have ended.
func (l *life) wait() {
	defer close(l.exited)
	l.status = l.cmd.Wait()
}

// lives says whether it can be asked something.
func (l *life) lives() bool {
	select {
	case <-l.exited:
		return false
	case <-l.peer.EOF():
		return false
	case <-l.peer.Done():
		return false
	default:
		return true
	}
}

// call makes a request of the program.
func (l *life) call(ctx context.Context, method string, params json.RawMessage) (json.RawMessage, error) {
	return l.peer.Call(ctx, "h"+strconv.FormatUint(l.calls.Add(1), 10), method, params)
}

func (l *life) notify(method string, params json.RawMessage) {
	_ = l.peer.Enqueue(jsonrpc.Notification(method, params)) // else it has ended, and the call with it
}

// hello is initialize.
func (l *life) hello(ctx context.Context) error {
	result, err := l.call(ctx, "initialize", json.RawMessage(`{"protocolVersion":1,"clientCapabilities":{"fs":{"readTextFile":true,"writeTextFile":true},"terminal":false},"clientInfo":{"name":"hermesd","title":"hermesd","version":`+
		string(acp.String(l.a.cfg.Version))+`}}`))
	if err != nil {
		return err
	}
	if v, _ := acp.Get(result, "protocolVersion"); string(v) != "1" {
		return fmt.Errorf("it speaks version %s of the protocol, hermesd speaks version 1 with agents", v)
	}
	l.caps, _ = acp.Get(result, "agentCapabilities")
	return nil
}

// id is the session's id at the program, "" before it has one.
func (l *life) id() string {
	if p := l.name.Load(); p != nil {
		return *p
	}
	return ""
}

// can says whether the program has a capability; an object counts as one.
func (l *life) can(path ...string) bool {
	v, ok := acp.GetPath(l.caps, path...)
	return ok && string(v) != "false" && string(v) != "null"
}

// setup are the params of session/new, load and resume.
func (l *life) setup(id string) json.RawMessage {
	m := l.a.meta
	var b acp.Builder
	if id != "" {
		b.String("sessionId", id)
	}
	b.String("cwd", m.Cwd).Raw("mcpServers", l.servers())
	if len(m.Dirs) > 0 && l.can("sessionCapabilities", "additionalDirectories") {
		b.Strings("additionalDirectories", m.Dirs)
	}
	return b.JSON()
}

// servers are the session's MCP servers that the program can reach.
func (l *life) servers() json.RawMessage {
	all, _ := acp.Elements(l.a.meta.MCPServers)
	var kept []json.RawMessage
	for _, s := range all {
		kind, _ := acp.GetString(s, "type")
		if kind == "http" && !l.can("mcpCapabilities", "http") || kind == "sse" && !l.can("mcpCapabilities", "sse") {
			name, _ := acp.GetString(s, "name")
			l.say(fmt.Sprintf("[The agent %s cannot use the MCP server %s: it does not speak %s.]", l.a.cfg.Name, name, strings.ToUpper(kind)))
			continue
		}
		if acp.IsWithheld(acp.List(s)) {
			name, _ := acp.GetString(s, "name")
			l.say(fmt.Sprintf("[The MCP server %s is left out: what an editor gives it in environment or headers is not kept on disk, and none has given it since hermesd started. Load the session in the editor that has it.]", name))
			continue
		}
		kept = append(kept, s)
	}
	return acp.List(kept...)
}

// create makes the session at the program.
func (l *life) create(ctx context.Context) error {
	result, err := l.call(ctx, "session/new", l.setup(""))
	if err != nil {
		return err
	}
	id, ok := acp.GetString(result, "sessionId")
	if !ok || id == "" {
		return errors.New("its answer to session/new names no session")
	}
	l.took(id, result)
	return l.a.host.Record(ctx, encodeRecord(record{Session: id, Of: l.a.meta.ID}))
}

// took notes what the answer to new, load or resume says.
func (l *life) took(id string, result json.RawMessage) {
	l.name.Store(&id)
	l.a.mu.Lock()
	defer l.a.mu.Unlock()
	if modes, ok := acp.Get(result, "modes"); ok && string(modes) != "null" {
		l.a.settings.Modes = append(json.RawMessage(nil), modes...)
	}
	if options, ok := acp.Get(result, "configOptions"); ok && string(options) != "null" {
		l.a.settings.Options = append(json.RawMessage(nil), options...)
	}
}

// restore brings the program's side of the session back.
func (l *life) restore(ctx context.Context) error {
	old, err := readPast(ctx, l.a.host, l.a.meta.ID)
	if err != nil {
		return err
	}
	was := l.a.Settings()
	why := "it was made by a fork"
	if old.id != "" {
		why, err = l.again(ctx, old.id)
		if err != nil {
			return err
		}
	}
	if why != "" {
		if err := l.create(ctx); err != nil {
			return err
		}
		if old.transcript != "" {
			l.a.mu.Lock()
			l.a.preface = old.transcript
			l.a.mu.Unlock()
			l.say(fmt.Sprintf("[The agent %s has no memory of this session: %s. It is given a transcript with the next prompt.]", l.a.cfg.Name, why))
		}
	}
	l.sameSettings(ctx, was)
	return nil
}

// again has the program take up its session; why says why it does not.
func (l *life) again(ctx context.Context, id string) (why string, err error) {
	var result json.RawMessage
	l.name.Store(&id)
	switch {
	case l.can("sessionCapabilities", "resume"):
		result, err = l.call(ctx, "session/resume", l.setup(id))
	case l.can("loadSession"):
		l.mute.Store(true)
		result, err = l.call(ctx, "session/load", l.setup(id))
		l.mute.Store(false)
	default:
		l.name.Store(nil)
		return "it cannot take up sessions", nil
	}
	if e, ok := asError(err); ok {
		l.name.Store(nil)
		return "it does not know it any more (" + e.Message + ")", nil
	}
	if err != nil {
		return "", err
	}
	l.took(id, result)
	return "", nil
}

// sameSettings asks for the mode and the options that the session had. What the
// program does not take stays as it is: the session is told.
func (l *life) sameSettings(ctx context.Context, was session.Settings) {
	now := l.a.Settings()
	if mode, ok := acp.GetString(was.Modes, "currentModeId"); ok {
		if current, has := acp.GetString(now.Modes, "currentModeId"); has && current != mode {
			var b acp.Builder
			if _, err := l.call(ctx, "session/set_mode", b.String("sessionId", l.id()).String("modeId", mode).JSON()); err == nil {
				l.a.modeIs(mode)
			}
		}
	}
	current := map[string]string{}
	options, _ := acp.Elements(now.Options)
	for _, o := range options {
		id, _ := acp.GetString(o, "id")
		v, _ := acp.Get(o, "currentValue")
		current[id] = string(v)
	}
	old, _ := acp.Elements(was.Options)
	for _, o := range old {
		id, _ := acp.GetString(o, "id")
		v, _ := acp.Get(o, "currentValue")
		if have, ok := current[id]; !ok || len(v) == 0 || have == string(v) {
			continue
		}
		var b acp.Builder
		result, err := l.call(ctx, "session/set_config_option", b.String("sessionId", l.id()).String("configId", id).Raw("value", v).JSON())
		if options, ok := acp.Get(result, "configOptions"); err == nil && ok {
			l.a.optionsAre(options)
		}
	}
	if now = l.a.Settings(); string(now.Modes) != string(was.Modes) || string(now.Options) != string(was.Options) {
		_ = l.a.host.Changed(ctx, now)
	}
}

// say puts a message of ours into the session.
func (l *life) say(text string) {
	_ = l.a.host.Update(l.ctx, acp.AgentText("hermesd_"+l.mark+"_"+strconv.FormatUint(l.calls.Add(1), 10), text, nil))
}

const starting = "starting"

// explain makes the error of a call into one for the user: the program's own
// words if it has answered, else what became of it and the last it said.
func (l *life) explain(err error, doing string) error {
	if e, ok := asError(err); ok {
		if doing == starting && e.Code != session.CodeAuthRequired {
			// Its answer is to a request of ours, not to that of the editor.
			return &session.Error{Code: session.CodeInternal, Message: fmt.Sprintf("the agent %s failed while %s: %s (%d)", l.a.cfg.Name, doing, e.Message, e.Code), Data: e.Data}
		}
		return e
	}
	var ours *session.Error
	if errors.As(err, &ours) {
		return ours
	}
	said := err.Error()
	if !l.lives() {
		said = "it has ended (" + l.fate() + "); what it was doing is unknown"
	} else if errors.Is(err, context.DeadlineExceeded) {
		said = "it did not answer in time"
	}
	if lines := l.stderr.Lines(5, 300); len(lines) > 0 {
		said += ". It said last: " + strings.Join(lines, " | ")
	}
	return &session.Error{Code: session.CodeInternal, Message: fmt.Sprintf("the agent %s failed while %s: %s", l.a.cfg.Name, doing, said)}
}

// fate says how the process ended, waiting a moment for that.
func (l *life) fate() string {
	if !within(l.exited, exitTime) {
		return "it closed its output"
	}
	if l.status == nil || errors.Is(l.status, exec.ErrWaitDelay) {
		return "exit status 0"
	}
	if runtime.GOOS != "windows" {
		return l.status.Error()
	}
	return "exit " + strconv.Itoa(l.cmd.ProcessState.ExitCode())
}
