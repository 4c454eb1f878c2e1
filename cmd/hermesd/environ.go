package main

import (
	"context"
	"os"

	"github.com/rs/zerolog"
	"github.com/spf13/cobra"

	"github.com/hermesd/hermesd/agentpool/environ"
	"github.com/hermesd/hermesd/daemon"
)

// printEnviron is the command that a login shell is made to run, so that its
// environment can be read.
const printEnviron = "print-environment"

func (a *app) printEnvironCommand() *cobra.Command {
	return &cobra.Command{
		Use: printEnviron, Short: "Print the environment, each variable ended by a NUL byte", Args: cobra.NoArgs, Hidden: true,
		RunE: func(*cobra.Command, []string) error {
			_, err := a.out.Write(environ.Print(os.Environ()))
			return err
		},
	}
}

// newLogin is the environment of the user's login shell; nothing is started yet.
func newLogin(log zerolog.Logger) *environ.Login {
	l := &environ.Login{Failed: func(err error) {
		log.Warn().Err(err).Msg("commands for connections that sent no environment get the daemon's")
	}}
	if self, err := os.Executable(); err == nil {
		l.Command = []string{self, printEnviron}
	}
	return l
}

// loginEnviron is the environment of commands for connections that sent none;
// nil is this process's.
func (o serveOptions) loginEnviron() func(context.Context) []string {
	if o.Login == nil {
		return nil
	}
	return o.Login.Environ
}

// getenv looks a variable up for the daemon itself, as a model's key. A service
// is not started from a terminal: what the user's profile exports is for it too.
func (o serveOptions) getenv(name string) string {
	if v := os.Getenv(name); v != "" || !o.Service || o.Login == nil {
		return v
	}
	return o.Login.Getenv(context.Background(), name)
}

// environments are those in which something runs for nobody's editor.
func (o serveOptions) environments(ctx context.Context) []daemon.Environment {
	all := []daemon.Environment{{Name: "service", Environ: os.Environ()}}
	if o.Login != nil {
		all = append(all, daemon.Environment{Name: "login", Environ: o.Login.Environ(ctx)})
	}
	return all
}
