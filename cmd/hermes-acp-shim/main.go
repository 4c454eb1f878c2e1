// Hermes-acp-shim is the program an editor starts as its ACP agent. It connects
// the editor's pipes with hermesd, which it starts if none is running.
//
// Usage:
//
//	hermes-acp-shim [--agent NAME] [--socket PATH] [--no-start]
//	hermes-acp-shim [--agent NAME] --connect tcp://HOST:PORT
//	hermes-acp-shim --login [PROVIDER]
//
// With --connect it becomes hermesd connect, which uses the daemon of another
// machine; with --login, in a terminal, hermesd login.
//
// Standard output carries the protocol and nothing else. Standard error is
// silent unless the program fails: some editors show every line of it as an
// error. It exits 0 when the editor left, 1 when something failed, 2 when it was
// called wrongly, 3 when there is no daemon.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"runtime"
	"runtime/debug"
	"syscall"
	"time"

	"github.com/hermesd/hermesd/transport/link"
)

// version is set by the linker in releases.
var version string

// patience is how long the daemon may take until it is ready. Reading a large
// journal after a crash takes seconds, not minutes.
const patience = 60 * time.Second

// The exit codes of all our commands.
const (
	exitDone     = 0
	exitFailed   = 1
	exitUsage    = 2
	exitNoDaemon = 3
)

// detach is the first argument of the short-lived process between the shim and
// a daemon it starts; see link.Options.Via.
const detach = "detach"

func main() {
	// Two buffers and a few small strings are all the heap there is.
	debug.SetGCPercent(-1)
	debug.SetMemoryLimit(8 << 20)
	os.Exit(run(os.Args[1:]))
}

func run(args []string) int {
	if len(args) > 0 && args[0] == detach {
		if err := link.Detach(args[1:]); err != nil {
			return exitFailed
		}
		return exitDone
	}

	flags := flag.NewFlagSet("hermes-acp-shim", flag.ContinueOnError)
	flags.SetOutput(io.Discard)
	agent := flags.String("agent", "", "the `name` of the agent new sessions get (default: the configured one)")
	socket := flags.String("socket", "", "the `path` of the daemon's socket (default: by HERMESD_HOME or the XDG folders)")
	noStart := flags.Bool("no-start", false, "fail when no daemon is running instead of starting one")
	address := flags.String("connect", "", "use the daemon of another machine, at this `address`: tcp://HOST:PORT")
	login := flags.Bool(link.LoginFlag[2:], false, "log in to a provider of models, in a terminal, and exit")
	showVersion := flags.Bool("version", false, "print the version and exit")
	switch err := flags.Parse(args); {
	case errors.Is(err, flag.ErrHelp):
		fmt.Println("usage: hermes-acp-shim [--agent NAME] [--socket PATH] [--no-start] [--connect ADDRESS] | --login [PROVIDER]")
		flags.SetOutput(os.Stdout)
		flags.PrintDefaults()
		return exitDone
	case err != nil:
		return fail(exitUsage, fmt.Errorf("%w; see hermes-acp-shim --help", err))
	case *login && *address != "":
		return fail(exitUsage, errors.New("keys are on the machine of the daemon: run hermesd login there"))
	case *login:
		code, err := become("login", flags.Args()...)
		if err != nil {
			return fail(code, err)
		}
		return code
	case flags.NArg() > 0:
		return fail(exitUsage, fmt.Errorf("unexpected argument %q; see hermes-acp-shim --help", flags.Arg(0)))
	case *showVersion:
		fmt.Println("hermes-acp-shim", ownVersion())
		return exitDone
	}

	if *address != "" {
		if *socket != "" || *noStart {
			return fail(exitUsage, errors.New("--connect is for another machine: --socket and --no-start are for this one; see hermes-acp-shim --help"))
		}
		code, err := connectWith(*address, *agent)
		if err != nil {
			return fail(code, err)
		}
		return code
	}

	id := link.NewID()
	err := serve(*agent, *socket, *noStart, id)
	switch {
	case err == nil:
		return exitDone
	case errors.Is(err, link.ErrNoDaemon):
		return fail(exitNoDaemon, fmt.Errorf("%w; start one with: hermesd serve", err))
	case errors.Is(err, link.ErrGone):
		// What the daemon calls this connection in its log.
		return fail(exitFailed, fmt.Errorf("%w; reconnect from the editor (that starts hermesd again, sessions are kept). Connection %s, see: hermesd logs", err, id[:8]))
	}
	return fail(exitFailed, err)
}

// serve connects the editor with the daemon until one of them leaves. id names the
// connection.
func serve(agent, socket string, noStart bool, id string) error {
	parent := os.Getppid()
	places, err := link.Here()
	if socket != "" && err == nil {
		places, err = places.WithSocket(socket)
	}
	if err != nil {
		return err
	}

	ctx, cancel := context.WithTimeoutCause(context.Background(), patience,
		fmt.Errorf("hermesd is not ready after %v; see hermesd status and %s", patience, places.Log))
	defer cancel()
	options := link.Options{Places: places, NoStart: noStart}
	if self, err := os.Executable(); err == nil {
		options.Via = []string{self, detach}
	}
	conn, err := link.Connect(ctx, options)
	if err != nil {
		return err
	}

	cwd, _ := os.Getwd() // a folder that was removed has no name
	hello := link.Hello{
		Link:    link.Number,
		ID:      id,
		Version: ownVersion(),
		PID:     os.Getpid(),
		Cwd:     cwd,
		Agent:   agent,
		Env:     link.Environ(os.Environ(), link.MaxEnv),
	}
	if _, err := conn.Write(hello.Line()); err != nil {
		return fmt.Errorf("%w: %w", link.ErrGone, err)
	}
	// An editor that closes our output is not a reason to drop what it said last.
	signal.Ignore(syscall.SIGPIPE)
	relay := link.Relay{In: os.Stdin, Out: os.Stdout, Conn: conn, Parent: parent}
	return relay.Run()
}

// fail says what went wrong, in one line.
func fail(code int, err error) int {
	fmt.Fprintf(os.Stderr, "hermes-acp-shim: %v\n", err)
	return code
}

func ownVersion() string {
	if version != "" {
		return version
	}
	if info, ok := debug.ReadBuildInfo(); ok && info.Main.Version != "" {
		return info.Main.Version
	}
	return "(devel) " + runtime.Version()
}
