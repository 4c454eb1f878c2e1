package tool

import (
	"crypto/rand"
	"fmt"
	"os"
	"time"

	"github.com/hermesd/hermesd/agentpool/process"
)

// running is a shell command that runs in a group of its own, with its output.
// Whoever started it calls finish, once exited is closed or when it shall end.
type running struct {
	group   *process.Group
	mark    string // entry of its environment by which what has left the group is found
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
	mark := marker + "=" + rand.Text()
	cmd.Dir, cmd.Env = e.Cwd, append(e.environ(), mark)
	cmd.Stdout, cmd.Stderr = w, w
	p := &running{
		mark: mark,
		out:  newTail(orDefault(e.OutputLimit, defaultOutputLimit)), output: r,
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

// marker is the variable of a command's environment that tells it from others.
const marker = "HERMESD_COMMAND"

// finish ends what is left of the group, the command itself too, and takes the
// rest of the output. With all, because the command was ended and has not ended by
// itself, it also ends what has left the group, as far as it can be found (see
// process.SignalMarked): a daemon that a command has started well lives on.
func (p *running) finish(grace time.Duration, all bool) {
	if p.stdin != nil {
		p.stdin.Close()
	}
	left := all && process.SignalMarked(p.mark, false) > 0
	if p.group.Terminate() || left {
		select {
		case <-p.drained:
		case <-time.After(grace):
		}
	}
	p.group.Kill()
	for tries := 0; all && tries < 10 && process.SignalMarked(p.mark, true) > 0; tries++ {
		// Who was just being started by one that is killed is found the next time.
	}
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
