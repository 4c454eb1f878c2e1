//go:build unix

package cases

import (
	"bytes"
	"context"
	"encoding/json"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/hermesd/hermesd/daemon/daemontest"
)

// C53: one daemon, whatever happens to its socket.
func c53(r *run) {
	r.skip(8, "played here, with many daemons")
	r.serve()
	r.crash()
	info, err := os.Lstat(r.home.Socket())
	if err != nil || info.Mode()&os.ModeSocket == 0 {
		r.Logf("a crash leaves no socket: %v", err)
	}
	// Twenty shims at once; the first that gets to it starts the daemon.
	editors := make([]*daemontest.Wire, 20)
	errs := make([]error, len(editors))
	var all sync.WaitGroup
	for i := range editors {
		all.Go(func() {
			w, err := r.home.Shim("one of twenty", nil)
			if err != nil {
				errs[i] = err
				return
			}
			editors[i] = w
			_ = w.Send(`{"jsonrpc":"2.0","id":0,"method":"initialize","params":{"protocolVersion":1,"clientCapabilities":{}}}`)
			_ = w.Send(`{"jsonrpc":"2.0","id":1,"method":"session/list","params":{}}`)
			ctx, cancel := context.WithTimeout(context.Background(), patience)
			defer cancel()
			for id := range 2 {
				f, _, err := w.Await(ctx, 0, responseTo(id))
				if err != nil {
					errs[i] = err
				} else if f.Error != nil {
					errs[i] = context.Canceled
				}
			}
		})
	}
	all.Wait()
	for i, err := range errs {
		if err != nil {
			r.Errorf("shim %d: %v", i, err)
		}
	}
	daemons := func() (pids []int) {
		for _, p := range r.home.Processes() {
			// The shim's helper that detaches a daemon names it in its arguments.
			if program, _, _ := strings.Cut(p.Command, " "); filepath.Base(program) == "hermesd" {
				pids = append(pids, p.PID)
			}
		}
		return pids
	}
	if runtime.GOOS != "linux" {
		return // the rest looks at processes
	}
	pids := daemons()
	if len(pids) != 1 {
		r.Fatalf("%d daemons run: %v", len(pids), r.home.Processes())
	}
	for path, want := range map[string]os.FileMode{filepath.Dir(r.home.Socket()): 0o700, r.home.Socket(): 0o600} {
		if info, err := os.Lstat(path); err != nil || info.Mode().Perm() != want {
			r.Errorf("%s has the mode %v (%v), want %v", path, info.Mode(), err, want)
		}
	}
	// The daemon is in a process group and session of its own.
	shimGroup, _ := syscall.Getpgid(editors[0].Cmd.Process.Pid)
	if group, err := syscall.Getpgid(pids[0]); err != nil || group == shimGroup {
		r.Errorf("the daemon is in the process group of a shim (%d, %v)", group, err)
	}
	for _, w := range editors {
		if w != nil {
			_ = w.CloseInput()
		}
	}
	for _, w := range editors {
		if w == nil {
			continue
		}
		select {
		case <-w.Done():
			if w.Stderr() != "" || w.Exit() != nil {
				r.Errorf("a shim ended with %v and said %q", w.Exit(), w.Stderr())
			}
		case <-time.After(patience):
			r.Fatal("a shim did not exit when its stdin was closed")
		}
	}

	// A daemon that is stopped is waited for.
	must(r.T, syscall.Kill(pids[0], syscall.SIGSTOP))
	waits, err := r.home.Shim("waits", nil)
	must(r.T, err)
	must(r.T, waits.Send(`{"jsonrpc":"2.0","id":0,"method":"initialize","params":{"protocolVersion":1,"clientCapabilities":{}}}`))
	select {
	case <-waits.Done():
		r.Logf("the shim reports a daemon that hangs: %v, %q", waits.Exit(), waits.Stderr())
	case <-time.After(3 * time.Second):
	}
	if again := daemons(); len(again) != 1 || again[0] != pids[0] {
		r.Errorf("the stopped daemon %d was displaced: %v", pids[0], again)
	}
	must(r.T, syscall.Kill(pids[0], syscall.SIGCONT))
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	if _, _, err := waits.Await(ctx, 0, responseTo(0)); err != nil {
		r.Errorf("after the daemon went on: %v", err)
	}
	_ = waits.CloseInput()
	<-waits.Done()

	// A second daemon is told who is there.
	out, err := r.home.Command(ctx, "serve").CombinedOutput()
	if err == nil || !bytes.Contains(out, []byte(jsonInt(pids[0]))) {
		r.Errorf("a second `hermesd serve` ended with %v and said %q, want the pid %d in it", err, out, pids[0])
	}

	// A file that is no socket is never removed.
	must(r.T, r.home.Stop(ctx))
	must(r.T, os.WriteFile(r.home.Socket(), []byte("mine"), 0o600))
	out, err = r.home.Command(ctx, "serve").CombinedOutput()
	if err == nil || !bytes.Contains(out, []byte(r.home.Socket())) {
		r.Errorf("with a file in place of the socket `hermesd serve` ended with %v and said %q", err, out)
	}
	if text, err := os.ReadFile(r.home.Socket()); err != nil || string(text) != "mine" {
		r.Errorf("the file in place of the socket: %q, %v", text, err)
	}
	must(r.T, os.Remove(r.home.Socket()))

	// A path that does not fit.
	long := filepath.Join(r.home.Work, strings.Repeat("long/", 30)+"hermesd.sock")
	must(r.T, os.MkdirAll(filepath.Dir(long), 0o700))
	out, err = r.home.Command(ctx, "serve", "--socket", long).CombinedOutput()
	if err == nil || !bytes.Contains(out, []byte("too long")) {
		r.Errorf("with a path of %d bytes `hermesd serve` ended with %v and said %q", len(long), err, out)
	}
}

// C62: the daemon ends in mid-turn.
func c62(r *run) {
	r.play(5)
	a, s := r.ed("A"), r.vars["$S"]
	a.await(hasUpdate("agent_message_chunk", "half"), patience)
	r.play(1) // kill -9
	r.skip(1, "looked at below")
	r.play(4)
	b := r.ed("B")
	if f := b.only(1); f.Error != nil {
		r.Fatalf("load: %s", f.Raw)
	}
	if got := b.said(s); !strings.Contains(got, "half") {
		r.Errorf("what was said before the crash is lost: %q", got)
	}
	b.await(func(f daemontest.Frame) bool { // it says that the turn was interrupted
		return f.Method == "session/update" && bytes.Contains(bytes.ToLower(f.Params), []byte("interrupted"))
	}, patience)
	// A's request does not hang: its shim ends, or answers it with an error, or
	// has got it a final answer of the new daemon; and nothing ran twice.
	deadline := time.After(patience)
	for settled := false; !settled; {
		for _, f := range a.responses(2) {
			settled = true
			if f.Error == nil && stopReason(f) == "end_turn" {
				r.Errorf("the interrupted prompt was answered %s", f.Raw)
			}
		}
		select {
		case <-a.Done():
			settled, a.left = true, true
		case <-deadline:
			r.Fatalf("A waits for ever\n%s", a.transcript(10))
		case <-time.After(5 * time.Millisecond):
		}
	}
	r.play(3)
	r.wantStop(b.only(2), "end_turn")
	if n := strings.Count(b.said(s), "half"); n != 1 {
		r.Errorf("'half' was said %d times: the prompt was run again", n)
	}
	r.skip(1, "played here")

	// A graceful stop ends the turn, stores that, and takes a bounded time.
	b.ask("session/prompt", prompt(s, "say stopping\nsleep 10m"))
	b.await(hasUpdate("agent_message_chunk", "stopping"), patience)
	began := time.Now()
	r.stop()
	if took := time.Since(began); took > 20*time.Second {
		r.Errorf("`hermesd stop` took %v", took)
	}
	r.serve()
	c := r.ed("C")
	c.initialize()
	if f := c.load(s, r.home.Work); f.Error != nil {
		r.Fatalf("load after stop: %s", f.Raw)
	}
	if stop := c.prompt(s, "say on"); stop != "end_turn" {
		r.Errorf("after stop a prompt ended with %q", stop)
	}
	var status struct{ PID int }
	out, err := r.home.Command(context.Background(), "status", "--json").Output()
	if err != nil || json.Unmarshal(out, &status) != nil || status.PID != r.daemon.Cmd.Process.Pid {
		r.Errorf("hermesd status --json: %s, %v", out, err)
	}
}
