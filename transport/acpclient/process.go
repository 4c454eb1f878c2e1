package acpclient

import (
	"context"
	"fmt"
	"io"
	"os"
	"os/exec"
	"sync"
	"time"
)

// Process is a Client of a program that speaks ACP on its stdin and stdout: a
// shim, or an agent.
type Process struct {
	*Client
	cmd    *exec.Cmd
	stdin  io.WriteCloser
	stderr *tail
	exited chan struct{}
	err    error // of Wait; read after exited
}

// stderrTail is how much of a program's stderr is kept.
const stderrTail = 64 << 10

// exitGrace is how long a program may take to end after its stdin was closed.
const exitGrace = 10 * time.Second

// Spawn starts the program and a Client on its pipes. cmd's Stdin, Stdout and,
// unless it is set, Stderr are Spawn's.
func Spawn(cmd *exec.Cmd, o Options) (*Process, error) {
	stdin, err := cmd.StdinPipe()
	if err != nil {
		return nil, err
	}
	// Not StdoutPipe: that one is closed when the process has ended, perhaps
	// before its last lines have been read.
	stdout, childStdout, err := os.Pipe()
	if err != nil {
		return nil, err
	}
	p := &Process{cmd: cmd, stdin: stdin, stderr: &tail{max: stderrTail}, exited: make(chan struct{})}
	cmd.Stdout = childStdout
	if cmd.Stderr == nil {
		cmd.Stderr = p.stderr
		// Whatever the program leaves running may hold its stderr open.
		cmd.WaitDelay = time.Second
	}
	err = cmd.Start()
	childStdout.Close()
	if err != nil {
		stdout.Close()
		return nil, fmt.Errorf("starting %s: %w", cmd.Path, err)
	}
	p.Client = New(stdout, stdin, o)
	p.wait.Add(1)
	go func() {
		defer p.wait.Done()
		p.err = cmd.Wait()
		close(p.exited)
	}()
	return p, nil
}

// PID is the process's id.
func (p *Process) PID() int { return p.cmd.Process.Pid }

// Stderr is the end of what the process has written to its stderr so far.
func (p *Process) Stderr() string { return p.stderr.String() }

// Exited is closed when the process has ended; ExitErr then says how.
func (p *Process) Exited() <-chan struct{} { return p.exited }

// ExitErr waits for the end of the process and says how it ended: nil for
// status 0, else an *exec.ExitError.
func (p *Process) ExitErr(ctx context.Context) error {
	select {
	case <-p.exited:
		return p.err
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// Kill ends the process at once (SIGKILL) and returns when it is gone.
func (p *Process) Kill() error {
	err := p.cmd.Process.Kill()
	<-p.exited
	return err
}

// Close closes the process's stdin, as an editor does that leaves, waits until
// it has ended, and returns when nothing of the Client runs. What the process
// writes until then is still received. A process that stays is killed after ten seconds,
// and that is an error.
func (p *Process) Close() error {
	_ = p.stdin.Close()
	var err error
	timer := time.NewTimer(exitGrace)
	defer timer.Stop()
	select {
	case <-p.exited:
	case <-timer.C:
		_ = p.Kill()
		err = fmt.Errorf("%s did not end when its stdin was closed", p.cmd.Path)
	}
	if cerr := p.Client.Close(); err == nil {
		err = cerr
	}
	return err
}

// tail keeps the last max bytes written to it.
type tail struct {
	mu  sync.Mutex
	max int
	buf []byte
}

func (t *tail) Write(b []byte) (int, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.buf = append(t.buf, b...)
	if over := len(t.buf) - t.max; over > 0 {
		t.buf = append(t.buf[:0], t.buf[over:]...)
	}
	return len(b), nil
}

func (t *tail) String() string {
	t.mu.Lock()
	defer t.mu.Unlock()
	return string(t.buf)
}
