package external

import (
	"context"
	"encoding/json"

	"github.com/hermesd/hermesd/daemon/session"
	"github.com/hermesd/hermesd/transport/acp"
	"github.com/hermesd/hermesd/transport/jsonrpc"
)

// admit takes a request of the program. What nobody serves is answered -32601.
func (l *life) admit(r *jsonrpc.Request) jsonrpc.Handler {
	if id, ok := acp.GetString(r.Params, "sessionId"); ok && l.id() != "" && id != l.id() {
		return refused(session.CodeParams, "sessionId: "+id+" is no session of this connection")
	}
	switch r.Method {
	case "session/request_permission":
		return l.permission(r)
	case "fs/read_text_file":
		return l.readFile(r)
	case "fs/write_text_file":
		return l.writeFile(r)
	}
	return nil
}

func refused(code int, why string) jsonrpc.Handler {
	return func(context.Context) (any, error) { return nil, &jsonrpc.Error{Code: code, Message: why} }
}

// permission puts a question to whoever is attached.
func (l *life) permission(r *jsonrpc.Request) jsonrpc.Handler {
	call, ok := acp.Get(r.Params, "toolCall")
	if !ok || acp.ToolCallID(call) == "" {
		return refused(session.CodeParams, "toolCall: it has no toolCallId")
	}
	raw, _ := acp.Get(r.Params, "options")
	var options []session.Option
	if json.Unmarshal(raw, &options) != nil || len(options) == 0 {
		return refused(session.CodeParams, "options: there are none")
	}
	meta, _ := acp.Get(r.Params, "_meta")
	// Here, in the reader: it stands before what the program says next.
	if first := l.order.announce(call); first != nil {
		_ = l.a.host.Update(l.ctx, first)
	}
	return func(ctx context.Context) (any, error) {
		ctx, cancel := context.WithCancel(ctx)
		defer cancel()
		defer context.AfterFunc(l.ctx, cancel)()
		answer, err := l.a.host.Ask(ctx, session.Question{ToolCall: call, Options: options, Meta: meta})
		if err != nil {
			return nil, err
		}
		return outcome(answer, options), nil
	}
}

// outcome is the answer as the program gets it. The protocol knows only
// "selected" and "cancelled": what nobody has decided is no consent and no
// refusal, so it is the latter.
func outcome(a session.Answer, options []session.Option) json.RawMessage {
	id := ""
	switch a.Outcome {
	case session.Selected:
		id = a.Option.ID
	case session.NotOffered: // counts as no
		for _, o := range options {
			if o.Kind == "reject_once" {
				id = o.ID
				break
			}
		}
	}
	var inner, outer acp.Builder
	if id == "" {
		inner.String("outcome", "cancelled")
	} else {
		inner.String("outcome", "selected").String("optionId", id)
	}
	return outer.Raw("outcome", inner.JSON()).JSON()
}
