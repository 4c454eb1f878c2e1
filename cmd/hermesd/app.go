package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"strings"
	"syscall"

	"github.com/spf13/cobra"

	"github.com/hermesd/hermesd/daemon/session"
	"github.com/hermesd/hermesd/transport/jsonrpc"
	"github.com/hermesd/hermesd/transport/link"
)

// The exit codes of all our commands.
const (
	exitDone     = 0
	exitFailed   = 1
	exitUsage    = 2
	exitNoDaemon = 3
	exitNotFound = 4

	// exitMisconfigured is that of a service which should not be started again
	// before its configuration is corrected: EX_CONFIG of sysexits.h.
	exitMisconfigured = 78
)

// Errors that decide the exit code. Their text comes from what wraps them.
var (
	errUsage    = errors.New("usage")
	errNotFound = errors.New("not found")
	// errSaid: the command has said what went wrong, nothing is to be added.
	errSaid = errors.New("failed")
)

// coded is an error whose text is err's and whose kind is one of the errors above.
type coded struct {
	kind, err error
}

func (c *coded) Error() string   { return c.err.Error() }
func (c *coded) Unwrap() []error { return []error{c.kind, c.err} }

// exit is an error that ends the process with a code of its own.
type exit struct {
	code int
	err  error
}

func (e *exit) Error() string { return e.err.Error() }
func (e *exit) Unwrap() error { return e.err }

func usagef(format string, args ...any) error {
	return &coded{errUsage, fmt.Errorf(format, args...)}
}

func notFoundf(format string, args ...any) error {
	return &coded{errNotFound, fmt.Errorf(format, args...)}
}

// app is one call of the command.
type app struct {
	in       io.Reader
	out, err io.Writer

	socket  string // --socket
	started bool   // the arguments were right: what fails now is no usage error
}

func newApp(in io.Reader, out, err io.Writer) *app { return &app{in: in, out: out, err: err} }

// run executes the command line and returns the exit code.
func (a *app) run(args []string) int {
	root := a.root()
	root.SetArgs(args)
	cmd, err := root.ExecuteC()
	code := a.code(err)
	switch {
	case err == nil || errors.Is(err, errSaid):
	case code == exitUsage:
		fmt.Fprintf(a.err, "hermesd: %s\nSee: %s --help\n", lowerFirst(err.Error()), cmd.CommandPath())
	case errors.Is(err, link.ErrNoDaemon):
		fmt.Fprintf(a.err, "hermesd: %v\nStart one with: hermesd serve (an editor or hermesd chat starts one too)\n", err)
	default: // also with exitDone, of a service that must not be started again
		fmt.Fprintf(a.err, "hermesd: %v\n", err)
	}
	return code
}

func (a *app) code(err error) int {
	var wire *jsonrpc.Error
	var own *exit
	switch {
	case err == nil:
		return exitDone
	case errors.As(err, &own):
		return own.code
	case !a.started, errors.Is(err, errUsage):
		return exitUsage
	case errors.Is(err, link.ErrNoDaemon):
		return exitNoDaemon
	case errors.Is(err, errNotFound), errors.As(err, &wire) && wire.Code == session.CodeNotFound:
		return exitNotFound
	}
	return exitFailed
}

// lowerFirst: cobra begins some of its sentences with a capital.
func lowerFirst(s string) string {
	if s == "" {
		return s
	}
	return strings.ToLower(s[:1]) + s[1:]
}

func (a *app) root() *cobra.Command {
	root := &cobra.Command{
		Use:   "hermesd",
		Short: "Keep agent sessions alive and serve them to any number of editors",
		Long: `hermesd keeps the sessions of coding agents. Editors that speak the Agent
Client Protocol (ACP) attach to them through hermes-acp-shim; they come and go,
the session, its running turn and its open questions stay.`,
		Example: `  hermesd demo                       the whole story in a few seconds, offline
  hermesd chat "explain this folder" one prompt from the terminal
  hermesd sessions list              what there is
  hermesd serve                      run the daemon in the foreground`,
		Version:       buildVersion(),
		Args:          cobra.NoArgs,
		SilenceErrors: true,
		SilenceUsage:  true,
		RunE:          func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
		PersistentPreRun: func(*cobra.Command, []string) {
			a.started = true
		},
	}
	root.SetIn(a.in)
	root.SetOut(a.out)
	root.SetErr(a.err)
	root.CompletionOptions.HiddenDefaultCmd = true
	root.PersistentFlags().StringVar(&a.socket, "socket", "", "the `path` of the daemon's socket (default: by HERMESD_HOME or the XDG folders)")
	root.AddCommand(
		a.serveCommand(), a.stdioCommand(), a.demoCommand(), a.chatCommand(),
		a.sessionsCommand(), a.permissionsCommand(), a.agentsCommand(),
		a.loginCommand(), a.logoutCommand(), a.pairCommand(), a.tokensCommand(), a.connectCommand(),
		a.statusCommand(), a.backupCommand(), a.logsCommand(), a.doctorCommand(), a.stopCommand(), a.serviceCommand(), a.versionCommand(), a.printEnvironCommand(),
	)
	return root
}

// group makes a command that only has commands below it.
func group(use, short string, below ...*cobra.Command) *cobra.Command {
	var names []string
	for _, b := range below {
		names = append(names, b.Name())
	}
	cmd := &cobra.Command{
		Use: use, Short: short, Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return usagef("say what to do: %s %s", cmd.CommandPath(), strings.Join(names, "|"))
		},
	}
	cmd.AddCommand(below...)
	return cmd
}

// places says where the daemon is.
func (a *app) places() (link.Places, error) {
	p, err := link.Here()
	if err == nil && a.socket != "" {
		p, err = p.WithSocket(a.socket)
	}
	return p, err
}

// interruptible is a context that Ctrl-C and SIGTERM end; the second one ends
// the process.
func interruptible() (context.Context, context.CancelFunc) {
	ctx, cancel := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	context.AfterFunc(ctx, cancel)
	return ctx, cancel
}
