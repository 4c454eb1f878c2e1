package daemontest

import (
	"context"
	"encoding/json"
	"fmt"
	"sync"

	"github.com/hermesd/hermesd/daemon/session"
	"github.com/hermesd/hermesd/transport/acp"
)

// Script is an agent that does what a test tells it: Turn runs each prompt. It
// is the session.Agents of a daemon under test.
type Script struct {
	// Turn runs a prompt; nil ends it at once. It may use Say and Ask.
	Turn func(ctx context.Context, t *Stage) (session.TurnResult, error)
	// Opening, if not nil, runs before an agent is given to a session.
	Opening func(ctx context.Context, spec session.Spec, h session.Host) error

	mu     sync.Mutex
	opened int
	open   int
}

// Stage is what a scripted turn has to play on.
type Stage struct {
	session.Host
	session.Turn
	Spec session.Spec
	n    int
}

// Text is the text of the prompt.
func (t *Stage) Text() string {
	all := ""
	for _, b := range t.Blocks {
		s, _ := acp.GetString(b, "text")
		all += s
	}
	return all
}

// Say streams one chunk of the turn's message.
func (t *Stage) Say(ctx context.Context, format string, args ...any) error {
	return t.Update(ctx, acp.AgentText(fmt.Sprintf("msg_%d", t.Seq), fmt.Sprintf(format, args...), nil))
}

// Call announces a tool call and returns its id.
func (t *Stage) Call(ctx context.Context, title string) (string, error) {
	t.n++
	id := fmt.Sprintf("call_%d_%d", t.Seq, t.n)
	var o acp.Builder
	return id, t.Update(ctx, o.String("sessionUpdate", acp.ToolCall).String("toolCallId", id).String("title", title).
		String("kind", "execute").String("status", "pending").JSON())
}

// Status changes a tool call's status.
func (t *Stage) Status(ctx context.Context, id, status string) error {
	var o acp.Builder
	return t.Update(ctx, o.String("sessionUpdate", acp.ToolCallUpdate).String("toolCallId", id).String("status", status).JSON())
}

// Permit announces a call, asks whether it may run, and ends it accordingly.
func (t *Stage) Permit(ctx context.Context, title string) (session.Answer, error) {
	id, err := t.Call(ctx, title)
	if err != nil {
		return session.Answer{}, err
	}
	var call acp.Builder
	a, err := t.Ask(ctx, session.Question{
		ToolCall: call.String("toolCallId", id).String("title", title).JSON(),
		Options: []session.Option{
			{ID: "yes", Name: "Allow once", Kind: "allow_once"},
			{ID: "no", Name: "Reject", Kind: "reject_once"},
		},
	})
	if err != nil {
		return a, err
	}
	status := "failed"
	if a.Allowed() {
		status = "completed"
	}
	return a, t.Status(context.WithoutCancel(ctx), id, status)
}

// Has, Default and Open make Script a session.Agents with one agent.
func (s *Script) Has(name string) bool { return name == "" || name == "script" }

func (s *Script) Default() string { return "script" }

func (s *Script) Open(ctx context.Context, spec session.Spec, h session.Host) (session.Agent, session.Settings, error) {
	if s.Opening != nil {
		if err := s.Opening(ctx, spec, h); err != nil {
			return nil, session.Settings{}, err
		}
	}
	s.mu.Lock()
	s.opened++
	s.open++
	s.mu.Unlock()
	set := spec.Settings
	if len(set.Modes) == 0 {
		set = scriptSettings("one")
	}
	return &scripted{s: s, spec: spec, host: h, set: set}, set, nil
}

// Opened says how many agents were opened so far, and how many still are.
func (s *Script) Opened() (ever, now int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.opened, s.open
}

func scriptSettings(mode string) session.Settings {
	modes := fmt.Sprintf(`{"currentModeId":%q,"availableModes":[{"id":"one","name":"One"},{"id":"two","name":"Two"}]}`, mode)
	options := fmt.Sprintf(`[{"id":"mode","name":"Mode","category":"mode","type":"select","currentValue":%q,"options":[{"value":"one","name":"One"},{"value":"two","name":"Two"}]}]`, mode)
	return session.Settings{Modes: json.RawMessage(modes), Options: json.RawMessage(options)}
}

type scripted struct {
	s    *Script
	spec session.Spec
	host session.Host
	mu   sync.Mutex
	set  session.Settings
}

func (a *scripted) Prompt(ctx context.Context, turn session.Turn) (session.TurnResult, error) {
	if a.s.Turn == nil {
		return session.TurnResult{StopReason: "end_turn"}, nil
	}
	return a.s.Turn(ctx, &Stage{Host: a.host, Turn: turn, Spec: a.spec})
}

func (a *scripted) Set(_ context.Context, c session.Change) (session.Settings, error) {
	mode := c.Mode
	if c.Option == "mode" {
		_ = json.Unmarshal(c.Value, &mode)
	}
	if mode != "one" && mode != "two" {
		return session.Settings{}, &session.Error{Code: session.CodeParams, Message: "no such mode or option"}
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	a.set = scriptSettings(mode)
	return a.set, nil
}

func (a *scripted) Close() error {
	a.s.mu.Lock()
	a.s.open--
	a.s.mu.Unlock()
	return nil
}
