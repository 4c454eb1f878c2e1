package mcp

import (
	"context"
	"encoding/json"
	"strings"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"
)

// Asker puts a form to the user on behalf of a server whose call runs. The
// outcome is in MCP's words: "accept" with what was filled in, "decline" if the
// user himself said no, "cancel" for everything else.
type Asker func(ctx context.Context, f Form) (action string, content map[string]any)

// Form is what a server wants to know (elicitation, mode "form").
type Form struct {
	Server  string
	Message string
	Schema  json.RawMessage // an object of plain properties
}

const maxAsked = 4000 // bytes of a message

// elicit answers elicitation/create. Only who has been called may ask.
func (l *link) elicit(ctx context.Context, r *sdk.ElicitRequest) (*sdk.ElicitResult, error) {
	unanswered := &sdk.ElicitResult{Action: "cancel"}
	if r.Params.Mode != "" && r.Params.Mode != "form" {
		return unanswered, nil
	}
	c := l.server.find(func(c *call) bool { return c.asker != nil && c.ctx.Err() == nil })
	if c == nil {
		return unanswered, nil
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	defer context.AfterFunc(c.ctx, cancel)() // what asks is over: nobody wants to know
	c.asking.Add(1)
	defer c.asking.Add(-1)

	schema := encode(r.Params.RequestedSchema)
	if string(schema) == "null" {
		schema = json.RawMessage(`{"type":"object","properties":{}}`)
	}
	action, content := c.asker(ctx, Form{
		Server: l.server.spec.Name, Message: cut(strings.ToValidUTF8(r.Params.Message, "\uFFFD"), maxAsked, "…"), Schema: schema,
	})
	if ctx.Err() != nil {
		return unanswered, nil
	}
	return &sdk.ElicitResult{Action: action, Content: content}, nil
}
