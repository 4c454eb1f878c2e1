package tool

import (
	"fmt"
	"os"
	"time"

	"github.com/hermesd/hermesd/agentpool/process"
)

// running is a shell command that runs in a group of its own, with its output.
// Whoever started it calls finish, once exited is closed or when it shall end.
type running struct {
	group   *process.Group
	out     *tail
	stdin   *os.File      // nil: it has none
	exited  chan struct{} // closed when the command itself is over
	exit    error         // why, once exited is closed
	drained chan struct{} // closed when nobody can write output any more
	output  *os.File
}

// start starts a command in the session's folder. Two goroutines wait for its
// end and take its output; both have ended when finish returns.
func (e *Env) start(command string, input bool) (*running, error) {
	if err := checkDir(e.Cwd); err != nil {
		return nil, err
	}
	failed := func(err error, open ...*os.File) (*running, error) {
		for _, f := range open {
			f.Close()
		}
		return nil, fmt.Errorf("starting the command: %w", err)
	}
	r, w, err := os.Pipe()
	if err != nil {
		return failed(err)
	}
	cmd := shellCommand(command)
	cmd.Dir, cmd.Env = e.Cwd, e.environ()
	cmd.Stdout, cmd.Stderr = w, w
	p := &running{
		out: newTail(orDefault(e.OutputLimit, defaultOutputLimit)), output: r,
		exited: make(chan struct{}), drained: make(chan struct{}),
	}
	var in *os.File
	if input {
		if in, p.stdin, err = os.Pipe(); err != nil {
			return failed(err, r, w)
		}
		cmd.Stdin = in
	}
	p.group, err = process.Start(cmd)
	w.Close()
	if in != nil {
		in.Close()
	}
	if err != nil {
		if p.stdin != nil {
			p.stdin.Close()
		}
		return failed(err, r)
	}
	go func() { // ends when the pipe does or is closed by finish
		defer close(p.drained)
		buf := make([]byte, 32<<10)
		for {
			n, err := r.Read(buf)
			p.out.Write(buf[:n])
			if err != nil {
				return
			}
		}
	}()
	go func() { // ends with the process, which finish kills
		p.exit = cmd.Wait()
		close(p.exited)
	}()
	return p, nil
}

// finish ends what is left of the group, the command itself too, and takes the
// rest of the output. Nothing of it runs when it returns.
func (p *running) finish(grace time.Duration) {
	if p.stdin != nil {
		p.stdin.Close()
	}
	if p.group.Terminate() {
		select {
		case <-p.drained:
		case <-time.After(grace):
		}
	}
	p.group.Kill()
	<-p.exited
	select {
	case <-p.drained:
	case <-time.After(200 * time.Millisecond):
		// Somebody who left the group still holds the pipe.
	}
	p.output.Close()
	<-p.drained
	p.group.Close()
}
