package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"time"

	"github.com/spf13/cobra"

	"github.com/hermesd/hermesd/transport/acp"
	"github.com/hermesd/hermesd/transport/acpclient"
	"github.com/hermesd/hermesd/transport/link"
)

func (a *app) demoCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "demo",
		Short: "Show the whole story in a few seconds, on this machine, offline",
		Long: `Show the whole story with real processes, offline, in a folder of its own that
is removed at the end: an editor starts a turn and is killed, two others attach,
see everything and answer its question, the daemon is stopped and started, and
the history is there. Every step is checked; the first one that fails ends it.`,
		Args: cobra.NoArgs,
		RunE: func(*cobra.Command, []string) error {
			ctx, cancel := interruptible()
			defer cancel()
			ctx, cancel = context.WithTimeoutCause(ctx, demoLimit, fmt.Errorf("the demo takes longer than %v", demoLimit))
			defer cancel()
			d := &demo{app: a, c: coloursFor(a.out), began: time.Now(), spin: newSpinner(a.err, isTerminal(a.err) && isTerminal(a.out))}
			return d.run(ctx)
		},
	}
}

// Limits of time. Each step takes milliseconds; a slow machine may compile.
const (
	demoLimit = 3 * time.Minute
	stepLimit = 30 * time.Second
)

const (
	demoFile    = "greeting.txt"
	demoContent = "Hello from a session that outlived its editor.\n"
	demoEnd     = "That was all. The end."
)

// demoPrompt is what editor A asks of the offline model (hermesd chat with
// provider "offline" takes the same words).
const demoPrompt = `say I will write a greeting into a file, and ask before I touch the disk.
stream 100 20
write ` + demoFile + `
` + demoContent + `.
stream 50 20
sleep 1s
stream 50 20
say ` + demoEnd

// demo is one run. Its steps run one after another in one goroutine.
type demo struct {
	app   *app
	c     colours
	spin  *spinner
	began time.Time

	dir, home, work string
	self, shim      string
	environ         []string
	places          link.Places
	daemons         []int // processes of ours that are nobody's children

	a, b, c2, d *acpclient.Process
	session     string
	question    acpclient.Question
	whole       acpclient.Story // what B saw
}

func (d *demo) run(ctx context.Context) (err error) {
	d.say("One session, four editors, one daemon. Nothing leaves this machine.")
	defer func() {
		if cerr := d.cleanUp(); cerr != nil && err == nil {
			err = cerr
		}
		d.spin.stop()
		if err == nil {
			d.say("\n%sAll of it is true.%s %.1f s.", d.c.bold+d.c.green, d.c.reset, time.Since(d.began).Seconds())
		}
	}()

	for _, chapter := range []struct {
		title string
		steps []step
	}{
		{"A folder of its own", []step{
			d.makeFolder, d.findShim,
		}},
		{"Editor A starts a turn", []step{
			d.attachA, d.promptA, d.streamA, d.askedA,
		}},
		{"Editor A is killed", []step{
			d.killA, d.turnSurvives,
		}},
		{"Editors B and C attach", []step{
			d.attachB, d.attachC, d.sameBeginning, d.bothAsked,
		}},
		{"B answers", []step{
			d.answerB, d.withdrawnC, d.turnGoesOn, d.fileWritten, d.sameStory, d.beginningOfA,
		}},
		{"The daemon is stopped and started", []step{
			d.leaveBC, d.stop, d.attachD, d.historyThere, d.goesOn,
		}},
		{"Nothing is left behind", []step{
			d.leaveD, d.stopAgain, d.nothingRuns,
		}},
	} {
		d.say("\n%s%s%s", d.c.bold, chapter.title, d.c.reset)
		for _, s := range chapter.steps {
			if err := d.step(ctx, s); err != nil {
				return err
			}
		}
	}
	return nil
}

// step does one thing and says what has been found, or fails.
type step func(ctx context.Context) (found string, err error)

func (d *demo) step(ctx context.Context, s step) error {
	ctx, cancel := context.WithTimeoutCause(ctx, stepLimit, fmt.Errorf("it takes longer than %v", stepLimit))
	defer cancel()
	began := time.Now()
	d.spin.start("")
	found, err := s(ctx)
	d.spin.stop()
	took := time.Since(began)
	if err != nil {
		if cause := context.Cause(ctx); cause != nil && errors.Is(err, ctx.Err()) {
			err = cause
		}
		d.say("  %s✗ %s%s", d.c.red, found, d.c.reset)
		return fmt.Errorf("the demo failed: %s: %w", found, err)
	}
	d.say("  %s✓%s %s %s%s%s", d.c.green, d.c.reset, found, d.c.dim, duration(took), d.c.reset)
	return nil
}

func duration(d time.Duration) string {
	if d < time.Second {
		return fmt.Sprintf("(%d ms)", d.Milliseconds())
	}
	return fmt.Sprintf("(%.1f s)", d.Seconds())
}

func (d *demo) say(format string, args ...any) { fmt.Fprintf(d.app.out, format+"\n", args...) }

// -- a folder of its own

func (d *demo) makeFolder(context.Context) (string, error) {
	const what = "a folder for this demo"
	dir, err := os.MkdirTemp("", "hermesd-demo-")
	if err != nil {
		return what, err
	}
	d.dir = dir
	// Sessions are compared by the folder's name: take the one without links.
	if dir, err = filepath.EvalSymlinks(dir); err != nil {
		return what, err
	}
	d.home, d.work = filepath.Join(dir, "home"), filepath.Join(dir, "work")
	for _, folder := range []string{d.home, d.work} {
		if err := os.Mkdir(folder, 0o700); err != nil {
			return what, err
		}
	}
	// Whatever keys are in the environment: the demo needs no model.
	config := "[agents.hermes]\ntype = \"native\"\nprovider = \"offline\"\n"
	if err := os.WriteFile(filepath.Join(d.home, "config.toml"), []byte(config), 0o600); err != nil {
		return what, err
	}
	if d.self, err = os.Executable(); err != nil {
		return what, err
	}
	for _, kv := range os.Environ() {
		if !strings.HasPrefix(kv, "HERMESD") {
			d.environ = append(d.environ, kv)
		}
	}
	d.environ = append(d.environ, "HERMESD_HOME="+d.home, "HERMESD="+d.self)
	d.places, err = link.Locate(func(name string) string {
		if name == "HERMESD_HOME" {
			return d.home
		}
		return ""
	}, runtime.GOOS, os.Getuid(), func(string) link.Owner { return link.Absent })
	return "everything is in " + dir, err
}

// findShim finds hermes-acp-shim beside this program, on PATH, or builds it:
// with `go run` there is no program beside this one.
func (d *demo) findShim(ctx context.Context) (string, error) {
	const name = "hermes-acp-shim"
	exe := name
	if runtime.GOOS == "windows" {
		exe += ".exe"
	}
	beside := filepath.Join(filepath.Dir(d.self), exe)
	if _, err := exec.LookPath(beside); err == nil {
		d.shim = beside
		return name + " is beside this program", nil
	}
	if path, err := exec.LookPath(exe); err == nil {
		d.shim = path
		return name + " is on PATH: " + path, nil
	}
	d.shim = filepath.Join(d.dir, exe)
	build := exec.CommandContext(ctx, "go", "build", "-o", d.shim, "github.com/hermesd/hermesd/cmd/hermes-acp-shim")
	if out, err := build.CombinedOutput(); err != nil {
		return "finding " + name, fmt.Errorf("it is neither beside %s nor on PATH, and cannot be built here (go build: %w)\n%s\ninstall both programs (go install ./cmd/...)",
			d.self, err, bytes.TrimSpace(out))
	}
	return name + " is not installed, so it was built with go build", nil
}

// -- editor A starts a turn

// attach starts an editor: a shim, as an editor's configuration would.
func (d *demo) attach(ctx context.Context, name string) (*acpclient.Process, error) {
	cmd := exec.Command(d.shim)
	cmd.Env = d.environ
	cmd.Dir = d.work
	p, err := acpclient.Spawn(cmd, acpclient.Options{Name: "editor " + name})
	if err != nil {
		return nil, err
	}
	if _, err := p.Initialize(ctx); err != nil {
		// The shim says on stderr what is wrong before it ends.
		_ = p.Close()
		if said := strings.TrimSpace(p.Stderr()); said != "" {
			err = fmt.Errorf("%w: %s", err, said)
		}
		return nil, err
	}
	s, err := status(ctx, p.Client)
	if err != nil {
		return p, err
	}
	if n := len(d.daemons); n == 0 || d.daemons[n-1] != s.PID {
		d.daemons = append(d.daemons, s.PID)
	}
	return p, nil
}

func (d *demo) attachA(ctx context.Context) (what string, err error) {
	if d.a, err = d.attach(ctx, "A"); err != nil {
		return "editor A starts hermes-acp-shim, which starts hermesd", err
	}
	return fmt.Sprintf("editor A started hermes-acp-shim (process %d), and that one hermesd (process %d)", d.a.PID(), d.daemons[0]), nil
}

func (d *demo) promptA(ctx context.Context) (string, error) {
	s, err := d.a.NewSession(ctx, d.work)
	if err != nil {
		return "A makes a session", err
	}
	d.session = s.ID
	_, err = d.a.StartPrompt(d.session, demoPrompt)
	return fmt.Sprintf("A made session %s and sent a prompt", s.ID), err
}

func (d *demo) streamA(ctx context.Context) (string, error) {
	pieces := 0
	_, err := d.a.Await(ctx, 0, func(e acpclient.Entry) bool {
		if e.Kind == acpclient.Update && e.Update == acp.AgentMessageChunk {
			pieces++
		}
		return pieces == 100
	})
	return fmt.Sprintf("the answer streams: %q", shorten(d.a.Story(d.session).Says(acp.AgentMessageChunk), 60)), err
}

func (d *demo) askedA(ctx context.Context) (string, error) {
	q, err := d.asked(ctx, d.a, 0)
	if err != nil {
		return "the agent asks A for permission", err
	}
	if _, err := os.Stat(filepath.Join(d.work, demoFile)); err == nil {
		return "the agent asks A for permission", errors.New("the file was written before anybody allowed it")
	}
	return fmt.Sprintf("the agent asks for permission: %q (%s)", q.Title, strings.Join(optionIDs(q.Options), ", ")), nil
}

// asked waits for the question at an editor, after the entry from.
func (d *demo) asked(ctx context.Context, p *acpclient.Process, from int) (acpclient.Question, error) {
	e, err := p.Await(ctx, from, func(e acpclient.Entry) bool {
		return e.Kind == acpclient.Asked && e.Method == "session/request_permission"
	})
	return acpclient.ParseQuestion(e.ID, e.Raw), err
}

// -- editor A is killed

func (d *demo) killA(ctx context.Context) (string, error) {
	what := fmt.Sprintf("SIGKILL to process %d, in the middle of the turn", d.a.PID())
	if err := d.a.Kill(); err != nil {
		return what, err
	}
	_, err := d.a.Await(ctx, 0, func(e acpclient.Entry) bool { return e.Kind == acpclient.Closed })
	return what + ": A is gone", err
}

func (d *demo) turnSurvives(ctx context.Context) (string, error) {
	const what = "hermesd keeps the turn and its open question"
	out, err := d.hermesd(ctx, "status", "--json")
	if err != nil {
		return what, err
	}
	var s daemonStatus
	if err := json.Unmarshal(out, &s); err != nil {
		return what, fmt.Errorf("reading hermesd status: %w", err)
	}
	for _, x := range s.Sessions {
		if x.ID == d.session {
			if x.State != "waiting" || x.Questions != 1 {
				return what, fmt.Errorf("hermesd status says the session is %s with %d questions", x.State, x.Questions)
			}
			return what + " (hermesd status: waiting, 1 question)", nil
		}
	}
	return what, errors.New("hermesd status does not list the session")
}

// hermesd runs this program as a user would and gives its output.
func (d *demo) hermesd(ctx context.Context, args ...string) ([]byte, error) {
	cmd := exec.CommandContext(ctx, d.self, args...)
	cmd.Env, cmd.Dir = d.environ, d.work
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		return nil, fmt.Errorf("hermesd %s: %w: %s", strings.Join(args, " "), err, bytes.TrimSpace(stderr.Bytes()))
	}
	return out, nil
}

// -- editors B and C attach

// load attaches an editor and has the history sent.
func (d *demo) load(ctx context.Context, name string) (*acpclient.Process, string, error) {
	what := fmt.Sprintf("editor %s loads the session", name)
	p, err := d.attach(ctx, name)
	if err != nil {
		return p, what, err
	}
	if _, err := p.Load(ctx, d.session, d.work); err != nil {
		return p, what, err
	}
	return p, fmt.Sprintf("%s and sees %d characters of answer from before it came", what, len(p.Story(d.session).Says(acp.AgentMessageChunk))), nil
}

func (d *demo) attachB(ctx context.Context) (what string, err error) {
	d.b, what, err = d.load(ctx, "B")
	return what, err
}

func (d *demo) attachC(ctx context.Context) (what string, err error) {
	d.c2, what, err = d.load(ctx, "C")
	return what, err
}

func (d *demo) sameBeginning(context.Context) (string, error) {
	const what = "both saw the prompt and everything A had seen"
	a := d.a.Story(d.session)
	for _, p := range []*acpclient.Process{d.b, d.c2} {
		story := p.Story(d.session)
		if got := story.Says(acp.UserMessageChunk); got != demoPrompt {
			return what, fmt.Errorf("the prompt is shown as %q", got)
		}
		if err := a.BeginningOf(story.Without(acp.UserMessageChunk)); err != nil {
			return what, err
		}
	}
	return what, nil
}

func (d *demo) bothAsked(ctx context.Context) (string, error) {
	const what = "the open question is put to both, after the history"
	for _, p := range []*acpclient.Process{d.b, d.c2} {
		loaded, err := p.Await(ctx, 0, func(e acpclient.Entry) bool {
			return e.Kind == acpclient.Response && e.Method == "session/load"
		})
		if err != nil {
			return what, err
		}
		if d.question, err = d.asked(ctx, p, 0); err != nil {
			return what, err
		}
		e, err := p.Await(ctx, 0, func(e acpclient.Entry) bool { return e.Kind == acpclient.Asked })
		if err == nil && e.Index < loaded.Index {
			err = errors.New("it came before the answer to session/load")
		}
		if err != nil {
			return what, err
		}
	}
	return what, nil
}

// -- B answers

func (d *demo) answerB(context.Context) (string, error) {
	option, ok := d.question.Find("allow_once")
	if !ok {
		return "B allows it once", fmt.Errorf("the question has no such option, only %s", strings.Join(optionIDs(d.question.Options), ", "))
	}
	return fmt.Sprintf("B answers %q", option.Name), d.b.Answer(d.question.ID, option.ID)
}

func (d *demo) withdrawnC(ctx context.Context) (string, error) {
	_, err := d.c2.Await(ctx, 0, func(e acpclient.Entry) bool {
		return e.Kind == acpclient.Withdrawn && e.ID == d.question.ID
	})
	return "the question is taken back from C ($/cancel_request)", err
}

// idle matches the update that tells editors that a turn has ended.
func idle(e acpclient.Entry) bool {
	state, _ := acp.GetPath(e.Raw, "_meta", "hermes", "turn", "state")
	return e.Kind == acpclient.Update && e.Update == acp.SessionInfo && string(state) == `"idle"`
}

func (d *demo) turnGoesOn(ctx context.Context) (string, error) {
	const what = "the turn goes on to its end, before both their eyes"
	for _, p := range []*acpclient.Process{d.b, d.c2} {
		if _, err := p.Await(ctx, 0, idle); err != nil {
			return what, err
		}
		if said := p.Story(d.session).Says(acp.AgentMessageChunk); !strings.Contains(said, demoEnd) {
			return what, fmt.Errorf("the last words are %q", said[max(0, len(said)-80):])
		}
	}
	return what, nil
}

func (d *demo) fileWritten(context.Context) (string, error) {
	what := demoFile + " is on disk, as it should be"
	got, err := os.ReadFile(filepath.Join(d.work, demoFile))
	if err == nil && string(got) != demoContent {
		err = fmt.Errorf("it holds %q", got)
	}
	return what, err
}

func (d *demo) sameStory(context.Context) (string, error) {
	b, c := d.b.Story(d.session), d.c2.Story(d.session)
	d.whole = b
	return fmt.Sprintf("B and C saw the same: %d messages and tool calls, %d characters", len(b), len(b.Says(acp.AgentMessageChunk))), b.Same(c)
}

func (d *demo) beginningOfA(context.Context) (string, error) {
	return "what A saw is the beginning of it", d.a.Story(d.session).BeginningOf(d.whole.Without(acp.UserMessageChunk))
}

// -- the daemon is stopped and started

// leave closes an editor's pipes, as an editor that quits does.
func leave(ctx context.Context, p *acpclient.Process) error {
	if err := p.Close(); err != nil {
		return err
	}
	if err := p.ExitErr(ctx); err != nil {
		return fmt.Errorf("the shim ended with %w: %s", err, strings.TrimSpace(p.Stderr()))
	}
	return nil
}

func (d *demo) leaveBC(ctx context.Context) (string, error) {
	return "B and C quit; their shims end", errors.Join(leave(ctx, d.b), leave(ctx, d.c2))
}

func (d *demo) stop(ctx context.Context) (string, error) {
	pid := d.daemons[len(d.daemons)-1]
	what := fmt.Sprintf("hermesd stop ends process %d", pid)
	if _, err := d.hermesd(ctx, "stop"); err != nil {
		return what, err
	}
	return what, gone(ctx, pid)
}

func (d *demo) attachD(ctx context.Context) (what string, err error) {
	d.d, what, err = d.load(ctx, "D")
	if err == nil && len(d.daemons) != 2 {
		return what, errors.New("there is no new daemon")
	}
	if err == nil {
		what = fmt.Sprintf("editor D's shim starts hermesd again (process %d), and D loads the session", d.daemons[1])
	}
	return what, err
}

func (d *demo) historyThere(context.Context) (string, error) {
	return "the history is there: D sees what B and C saw", d.whole.Same(d.d.Story(d.session))
}

func (d *demo) goesOn(ctx context.Context) (string, error) {
	const what = "the conversation goes on"
	r, err := d.d.Prompt(ctx, d.session, "read "+demoFile)
	if err == nil && r.StopReason != "end_turn" {
		err = fmt.Errorf("the turn ended with %q", r.StopReason)
	}
	if err != nil {
		return what, err
	}
	tools := d.d.Story(d.session).Tools()
	if last := tools[len(tools)-1]; !bytes.Contains(last.JSON, []byte(strings.TrimSpace(demoContent))) {
		return what, fmt.Errorf("the file was not read: %s", last)
	}
	return what + ": D has the file read", nil
}

// -- nothing is left behind

func (d *demo) leaveD(ctx context.Context) (string, error) {
	return "D quits", leave(ctx, d.d)
}

func (d *demo) stopAgain(ctx context.Context) (string, error) { return d.stop(ctx) }

func (d *demo) nothingRuns(ctx context.Context) (string, error) {
	const what = "no process is left, the folder is removed"
	for _, pid := range d.daemons {
		if err := gone(ctx, pid); err != nil {
			return what, err
		}
	}
	return what, d.removeFolder()
}

// gone waits until a process that is nobody's child of ours has ended. The
// system has no way to wait for such a one everywhere, so it is asked again.
func gone(ctx context.Context, pid int) error {
	again := time.NewTicker(5 * time.Millisecond)
	defer again.Stop()
	for processAlive(pid) {
		select {
		case <-again.C:
		case <-ctx.Done():
			return fmt.Errorf("process %d is still there: %w", pid, context.Cause(ctx))
		}
	}
	return nil
}

func (d *demo) removeFolder() error {
	if d.dir == "" {
		return nil
	}
	err := os.RemoveAll(d.dir)
	if err == nil {
		d.dir = ""
	}
	return err
}

// cleanUp ends and removes what a failed step has left.
func (d *demo) cleanUp() error {
	var closing sync.WaitGroup
	for _, p := range []*acpclient.Process{d.a, d.b, d.c2, d.d} {
		if p == nil {
			continue
		}
		select {
		case <-p.Exited():
		default:
			_ = p.Kill() // its end is waited for below
		}
		closing.Go(func() { _ = p.Close() })
	}
	closing.Wait()
	if d.dir == "" {
		return nil
	}
	// Whoever holds the lock in a folder of ours is our daemon.
	if lock, err := link.TryLock(d.places.Lock); errors.Is(err, link.ErrLocked) {
		if pid := link.Holder(d.places.Lock); pid > 0 {
			if p, err := os.FindProcess(pid); err == nil {
				_ = p.Kill()
			}
			ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
			defer cancel()
			if err := gone(ctx, pid); err != nil {
				return err
			}
		}
	} else if err == nil {
		lock.Close()
	}
	return d.removeFolder()
}
