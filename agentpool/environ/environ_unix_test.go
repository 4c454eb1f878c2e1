//go:build unix

package environ

import (
	"context"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"go.uber.org/goleak"
)

// TestMain makes this binary the command that prints its environment, and one
// that starts something that stays, in a group or a session of its own.
func TestMain(m *testing.M) {
	if len(os.Args) == 2 && os.Args[1] == "stay" {
		time.Sleep(time.Minute)
		os.Exit(0)
	}
	if len(os.Args) == 4 && os.Args[1] == "start" {
		stays := exec.Command(os.Args[0], "stay")
		stays.SysProcAttr = &syscall.SysProcAttr{Setpgid: os.Args[2] == "group", Setsid: os.Args[2] == "session"}
		if err := stays.Start(); err != nil {
			panic(err)
		}
		if err := os.WriteFile(os.Args[3], []byte(strconv.Itoa(stays.Process.Pid)), 0o600); err != nil {
			panic(err)
		}
		os.Exit(0)
	}
	if len(os.Args) == 2 && os.Args[1] == "printenv0" {
		os.Stdout.Write(Print(os.Environ()))
		os.Exit(0)
	}
	goleak.VerifyTestMain(m)
}

// home is a user whose profile says what is given.
func home(t *testing.T, profile string) *Login {
	t.Helper()
	dir := t.TempDir()
	for _, name := range []string{".bash_profile", ".profile"} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(profile), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	l := &Login{
		Command: []string{self, "printenv0"}, Shell: "/bin/sh", Limit: 20 * time.Second,
		Base:   []string{"HOME=" + dir, "PATH=/usr/bin:/bin", "ONLY_BASE=1", "GORACE=atexit_sleep_ms=0", "SHLVL=7", "ENV="},
		Failed: func(err error) { t.Errorf("it fails: %v", err) },
	}
	if bash, err := exec.LookPath("bash"); err == nil {
		l.Shell = bash
	}
	return l
}

func TestTheEnvironmentOfALoginShell(t *testing.T) {
	for name, c := range map[string]struct{ profile, want string }{
		"plain":                 {"", ""},
		"a version manager":     {"export PATH=$HOME/bin:$PATH", "PATH"},
		"noise":                 {"echo welcome; echo oops >&2; printf 'A=b\\0C=d\\0'", ""},
		"several lines":         {"export MANY='one\ntwo=2\n'", "MANY=one\ntwo=2\n"},
		"a question":            {"read answer; export READ=over", "READ=over"},
		"noise at the end":      {"trap 'echo bye' EXIT", ""},
		"who knows he is alone": {`[ -n "$HERMESD_READS_ENVIRONMENT" ] && export ALONE=1`, "ALONE=1"},
		"a child that stays":    {"sleep 1000 & export CHILD=$!", "CHILD"},
		"an equals sign":        {"export E='a=b=c'", "E=a=b=c"},
	} {
		t.Run(name, func(t *testing.T) {
			l := home(t, c.profile)
			got := l.Environ(t.Context())
			if !slices.Contains(got, "ONLY_BASE=1") {
				t.Errorf("what there was before is gone: %q", got)
			}
			for _, never := range []string{"TERM", "SHLVL", "_", "PWD", marking, "A"} {
				if v := lookup(got, never); v != "" {
					t.Errorf("it has %s=%s", never, v)
				}
			}
			switch c.want {
			case "":
			case "PATH":
				if v := l.Getenv(t.Context(), "PATH"); !strings.HasPrefix(v, lookup(l.Base, "HOME")+"/bin:") {
					t.Errorf("PATH is %q", v)
				}
			case "CHILD":
				gone(t, lookup(got, "CHILD"))
			default:
				if !slices.Contains(got, c.want) {
					t.Errorf("it lacks %q: %q", c.want, got)
				}
			}
		})
	}
}

// gone waits until a process has ended.
func gone(t *testing.T, pid string) {
	t.Helper()
	n, err := strconv.Atoi(pid)
	if err != nil {
		t.Fatal(err)
	}
	for limit := time.Now().Add(10 * time.Second); ; time.Sleep(time.Millisecond) {
		// A zombie that nobody waits for has ended too.
		stat, serr := os.ReadFile("/proc/" + pid + "/stat")
		if errors.Is(syscall.Kill(n, 0), syscall.ESRCH) || serr == nil && strings.Contains(string(stat), ") Z ") {
			return
		}
		if time.Now().After(limit) {
			_ = syscall.Kill(n, syscall.SIGKILL)
			t.Fatalf("process %s of the profile is still there", pid)
		}
	}
}

func TestAShellThatFailsCostsNothingButItsTime(t *testing.T) {
	for name, c := range map[string]struct {
		profile string
		limit   time.Duration
		want    string
	}{
		"it ends":         {"exit 3", time.Minute, "it ended before it said anything"},
		"it hangs":        {"sleep 1000", 200 * time.Millisecond, "it takes longer than 200ms"},
		"it never stops":  {"yes", time.Minute, "it prints more than"},
		"it has no PATH":  {"unset PATH", time.Minute, "it has no PATH"},
		"it is not there": {"", time.Minute, "no such file"},
	} {
		t.Run(name, func(t *testing.T) {
			l := home(t, c.profile)
			l.Limit = c.limit
			if name == "it is not there" {
				l.Shell = filepath.Join(t.TempDir(), "bash")
			}
			var why []error
			l.Failed = func(err error) { why = append(why, err) }
			got := l.Environ(t.Context())
			if !slices.Equal(got, l.Base) || len(why) != 1 || !strings.Contains(why[0].Error(), c.want) {
				t.Errorf("got %q, %v", got, why)
			}
			// It is not asked again and again.
			l.Environ(t.Context())
			if len(why) != 1 {
				t.Error("it is asked again at once")
			}
		})
	}
}

func TestWhatWasReadHoldsForAWhile(t *testing.T) {
	l := home(t, `export N=1`)
	if got := l.Getenv(t.Context(), "N"); got != "1" {
		t.Fatalf("got %q", got)
	}
	change := func(text string) {
		if err := os.WriteFile(filepath.Join(lookup(l.Base, "HOME"), ".bash_profile"), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(lookup(l.Base, "HOME"), ".profile"), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	change("export N=2")
	if got := l.Getenv(t.Context(), "N"); got != "1" {
		t.Errorf("it is asked at every call: %q", got)
	}
	l.asked = l.asked.Add(-Fresh)
	if got := l.Getenv(t.Context(), "N"); got != "2" {
		t.Errorf("a changed profile is not seen: %q", got)
	}
	l.asked = l.asked.Add(-Fresh)
	l.Failed = func(error) {}
	change("exit 1")
	if got := l.Getenv(t.Context(), "N"); got != "2" {
		t.Errorf("a profile that fails takes away what there was: %q", got)
	}
	// Whoever does not wait for it leaves it to the next one.
	l.got, l.asked = nil, time.Time{}
	change("export N=3")
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if got := l.Environ(ctx); !slices.Equal(got, l.Base) {
		t.Errorf("got %q", got)
	}
	if got := l.Getenv(t.Context(), "N"); got != "3" {
		t.Errorf("got %q", got)
	}
}

func TestWhoComesMeanwhileWaitsForTheSameAnswer(t *testing.T) {
	l := home(t, `echo x >>$HOME/asked; export N=1`)
	got := make(chan string)
	for range 8 {
		go func() { got <- l.Getenv(t.Context(), "N") }()
	}
	for range 8 {
		if n := <-got; n != "1" {
			t.Errorf("got %q", n)
		}
	}
	if b, err := os.ReadFile(filepath.Join(lookup(l.Base, "HOME"), "asked")); string(b) != "x\n" {
		t.Errorf("the shell was started for %q, %v", b, err)
	}
}

func TestWhichShell(t *testing.T) {
	for in, want := range map[string]string{
		"/usr/bin/zsh": "/usr/bin/zsh -i -l", "/opt/fish": "/opt/fish -i -l", "/bin/tcsh": "/bin/sh -l", "/usr/bin/nu": "/bin/sh -l", "/sbin/nologin": "/bin/sh -l",
	} {
		shell, flags := (&Login{}).shell([]string{"SHELL=" + in})
		if got := strings.Join(append([]string{shell}, flags...), " "); got != want {
			t.Errorf("%s: got %s, want %s", in, got, want)
		}
	}
	if got := quoted([]string{"/a b/it's", "x"}); got != `'/a b/it'\''s' 'x'` {
		t.Errorf("got %s", got)
	}
}
