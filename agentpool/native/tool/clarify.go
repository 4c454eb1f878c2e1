package tool

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"unicode/utf8"
)

// Clarify asks the user something.
type Clarify struct{}

const (
	maxQuestion = 4000 // runes
	maxChoices  = 8
	maxChoice   = 200 // runes

	// MaxAnswer is how many characters a user may write as an answer.
	MaxAnswer = 4000
)

func (Clarify) Name() string        { return "clarify" }
func (Clarify) Description() string { return describe("clarify") }
func (Clarify) Kind() string        { return "other" }
func (Clarify) Schema() json.RawMessage {
	return json.RawMessage(`{"type":"object","properties":{` +
		`"question":{"type":"string"},` +
		`"choices":{"type":"array","maxItems":8,"items":{"type":"string"},"description":"short answers to choose from; leave it out for free text"},` +
		`"other":{"type":"boolean","description":"whether an answer that is none of the choices is welcome, default true"},` +
		`"many":{"type":"boolean","description":"whether several choices may be taken, default false"}},` +
		`"required":["question"],"additionalProperties":false}`)
}

// Plan implements Tool.
func (Clarify) Plan(_ context.Context, _ *Env, args json.RawMessage) (*Action, error) {
	in := struct {
		Question string   `json:"question"`
		Choices  []string `json:"choices"`
		Other    *bool    `json:"other"`
		Many     bool     `json:"many"`
	}{}
	if err := decode(args, &in); err != nil {
		return nil, err
	}
	in.Question = strings.TrimSpace(in.Question)
	switch {
	case in.Question == "":
		return nil, errors.New("the question is empty")
	case utf8.RuneCountInString(in.Question) > maxQuestion:
		return nil, fmt.Errorf("the question is too long: the limit is %d characters", maxQuestion)
	case len(in.Choices) > maxChoices:
		return nil, fmt.Errorf("there are %d choices, the limit is %d", len(in.Choices), maxChoices)
	}
	for i, c := range in.Choices {
		c = oneLine(c, maxChoice)
		if c == "" {
			return nil, fmt.Errorf("choice %d is empty", i+1)
		}
		if slices.Contains(in.Choices[:i], c) {
			return nil, fmt.Errorf("choice %d stands there twice", i+1)
		}
		in.Choices[i] = c
	}
	q := &Inquiry{Question: in.Question, Choices: in.Choices, Free: len(in.Choices) == 0 || in.Other == nil || *in.Other, Many: in.Many && len(in.Choices) > 1}
	shown := in.Question
	for _, c := range in.Choices {
		shown += "\n- " + c
	}
	return &Action{
		Title:   "Ask: " + oneLine(in.Question, 100),
		Content: []Content{{Text: shown}},
		Inquiry: q,
		Run: func(context.Context, func([]Content)) (Result, error) {
			a := q.Answer
			text := ""
			switch {
			case a.Why != "":
				text = "No answer: " + a.Why + "."
			case a.Text == "":
				text = "The user chose: " + strings.Join(a.Chosen, "; ")
			case len(a.Chosen) == 0:
				text = "The user answered: " + a.Text
			default:
				text = "The user chose: " + strings.Join(a.Chosen, "; ") + "\nand wrote: " + a.Text
			}
			raw := map[string]any{"answered": a.Why == ""}
			if a.Why != "" {
				raw["reason"] = a.Why
			}
			if len(a.Chosen) > 0 {
				raw["chosen"] = a.Chosen
			}
			if a.Text != "" {
				raw["text"] = a.Text
			}
			return Result{Text: text, Content: []Content{{Text: shown}, {Text: text}}, Raw: raw, Failed: a.Refused}, nil
		},
	}, nil
}
