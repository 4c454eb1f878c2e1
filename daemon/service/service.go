// Package service answers: how does hermesd become a service of the system, and
// cease to be one? It writes what the system's own manager reads: a systemd
// service with its socket, a launchd agent, a service of Windows.
//
// kardianos/service drives the managers: it is the one maintained library that
// knows all three. What it would write by itself is not used, see the templates
// here: a unit of its own is started at no login, waits two minutes after a
// crash, and has neither a socket nor readiness.
//
// # What is written
//
// Every file carries a sum of its content. One that still has it is ours: it is
// replaced and removed. One that was changed by hand is neither, unless that is
// asked for, and then it is put aside and not lost.
package service

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os/exec"
	"runtime"
	"strings"

	"github.com/hermesd/hermesd/transport/link"
)

// Name is the service's name for its manager. On macOS that is [Label].
const Name = "hermesd"

// Options say which service, and how it is gone about.
type Options struct {
	// System makes it one of the machine's services, run for User, instead of one
	// of the calling user's. Only systemd has that.
	System bool
	User   string

	Program string              // whole path of hermesd
	Places  link.Places         // of whoever runs it; of System only Socket is looked at
	Getenv  func(string) string // of whoever installs it
	Root    string              // put before every path; for tests

	DryRun  bool // say what would be written and done; do nothing
	Force   bool // also what was changed by hand; it is put aside
	NoStart bool // install only

	// Password is that of the account a service of Windows runs as.
	Password func() (string, error)

	Out io.Writer // told what is done, one line each
}

// Service is one service of one manager. Its methods are called one at a time.
type Service interface {
	// Install writes what there is to write, and sees to it that the service
	// starts by itself. Doing it again changes nothing.
	Install(ctx context.Context) error
	// Uninstall takes that back. What was changed by hand stays, and the error
	// says so.
	Uninstall(ctx context.Context) error
	Start(ctx context.Context) error
	Stop(ctx context.Context) error
	Restart(ctx context.Context) error
	// Status asks the manager. ErrNotInstalled is no error of it.
	Status(ctx context.Context) (Status, error)
	// Journal is a command that shows the log the manager keeps, nil if it keeps
	// none.
	Journal(follow bool, lines int) []string
}

// Status is what a manager says of the service.
type Status struct {
	Manager   string   `json:"manager"` // systemd, launchd, windows
	Unit      string   `json:"unit"`
	Installed bool     `json:"installed"`
	Enabled   bool     `json:"enabled"`           // it starts by itself
	State     string   `json:"state"`             // in the manager's words, as "active (running)"
	Running   bool     `json:"running"`           // it serves
	Activated bool     `json:"activated"`         // the manager listens and starts it when somebody comes
	Failed    bool     `json:"failed"`            // the manager has given up
	PID       int      `json:"pid,omitempty"`     // of the daemon
	Restarts  int      `json:"restarts"`          // by the manager, since somebody started it
	Says      string   `json:"says,omitempty"`    // the daemon, to its manager
	Result    string   `json:"result,omitempty"`  // why it is not running, in the manager's words
	Files     []File   `json:"files"`             // what was written
	Lingers   *bool    `json:"lingers,omitempty"` // systemd, of a user: it runs without a login
	Advice    []string `json:"advice,omitempty"`  // what a person should know or do
}

// ErrNotInstalled: the manager does not know the service.
var ErrNotInstalled = errors.New("hermesd is not installed as a service")

// New is the service on this system, not necessarily installed.
func New(o Options) (Service, error) {
	if o.Out == nil {
		o.Out = io.Discard
	}
	for _, text := range []string{o.Program, o.Places.Home, o.Places.Socket, o.User} {
		if strings.ContainsAny(text, "\n\r\x00") {
			return nil, fmt.Errorf("%q cannot be written into a service: it has a line break", text)
		}
	}
	switch runtime.GOOS {
	case "windows":
		return newWindows(o)
	case "darwin":
		return newLaunchd(o)
	}
	return newSystemd(o)
}

// placeVariables are the variables of the environment that decide where
// hermesd's folders are. A service has to agree with the shims on that; nothing
// else of the environment is recorded, for it would go stale.
func (o Options) placeVariables(names ...string) (set [][2]string) {
	for _, name := range append([]string{"HERMESD_HOME"}, names...) {
		if v := o.Getenv(name); v != "" {
			set = append(set, [2]string{name, v})
		}
	}
	return set
}

func (o Options) say(format string, args ...any) { fmt.Fprintf(o.Out, format+"\n", args...) }

// run runs a command of a manager, or says that it would.
func (o Options) run(ctx context.Context, name string, args ...string) error {
	if o.DryRun {
		o.say("would run: %s", strings.Join(append([]string{name}, args...), " "))
		return nil
	}
	_, err := output(ctx, name, args...)
	return err
}

// output runs a command and gives what it printed. What it complained about is
// the error.
func output(ctx context.Context, name string, args ...string) (string, error) {
	cmd := exec.CommandContext(ctx, name, args...)
	var out, complaint strings.Builder
	cmd.Stdout, cmd.Stderr = &out, &complaint
	if err := cmd.Run(); err != nil {
		if text := strings.Join(strings.Fields(complaint.String()), " "); text != "" {
			err = fmt.Errorf("%w: %s", err, text)
		}
		return out.String(), fmt.Errorf("%s %s: %w", name, strings.Join(args, " "), err)
	}
	return out.String(), nil
}

// foreignDaemon says which process is the daemon, if the manager does not know
// it: somebody started it by hand, or a shim did. 0 if there is none.
func foreignDaemon(p link.Places, managed int) int {
	lock, err := link.TryLock(p.Lock)
	if err == nil {
		lock.Close()
		return 0
	}
	if !errors.Is(err, link.ErrLocked) {
		return 0
	}
	if pid := link.Holder(p.Lock); pid != managed {
		return pid
	}
	return 0
}

// errForeignDaemon says what to do about one.
func errForeignDaemon(pid int) error {
	return fmt.Errorf("hermesd (process %d) runs already, and not as the service: end it with hermesd stop (its running turns are ended, sessions are kept), then: hermesd service start", pid)
}
