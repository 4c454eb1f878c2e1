package service

import (
	"context"
	"errors"
	"fmt"
	"strings"

	manager "github.com/kardianos/service"
)

// windows is a service of the machine that runs in the account of one user.
type windows struct {
	Options
	account string
	driver  manager.Service
}

func newWindows(o Options) (*windows, error) {
	if o.System {
		return nil, errors.New("a service of Windows runs in the account of a user already: leave --system out")
	}
	w := &windows{Options: o, account: o.Getenv("USERDOMAIN") + `\` + o.Getenv("USERNAME")}
	var err error
	w.driver, err = manager.New(nil, w.config(""))
	return w, err
}

// config is the service in the library's words.
func (w *windows) config(password string) *manager.Config {
	args := []string{"serve", "--service"}
	if w.Places.Named() {
		args = append([]string{"--socket", w.Places.Socket}, args...)
	}
	c := &manager.Config{
		Name: Name, DisplayName: "hermesd", Description: "Keeps the sessions of coding agents and serves them to editors.",
		Executable: w.Program, Arguments: args, UserName: w.account,
		Option: manager.KeyValue{
			"Password": password,
			// The library says that to restart is its default; it is not. The
			// growing of the pauses is the daemon's.
			"OnFailure": "restart", "OnFailureDelayDuration": "100ms", "OnFailureResetPeriod": 600,
		},
	}
	for _, kv := range w.placeVariables() {
		if c.EnvVars == nil {
			c.EnvVars = make(map[string]string)
		}
		c.EnvVars[kv[0]] = kv[1]
	}
	return c
}

func (w *windows) describe() string {
	c := w.config("")
	text := fmt.Sprintf("the service %s: %s %s\nin the account %s, started with Windows, and again 100 ms after it failed",
		c.Name, c.Executable, strings.Join(c.Arguments, " "), c.UserName)
	for _, kv := range w.placeVariables() {
		text += fmt.Sprintf("\nwith %s=%s", kv[0], kv[1])
	}
	return text
}

// Install implements Service.
func (w *windows) Install(ctx context.Context) error {
	if w.DryRun {
		w.say("would install %s", w.describe())
		return nil
	}
	if st, err := w.Status(ctx); err == nil && st.Installed {
		w.say("the service %s is installed; to change it, uninstall it first", Name)
		if w.NoStart || st.Running {
			return nil
		}
		return w.Start(ctx)
	}
	if w.Password == nil {
		return errors.New("the password of the account is needed")
	}
	password, err := w.Password()
	if err != nil {
		return err
	}
	driver, err := manager.New(nil, w.config(password))
	if err != nil {
		return err
	}
	if err := driver.Install(); err != nil {
		return fmt.Errorf("installing the service (that needs a terminal that was opened as administrator, and the account needs the right to log on as a service): %w", err)
	}
	w.say("installed %s", w.describe())
	if w.NoStart {
		return nil
	}
	if pid := foreignDaemon(w.Places, 0); pid != 0 {
		w.say("the service waits: hermesd (process %d) runs already; it takes over when that has ended, for instance by hermesd stop", pid)
	}
	return w.Start(ctx)
}

// Uninstall implements Service.
func (w *windows) Uninstall(ctx context.Context) error {
	st, err := w.Status(ctx)
	switch {
	case err != nil:
		return err
	case !st.Installed:
		w.say("there is nothing to remove")
		return nil
	case w.DryRun:
		w.say("would remove the service %s", Name)
		return nil
	}
	if st.Running {
		if err := w.driver.Stop(); err != nil {
			return err
		}
	}
	if err := w.driver.Uninstall(); err != nil {
		return err
	}
	w.say("removed the service %s", Name)
	return nil
}

func (w *windows) Start(context.Context) error   { return w.known(w.driver.Start()) }
func (w *windows) Stop(context.Context) error    { return w.known(w.driver.Stop()) }
func (w *windows) Restart(context.Context) error { return w.known(w.driver.Restart()) }

func (w *windows) known(err error) error {
	if errors.Is(err, manager.ErrNotInstalled) {
		return ErrNotInstalled
	}
	return err
}

// Status implements Service.
func (w *windows) Status(context.Context) (Status, error) {
	st := Status{Manager: "windows", Unit: Name, Files: []File{}}
	state, err := w.driver.Status()
	switch {
	case errors.Is(err, manager.ErrNotInstalled):
		st.State = "not installed"
		return st, nil
	case err != nil:
		return st, err
	}
	st.Installed, st.Enabled = true, true
	st.State = "stopped"
	if state == manager.StatusRunning {
		st.Running, st.State = true, "running"
	}
	return st, nil
}

// Journal implements Service: the daemon's log is a file.
func (w *windows) Journal(bool, int) []string { return nil }
