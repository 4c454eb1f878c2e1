package daemon

import (
	"context"
	"errors"
	"fmt"
	"net"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/rs/zerolog"

	"github.com/hermesd/hermesd/daemon/session"
	"github.com/hermesd/hermesd/transport"
	"github.com/hermesd/hermesd/transport/link"
)

// Limits bound what one connection can make the daemon hold.
type Limits struct {
	MaxLine     int           // bytes of one line from a local editor
	MaxLineNet  int           // bytes of one line from an editor on the network
	MaxFrame    int           // bytes of one line to an editor
	SoftQueue   int           // a cursor rests while this much waits in its connection's queue
	HardQueue   int           // answers and requests beyond this close the connection
	MaxInFlight int           // requests of one connection
	Replay      int           // bytes of history one load replays
	FirstFrame  time.Duration // until a connection has said something
	LineTime    time.Duration // for one line from the network, once it has begun; long ones have more
	Leave       time.Duration // for answers in flight when an editor closes its end
}

// DefaultLimits are those that hold when nothing is configured.
func DefaultLimits() Limits {
	return Limits{
		MaxLine: 64 << 20, MaxLineNet: 16 << 20, MaxFrame: 30 << 20, SoftQueue: 1 << 20, HardQueue: 16 << 20,
		MaxInFlight: 256, Replay: 8 << 20, FirstFrame: 10 * time.Second, LineTime: time.Minute, Leave: 2 * time.Second,
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
	// Agents lists the agents there are, for status and for errors.
	Agents func() []AgentInfo
	// Retention says which sessions are removed by themselves, by Retain.
	Retention Retention
	// Disk tells of the store, for status and metrics; may be nil.
	Disk func() Disk
	// About is further text that status gives by name: where the log is, and the
	// like.
	About map[string]string
	// Environments are those that programs run in besides the editors', and
	// FindProgram finds one there; for finding out why something does not start.
	// Both may be nil.
	Environments func(context.Context) []Environment
	FindProgram  func(environ []string, name string) (string, error)
	// Embedded says that the one client has started this process, with a command
	// that it can run again in a terminal.
	Embedded bool
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
	logins  session.Logins // nil: there is nothing to log in to
	reg     *registry
	started time.Time
	// refusals is the log of those that were turned away: as many as there are,
	// they do not fill the disk.
	refusals zerolog.Logger
	counts   *counts
	keeper   Keeper        // nil: the store keeps nothing on a disk
	removed  atomic.Uint64 // sessions, by the retention

	mu      sync.Mutex
	editors map[*editor]bool
	strange map[*transport.Conn]bool // those that have not said who they are
	listen  []transport.Address
	closing bool
	conns   sync.WaitGroup
}

// New makes a daemon; it starts nothing. The caller keeps store and agents and
// closes them after Drain.
func New(cfg Config, store session.Store, agents session.Agents) *Daemon {
	d := &Daemon{cfg: cfg, store: store, agents: agents, started: time.Now(), editors: make(map[*editor]bool), strange: make(map[*transport.Conn]bool), counts: newCounts()}
	d.logins, _ = agents.(session.Logins)
	d.keeper, _ = store.(Keeper)
	d.refusals = cfg.Log.Sample(&zerolog.BurstSampler{Burst: 20, Period: time.Second})
	sc := cfg.Session
	sc.Warn = func(id session.ID, what string, err error) {
		cfg.Log.Warn().Str("session", string(id)).Err(err).Msg(what)
	}
	sc.Audit = d.fact
	d.reg = newRegistry(sc, store, agents)
	return d
}

// Listener is where connections come from: of this machine or the network.
type Listener interface {
	Accept() (*transport.Conn, error)
	Address() transport.Address
	Close() error
}

// Serve accepts connections until ln is closed and returns the reason, nil if
// it was closed because ctx ended. It waits for no connection: Drain does.
func (d *Daemon) Serve(ctx context.Context, ln Listener) error {
	stop := context.AfterFunc(ctx, func() { ln.Close() })
	defer stop()
	d.mu.Lock()
	d.listen = append(d.listen, ln.Address())
	d.mu.Unlock()
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
	d.strange[c] = true
	d.mu.Unlock()
	defer d.conns.Done()
	e, err := d.meet(c)
	d.mu.Lock()
	delete(d.strange, c)
	d.mu.Unlock()
	if err != nil {
		c.Close()
		switch p := c.Principal; {
		case err == errPaired:
		case p.Remotely():
			d.counts.refused.Add(1)
			d.refusals.Warn().Err(err).Str("remote", p.Remote).Str("network", p.Network).Msg("connection refused")
		default:
			d.cfg.Log.Debug().Err(err).Int("pid", p.PID).Msg("connection ended before it said anything useful")
		}
		return
	}
	e.serve()
}

func (d *Daemon) join(e *editor) bool {
	for {
		d.mu.Lock()
		if d.closing {
			d.mu.Unlock()
			return false
		}
		old := d.twin(e)
		if old == nil {
			d.editors[e] = true
			d.mu.Unlock()
			return true
		}
		d.mu.Unlock()
		// A laptop that wakes up in another network is here before its old
		// connection is known to be dead. There are never two of one id.
		old.cut(errTakenOver)
		<-old.gone
	}
}

// twin is a connection over the network with the id of e, nil if there is none.
// d.mu is held.
func (d *Daemon) twin(e *editor) *editor {
	if !e.conn.Principal.Remotely() {
		return nil
	}
	for old := range d.editors {
		if old.hello.ID == e.hello.ID {
			return old
		}
	}
	return nil
}

func (d *Daemon) part(e *editor) {
	d.mu.Lock()
	delete(d.editors, e)
	d.mu.Unlock()
	close(e.gone)
}

// addresses are those where the daemon listens.
func (d *Daemon) addresses() []string {
	d.mu.Lock()
	defer d.mu.Unlock()
	all := []string{}
	for _, a := range d.listen {
		all = append(all, a.String())
	}
	slices.Sort(all) // they were opened in no order
	return all
}

// welcome is what a hello is answered with.
func (d *Daemon) welcome(hello link.Hello) link.Welcome {
	return link.Welcome{Link: link.Agree(hello.Link), Version: d.cfg.Version, PID: pid, Epoch: d.store.Epoch()}
}

// maxLine is how long a line of a peer may be.
func (d *Daemon) maxLine(p transport.Principal) int {
	if p.Remotely() {
		return d.cfg.Limits.MaxLineNet
	}
	return d.cfg.Limits.MaxLine
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
	for c := range d.strange {
		go c.Close() // nothing was begun for it
	}
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
