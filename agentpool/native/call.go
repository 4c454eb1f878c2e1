package native

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"runtime/debug"
	"time"

	"github.com/hermesd/hermesd/agentpool/native/llm"
	"github.com/hermesd/hermesd/agentpool/native/mcp"
	"github.com/hermesd/hermesd/agentpool/native/tool"
)

const (
	maxRawInput = 64 << 10 // bytes of arguments an editor is shown as they are

	stoppedNote = "stopped: the turn was cancelled before this was done"
)

// call is one use of a tool, from its announcement to its end.
type call struct {
	llm.ToolCall
	tool   tool.Tool
	action *tool.Action // nil: it cannot run, because of err
	err    error
	shown  []byte // the content an editor shows, encoded
	start  time.Time
}

// runCalls announces the calls of one message, then takes them one after the
// other. It returns a result for each of them, whatever happens; none is left
// open. The error is ctx's, or one of the host.
func (t *turn) runCalls(ctx context.Context, wanted []llm.ToolCall) (llm.Message, error) {
	calls := make([]*call, len(wanted))
	for i, w := range wanted {
		calls[i] = &call{ToolCall: w, tool: t.find(w.Name), start: time.Now()}
	}
	var fault error
	for _, c := range calls {
		t.plan(ctx, c)
		if fault = t.host.Update(ctx, encode(t.announcement(c))); fault != nil {
			break
		}
	}
	results := llm.Message{Role: llm.RoleTool}
	for i, c := range calls {
		var r tool.Result
		err := fault
		if err == nil {
			err = ctx.Err()
		}
		if err == nil {
			if i > 0 {
				err = t.planAgain(ctx, c)
			}
			if err == nil {
				r, err = t.runCall(ctx, c)
			}
		}
		text, ferr := t.finish(ctx, c, r, err)
		if ferr != nil && fault == nil {
			fault = ferr
		}
		result := &llm.ToolResult{CallID: c.ID, Name: c.Name, Text: text, Failed: err != nil || r.Failed}
		for _, i := range r.Images {
			result.Images = append(result.Images, llm.Attachment{Kind: "image", MimeType: i.MimeType, Data: i.Data})
		}
		results.Parts = append(results.Parts, llm.Part{Result: result})
	}
	if ctx.Err() != nil {
		return results, ctx.Err()
	}
	return results, fault
}

// plan asks the tool what the call would do.
func (t *turn) plan(ctx context.Context, c *call) {
	if c.tool == nil {
		c.err = fmt.Errorf("there is no tool %q", c.Name)
		return
	}
	c.action, c.err = nil, nil
	defer t.caught(c, &c.err)
	action, err := c.tool.Plan(ctx, &t.env, c.Args)
	if err != nil {
		c.err = err
		return
	}
	c.action = action
}

// caught, deferred, turns a panic of a tool into an error of its call: one
// mistake of ours must not end the sessions of all, and the call gets its end.
func (t *turn) caught(c *call, err *error) {
	if x := recover(); x != nil {
		if t.cfg.Panicked != nil {
			t.cfg.Panicked(c.Name, x, debug.Stack())
		}
		*err = fmt.Errorf("hermesd made a mistake in the tool %s; what it had done until then is not known", c.Name)
	}
}

// planAgain renews the plan of a call that stood behind others, which may have
// changed what it starts from, and shows the new diff.
func (t *turn) planAgain(ctx context.Context, c *call) error {
	t.plan(ctx, c)
	if c.action == nil {
		return nil
	}
	content := encode(c.action.Content)
	if bytes.Equal(content, c.shown) {
		return nil
	}
	c.shown = content
	return t.host.Update(ctx, encode(toolCall{SessionUpdate: "tool_call_update", ID: c.ID, Content: c.action.Content, Locations: c.action.Locations}))
}

// announcement is the tool_call that tells of the call.
func (t *turn) announcement(c *call) toolCall {
	u := t.described(c)
	u.SessionUpdate = "tool_call"
	return u
}

// described is everything there is to say of a call that has not begun.
func (t *turn) described(c *call) toolCall {
	u := toolCall{ID: c.ID, Title: c.Name, Name: c.Name, Kind: "other", Status: "pending", RawInput: rawInput(c.Args)}
	if c.tool != nil {
		u.Kind = c.tool.Kind()
	}
	if c.action != nil {
		u.Title, u.Locations, u.Content = c.action.Title, c.action.Locations, c.action.Content
		if c.action.Kind != "" {
			u.Kind = c.action.Kind
		}
		c.shown = encode(c.action.Content)
	}
	return u
}

// rawInput shows arguments as they are unless they are huge: the diff shows
// them too.
func rawInput(args json.RawMessage) json.RawMessage {
	if len(args) <= maxRawInput {
		return args
	}
	var fields map[string]json.RawMessage
	if json.Unmarshal(args, &fields) != nil {
		return encode(fmt.Sprintf("%d bytes of arguments", len(args)))
	}
	for k, v := range fields {
		if len(v) > 4<<10 {
			fields[k] = encode(fmt.Sprintf("(%d bytes)", len(v)))
		}
	}
	return encode(fields)
}

// runCall takes one call through permission, barrier and action.
func (t *turn) runCall(ctx context.Context, c *call) (r tool.Result, err error) {
	defer t.caught(c, &err)
	if c.err != nil {
		return tool.Result{}, c.err
	}
	if err := t.permit(ctx, c); err != nil {
		return tool.Result{}, err
	}
	if c.action.Inquiry != nil {
		if err := t.inquire(ctx, c); err != nil {
			return tool.Result{}, err
		}
	}
	if err := t.host.Update(ctx, encode(toolCall{SessionUpdate: "tool_call_update", ID: c.ID, Status: "in_progress"})); err != nil {
		return tool.Result{}, err
	}
	if c.action.Need.Class.Changes() {
		// What was decided and is about to happen is on the disk before it does.
		if err := t.host.Barrier(ctx); err != nil {
			return tool.Result{}, fmt.Errorf("not done, because the session's log cannot be written: %w", err)
		}
	}
	c.start = time.Now()
	return c.action.Run(mcp.WithAsker(ctx, t.asker(c)), func(content []tool.Content) {
		// A view that cannot be shown is no reason to end the call; the end of
		// the call meets the same error.
		_ = t.host.Update(ctx, encode(toolCall{SessionUpdate: "tool_call_update", ID: c.ID, Content: content}))
	})
}

// finish ends a call in the eyes of the editor and returns what the model is
// told.
func (t *turn) finish(ctx context.Context, c *call, r tool.Result, err error) (string, error) {
	u := toolCall{
		SessionUpdate: "tool_call_update",
		ID:            c.ID,
		Status:        "completed",
		Content:       r.Content,
		Locations:     r.Locations,
		RawOutput:     r.Raw,
		Meta:          hermesMeta(map[string]any{"durationMs": time.Since(c.start).Milliseconds()}),
	}
	text := r.Text
	if err != nil {
		note := err.Error()
		if ctx.Err() != nil {
			note = stoppedNote
		}
		if text != "" {
			text += "\n"
		}
		text += note
		if u.Content == nil {
			// The diff or the command stays, with the reason below it.
			if c.action != nil {
				u.Content = append(u.Content, c.action.Content...)
			}
			u.Content = append(u.Content, tool.Content{Text: note})
		}
		if u.RawOutput == nil {
			u.RawOutput = map[string]any{"error": note}
		}
	}
	if err != nil || r.Failed {
		u.Status = "failed"
	}
	ctx, cancel := t.parting(ctx)
	defer cancel()
	ferr := t.host.Update(ctx, encode(u))
	if ferr == nil && r.Plan != nil {
		ferr = t.host.Update(ctx, encode(struct {
			Update  string           `json:"sessionUpdate"`
			Entries []tool.PlanEntry `json:"entries"`
		}{"plan", r.Plan}))
	}
	return text, ferr
}
