package main

import (
	"bytes"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/hermesd/hermesd/transport/link/linktest"
	"golang.org/x/sys/unix"
)

// A daemon that is found by walking down from the editor, or holds something of
// it, ends with it or keeps it from ending.
func TestAStartedDaemonIsNotTheEditors(t *testing.T) {
	p := linktest.New(t)
	// An editor that leaks a descriptor, as many do.
	leakR, leakW, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer leakR.Close()
	cmd := exec.Command(shimProgram)
	cmd.Env = p.Env("ready")
	cmd.Stdin = strings.NewReader("a\n")
	// Several: a start makes use of the first numbers itself.
	cmd.ExtraFiles = []*os.File{leakW, leakW, leakW, leakW, leakW, leakW}
	out, err := cmd.Output()
	leakW.Close()
	if string(out) != "a\n" || err != nil {
		t.Fatalf("got %q, %v", out, err)
	}
	ready := p.Ready()
	if len(ready) != 1 {
		t.Fatalf("daemons: %+v", ready)
	}
	d := ready[0]
	if d.SID != d.PID || d.PGID != d.PID {
		t.Errorf("session %d and process group %d, not its own (%d)", d.SID, d.PGID, d.PID)
	}
	if d.Cwd != "/" {
		t.Errorf("it works in %s", d.Cwd)
	}
	if d.PPID == cmd.Process.Pid || d.PPID == os.Getpid() {
		t.Errorf("it is a child of the shim or of the editor")
	}
	stderrLog := p.Places().Log + "/stderr.log"
	pipes := 0
	for _, f := range d.Files {
		fd, to, _ := strings.Cut(f, " ")
		switch {
		case fd == "0" && to == os.DevNull:
		case fd == "0" || (fd == "1" || fd == "2") && to != stderrLog:
			t.Errorf("descriptor %s is %s", fd, to)
		case strings.HasPrefix(to, "pipe:"):
			pipes++
		}
	}
	if pipes != 1 {
		t.Errorf("it has %d pipes, want only the one to report on: %q", pipes, d.Files)
	}
	// The leaked pipe has no other writer left, though the daemon lives.
	if b, err := io.ReadAll(leakR); len(b) != 0 || err != nil {
		t.Errorf("got %q, %v", b, err)
	}
	if !linktest.Alive(d.PID) {
		t.Error("the daemon has ended")
	}
}

func TestAStoppedDaemonIsNotTakenForDead(t *testing.T) {
	p := linktest.New(t)
	daemon := p.Serve()
	stop(t, daemon)
	before, err := os.Lstat(p.Places().Socket)
	if err != nil {
		t.Fatal(err)
	}
	s := start(t, p.Env("ready"))
	s.say("a\n")
	resume(t, daemon)
	s.expect("a\n")
	s.stdin.Close()
	s.end(0, "")
	after, err := os.Lstat(p.Places().Socket)
	if err != nil || !os.SameFile(before, after) {
		t.Errorf("the socket is another one: %v", err)
	}
	if got := p.Starts(); len(got) != 2 {
		t.Errorf("daemons started: %+v", got)
	}
}

func TestTheEditorLeavesADaemonThatReadsNothing(t *testing.T) {
	p := linktest.New(t)
	p.Serve()
	s := start(t, p.Env("ready"), "--agent", "deaf")
	raw, err := s.stdin.SyscallConn() // Fd would make it blocking
	if err != nil {
		t.Fatal(err)
	}
	full := make(chan error)
	go func() {
		// More than the socket and the pipe hold.
		_, err := s.stdin.Write(bytes.Repeat([]byte("x"), 16<<20))
		full <- err
	}()
	// Full and staying so, as far as one can see.
	seen := 0
	linktest.Wait(t, "the pipe to be full", func() bool {
		raw.Control(func(fd uintptr) {
			if n, err := unix.IoctlGetInt(int(fd), unix.TIOCINQ); err != nil || n < 64<<10 {
				seen = 0
			}
		})
		seen++
		return seen > 50
	})
	s.stdin.Close() // also ends the Write
	<-full
	s.exited(0, "")
}

func TestAnotherUserGetsNothingFromTheDaemon(t *testing.T) {
	p := linktest.New(t)
	p.Serve()
	// As if the folders were open.
	for _, path := range []string{p.Dir, p.Dir + "/home", p.Places().Run} {
		if err := os.Chmod(path, 0o711); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Chmod(p.Places().Socket, 0o666); err != nil {
		t.Fatal(err)
	}
	// The daemon closes the connection without a word. (A listener of root is
	// one that everybody trusts, so the shim goes that far.)
	s := startCommand(t, asNobody(t, p, shimProgram, p.Env("ready"), "--no-start"))
	if out := s.end(1, "hermesd went away"); out != "" {
		t.Errorf("got %q", out)
	}
}

func TestAListenerOfAnotherUserGetsNothingFromTheShim(t *testing.T) {
	p := linktest.New(t)
	if err := os.Chmod(p.Dir, 0o777); err != nil {
		t.Fatal(err)
	}
	socket := p.Dir + "/s.sock"
	squatter := startCommand(t, asNobody(t, p, os.Args[0], []string{squatVar + "=" + socket}))
	squatter.expect("up\n")
	start(t, p.Env("ready"), "--socket", socket).end(1, "belongs to another user (uid 65534, you are 0)")
}

// asNobody returns a command that runs as another user.
func asNobody(t *testing.T, p *linktest.Place, program string, env []string, args ...string) *exec.Cmd {
	t.Helper()
	if os.Getuid() != 0 {
		t.Skip("only root can be somebody else")
	}
	b, err := os.ReadFile(program)
	if err != nil {
		t.Fatal(err)
	}
	open := filepath.Join(p.Dir, filepath.Base(program))
	if err := os.WriteFile(open, b, 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.Chmod(p.Dir, 0o777); err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(open, args...)
	cmd.Env = env
	cmd.Dir = "/"
	cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: 65534, Gid: 65534}}
	return cmd
}

func stop(t *testing.T, p *os.Process) {
	t.Helper()
	if err := p.Signal(syscall.SIGSTOP); err != nil {
		t.Fatal(err)
	}
	linktest.Wait(t, "the daemon to be stopped", func() bool { return state(t, p.Pid) == "T" })
}

func resume(t *testing.T, p *os.Process) {
	t.Helper()
	if err := p.Signal(syscall.SIGCONT); err != nil {
		t.Fatal(err)
	}
}

// state returns a process's state as ps shows it.
func state(t *testing.T, pid int) string {
	t.Helper()
	return status(t, pid, "State")[:1]
}

// status returns a line of /proc/PID/status.
func status(t *testing.T, pid int, name string) string {
	t.Helper()
	b, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(b)) {
		if v, ok := strings.CutPrefix(line, name+":"); ok {
			return strings.TrimSpace(v)
		}
	}
	t.Fatalf("no %s in %s", name, b)
	return ""
}

// TestWhatAnEditorPaysForAShim: every editor window has one.
func TestWhatAnEditorPaysForAShim(t *testing.T) {
	p := linktest.New(t)
	p.Serve()
	cmd := exec.Command(releaseProgram)
	cmd.Env = p.Env("ready")
	s := startCommand(t, cmd)
	frame := bytes.Repeat(append(bytes.Repeat([]byte("x"), 199), '\n'), 500)
	const rounds = 500 // 50 MB each way
	go func() {
		for range rounds {
			s.stdin.Write(frame)
		}
	}()
	if n, err := io.CopyN(io.Discard, s.stdout, int64(rounds*len(frame))); err != nil {
		t.Fatalf("%d bytes came back, %v", n, err)
	}
	hwm := status(t, cmd.Process.Pid, "VmHWM")
	t.Logf("after 50 MB each way: VmHWM %s, VmRSS %s, %s threads", hwm,
		status(t, cmd.Process.Pid, "VmRSS"), status(t, cmd.Process.Pid, "Threads"))
	var kb int
	if _, err := fmt.Sscanf(hwm, "%d kB", &kb); err != nil || kb > 10<<10 {
		t.Errorf("%d kB at most, want at most 10 MB (%v)", kb, err)
	}
	s.stdin.Close()
	s.end(0, "")
}
