package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"
	"testing"

	"github.com/hermesd/hermesd/transport/link"
	"github.com/hermesd/hermesd/transport/link/linktest"
)

func TestTheHelloTellsWhoTheEditorIs(t *testing.T) {
	p := linktest.New(t)
	p.Serve()
	env := append(p.Env("ready"), "EDITOR_SAYS=a b\nc=ü", link.ReadyFD+"=3", "NOTIFY_SOCKET=/x")
	s := start(t, env, "--agent", "hello")
	out := s.end(1, "hermesd went away") // this agent closes
	h, ok, err := link.ParseHello([]byte(out))
	if !ok || err != nil {
		t.Fatalf("%q: %v, %v", out, ok, err)
	}
	cwd, _ := os.Getwd()
	if h.Link != link.Number || len(h.ID) != 32 || h.Version == "" || h.PID != s.cmd.Process.Pid || h.Cwd != cwd || h.Agent != "hello" {
		t.Errorf("got %+v", h)
	}
	if h.Env["EDITOR_SAYS"] != "a b\nc=ü" || h.Env["PATH"] != os.Getenv("PATH") {
		t.Errorf("got environment %q", h.Env)
	}
	for _, name := range []string{link.ReadyFD, "NOTIFY_SOCKET"} {
		if v, there := h.Env[name]; there {
			t.Errorf("%s=%s went out", name, v)
		}
	}
}

func TestEverythingSaidBeforeTheEndIsHeardAndAnswered(t *testing.T) {
	p := linktest.New(t)
	p.Serve()
	const lines = 50_000
	var said bytes.Buffer
	for i := range lines {
		fmt.Fprintf(&said, `{"n":%d,"pad":"%s"}`+"\n", i, strings.Repeat("x", i%300))
	}
	for _, agent := range []string{"echo", "count"} {
		s := start(t, p.Env("ready"), "--agent", agent)
		go func() {
			s.stdin.Write(said.Bytes())
			s.stdin.Close()
		}()
		out := s.end(0, "")
		want := said.String()
		if agent == "count" {
			want = fmt.Sprintln(said.Len())
		}
		if out != want {
			t.Errorf("%s: %d bytes came back, want %d", agent, len(out), len(want))
		}
	}
}

func TestTheEditorLeaves(t *testing.T) {
	p := linktest.New(t)
	p.Serve()
	for _, test := range []struct {
		name, agent string
		leave       func(*shim)
	}{
		{"closing its side while nothing runs", "echo", func(s *shim) { s.stdin.Close() }},
		{"closing its side while the daemon never closes", "stay", func(s *shim) { s.stdin.Close() }},
		{"reading no more while nothing is said", "echo", func(s *shim) { s.stdout.Close() }},
		{"reading no more while the daemon talks", "source", func(s *shim) { s.stdout.Close() }},
		{"reading no more and then closing its side", "source", func(s *shim) { s.stdout.Close(); s.stdin.Close() }},
	} {
		t.Run(test.name, func(t *testing.T) {
			s := start(t, p.Env("ready"), "--agent", test.agent)
			if test.agent != "source" {
				s.say("a\n")
				s.expect("a\n")
			}
			test.leave(s)
			s.exited(0, "")
		})
	}
	// The daemon has survived all of it.
	s := start(t, p.Env("ready"))
	s.say("a\n")
	s.expect("a\n")
	s.stdin.Close()
	s.end(0, "")
	if got := p.Starts(); len(got) != 2 {
		t.Errorf("daemons started: %+v", got)
	}
}

func TestWhatWasSaidIsHeardThoughTheEditorReadsNoMore(t *testing.T) {
	p := linktest.New(t)
	p.Serve()
	s := start(t, p.Env("ready"))
	s.stdout.Close()
	// The last words; how the shim ends after them is not the point.
	io.WriteString(s.stdin, "last words\n")
	s.stdin.Close()
	s.exited(0, "")
}

func TestTheDaemonLeaves(t *testing.T) {
	for _, test := range []struct{ name, agent, stderr string }{
		{"closing", "close", "hermesd went away; reconnect from the editor"},
		{"dying", "reset", "hermesd went away; reconnect from the editor"},
		{"killed", "echo", "hermesd went away; reconnect from the editor"},
		{"refusing", "refuse", "hermesd refused the connection: no such agent: refuse"},
	} {
		t.Run(test.name, func(t *testing.T) {
			p := linktest.New(t)
			daemon := p.Serve()
			s := start(t, p.Env("ready"), "--agent", test.agent)
			switch test.agent {
			case "echo":
				s.say("a\n")
				s.expect("a\n")
				daemon.Kill()
			case "refuse":
			default:
				s.say("a\n")
			}
			if out := s.end(1, test.stderr); out != "" {
				t.Errorf("its standard output: %q", out)
			}
			if got := p.Starts(); len(got) != 2 {
				t.Errorf("daemons started: %+v", got)
			}
		})
	}
}

// parentVar makes this binary a parent of a shim that hands it its own pipes,
// tells its process id on standard error and waits to be killed.
const parentVar = "SHIM_TEST_PARENT"

func parentMain() {
	program := os.Getenv(parentVar)
	if program == "" {
		return
	}
	os.Unsetenv(parentVar)
	cmd := exec.Command(program)
	cmd.Stdin, cmd.Stdout = os.Stdin, os.Stdout
	if err := cmd.Start(); err != nil {
		panic(err)
	}
	json.NewEncoder(os.Stderr).Encode(cmd.Process.Pid)
	cmd.Wait()
	os.Exit(0)
}

// Others may hold the pipes of an editor that died, so their end is no sign.
func TestTheShimEndsWithItsParent(t *testing.T) {
	p := linktest.New(t)
	p.Serve()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	parent := exec.Command(self)
	parent.Env = append(p.Env("ready"), parentVar+"="+shimProgram)
	inR, stdin, err := os.Pipe() // not StdinPipe, which Wait closes
	if err != nil {
		t.Fatal(err)
	}
	defer stdin.Close()
	parent.Stdin = inR
	outR, outW, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer outR.Close()
	parent.Stdout = outW
	stderr, err := parent.StderrPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := parent.Start(); err != nil {
		t.Fatal(err)
	}
	inR.Close()
	outW.Close()
	var pid int
	if err := json.NewDecoder(stderr).Decode(&pid); err != nil {
		t.Fatal(err)
	}
	io.WriteString(stdin, "a\n")
	b := make([]byte, 2)
	if _, err := io.ReadFull(outR, b); err != nil {
		t.Fatal(err)
	}
	parent.Process.Kill()
	parent.Wait()
	// Our end of its input is still open. Its output ends when it has ended.
	if rest, err := io.ReadAll(outR); len(rest) != 0 || err != nil {
		t.Errorf("got %q, %v", rest, err)
	}
	linktest.Wait(t, "the end of the shim", func() bool { return !linktest.Alive(pid) })
}
