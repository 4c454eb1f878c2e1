package native

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync/atomic"

	"github.com/hermesd/hermesd/agentpool/native/mcp"
	"github.com/hermesd/hermesd/daemon/session"
)

// asker puts what a server wants to know in the middle of a call: as a form if
// the editor that prompted has forms, else as cards to all who can answer, one
// for each field, as far as the form is one of choices. What nobody can be
// asked is answered "cancel", which is no refusal, and the user is told.
func (t *turn) asker(c *call) mcp.Asker {
	var n atomic.Int32
	return func(ctx context.Context, f mcp.Form) (string, map[string]any) {
		filled, err := t.host.Elicit(ctx, session.Form{ToolCall: c.ID, Message: f.Server + ": " + f.Message, Schema: f.Schema})
		if err == nil {
			switch filled.Outcome {
			case session.Selected:
				content := map[string]any{}
				if len(filled.Content) > 0 && json.Unmarshal(filled.Content, &content) != nil {
					return "cancel", nil
				}
				return "accept", content
			case session.NotOffered:
				return "decline", nil
			}
			return "cancel", nil
		}
		if !errors.Is(err, session.ErrNoEditor) {
			return "cancel", nil
		}
		return t.askByCards(ctx, fmt.Sprintf("%s_ask%d", c.ID, n.Add(1)), f)
	}
}

// maxCards is the number of fields a form may have that is asked by cards.
const maxCards = 6

// askByCards asks field by field. The form is a tool call of its own, so that
// the question of the server does not take the place of the call.
func (t *turn) askByCards(ctx context.Context, id string, f mcp.Form) (action string, content map[string]any) {
	card := toolCall{ID: id, Title: cutAt(f.Server+" asks: "+oneLine(f.Message), 200), Kind: "other", Status: "pending"}
	said := func(status, text string) {
		end := toolCall{SessionUpdate: "tool_call_update", ID: id, Status: status, RawOutput: map[string]any{"answer": text}}
		parting, cancel := t.parting(ctx)
		defer cancel()
		_ = t.host.Update(parting, encode(end))
	}
	announced := card
	announced.SessionUpdate = "tool_call"
	if t.host.Update(ctx, encode(announced)) != nil {
		return "cancel", nil
	}
	fields, why := cardsOf(f.Schema)
	if why != "" {
		said("failed", "not asked: "+why)
		t.tell(fmt.Sprintf("The MCP server “%s” asked “%s”, which was not put to you: %s.", f.Server, cutAt(oneLine(f.Message), 200), why))
		return "cancel", nil
	}
	content = map[string]any{}
	for _, field := range fields {
		question := card
		if field.title != "" {
			question.Title += " (" + field.title + ")"
		}
		answer, err := t.host.Ask(ctx, session.Question{ToolCall: encode(question), Options: field.options()})
		switch {
		case err != nil || answer.Outcome != session.Selected:
			said("failed", "no answer")
			return "cancel", nil
		case answer.Option.ID == skip:
			said("completed", "declined")
			return "decline", nil
		}
		for i := range field.values {
			if answer.Option.ID == choiceID(i) && field.key != "" {
				content[field.key] = field.values[i]
			}
		}
	}
	said("completed", "answered")
	return "accept", content
}

// cardField is one question of a form: names[i] is what the user reads for
// values[i].
type cardField struct {
	key, title string
	names      []string
	values     []any
}

func choiceID(i int) string { return fmt.Sprintf("choice_%d", i+1) }

func (f cardField) options() []session.Option {
	var all []session.Option
	for i, name := range f.names {
		all = append(all, session.Option{ID: choiceID(i), Name: name, Kind: "allow_once"})
	}
	return append(all, session.Option{ID: skip, Name: "Decline", Kind: "reject_once"})
}

// cardsOf makes questions of a form: booleans and single choices. What else
// there is may be left out, unless it is required; why says so. A form that
// asks for nothing is a yes or no.
func cardsOf(schema json.RawMessage) (fields []cardField, why string) {
	type choice struct{ Const, Title string }
	var form struct {
		Properties map[string]struct {
			Type, Title string
			Enum        []string
			EnumNames   []string
			OneOf       []choice
		}
		Required []string
	}
	if json.Unmarshal(schema, &form) != nil {
		return nil, "its form could not be read"
	}
	for _, key := range slices.Sorted(maps.Keys(form.Properties)) {
		p := form.Properties[key]
		f := cardField{key: key, title: p.Title}
		if f.title == "" {
			f.title = key
		}
		switch {
		case p.Type == "boolean":
			f.names, f.values = []string{"Yes", "No"}, []any{true, false}
		case p.Type == "string":
			for i, v := range p.Enum {
				name := v
				if i < len(p.EnumNames) {
					name = p.EnumNames[i]
				}
				f.names, f.values = append(f.names, name), append(f.values, v)
			}
			for _, o := range p.OneOf {
				name := o.Title
				if name == "" {
					name = o.Const
				}
				f.names, f.values = append(f.names, name), append(f.values, o.Const)
			}
		}
		if n := len(f.values); n == 0 || n > 20 {
			if slices.Contains(form.Required, key) {
				return nil, fmt.Sprintf("it wants “%s” to be filled in, and your editor shows no forms", cutAt(oneLine(f.title), 80))
			}
			continue
		}
		f.title = cutAt(oneLine(f.title), 80)
		for i := range f.names {
			f.names[i] = cutAt(oneLine(f.names[i]), 120)
		}
		fields = append(fields, f)
	}
	if len(fields) > maxCards {
		return nil, fmt.Sprintf("its form has %d fields, and your editor shows no forms", len(fields))
	}
	if len(fields) == 0 {
		return []cardField{{names: []string{"Accept"}, values: []any{true}}}, ""
	}
	return fields, ""
}

// oneLine puts text of others on one line.
func oneLine(s string) string {
	return strings.Join(strings.Fields(strings.Map(func(r rune) rune {
		if r < ' ' || r == 0x7f || r >= 0x202a && r <= 0x202e || r >= 0x2066 && r <= 0x2069 {
			return ' '
		}
		return r
	}, strings.ToValidUTF8(s, "\uFFFD"))), " ")
}
