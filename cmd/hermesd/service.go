package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"
	"golang.org/x/term"

	"github.com/hermesd/hermesd/configs"
	"github.com/hermesd/hermesd/daemon/service"
	"github.com/hermesd/hermesd/transport/link"
)

// serviceCommandFlags are those of all commands below service.
type serviceCommandFlags struct {
	user, system          bool
	who                   string
	dryRun, force, noStrt bool
}

func (a *app) serviceCommand() *cobra.Command {
	var f serviceCommandFlags
	act := func(use, short string, do func(context.Context, service.Service) error) *cobra.Command {
		return &cobra.Command{
			Use: use, Short: short, Args: cobra.NoArgs,
			RunE: func(*cobra.Command, []string) error {
				s, err := a.service(f)
				if err != nil {
					return err
				}
				ctx, cancel := interruptible()
				defer cancel()
				return notInstalled(do(ctx, s))
			},
		}
	}
	install := act("install", "Let the system start the daemon, and keep it running", func(ctx context.Context, s service.Service) error { return s.Install(ctx) })
	install.Long = `Let the system start the daemon when somebody logs in or first needs it, and
again when it failed. Everything that is written is said; doing it again changes
nothing. Without --system it is a service of yours: a unit with a socket of your
systemd, an agent of launchd, a service of Windows in your account.`
	install.Flags().BoolVar(&f.noStrt, "no-start", false, "do not start it now")
	uninstall := act("uninstall", "Take back what install has done; sessions are kept", func(ctx context.Context, s service.Service) error { return s.Uninstall(ctx) })
	for _, cmd := range []*cobra.Command{install, uninstall} {
		cmd.Flags().BoolVar(&f.dryRun, "dry-run", false, "print what would be done, and do nothing")
		cmd.Flags().BoolVar(&f.force, "force", false, "also replace or remove what was changed by hand; it is kept beside")
	}
	vacant := &cobra.Command{
		Use: "vacant", Short: "Fail if a daemon runs that is not the service's", Args: cobra.NoArgs, Hidden: true,
		RunE: func(*cobra.Command, []string) error { return a.vacant() },
	}
	cmd := group("service", "Let the system run the daemon, as a service",
		install, uninstall,
		act("start", "Start the service", func(ctx context.Context, s service.Service) error { return s.Start(ctx) }),
		act("stop", "Stop the service: running turns are ended, sessions are kept", func(ctx context.Context, s service.Service) error { return s.Stop(ctx) }),
		act("restart", "Stop and start the service", func(ctx context.Context, s service.Service) error { return s.Restart(ctx) }),
		a.serviceStatusCommand(&f), a.serviceLogsCommand(&f), vacant,
	)
	flags := cmd.PersistentFlags()
	flags.BoolVar(&f.user, "user", false, "a service of yours (the default)")
	flags.BoolVar(&f.system, "system", false, "one of the machine's services, run for one user; needs root and systemd")
	flags.StringVar(&f.who, "for", "", "with --system: the `user` it runs for (default: who called sudo)")
	return cmd
}

func notInstalled(err error) error {
	if errors.Is(err, service.ErrNotInstalled) {
		return notFoundf("%w: hermesd service install", err)
	}
	return err
}

// service is the one the flags mean.
func (a *app) service(f serviceCommandFlags) (service.Service, error) {
	if f.user && f.system {
		return nil, usagef("--user and --system exclude each other")
	}
	if f.who != "" && !f.system {
		return nil, usagef("--for goes with --system")
	}
	if f.system && f.who == "" {
		f.who = os.Getenv("SUDO_USER")
	}
	if f.system && a.socket != "" {
		return nil, usagef("--socket is for a service of yours; with --system the socket is in /run/hermesd")
	}
	places, err := a.places()
	if err != nil {
		return nil, err
	}
	program, err := ownPath()
	if err != nil {
		return nil, err
	}
	return service.New(service.Options{
		System: f.system, User: f.who, Program: program, Places: places, Getenv: os.Getenv,
		DryRun: f.dryRun, Force: f.force, NoStart: f.noStrt, Password: a.password, Out: a.out,
	})
}

// ownPath is where this program will be found tomorrow: by the name under which
// PATH has it, which an upgrade keeps, rather than by the folder of this version.
func ownPath() (string, error) {
	self, err := os.Executable()
	if err != nil {
		return "", fmt.Errorf("finding this program: %w", err)
	}
	if strings.Contains(self, string(filepath.Separator)+"go-build") {
		return "", errors.New("this program is a temporary one of `go run`: install hermesd first, then call that")
	}
	if found, err := exec.LookPath(filepath.Base(self)); err == nil {
		if found, err := filepath.Abs(found); err == nil && sameFile(found, self) {
			return found, nil
		}
	}
	return self, nil
}

func sameFile(a, b string) bool {
	x, err := os.Stat(a)
	if err != nil {
		return false
	}
	y, err := os.Stat(b)
	return err == nil && os.SameFile(x, y)
}

// password asks for the account's, on Windows.
func (a *app) password() (string, error) {
	if f, ok := a.in.(*os.File); ok && term.IsTerminal(int(f.Fd())) {
		fmt.Fprintf(a.err, "Password of your Windows account, under which the service runs: ")
		b, err := term.ReadPassword(int(f.Fd()))
		fmt.Fprintln(a.err)
		return string(b), err
	}
	b, err := io.ReadAll(io.LimitReader(a.in, 4<<10))
	return strings.TrimRight(string(b), "\r\n"), err
}

// vacant is what the socket's unit asks before it makes the socket: systemd would
// put its own in the place of one that is there.
func (a *app) vacant() error {
	places, err := a.places()
	if err != nil {
		return err
	}
	lock, err := link.TryLock(places.Lock)
	switch {
	case errors.Is(err, link.ErrLocked):
		return fmt.Errorf("hermesd (process %d) runs already, and not as the service: end it with hermesd stop, then: hermesd service start", link.Holder(places.Lock))
	case errors.Is(err, os.ErrNotExist):
		return nil // not even a folder
	case err != nil:
		return err
	}
	return lock.Close()
}

func (a *app) serviceStatusCommand(f *serviceCommandFlags) *cobra.Command {
	var asJSON bool
	cmd := &cobra.Command{
		Use: "status", Short: "Say how the service is: 0 it runs, 3 it does not, 4 it is not installed", Args: cobra.NoArgs,
		RunE: func(*cobra.Command, []string) error {
			s, err := a.service(*f)
			if err != nil {
				return err
			}
			ctx, cancel := interruptible()
			defer cancel()
			st, err := s.Status(ctx)
			if err != nil {
				return err
			}
			var last *start
			if !f.system { // another user's is his to read
				places, err := a.places()
				if err != nil {
					return err
				}
				if last, err = lastStart(places); err != nil {
					st.Advice = append(st.Advice, err.Error())
				}
			}
			if asJSON {
				err = a.printJSON(struct {
					service.Status
					LastStart *start `json:"lastStart,omitempty"`
				}{st, last})
			} else {
				err = a.printServiceStatus(st, last)
			}
			switch {
			case err != nil:
				return err
			case !st.Installed:
				return notInstalled(service.ErrNotInstalled)
			case !st.Running:
				return &exit{exitNoDaemon, errors.New("the service does not run; see: hermesd service logs")}
			}
			return nil
		},
	}
	jsonFlag(cmd, &asJSON)
	return cmd
}

func (a *app) printServiceStatus(st service.Status, last *start) error {
	say := func(what, format string, args ...any) {
		fmt.Fprintf(a.out, "%-9s %s\n", what, printable(fmt.Sprintf(format, args...)))
	}
	state := st.State
	if st.PID > 0 {
		state += fmt.Sprintf(", process %d", st.PID)
	}
	if st.Restarts > 0 {
		state += fmt.Sprintf(", started again %d times since somebody started it", st.Restarts)
	}
	say("service", "%s of %s: %s", st.Unit, st.Manager, state)
	if !st.Installed {
		return nil
	}
	if st.Result != "" {
		say("ended", "%s", st.Result)
	}
	if st.Says != "" {
		say("says", "%s", st.Says)
	}
	switch {
	case st.Activated && !st.Running:
		say("socket", "listens: hermesd is started when somebody connects")
	case st.Activated:
		say("socket", "listens")
	}
	if st.Enabled {
		say("start", "by itself")
	} else {
		say("start", "only by: hermesd service start")
	}
	if st.Lingers != nil && *st.Lingers {
		say("login", "not needed: your systemd runs without one")
	}
	for _, f := range st.Files {
		say("file", "%s: %s", f.Path, f.State)
	}
	if last != nil {
		if text := last.summary(); text != "" {
			fmt.Fprintf(a.out, "\n%s\n", harmless(text))
		}
	}
	for _, text := range st.Advice {
		fmt.Fprintf(a.out, "\n%s\n", harmless(text))
	}
	return nil
}

func (a *app) serviceLogsCommand(f *serviceCommandFlags) *cobra.Command {
	var follow bool
	var lines int
	cmd := &cobra.Command{
		Use: "logs", Short: "Show the service's log", Args: cobra.NoArgs,
		RunE: func(*cobra.Command, []string) error {
			if lines < 0 {
				return usagef("-n: %d is not allowed; give a number of lines", lines)
			}
			s, err := a.service(*f)
			if err != nil {
				return err
			}
			ctx, cancel := interruptible()
			defer cancel()
			if path, err := a.serviceLogFile(*f); err != nil {
				return err
			} else if path != "" {
				return tailFile(ctx, a.out, path, lines, follow)
			}
			command := s.Journal(follow, lines)
			if command == nil {
				places, err := a.places()
				if err != nil {
					return err
				}
				return tailFile(ctx, a.out, filepath.Join(places.Log, logName), lines, follow)
			}
			journal := exec.CommandContext(ctx, command[0], command[1:]...)
			journal.Stdout, journal.Stderr = a.out, a.err
			if err := journal.Run(); err != nil && ctx.Err() == nil {
				return fmt.Errorf("%s: %w", strings.Join(command, " "), err)
			}
			return nil
		},
	}
	cmd.Flags().BoolVarP(&follow, "follow", "f", false, "go on with what is logged from now on, until Ctrl-C")
	cmd.Flags().IntVarP(&lines, "lines", "n", 100, "how many lines to begin with")
	return cmd
}

// serviceLogFile is the file the service logs to, "" if its manager has the log.
// A configuration that cannot be read has kept the daemon from starting: then
// the manager has it.
func (a *app) serviceLogFile(f serviceCommandFlags) (string, error) {
	if f.system {
		return "", nil
	}
	places, err := a.places()
	if err != nil {
		return "", err
	}
	config, err := configs.Load(places.Config)
	if err != nil {
		return "", nil
	}
	return logPath(config.Log, places, true), nil
}
