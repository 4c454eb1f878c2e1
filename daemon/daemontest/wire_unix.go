//go:build unix

package daemontest

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
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"time"
)

// Frame is one line that came from the daemon, taken apart as far as a test
// needs it.
type Frame struct {
	Raw    []byte          `json:"-"`
	ID     json.RawMessage `json:"id"`
	Method string          `json:"method"`
	Params json.RawMessage `json:"params"`
	Result json.RawMessage `json:"result"`
	Error  *FrameError     `json:"error"`
}

// FrameError is the error member of a response.
type FrameError struct {
	Code    int             `json:"code"`
	Message string          `json:"message"`
	Data    json.RawMessage `json:"data"`
}

// IsResponse says whether the frame answers something.
func (f Frame) IsResponse() bool { return f.Method == "" }

// IsRequest says whether the daemon wants an answer.
func (f Frame) IsRequest() bool { return f.Method != "" && f.ID != nil }

// Wire is an editor with a shim process of its own that says exactly the bytes
// it is told to and keeps every line it gets.
type Wire struct {
	Name string
	Cmd  *exec.Cmd

	stdin  *os.File
	tap    *Tap
	done   chan struct{} // closed when the shim has ended and everything is read
	stderr lockedBuffer

	mu     sync.Mutex
	more   chan struct{} // closed and replaced whenever something below changes
	frames []Frame
	paused bool
	killed bool
	faults []error
	ended  bool  // stdout has ended
	exit   error // of the shim, set before done is closed
	lean   bool
	count  int
}

// Shim starts an editor. tap may be nil; else it sees every line.
func (h *Home) Shim(name string, tap *Tap, args ...string) (*Wire, error) {
	w := &Wire{
		Name: name,
		Cmd:  exec.Command(filepath.Join(h.Bin, "hermes-acp-shim"), args...),
		tap:  tap,
		done: make(chan struct{}),
		more: make(chan struct{}),
	}
	w.Cmd.Dir, w.Cmd.Env = h.Work, h.Env
	w.Cmd.Stderr = &w.stderr
	w.Cmd.WaitDelay = 5 * time.Second // if the daemon kept the shim's stderr
	w.Cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	inR, inW, err := os.Pipe()
	if err != nil {
		return nil, fmt.Errorf("starting a shim: %w", err)
	}
	outR, outW, err := os.Pipe()
	if err != nil {
		return nil, fmt.Errorf("starting a shim: %w", err)
	}
	w.Cmd.Stdin, w.Cmd.Stdout, w.stdin = inR, outW, inW
	err = w.Cmd.Start()
	inR.Close()
	outW.Close()
	if err != nil {
		inW.Close()
		outR.Close()
		return nil, fmt.Errorf("starting a shim: %w", err)
	}
	go w.read(outR) // ends when the shim's stdout does; closes done
	return w, nil
}

func (w *Wire) read(out *os.File) {
	defer close(w.done)
	defer out.Close()
	r := bufio.NewReaderSize(out, 64<<10)
	for {
		w.gate()
		line, err := r.ReadBytes('\n')
		if len(line) > 0 {
			w.take(line, err)
		}
		if err != nil {
			w.mu.Lock()
			if !errors.Is(err, io.EOF) {
				w.faults = append(w.faults, fmt.Errorf("reading from the shim: %w", err))
			}
			w.ended = true
			w.wake()
			w.mu.Unlock()
			break
		}
	}
	err := w.Cmd.Wait()
	w.mu.Lock()
	w.exit = err
	w.wake()
	w.mu.Unlock()
}

// gate holds the reader while the editor is paused.
func (w *Wire) gate() {
	for {
		w.mu.Lock()
		paused, more := w.paused, w.more
		w.mu.Unlock()
		if !paused {
			return
		}
		<-more
	}
}

func (w *Wire) take(line []byte, err error) {
	var fault error
	w.mu.Lock()
	killed, lean := w.killed, w.lean
	w.mu.Unlock()
	if killed && !bytes.HasSuffix(line, []byte("\n")) {
		return // cut where the shim was killed
	}
	if !bytes.HasSuffix(line, []byte("\n")) {
		fault = fmt.Errorf("a line without its end (%v): %q", err, clip(line))
	}
	line = bytes.TrimSuffix(line, []byte("\n"))
	f := Frame{Raw: line}
	if bad := json.Unmarshal(line, &f); bad != nil {
		fault = errors.Join(fault, fmt.Errorf("not a JSON object (%v): %q", bad, clip(line)))
	}
	if w.tap != nil && !(lean && f.Method == "session/update") {
		fault = errors.Join(fault, w.tap.Received(line))
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	if fault != nil && len(w.faults) < 10 {
		w.faults = append(w.faults, fault)
	}
	w.count++
	if !w.lean || f.Method != "session/update" {
		w.frames = append(w.frames, f)
	}
	w.wake()
}

// wake must be called with mu held.
func (w *Wire) wake() {
	close(w.more)
	w.more = make(chan struct{})
}

// Write sends bytes as they are. It blocks while the shim does not take them.
func (w *Wire) Write(p []byte) (int, error) {
	if w.tap != nil && len(p) < 1<<20 {
		for line := range bytes.SplitSeq(p, []byte("\n")) {
			w.tap.Sent(line)
		}
	} else if w.tap != nil {
		w.tap.Sent(p)
	}
	return w.stdin.Write(p)
}

// WriteUnseen sends bytes that are not looked at by the tap: parts of lines.
func (w *Wire) WriteUnseen(p []byte) (int, error) { return w.stdin.Write(p) }

// Send writes one line.
func (w *Wire) Send(line string) error {
	if _, err := w.Write(append([]byte(line), '\n')); err != nil {
		return fmt.Errorf("writing to the shim of %s: %w", w.Name, err)
	}
	return nil
}

// Frames are the lines received so far. The slice is the caller's, what the
// frames hold is shared and must not be changed.
func (w *Wire) Frames() []Frame {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.frames[:len(w.frames):len(w.frames)]
}

// Lean makes the wire forget updates after counting them, without a look at the
// schema, for floods.
func (w *Wire) Lean(on bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.lean = on
}

// Received is the number of lines received, those forgotten included.
func (w *Wire) Received() int {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.count
}

// Await returns the first frame from number from on that matches, and its
// number. It fails when ctx ends or the shim's output does.
func (w *Wire) Await(ctx context.Context, from int, match func(Frame) bool) (Frame, int, error) {
	for {
		w.mu.Lock()
		frames, more, ended := w.frames, w.more, w.ended
		w.mu.Unlock()
		for ; from < len(frames); from++ {
			if match(frames[from]) {
				return frames[from], from, nil
			}
		}
		if ended {
			return Frame{}, from, fmt.Errorf("%s: the shim's output has ended; stderr: %q", w.Name, w.Stderr())
		}
		select {
		case <-more:
		case <-ctx.Done():
			return Frame{}, from, fmt.Errorf("%s: no such frame: %w", w.Name, ctx.Err())
		}
	}
}

// Pause stops or restarts reading what the shim writes.
func (w *Wire) Pause(on bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.paused = on
	w.wake()
}

// CloseInput closes the shim's stdin, as an editor does that goes away.
func (w *Wire) CloseInput() error { return w.stdin.Close() }

// Kill ends the shim with SIGKILL and returns when it is gone.
func (w *Wire) Kill() {
	w.mu.Lock()
	w.killed = true
	w.mu.Unlock()
	w.Pause(false)
	_ = w.Cmd.Process.Kill()
	<-w.done
	_ = w.stdin.Close()
}

// Done is closed when the shim has exited and all its output was read.
func (w *Wire) Done() <-chan struct{} { return w.done }

// Exit is the shim's exit status; it may be asked for after Done.
func (w *Wire) Exit() error {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.exit
}

// Stderr is what the shim has said on stderr.
func (w *Wire) Stderr() string { return w.stderr.String() }

// Faults are the lines received that should not have been.
func (w *Wire) Faults() error {
	w.mu.Lock()
	defer w.mu.Unlock()
	return errors.Join(w.faults...)
}

// lockedBuffer collects what a process says, up to a limit.
type lockedBuffer struct {
	mu   sync.Mutex
	text strings.Builder
}

func (b *lockedBuffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.text.Len() < 256<<10 {
		b.text.Write(p)
	}
	return len(p), nil
}

func (b *lockedBuffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.text.String()
}
