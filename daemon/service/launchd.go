package service

import (
	"context"
	"errors"
	"fmt"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"time"

	manager "github.com/kardianos/service"

	"github.com/hermesd/hermesd/transport/link"
)

// Label is the service's name for launchd.
const Label = "com.github.hermesd"

// launchd is an agent of the calling user.
type launchd struct {
	Options
	driver manager.Service
}

func newLaunchd(o Options) (*launchd, error) {
	if o.System {
		return nil, errors.New("macOS has services of the machine only for root, and hermesd belongs to a user: install it with --user, in each account")
	}
	l := &launchd{Options: o}
	if !filepath.IsAbs(o.Getenv("HOME")) {
		return nil, errors.New("HOME is not set, so there is no place for a service of yours; set it")
	}
	var err error
	l.driver, err = manager.New(nil, &manager.Config{
		Name: Label,
		// The library fills its own words into a template; the file is finished and
		// goes through it as one of those words.
		WorkingDirectory: l.text(),
		Option:           manager.KeyValue{"UserService": true, "LaunchdConfig": "{{WorkingDirectory}}"},
	})
	return l, err
}

func (l *launchd) path() string {
	return filepath.Join(l.Root+l.Getenv("HOME"), "Library", "LaunchAgents", Label+".plist")
}

func (l *launchd) text() string {
	args := []string{l.Program}
	if l.Places.Named() {
		args = append(args, "--socket", l.Places.Socket)
	}
	return render(launchdPlist, map[string]any{
		"Label": Label, "Arguments": append(args, "serve", "--service"),
		"Env": l.placeVariables(), "Stderr": filepath.Join(l.Places.Log, "stderr.log"),
	})
}

// Install implements Service.
func (l *launchd) Install(ctx context.Context) error {
	files, err := l.plan(planned{path: l.path(), text: l.text()})
	if err != nil {
		return err
	}
	if !l.DryRun {
		// launchd would make it so that others can look into it.
		if err := link.PrivateDir(l.Places.Log); err != nil {
			return err
		}
	}
	changed := false
	if f := files[0]; f.was == Missing && !l.DryRun {
		if err := l.driver.Install(); err != nil {
			return fmt.Errorf("installing the agent: %w", err)
		}
		l.say("wrote %s", f.path)
		changed = true
	} else if changed, err = l.write(f); err != nil {
		return err
	}
	if l.NoStart || l.DryRun {
		if l.DryRun && !l.NoStart {
			l.say("would run: launchctl load %s", l.path())
		}
		return nil
	}
	st, err := l.Status(ctx)
	switch {
	case err != nil:
		return err
	case st.Running && changed:
		l.say("the service runs with what was there before; it takes this over with: hermesd service restart")
		return nil
	case st.Running:
		return nil
	}
	if pid := foreignDaemon(l.Places, 0); pid != 0 {
		l.say("the service waits: hermesd (process %d) runs already; it takes over when that has ended, for instance by hermesd stop", pid)
	}
	return l.Start(ctx)
}

// Uninstall implements Service.
func (l *launchd) Uninstall(context.Context) error {
	if !exists(l.path()) {
		l.say("there is nothing to remove")
		return nil
	}
	if l.DryRun {
		l.say("would run: launchctl unload %s", l.path())
	} else if err := l.driver.Stop(); err != nil {
		l.say("launchd did not have it loaded (%v)", err)
	}
	return l.remove(l.path())
}

func (l *launchd) installed() error {
	if !exists(l.path()) {
		return ErrNotInstalled
	}
	return nil
}

// Start implements Service.
func (l *launchd) Start(ctx context.Context) error {
	if err := l.installed(); err != nil {
		return err
	}
	if st, err := l.Status(ctx); err == nil && st.loaded() {
		_, err := output(ctx, "launchctl", "start", Label)
		return err
	}
	return l.driver.Start()
}

// loaded: launchd knows it, running or not.
func (s Status) loaded() bool { return s.Enabled }

// Stop implements Service. It is loaded again at the next login, or by Start.
func (l *launchd) Stop(context.Context) error {
	if err := l.installed(); err != nil {
		return err
	}
	return l.driver.Stop()
}

// Restart implements Service.
func (l *launchd) Restart(ctx context.Context) error {
	if err := l.installed(); err != nil {
		return err
	}
	if st, err := l.Status(ctx); err == nil && st.loaded() {
		if err := l.driver.Stop(); err != nil {
			return err
		}
		// unload returns before the process has ended, and load fails until then.
		limited, cancel := context.WithTimeout(ctx, 45*time.Second)
		defer cancel()
		if lock, err := link.WaitLock(limited, l.Places.Lock); err == nil {
			if err := lock.Close(); err != nil {
				return err
			}
		}
	}
	return l.driver.Start()
}

var (
	launchdPID  = regexp.MustCompile(`"PID" = ([0-9]+);`)
	launchdExit = regexp.MustCompile(`"LastExitStatus" = ([0-9]+);`)
)

// Status implements Service.
func (l *launchd) Status(ctx context.Context) (Status, error) {
	st := Status{Manager: "launchd", Unit: Label, Files: []File{}}
	state, _, err := stateOf(l.path())
	if err != nil {
		return st, err
	}
	st.Files = append(st.Files, File{l.path(), state})
	st.Installed = state != Missing
	text, err := output(ctx, "launchctl", "list", Label)
	var exit *exec.ExitError
	switch {
	case errors.As(err, &exit): // not loaded
		st.State = "not loaded"
	case err != nil:
		return st, err
	default:
		l.read(&st, text)
	}
	if !st.Installed {
		st.State = "not installed"
	}
	if pid := foreignDaemon(l.Places, st.PID); pid != 0 {
		st.Advice = append(st.Advice, errForeignDaemon(pid).Error())
	}
	return st, nil
}

// read takes what `launchctl list LABEL` prints.
func (l *launchd) read(st *Status, text string) {
	st.Enabled, st.State = true, "loaded, not running"
	if m := launchdPID.FindStringSubmatch(text); m != nil {
		st.PID, _ = strconv.Atoi(m[1])
		st.Running, st.State = true, "running"
	}
	if m := launchdExit.FindStringSubmatch(text); m != nil && m[1] != "0" && !st.Running {
		st.Result = "last exit status " + m[1] // as wait(2) gives it
	}
}

// Journal implements Service: launchd keeps none.
func (l *launchd) Journal(bool, int) []string { return nil }
