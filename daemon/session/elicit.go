package session

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
)

// Form asks the user for values (ACP elicitation, mode "form").
type Form struct {
	ToolCall string          // id of the call that asks, "" if none does
	Message  string          // what is asked, for the user
	Schema   json.RawMessage // `requestedSchema`: an object of plain properties
}

// Filled is how a form ended.
type Filled struct {
	// Outcome is Selected if the user sent the form, NotOffered if he declined
	// it, Dismissed if he put it away, TimedOut if he did nothing.
	Outcome Outcome
	Content json.RawMessage // what he wrote, an object, of Selected
}

// Elicit puts a form before the editor that prompted, and before no other:
// what a user is asked there is bound to that connection. ErrNoEditor if that
// one knows no forms, is not there, or leaves before it has answered.
func (h *host) Elicit(ctx context.Context, f Form) (Filled, error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	left := make(chan struct{})
	e, id, err := h.prompterUntil(ctx, Editor.CanElicit, func() { close(left); cancel() })
	if err != nil {
		return Filled{}, err
	}
	defer h.forget(e.Conn(), id)
	limited, done := ctx, context.CancelFunc(func() {})
	if t := h.s.cfg.QuestionTimeout; t > 0 {
		limited, done = context.WithTimeout(ctx, t)
	}
	defer done()
	params := map[string]any{"sessionId": h.s.id, "mode": "form", "message": f.Message, "requestedSchema": f.Schema}
	if f.ToolCall != "" {
		params["toolCallId"] = f.ToolCall
	}
	raw, err := e.Call(limited, id, "elicitation/create", params)
	select {
	case <-left:
		return Filled{}, ErrNoEditor
	default:
	}
	switch {
	case ctx.Err() != nil:
		return Filled{}, ctx.Err()
	case limited.Err() != nil && err != nil:
		return Filled{Outcome: TimedOut}, nil
	case err != nil:
		return Filled{}, fmt.Errorf("%w: %w", ErrNoEditor, err)
	}
	var res struct {
		Action  string          `json:"action"`
		Content json.RawMessage `json:"content"`
	}
	if err := json.Unmarshal(raw, &res); err != nil {
		return Filled{}, errors.Join(ErrNoEditor, fmt.Errorf("the editor's answer is no answer to a form: %w", err))
	}
	switch res.Action {
	case "accept":
		return Filled{Outcome: Selected, Content: res.Content}, nil
	case "decline":
		return Filled{Outcome: NotOffered}, nil
	}
	return Filled{Outcome: Dismissed}, nil // "cancel", and what later versions may say
}
