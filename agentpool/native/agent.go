// Package native answers: what is hermesd's own agent? It is the loop that
// asks a language model, runs the tools it calls, and asks again until the
// model has nothing more to do; with approvals before everything that changes
// something, and in process.
//
// The parts: a turn is in turn.go, the calls of tools in call.go, the rules of
// approval in approval.go, permit.go, grant.go and plan.go, modes and options in settings.go, which models there
// are in models.go, what a model is told of the past in prefix.go and
// history.go, what it cost in usage.go; models are in package llm, tools in
// package tool.
//
// # Concurrency
//
// Prompt runs one turn on its caller's goroutine and owns the history and the
// grants while it does. Set may be called at any time; the mode it sets counts
// for the next call that is judged, model and effort for the next turn. Close cancels a running Prompt and returns
// when nothing of the agent runs any more, no job and no MCP server either. What
// processes leave behind that leave their group, package tool says.
package native

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/hermesd/hermesd/agentpool/native/grants"
	"github.com/hermesd/hermesd/agentpool/native/llm"
	"github.com/hermesd/hermesd/agentpool/native/llm/catalog"
	"github.com/hermesd/hermesd/agentpool/native/llm/credentials"
	"github.com/hermesd/hermesd/agentpool/native/mcp"
	"github.com/hermesd/hermesd/agentpool/native/tool"
	"github.com/hermesd/hermesd/agentpool/native/tool/web"
	"github.com/hermesd/hermesd/daemon/session"
)

// Config configures the agent. The zero value is usable: it has the offline
// model.
type Config struct {
	Provider     string           // auto, anthropic, openai, openrouter, nous, ollama, the name of a server, offline; "" means auto
	Model        string           // of new sessions; "" means the provider's default
	BaseURL      string           // of a server
	Servers      []catalog.Server // the user's own, by name
	Effort       string           // of reasoning in new sessions; "" is the model's own choice
	ApprovalMode string           // ask, workspace_session, session; "" means ask

	Credentials credentials.Source   // where keys are looked for
	Local       bool                 // look for an Ollama on this machine when there are no keys
	Window      int                  // tokens the model holds; 0: what is known of it
	MaxOutput   int                  // tokens of one message; 0: what is known of it
	Prices      map[string]llm.Price // by a model's ID or name
	// Catalog is what CatalogConfig comes to, shared by the sessions so that
	// each list of models is asked for once; nil: each session has its own.
	// It must outlive the agents.
	Catalog *catalog.Catalog
	Common  *Common // nil: each session keeps all of its own

	// Environ is the environment of commands for a prompt whose connection sent
	// none; nil: this process's. Keys are taken out of either.
	Environ func(context.Context) []string

	Version     string   // of hermesd, for /version
	Protected   []string // hermesd's own configuration and state: asked about in every mode
	MCP         MCPConfig
	Grants      *grants.File  // what is allowed for good; nil: there is no place for that
	TimeLimit   time.Duration // of a command, default 120 s
	MaxTime     time.Duration // a command can ask for, default 1 h
	OutputLimit int           // bytes of output of a command that are kept, default 32 KiB
	MaxJobs     int           // commands of a session in the background, default 16
	MaxCalls    int           // model calls in one turn, default 500

	Web    *web.Client   // fetches pages; nil: with the defaults
	Search *web.Searcher // nil: there is no web_search

	// Panicked is told of a panic in a tool, whose call then fails; nil: nobody.
	Panicked func(tool string, value any, stack []byte)

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
	return c.checkModel()
}

// Agent is our own agent in one session. It implements session.Agent.
type Agent struct {
	cfg    Config
	id     session.ID
	host   session.Host
	models models
	done   func() // ends models
	tools  *tool.Registry
	env    tool.Env
	// workspace is where grants hold that outlive the session.
	workspace string

	servers *mcp.Set

	life   context.Context // ends with Close
	cancel context.CancelFunc
	titled atomic.Bool    // the session has a title
	work   sync.WaitGroup // the running Prompt, and what Open left to do

	mu       sync.Mutex
	choice   choice
	turn     session.Seq // that runs, 0 if none
	notices  int         // that were given in it
	closed   bool
	news     []string // to be said to the user when no message is under way
	steering steering
	gauge    gauge

	// Owned by the running Prompt.
	model   llm.Model // of the turn, as it was chosen when it began
	effort  string
	prefix  *prefix // nil until the first request
	meter   meter
	history history
	grants  map[grant]bool
	told    map[string]toldTool // tools of MCP servers the model knows of
	met     bool                // a turn has waited for the servers
}

var (
	_ session.Agent  = (*Agent)(nil)
	_ session.Joiner = (*Agent)(nil)
)

// Open readies the agent for a session and returns the settings the session
// then has. The history of a session that is not fresh is read from its log.
// The commands are announced by a goroutine of the agent, so Open may be
// called by whoever takes the host's updates.
func Open(ctx context.Context, spec session.Spec, host session.Host, cfg Config) (*Agent, session.Settings, error) {
	fail := func(err error) (*Agent, session.Settings, error) {
		return nil, session.Settings{}, &session.Error{Code: session.CodeInternal, Message: fmt.Sprintf("the agent cannot start: %s", err)}
	}
	if err := cfg.checkModel(); err != nil {
		return fail(err)
	}
	m, err := modeOfPolicy(cfg.ApprovalMode)
	if err != nil {
		return fail(err)
	}
	models, done := cfg.models()
	opened := false
	defer func() {
		if !opened {
			done()
		}
	}()
	chosen, err := restored(ctx, models, spec.Settings, choice{mode: m, effort: cfg.Effort})
	if err != nil {
		if e := modelError(err, cfg.Model); e != err {
			return nil, session.Settings{}, e
		}
		return fail(err)
	}
	a := &Agent{
		cfg:       cfg,
		id:        spec.Meta.ID,
		host:      host,
		models:    models,
		done:      done,
		model:     models.Open(chosen.model),
		tools:     cfg.Tools,
		choice:    chosen,
		grants:    map[grant]bool{},
		workspace: grants.Workspace(filepath.Clean(spec.Meta.Cwd)),
		env: tool.Env{
			Cwd:         filepath.Clean(spec.Meta.Cwd),
			Dirs:        spec.Meta.Dirs,
			Files:       host,
			NoEditor:    func(err error) bool { return errors.Is(err, session.ErrNoEditor) },
			Protected:   cfg.Protected,
			TimeLimit:   cfg.TimeLimit,
			MaxTime:     cfg.MaxTime,
			OutputLimit: cfg.OutputLimit,
		},
	}
	a.env.Jobs = tool.NewJobs(cfg.MaxJobs, a.jobEnded)
	a.env.Web, a.env.Allows = cfg.Web, a.allows
	if a.tools == nil {
		a.tools = cfg.standardTools()
	}
	said := ""
	if !spec.Fresh {
		past := memory{session: spec.Meta.ID, grants: a.grants, prompts: map[session.Seq]json.RawMessage{}, joined: joined{}}
		if err := host.Replay(ctx, past.replay); err != nil {
			return fail(fmt.Errorf("reading the session's log: %w", err))
		}
		past.history.settle()
		a.history, said = past.history, past.commands
		a.titled.Store(past.titled)
		cfg.Common.share(past.prefix)
		a.prefix, a.meter, a.told = past.prefix, past.meter, past.told
	}
	if spec.Meta.Title != "" {
		a.titled.Store(true)
	}
	a.life, a.cancel = context.WithCancel(context.Background())
	if update := commandsUpdate(); string(update) != said {
		a.work.Go(func() { _ = host.Update(a.life, update) })
	}
	opened = true
	a.openServers(spec)
	a.tools = tool.NewRegistry(slices.Concat(a.tools.All(), a.servers.Generic())...)
	return a, settings(chosen, models.List(ctx, chosen.model)), nil
}

// Prompt implements session.Agent.
func (a *Agent) Prompt(ctx context.Context, in session.Turn) (session.TurnResult, error) {
	a.mu.Lock()
	if a.closed {
		a.mu.Unlock()
		return session.TurnResult{}, &session.Error{Code: session.CodeInternal, Message: "the agent is closed"}
	}
	a.work.Add(1)
	a.turn, a.notices = in.Seq, 0
	chosen := a.choice
	a.mu.Unlock()
	defer a.work.Done()
	defer func() {
		a.mu.Lock()
		a.turn = 0
		if len(a.news) > 0 && !a.closed {
			a.work.Go(func() { _ = a.sayNews(a.life) })
		}
		a.mu.Unlock()
	}()
	a.model, a.effort = a.models.Open(chosen.model), chosen.effort

	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	defer context.AfterFunc(a.life, cancel)()
	a.env.Environ = nil
	if in.Environ != nil {
		a.env.Environ = a.cfg.Credentials.Strip(in.Environ)
	}
	a.env.FindEnviron = func() []string { return a.findEnviron(ctx) }

	t := &turn{Agent: a, seq: in.Seq}
	stop, err := t.run(ctx, in.Blocks)
	if ctx.Err() != nil {
		return session.TurnResult{StopReason: "cancelled", Usage: a.meter.usage()}, nil
	}
	if err != nil {
		return session.TurnResult{}, err
	}
	return session.TurnResult{StopReason: stop, Usage: a.meter.usage()}, nil
}

// findEnviron is the environment in which commands run for a connection that sent
// none: what the configuration knows of, else this process's.
func (a *Agent) findEnviron(ctx context.Context) []string {
	if a.cfg.Environ != nil {
		return a.cfg.Credentials.Strip(a.cfg.Environ(ctx))
	}
	return a.cfg.Credentials.Strip(os.Environ())
}

// Set implements session.Agent.
//
// A model or an effort that is set while a turn runs counts from the next turn
// on, and a message in the session says so.
func (a *Agent) Set(ctx context.Context, change session.Change) (session.Settings, error) {
	a.mu.Lock()
	was := a.choice
	a.mu.Unlock()
	now, err := changed(ctx, was, change, a.models)
	if err != nil {
		return session.Settings{}, err
	}
	list := a.models.List(ctx, now.model)
	a.mu.Lock()
	defer a.mu.Unlock()
	a.choice = now
	if note := notice(was, now, a.models.Info(now.model)); note != "" && a.turn != 0 && !a.closed {
		a.notices++
		head := chunkHead("agent_message_chunk", fmt.Sprintf("note_%d_%d", a.turn, a.notices))
		// Whoever called may be the one who takes updates.
		a.work.Go(func() { _ = a.host.Update(a.life, appendChunk(head, note)) })
	}
	return settings(now, list), nil
}

func (a *Agent) currentMode() mode {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.choice.mode
}

// chosenModel is what the next turn gets.
func (a *Agent) chosenModel() llm.Info {
	a.mu.Lock()
	id := a.choice.model
	a.mu.Unlock()
	return a.models.Info(id)
}

// Close implements session.Agent. A running Prompt is cancelled; a second call
// does no harm.
func (a *Agent) Close() error {
	a.mu.Lock()
	a.closed = true
	a.mu.Unlock()
	a.cancel()
	a.env.Jobs.Close() // its goroutines may add to the work
	a.servers.Close()
	a.work.Wait()
	a.done()
	return nil
}
