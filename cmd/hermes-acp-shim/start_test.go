package main

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/hermesd/hermesd/transport/link/linktest"
)

func TestOneShimStartsADaemonAndTheNextUsesIt(t *testing.T) {
	p := linktest.New(t)
	for range 3 {
		s := start(t, p.Env("ready"))
		s.say("a\n")
		s.expect("a\n")
		s.stdin.Close()
		s.end(0, "")
	}
	if got := p.Starts(); len(p.Ready()) != 1 || len(got) != 2 {
		t.Errorf("daemons started: %+v", got)
	}
}

func TestTwentyShimsAtOnceGetOneDaemon(t *testing.T) {
	for _, how := range []string{"nothing there", "after a crash"} {
		t.Run(how, func(t *testing.T) {
			p := linktest.New(t)
			killed := 0
			if how == "after a crash" {
				daemon := p.Serve()
				killed = 1
				daemon.Kill()
				daemon.Wait()
				if _, err := os.Lstat(p.Places().Socket); err != nil {
					t.Fatal("a crash leaves no socket: the test tests nothing")
				}
			}
			shims := make([]*shim, 20)
			for i := range shims {
				shims[i] = start(t, p.Env("ready"))
			}
			for i, s := range shims {
				s.say(fmt.Sprintln(i))
			}
			for i, s := range shims {
				s.expect(fmt.Sprintln(i))
				s.stdin.Close()
				s.end(0, "")
			}
			if got := p.Ready(); len(got) != 1+killed {
				t.Errorf("%d daemons got ready", len(got)-killed)
			}
			if got := p.Starts(); len(got) != 2*(1+killed) {
				t.Errorf("daemons started: %+v", got)
			}
		})
	}
}

func TestNoDaemonNoStart(t *testing.T) {
	p := linktest.New(t)
	s := start(t, p.Env("ready"), "--no-start")
	if out := s.end(3, "start one with: hermesd serve"); out != "" {
		t.Errorf("its standard output: %q", out)
	}
	if len(p.Starts()) != 0 {
		t.Error("it started one")
	}
	p.Serve()
	s = start(t, p.Env("ready"), "--no-start")
	s.stdin.Close()
	s.end(0, "")
}

func TestWhyThereIsNoDaemonIsSaid(t *testing.T) {
	p := linktest.New(t)
	file := filepath.Join(p.Dir, "file")
	if err := os.WriteFile(file, []byte("precious"), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, test := range []struct {
		name   string
		env    []string
		args   []string
		stderr string
	}{
		{"it cannot start", p.Env("error"), nil, "hermesd did not start: the disk is full"},
		{"it dies", p.Env("die"), nil, "ended before it was ready: panic: out of luck; see "},
		{"it is not there", with(p.Env("ready"), "HERMESD", filepath.Join(p.Dir, "none")), nil, "HERMESD names " + p.Dir},
		{"it is nowhere", with(with(p.Env("ready"), "HERMESD", ""), "PATH", "/nowhere"), nil, "looked for " + filepath.Join(filepath.Dir(shimProgram), "hermesd")},
		{"a file at the socket's path", p.Env("ready"), []string{"--socket", file}, "is not a socket (it is a regular file)"},
		{"a relative socket", p.Env("ready"), []string{"--socket", "x.sock"}, "is a relative path"},
		{"a relative home", with(p.Env("ready"), "HERMESD_HOME", "x"), nil, "HERMESD_HOME is the relative path"},
		{"a home whose path is too long", with(p.Env("ready"), "HERMESD_HOME", filepath.Join(p.Dir, strings.Repeat("x", 120))), nil, "set HERMESD_HOME (or XDG_RUNTIME_DIR) to a shorter folder"},
	} {
		t.Run(test.name, func(t *testing.T) {
			s := start(t, test.env, test.args...)
			if out := s.end(1, test.stderr); out != "" {
				t.Errorf("its standard output: %q", out)
			}
		})
	}
	if b, _ := os.ReadFile(file); string(b) != "precious" {
		t.Error("the file was touched")
	}
	if len(p.Ready()) != 0 {
		t.Error("a daemon got ready")
	}
}

func TestANamedSocketHasADaemonOfItsOwn(t *testing.T) {
	p := linktest.New(t)
	p.Serve()
	socket := filepath.Join(p.Dir, "other.sock")
	s := start(t, p.Env("ready"), "--socket", socket)
	s.say("a\n")
	s.expect("a\n")
	s.stdin.Close()
	s.end(0, "")
	ready := p.Ready()
	if len(ready) != 2 || !slices.Equal(ready[1].Args, []string{"--socket", socket}) {
		t.Errorf("daemons: %+v", ready)
	}
}

func TestUsage(t *testing.T) {
	for _, test := range []struct {
		args   []string
		code   int
		stdout string
		stderr string
	}{
		{[]string{"--version"}, 0, "hermes-acp-shim ", ""},
		{[]string{"--help"}, 0, "usage: hermes-acp-shim", ""},
		{[]string{"--nonsense"}, 2, "", "--help"},
		{[]string{"word"}, 2, "", `unexpected argument "word"`},
		{[]string{"--agent"}, 2, "", "--help"},
		{[]string{"detach"}, 1, "", ""}, // internal: nothing to report on
	} {
		t.Run(strings.Join(test.args, " "), func(t *testing.T) {
			s := start(t, []string{"GORACE=atexit_sleep_ms=0"}, test.args...)
			out := s.end(test.code, test.stderr)
			if !strings.HasPrefix(out, test.stdout) || test.stdout == "" && out != "" {
				t.Errorf("its standard output: %q", out)
			}
		})
	}
}

// with returns env with a variable changed; "" takes it out.
func with(env []string, name, value string) []string {
	env = slices.DeleteFunc(slices.Clone(env), func(kv string) bool { return strings.HasPrefix(kv, name+"=") })
	if value == "" {
		return env
	}
	return append(env, name+"="+value)
}
