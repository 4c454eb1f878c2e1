package tool

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"runtime"
	"strings"
	"time"

	"github.com/hermesd/hermesd/agentpool/native/shell"
)

// Process looks after the commands that run in the background.
type Process struct{}

const maxProcessWait = 5 * time.Minute

func (Process) Name() string        { return "process" }
func (Process) Description() string { return describe("process") }
func (Process) Kind() string        { return "execute" }
func (Process) Schema() json.RawMessage {
	return json.RawMessage(`{"type":"object","properties":{` +
		`"action":{"enum":["list","output","write","kill"]},` +
		`"id":{"type":"string","description":"of the command, as terminal gave it; not for list"},` +
		`"wait":{"type":"number","minimum":0,"description":"output: seconds to wait for something new"},` +
		`"all":{"type":"boolean","description":"output: all that is kept, and not only what is new"},` +
		`"input":{"type":"string","description":"write: what is written, with its newline"},` +
		`"eof":{"type":"boolean","description":"write: close the input afterwards"}},` +
		`"required":["action"],"additionalProperties":false}`)
}

// Plan implements Tool.
func (Process) Plan(_ context.Context, e *Env, args json.RawMessage) (*Action, error) {
	var in struct {
		Action string  `json:"action"`
		ID     string  `json:"id"`
		Wait   float64 `json:"wait"`
		All    bool    `json:"all"`
		Input  string  `json:"input"`
		EOF    bool    `json:"eof"`
	}
	if err := decode(args, &in); err != nil {
		return nil, err
	}
	if e.Jobs == nil {
		return nil, errors.New("commands in the background are not available here")
	}
	if in.Action == "list" {
		return &Action{Title: "List background commands", Kind: "read", Run: func(context.Context, func([]Content)) (Result, error) {
			return e.Jobs.list(), nil
		}}, nil
	}
	switch in.Action {
	case "output", "write", "kill":
	default:
		return nil, fmt.Errorf("the action %q is unknown: it is list, output, write or kill", in.Action)
	}
	if in.ID == "" {
		return nil, errors.New("the argument id is missing: the action list shows them")
	}
	b, err := e.Jobs.find(in.ID)
	if err != nil {
		return nil, err
	}
	what := code(b.command, 60)
	a := &Action{Locations: []Location{{Path: e.Cwd}}}
	switch in.Action {
	case "output":
		a.Title, a.Kind = "Output of "+what, "read"
		a.Run = func(ctx context.Context, _ func([]Content)) (Result, error) {
			text, note := b.news(ctx, in.All, seconds(in.Wait, maxProcessWait))
			return b.result(text, note), ctx.Err()
		}
	case "write":
		if len(in.Input) > maxInput {
			return nil, fmt.Errorf("the input is too long (%d bytes, the limit is %d)", len(in.Input), maxInput)
		}
		if in.Input == "" && !in.EOF {
			return nil, errors.New("there is nothing to write: give input or eof")
		}
		a.Title = "Write to " + what
		a.Content = []Content{{Text: Fence("", toValid(in.Input))}}
		given, writes := b.input()
		a.Need = e.inputNeed(b, given, in.Input, in.EOF)
		a.Run = func(ctx context.Context, _ func([]Content)) (Result, error) {
			if now := e.inputNeed(b, given, in.Input, in.EOF); now.Sensitive != a.Need.Sensitive && now.Sensitive != "" || now.Forbidden != "" {
				return Result{}, errors.New("what the input does has changed since it was looked at: it was not written, try again")
			}
			if err := b.write(ctx, in.Input, in.EOF, writes); err != nil {
				return Result{}, err
			}
			text, note := b.news(ctx, false, startWatch)
			return b.result(text, note), nil
		}
	case "kill":
		a.Title = "End " + what
		a.Run = func(ctx context.Context, _ func([]Content)) (Result, error) {
			b.stop("ended on request")
			select {
			case <-b.done:
			case <-ctx.Done():
				return Result{}, ctx.Err()
			}
			text, note := b.news(ctx, false, 0)
			return b.result(text, note), nil
		}
	}
	return a, nil
}

// inputNeed is the permission that input for a command needs. The command may be a
// shell, so its input is judged like commands, together with what was written
// before; that it may not be one is no reason to find it unclear.
func (e *Env) inputNeed(b *job, given shell.Input, text string, eof bool) Need {
	what := code(b.command, 60)
	n := Need{Class: Running, Grants: []string{"input of " + b.id}, Scope: "input for the running command " + what}
	var r *shell.Report
	isShell := false
	if runtime.GOOS == "windows" {
		r = shell.Scan(given.Add(text).Text())
	} else {
		w := e.world(e.environ())
		r = given.Read(text, w)
		isShell = shell.Read(b.command, w).Shell
	}
	n.Forbidden = r.Forbidden
	switch why := e.spoils(r); {
	case why != "":
		n.Sensitive = why
	case isShell && r.Unclear != "":
		n.Sensitive = "it cannot be told what it does: " + r.Unclear
	case given.Open(text) && !eof:
		n.Sensitive = "its last line is open, and what comes next decides what it does"
	}
	return n
}

// result shows output and state of a job.
func (b *job) result(text, note string) Result {
	state := fmt.Sprintf("[%s: %s]", b.id, b.status())
	model := note + text
	if model != "" && !strings.HasSuffix(model, "\n") {
		model += "\n"
	}
	shown := state
	if text != "" {
		shown = note + Fence("", text) + "\n" + state
	}
	raw := map[string]any{"id": b.id, "running": !b.over(), "output": text}
	if b.over() {
		b.mu.Lock()
		raw["state"] = b.state
		b.mu.Unlock()
	}
	return Result{Text: model + state, Content: []Content{{Text: shown}}, Raw: raw}
}

// list shows all jobs.
func (j *Jobs) list() Result {
	j.mu.Lock()
	all := append([]*job(nil), j.all...)
	j.mu.Unlock()
	if len(all) == 0 {
		text := "There are no commands in the background."
		return Result{Text: text, Content: []Content{{Text: text}}, Raw: map[string]any{"processes": []any{}}}
	}
	var lines []string
	raw := make([]map[string]any, len(all))
	for i, b := range all {
		lines = append(lines, fmt.Sprintf("%s: %s, %s of output: %s", b.id, b.status(), plural(int(b.p.out.written()), "byte"), oneLine(b.command, 120)))
		raw[i] = map[string]any{"id": b.id, "command": b.command, "running": !b.over()}
	}
	text := strings.Join(lines, "\n")
	return Result{Text: text, Content: []Content{{Text: Fence("", text)}}, Raw: map[string]any{"processes": raw}}
}

// runInBackground starts a command and looks at it for a moment: one that fails
// at once says so at once.
func (e *Env) runInBackground(ctx context.Context, command string, limit time.Duration) (Result, error) {
	b, err := e.Jobs.start(e, command, limit)
	if err != nil {
		return Result{}, err
	}
	timer := time.NewTimer(startWatch)
	defer timer.Stop()
	select {
	case <-b.done:
	case <-timer.C:
	case <-ctx.Done():
		b.stop("ended because the turn was cancelled")
		<-b.done
		return Result{}, ctx.Err()
	}
	text, note := b.news(ctx, false, 0)
	r := b.result(text, note)
	r.Failed = b.over() && b.p.exit != nil
	return r, nil
}
