//go:build unix

package daemontest

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// Home is a folder with everything of one hermesd in it, and the programs that
// use it. Nothing of the user's own hermesd or credentials reaches them.
type Home struct {
	Bin  string   // folder of hermesd and hermes-acp-shim
	Dir  string   // HERMESD_HOME
	Work string   // an empty folder to work in, symlinks resolved
	Env  []string // environment of everything that is started

	tmp string
}

// NewHome makes a home in a short new folder, because a socket's path has to
// fit into some hundred bytes. config is the text of config.toml, may be empty.
func NewHome(bin, config string) (*Home, error) {
	tmp, err := os.MkdirTemp("", "hd")
	if err == nil {
		tmp, err = filepath.EvalSymlinks(tmp)
	}
	if err != nil {
		return nil, fmt.Errorf("making a home: %w", err)
	}
	h := &Home{Bin: bin, Dir: filepath.Join(tmp, "h"), Work: filepath.Join(tmp, "w"), tmp: tmp}
	for _, dir := range []string{h.Dir, h.Work, filepath.Join(tmp, "user")} {
		if err := os.Mkdir(dir, 0o700); err != nil {
			return nil, fmt.Errorf("making a home: %w", err)
		}
	}
	if err := h.Configure(config); err != nil {
		return nil, err
	}
	// No key of a model's provider, and nobody where a local model would be: the
	// agent has its offline model.
	h.Env = []string{
		"PATH=" + os.Getenv("PATH"), "HOME=" + filepath.Join(tmp, "user"), "LANG=C.UTF-8",
		"HERMESD_HOME=" + h.Dir, "OLLAMA_HOST=127.0.0.1:1", "GORACE=log_path=" + filepath.Join(tmp, "race"),
	}
	for _, name := range []string{"GOMAXPROCS", "GOCOVERDIR", "TMPDIR"} {
		if v, ok := os.LookupEnv(name); ok {
			h.Env = append(h.Env, name+"="+v)
		}
	}
	return h, nil
}

// Configure writes config.toml, which the next daemon reads. An empty text
// means no file.
func (h *Home) Configure(config string) error {
	path := filepath.Join(h.Dir, "config.toml")
	if config == "" {
		if err := os.Remove(path); err != nil && !errors.Is(err, os.ErrNotExist) {
			return err
		}
		return nil
	}
	return os.WriteFile(path, []byte(config), 0o600)
}

// Socket is where the daemon listens.
func (h *Home) Socket() string { return filepath.Join(h.Dir, "run", "hermesd.sock") }

// Command is a call of hermesd in this home.
func (h *Home) Command(ctx context.Context, args ...string) *exec.Cmd {
	cmd := exec.CommandContext(ctx, filepath.Join(h.Bin, "hermesd"), args...)
	cmd.Dir, cmd.Env = h.Work, h.Env
	return cmd
}

// Daemon is a `hermesd serve` that was started here, as a child.
type Daemon struct {
	Cmd   *exec.Cmd
	Ready time.Duration // from the start until it said it was ready

	done   chan struct{} // closed when it has ended and stderr is complete
	stderr lockedBuffer
}

// Serve starts `hermesd serve` and returns when it is ready. ctx limits the
// wait, not the daemon's life.
func (h *Home) Serve(ctx context.Context, args ...string) (*Daemon, error) {
	d := &Daemon{
		Cmd:  h.Command(context.Background(), append([]string{"serve"}, args...)...),
		done: make(chan struct{}),
	}
	d.Cmd.Dir = "/"
	d.Cmd.Stderr = &d.stderr
	d.Cmd.WaitDelay = 5 * time.Second // if something it started kept its stderr
	d.Cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	r, w, err := os.Pipe()
	if err != nil {
		return nil, fmt.Errorf("starting a daemon: %w", err)
	}
	defer r.Close()
	d.Cmd.ExtraFiles = []*os.File{w}
	d.Cmd.Env = append(d.Cmd.Env[:len(d.Cmd.Env):len(d.Cmd.Env)], "HERMESD_READY_FD=3")
	began := time.Now()
	if err := d.Cmd.Start(); err != nil {
		w.Close()
		return nil, fmt.Errorf("starting a daemon: %w", err)
	}
	w.Close()
	go func() { // ends with the daemon; waited for by whoever reads done
		defer close(d.done)
		_ = d.Cmd.Wait()
	}()
	if limit, ok := ctx.Deadline(); ok {
		_ = r.SetReadDeadline(limit)
	}
	said, err := io.ReadAll(io.LimitReader(r, 6))
	d.Ready = time.Since(began)
	if string(said) == "ready\n" {
		return d, nil
	}
	rest, _ := io.ReadAll(r)
	_ = d.Cmd.Process.Kill()
	<-d.done
	return nil, fmt.Errorf("the daemon did not become ready: %q, %v\n%s", append(said, rest...), err, d.Stderr())
}

// Stderr is what the daemon has said on stderr so far.
func (d *Daemon) Stderr() string { return d.stderr.String() }

// Done is closed when the daemon has ended.
func (d *Daemon) Done() <-chan struct{} { return d.done }

// Kill ends the daemon as a crash does and waits for its end.
func (d *Daemon) Kill() {
	_ = d.Cmd.Process.Kill()
	<-d.done
}

// Stop calls `hermesd stop` and returns when it has; no daemon is no error.
func (h *Home) Stop(ctx context.Context) error {
	out, err := h.Command(ctx, "stop").CombinedOutput()
	var exit *exec.ExitError
	if errors.As(err, &exit) && exit.ExitCode() == 3 {
		return nil
	}
	if err != nil {
		return fmt.Errorf("hermesd stop: %w\n%s", err, out)
	}
	return nil
}

// Process is a running process of a home.
type Process struct {
	PID     int
	Command string
}

// Processes lists what runs with this home in its environment or in one of its
// folders: daemons, shims, holders, the commands of tools and MCP servers. It knows only Linux; elsewhere the list is
// empty.
func (h *Home) Processes() []Process {
	if runtime.GOOS != "linux" {
		return nil
	}
	var found []Process
	entries, _ := os.ReadDir("/proc")
	for _, e := range entries {
		pid, err := strconv.Atoi(e.Name())
		if err != nil || pid == os.Getpid() {
			continue
		}
		env, err := os.ReadFile(filepath.Join("/proc", e.Name(), "environ"))
		cwd, _ := os.Readlink(filepath.Join("/proc", e.Name(), "cwd"))
		if err != nil || !strings.HasPrefix(cwd, h.tmp+"/") && !bytes.Contains(append([]byte{0}, env...), []byte("\x00HERMESD_HOME="+h.Dir+"\x00")) {
			continue
		}
		line, _ := os.ReadFile(filepath.Join("/proc", e.Name(), "cmdline"))
		if len(line) == 0 {
			continue // a zombie
		}
		found = append(found, Process{PID: pid, Command: strings.TrimSpace(string(bytes.ReplaceAll(line, []byte{0}, []byte{' '})))})
	}
	return found
}

// Close stops the daemon, ends what is left over, removes the folder, and says
// what should not have been there: processes that outlived `hermesd stop`, and
// data races that the programs noticed.
func (h *Home) Close() error {
	ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
	defer cancel()
	err := h.Stop(ctx)
	left := h.Processes()
	for limit := time.Now().Add(5 * time.Second); len(left) > 0 && time.Now().Before(limit); left = h.Processes() {
		time.Sleep(5 * time.Millisecond)
	}
	for _, p := range left {
		err = errors.Join(err, fmt.Errorf("still running after `hermesd stop`: %d %s", p.PID, p.Command))
		_ = syscall.Kill(p.PID, syscall.SIGKILL)
	}
	races, _ := filepath.Glob(filepath.Join(h.tmp, "race.*"))
	for _, path := range races {
		text, _ := os.ReadFile(path)
		err = errors.Join(err, fmt.Errorf("a data race:\n%s", text))
	}
	return errors.Join(err, os.RemoveAll(h.tmp))
}

// Log is the daemon's log, for a failing test.
func (h *Home) Log() string {
	var all strings.Builder
	files, _ := filepath.Glob(filepath.Join(h.Dir, "log", "*"))
	for _, path := range files {
		text, _ := os.ReadFile(path)
		if len(text) > 16<<10 {
			text = text[len(text)-16<<10:]
		}
		fmt.Fprintf(&all, "%s:\n%s\n", filepath.Base(path), text)
	}
	return all.String()
}
