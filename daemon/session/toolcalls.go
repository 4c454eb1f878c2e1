package session

import (
	"bytes"

	"github.com/hermesd/hermesd/transport/acp"
)

// maxOpenCalls bounds the calls that are tracked: an agent that never ends one
// must not grow the daemon. The oldest are forgotten first.
const maxOpenCalls = 256

// ToolCalls tracks the tool calls that are not final yet, each with the state
// its updates have given it. The zero value has none. A copy is independent of
// its original: Apply changes nothing that is shared.
type ToolCalls struct {
	open []openCall
}

type openCall struct {
	id   string
	data []byte // complete `tool_call`
}

// Apply takes one update; those that are about no tool call change nothing.
func (c *ToolCalls) Apply(update []byte) {
	kind := acp.UpdateKind(update)
	if kind != acp.ToolCall && kind != acp.ToolCallUpdate {
		return
	}
	id := acp.ToolCallID(update)
	if id == "" {
		return
	}
	at := c.find(id)
	if at < 0 {
		if acp.ToolCallFinal(update) || kind == acp.ToolCallUpdate && !announces(update) {
			return // over at once, or said about a call that is over
		}
		open := c.open
		if len(open) >= maxOpenCalls {
			open = open[len(open)-maxOpenCalls+1:]
		}
		c.open = append(open[:len(open):len(open)], openCall{id, acp.MergeToolCall(nil, update)})
		return
	}
	merged := acp.MergeToolCall(c.open[at].data, update)
	open := make([]openCall, 0, len(c.open))
	open = append(open, c.open[:at]...)
	if !acp.ToolCallFinal(merged) {
		open = append(open, openCall{id, merged})
	}
	c.open = append(open, c.open[at+1:]...)
}

// announces reports whether a tool_call_update can stand for the `tool_call`
// an agent did not send.
func announces(update []byte) bool {
	_, title := acp.GetString(update, "title")
	_, status := acp.GetString(update, "status")
	return title && status
}

func (c *ToolCalls) find(id string) int {
	for i := range c.open {
		if c.open[i].id == id {
			return i
		}
	}
	return -1
}

// Open gives the open calls as complete `tool_call` updates, in the order they
// began.
func (c *ToolCalls) Open() [][]byte {
	if len(c.open) == 0 {
		return nil
	}
	calls := make([][]byte, len(c.open))
	for i, o := range c.open {
		calls[i] = o.data
	}
	return calls
}

// Get gives the complete state of an open call, nil if it is not open.
func (c *ToolCalls) Get(id string) []byte {
	if at := c.find(id); at >= 0 {
		return c.open[at].data
	}
	return nil
}

// Fail gives the updates that end every open call as failed. text is added to
// what the calls show; state stands in `_meta.hermes.state` for programs. The
// calls stay open until the updates are applied.
func (c *ToolCalls) Fail(text, state string) [][]byte {
	var updates [][]byte
	var hermes acp.Builder
	meta := acp.HermesMeta(hermes.String("state", state).JSON())
	for _, o := range c.open {
		update := acp.ToolCallFailed(o.id, text, meta)
		// Content replaces what was there: keep it and add.
		if was, ok := acp.Get(o.data, "content"); ok && text != "" {
			update = acp.Set(update, "content", addContent(was, acp.TextContent(text)))
		}
		updates = append(updates, update)
	}
	return updates
}

// addContent joins two arrays of tool call content.
func addContent(was, more []byte) []byte {
	first, ok := acp.Elements(was)
	if !ok {
		return more
	}
	second, _ := acp.Elements(more)
	return acp.List(append(first, second...)...)
}

// withoutTerminals takes the terminals out of a tool call's content: they are
// gone, and an editor that never knew them refuses the whole call.
func withoutTerminals(call []byte) []byte {
	if !bytes.Contains(call, []byte(`terminal`)) {
		return call
	}
	content, _ := acp.Get(call, "content")
	all, ok := acp.Elements(content)
	if !ok {
		return call
	}
	kept := all[:0:0]
	for _, c := range all {
		if t, _ := acp.GetString(c, "type"); t != "terminal" {
			kept = append(kept, c)
		}
	}
	if len(kept) == len(all) {
		return call
	}
	return acp.Set(call, "content", acp.List(kept...))
}
