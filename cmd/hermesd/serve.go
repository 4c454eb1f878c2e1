package main

import (
	"context"
	"io"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/hermesd/hermesd/configs"
	"github.com/hermesd/hermesd/transport"
	"github.com/hermesd/hermesd/transport/link"
)

// serveOptions is what the daemon is told by its command line and file.
type serveOptions struct {
	Places  link.Places    // --socket is in it
	Config  configs.Config // the file over the defaults, and the flags over that
	Version string
	Agent   string    // of stdio: the agent new sessions get; "" is the configured one
	Log     io.Writer // for the log; JSON lines, or text for a person if Pretty
	Pretty  bool
}

// The context that runDaemon and runStdio get is not tied to signals: what
// SIGTERM and Ctrl-C mean to a daemon with turns running is theirs to say.

func (a *app) serveCommand() *cobra.Command {
	var listen []string
	var level string
	cmd := &cobra.Command{
		Use:   "serve",
		Short: "Run the daemon in the foreground",
		Long: `Run the daemon in the foreground. Editors start one by themselves when they
need it, so this is for services and for looking at the log.`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			o, err := a.serveOptions(level)
			if err == nil && len(listen) > 0 {
				o.Config.Listen = nil
				for _, address := range listen {
					if _, err := transport.ParseAddress(address); err != nil {
						return usagef("--listen: %w", err)
					}
					o.Config.Listen = append(o.Config.Listen, configs.Listen{Address: address})
				}
			}
			if err == nil {
				err = runDaemon(context.Background(), o)
			}
			if err != nil {
				// Whoever started this daemon in the background is told why it is
				// gone; nothing is said twice.
				transport.NotifyReady(err)
			}
			return err
		},
	}
	cmd.Flags().StringArrayVar(&listen, "listen", nil, "an `address` to accept connections at instead of the configured ones: unix, unix:PATH, tcp://HOST:PORT (repeatable)")
	cmd.Flags().StringVar(&level, "log-level", "", "how much is logged: "+strings.Join(configs.LogLevels(), ", ")+" (default: as configured)")
	return cmd
}

func (a *app) stdioCommand() *cobra.Command {
	var agent, level string
	cmd := &cobra.Command{
		Use:   "stdio",
		Short: "Run the daemon inside one process on stdin and stdout, for embedders",
		Args:  cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
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
	cmd.Flags().StringVar(&level, "log-level", "", "how much is logged: "+strings.Join(configs.LogLevels(), ", ")+" (default: as configured)")
	return cmd
}

func (a *app) serveOptions(level string) (serveOptions, error) {
	places, err := a.places()
	if err != nil {
		return serveOptions{}, err
	}
	config, err := configs.Load(places.Config)
	if err != nil {
		return serveOptions{}, err
	}
	if level != "" {
		if !slices.Contains(configs.LogLevels(), level) {
			return serveOptions{}, usagef("--log-level: %q is not allowed; choose one of: %s", level, strings.Join(configs.LogLevels(), ", "))
		}
		config.Log.Level = level
	}
	return serveOptions{Places: places, Config: config, Version: buildVersion(), Log: a.err, Pretty: isTerminal(a.err)}, nil
}
