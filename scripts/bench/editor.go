//go:build unix

package main

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/hermesd/hermesd/daemon/daemontest"
)

// editor is a shim with an editor that does as little as it can: what it costs
// is taken from the same two cores.
type editor struct {
	cmd    *exec.Cmd
	in     *os.File
	out    *bufio.Reader
	stderr bytes.Buffer
	id     int
	frames int // lines read that were no answers
	bytes  int64
}

// open starts a shim. began is the moment before.
func open(h *daemontest.Home) (e *editor, began time.Time, err error) {
	e = &editor{cmd: exec.Command(filepath.Join(h.Bin, "hermes-acp-shim"))}
	e.cmd.Dir, e.cmd.Env, e.cmd.Stderr = h.Work, h.Env, &e.stderr
	e.cmd.WaitDelay = 5 * time.Second
	inR, inW, err := pipe()
	if err != nil {
		return nil, began, err
	}
	outR, outW, err := pipe()
	if err != nil {
		return nil, began, err
	}
	e.cmd.Stdin, e.cmd.Stdout, e.in = inR, outW, inW
	e.out = bufio.NewReaderSize(outR, 256<<10)
	began = time.Now()
	err = e.cmd.Start()
	inR.Close()
	outW.Close()
	if err != nil {
		inW.Close()
		outR.Close()
	}
	return e, began, err
}

// pipe is os.Pipe whose ends block their thread: the editor would else pay for
// waking Go's poller at every line, and be measured with it.
func pipe() (r, w *os.File, err error) {
	var fds [2]int
	syscall.ForkLock.RLock()
	defer syscall.ForkLock.RUnlock()
	if err := syscall.Pipe(fds[:]); err != nil {
		return nil, nil, os.NewSyscallError("pipe", err)
	}
	for _, fd := range fds {
		syscall.CloseOnExec(fd)
	}
	return os.NewFile(uintptr(fds[0]), "|0"), os.NewFile(uintptr(fds[1]), "|1"), nil
}

// close ends the editor and waits for its shim.
func (e *editor) close() {
	_ = e.in.Close()
	_, _ = io.Copy(io.Discard, e.out) // until the shim has gone
	_ = e.cmd.Wait()
}

const initialize = `{"jsonrpc":"2.0","id":0,"method":"initialize","params":{"protocolVersion":1,"clientCapabilities":{},"clientInfo":{"name":"bench","version":"1"}}}`

// ready opens an editor that has initialized.
func ready(h *daemontest.Home) (*editor, error) {
	e, _, err := open(h)
	if err != nil {
		return nil, err
	}
	if err := e.write(initialize); err != nil {
		return nil, err
	}
	_, err = e.answer(0)
	return e, err
}

func (e *editor) write(line string) error {
	_, err := io.WriteString(e.in, line+"\n")
	return err
}

// send makes a request and returns its id.
func (e *editor) send(method string, params any) (int, error) {
	e.id++
	line, err := json.Marshal(map[string]any{"jsonrpc": "2.0", "id": e.id, "method": method, "params": params})
	if err != nil {
		return 0, err
	}
	return e.id, e.write(string(line))
}

// line reads one line without copying it.
func (e *editor) line() ([]byte, error) {
	line, err := e.out.ReadSlice('\n')
	for long := []byte(nil); errors.Is(err, bufio.ErrBufferFull); {
		long = append(long, line...)
		if line, err = e.out.ReadSlice('\n'); err == nil || !errors.Is(err, bufio.ErrBufferFull) {
			line = append(long, line...)
		}
	}
	if err != nil {
		return nil, fmt.Errorf("reading from the shim: %w; it said %q", err, e.stderr.String())
	}
	e.bytes += int64(len(line))
	return line, nil
}

// answer reads until the answer to an id and counts what comes before.
func (e *editor) answer(id int) ([]byte, error) {
	mark := []byte(`"id":` + strconv.Itoa(id) + `,`)
	for {
		line, err := e.line()
		if err != nil {
			return nil, err
		}
		if head := line[:min(len(line), 64)]; !bytes.Contains(head, mark) || bytes.Contains(head, []byte(`"method"`)) {
			e.frames++
			continue
		}
		var f struct {
			Result json.RawMessage
			Error  json.RawMessage
		}
		if err := json.Unmarshal(line, &f); err != nil {
			return nil, err
		}
		if f.Error != nil {
			return nil, fmt.Errorf("answered with the error %s", f.Error)
		}
		return f.Result, nil
	}
}

func (e *editor) call(method string, params any) ([]byte, error) {
	id, err := e.send(method, params)
	if err != nil {
		return nil, err
	}
	return e.answer(id)
}

type obj = map[string]any

func (e *editor) session(cwd string) (string, error) {
	result, err := e.call("session/new", obj{"cwd": cwd, "mcpServers": []any{}})
	if err != nil {
		return "", fmt.Errorf("session/new: %w", err)
	}
	var made struct{ SessionID string }
	return made.SessionID, json.Unmarshal(result, &made)
}

func prompt(session, text string) obj {
	return obj{"sessionId": session, "prompt": []any{obj{"type": "text", "text": text}}}
}

func (e *editor) prompt(session, text string) error {
	result, err := e.call("session/prompt", prompt(session, text))
	if err == nil && !bytes.Contains(result, []byte(`"end_turn"`)) {
		err = fmt.Errorf("the turn ended with %s", result)
	}
	return err
}

func (e *editor) load(session, cwd string) error {
	_, err := e.call("session/load", obj{"sessionId": session, "cwd": cwd, "mcpServers": []any{}})
	return err
}

// follow reads in the background until a line contains mark; the channel gives
// the moment, or the error.
func (e *editor) follow(mark string) <-chan error {
	done := make(chan error, 1)
	want := []byte(mark)
	go func() {
		for {
			line, err := e.line()
			if err == nil {
				e.frames++
				if !bytes.Contains(line, want) {
					continue
				}
			}
			done <- err
			return
		}
	}()
	return done
}

// home is a daemon that runs, and what ends it.
func (b *bench) home() (*daemontest.Home, *daemontest.Daemon, func() error, error) {
	h, err := daemontest.NewHome(b.bin, "")
	if err != nil {
		return nil, nil, nil, err
	}
	d, err := h.Serve(b.ctx)
	if err != nil {
		return nil, nil, nil, errors.Join(err, h.Close())
	}
	var once sync.Once
	end := func() (err error) {
		once.Do(func() { err = h.Close() })
		return err
	}
	return h, d, end, nil
}

// cpu is the processor time a process has used.
func cpu(pid int) (time.Duration, error) {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return 0, fmt.Errorf("reading the processor time (Linux only): %w", err)
	}
	_, after, _ := strings.Cut(string(text), ") ")
	fields := strings.Fields(after)
	if len(fields) < 13 {
		return 0, errors.New("reading the processor time: odd stat")
	}
	user, err1 := strconv.ParseInt(fields[11], 10, 64)
	system, err2 := strconv.ParseInt(fields[12], 10, 64)
	return time.Duration(user+system) * (time.Second / 100), errors.Join(err1, err2)
}

// memory is the resident memory of a process without mapped files.
func memory(pid int) (int64, error) {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	if err != nil {
		return 0, fmt.Errorf("reading the resident memory (Linux only): %w", err)
	}
	_, after, _ := strings.Cut(string(text), "RssAnon:")
	fields := strings.Fields(after)
	if len(fields) == 0 {
		return 0, errors.New("reading the resident memory: no RssAnon")
	}
	kb, err := strconv.ParseInt(fields[0], 10, 64)
	return kb << 10, err
}

// watch samples the memory of a process until stop is called, which gives the
// most it saw.
func watch(pid int) (stop func() int64) {
	quit, most := make(chan struct{}), make(chan int64)
	go func() {
		max := int64(0)
		tick := time.NewTicker(5 * time.Millisecond)
		defer tick.Stop()
		for {
			if m, err := memory(pid); err == nil && m > max {
				max = m
			}
			select {
			case <-tick.C:
			case <-quit:
				most <- max
				return
			}
		}
	}()
	return func() int64 { close(quit); return <-most }
}
