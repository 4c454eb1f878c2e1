// Package linktest is a daemon for tests of what stands before the daemon: it
// listens, welcomes and answers like hermesd, and does nothing else.
//
// A test binary becomes this daemon when it is run with HERMESD_FAKE in its
// environment, see [Main]; [Env] makes an environment in which a shim that is
// looking for hermesd finds it.
//
// How it starts is the value of HERMESD_FAKE:
//
//	ready    as it should
//	error    reports that it cannot start
//	die      ends without a report, with a line on its standard error
//	hang     is never ready and ends with SIGTERM
//
// What it does with a connection is the hello's agent:
//
//	(none)   every line comes back; it closes when the client has closed its side
//	refuse   the welcome carries an error
//	close    closes after the first line
//	reset    ends the process after the first line, without closing anything
//	stay     like none, but never closes
//	deaf     welcomes and reads nothing
//	count    answers with the number of bytes read when the client has closed its side
//	source   writes until it cannot
//	hello    sends the hello back
package linktest

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/hermesd/hermesd/transport"
	"github.com/hermesd/hermesd/transport/link"
)

const (
	modeVar = "HERMESD_FAKE"
	bookVar = "HERMESD_FAKE_BOOK"
	lifeVar = "HERMESD_FAKE_LIFE"
)

// Main runs the daemon and ends the process if the environment asks for it. It
// is the first call of TestMain.
func Main() {
	mode := os.Getenv(modeVar)
	if mode == "" || len(os.Args) < 2 || os.Args[1] != "serve" {
		return
	}
	if err := serve(mode, os.Args[2:]); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	os.Exit(0)
}

// Start is what one started daemon wrote about itself.
type Start struct {
	PID, PPID, PGID, SID int
	Cwd                  string
	Args                 []string
	Files                []string // what descriptors 0, 1, 2 and the others are, where the system tells
	Ready                bool
}

// Place is a folder with everything of one daemon.
type Place struct {
	t    testing.TB
	Dir  string
	book string
}

// New makes a place. Whatever daemons were started in it end when the test does:
// each holds a connection to the test's process, its lifeline.
func New(t testing.TB) *Place {
	t.Helper()
	// Not t.TempDir: the name of the test would make sockets' paths too long.
	dir, err := os.MkdirTemp("", "hd")
	if err != nil {
		t.Fatal(err)
	}
	p := &Place{t: t, Dir: dir, book: filepath.Join(dir, "book")}
	life, err := net.Listen("unix", p.life())
	if err != nil {
		t.Fatal(err)
	}
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		for {
			c, err := life.Accept()
			if err != nil {
				return
			}
			defer c.Close()
		}
	}()
	t.Cleanup(func() {
		life.Close()
		<-ended
		os.RemoveAll(dir)
	})
	return p
}

func (p *Place) life() string { return filepath.Join(p.Dir, "life") }

// Env returns the environment of a shim that finds this test binary as its
// daemon, in a mode.
func (p *Place) Env(mode string) []string {
	self, err := os.Executable()
	if err != nil {
		p.t.Fatal(err)
	}
	env := []string{
		"HERMESD=" + self,
		"HERMESD_HOME=" + filepath.Join(p.Dir, "home"),
		modeVar + "=" + mode,
		bookVar + "=" + p.book,
		lifeVar + "=" + p.life(),
		"GORACE=atexit_sleep_ms=0", // the race detector's programs else take a second to end
	}
	for _, name := range []string{"PATH", "HOME", "TMPDIR", "SystemRoot", "GOCOVERDIR"} {
		if v, ok := os.LookupEnv(name); ok {
			env = append(env, name+"="+v)
		}
	}
	return env
}

// Places returns where the daemon of [Place.Env] is.
func (p *Place) Places() link.Places {
	p.t.Helper()
	places, err := link.Locate(func(name string) string {
		if name == "HERMESD_HOME" {
			return filepath.Join(p.Dir, "home")
		}
		return ""
	}, "linux", os.Getuid(), func(string) link.Owner { return link.Absent })
	if err != nil {
		p.t.Fatal(err)
	}
	return places
}

// Starts returns the daemons started so far, also those that failed.
func (p *Place) Starts() []Start {
	p.t.Helper()
	b, err := os.ReadFile(p.book)
	if err != nil && !os.IsNotExist(err) {
		p.t.Fatal(err)
	}
	var all []Start
	for line := range strings.Lines(string(b)) {
		var s Start
		if err := json.Unmarshal([]byte(line), &s); err != nil {
			p.t.Fatalf("%v in %q", err, line)
		}
		all = append(all, s)
	}
	return all
}

// Ready returns the daemons that got ready.
func (p *Place) Ready() []Start {
	var ready []Start
	for _, s := range p.Starts() {
		if s.Ready {
			ready = append(ready, s)
		}
	}
	return ready
}

// Serve starts a daemon by hand, waits until it is ready and returns its
// process. It ends with the test.
func (p *Place) Serve() *os.Process {
	p.t.Helper()
	r, w, err := os.Pipe()
	if err != nil {
		p.t.Fatal(err)
	}
	defer r.Close()
	env := p.Env("ready")
	cmd := exec.Command(strings.TrimPrefix(env[0], "HERMESD="), "serve")
	cmd.Env = append(env, link.ReadyFD+"=3")
	cmd.Stderr = os.Stderr
	cmd.ExtraFiles = []*os.File{w}
	err = cmd.Start()
	w.Close()
	if err != nil {
		p.t.Fatal(err)
	}
	p.t.Cleanup(func() { cmd.Process.Kill(); cmd.Wait() })
	if got, err := io.ReadAll(r); string(got) != "ready\n" {
		p.t.Fatalf("the daemon reports %q, %v", got, err)
	}
	return cmd.Process
}

// Alive tells whether a process exists.
func Alive(pid int) bool {
	proc, err := os.FindProcess(pid)
	return err == nil && proc.Signal(syscall.Signal(0)) == nil
}

// Wait polls until ok, and fails the test if that takes too long.
func Wait(t testing.TB, what string, ok func() bool) {
	t.Helper()
	for deadline := time.Now().Add(20 * time.Second); !ok(); time.Sleep(2 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("in vain waited for: %s", what)
		}
	}
}

func note(s Start) error {
	f, err := os.OpenFile(os.Getenv(bookVar), os.O_WRONLY|os.O_CREATE|os.O_APPEND, 0o600)
	if err != nil {
		return err
	}
	defer f.Close()
	b, err := json.Marshal(s)
	if err != nil {
		return err
	}
	_, err = f.Write(append(b, '\n'))
	return err
}

func serve(mode string, args []string) error {
	life, err := net.Dial("unix", os.Getenv(lifeVar))
	if err != nil {
		return err
	}
	go func() {
		io.Copy(io.Discard, life)
		os.Exit(0)
	}()
	me := Start{PID: os.Getpid(), PPID: os.Getppid(), Args: args, Files: files()}
	me.Cwd, _ = os.Getwd()
	me.PGID, me.SID = group()
	if err := note(me); err != nil {
		return err
	}
	switch mode {
	case "error":
		err := errors.New("the disk\nis full")
		transport.NotifyReady(err)
		return err
	case "die":
		return errors.New("some noise\npanic: out of luck")
	case "hang":
		time.Sleep(time.Hour)
	}
	places, err := link.Here()
	if len(args) == 2 && args[0] == "--socket" && err == nil {
		places, err = places.WithSocket(args[1])
	}
	if err != nil {
		return err
	}
	l, err := transport.Listen(context.Background(), transport.ListenConfig{Places: places})
	if err == nil {
		defer l.Close()
		me.Ready = true
		err = note(me) // before anybody can look for it
	}
	transport.NotifyReady(err)
	if err != nil {
		return err
	}
	for {
		c, err := l.Accept()
		if err != nil {
			return err
		}
		go answer(c)
	}
}

func answer(c *transport.Conn) {
	defer c.Close()
	h, ok, rest, err := link.ReadHello(c)
	if err != nil {
		c.Write(link.Welcome{Link: link.Number, Error: err.Error()}.Line())
		return
	}
	if !ok {
		io.Copy(c, rest)
		return
	}
	w := link.Welcome{Link: link.Agree(h.Link), Version: "fake", PID: os.Getpid(), Epoch: "1"}
	if h.Agent == "refuse" {
		w.Error = "no such agent:\nrefuse"
	}
	if _, err := c.Write(w.Line()); err != nil || w.Error != "" {
		return
	}
	lines := bufio.NewReader(rest)
	switch h.Agent {
	case "close":
		lines.ReadString('\n')
	case "reset":
		lines.ReadString('\n')
		os.Exit(7)
	case "stay":
		io.Copy(c, lines)
		select {}
	case "deaf":
		select {}
	case "count":
		n, _ := io.Copy(io.Discard, lines)
		fmt.Fprintln(c, n)
	case "source":
		chunk := []byte(strings.Repeat(strings.Repeat("x", 199)+"\n", 300))
		for err == nil {
			_, err = c.Write(chunk)
		}
	case "hello":
		c.Write(h.Line())
	default:
		io.Copy(c, lines)
	}
}
