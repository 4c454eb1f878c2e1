// Package mcp answers: how does a session use MCP servers? A Set is the servers
// of one session: it starts or dials them, lists their tools, calls them, starts
// those again that end, and says who failed and why.
//
// The protocol is spoken by github.com/modelcontextprotocol/go-sdk, the official
// SDK: it knows all versions and both HTTP transports. The connection to a
// process is our own (stdio.go), because servers print what is no message, and
// start what must not outlive them.
//
// # Trust
//
// A server is not trusted. What it says of its tools (names, descriptions,
// "read only") is shown and passed on, cut to a size, and decides nothing. Its
// environment is the daemon's without keys, and what its own entry adds. Values
// of that entry are in nothing this package says: see Server.redact.
//
// # Concurrency
//
// A Set is safe for concurrent use. Each server has one goroutine, which owns
// its connection; Close ends them all and returns when nothing of any server
// runs, no process of its group either. Functions given in Options are called on these
// goroutines, or on those of a call, and must not call the Set's Close.
package mcp

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"
)

// Transports.
const (
	Stdio = "stdio"
	HTTP  = "http"
	SSE   = "sse"
)

// Server says how a server is reached.
type Server struct {
	Name      string
	Transport string // Stdio, HTTP or SSE
	Command   string // of Stdio
	Args      []string
	Env       []Pair // added to Options.Environ
	URL       string // of HTTP and SSE
	Headers   []Pair
	Timeout   time.Duration // of one call; 0: Options.CallTime
	// Trusted says that the user vouches for what the server says of its tools.
	Trusted bool
}

// Pair is a named value, which may be secret.
type Pair struct{ Name, Value string }

// Options are the same for all servers of a session. Zero durations mean the
// defaults.
type Options struct {
	Version string   // of hermesd
	Cwd     string   // of the session, and of the processes
	Dirs    []string // further folders of the session
	// Environ gives the environment of processes, without keys. It is asked
	// when one is started, by the goroutine of its server.
	Environ   func(context.Context) []string
	StartTime time.Duration
	CallTime  time.Duration
	// ResultLimit is how many bytes of text are taken of a result.
	ResultLimit int
	// Tell is given sentences for the user: who failed and why, who is back.
	// It must not block.
	Tell func(string)

	dial func(ctx context.Context, s *server) (*link, error) // for tests
}

// Defaults of Options.
const (
	DefaultStartTime = 60 * time.Second
	DefaultCallTime  = 5 * time.Minute
)

// Set is the servers of one session.
type Set struct {
	opts    Options
	servers []*server // by name
	cancel  context.CancelFunc
	work    sync.WaitGroup
}

// Open starts all servers, beside each other and in the background.
func Open(servers []Server, opts Options) *Set {
	if opts.StartTime <= 0 {
		opts.StartTime = DefaultStartTime
	}
	if opts.CallTime <= 0 {
		opts.CallTime = DefaultCallTime
	}
	if opts.Tell == nil {
		opts.Tell = func(string) {}
	}
	if opts.dial == nil {
		opts.dial = opts.connect
	}
	ctx, cancel := context.WithCancel(context.Background())
	set := &Set{opts: opts, cancel: cancel}
	for _, spec := range servers {
		set.servers = append(set.servers, newServer(spec, opts))
	}
	slices.SortFunc(set.servers, func(a, b *server) int { return strings.Compare(a.spec.Name, b.spec.Name) })
	for _, s := range set.servers {
		set.work.Go(func() { s.run(ctx) })
	}
	return set
}

// Close ends all servers and returns when nothing of them runs. A second call
// does no harm.
func (set *Set) Close() {
	set.cancel()
	set.work.Wait()
}

// Wait returns when no server is in its first start any more, or after d, or
// with ctx.
func (set *Set) Wait(ctx context.Context, d time.Duration) {
	ctx, cancel := context.WithTimeout(ctx, d)
	defer cancel()
	for _, s := range set.servers {
		select {
		case <-s.tried:
		case <-ctx.Done():
			return
		}
	}
}

// Nudge has those that have been given up tried again.
func (set *Set) Nudge() {
	for _, s := range set.servers {
		s.nudge()
	}
}

// Tools returns the tools of all servers that are ready, by server and name.
func (set *Set) Tools() []Tool {
	var all []Tool
	for _, s := range set.servers {
		all = append(all, s.snapshot().tools...)
	}
	return all
}

// Status says how a server is doing.
type Status struct {
	Name         string
	State        State
	Reason       string // of Failed
	Tools        int
	Instructions string // of the server to the model
}

// State of a server.
type State string

const (
	Starting State = "starting"
	Ready    State = "ready"
	Failed   State = "failed"
)

// Status returns that of all servers, by name.
func (set *Set) Status() []Status {
	all := make([]Status, len(set.servers))
	for i, s := range set.servers {
		now := s.snapshot()
		all[i] = Status{Name: s.spec.Name, State: now.state, Reason: now.reason, Tools: len(now.tools), Instructions: now.instructions}
	}
	return all
}

// Find returns a tool of a server. If the server is not ready, the tool is
// what it was last; if that is not known, only its names.
func (set *Set) Find(server, name string) (Tool, error) {
	s := set.server(server)
	if s == nil {
		return Tool{}, fmt.Errorf("there is no MCP server %q in this session%s", server, set.names())
	}
	now := s.snapshot()
	for _, t := range now.known {
		if t.Name == name {
			return t, nil
		}
	}
	if now.state != Ready {
		return Tool{Server: server, Name: name}, nil
	}
	return Tool{}, fmt.Errorf("the MCP server %q has no tool %q", server, name)
}

// Trusted tells whether the user vouches for a server.
func (set *Set) Trusted(server string) bool {
	s := set.server(server)
	return s != nil && s.spec.Trusted
}

func (set *Set) server(name string) *server {
	for _, s := range set.servers {
		if s.spec.Name == name {
			return s
		}
	}
	return nil
}

func (set *Set) names() string {
	if len(set.servers) == 0 {
		return ": it has none"
	}
	var names []string
	for _, s := range set.servers {
		names = append(names, s.spec.Name)
	}
	return ": there are " + strings.Join(names, ", ")
}
