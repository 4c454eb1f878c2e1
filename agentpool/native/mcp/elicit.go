package mcp

import (
	"context"
	"encoding/json"
	"fmt"
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

// Limits of what a server may ask.
const (
	maxAsked = 4000     // bytes of a message
	maxForm  = 64 << 10 // bytes of a form
	maxForms = 20       // of one call
)

// elicit answers elicitation/create. Only who has been called may ask, one form
// after the other and not without end: what is too much is answered "cancel",
// for nobody has refused it, and the user is told once for each call.
func (l *link) elicit(ctx context.Context, r *sdk.ElicitRequest) (*sdk.ElicitResult, error) {
	unanswered := &sdk.ElicitResult{Action: "cancel"}
	if r.Params.Mode != "" && r.Params.Mode != "form" {
		return unanswered, nil
	}
	c := l.server.find(func(c *call) bool { return c.asker != nil && c.ctx.Err() == nil })
	if c == nil {
		return unanswered, nil
	}
	name := l.server.spec.Name
	if n := c.forms.Add(1); n > maxForms {
		if n == maxForms+1 {
			l.server.opts.Tell(fmt.Sprintf("The MCP server %s asked more than %d times in one call: further questions of this call are not put to you.", quoted(name), maxForms))
		}
		return unanswered, nil
	}
	schema := encode(r.Params.RequestedSchema)
	switch {
	case string(schema) == "null":
		schema = json.RawMessage(`{"type":"object","properties":{}}`)
	case len(schema) > maxForm:
		l.server.opts.Tell(fmt.Sprintf("The MCP server %s asked with a form of %d bytes, which was not put to you: more than %d are too many.", quoted(name), len(schema), maxForm))
		return unanswered, nil
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	defer context.AfterFunc(c.ctx, cancel)() // what asks is over: nobody wants to know
	c.asking.Add(1)
	defer c.asking.Add(-1)
	select { // the SDK takes requests as they come, many at once
	case c.form <- struct{}{}:
		defer func() { <-c.form }()
	case <-ctx.Done():
	}
	if ctx.Err() != nil {
		return unanswered, nil
	}
	action, content := c.asker(ctx, Form{
		Server: name, Message: cut(strings.ToValidUTF8(r.Params.Message, "\uFFFD"), maxAsked, "…"), Schema: schema,
	})
	if ctx.Err() != nil {
		return unanswered, nil
	}
	return &sdk.ElicitResult{Action: action, Content: content}, nil
}
