package main

import (
	"context"
	"errors"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/hermesd/hermesd/agentpool/environ"
	"github.com/hermesd/hermesd/configs"
	"github.com/hermesd/hermesd/transport"
	"github.com/hermesd/hermesd/transport/link"
	"github.com/hermesd/hermesd/transport/manager"
)

// serveOptions is what the daemon is told by its command line and file.
type serveOptions struct {
	Places  link.Places    // --socket is in it
	Config  configs.Config // the file over the defaults, and the flags over that
	Version string
	Agent   string    // of stdio: the agent new sessions get; "" is the configured one
	Log     io.Writer // for the log; JSON lines, or text for a person if Pretty
	Pretty  bool

	// Of serve only.
	Service    bool             // a service manager wants it to run
	Manager    *manager.Manager // who started it and watches it; nil is nobody
	ManagerErr error            // what the manager handed over that is of no use
	NoteErr    error            // why it is not noted how it starts
	Login      *environ.Login   // the environment of what runs for nobody's editor; nil is this process's
	Ready      func()           // called when it accepts connections; nil is nobody
}

// The context that runDaemon and runStdio get is not tied to signals: what
// SIGTERM and Ctrl-C mean to a daemon with turns running is theirs to say. On
// Windows the service control manager ends runDaemon's.

func (a *app) serveCommand() *cobra.Command {
	var f serveFlags
	cmd := &cobra.Command{
		Use:   "serve",
		Short: "Run the daemon in the foreground",
		Long: `Run the daemon in the foreground. Editors start one by themselves when they
need it, so this is for services and for looking at the log.`,
		Args: cobra.NoArgs,
		RunE: func(*cobra.Command, []string) error {
			return underServiceControl(f.service, func(ctx context.Context, ready func()) error {
				return a.serve(ctx, f, ready)
			})
		},
	}
	cmd.Flags().StringArrayVar(&f.listen, "listen", nil, "an `address` to accept connections at instead of the configured ones: unix, unix:PATH, tcp://HOST:PORT (repeatable)")
	cmd.Flags().StringVar(&f.level, "log-level", "", "how much is logged: "+strings.Join(configs.LogLevels(), ", ")+" (default: as configured)")
	cmd.Flags().BoolVar(&f.service, "service", false, "run as a service manager's: wait for another daemon to end, pause between failures, exit 78 when the configuration is wrong")
	return cmd
}

// serveFlags are those of serve.
type serveFlags struct {
	listen  []string
	level   string
	service bool
}

// errMisconfigured: starting again will not help before somebody changes
// something.
var errMisconfigured = errors.New("misconfigured")

func misconfigured(err error) error {
	if err == nil {
		return nil
	}
	return &coded{errMisconfigured, err}
}

// serve runs the daemon until it ends, and tells whoever started it how it
// fares. ready is called when it accepts connections; ctx ends it.
func (a *app) serve(ctx context.Context, f serveFlags, ready func()) (err error) {
	m, merr := manager.Take()
	defer func() { _ = m.Close() }() // there is one also with an error
	o, err := a.daemonOptions(f)
	o.Manager, o.ManagerErr, o.Ready = m, merr, ready
	if f.service && o.Places.State != "" {
		mark, perr := beginStart(ctx, o.Places, m)
		o.NoteErr = perr
		inner := o.Ready
		o.Ready = func() { _ = mark.ready(time.Now()); inner() }
		defer func() { _ = mark.end(err, time.Now()) }()
	}
	if err == nil {
		err = runDaemon(ctx, o)
	}
	if err != nil {
		// Whoever started this daemon in the background is told why it is gone;
		// nothing is said twice.
		transport.NotifyReady(err)
		_ = m.Failed(err)
		if ln := m.Listener(o.Places.Socket); ln != nil {
			transport.Refuse(ln, o.Version, err)
		}
	}
	return err
}

// daemonOptions reads what serve is told. The places are filled in as far as
// they are known, also with an error.
func (a *app) daemonOptions(f serveFlags) (serveOptions, error) {
	o, err := a.serveOptions(f.level)
	if len(f.listen) > 0 {
		o.Config.Listen = nil
	}
	for _, address := range f.listen {
		if _, lerr := transport.ParseAddress(address); lerr != nil && err == nil {
			err = usagef("--listen: %w", lerr)
		}
		o.Config.Listen = append(o.Config.Listen, configs.Listen{Address: address})
	}
	o.Service = f.service
	return o, misconfigured(err)
}

// beginStart notes that the service starts, after the pause that earlier
// failures cost. An error is about the note only.
func beginStart(ctx context.Context, p link.Places, m *manager.Manager) (*start, error) {
	last, err := lastStart(p)
	mark := last.follow(time.Now())
	mark.path = startsFile(p)
	err = errors.Join(err, mark.save())
	if pause := mark.pause(); pause > 0 {
		_ = m.Status(mark.why(), pause)
		select {
		case <-time.After(pause):
		case <-ctx.Done():
		}
	}
	return mark, err
}

func (a *app) stdioCommand() *cobra.Command {
	var agent, level string
	var login bool
	cmd := &cobra.Command{
		Use:   "stdio",
		Short: "Run the daemon inside one process on stdin and stdout, for embedders",
		Args:  cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if login {
				return a.login("", loginFlags{})
			}
			o, err := a.serveOptions(level)
			if err != nil {
				return err
			}
			if _, ok := o.Config.Agents[agent]; agent != "" && !ok {
				return notFoundf("there is no agent %q; the agents are: %s", agent, strings.Join(o.Config.AgentNames(), ", "))
			}
			o.Agent = agent
			return runStdio(context.Background(), o)
		},
	}
	cmd.Flags().StringVar(&agent, "agent", "", "the `name` of the agent new sessions get (default: the configured one)")
	cmd.Flags().BoolVar(&login, link.LoginFlag[2:], false, "log in to a provider of models, in a terminal, and exit")
	cmd.Flags().StringVar(&level, "log-level", "", "how much is logged: "+strings.Join(configs.LogLevels(), ", ")+" (default: as configured)")
	return cmd
}

func (a *app) serveOptions(level string) (serveOptions, error) {
	places, err := a.places()
	if err != nil {
		return serveOptions{}, err
	}
	o := serveOptions{Places: places, Config: configs.Default(), Version: buildVersion(), Log: a.err, Pretty: isTerminal(a.err)}
	config, err := configs.Load(places.Config)
	if err != nil {
		return o, err
	}
	if level != "" {
		if !slices.Contains(configs.LogLevels(), level) {
			return o, usagef("--log-level: %q is not allowed; choose one of: %s", level, strings.Join(configs.LogLevels(), ", "))
		}
		config.Log.Level = level
	}
	o.Config = config
	return o, nil
}
