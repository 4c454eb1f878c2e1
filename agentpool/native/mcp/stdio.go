package mcp

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/hermesd/hermesd/agentpool/process"
	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	sdk "github.com/modelcontextprotocol/go-sdk/mcp"
)

const (
	// maxMessage is the longest message a server may send.
	maxMessage = 64 << 20

	// exitTime is how long a server has to exit after its input was closed,
	// and once more after it was asked to.
	exitTime = time.Second

	stderrKept = 4 << 10 // bytes of the end
)

// stdioTransport runs a server as a process group of its own and speaks with
// it over stdin and stdout. The SDK's own would end at the first line that is
// no message (npx, for one, says what it installs), reaches the process alone
// and not what it started, and waits for it three times as long.
type stdioTransport struct {
	spec Server
	opts Options
	conn atomic.Pointer[stdioConn] // after Connect
}

// abort ends the process, if there is one, and all it started.
func (t *stdioTransport) abort() {
	if c := t.conn.Load(); c != nil {
		c.Close()
	}
}

// Connect implements sdk.Transport: it starts the process.
func (t *stdioTransport) Connect(ctx context.Context) (sdk.Connection, error) {
	environ := slices.Clone(t.opts.Environ(ctx))
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	for _, v := range t.spec.Env {
		environ = append(environ, v.Name+"="+v.Value)
	}
	program, err := process.Find(t.spec.Command, t.opts.Cwd, environ)
	if err != nil {
		return nil, fmt.Errorf("there is no program %q on the PATH of the daemon: write its whole path, or set PATH in the server's environment", t.spec.Command)
	}
	cmd := exec.Command(program, t.spec.Args...)
	cmd.Args[0] = t.spec.Command
	cmd.Dir, cmd.Env = t.opts.Cwd, environ
	c := &stdioConn{spec: t.spec, cmd: cmd, stderr: process.NewTail(stderrKept), lines: make(chan []byte), closing: make(chan struct{}), exited: make(chan struct{})}
	cmd.Stderr = c.stderr
	// What it started may hold its stderr open; that is ended with the group.
	cmd.WaitDelay = exitTime
	if c.stdin, err = cmd.StdinPipe(); err != nil {
		return nil, fmt.Errorf("making a pipe: %w", err)
	}
	out, w, err := os.Pipe() // of our own: Wait would close that of StdoutPipe under the reader
	if err != nil {
		return nil, fmt.Errorf("making a pipe: %w", err)
	}
	cmd.Stdout = w
	c.stdout = out
	c.group, err = process.Start(cmd)
	w.Close()
	if err != nil {
		out.Close()
		return nil, process.StartError(err)
	}
	go c.wait()
	go c.read()
	t.conn.Store(c)
	return c, nil
}

// stdioConn is a connection to a process. It implements sdk.Connection.
type stdioConn struct {
	spec   Server
	cmd    *exec.Cmd
	group  *process.Group
	stdin  io.WriteCloser
	stdout *os.File
	stderr *process.Tail

	lines   chan []byte
	broken  error // why lines was closed; read it after that
	queue   []jsonrpc.Message
	writing sync.Mutex

	once    sync.Once
	closing chan struct{}
	exited  chan struct{} // the process has been waited for
	status  error         // of it
}

// wait ends when the process and everything it started have ended.
func (c *stdioConn) wait() {
	defer close(c.exited)
	c.status = c.cmd.Wait()
	// What is left of the group has nobody to serve any more.
	if c.group.Terminate() {
		timer := time.NewTimer(exitTime / 4)
		defer timer.Stop()
		<-timer.C
		c.group.Kill()
	}
	c.group.Close()
	// Nor has what left the group and still holds its output.
	_ = c.stdout.SetReadDeadline(time.Now().Add(exitTime))
}

// read gives the lines that may be messages to lines.
func (c *stdioConn) read() {
	defer c.stdout.Close()
	defer close(c.lines)
	r := bufio.NewReaderSize(c.stdout, 64<<10)
	for {
		line, err := readLine(r)
		if line = bytes.TrimSpace(bytes.TrimPrefix(line, []byte("\uFEFF"))); len(line) > 0 && (line[0] == '{' || line[0] == '[') {
			select {
			case c.lines <- line:
			case <-c.closing:
				return
			}
		}
		if err != nil {
			c.broken = err
			return
		}
	}
}

var errTooLong = fmt.Errorf("it sent a message of more than %d MiB", maxMessage>>20)

// readLine reads to the next newline, or to the end.
func readLine(r *bufio.Reader) ([]byte, error) {
	var line []byte
	for {
		part, err := r.ReadSlice('\n')
		line = append(line, part...)
		switch {
		case len(line) > maxMessage:
			return nil, errTooLong
		case errors.Is(err, bufio.ErrBufferFull):
			continue
		}
		return line, err
	}
}

// Read implements sdk.Connection. Lines that are no JSON-RPC are passed over:
// servers print what they like.
func (c *stdioConn) Read(ctx context.Context) (jsonrpc.Message, error) {
	for {
		if len(c.queue) > 0 {
			m := c.queue[0]
			c.queue = c.queue[1:]
			return m, nil
		}
		select {
		case <-ctx.Done():
			return nil, ctx.Err()
		case <-c.closing:
			return nil, io.EOF
		case line, ok := <-c.lines:
			if !ok {
				return nil, io.EOF
			}
			c.queue = messages(line)
		}
	}
}

// messages reads a line: a message, or a batch of them as old servers send it.
func messages(line []byte) []jsonrpc.Message {
	batch := []json.RawMessage{line}
	if line[0] == '[' && json.Unmarshal(line, &batch) != nil {
		return nil
	}
	var all []jsonrpc.Message
	for _, raw := range batch {
		if m, err := jsonrpc.DecodeMessage(raw); err == nil {
			all = append(all, m)
		}
	}
	return all
}

// Write implements sdk.Connection.
func (c *stdioConn) Write(ctx context.Context, m jsonrpc.Message) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	data, err := jsonrpc.EncodeMessage(m)
	if err != nil {
		return fmt.Errorf("encoding a message: %w", err)
	}
	c.writing.Lock()
	defer c.writing.Unlock()
	// A server that reads nothing would keep us here: Close closes the pipe.
	_, err = c.stdin.Write(append(data, '\n'))
	return err
}

// SessionID implements sdk.Connection.
func (c *stdioConn) SessionID() string { return "" }

// Close implements sdk.Connection. It closes the server's input, asks it to
// end and ends it, and returns when nothing of it runs any more.
func (c *stdioConn) Close() error {
	c.once.Do(func() {
		close(c.closing)
		c.stdin.Close()
	})
	for _, end := range []func(){func() { c.group.Terminate() }, c.group.Kill} {
		timer := time.NewTimer(exitTime)
		select {
		case <-c.exited:
			timer.Stop()
			return nil
		case <-timer.C:
			end()
		}
	}
	<-c.exited
	return nil
}

// why says what became of the process, once it has ended or is given up.
func (c *stdioConn) why() string {
	timer := time.NewTimer(exitTime)
	defer timer.Stop()
	said := "it closed its output"
	select {
	case <-c.exited:
		said = "it exited"
		if c.status != nil && !errors.Is(c.status, exec.ErrWaitDelay) {
			said = "it ended with " + c.status.Error()
		}
	case <-timer.C:
	}
	select {
	case _, more := <-c.lines:
		if !more && errors.Is(c.broken, errTooLong) {
			said = c.broken.Error()
		}
	default:
	}
	if last := c.spec.lastWords(c.stderr); last != "" {
		said += "; the last it said was: " + last
	}
	return said
}
