package service

import (
	"encoding/xml"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"

	"go.uber.org/goleak"

	"github.com/hermesd/hermesd/transport/link"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// place is a home with a systemd that only notes what it is asked.
type place struct {
	t     *testing.T
	home  string
	calls string // file
	env   map[string]string
	out   strings.Builder
}

const fakeSystemctl = `#!/bin/sh
echo "${0##*/} $*" >>"$FAKE/calls"
case "$*" in
*--property=Version*)
  [ -e "$FAKE/nobus" ] && { echo "Failed to connect to bus: No medium found" >&2; exit 1; }
  echo "Version=252 (252.38-1)" ;;
*--property=Id,*) cat "$FAKE/state" ;;
*--property=Linger*) cat "$FAKE/linger" 2>/dev/null || { echo "not logged in" >&2; exit 1; } ;;
*) [ ! -e "$FAKE/fail" ] || { cat "$FAKE/fail" >&2; exit 1; } ;;
esac
`

func newPlace(t *testing.T) *place {
	t.Helper()
	if runtime.GOOS != "linux" {
		t.Skip("systemd is of Linux")
	}
	dir, err := os.MkdirTemp("", "hd")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	p := &place{t: t, home: filepath.Join(dir, "home"), calls: filepath.Join(dir, "calls")}
	for _, d := range []string{p.home, filepath.Join(dir, "bin"), filepath.Join(dir, "run"), filepath.Join(dir, "root")} {
		if err := os.Mkdir(d, 0o700); err != nil {
			t.Fatal(err)
		}
	}
	for _, name := range []string{"systemctl", "loginctl", "systemd-tmpfiles"} {
		if err := os.WriteFile(filepath.Join(dir, "bin", name), []byte(fakeSystemctl), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	t.Setenv("FAKE", dir)
	t.Setenv("PATH", filepath.Join(dir, "bin")+":"+os.Getenv("PATH"))
	t.Setenv("HOME", p.home)
	p.env = map[string]string{"HOME": p.home, "XDG_RUNTIME_DIR": filepath.Join(dir, "run"), "USER": "me"}
	p.state("Id=hermesd.service\nActiveState=inactive\nSubState=dead\nMainPID=0\nNRestarts=0\nResult=success\nUnitFileState=enabled\nStatusText=\n\nId=hermesd.socket\nActiveState=inactive\nResult=success\n")
	return p
}

func (p *place) state(text string) {
	if err := os.WriteFile(filepath.Join(filepath.Dir(p.calls), "state"), []byte(text), 0o600); err != nil {
		p.t.Fatal(err)
	}
}

// service with the options that change changes.
func (p *place) service(change func(*Options)) Service {
	p.t.Helper()
	places, err := link.Locate(func(name string) string { return p.env[name] }, "linux", os.Getuid(), func(string) link.Owner { return link.Absent })
	if err != nil {
		p.t.Fatal(err)
	}
	o := Options{Program: "/usr/bin/hermesd", Places: places, Getenv: func(name string) string { return p.env[name] }, Out: &p.out}
	if change != nil {
		change(&o)
	}
	s, err := New(o)
	if err != nil {
		p.t.Fatal(err)
	}
	return s
}

// took gives the calls made since the last time, without questions.
func (p *place) took() (calls []string) {
	b, _ := os.ReadFile(p.calls)
	os.Remove(p.calls)
	for _, c := range strings.Split(strings.TrimSpace(string(b)), "\n") {
		if c != "" && !strings.Contains(c, "--property=") {
			calls = append(calls, c)
		}
	}
	return calls
}

func (p *place) said() string {
	text := p.out.String()
	p.out.Reset()
	return text
}

func (p *place) path(name string) string {
	return filepath.Join(p.home, ".config", "systemd", "user", name)
}

func (p *place) read(path string) string {
	p.t.Helper()
	b, err := os.ReadFile(path)
	if err != nil {
		p.t.Fatal(err)
	}
	return string(b)
}

func wantCalls(t *testing.T, got []string, want ...string) {
	t.Helper()
	if !slices.Equal(got, want) {
		t.Errorf("systemd was asked\n  %s\nwant\n  %s", strings.Join(got, "\n  "), strings.Join(want, "\n  "))
	}
}

func TestInstallingTwiceIsInstallingOnceAndUninstallTakesItBack(t *testing.T) {
	p := newPlace(t)
	ctx := t.Context()
	if err := p.service(nil).Install(ctx); err != nil {
		t.Fatal(err)
	}
	wantCalls(t, p.took(),
		"systemctl enable --user hermesd.service", "systemctl daemon-reload --user", // the library
		"systemctl --user daemon-reload", "systemctl --user enable hermesd.socket hermesd.service",
		"systemctl --user reset-failed hermesd.socket hermesd.service",
		"systemctl --user start hermesd.socket", "systemctl start --user hermesd.service")
	if said := p.said(); !strings.Contains(said, "wrote "+p.path("hermesd.service")) || !strings.Contains(said, "wrote "+p.path("hermesd.socket")) {
		t.Errorf("it says\n%s", said)
	}
	unit, socket := p.read(p.path("hermesd.service")), p.read(p.path("hermesd.socket"))
	for _, want := range []string{"\nExecStart=\"/usr/bin/hermesd\" \"serve\" \"--service\"\n", "\nType=notify\n", "\nRestartSec=100ms\n", "\nRestartPreventExitStatus=78\n",
		"\nKillMode=process\n", "\nWantedBy=default.target\n", "\nOOMPolicy=continue\n"} {
		if !strings.Contains(unit, want) {
			t.Errorf("the unit lacks %q:\n%s", want, unit)
		}
	}
	// A PATH that is recorded goes stale; a mode that is imposed is every agent's.
	for _, never := range []string{"PATH", "UMask", "Protect", "mixed", "control-group"} {
		if strings.Contains(unit, never) {
			t.Errorf("the unit has %q", never)
		}
	}
	if !strings.Contains(socket, "\nListenStream=%t/hermesd/hermesd.sock\n") {
		t.Errorf("the socket:\n%s", socket)
	}

	// It runs, and is installed once more.
	p.state("Id=hermesd.service\nActiveState=active\nSubState=running\nMainPID=7\nNRestarts=0\nResult=success\nUnitFileState=enabled\n\nId=hermesd.socket\nActiveState=active\n")
	if err := p.service(nil).Install(ctx); err != nil {
		t.Fatal(err)
	}
	wantCalls(t, p.took(), "systemctl --user enable hermesd.socket hermesd.service")
	if said := p.said(); strings.Contains(said, "wrote") || strings.Contains(said, "updated") || p.read(p.path("hermesd.service")) != unit {
		t.Errorf("the second time it says\n%s", said)
	}

	// The next version of hermesd is elsewhere.
	if err := p.service(func(o *Options) { o.Program = "/opt/hermesd" }).Install(ctx); err != nil {
		t.Fatal(err)
	}
	wantCalls(t, p.took(), "systemctl --user daemon-reload", "systemctl --user enable hermesd.socket hermesd.service")
	if said := p.said(); !strings.Contains(said, "updated "+p.path("hermesd.service")) || !strings.Contains(said, "hermesd service restart") {
		t.Errorf("an update says\n%s", said)
	}

	// The user's own drop-in is nobody else's.
	if err := os.MkdirAll(p.path("hermesd.service.d"), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := p.service(nil).Uninstall(ctx); err != nil {
		t.Fatal(err)
	}
	wantCalls(t, p.took(), "systemctl --user disable --now hermesd.socket hermesd.service", "systemctl --user daemon-reload")
	if said := p.said(); !strings.Contains(said, "removed "+p.path("hermesd.service")) || !strings.Contains(said, "hermesd.service.d is yours and stays") {
		t.Errorf("uninstall says\n%s", said)
	}
	left, _ := filepath.Glob(p.path("*"))
	if !slices.Equal(left, []string{p.path("hermesd.service.d")}) {
		t.Errorf("left is %v", left)
	}
	if err := p.service(nil).Uninstall(ctx); err != nil || !strings.Contains(p.said(), "nothing to remove") {
		t.Errorf("the second time: %v", err)
	}
	wantCalls(t, p.took())
	if err := p.service(nil).Start(ctx); !errors.Is(err, ErrNotInstalled) {
		t.Errorf("start: %v", err)
	}
}

func TestADryRunDoesNothing(t *testing.T) {
	p := newPlace(t)
	dry := func(o *Options) { o.DryRun = true }
	if err := p.service(dry).Install(t.Context()); err != nil {
		t.Fatal(err)
	}
	said := p.said()
	for _, want := range []string{"would write " + p.path("hermesd.service"), "ListenStream=", "would run: systemctl --user enable"} {
		if !strings.Contains(said, want) {
			t.Errorf("it does not say %q:\n%s", want, said)
		}
	}
	if left, _ := filepath.Glob(p.path("*")); len(left) > 0 {
		t.Errorf("it wrote %v", left)
	}
	if err := p.service(nil).Install(t.Context()); err != nil {
		t.Fatal(err)
	}
	p.took()
	if err := p.service(dry).Uninstall(t.Context()); err != nil {
		t.Fatal(err)
	}
	wantCalls(t, p.took())
	if _, err := os.Stat(p.path("hermesd.service")); err != nil {
		t.Error(err)
	}
}

func TestWhatWasChangedByHandIsKept(t *testing.T) {
	p := newPlace(t)
	ctx := t.Context()
	if err := p.service(nil).Install(ctx); err != nil {
		t.Fatal(err)
	}
	mine := strings.Replace(p.read(p.path("hermesd.service")), "WatchdogSec=60", "WatchdogSec=5", 1)
	if err := os.WriteFile(p.path("hermesd.service"), []byte(mine), 0o644); err != nil {
		t.Fatal(err)
	}
	p.took()
	err := p.service(nil).Install(ctx)
	if err == nil || !strings.Contains(err.Error(), "hermesd.service was changed by hand and is kept") || p.read(p.path("hermesd.service")) != mine {
		t.Fatalf("install: %v", err)
	}
	wantCalls(t, p.took())
	st, err := p.service(nil).Status(ctx)
	if err != nil || st.Files[0].State != Changed || st.Files[1].State != Intact {
		t.Errorf("status: %+v, %v", st, err)
	}
	err = p.service(nil).Uninstall(ctx)
	if err == nil || !strings.Contains(err.Error(), "hermesd.service was changed by hand and is kept") || p.read(p.path("hermesd.service")) != mine {
		t.Fatalf("uninstall: %v", err)
	}
	if _, err := os.Stat(p.path("hermesd.socket")); err == nil {
		t.Error("the socket's unit, which was not changed, is still there")
	}
	// With force it is replaced, and put aside: twice, under two names.
	for _, aside := range []string{".saved", ".saved2"} {
		if err := os.WriteFile(p.path("hermesd.service"), []byte(mine+aside), 0o644); err != nil {
			t.Fatal(err)
		}
		if err := p.service(func(o *Options) { o.Force = true }).Install(ctx); err != nil {
			t.Fatal(err)
		}
		if p.read(p.path("hermesd.service"+aside)) != mine+aside || !strings.Contains(p.said(), "hermesd.service"+aside) {
			t.Error("what was there is lost")
		}
	}
	// A file of that name that is not ours at all.
	if err := os.WriteFile(p.path("hermesd.service"), []byte("[Service]\nExecStart=/bin/true\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	if err := p.service(nil).Install(ctx); err == nil || !strings.Contains(err.Error(), "not written by hermesd") {
		t.Errorf("install over a foreign file: %v", err)
	}
}

func TestADaemonThatRunsAlreadyKeepsItsSocket(t *testing.T) {
	p := newPlace(t)
	s := p.service(func(o *Options) { o.NoStart = true })
	if err := s.Install(t.Context()); err != nil {
		t.Fatal(err)
	}
	p.took()
	places := p.service(nil).(*systemd).Places
	if err := places.MakeRun(); err != nil {
		t.Fatal(err)
	}
	lock, err := link.TryLock(places.Lock)
	if err != nil {
		t.Fatal(err)
	}
	defer lock.Close()
	if err := lock.Sign(4711); err != nil {
		t.Fatal(err)
	}
	if err := p.service(nil).Start(t.Context()); err == nil || !strings.Contains(err.Error(), "process 4711") || !strings.Contains(err.Error(), "hermesd stop") {
		t.Errorf("start: %v", err)
	}
	wantCalls(t, p.took())
	p.said()
	if err := p.service(nil).Install(t.Context()); err != nil || !strings.Contains(p.said(), "not started: hermesd (process 4711) runs already") {
		t.Errorf("install: %v", err)
	}
	st, err := p.service(nil).Status(t.Context())
	if err != nil || !slices.ContainsFunc(st.Advice, func(s string) bool { return strings.Contains(s, "4711") }) {
		t.Errorf("status: %+v, %v", st, err)
	}
	// The service's own is no other.
	p.state("Id=hermesd.service\nActiveState=active\nSubState=running\nMainPID=4711\nResult=success\n\nId=hermesd.socket\nActiveState=active\n")
	if err := p.service(nil).Start(t.Context()); err != nil {
		t.Errorf("start of what runs: %v", err)
	}
}

func TestStopEndsTheSocketFirstAndRestartLeavesIt(t *testing.T) {
	p := newPlace(t)
	if err := p.service(func(o *Options) { o.NoStart = true }).Install(t.Context()); err != nil {
		t.Fatal(err)
	}
	p.took()
	if err := p.service(nil).Stop(t.Context()); err != nil {
		t.Fatal(err)
	}
	wantCalls(t, p.took(), "systemctl --user stop hermesd.socket", "systemctl stop --user hermesd.service")
	if err := p.service(nil).Restart(t.Context()); err != nil {
		t.Fatal(err)
	}
	wantCalls(t, p.took(), "systemctl --user reset-failed hermesd.socket hermesd.service", "systemctl restart --user hermesd.service")
}

func TestAStatusThatLooksHealthyIsNotSaidOfALoop(t *testing.T) {
	p := newPlace(t)
	if err := p.service(func(o *Options) { o.NoStart = true }).Install(t.Context()); err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]struct {
		state string
		check func(Status) bool
	}{
		"between two starts": {"Id=hermesd.service\nActiveState=activating\nSubState=auto-restart\nMainPID=0\nNRestarts=2912\nResult=exit-code\nExecMainStatus=1\nStatusText=waiting 30s after 9 failed starts\n\nId=hermesd.socket\nActiveState=active\n",
			func(s Status) bool {
				return !s.Running && s.Restarts == 2912 && s.State == "activating (auto-restart)" && s.Result == "exit status 1" && strings.HasPrefix(s.Says, "waiting 30s")
			}},
		"given up": {"Id=hermesd.service\nActiveState=failed\nSubState=failed\nMainPID=0\nNRestarts=0\nResult=exit-code\nExecMainStatus=78\n\nId=hermesd.socket\nActiveState=failed\nResult=service-start-limit-hit\n",
			func(s Status) bool {
				return !s.Running && s.Failed && s.Result == "exit status 78" && !s.Activated && slices.ContainsFunc(s.Advice, func(a string) bool { return strings.Contains(a, "service-start-limit-hit") })
			}},
		"listening": {"Id=hermesd.service\nActiveState=inactive\nSubState=dead\nMainPID=0\nResult=success\n\nId=hermesd.socket\nActiveState=active\n",
			func(s Status) bool { return !s.Running && s.Activated && !s.Failed && s.Result == "" }},
		"an edited file": {"Id=hermesd.service\nActiveState=active\nSubState=running\nMainPID=3\nResult=success\nNeedDaemonReload=yes\n\nId=hermesd.socket\nActiveState=active\n",
			func(s Status) bool {
				return s.Running && s.PID == 3 && slices.ContainsFunc(s.Advice, func(a string) bool { return strings.Contains(a, "systemctl --user daemon-reload") })
			}},
	} {
		t.Run(name, func(t *testing.T) {
			p.state(c.state)
			if st, err := p.service(nil).Status(t.Context()); err != nil || !c.check(st) {
				t.Errorf("%+v, %v", st, err)
			}
		})
	}
}

func TestLingeringIsAskedForAndExplained(t *testing.T) {
	p := newPlace(t)
	root := filepath.Join(filepath.Dir(p.home), "root")
	lingers := func() (bool, []string) {
		s := p.service(nil).(*systemd)
		s.Root = "" // the units are in the home
		st, err := s.Status(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		return *st.Lingers, st.Advice
	}
	if err := p.service(func(o *Options) { o.NoStart = true }).Install(t.Context()); err != nil {
		t.Fatal(err)
	}
	explained := func(advice []string) bool {
		return slices.ContainsFunc(advice, func(a string) bool { return strings.Contains(a, "loginctl enable-linger me") })
	}
	set := func(v string) {
		if err := os.WriteFile(filepath.Join(filepath.Dir(p.home), "linger"), []byte(v+"\n"), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	set("no")
	if on, advice := lingers(); on || !explained(advice) {
		t.Errorf("off: %v %q", on, advice)
	}
	set("yes")
	if on, advice := lingers(); !on || explained(advice) {
		t.Errorf("on: %v %q", on, advice)
	}
	// Not logged in: logind does not know the user, its folder does.
	os.Remove(filepath.Join(filepath.Dir(p.home), "linger"))
	s := p.service(func(o *Options) { o.Root = root }).(*systemd)
	if s.lingers(t.Context()) {
		t.Error("nobody said so")
	}
	if err := os.MkdirAll(root+"/var/lib/systemd/linger", 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(root+"/var/lib/systemd/linger/me", nil, 0o644); err != nil {
		t.Fatal(err)
	}
	if !s.lingers(t.Context()) {
		t.Error("its file says so")
	}
}

func TestASystemdThatCannotBeReachedIsExplained(t *testing.T) {
	p := newPlace(t)
	if err := os.WriteFile(filepath.Join(filepath.Dir(p.calls), "nobus"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	err := p.service(nil).Install(t.Context())
	if err == nil || !strings.Contains(err.Error(), "No medium found") || !strings.Contains(err.Error(), "XDG_RUNTIME_DIR=/run/user/") {
		t.Errorf("got %v", err)
	}
	if left, _ := filepath.Glob(p.path("*")); len(left) > 0 {
		t.Errorf("it wrote %v", left)
	}
}

func TestAServiceOfTheMachineIsATemplateForEachUser(t *testing.T) {
	p := newPlace(t)
	root := filepath.Join(filepath.Dir(p.home), "root")
	of := func(user string) Service {
		return p.service(func(o *Options) { o.System, o.User, o.Root, o.NoStart = true, user, root, true })
	}
	for _, user := range []string{"root", "nobody"} { // those there are everywhere
		if err := of(user).Install(t.Context()); err != nil {
			t.Fatal(err)
		}
		wants := root + "/etc/systemd/system/sockets.target.wants"
		if err := os.MkdirAll(wants, 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.Symlink("../hermesd@.socket", wants+"/hermesd@"+user+".socket"); err != nil {
			t.Fatal(err)
		}
	}
	calls := p.took()
	if !slices.Contains(calls, "systemctl enable hermesd@nobody.socket hermesd@nobody.service") || !slices.Contains(calls, "systemd-tmpfiles --create "+root+"/etc/tmpfiles.d/hermesd-nobody.conf") {
		t.Errorf("systemd was asked %q", calls)
	}
	unit := p.read(root + "/etc/systemd/system/hermesd@.service")
	if !strings.Contains(unit, "\nUser=%i\n") || !strings.Contains(unit, "\nWantedBy=multi-user.target\n") || strings.Contains(unit, "HERMESD_HOME") {
		t.Errorf("the template:\n%s", unit)
	}
	if text := p.read(root + "/etc/tmpfiles.d/hermesd-nobody.conf"); !strings.Contains(text, "\nd /run/hermesd/nobody 0700 nobody - -\n") || !strings.Contains(text, "../nobody\n") {
		t.Errorf("the folder:\n%s", text)
	}
	if err := of("nobody").Uninstall(t.Context()); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(root + "/etc/systemd/system/hermesd@.service"); err != nil {
		t.Errorf("the other user's template is gone: %v", err)
	}
	if _, err := os.Stat(root + "/etc/tmpfiles.d/hermesd-nobody.conf"); err == nil {
		t.Error("the folder's file stays")
	}
	os.RemoveAll(root + "/etc/systemd/system/sockets.target.wants")
	if err := of("root").Uninstall(t.Context()); err != nil {
		t.Fatal(err)
	}
	if left, _ := filepath.Glob(root + "/etc/*/*/hermesd*"); len(left) > 0 {
		t.Errorf("left is %v", left)
	}
	if err := of("no such user").Install(t.Context()); err == nil || !strings.Contains(err.Error(), `there is no user "no such user"`) {
		t.Errorf("got %v", err)
	}
	if _, err := New(Options{System: true, Getenv: os.Getenv}); err == nil || !strings.Contains(err.Error(), "--for USER") {
		t.Errorf("got %v", err)
	}
}

// nasty is a path with everything that a unit or a plist takes for something
// else.
const nasty = `a %h $HOME ${HOME} "q" \x41 <&> é`

// systemd-analyze says nothing about units that are all right, and exits 0 also
// when it has ignored a key: every word of it is a failure.
func TestSystemdHasNothingToSayAboutTheUnits(t *testing.T) {
	p := newPlace(t)
	if _, err := exec.LookPath("systemd-analyze"); err != nil {
		if os.Getenv("HERMESD_CI") != "" {
			t.Fatal(err)
		}
		t.Skip("systemd-analyze is not installed")
	}
	dir := filepath.Join(filepath.Dir(p.home), nasty)
	if err := os.Mkdir(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	programs := filepath.Join(filepath.Dir(p.home), `a %h $HOME ${HOME} <&>; é`)
	if err := os.Mkdir(programs, 0o755); err != nil {
		t.Fatal(err)
	}
	program := filepath.Join(programs, "hermesd")
	if err := os.WriteFile(program, []byte("#!/bin/sh\n"), 0o755); err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]struct {
		version int
		change  func(*Options)
		units   []string
	}{
		"of a user":     {252, func(*Options) {}, []string{"hermesd.service", "hermesd.socket"}},
		"in old words":  {239, func(*Options) {}, []string{"hermesd.service", "hermesd.socket"}},
		"another home":  {252, func(*Options) { p.env["HERMESD_HOME"] = dir }, []string{"hermesd.service", "hermesd.socket"}},
		"other folders": {252, func(*Options) { p.env["XDG_STATE_HOME"] = dir }, []string{"hermesd.service", "hermesd.socket"}},
		"a named socket": {252, func(o *Options) {
			var err error
			if o.Places, err = o.Places.WithSocket(filepath.Join(dir, "s.sock")); err != nil {
				t.Fatal(err)
			}
		}, []string{"hermesd.service", "hermesd.socket"}},
		"of the machine": {252, func(o *Options) { o.System, o.User = true, "nobody" }, []string{"hermesd@.service", "hermesd@.socket"}},
	} {
		t.Run(name, func(t *testing.T) {
			base := maps.Clone(p.env)
			defer func() { p.env = base }()
			c.change(&Options{}) // sets p.env before the places are found
			s := p.service(func(o *Options) { o.Program = program; c.change(o) }).(*systemd)
			s.version = c.version
			units := filepath.Join(t.TempDir(), "units")
			if err := os.Mkdir(units, 0o755); err != nil {
				t.Fatal(err)
			}
			args := []string{"verify", "--man=no"}
			if !s.System {
				args = append(args, "--user")
			}
			for i, text := range []string{s.serviceText(), s.socketText()} {
				path := filepath.Join(units, c.units[i])
				if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
					t.Fatal(err)
				}
				args = append(args, path)
			}
			cmd := exec.Command("systemd-analyze", args...)
			cmd.Env = append(os.Environ(), "XDG_RUNTIME_DIR="+t.TempDir(), "SYSTEMD_UNIT_PATH="+units+":", "SYSTEMD_LOG_LEVEL=notice")
			if out, err := cmd.CombinedOutput(); err != nil || len(out) > 0 {
				t.Errorf("%v\n%s\n%s%s", err, out, s.serviceText(), s.socketText())
			}
		})
	}
}

func TestTextInUnitsIsTakenAsItIs(t *testing.T) {
	for in, want := range map[string]string{
		"/usr/bin/hermesd": `"/usr/bin/hermesd"`,
		"/a b/100%":        `"/a b/100%%"`,
		`/a"b\c`:           `"/a\"b\\c"`,
		"/$HOME":           `"/$HOME"`,
	} {
		if got := unitCommand(in); got != want {
			t.Errorf("%s: got %s, want %s", in, got, want)
		}
	}
	if got, want := unitCommand("/$x", "$x", "a b", "%i"), `"/$x" "$$x" "a b" "%%i"`; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
	if _, err := newSystemd(Options{Program: `/a "b"/hermesd`, Getenv: os.Getenv}); err == nil || !strings.Contains(err.Error(), "quote") {
		t.Errorf("got %v", err)
	}
	if _, err := New(Options{Program: "/a\nExecStartPre=/bin/evil", Getenv: os.Getenv}); err == nil {
		t.Error("a line break is taken")
	}
}

// parsePlist reads a property list into maps, slices, strings and bools.
func parsePlist(t *testing.T, text string) map[string]any {
	t.Helper()
	dec := xml.NewDecoder(strings.NewReader(text))
	next := func() xml.Token {
		for {
			tok, err := dec.Token()
			if errors.Is(err, io.EOF) {
				return nil
			}
			if err != nil {
				t.Fatalf("%v\n%s", err, text)
			}
			switch x := tok.(type) {
			case xml.StartElement, xml.EndElement:
				return tok
			case xml.CharData:
				if s := strings.TrimSpace(string(x)); s != "" {
					t.Fatalf("text between elements: %q", s)
				}
			}
		}
	}
	var value func(start xml.StartElement) any
	value = func(start xml.StartElement) any {
		switch start.Name.Local {
		case "true", "false":
			if err := dec.Skip(); err != nil {
				t.Fatal(err)
			}
			return start.Name.Local == "true"
		case "string", "integer", "key":
			var s string
			if err := dec.DecodeElement(&s, &start); err != nil {
				t.Fatal(err)
			}
			return s
		case "array":
			list := []any{}
			for {
				switch x := next().(type) {
				case xml.StartElement:
					list = append(list, value(x))
				default:
					return list
				}
			}
		case "dict":
			dict := map[string]any{}
			for {
				key, ok := next().(xml.StartElement)
				if !ok {
					return dict
				}
				if key.Name.Local != "key" {
					t.Fatalf("%s where a key belongs", key.Name.Local)
				}
				name := value(key).(string)
				v, ok := next().(xml.StartElement)
				if !ok {
					t.Fatalf("the key %s has no value", name)
				}
				if _, twice := dict[name]; twice {
					t.Fatalf("the key %s is there twice", name)
				}
				dict[name] = value(v)
			}
		}
		t.Fatalf("unknown element %s", start.Name.Local)
		return nil
	}
	if root, ok := next().(xml.StartElement); !ok || root.Name.Local != "plist" {
		t.Fatalf("no plist:\n%s", text)
	}
	dict, ok := next().(xml.StartElement)
	if !ok {
		t.Fatal("an empty plist")
	}
	return value(dict).(map[string]any)
}

func TestTheAgentOfLaunchdIsAPropertyList(t *testing.T) {
	env := map[string]string{"HOME": "/Users/me", "HERMESD_HOME": "/" + nasty, "PATH": "/usr/bin"}
	places, err := link.Locate(func(name string) string { return env[name] }, "darwin", 501, nil)
	if err != nil {
		t.Fatal(err)
	}
	l := &launchd{Options: Options{Program: "/Applications/" + nasty + "/hermesd", Places: places, Getenv: func(name string) string { return env[name] }}}
	got := parsePlist(t, l.text())
	want := map[string]any{
		"Label":                Label,
		"ProgramArguments":     []any{l.Program, "serve", "--service"},
		"EnvironmentVariables": map[string]any{"HERMESD_HOME": "/" + nasty},
		"RunAtLoad":            true,
		"KeepAlive":            map[string]any{"SuccessfulExit": false},
		"ThrottleInterval":     "1",
		"ExitTimeOut":          "40",
		"AbandonProcessGroup":  true,
		"ProcessType":          "Interactive",
		"StandardErrorPath":    "/" + nasty + "/log/stderr.log",
		"StandardOutPath":      "/" + nasty + "/log/stderr.log",
	}
	if fmt.Sprint(got) != fmt.Sprint(want) {
		t.Errorf("got  %v\nwant %v", got, want)
	}
	dir := t.TempDir()
	path := filepath.Join(dir, "x.plist")
	if err := os.WriteFile(path, []byte(l.text()), 0o600); err != nil {
		t.Fatal(err)
	}
	if state, _, err := stateOf(path); state != Intact || err != nil {
		t.Errorf("its own sum: %s, %v", state, err)
	}
	delete(env, "HERMESD_HOME")
	if got := parsePlist(t, l.text()); got["EnvironmentVariables"] != nil {
		t.Errorf("an environment nobody asked for: %v", got["EnvironmentVariables"])
	}
}

func TestWhatLaunchdSaysOfIt(t *testing.T) {
	l := &launchd{}
	for text, want := range map[string]Status{
		"{\n\t\"LastExitStatus\" = 0;\n\t\"PID\" = 812;\n\t\"Label\" = \"com.github.hermesd\";\n};\n": {Enabled: true, Running: true, PID: 812, State: "running"},
		"{\n\t\"LastExitStatus\" = 256;\n\t\"Label\" = \"com.github.hermesd\";\n};\n":                 {Enabled: true, State: "loaded, not running", Result: "last exit status 256"},
	} {
		var got Status
		l.read(&got, text)
		if fmt.Sprint(got) != fmt.Sprint(want) {
			t.Errorf("got %+v, want %+v", got, want)
		}
	}
}

func TestTheServiceOfWindows(t *testing.T) {
	env := map[string]string{"USERDOMAIN": "PC", "USERNAME": "me", "HERMESD_HOME": `D:\h d`}
	w := &windows{Options: Options{Program: `C:\Program Files\hermesd.exe`, Getenv: func(name string) string { return env[name] }}, account: `PC\me`}
	c := w.config("secret")
	if c.UserName != `PC\me` || c.Executable != w.Program || !slices.Equal(c.Arguments, []string{"serve", "--service"}) || c.EnvVars["HERMESD_HOME"] != `D:\h d` {
		t.Errorf("got %+v", c)
	}
	if c.Option["OnFailure"] != "restart" || c.Option["OnFailureDelayDuration"] != "100ms" || c.Option["Password"] != "secret" {
		t.Errorf("got %v", c.Option)
	}
	if text := w.describe(); strings.Contains(text, "secret") || !strings.Contains(text, "Program Files") {
		t.Errorf("it is described as %s", text)
	}
}
