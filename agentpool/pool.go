// Package agentpool answers: which agents exist, and how does a session get
// one? A Pool opens agents by the names the configuration gives them.
//
// # Concurrency
//
// A Pool does not change after New and is safe for concurrent use. It owns no
// goroutine: an agent belongs to the session it was opened for.
package agentpool

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/hermesd/hermesd/agentpool/external"
	"github.com/hermesd/hermesd/agentpool/native"
	"github.com/hermesd/hermesd/daemon/session"
	"github.com/rs/zerolog"
)

// Config says which agents there are.
type Config struct {
	Default string // name of the agent a session gets when none is asked for
	Agents  map[string]AgentConfig
}

// AgentConfig configures one agent.
type AgentConfig struct {
	Type     string // one of the types; "" means native
	Native   native.Config
	External external.Config
}

// Types of agents.
const (
	TypeNative   = "native"   // the agent that is built in
	TypeExternal = "external" // a program that speaks ACP
)

// Validate says what is wrong with the configuration, naming the agent.
func (c Config) Validate() error {
	if len(c.Agents) == 0 {
		return fmt.Errorf("no agent is configured")
	}
	if _, ok := c.Agents[c.Default]; !ok {
		return fmt.Errorf("default_agent %q is not configured: choose one of %s", c.Default, c.names())
	}
	for _, name := range c.sorted() {
		a := c.Agents[name]
		if err := a.validate(); err != nil {
			return fmt.Errorf("agents.%s: %w", name, err)
		}
	}
	return nil
}

func (a AgentConfig) validate() error {
	switch a.kind() {
	case TypeNative:
		return a.Native.Validate()
	case TypeExternal:
		return a.External.Validate()
	}
	return fmt.Errorf("the type %q is unknown: it is %s or %s", a.Type, TypeNative, TypeExternal)
}

func (a AgentConfig) kind() string {
	if a.Type == "" {
		return TypeNative
	}
	return a.Type
}

func (c Config) sorted() []string { return slices.Sorted(maps.Keys(c.Agents)) }

func (c Config) names() string { return strings.Join(c.sorted(), ", ") }

// Pool implements session.Agents and session.Logins.
type Pool struct {
	cfg Config
	log zerolog.Logger
}

var (
	_ session.Agents = (*Pool)(nil)
	_ session.Logins = (*Pool)(nil)
)

// New returns a pool of the configured agents; it starts nothing. cfg should
// have passed Validate: an agent that is configured wrongly fails at Open.
func New(cfg Config, log zerolog.Logger) *Pool {
	cfg.Agents = maps.Clone(cfg.Agents)
	return &Pool{cfg: cfg, log: log}
}

// Info describes an agent of the pool.
type Info struct {
	Name    string `json:"id"`
	Type    string `json:"type"`
	Default bool   `json:"default,omitempty"`
}

// List returns the agents by name.
func (p *Pool) List() []Info {
	var all []Info
	for _, name := range p.cfg.sorted() {
		all = append(all, Info{Name: name, Type: p.cfg.Agents[name].kind(), Default: name == p.cfg.Default})
	}
	return all
}

// Has implements session.Agents.
func (p *Pool) Has(name string) bool {
	_, ok := p.cfg.Agents[p.named(name)]
	return ok
}

// Default implements session.Agents.
func (p *Pool) Default() string { return p.cfg.Default }

// named is the name of an agent, also when none was asked for.
func (p *Pool) named(name string) string {
	if name == "" {
		return p.cfg.Default
	}
	return name
}

// Login implements session.Logins.
func (p *Pool) Login(ctx context.Context, agent string) session.Login {
	if a := p.cfg.Agents[p.named(agent)]; a.kind() == TypeNative {
		return a.Native.Login(ctx)
	}
	return session.Login{} // external agents are logged in to by their own programs
}

// Authenticate implements session.Logins.
func (p *Pool) Authenticate(ctx context.Context, agent, method string) error {
	if a := p.cfg.Agents[p.named(agent)]; a.kind() == TypeNative {
		return a.Native.Authenticate(ctx, method)
	}
	return p.ownLogin(agent)
}

// Logout implements session.Logins.
func (p *Pool) Logout(ctx context.Context, agent string) error {
	if a := p.cfg.Agents[p.named(agent)]; a.kind() == TypeNative {
		return a.Native.Logout(ctx)
	}
	return p.ownLogin(agent)
}

func (p *Pool) ownLogin(agent string) error {
	return &session.Error{Code: session.CodeParams, Message: fmt.Sprintf("log in to the agent %s with its own program: hermesd keeps nothing of it", p.named(agent))}
}

// Open implements session.Agents. The error for a name that does not exist
// lists those that do.
func (p *Pool) Open(ctx context.Context, spec session.Spec, host session.Host) (session.Agent, session.Settings, error) {
	name := p.named(spec.Meta.Agent)
	cfg, ok := p.cfg.Agents[name]
	if !ok {
		return nil, session.Settings{}, &session.Error{
			Code:    session.CodeParams,
			Message: fmt.Sprintf("there is no agent %q: configured are %s", name, p.cfg.names()),
		}
	}
	if err := cfg.validate(); err != nil {
		return nil, session.Settings{}, &session.Error{Code: session.CodeInternal, Message: fmt.Sprintf("the agent %q: %s", name, err)}
	}
	var agent session.Agent
	var settings session.Settings
	var err error
	if cfg.kind() == TypeExternal {
		agent, settings, err = external.Open(ctx, spec, host, cfg.External)
	} else {
		cfg.Native.Panicked = func(tool string, value any, stack []byte) {
			p.log.Error().Str("agent", name).Str("session", string(spec.Meta.ID)).Str("tool", tool).Interface("panic", value).Bytes("stack", stack).Msg("a tool panicked")
		}
		agent, settings, err = native.Open(ctx, spec, host, cfg.Native)
	}
	if err != nil {
		p.log.Error().Err(err).Str("agent", name).Str("session", string(spec.Meta.ID)).Msg("opening an agent failed")
		return nil, session.Settings{}, err
	}
	p.log.Debug().Str("agent", name).Str("session", string(spec.Meta.ID)).Bool("fresh", spec.Fresh).Msg("agent opened")
	return agent, settings, nil
}
