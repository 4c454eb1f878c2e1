package service

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"

	manager "github.com/kardianos/service"
)

// systemd is the service of one user: of his own systemd, or an instance of the
// machine's template.
type systemd struct {
	Options
	unit    string // of the service, with its instance
	socket  string
	units   string // folder of the units
	driver  manager.Service
	version int
}

func newSystemd(o Options) (*systemd, error) {
	s := &systemd{Options: o}
	// systemd refuses such a program, however it is quoted.
	if strings.ContainsAny(o.Program, `"'\`) {
		return nil, fmt.Errorf("systemd runs no program with a quote or a backslash in its path: move %s", o.Program)
	}
	if o.System {
		if o.User == "" {
			return nil, errors.New("a service of the machine runs for one user each: name him with --for USER")
		}
		s.unit, s.socket = Name+"@"+o.User+".service", Name+"@"+o.User+".socket"
		s.units = o.Root + "/etc/systemd/system"
	} else {
		home := o.Getenv("HOME")
		if !filepath.IsAbs(home) {
			return nil, errors.New("HOME is not set, so there is no place for a service of yours; set it")
		}
		s.unit, s.socket = Name+".service", Name+".socket"
		// Not $XDG_CONFIG_HOME: the user's systemd rarely has it, and this is where
		// it looks then.
		s.units = filepath.Join(o.Root+home, ".config", "systemd", "user")
	}
	return s, nil
}

// reach makes sure that there is a systemd to talk to, and asks which.
func (s *systemd) reach(ctx context.Context) error {
	if s.driver != nil {
		return nil
	}
	if _, err := exec.LookPath("systemctl"); err != nil {
		return errors.New("there is no systemd on this machine. Nothing has to be installed: the first editor starts hermesd by itself")
	}
	text, err := output(ctx, "systemctl", s.scope("show", "--property=Version")...)
	if err != nil {
		why := "systemd does not answer (" + err.Error() + ")"
		if s.System {
			return errors.New(why + "; it has to be the machine's init")
		}
		return fmt.Errorf("%s; a user's systemd is there once he has logged in: after su or sudo, and in cron, it is not found unless XDG_RUNTIME_DIR=/run/user/%d is set. Without systemd nothing has to be installed: the first editor starts hermesd by itself", why, os.Getuid())
	}
	if m := regexp.MustCompile(`Version=v?([0-9]+)`).FindStringSubmatch(text); m != nil {
		s.version, _ = strconv.Atoi(m[1])
	}
	s.driver, err = systemdDriver(&manager.Config{
		Name: strings.TrimSuffix(s.unit, ".service"),
		// The library fills its own words into a template; the unit is finished
		// and goes through it as one of those words.
		Description: s.serviceText(),
		Option:      manager.KeyValue{"UserService": !s.System, "SystemdScript": "{{Description}}"},
	})
	return err
}

// systemdDriver is the library's part for systemd, whatever it takes the
// machine's init for.
func systemdDriver(c *manager.Config) (manager.Service, error) {
	for _, system := range manager.AvailableSystems() {
		if system.String() == "linux-systemd" {
			return system.New(nil, c)
		}
	}
	return nil, errors.New("there is no systemd on this machine")
}

// scope are arguments of systemctl for the right manager.
func (s *systemd) scope(args ...string) []string {
	if s.System {
		return args
	}
	return append([]string{"--user"}, args...)
}

func (s *systemd) ctl(ctx context.Context, args ...string) error {
	return s.run(ctx, "systemctl", s.scope(args...)...)
}

// file is the name of a unit's file: of an instance, the template's.
func (s *systemd) file(unit string) string {
	if s.System {
		unit = Name + "@" + filepath.Ext(unit)
	}
	return filepath.Join(s.units, unit)
}

// tmpfile makes the folder of a user's socket, for a service of the machine: his
// own runtime folder is there only while he is logged in.
func (s *systemd) tmpfile() string { return s.Root + "/etc/tmpfiles.d/hermesd-" + s.User + ".conf" }

// edit is how the files want to be changed.
func (s *systemd) edit() string {
	if s.System {
		return "systemctl edit " + Name + "@USER"
	}
	return "systemctl --user edit " + Name
}

func (s *systemd) env() (lines []string) {
	if s.System {
		return nil // the environment is the user's, not that of whoever installs
	}
	for _, kv := range s.placeVariables("XDG_CONFIG_HOME", "XDG_STATE_HOME") {
		lines = append(lines, unitQuoted(kv[0]+"="+kv[1]))
	}
	return lines
}

// command is a command line of hermesd in a unit.
func (s *systemd) command(args ...string) string {
	if !s.System && s.Places.Named() {
		args = append([]string{"--socket", s.Places.Socket}, args...)
	}
	return unitCommand(s.Program, args...)
}

func (s *systemd) serviceText() string {
	socket, wanted := s.socket, "default.target"
	if s.System {
		socket, wanted = Name+"@%i.socket", "multi-user.target"
	}
	return render(serviceUnit, map[string]any{
		"Edit": s.edit(), "System": s.System, "Socket": socket, "Env": s.env(),
		"Exec": s.command("serve", "--service"), "WantedBy": wanted, "OOMPolicy": s.version >= 243,
	})
}

func (s *systemd) socketText() string {
	return render(socketUnit, map[string]any{
		"Edit": s.edit(), "System": s.System, "Env": s.env(),
		"Vacant": s.command("service", "vacant"), "Listen": s.listen(),
	})
}

func (s *systemd) listen() string {
	if s.System {
		return "/run/hermesd/%i/hermesd.sock"
	}
	if runtime := s.Getenv("XDG_RUNTIME_DIR"); runtime != "" && s.Places.Socket == filepath.Join(runtime, "hermesd", "hermesd.sock") {
		return "%t/hermesd/hermesd.sock"
	}
	return unitValue(s.Places.Socket)
}

func (s *systemd) tmpfileText() string {
	return sealed(fmt.Sprintf(`# Written by: hermesd service install --system
# hermesd-sum: SUM
# The folder of the socket, and its name by the user's number, by which programs find it.
d /run/hermesd 0755 root root -
d /run/hermesd/%[1]s 0700 %[1]s - -
d /run/hermesd/by-uid 0755 root root -
L+ /run/hermesd/by-uid/%[2]s - - - - ../%[1]s
`, s.User, s.uid()))
}

// uid is the user's number.
func (s *systemd) uid() string { return lookupUID(s.User) }

// Install implements Service.
func (s *systemd) Install(ctx context.Context) error {
	if s.System {
		if os.Geteuid() != 0 && s.Root == "" && !s.DryRun {
			return errors.New("a service of the machine is installed by root: sudo hermesd service install --system --for " + s.User)
		}
		if s.uid() == "" {
			return fmt.Errorf("there is no user %q on this machine", s.User)
		}
	}
	if err := s.reach(ctx); err != nil && !s.DryRun {
		return err
	}
	files := []planned{{path: s.file(s.socket), text: s.socketText()}, {path: s.file(s.unit), text: s.serviceText()}}
	if s.System {
		files = append(files, planned{path: s.tmpfile(), text: s.tmpfileText()})
	}
	files, err := s.plan(files...)
	if err != nil {
		return err
	}
	changed := false
	for _, f := range files {
		// The library writes the unit of a user's service that is new, and makes
		// systemd know it; it can neither update one nor write a template.
		if f.path == s.file(s.unit) && f.was == Missing && !s.System && !s.DryRun && s.Root == "" {
			if err := s.driver.Install(); err != nil {
				return fmt.Errorf("installing %s: %w", s.unit, err)
			}
			s.say("wrote %s", f.path)
			changed = true
			continue
		}
		c, err := s.write(f)
		if err != nil {
			return err
		}
		changed = changed || c
	}
	if s.System {
		if err := s.run(ctx, "systemd-tmpfiles", "--create", s.tmpfile()); err != nil {
			return err
		}
	}
	if changed {
		if err := s.ctl(ctx, "daemon-reload"); err != nil {
			return err
		}
	}
	if err := s.ctl(ctx, "enable", s.socket, s.unit); err != nil {
		return err
	}
	if !s.DryRun {
		s.say("%s and %s start by themselves", s.socket, s.unit)
	}
	switch st, err := s.Status(ctx); {
	case s.NoStart:
		return nil
	case s.DryRun:
		s.say("would start %s and %s", s.socket, s.unit)
		return nil
	case err == nil && st.Running && changed:
		s.say("the service runs with what was there before; it takes this over with: hermesd service restart")
		return nil
	case err == nil && st.Running:
		return nil
	}
	if pid := s.foreign(0); pid != 0 {
		s.say("not started: %v", errForeignDaemon(pid))
		return nil
	}
	return s.Start(ctx)
}

// foreign is a daemon that stands in the way of a service that has the process
// managed, 0 if there is none. What other users run is theirs to know.
func (s *systemd) foreign(managed int) int {
	if s.System {
		return 0
	}
	return foreignDaemon(s.Places, managed)
}

// Uninstall implements Service.
func (s *systemd) Uninstall(ctx context.Context) error {
	rerr := s.reach(ctx)
	paths := []string{s.file(s.socket), s.file(s.unit)}
	if s.System {
		paths = []string{s.tmpfile()}
		if others := s.others(); len(others) == 0 {
			paths = append(paths, s.file(s.socket), s.file(s.unit))
		} else {
			s.say("the templates stay for %s", strings.Join(others, ", "))
		}
	}
	found := false
	for _, p := range append(paths, s.file(s.unit)) {
		if state, _, err := stateOf(p); err == nil && state != Missing {
			found = true
		}
	}
	if !found {
		s.say("there is nothing to remove")
		return nil
	}
	var errs []error
	if rerr == nil {
		// A unit that is disabled or stopped already is no error.
		errs = append(errs, s.ctl(ctx, "disable", "--now", s.socket, s.unit))
	} else if !s.DryRun {
		s.say("systemd is not told: %v", rerr)
	}
	for _, p := range paths {
		errs = append(errs, s.remove(p))
		if dir := p + ".d"; exists(dir) {
			s.say("%s is yours and stays", dir)
		}
	}
	if s.System && !s.DryRun && !exists(s.tmpfile()) {
		// Made by it at every boot; until the next one it would be looked into.
		errs = append(errs, s.removeRun())
	}
	if rerr == nil {
		errs = append(errs, s.ctl(ctx, "daemon-reload"))
	}
	return errors.Join(errs...)
}

// removeRun removes the folder of the machine's socket for the user, and its
// other name.
func (s *systemd) removeRun() error {
	if uid := s.uid(); uid != "" {
		if err := os.Remove(s.Root + "/run/hermesd/by-uid/" + uid); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return fmt.Errorf("removing the socket's folder: %w", err)
		}
	}
	return os.RemoveAll(s.Root + "/run/hermesd/" + filepath.Base(s.User))
}

// others are the instances of other users.
func (s *systemd) others() (units []string) {
	found, _ := filepath.Glob(filepath.Join(s.units, "*.wants", Name+"@*.socket"))
	for _, path := range found {
		if unit := filepath.Base(path); unit != s.socket {
			units = append(units, unit)
		}
	}
	return units
}

func exists(path string) bool {
	_, err := os.Lstat(path)
	return err == nil
}

// installed says ErrNotInstalled unless the unit's file is there.
func (s *systemd) installed(ctx context.Context) error {
	if !exists(s.file(s.unit)) {
		return ErrNotInstalled
	}
	return s.reach(ctx)
}

// Start implements Service.
func (s *systemd) Start(ctx context.Context) error {
	if err := s.installed(ctx); err != nil {
		return err
	}
	st, err := s.Status(ctx)
	if err != nil {
		return err
	}
	if pid := s.foreign(st.PID); pid != 0 {
		return errForeignDaemon(pid)
	}
	s.forgive(ctx)
	if err := s.ctl(ctx, "start", s.socket); err != nil {
		return err
	}
	return s.drive(ctx, s.driver.Start)
}

// forgive makes systemd forget failures: somebody is at it, so it may try again.
func (s *systemd) forgive(ctx context.Context) { _ = s.ctl(ctx, "reset-failed", s.socket, s.unit) }

// Stop implements Service. The socket goes first: who comes next would start the
// service again.
func (s *systemd) Stop(ctx context.Context) error {
	if err := s.installed(ctx); err != nil {
		return err
	}
	if err := s.ctl(ctx, "stop", s.socket); err != nil {
		return err
	}
	return s.drive(ctx, s.driver.Stop)
}

// Restart implements Service. The socket stays: who comes meanwhile waits.
func (s *systemd) Restart(ctx context.Context) error {
	if err := s.installed(ctx); err != nil {
		return err
	}
	s.forgive(ctx)
	return s.drive(ctx, s.driver.Restart)
}

// drive runs something of the library, and adds what systemd has to say when it
// fails: the library drops it.
func (s *systemd) drive(ctx context.Context, act func() error) error {
	err := act()
	if err == nil {
		return nil
	}
	if st, serr := s.Status(ctx); serr == nil {
		err = fmt.Errorf("%s is %s", s.unit, st.State)
		if st.Result != "" {
			err = fmt.Errorf("%w: %s", err, st.Result)
		}
		if st.Says != "" {
			err = fmt.Errorf("%w; it says: %s", err, st.Says)
		}
	}
	return fmt.Errorf("%w; see: hermesd service status, hermesd service logs", err)
}

// Status implements Service.
func (s *systemd) Status(ctx context.Context) (Status, error) {
	st := Status{Manager: "systemd", Unit: s.unit, Files: []File{}}
	paths := []string{s.file(s.unit), s.file(s.socket)}
	if s.System {
		paths = append(paths, s.tmpfile())
	}
	for _, p := range paths {
		state, _, err := stateOf(p)
		if err != nil {
			return st, err
		}
		st.Files = append(st.Files, File{p, state})
	}
	st.Installed = st.Files[0].State != Missing
	if !st.Installed {
		st.State = "not installed"
		return st, nil
	}
	if err := s.reach(ctx); err != nil {
		return st, err
	}
	text, err := output(ctx, "systemctl", s.scope("show", "--property=Id,ActiveState,SubState,UnitFileState,MainPID,NRestarts,Result,StatusText,ExecMainStatus,NeedDaemonReload", s.unit, s.socket)...)
	if err != nil {
		return st, err
	}
	for _, block := range strings.Split(strings.TrimSpace(text), "\n\n") {
		v := properties(block)
		if v["Id"] == s.socket {
			st.Activated = v["ActiveState"] == "active"
			if v["ActiveState"] == "failed" {
				st.Advice = append(st.Advice, fmt.Sprintf("%s has failed (%s): editors start a daemon of their own until: hermesd service start", s.socket, v["Result"]))
			}
			continue
		}
		st.State = v["ActiveState"]
		if sub := v["SubState"]; sub != "" {
			st.State += " (" + sub + ")"
		}
		st.Enabled = v["UnitFileState"] == "enabled"
		st.Running = v["ActiveState"] == "active"
		st.Failed = v["ActiveState"] == "failed"
		st.PID, _ = strconv.Atoi(v["MainPID"])
		st.Restarts, _ = strconv.Atoi(v["NRestarts"])
		st.Says = v["StatusText"]
		if v["Result"] != "success" {
			st.Result = v["Result"]
			if st.Result == "exit-code" {
				st.Result = "exit status " + v["ExecMainStatus"]
			}
		}
		if v["NeedDaemonReload"] == "yes" {
			st.Advice = append(st.Advice, "the unit's file has changed since systemd read it: systemctl "+strings.Join(s.scope("daemon-reload"), " "))
		}
	}
	if !s.System {
		lingers := s.lingers(ctx)
		st.Lingers = &lingers
		if !lingers {
			user := s.Getenv("USER")
			st.Advice = append(st.Advice, fmt.Sprintf("hermesd starts when you log in and ends, with its running turns, when you have logged out everywhere; to have it run without you: loginctl enable-linger %s", user))
		}
		if pid := s.foreign(st.PID); pid != 0 {
			st.Advice = append(st.Advice, errForeignDaemon(pid).Error())
		}
	}
	return st, nil
}

// properties reads what `systemctl show` prints of one unit.
func properties(text string) map[string]string {
	v := make(map[string]string)
	for _, line := range strings.Split(text, "\n") {
		if name, value, ok := strings.Cut(line, "="); ok {
			v[name] = value
		}
	}
	return v
}

// lingers says whether the user's systemd runs also while he is not logged in.
func (s *systemd) lingers(ctx context.Context) bool {
	user := s.Getenv("USER")
	if user == "" {
		return false
	}
	if text, err := output(ctx, "loginctl", "show-user", user, "--property=Linger", "--value"); err == nil {
		return strings.TrimSpace(text) == "yes"
	}
	// logind answers only for users who are logged in; this is where it looks.
	return exists(s.Root + "/var/lib/systemd/linger/" + filepath.Base(user))
}

// Journal implements Service.
func (s *systemd) Journal(follow bool, lines int) []string {
	unit := "--unit=" + s.unit
	if !s.System {
		unit = "--user-unit=" + s.unit
	}
	cmd := []string{"journalctl", unit, "--lines=" + strconv.Itoa(lines), "--output=cat"}
	if follow {
		cmd = append(cmd, "--follow")
	} else {
		cmd = append(cmd, "--no-pager")
	}
	return cmd
}
