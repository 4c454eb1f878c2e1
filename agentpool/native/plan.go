package native

import (
	"context"
	"errors"
	"fmt"

	"github.com/hermesd/hermesd/daemon/session"
)

// This file is plan mode as the model meets it. The rules enforce it (see
// judge); the model is told of it by words that stand beside a prompt, never by
// a changed system prompt or list of tools: a request begins with the bytes of
// the one before.

const (
	planNote = "[hermesd] The session is in plan mode: read, search and think, and change nothing; what would change something is refused. " +
		"When you know what is to be done, call exit_plan with the plan: it asks the user whether to begin."
	planOver = "[hermesd] Plan mode is over: changes can be made again, as far as the user allows them."
)

// tellMode puts words beside the prompt of the turn if the model believes
// something else about plan mode than is true.
func (t *turn) tellMode(ctx context.Context) error {
	planning := t.currentMode() == modePlan
	if planning == t.history.planning {
		return nil
	}
	note := planOver
	if planning {
		note = planNote
	}
	if err := t.host.Record(ctx, encode(record{Mode: note})); err != nil {
		return err
	}
	t.history.note(note)
	return nil
}

// leavePlan acts on the user's answer to exit_plan.
func (t *turn) leavePlan(ctx context.Context, c *call, answer session.Answer) error {
	if !answer.Allowed() {
		if answer.Outcome == session.Selected {
			return errors.New("the user wants to keep planning: the session stays in plan mode. Ask what is to be different, or make the plan better; do not call exit_plan again before something has changed")
		}
		return fmt.Errorf("the session stays in plan mode; %s", denial(answer))
	}
	if err := t.host.Set(ctx, session.Change{Mode: answer.Option.ID}); err != nil {
		return fmt.Errorf("the user agreed, but the mode could not be changed: %w", err)
	}
	c.action.Switch.Mode = answer.Option.ID
	return nil
}

// lookForPlan finds what the model has last been told of plan mode.
func (h *history) lookForPlan() bool {
	for i := len(h.messages) - 1; i >= 0; i-- {
		for _, p := range h.messages[i].Parts {
			if p.Note == planNote {
				return true
			}
			if p.Note == planOver {
				return false
			}
		}
	}
	return false
}
