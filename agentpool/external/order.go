package external

import (
	"fmt"
	"slices"
	"sync"

	"github.com/hermesd/hermesd/daemon/session"
	"github.com/hermesd/hermesd/transport/acp"
)

// order repairs what programs leave out: it announces calls that were not, and
// names messages that have no name. It is used by the reader, and asked by
// whoever ends a turn.
type order struct {
	mu    sync.Mutex
	calls map[string]bool // by id: whether its end was told
	ids   []string        // of calls, oldest first
	turn  session.Seq
	life  string
	kind  string // of the chunk before; "" after anything else
	count int    // of messages named
}

// maxCalls is how many calls are remembered.
const maxCalls = 10_000

// repair gives the updates to write for one of the program.
func (o *order) repair(u []byte) [][]byte {
	o.mu.Lock()
	defer o.mu.Unlock()
	kind := acp.UpdateKind(u)
	if acp.IsChunk(kind) {
		if acp.MessageID(u) != "" {
			o.kind = ""
			return [][]byte{u}
		}
		if o.kind != kind {
			o.kind = kind
			o.count++
		}
		return [][]byte{acp.Set(u, "messageId", acp.String(fmt.Sprintf("m_%d_%s_%d", o.turn, o.life, o.count)))}
	}
	if kind != acp.Usage && kind != acp.SessionInfo && kind != acp.AvailableCommands { // those come in the middle of messages
		o.kind = ""
	}
	switch kind {
	case acp.ToolCall:
		o.note(acp.ToolCallID(u), acp.ToolCallFinal(u))
	case acp.ToolCallUpdate:
		id := acp.ToolCallID(u)
		if _, known := o.calls[id]; !known && id != "" {
			first := announcement(u)
			o.note(id, acp.ToolCallFinal(u))
			return [][]byte{first}
		}
		if acp.ToolCallFinal(u) {
			o.note(id, true)
		}
	}
	return [][]byte{u}
}

// announce gives the tool_call that must stand before a question about call; nil
// if it was told of.
func (o *order) announce(call []byte) []byte {
	o.mu.Lock()
	defer o.mu.Unlock()
	id := acp.ToolCallID(call)
	if _, known := o.calls[id]; known || id == "" {
		return nil
	}
	o.kind = ""
	o.note(id, false)
	return announcement(call)
}

// announcement is a tool_call with what is known of it.
func announcement(call []byte) []byte {
	u := acp.Set(call, "sessionUpdate", acp.String(acp.ToolCall))
	if title, ok := acp.GetString(u, "title"); !ok || title == "" {
		u = acp.Set(u, "title", acp.String("Tool call"))
	}
	if _, ok := acp.GetString(u, "status"); !ok {
		u = acp.Set(u, "status", acp.String("pending"))
	}
	return u
}

func (o *order) note(id string, final bool) {
	if o.calls == nil {
		o.calls = make(map[string]bool)
	}
	if _, known := o.calls[id]; !known {
		if len(o.ids) >= maxCalls {
			delete(o.calls, o.ids[0])
			o.ids = o.ids[1:]
		}
		o.ids = append(o.ids, id)
	}
	o.calls[id] = final
}

// open gives the calls whose end was not told, and takes them for ended.
func (o *order) open() []string {
	o.mu.Lock()
	defer o.mu.Unlock()
	var ids []string
	for id, final := range o.calls {
		if !final {
			ids = append(ids, id)
			o.calls[id] = true
		}
	}
	slices.Sort(ids)
	return ids
}

func (o *order) begins(turn session.Seq) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.turn, o.kind, o.count = turn, "", 0
}
