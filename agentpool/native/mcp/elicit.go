package mcp

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"
)

// Asker puts a question to the user on behalf of a server whose call runs. Each
// choice stands for itself; the answer is the index of one of them. said is
// false if the user made none: nobody was there, or it was put away.
type Asker interface {
	AskChoice(ctx context.Context, q Choice) (index int, said bool)
	// Unanswerable tells the user of a question that could not be put to him.
	Unanswerable(ctx context.Context, server, message, why string)
}

// Choice is a question with a few answers.
type Choice struct {
	Server  string
	Message string // of the server
	Field   string // what is chosen, "" for whether to go on
	Options []string
}

// Limits of a form.
const (
	maxFields  = 8
	maxChoices = 20
	maxAsked   = 2000 // bytes of a message
)

// elicit answers elicitation/create. What an editor can be asked are choices:
// a form of booleans and of one out of a list is asked field by field, and one
// without fields with yes or no. Fields that want a text, a number or several
// choices can not: if they must be filled in, the form is given back unanswered
// ("cancel", which is no refusal), and the user is told.
func (l *link) elicit(ctx context.Context, r *sdk.ElicitRequest) (*sdk.ElicitResult, error) {
	unanswered := &sdk.ElicitResult{Action: "cancel"}
	if l.server == nil || r.Params.Mode != "" && r.Params.Mode != "form" {
		return unanswered, nil
	}
	c := l.server.find(func(c *call) bool { return c.asker != nil })
	if c == nil {
		return unanswered, nil // nobody has asked for anything
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	defer context.AfterFunc(l.life, cancel)()

	l.server.mu.Lock()
	c.elicited = true
	l.server.mu.Unlock()
	defer func() {
		l.server.mu.Lock()
		c.elicited = false
		l.server.mu.Unlock()
	}()

	name, message := l.server.spec.Name, cut(strings.ToValidUTF8(r.Params.Message, "\uFFFD"), maxAsked, "…")
	fields, why := readForm(encode(r.Params.RequestedSchema))
	if why != "" {
		c.asker.Unanswerable(ctx, name, message, why)
		return unanswered, nil
	}
	content := map[string]any{}
	for _, f := range fields {
		index, said := c.asker.AskChoice(ctx, Choice{Server: name, Message: message, Field: f.title, Options: f.names})
		switch {
		case !said:
			return unanswered, nil
		case index == len(f.values):
			return &sdk.ElicitResult{Action: "decline"}, nil
		case f.key != "":
			content[f.key] = f.values[index]
		}
	}
	return &sdk.ElicitResult{Action: "accept", Content: content}, nil
}

// field is one question of a form: values[i] is what the choice names[i] means;
// the last name, which has no value, declines.
type field struct {
	key, title string
	names      []string
	values     []any
}

// readForm makes questions of a schema. why says what cannot be asked.
func readForm(schema json.RawMessage) (fields []field, why string) {
	var form struct {
		Properties map[string]struct {
			Type      string   `json:"type"`
			Title     string   `json:"title"`
			Enum      []string `json:"enum"`
			EnumNames []string `json:"enumNames"`
			OneOf     []struct {
				Const string `json:"const"`
				Title string `json:"title"`
			} `json:"oneOf"`
		} `json:"properties"`
		Required []string `json:"required"`
	}
	if string(schema) != "null" && json.Unmarshal(schema, &form) != nil {
		return nil, "its form could not be read"
	}
	keys := make([]string, 0, len(form.Properties))
	for key := range form.Properties {
		keys = append(keys, key)
	}
	slices.Sort(keys)
	for _, key := range keys {
		p := form.Properties[key]
		f := field{key: key, title: p.Title}
		if f.title == "" {
			f.title = key
		}
		switch {
		case p.Type == "boolean":
			f.names, f.values = []string{"Yes", "No"}, []any{true, false}
		case p.Type == "string" && len(p.Enum) > 0:
			for i, v := range p.Enum {
				name := v
				if i < len(p.EnumNames) {
					name = p.EnumNames[i]
				}
				f.names, f.values = append(f.names, name), append(f.values, v)
			}
		case p.Type == "string" && len(p.OneOf) > 0:
			for _, o := range p.OneOf {
				name := o.Title
				if name == "" {
					name = o.Const
				}
				f.names, f.values = append(f.names, name), append(f.values, o.Const)
			}
		}
		if n := len(f.values); n == 0 || n > maxChoices {
			if slices.Contains(form.Required, key) {
				return nil, fmt.Sprintf("it wants “%s” to be typed in, and an editor can be asked for a choice only", clean(f.title, 80))
			}
			continue // it may be left out
		}
		for i := range f.names {
			f.names[i] = clean(f.names[i], 120)
		}
		f.title = clean(f.title, 120)
		f.names = append(f.names, "Decline")
		fields = append(fields, f)
	}
	switch {
	case len(fields) > maxFields:
		return nil, fmt.Sprintf("its form has %d fields", len(fields))
	case len(fields) == 0 && len(keys) > 0:
		// All may be left out: whether to go on is still the user's to say.
		fallthrough
	case len(fields) == 0:
		return []field{{names: []string{"Accept", "Decline"}, values: []any{true}}}, ""
	}
	return fields, ""
}
