package external

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/hermesd/hermesd/daemon/session"
	"github.com/hermesd/hermesd/transport/acp"
	"github.com/hermesd/hermesd/transport/jsonrpc"
	"github.com/rs/zerolog"
)

// Config says how an agent is run.
type Config struct {
	Name    string
	Command []string          // the program and its arguments
	Env     map[string]string // added to the environment
	// Environ is the environment for a connection that sent none; nil: the
	// daemon's own.
	Environ func(context.Context) []string
	Version string // of hermesd
	Stderr  int    // bytes of the end of its stderr that are kept, default 64 KiB
	Log     zerolog.Logger
}

// Validate says what is wrong with the configuration, in the words of the
// configuration file.
func (c Config) Validate() error {
	if len(c.Command) == 0 || c.Command[0] == "" {
		return errors.New("command: name the program and its arguments, as [\"claude-agent-acp\"]")
	}
	return nil
}

// Agent is an external agent in one session. It implements session.Agent.
type Agent struct {
	cfg  Config
	meta session.Meta
	host session.Host

	ctx    context.Context // ends with Close
	cancel context.CancelFunc

	starting sync.Mutex // held while a life is made

	mu       sync.Mutex
	life     *life // the last one; nil before the first
	environ  []string
	settings session.Settings
	turn     session.Seq // that runs, or ran last
	preface  string      // what the program is told before the next prompt
	closed   bool
}

var _ session.Agent = (*Agent)(nil)

// Open starts the program for a session and returns the settings that the
// session then has. A session that is not fresh is restored.
func Open(ctx context.Context, spec session.Spec, host session.Host, cfg Config) (*Agent, session.Settings, error) {
	if err := cfg.Validate(); err != nil {
		return nil, session.Settings{}, &session.Error{Code: session.CodeInternal, Message: fmt.Sprintf("agents.%s: %s", cfg.Name, err)}
	}
	a := &Agent{cfg: cfg, meta: spec.Meta, host: host, environ: spec.Environ, settings: spec.Settings}
	a.ctx, a.cancel = context.WithCancel(context.Background())
	if _, err := a.begin(ctx, spec.Fresh); err != nil {
		a.Close()
		return nil, session.Settings{}, err
	}
	return a, a.Settings(), nil
}

// Settings are the modes and options as the program last said them.
func (a *Agent) Settings() session.Settings {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.settings
}

// begin makes a life.
func (a *Agent) begin(ctx context.Context, fresh bool) (*life, error) {
	l, err := a.start(ctx)
	if err != nil {
		return nil, err
	}
	if fresh {
		err = l.create(ctx)
	} else {
		err = l.restore(ctx)
	}
	if err == nil {
		a.mu.Lock()
		if a.closed {
			err = errClosed
		} else {
			a.life = l
		}
		a.mu.Unlock()
	}
	if err != nil {
		err = l.explain(err, starting)
		l.end()
		return nil, err
	}
	return l, nil
}

var errClosed = &session.Error{Code: session.CodeInternal, Message: "the agent is closed"}

// againTime is how long a program that is started again may take to be ready.
const againTime = time.Minute

// alive gives the life there is, or makes another.
func (a *Agent) alive(ctx context.Context) (*life, error) {
	a.starting.Lock()
	defer a.starting.Unlock()
	a.mu.Lock()
	l, closed := a.life, a.closed
	a.mu.Unlock()
	if closed {
		return nil, errClosed
	}
	if l != nil && l.lives() {
		return l, nil
	}
	if l != nil {
		l.end()
	}
	ctx, cancel := context.WithTimeout(ctx, againTime)
	defer cancel()
	return a.begin(ctx, false)
}

// Prompt implements session.Agent.
func (a *Agent) Prompt(ctx context.Context, in session.Turn) (session.TurnResult, error) {
	a.mu.Lock()
	a.turn = in.Seq
	if in.Environ != nil {
		a.environ = in.Environ // for the next process
	}
	a.mu.Unlock()
	l, err := a.alive(ctx)
	if err != nil {
		return session.TurnResult{}, err
	}
	blocks := in.Blocks
	a.mu.Lock()
	preface := a.preface
	a.preface = ""
	a.mu.Unlock()
	if preface != "" {
		blocks = append([]json.RawMessage{acp.TextBlock(preface)}, blocks...)
	}
	var params acp.Builder
	params.String("sessionId", l.id()).Raw("prompt", acp.List(blocks...))
	if len(in.Meta) > 0 {
		params.Raw("_meta", in.Meta)
	}
	l.turnBegins(in.Seq)

	type outcome struct {
		result json.RawMessage
		err    error
	}
	done := make(chan outcome, 1)
	go func() { // ends with the answer or with the life
		result, err := l.call(context.Background(), "session/prompt", params.JSON())
		done <- outcome{result, err}
	}()
	var got outcome
	select {
	case got = <-done:
	case <-ctx.Done():
		// It answers when it has stopped; if it does not the session gives it up,
		// which ends the life.
		l.notify("session/cancel", sessionParams(l.id()))
		got = <-done
	}
	if got.err != nil {
		err := l.explain(got.err, "working on the prompt")
		if !l.lives() {
			l.failCalls()
		}
		return session.TurnResult{}, err
	}
	res := session.TurnResult{}
	switch stop, _ := acp.GetString(got.result, "stopReason"); stop {
	case "end_turn", "max_tokens", "max_turn_requests", "refusal", "cancelled":
		res.StopReason = stop
	default:
		res.StopReason = "end_turn" // editors know no other words
	}
	res.Usage, _ = acp.Get(got.result, "usage")
	res.Meta, _ = acp.Get(got.result, "_meta")
	return res, nil
}

// Set implements session.Agent.
func (a *Agent) Set(ctx context.Context, change session.Change) (session.Settings, error) {
	l, err := a.alive(ctx)
	if err != nil {
		return session.Settings{}, err
	}
	var params acp.Builder
	params.String("sessionId", l.id())
	if change.Mode != "" {
		params.String("modeId", change.Mode)
		if _, err := l.call(ctx, "session/set_mode", params.JSON()); err != nil {
			return session.Settings{}, l.explain(err, "changing the mode")
		}
		a.modeIs(change.Mode)
		return a.Settings(), nil
	}
	params.String("configId", change.Option).Raw("value", change.Value)
	result, err := l.call(ctx, "session/set_config_option", params.JSON())
	if err != nil {
		return session.Settings{}, l.explain(err, "changing the option")
	}
	if options, ok := acp.Get(result, "configOptions"); ok {
		a.optionsAre(options)
	}
	return a.Settings(), nil
}

// modeIs notes the current mode; false if it was that before.
func (a *Agent) modeIs(mode string) bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	if now, ok := acp.GetString(a.settings.Modes, "currentModeId"); !ok || now == mode {
		return false
	}
	a.settings.Modes = acp.Set(a.settings.Modes, "currentModeId", acp.String(mode))
	return true
}

func (a *Agent) optionsAre(options json.RawMessage) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.settings.Options = append(json.RawMessage(nil), options...)
}

// Close implements session.Agent: nothing of the program runs when it returns.
func (a *Agent) Close() error {
	a.mu.Lock()
	a.closed = true
	a.mu.Unlock()
	a.cancel() // also of a life that is being made
	a.starting.Lock()
	defer a.starting.Unlock()
	a.mu.Lock()
	l := a.life
	a.mu.Unlock()
	if l != nil {
		l.end()
	}
	return nil
}

func sessionParams(id string) json.RawMessage {
	var b acp.Builder
	return b.String("sessionId", id).JSON()
}

// asError is an error of the program's answer, as the editor gets it.
func asError(err error) (*session.Error, bool) {
	var e *jsonrpc.Error
	if !errors.As(err, &e) {
		return nil, false
	}
	return &session.Error{Code: e.Code, Message: e.Message, Data: e.Data}, true
}
