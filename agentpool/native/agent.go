// Package native answers: what is hermesd's own agent? It is the loop that
// asks a language model, runs the tools it calls, and asks again until the
// model has nothing more to do; with approvals before everything that changes
// something, and in process.
//
// The parts: a turn is in turn.go, the calls of tools in call.go, the rules of
// approval in approval.go, modes and options in settings.go, what a model is
// told of the past in history.go; models are in package llm, tools in package
// tool.
//
// # Concurrency
//
// Prompt runs one turn on its caller's goroutine and owns the history and the
// grants while it does. Set may be called at any time; the mode it sets counts
// for the next call that is judged. Close cancels a running Prompt and returns
// when nothing of the agent runs any more, no process either.
package native

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"path/filepath"
	"sync"
	"time"

	"github.com/hermesd/hermesd/agentpool/native/llm"
	"github.com/hermesd/hermesd/agentpool/native/tool"
	"github.com/hermesd/hermesd/daemon/session"
)

// Config configures the agent. The zero value is usable.
type Config struct {
	Provider     string // auto, offline; "" means auto
	Model        string // "" means the provider's default
	BaseURL      string
	ApprovalMode string // ask, workspace_session, session; "" means ask

	Version     string        // of hermesd, for /version
	Protected   []string      // hermesd's own configuration and state: asked about in every mode
	TimeLimit   time.Duration // of a command, default 120 s
	OutputLimit int           // bytes of output of a command that are kept, default 32 KiB
	MaxCalls    int           // model calls in one turn, default 500

	// The parts, for tests; nil means what the rest of Config says.
	LLM   llm.Model
	Tools *tool.Registry
}

// Validate says what is wrong with the configuration, in the words of the
// configuration file.
func (c Config) Validate() error {
	if _, err := modeOfPolicy(c.ApprovalMode); err != nil {
		return err
	}
	_, err := c.model()
	return err
}

// model makes the model the configuration asks for.
func (c Config) model() (llm.Model, error) {
	if c.LLM != nil {
		return c.LLM, nil
	}
	switch c.Provider {
	case "", "auto", "offline":
		if c.Model != "" && c.Model != "offline" {
			return nil, fmt.Errorf("model %q is unknown to the provider offline: leave model empty", c.Model)
		}
		return llm.Offline{}, nil
	}
	return nil, fmt.Errorf("provider %q is not available in this version: use auto or offline", c.Provider)
}

// Agent is our own agent in one session. It implements session.Agent.
type Agent struct {
	cfg   Config
	id    session.ID
	host  session.Host
	model llm.Model
	tools *tool.Registry
	env   tool.Env

	life   context.Context // ends with Close
	cancel context.CancelFunc
	work   sync.WaitGroup // the running Prompt, and what Open left to do

	mu     sync.Mutex
	mode   mode
	closed bool

	// Owned by the running Prompt.
	history history
	grants  map[grant]bool
	titled  bool
}

var _ session.Agent = (*Agent)(nil)

// Open readies the agent for a session and returns the settings the session
// then has. The history of a session that is not fresh is read from its log.
// The commands are announced by a goroutine of the agent, so Open may be
// called by whoever takes the host's updates.
func Open(ctx context.Context, spec session.Spec, host session.Host, cfg Config) (*Agent, session.Settings, error) {
	fail := func(err error) (*Agent, session.Settings, error) {
		return nil, session.Settings{}, &session.Error{Code: session.CodeInternal, Message: fmt.Sprintf("the agent cannot start: %s", err)}
	}
	model, err := cfg.model()
	if err != nil {
		return fail(err)
	}
	m, err := modeOfPolicy(cfg.ApprovalMode)
	if err != nil {
		return fail(err)
	}
	if saved := savedMode(spec.Settings); saved != "" {
		m = saved
	}
	a := &Agent{
		cfg:    cfg,
		id:     spec.Meta.ID,
		host:   host,
		model:  model,
		tools:  cfg.Tools,
		mode:   m,
		grants: map[grant]bool{},
		env: tool.Env{
			Cwd:         filepath.Clean(spec.Meta.Cwd),
			Dirs:        spec.Meta.Dirs,
			Files:       host,
			NoEditor:    func(err error) bool { return errors.Is(err, session.ErrNoEditor) },
			Protected:   cfg.Protected,
			TimeLimit:   cfg.TimeLimit,
			OutputLimit: cfg.OutputLimit,
		},
	}
	if a.tools == nil {
		a.tools = tool.Standard()
	}
	said := ""
	if !spec.Fresh {
		past := memory{session: spec.Meta.ID, grants: a.grants, prompts: map[session.Seq]json.RawMessage{}}
		if err := host.Replay(ctx, past.replay); err != nil {
			return fail(fmt.Errorf("reading the session's log: %w", err))
		}
		past.history.settle()
		a.history, a.titled, said = past.history, past.titled, past.commands
	}
	a.titled = a.titled || spec.Meta.Title != ""
	a.life, a.cancel = context.WithCancel(context.Background())
	if update := commandsUpdate(); string(update) != said {
		a.work.Go(func() { _ = host.Update(a.life, update) })
	}
	return a, settings(m, model.Info()), nil
}

// Prompt implements session.Agent.
func (a *Agent) Prompt(ctx context.Context, in session.Turn) (session.TurnResult, error) {
	a.mu.Lock()
	if a.closed {
		a.mu.Unlock()
		return session.TurnResult{}, &session.Error{Code: session.CodeInternal, Message: "the agent is closed"}
	}
	a.work.Add(1)
	a.mu.Unlock()
	defer a.work.Done()

	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	defer context.AfterFunc(a.life, cancel)()

	t := &turn{Agent: a, seq: in.Seq}
	stop, err := t.run(ctx, in.Blocks)
	if ctx.Err() != nil {
		return session.TurnResult{StopReason: "cancelled"}, nil
	}
	if err != nil {
		return session.TurnResult{}, err
	}
	return session.TurnResult{StopReason: stop}, nil
}

// Set implements session.Agent.
func (a *Agent) Set(_ context.Context, change session.Change) (session.Settings, error) {
	info := a.model.Info()
	a.mu.Lock()
	defer a.mu.Unlock()
	m, err := changed(a.mode, change, info)
	if err != nil {
		return session.Settings{}, err
	}
	a.mode = m
	return settings(m, info), nil
}

func (a *Agent) currentMode() mode {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.mode
}

// Close implements session.Agent. A running Prompt is cancelled; a second call
// does no harm.
func (a *Agent) Close() error {
	a.mu.Lock()
	a.closed = true
	a.mu.Unlock()
	a.cancel()
	a.work.Wait()
	return nil
}
