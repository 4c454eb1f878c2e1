package tool

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
)

// ExitPlan asks the user to end plan mode.
type ExitPlan struct{}

// Switch is the wish to leave plan mode.
type Switch struct {
	// Mode is the mode the user chose, put here before Run; "" if the session was
	// not in plan mode, so that nobody was asked.
	Mode string
}

const maxPlanText = 64 << 10 // bytes

func (ExitPlan) Name() string        { return "exit_plan" }
func (ExitPlan) Description() string { return describe("exit_plan") }
func (ExitPlan) Kind() string        { return "switch_mode" }
func (ExitPlan) Schema() json.RawMessage {
	return json.RawMessage(`{"type":"object","properties":{` +
		`"plan":{"type":"string","description":"what is to be done, in Markdown, as the user shall read it"}},` +
		`"required":["plan"],"additionalProperties":false}`)
}

// Plan implements Tool.
func (ExitPlan) Plan(_ context.Context, _ *Env, args json.RawMessage) (*Action, error) {
	var in struct {
		Plan string `json:"plan"`
	}
	if err := decode(args, &in); err != nil {
		return nil, err
	}
	if strings.TrimSpace(in.Plan) == "" {
		return nil, errors.New("the plan is empty: say what is to be done")
	}
	if len(in.Plan) > maxPlanText {
		return nil, fmt.Errorf("the plan is too long (%d bytes, the limit is %d)", len(in.Plan), maxPlanText)
	}
	s := &Switch{}
	return &Action{
		Title:   "Ready to begin?",
		Content: []Content{{Text: toValid(in.Plan)}},
		Need:    Need{Class: Switching},
		Switch:  s,
		Run: func(context.Context, func([]Content)) (Result, error) {
			if s.Mode == "" {
				return Result{Text: "The session is not in plan mode: nobody was asked, and nothing has changed. Go on."}, nil
			}
			how := "ask for each change"
			if s.Mode == "accept_edits" {
				how = "edits inside the session's folders are accepted"
			}
			return Result{
				Text: fmt.Sprintf("The user agrees with the plan. Plan mode is over; the mode is now %s (%s). Begin.", s.Mode, how),
				Raw:  map[string]any{"mode": s.Mode},
			}, nil
		},
	}, nil
}
