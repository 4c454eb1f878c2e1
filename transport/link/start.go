package link

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
)

// ReadyFD is the environment variable that names the pipe on which a started
// daemon reports: "ready\n" once it accepts connections, "error: TEXT\n" if it
// cannot. Package transport has the daemon's side.
const ReadyFD = "HERMESD_READY_FD"

// Options are the wishes of a [Connect].
type Options struct {
	Places  Places
	NoStart bool // fail with ErrNoDaemon instead of starting one

	// Via is a command that ends in a call of [Detach] with the arguments that
	// are added to it. With it the daemon becomes the child of a process that
	// has ended, so that nobody who walks down from the editor's process finds
	// it. Without it the daemon is this process's child until this one ends.
	Via []string

	Environ []string // for the daemon; nil: this process's

	scope func(environ []string) []string // nil: scopeCommand
}

// Connect dials the daemon and starts one if there is none. ctx limits all of
// it; a daemon that was started and is not ready when ctx ends is left alone.
//
// Starting leaves one goroutine behind that waits for the started process, so
// that it does not stay as a zombie.
func Connect(ctx context.Context, o Options) (net.Conn, error) {
	c, err := Dial(ctx, o.Places.Socket)
	if err == nil || !errors.Is(err, ErrNoDaemon) {
		return c, err
	}
	if o.NoStart {
		return nil, err
	}
	if err := o.Places.MakeRun(); err != nil {
		return nil, err
	}
	lock, err := WaitLock(ctx, o.Places.Start)
	if err != nil {
		return nil, fmt.Errorf("another process has been starting hermesd for too long: %w", err)
	}
	defer lock.Close()
	// Whoever had the lock before us may have brought a daemon up.
	if c, err := Dial(ctx, o.Places.Socket); err == nil || !errors.Is(err, ErrNoDaemon) {
		return c, err
	}
	if err := start(ctx, o); err != nil {
		// A daemon started by other means may have been first.
		if c, derr := Dial(ctx, o.Places.Socket); derr == nil {
			return c, nil
		}
		return nil, err
	}
	return Dial(ctx, o.Places.Socket)
}

// start starts a daemon and waits until it is ready or dead.
func start(ctx context.Context, o Options) error {
	environ := o.Environ
	if environ == nil {
		environ = os.Environ()
	}
	daemon, err := Find(environ)
	if err != nil {
		return err
	}
	command := []string{daemon, "serve"}
	if o.Places.named {
		command = append(command, "--socket", o.Places.Socket)
	}
	if err := PrivateDir(o.Places.Log); err != nil {
		return err
	}
	words, err := openLastWords(o.Places.Log)
	if err != nil {
		return err
	}
	defer words.f.Close()

	scope := o.scope
	if scope == nil {
		scope = func(environ []string) []string { return scopeCommand(environ, os.Stat) }
	}
	if scope := scope(environ); scope != nil {
		err := launch(ctx, o, append(scope, command...), environ, words)
		if !errors.Is(err, errNoWord) {
			return err
		}
		// Not a word from the daemon: systemd-run did not get to start it.
	}
	err = launch(ctx, o, command, environ, words)
	if errors.Is(err, errNoWord) {
		err = fmt.Errorf("%s ended before it was ready%s; see %s", daemon, words.since(), words.f.Name())
	}
	return err
}

// errNoWord: the ready pipe ended without a line.
var errNoWord = errors.New("hermesd ended before it was ready")

func launch(ctx context.Context, o Options, command, environ []string, words *lastWords) error {
	r, w, err := os.Pipe()
	if err != nil {
		return fmt.Errorf("starting hermesd: %w", err)
	}
	defer r.Close()
	if len(o.Via) > 0 {
		command = append(append([]string{}, o.Via...), command...)
	}
	err = spawn(command, withoutPrivate(environ), words.f, w)
	w.Close()
	if err != nil {
		return fmt.Errorf("starting %s: %w", command[0], err)
	}
	return awaitReady(ctx, r)
}

// Detach starts a command as [Connect] asks for with Options.Via: outside this
// process's session, with nothing inherited but the standard error and the
// ready pipe. The caller ends right after; what went wrong is reported on the
// ready pipe.
func Detach(command []string) error {
	ready, err := readyFile(os.Getenv(ReadyFD))
	if err != nil {
		return err
	}
	if len(command) == 0 {
		return errors.New("no command to start")
	}
	if err := spawn(command, withoutPrivate(os.Environ()), os.Stderr, ready); err != nil {
		err = fmt.Errorf("starting %s: %w", command[0], err)
		fmt.Fprintf(ready, "error: %s\n", oneLine(err.Error()))
		return err
	}
	return nil
}

// spawn starts a detached process and, as long as this one lives, waits for it.
func spawn(command, environ []string, out, ready *os.File) error {
	null, err := os.OpenFile(os.DevNull, os.O_RDWR, 0)
	if err != nil {
		return err
	}
	defer null.Close()
	attr := &os.ProcAttr{
		Dir:   rootDir(),
		Env:   environ,
		Files: []*os.File{null, out, out},
	}
	if err := detached(attr, ready); err != nil {
		return err
	}
	p, err := os.StartProcess(command[0], command, attr)
	if err != nil && relax(attr, err) {
		p, err = os.StartProcess(command[0], command, attr)
	}
	if err != nil {
		return err
	}
	go p.Wait()
	return nil
}

// awaitReady reads what a started daemon reports. It leaves a goroutine behind
// when ctx ends first; that one ends with the daemon's report or death.
func awaitReady(ctx context.Context, r io.Reader) error {
	type report struct {
		line string
		err  error
	}
	done := make(chan report, 1)
	go func() {
		line, err := bufio.NewReader(io.LimitReader(r, 64<<10)).ReadString('\n')
		done <- report{strings.TrimSpace(line), err}
	}()
	select {
	case got := <-done:
		if got.line == "ready" {
			return nil
		}
		if text, ok := strings.CutPrefix(got.line, "error: "); ok {
			return fmt.Errorf("hermesd did not start: %s", text)
		}
		return errNoWord
	case <-ctx.Done():
		return fmt.Errorf("waiting for hermesd to be ready: %w", context.Cause(ctx))
	}
}

// Find returns the path of the daemon's program: $HERMESD if that is set, else
// hermesd beside the running program, else hermesd on $PATH. The error names
// the places looked at.
func Find(environ []string) (string, error) {
	name := "hermesd"
	if runtime.GOOS == "windows" {
		name += ".exe"
	}
	if named := lookup(environ, "HERMESD"); named != "" {
		path, err := exec.LookPath(named)
		if err != nil {
			return "", fmt.Errorf("HERMESD names %s, which cannot be run (%w); correct or unset it", named, errors.Unwrap(err))
		}
		return filepath.Abs(path)
	}
	var looked []string
	if self, err := os.Executable(); err == nil {
		// Beside the link's target too: package managers put links on PATH.
		for _, dir := range []string{filepath.Dir(self), filepath.Dir(resolve(self))} {
			path := filepath.Join(dir, name)
			if len(looked) > 0 && looked[0] == path {
				continue
			}
			if _, err := exec.LookPath(path); err == nil {
				return path, nil
			}
			looked = append(looked, path)
		}
	}
	if path, err := exec.LookPath(name); err == nil {
		return filepath.Abs(path)
	}
	return "", fmt.Errorf("hermesd is not installed: looked for %s and on PATH (%s); install it, or set HERMESD to its path",
		strings.Join(looked, ", "), lookup(environ, "PATH"))
}

func resolve(path string) string {
	if real, err := filepath.EvalSymlinks(path); err == nil {
		return real
	}
	return path
}

func lookup(environ []string, name string) string {
	for i := len(environ) - 1; i >= 0; i-- {
		if k, v, _ := strings.Cut(environ[i], "="); k == name {
			return v
		}
	}
	return ""
}

// lastWords is the file a started daemon's standard error goes to: panics, and
// whatever goes wrong before its own log is open.
type lastWords struct {
	f     *os.File
	start int64
}

const maxLastWords = 1 << 20

func openLastWords(dir string) (*lastWords, error) {
	f, err := os.OpenFile(filepath.Join(dir, "stderr.log"), os.O_RDWR|os.O_CREATE|os.O_APPEND, 0o600)
	if err != nil {
		return nil, fmt.Errorf("opening hermesd's stderr.log: %w", err)
	}
	info, err := f.Stat()
	if err != nil {
		f.Close()
		return nil, fmt.Errorf("opening hermesd's stderr.log: %w", err)
	}
	start := info.Size()
	if start > maxLastWords {
		if f.Truncate(0) == nil {
			start = 0
		}
	}
	return &lastWords{f, start}, nil
}

// since returns the last line written since the file was opened, as ": LINE".
func (w *lastWords) since() string {
	info, err := w.f.Stat()
	if err != nil || info.Size() <= w.start {
		return ""
	}
	from := max(w.start, info.Size()-4<<10)
	b := make([]byte, info.Size()-from)
	n, _ := w.f.ReadAt(b, from)
	text := strings.TrimSpace(string(b[:n]))
	if i := strings.LastIndexByte(text, '\n'); i >= 0 {
		text = strings.TrimSpace(text[i+1:])
	}
	if text == "" {
		return ""
	}
	return ": " + oneLine(text)
}

func oneLine(s string) string { return strings.Join(strings.Fields(s), " ") }

// readyFile returns the pipe that the value of [ReadyFD] names.
func readyFile(value string) (*os.File, error) {
	fd, err := strconv.ParseUint(value, 10, 31)
	if err != nil {
		return nil, fmt.Errorf("%s=%q is not a file descriptor", ReadyFD, value)
	}
	return inherited(uintptr(fd))
}
