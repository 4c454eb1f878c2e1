package daemon

import (
	"context"
	"errors"
	"fmt"
	"net"
	"sync"
	"time"

	"github.com/rs/zerolog"

	"github.com/hermesd/hermesd/daemon/session"
	"github.com/hermesd/hermesd/transport"
)

// Limits bound what one connection can make the daemon hold.
type Limits struct {
	MaxLine     int           // bytes of one line from a local editor
	MaxFrame    int           // bytes of one line to an editor
	SoftQueue   int           // a cursor rests while this much waits in its connection's queue
	HardQueue   int           // answers and requests beyond this close the connection
	MaxInFlight int           // requests of one connection
	Replay      int           // bytes of history one load replays
	FirstFrame  time.Duration // until a connection has said something
	Leave       time.Duration // for answers in flight when an editor closes its end
}

// DefaultLimits are those of the design.
func DefaultLimits() Limits {
	return Limits{
		MaxLine: 64 << 20, MaxFrame: 30 << 20, SoftQueue: 1 << 20, HardQueue: 16 << 20,
		MaxInFlight: 256, Replay: 8 << 20, FirstFrame: 10 * time.Second, Leave: 2 * time.Second,
	}
}

// AgentInfo is what is told of an agent.
type AgentInfo struct {
	Name    string `json:"id"`
	Type    string `json:"type"`
	Default bool   `json:"default"`
}

// Config is what a Daemon is made of besides its store and agents.
type Config struct {
	Version string
	Socket  string // where it listens, for status
	Session session.Config
	Limits  Limits
	Log     zerolog.Logger
	// Agents lists the agents there are, for status.
	Agents func() []AgentInfo
	// Stop is called, on a goroutine of its own, when somebody asked the daemon
	// to end.
	Stop func()
}

// Daemon serves connections. Serve and ServeConn may be called from several
// goroutines.
type Daemon struct {
	cfg     Config
	store   session.Store
	agents  session.Agents
	reg     *registry
	started time.Time

	mu      sync.Mutex
	editors map[*editor]bool
	closing bool
	conns   sync.WaitGroup
}

// New makes a daemon; it starts nothing. The caller keeps store and agents and
// closes them after Drain.
func New(cfg Config, store session.Store, agents session.Agents) *Daemon {
	d := &Daemon{cfg: cfg, store: store, agents: agents, started: time.Now(), editors: make(map[*editor]bool)}
	sc := cfg.Session
	sc.Warn = func(id session.ID, what string, err error) {
		cfg.Log.Warn().Str("session", string(id)).Err(err).Msg(what)
	}
	d.reg = newRegistry(sc, store, agents)
	return d
}

// Serve accepts connections until ln is closed and returns the reason, nil if
// it was closed because ctx ended. It waits for no connection: Drain does.
func (d *Daemon) Serve(ctx context.Context, ln *transport.Listener) error {
	stop := context.AfterFunc(ctx, func() { ln.Close() })
	defer stop()
	for {
		c, err := ln.Accept()
		if err != nil {
			if ctx.Err() != nil || errors.Is(err, net.ErrClosed) {
				return nil
			}
			return fmt.Errorf("accepting connections: %w", err)
		}
		go d.ServeConn(c)
	}
}

// ServeConn serves one connection until it ends, and closes it.
func (d *Daemon) ServeConn(c *transport.Conn) {
	d.mu.Lock()
	if d.closing {
		d.mu.Unlock()
		c.Close()
		return
	}
	d.conns.Add(1)
	d.mu.Unlock()
	defer d.conns.Done()
	e, err := d.meet(c)
	if err != nil {
		d.cfg.Log.Debug().Err(err).Int("pid", c.Principal.PID).Msg("connection ended before it said anything useful")
		c.Close()
		return
	}
	e.serve()
}

func (d *Daemon) join(e *editor) bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.closing {
		return false
	}
	d.editors[e] = true
	return true
}

func (d *Daemon) part(e *editor) {
	d.mu.Lock()
	delete(d.editors, e)
	d.mu.Unlock()
}

func (d *Daemon) connected() []*editor {
	d.mu.Lock()
	defer d.mu.Unlock()
	all := make([]*editor, 0, len(d.editors))
	for e := range d.editors {
		all = append(all, e)
	}
	return all
}

// Drain ends every session in good order (running turns are cancelled and
// their prompts answered), then closes every connection, and returns when all
// is done or ctx ends. No new session or turn starts meanwhile.
func (d *Daemon) Drain(ctx context.Context) error {
	err := d.reg.stop(ctx)
	d.mu.Lock()
	d.closing = true
	d.mu.Unlock()
	for _, e := range d.connected() {
		go e.dismiss(ctx)
	}
	done := make(chan struct{})
	go func() { d.conns.Wait(); close(done) }()
	select {
	case <-done:
		return err
	case <-ctx.Done():
		for _, e := range d.connected() {
			e.peer.Close(ctx.Err())
		}
		return errors.Join(err, fmt.Errorf("closing connections: %w", ctx.Err()))
	}
}
