package native

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/hermesd/hermesd/agentpool/native/tool"
	"github.com/hermesd/hermesd/daemon/session"
)

// Ids of what a card offers beside the choices.
const (
	ownWords = "own_words"
	skip     = "skip"
)

// inquire asks the user what an action wants to know: with a form if the
// editor that prompted has forms, else with a card to all who can answer. The
// error is one of ours; that nobody answered is an answer.
func (t *turn) inquire(ctx context.Context, c *call) error {
	q := c.action.Inquiry
	filled, err := t.host.Elicit(ctx, session.Form{ToolCall: c.ID, Message: q.Question, Schema: formOf(q)})
	switch {
	case ctx.Err() != nil:
		return ctx.Err()
	case err == nil:
		q.Answer = readForm(q, filled)
		return nil
	case !errors.Is(err, session.ErrNoEditor):
		return fmt.Errorf("the question could not be put: %w", err)
	}
	answer, err := t.host.Ask(ctx, session.Question{ToolCall: encode(t.described(c)), Options: cardOf(q)})
	switch {
	case ctx.Err() != nil:
		return ctx.Err()
	case err != nil:
		return fmt.Errorf("the question could not be put: %w", err)
	}
	q.Answer = readCard(q, answer)
	return nil
}

// formOf is the requestedSchema of a question (ACP elicitation): a field for
// the choice and one for other words.
func formOf(q *tool.Inquiry) json.RawMessage {
	type property struct {
		Type      string    `json:"type"`
		Title     string    `json:"title,omitempty"`
		Enum      []string  `json:"enum,omitempty"`
		Items     *property `json:"items,omitempty"`
		MinLength int       `json:"minLength,omitempty"`
		MaxLength int       `json:"maxLength,omitempty"`
		MinItems  int       `json:"minItems,omitempty"`
	}
	text := property{Type: "string", Title: "Answer", MaxLength: tool.MaxAnswer}
	fields := map[string]property{}
	var required []string
	switch {
	case len(q.Choices) == 0:
		text.MinLength = 1
		fields["answer"] = text
		required = []string{"answer"}
	default:
		choice := property{Type: "string", Title: "Answer", Enum: q.Choices}
		if q.Many {
			choice = property{Type: "array", Title: "Answers", Items: &property{Type: "string", Enum: q.Choices}}
		}
		if q.Free {
			text.Title = "Other answer"
			fields["other"] = text
		} else {
			required = []string{"answer"}
			if q.Many {
				choice.MinItems = 1
			}
		}
		fields["answer"] = choice
	}
	return encode(struct {
		Type       string              `json:"type"`
		Properties map[string]property `json:"properties"`
		Required   []string            `json:"required,omitempty"`
	}{"object", fields, required})
}

// readForm reads what the user sent. Values that were not offered count as
// words of his own where those were allowed, else as no answer.
func readForm(q *tool.Inquiry, f session.Filled) tool.Answer {
	switch f.Outcome {
	case session.Selected:
	case session.NotOffered:
		return tool.Answer{Refused: true, Why: "the user does not want to answer"}
	case session.TimedOut:
		return tool.Answer{Why: "nobody answered in time; this is no refusal"}
	default:
		return tool.Answer{Why: "the question was put away without an answer; this is no refusal"}
	}
	var in struct {
		Answer json.RawMessage `json:"answer"`
		Other  string          `json:"other"`
	}
	_ = json.Unmarshal(f.Content, &in) // what cannot be read is no answer
	var values []string
	var one string
	if json.Unmarshal(in.Answer, &one) == nil {
		values = []string{one}
	} else {
		_ = json.Unmarshal(in.Answer, &values)
	}
	a := tool.Answer{Text: strings.TrimSpace(in.Other)}
	for _, v := range values {
		switch {
		case slices.Contains(q.Choices, v):
			a.Chosen = append(a.Chosen, v)
		case a.Text == "":
			a.Text = strings.TrimSpace(v)
		}
	}
	if len(q.Choices) > 0 && !q.Free {
		a.Text = ""
	}
	if len(a.Text) > 2*tool.MaxAnswer {
		a.Text = cutText(a.Text[:2*tool.MaxAnswer])
	}
	a.Text = strings.ToValidUTF8(a.Text, "\uFFFD")
	if len(a.Chosen) == 0 && a.Text == "" {
		a.Why = "the form was sent back empty"
	}
	return a
}

// cardOf is the same question as a permission card: one option for each
// choice. A card takes no text; who wants to write does that as his next
// prompt.
func cardOf(q *tool.Inquiry) []session.Option {
	var all []session.Option
	for i, c := range q.Choices {
		all = append(all, session.Option{ID: fmt.Sprintf("choice_%d", i+1), Name: c, Kind: "allow_once"})
	}
	if len(q.Choices) == 0 || q.Free {
		name := "Answer in my own words, as my next message"
		if len(q.Choices) == 0 {
			name = "I answer with my next message"
		}
		all = append(all, session.Option{ID: ownWords, Name: name, Kind: "allow_once"})
	}
	return append(all, session.Option{ID: skip, Name: "Skip the question", Kind: "reject_once"})
}

func readCard(q *tool.Inquiry, a session.Answer) tool.Answer {
	if a.Outcome != session.Selected {
		return tool.Answer{Refused: a.Outcome == session.NotOffered, Why: strings.TrimPrefix(denial(a), "not done: ")}
	}
	switch a.Option.ID {
	case ownWords:
		return tool.Answer{Why: "the user will answer with the next message: end your turn now and wait for it"}
	case skip:
		return tool.Answer{Refused: true, Why: "the user skipped the question"}
	}
	for i, c := range q.Choices {
		if a.Option.ID == fmt.Sprintf("choice_%d", i+1) {
			return tool.Answer{Chosen: []string{c}}
		}
	}
	return tool.Answer{Why: "the answer named a choice that was not offered"}
}
