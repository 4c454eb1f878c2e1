package main

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"runtime/debug"
	"slices"
	"syscall"
	"time"

	"github.com/oklog/run" // the actors of the process: small, no dependencies, maintained
	"github.com/rs/zerolog"

	"github.com/hermesd/hermesd/agentpool"
	"github.com/hermesd/hermesd/agentpool/environ"
	"github.com/hermesd/hermesd/agentpool/external"
	"github.com/hermesd/hermesd/agentpool/native"
	"github.com/hermesd/hermesd/agentpool/native/llm/catalog"
	"github.com/hermesd/hermesd/agentpool/native/mcp"
	"github.com/hermesd/hermesd/configs"
	"github.com/hermesd/hermesd/daemon"
	"github.com/hermesd/hermesd/daemon/session"
	"github.com/hermesd/hermesd/store"
	"github.com/hermesd/hermesd/transport"
	"github.com/hermesd/hermesd/transport/identity"
	"github.com/hermesd/hermesd/transport/manager"
)

// storePatience is how long a service manager is asked to wait for the store.
const storePatience = 10 * time.Minute

// drainTime is how long turns and editors have to end when the daemon stops.
const drainTime = 20 * time.Second

// runDaemon is the daemon's life: it takes the lock, opens the store, makes the
// agents, listens, says that it is ready, and serves until a signal or a
// command ends it. Then everything is closed in the opposite order. A second
// signal ends it at once.
func runDaemon(ctx context.Context, o serveOptions) (err error) {
	// It is there all day and idle most of it: small counts for more than the
	// processor time that collecting earlier takes while something streams.
	if os.Getenv("GOGC") == "" {
		debug.SetGCPercent(50)
	}
	log, closeLog, err := newLog(o)
	if err != nil {
		return misconfigured(err)
	}
	defer func() { err = errors.Join(err, closeLog()) }()
	m := o.Manager
	if m == nil {
		m = &manager.Manager{}
	}
	for _, x := range m.Foreign() {
		log.Warn().Str("address", x).Msg("the service manager handed over a listener that is not used: only Unix sockets are")
	}
	if err := errors.Join(o.ManagerErr, o.NoteErr); err != nil {
		log.Warn().Err(err).Msg("beginning as a service")
	}
	lock, err := hold(ctx, o, m, log)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, lock.Close()) }()

	// After a crash that may take as long as the journal is large.
	_ = m.Status("reading the sessions", storePatience)
	st, err := openStore(o, log)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, st.Close()) }()

	o.Login = newLogin(log)
	agents, closeModels, err := newAgents(o, log)
	if err != nil {
		return misconfigured(err)
	}
	defer closeModels()
	stopped := make(chan struct{}, 1)
	cfg := daemonConfig(o, log, st, agents, func() {
		select {
		case stopped <- struct{}{}:
		default:
		}
	})
	figures := openMetrics(ctx, o, log, cfg.About)
	defer figures.close()
	d := daemon.New(cfg, st, agents)

	listeners, err := listen(ctx, o, lock, m, log)
	if err != nil {
		return err
	}
	sessions := len(st.List())
	log.Info().Str("version", o.Version).Str("socket", o.Places.Socket).Int("sessions", sessions).Msg("ready")
	transport.NotifyReady(nil)
	if err := m.Ready(fmt.Sprintf("hermesd %s, %d sessions on disk", o.Version, sessions)); err != nil {
		log.Warn().Err(err).Msg("the service manager does not hear that hermesd is ready")
	}
	if o.Ready != nil {
		o.Ready()
	}
	// What only the start needed goes back to the system: there may be nothing to
	// do for days.
	defer time.AfterFunc(begun, debug.FreeOSMemory).Stop()

	var g run.Group
	g.Add(run.SignalHandler(ctx, syscall.SIGTERM, syscall.SIGINT))
	quit := make(chan struct{})
	g.Add(func() error {
		select {
		case <-stopped:
			return errStopped
		case <-quit:
			return nil
		}
	}, func(error) { close(quit) })
	accepting, hangUp := context.WithCancel(ctx)
	g.Add(func() error { m.Watch(accepting, d.Alive); <-accepting.Done(); return nil }, func(error) { hangUp() })
	g.Add(func() error { figures.serve(accepting, o.Version, d, log); <-accepting.Done(); return nil }, func(error) { hangUp() })
	g.Add(func() error { d.Retain(accepting); return nil }, func(error) { hangUp() })
	for _, ln := range listeners {
		g.Add(func() error { return d.Serve(accepting, ln) }, func(error) { hangUp() })
	}
	err = g.Run()
	hangUp()

	log.Info().AnErr("reason", err).Msg("stopping")
	_ = m.Stopping("turns and connections end")
	drain, cancel := context.WithTimeout(context.WithoutCancel(ctx), drainTime)
	defer cancel()
	if derr := d.Drain(drain); derr != nil {
		log.Warn().Err(derr).Msg("not everything ended in good order")
	}
	if errors.Is(err, errStopped) || errors.Is(err, run.ErrSignal) || ctx.Err() != nil {
		return nil
	}
	return err
}

// hold makes this process the daemon of its socket. Who waits how long for
// another one depends on who wants this one to run.
func hold(ctx context.Context, o serveOptions, m *manager.Manager, log zerolog.Logger) (*transport.Lock, error) {
	switch {
	case m.Activated(o.Places.Socket):
		ctx, cancel := context.WithTimeout(ctx, activatedPatience)
		defer cancel()
		return transport.HoldActivated(ctx, o.Places)
	case o.Service && !m.Watched():
		return transport.HoldWhenFree(ctx, o.Places, func(why error) {
			log.Info().Err(why).Msg("waiting until the other daemon has ended")
		})
	}
	return transport.Hold(ctx, o.Places)
}

// activatedPatience is how long a daemon for which clients wait already waits
// for another one to end.
const activatedPatience = 30 * time.Second

var errStopped = errors.New("asked to stop")

// runStdio is the same with one editor, on stdin and stdout, and without a
// socket. It ends with its input.
func runStdio(ctx context.Context, o serveOptions) (err error) {
	log, closeLog, err := newLog(o)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, closeLog()) }()
	conn, err := transport.Stdio()
	if err != nil {
		return err
	}
	st, err := openStore(o, log)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, st.Close()) }()
	if o.Agent != "" {
		o.Config.DefaultAgent = o.Agent
	}
	agents, closeModels, err := newAgents(o, log)
	if err != nil {
		return err
	}
	defer closeModels()
	config := daemonConfig(o, log, st, agents, func() { conn.Close() })
	config.Embedded = true
	d := daemon.New(config, st, agents)

	var g run.Group
	g.Add(run.SignalHandler(ctx, syscall.SIGTERM, syscall.SIGINT))
	g.Add(func() error { d.ServeConn(conn); return nil }, func(error) { conn.Close() })
	retaining, enough := context.WithCancel(ctx)
	g.Add(func() error { d.Retain(retaining); return nil }, func(error) { enough() })
	err = g.Run()
	drain, cancel := context.WithTimeout(ctx, drainTime)
	defer cancel()
	if derr := d.Drain(drain); derr != nil {
		log.Warn().Err(derr).Msg("not everything ended in good order")
	}
	if errors.Is(err, run.ErrSignal) {
		return nil
	}
	return err
}

// begun is when the memory of the start is given back.
const begun = 3 * time.Second

func openStore(o serveOptions, log zerolog.Logger) (*store.Store, error) {
	if err := transport.Dir(o.Places.State); err != nil {
		return nil, err
	}
	return store.Open(filepath.Join(o.Places.State, "sessions"), store.Options{Log: log.With().Str("part", "store").Logger()})
}

// newAgents makes the pool of the configured agents. The sessions of an agent
// share a catalog of models; closeModels ends them, after the sessions.
func newAgents(o serveOptions, log zerolog.Logger) (pool *agentpool.Pool, closeModels func(), err error) {
	// Keys come from the environment the daemon was started with, or from a file.
	keys := keySource(o.Places, o.Config, o.getenv)
	allowed := grantsFile(o.Places)
	c := agentpool.Config{Default: o.Config.DefaultAgent, Agents: make(map[string]agentpool.AgentConfig)}
	fetch, search, err := newWeb(o.Config.Web, keys)
	if err != nil {
		return nil, nil, err
	}
	if search != nil {
		log.Info().Str("engine", search.Provider).Msg("the built-in agent can search the web")
	}
	tools := o.Config.Tools
	for name, a := range o.Config.Agents {
		if a.Type != configs.Native {
			c.Agents[name] = agentpool.AgentConfig{Type: agentpool.TypeExternal, External: external.Config{
				Name: name, Command: a.Command, Env: a.Env, Environ: o.loginEnviron(), Version: o.Version,
				Stderr: int(o.Config.Limits.AgentStderr), Log: log.With().Str("part", "agents").Logger(),
			}}
			continue
		}
		c.Agents[name] = agentpool.AgentConfig{Type: agentpool.TypeNative, Native: native.Config{
			Provider: a.Provider, Model: a.Model, BaseURL: a.BaseURL, Servers: modelServers(o.Config), ApprovalMode: a.ApprovalMode,
			Effort: a.ReasoningEffort, Window: a.ContextWindow, MaxOutput: a.MaxOutput, MaxCalls: a.MaxTurnRequests, Prices: prices(a),
			Credentials: keys, Local: true, Environ: o.loginEnviron(),
			TimeLimit: time.Duration(tools.CommandTime), MaxTime: time.Duration(tools.CommandTimeMax), OutputLimit: int(tools.CommandOutput), MaxJobs: tools.Background,
			Web: fetch, Search: search,
			MCP:    mcpConfig(o.Config.MCP),
			Grants: allowed, Version: o.Version, Protected: []string{o.Places.Config, keys.File.Path, o.Places.State},
		}}
	}
	if err := c.Validate(); err != nil {
		return nil, nil, fmt.Errorf("%s: %w", o.Places.Config, err)
	}
	var catalogs []*catalog.Catalog
	for name, a := range c.Agents {
		if a.Type == agentpool.TypeExternal {
			continue
		}
		a.Native.Catalog = catalog.New(a.Native.CatalogConfig())
		a.Native.Common = new(native.Common)
		catalogs = append(catalogs, a.Native.Catalog)
		c.Agents[name] = a
	}
	closeModels = func() {
		for _, c := range catalogs {
			c.Close()
		}
	}
	return agentpool.New(c, log.With().Str("part", "agents").Logger()), closeModels, nil
}

// mcpConfig says in the agents' words what the file says of MCP servers.
func mcpConfig(c configs.MCP) native.MCPConfig {
	pairs := func(m map[string]string) []mcp.Pair {
		var all []mcp.Pair
		for _, name := range slices.Sorted(maps.Keys(m)) {
			all = append(all, mcp.Pair{Name: name, Value: m[name]})
		}
		return all
	}
	m := native.MCPConfig{
		Wait: time.Duration(c.Wait), StartTime: time.Duration(c.Start), CallTime: time.Duration(c.Call), ResultLimit: int(c.Result),
	}
	for _, name := range slices.Sorted(maps.Keys(c.Servers)) {
		s := c.Servers[name]
		server := mcp.Server{
			Name: name, Transport: s.Type, Env: pairs(s.Env), URL: s.URL, Headers: pairs(s.Headers), Timeout: time.Duration(s.Call), Trusted: s.Trusted,
		}
		if len(s.Command) > 0 {
			server.Command, server.Args = s.Command[0], s.Command[1:]
		}
		m.Servers = append(m.Servers, server)
	}
	return m
}

// daemonConfig says in the daemon's words what the file says.
func daemonConfig(o serveOptions, log zerolog.Logger, st *store.Store, agents *agentpool.Pool, stop func()) daemon.Config {
	l := o.Config.Limits
	s := session.DefaultConfig()
	s.QuestionTimeout = time.Duration(o.Config.Permissions.Timeout)
	s.DenyDetached = o.Config.Permissions.Detached == "deny"
	s.IdleAfter = time.Duration(o.Config.Sessions.Idle)
	s.CancelGrace, s.OpenTimeout = time.Duration(l.AgentCancel), time.Duration(l.AgentStart)
	s.MaxQueue, s.MaxEditors = l.QueuedPrompts, l.Connections
	limits := daemon.DefaultLimits()
	limits.MaxLine, limits.MaxLineNet, limits.MaxFrame = int(l.LineLocal), int(l.LineNetwork), int(l.LineEditor)
	limits.SoftQueue, limits.HardQueue = int(l.CursorAhead), int(l.Queue)
	limits.MaxInFlight, limits.Replay = l.InFlight, int(l.Replay)
	limits.FirstFrame, limits.LineTime = time.Duration(l.FirstFrame), time.Duration(l.LineTime)
	return daemon.Config{
		Version: o.Version, Socket: o.Places.Socket, Session: s, Limits: limits, Log: log, Stop: stop,
		About:     map[string]string{"log": o.logAt(), "config": o.Places.Config, "began": time.Now().UTC().Format(time.RFC3339Nano)},
		Disk:      func() daemon.Disk { return diskFigures(st) },
		Retention: daemon.Retention{MaxAge: time.Duration(o.Config.Store.MaxAge), MaxSize: int64(o.Config.Store.MaxSize)},

		Environments: o.environments, FindProgram: environ.Find,
		Agents: func() []daemon.AgentInfo {
			infos := []daemon.AgentInfo{}
			for _, a := range agents.List() {
				infos = append(infos, daemon.AgentInfo{Name: a.Name, Type: a.Type, Default: a.Default})
			}
			return infos
		},
	}
}

// listen opens every configured address; all or none.
func listen(ctx context.Context, o serveOptions, lock *transport.Lock, m *manager.Manager, log zerolog.Logger) (all []daemon.Listener, err error) {
	defer func() {
		if err != nil {
			for _, ln := range all {
				ln.Close()
			}
		}
	}()
	var addresses []transport.Address
	for _, l := range o.Config.Listen {
		addr, err := transport.ParseAddress(l.Address)
		if err != nil {
			return all, err
		}
		addresses = append(addresses, addr)
	}
	// Unix sockets last: if another address cannot be had, those who wait at the
	// manager's listener are still to be told.
	isUnix := func(a transport.Address) bool { return a.Network == transport.Unix }
	for _, addr := range append(slices.DeleteFunc(slices.Clone(addresses), isUnix), slices.DeleteFunc(addresses, func(a transport.Address) bool { return !isUnix(a) })...) {
		if addr.Network != transport.Unix {
			ln, err := listenNetwork(ctx, o, addr, log)
			if err != nil {
				return all, err
			}
			all = append(all, ln)
			continue
		}
		c := transport.ListenConfig{Places: o.Places, Lock: lock, Refused: func(p transport.Principal, why error) {
			log.Warn().Stringer("who", p).Err(why).Msg("connection refused")
		}}
		if addr.Path != "" && addr.Path != o.Places.Socket {
			if c.Places, err = o.Places.WithSocket(addr.Path); err != nil {
				return all, err
			}
			c.Lock = nil // another socket, another lock
		}
		c.Inherited = m.Listener(c.Places.Socket)
		ln, err := transport.Listen(ctx, c)
		if err != nil {
			return all, err
		}
		all = append(all, ln)
	}
	return all, nil
}

// listenNetwork listens where other machines come from. The certificate is made
// if `hermesd pair` has not made it yet.
func listenNetwork(ctx context.Context, o serveOptions, addr transport.Address, log zerolog.Logger) (daemon.Listener, error) {
	file := tokensFile(o.Places)
	if _, err := file.List(); err != nil {
		return nil, err // rather now than when somebody wants to come in
	}
	c := transport.NetworkConfig{Address: addr, Tokens: file}
	if addr.Network == transport.TCP {
		certificate, err := identity.LoadOrMake(ctx, networkDir(o.Places))
		if err != nil {
			return nil, err
		}
		c.Certificate = certificate
	}
	ln, err := transport.ListenNetwork(ctx, c)
	if err != nil {
		return nil, err
	}
	line := log.Info().Stringer("address", ln.Address())
	if c.Certificate != nil {
		line.Stringer("certificate", c.Certificate.Fingerprint)
	}
	line.Msg("listening on the network")
	return ln, nil
}
