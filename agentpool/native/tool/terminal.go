package tool

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"math"
	"os"
	"os/exec"
	"strings"
	"time"
)

// Terminal runs a shell command.
type Terminal struct{}

const (
	defaultTimeLimit   = 120 * time.Second
	defaultMaxTime     = time.Hour
	defaultGrace       = 2 * time.Second
	defaultOutputLimit = 32 << 10

	showEvery = 100 * time.Millisecond
	showRate  = 64 << 10 // bytes a second of live output put in the log, about
	maxLine   = 128 << 10
)

func (Terminal) Name() string        { return "terminal" }
func (Terminal) Description() string { return describe("terminal") }
func (Terminal) Kind() string        { return "execute" }
func (Terminal) Schema() json.RawMessage {
	return json.RawMessage(`{"type":"object","properties":{` +
		`"command":{"type":"string"},` +
		`"timeout":{"type":"number","exclusiveMinimum":0,"description":"seconds after which it is ended"},` +
		`"background":{"type":"boolean","description":"let it run on and give its id; without a timeout it has no time limit"}},` +
		`"required":["command"],"additionalProperties":false}`)
}

// Plan implements Tool.
func (Terminal) Plan(_ context.Context, e *Env, args json.RawMessage) (*Action, error) {
	var in struct {
		Command    string  `json:"command"`
		Timeout    float64 `json:"timeout"`
		Background bool    `json:"background"`
	}
	if err := decode(args, &in); err != nil {
		return nil, err
	}
	switch {
	case strings.TrimSpace(in.Command) == "":
		return nil, errors.New("the command is empty")
	case strings.ContainsRune(in.Command, 0):
		return nil, errors.New("the command contains a NUL byte")
	case len(in.Command) > maxLine:
		return nil, fmt.Errorf("the command is too long (%d bytes, the limit is %d): write a file and run that", len(in.Command), maxLine)
	case in.Timeout < 0 || math.IsNaN(in.Timeout):
		return nil, errors.New("the timeout must be a number of seconds above 0")
	}
	if err := checkDir(e.Cwd); err != nil {
		return nil, err
	}
	limit := orDefault(e.TimeLimit, defaultTimeLimit)
	longest := max(limit, orDefault(e.MaxTime, defaultMaxTime))
	if in.Timeout > 0 {
		limit = longest
		if in.Timeout < longest.Seconds() {
			limit = time.Duration(in.Timeout * float64(time.Second))
		}
	}
	title := "Run " + code(in.Command, 100)
	if in.Background {
		if e.Jobs == nil {
			return nil, errors.New("commands in the background are not available here")
		}
		title += " in the background"
		if in.Timeout == 0 {
			limit = 0
		}
	}
	c := e.command(in.Command)
	need := e.need(c)
	return &Action{
		Title:     title,
		Locations: []Location{{Path: e.Cwd}},
		Content:   []Content{{Text: Fence("sh", toValid(in.Command))}},
		Need:      need,
		Run: func(ctx context.Context, show func([]Content)) (Result, error) {
			// A link may lead elsewhere by now.
			if now := e.need(e.command(in.Command)); need.Class == Free && now.Class != Free || now.Sensitive != "" && now.Sensitive != need.Sensitive || now.Forbidden != "" {
				return Result{}, errors.New("what the command does has changed since it was looked at: it was not run, try again")
			}
			if in.Background {
				return e.runInBackground(ctx, in.Command, limit)
			}
			return e.runCommand(ctx, in.Command, limit, show)
		},
	}, nil
}

func orDefault[T int | time.Duration](v, d T) T {
	if v <= 0 {
		return d
	}
	return v
}

// checkDir says clearly that the session's folder is gone; the system would
// say that there is no sh.
func checkDir(dir string) error {
	info, err := os.Stat(dir)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return fmt.Errorf("the session's folder %s does not exist any more: no command can run there", dir)
	case err != nil:
		return fmt.Errorf("the session's folder cannot be used: %w", err)
	case !info.IsDir():
		return fmt.Errorf("the session's folder %s is no folder any more", dir)
	}
	return nil
}

// environ is what a command gets as its environment.
func (e *Env) environ() []string {
	env := e.Environ
	if env == nil && e.FindEnviron != nil {
		env = e.FindEnviron()
	}
	if env == nil {
		for _, kv := range os.Environ() {
			if !strings.HasPrefix(kv, "HERMESD_") {
				env = append(env, kv)
			}
		}
	}
	return append(env[:len(env):len(env)], "PWD="+e.Cwd, "TERM=dumb")
}

// runCommand runs a command in a group of its own and waits until it has
// ended, or ends it when ctx is cancelled or its time is up. Whatever of the
// group is left then is ended too, and nothing that holds the output open makes
// it wait. What has left the group runs on if the command has ended by itself.
func (e *Env) runCommand(ctx context.Context, command string, limit time.Duration, show func([]Content)) (Result, error) {
	p, err := e.start(command, false)
	if err != nil {
		return Result{}, err
	}
	grace := orDefault(e.Grace, defaultGrace)
	timer := time.NewTimer(limit)
	defer timer.Stop()
	tick := time.NewTicker(showEvery)
	defer tick.Stop()
	var killer <-chan time.Time
	var shown int64
	var wait time.Duration
	done := ctx.Done()
	why := ""
	for running := true; running; {
		stop := ""
		select {
		case <-p.exited:
			running = false
		case <-done:
			stop = "cancelled"
		case <-timer.C:
			stop = "timeout"
		case <-killer:
			p.group.Kill()
		case <-tick.C:
			if wait -= showEvery; wait > 0 || p.out.written() == shown {
				break
			}
			shown = p.out.written()
			text, cut := p.out.text(false)
			show([]Content{{Text: console(text, cut)}})
			wait = time.Duration(len(text)) * time.Second / showRate
		}
		if stop != "" && why == "" {
			why, done = stop, nil
			p.group.Terminate()
			killer = time.After(grace)
		}
	}
	p.finish(grace, why != "") // what it left behind ends now
	return commandResult(ctx, p.out, p.exit, why, limit)
}

// commandResult tells how a command ended.
func commandResult(ctx context.Context, out *tail, exit error, why string, limit time.Duration) (Result, error) {
	text, cut := out.text(true)
	raw := map[string]any{"output": text, "truncated": cut, "bytes": out.written()}
	state := ""
	failed := true
	var ee *exec.ExitError
	switch {
	case exit == nil:
		state, failed = "exit status 0", false
		raw["exitCode"] = 0
	case errors.As(exit, &ee):
		if name := signalName(ee.ProcessState); name != "" {
			state = "ended by " + name
			raw["exitCode"], raw["signal"] = nil, name
		} else {
			state = fmt.Sprintf("exit status %d", ee.ExitCode())
			raw["exitCode"] = ee.ExitCode()
		}
	default:
		state = exit.Error()
	}
	switch why {
	case "timeout":
		failed = true
		state = fmt.Sprintf("ended after its time limit of %s; %s", limit, state)
		raw["timedOut"] = true
	case "cancelled":
		failed = true
		state = "ended because the turn was cancelled; " + state
		raw["cancelled"] = true
	}
	model := text
	if cut {
		model = fmt.Sprintf("[only the last %d of %d bytes are shown]\n%s", len(text), out.written(), text)
	}
	if model != "" && !strings.HasSuffix(model, "\n") {
		model += "\n"
	}
	shown := "[" + state + "]"
	if text != "" {
		shown = console(text, cut) + "\n" + shown
	}
	return Result{
		Text:    model + "[" + state + "]",
		Content: []Content{{Text: shown}},
		Raw:     raw,
		Failed:  failed,
	}, ctx.Err()
}

// console shows output to an editor.
func console(text string, cut bool) string {
	s := Fence("", text)
	if cut {
		s = "[only the end of the output is shown]\n" + s
	}
	return s
}
