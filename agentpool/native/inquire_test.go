//go:build unix

package native

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/hermesd/hermesd/agentpool/native/llm"
	"github.com/hermesd/hermesd/agentpool/native/tool"
	"github.com/hermesd/hermesd/daemon/session"
)

func TestAQuestionIsAFormWhereThereAreForms(t *testing.T) {
	for _, c := range []struct {
		name, args     string
		schema         string
		outcome        session.Outcome
		content        string
		want, rawError string
		failed         bool
	}{
		{"free text", `{"question":"Why?"}`,
			`{"type":"object","properties":{"answer":{"type":"string","title":"Answer","minLength":1,"maxLength":4000}},"required":["answer"]}`,
			session.Selected, `{"answer":" because "}`, "The user answered: because", "", false},
		{"one of two", `{"question":"Which?","choices":["a","b"],"other":false}`,
			`{"type":"object","properties":{"answer":{"type":"string","title":"Answer","enum":["a","b"]}},"required":["answer"]}`,
			session.Selected, `{"answer":"b"}`, "The user chose: b", "", false},
		{"one of two or words", `{"question":"Which?","choices":["a","b"]}`,
			`{"type":"object","properties":{"answer":{"type":"string","title":"Answer","enum":["a","b"]},"other":{"type":"string","title":"Other answer","maxLength":4000}}}`,
			session.Selected, `{"answer":"a","other":"but slowly"}`, "The user chose: a\nand wrote: but slowly", "", false},
		{"many", `{"question":"Which?","choices":["a","b"],"many":true,"other":false}`,
			`{"type":"object","properties":{"answer":{"type":"array","title":"Answers","items":{"type":"string","enum":["a","b"]},"minItems":1}},"required":["answer"]}`,
			session.Selected, `{"answer":["a","b"]}`, "The user chose: a; b", "", false},
		{"a value that was not offered", `{"question":"Which?","choices":["a","b"],"other":false}`, "", session.Selected, `{"answer":"c"}`, "No answer: the form was sent back empty.", "", false},
		{"nonsense", `{"question":"Why?"}`, "", session.Selected, `[1]`, "No answer: the form was sent back empty.", "", false},
		{"declined", `{"question":"Why?"}`, "", session.NotOffered, ``, "No answer: the user does not want to answer.", "", true},
		{"put away", `{"question":"Why?"}`, "", session.Dismissed, ``, "No answer: the question was put away without an answer; this is no refusal.", "", false},
		{"no answer in time", `{"question":"Why?"}`, "", session.TimedOut, ``, "No answer: nobody answered in time; this is no refusal.", "", false},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := &script{messages: [][]llm.Event{{calling("clarify", c.args)}}}
			w := newWorld(t, Config{LLM: s})
			w.fill = func(_ context.Context, f session.Form) (session.Filled, error) {
				if call := w.updates("tool_call")[0]; f.ToolCall != call["toolCallId"] || !strings.HasSuffix(f.Message, "?") {
					t.Errorf("asked %+v", f)
				}
				if c.schema != "" && string(f.Schema) != c.schema {
					t.Errorf("the schema is\n%s, want\n%s", f.Schema, c.schema)
				}
				return session.Filled{Outcome: c.outcome, Content: json.RawMessage(c.content)}, nil
			}
			w.prompt("go")
			got := s.requests[1].Messages[2].Parts[0].Result
			if got.Text != c.want || got.Failed != c.failed {
				t.Errorf("%q failed %v, want %q %v", got.Text, got.Failed, c.want, c.failed)
			}
			if len(w.asked) > 0 {
				t.Error("a card was shown as well")
			}
		})
	}
}

func TestAQuestionIsACardWhereThereAreNoForms(t *testing.T) {
	for _, c := range []struct {
		name, args string
		options    string
		answer     func(context.Context, session.Question) (session.Answer, error)
		want       string
	}{
		{"a choice", `{"question":"Which?","choices":["a","b"],"other":false}`, "choice_1=a choice_2=b skip=Skip the question", choose("choice_2"), "The user chose: b"},
		{"words beside choices", `{"question":"Which?","choices":["a"]}`, "choice_1=a own_words=Answer in my own words, as my next message skip=Skip the question",
			choose(ownWords), "No answer: the user will answer with the next message: end your turn now and wait for it."},
		{"free text", `{"question":"Why?"}`, "own_words=I answer with my next message skip=Skip the question", choose(skip), "No answer: the user skipped the question."},
		{"nobody", `{"question":"Why?"}`, "", outcome(session.TimedOut), "No answer: nobody answered the question in time; this is no refusal."},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := &script{messages: [][]llm.Event{{calling("clarify", c.args)}}}
			w := newWorld(t, Config{LLM: s})
			w.answer = c.answer
			w.prompt("go")
			if got := s.requests[1].Messages[2].Parts[0].Result; got.Text != c.want {
				t.Errorf("%q, want %q", got.Text, c.want)
			}
			var names []string
			for _, o := range w.asked[0].Options {
				names = append(names, o.ID+"="+o.Name)
			}
			if got := strings.Join(names, " "); c.options != "" && got != c.options {
				t.Errorf("options %q, want %q", got, c.options)
			}
			if !strings.Contains(string(w.asked[0].ToolCall), `"kind":"other"`) || !strings.Contains(string(w.asked[0].ToolCall), "Ask: W") {
				t.Errorf("the card shows %s", w.asked[0].ToolCall)
			}
		})
	}
}

func TestTheOfflineModelAsks(t *testing.T) {
	w := newWorld(t, Config{})
	w.fill = func(context.Context, session.Form) (session.Filled, error) {
		return session.Filled{Outcome: session.Selected, Content: json.RawMessage(`{"answer":"blue"}`)}, nil
	}
	w.prompt("ask What colour?")
	if got := w.said(); !strings.Contains(got, "clarify is done: “The user answered: blue”") {
		t.Errorf("said %q", got)
	}
}

// unsound is a tool with a mistake in it.
type unsound struct{ plan, run bool }

func (unsound) Name() string            { return "unsound" }
func (unsound) Description() string     { return "" }
func (unsound) Kind() string            { return "other" }
func (unsound) Schema() json.RawMessage { return json.RawMessage(`{"type":"object"}`) }
func (u unsound) Plan(context.Context, *tool.Env, json.RawMessage) (*tool.Action, error) {
	if u.plan {
		panic("in plan")
	}
	return &tool.Action{Title: "x", Run: func(context.Context, func([]tool.Content)) (tool.Result, error) { panic("in run") }}, nil
}

func TestAToolThatPanicsFailsItsCallOnly(t *testing.T) {
	for _, u := range []unsound{{plan: true}, {run: true}} {
		var told []string
		s := &script{messages: [][]llm.Event{{calling("unsound", `{}`), calling("todo", `{"items":[]}`)}}}
		w := newWorld(t, Config{LLM: s, Tools: tool.NewRegistry(u, tool.Todo{}), Panicked: func(name string, value any, stack []byte) {
			told = append(told, fmt.Sprint(name, " ", value, " ", len(stack) > 0))
		}})
		w.prompt("go")
		if w.last(0)["status"] != "failed" || w.last(1)["status"] != "completed" || len(told) == 0 || !strings.HasSuffix(told[0], " true") {
			t.Errorf("%v, %v, told %q", w.last(0), w.last(1), told)
		}
		if got := s.requests[1].Messages[2].Parts[0].Result.Text; !strings.Contains(got, "a mistake in the tool unsound") || strings.Contains(got, "in run") {
			t.Errorf("the model is told %q", got)
		}
	}
}

func TestAQuestionThatCannotBePutFailsItsCall(t *testing.T) {
	s := &script{messages: [][]llm.Event{{calling("clarify", `{"question":"Why?"}`)}}}
	w := newWorld(t, Config{LLM: s})
	w.fill = func(context.Context, session.Form) (session.Filled, error) {
		return session.Filled{}, errors.New("broken")
	}
	w.prompt("go")
	if got := s.requests[1].Messages[2].Parts[0].Result; !got.Failed || !strings.Contains(got.Text, "could not be put: broken") {
		t.Errorf("%+v", got)
	}
}
