//go:build unix

package native

import (
	"context"
	"encoding/json"
	"errors"
	"strings"
	"testing"

	"github.com/hermesd/hermesd/agentpool/native/llm"
	"github.com/hermesd/hermesd/daemon/session"
)

// joinedIn offers a prompt to the agent as a session does, and puts into the
// log what a session would.
func (w *world) joinedIn(text string, queued ...session.Turn) (said string, ok bool) {
	w.t.Helper()
	blocks := []json.RawMessage{json.RawMessage(textBlock(text))}
	w.append(session.KindPromptAdmitted, encode(session.PromptAdmitted{Prompt: encode(blocks)}))
	w.mu.Lock()
	seq := session.Seq(len(w.log))
	w.mu.Unlock()
	got, ok := w.agent.Join(session.Turn{Seq: seq, Blocks: blocks}, queued)
	if !ok {
		w.append(session.KindPromptWithdrawn, encode(session.PromptWithdrawn{Prompt: seq}))
		return "", false
	}
	if got.Later != nil {
		got.Update = got.Later(context.Background())
	}
	w.append(session.KindPromptJoined, encode(session.PromptJoined{Prompt: seq, Update: got.Update}))
	if got.Update != nil {
		var u struct {
			Content struct {
				Text string `json:"text"`
			} `json:"content"`
		}
		if err := json.Unmarshal(got.Update, &u); err != nil {
			w.t.Fatal(err)
		}
		said = u.Content.Text
	}
	return said, true
}

// steered is a model that is interrupted by what do does at its n-th call.
type interrupted struct {
	script
	n  int
	do func(call int)
}

func (m *interrupted) Stream(ctx context.Context, req llm.Request, yield func(llm.Event) error) (llm.Stop, error) {
	m.n++
	m.do(m.n)
	return m.script.Stream(ctx, req, yield)
}

// userTexts are the texts of the user messages of a request.
func userTexts(r llm.Request) string {
	var all []string
	for _, m := range r.Messages {
		if m.Role == llm.RoleUser {
			all = append(all, m.Parts[0].Text)
		}
	}
	return strings.Join(all, " | ")
}

func TestSteeringGetsIntoTheRunningTurnAtASafePoint(t *testing.T) {
	text := func(s string) llm.Event { return llm.Event{Kind: llm.EventText, Text: s} }
	m := &interrupted{script: script{messages: [][]llm.Event{
		{calling("todo", `{"items":[]}`)}, // 1: steered here, counts at 2
		{text("nearly done")},             // 2: steered here, so there is a 3
		{text("done")},
	}}}
	w := newWorld(t, Config{LLM: m})
	m.do = func(call int) {
		switch call {
		case 1:
			if said, ok := w.joinedIn("/steer use tabs"); !ok || !strings.Contains(said, "Taken into") {
				t.Errorf("%q %v", said, ok)
			}
		case 2:
			if _, ok := w.joinedIn("/steer and be quick"); !ok {
				t.Error("not taken at the end of the turn")
			}
		}
	}
	w.prompt("begin")
	if n := len(m.requests); n != 3 {
		t.Fatalf("%d requests", n)
	}
	for i, want := range []string{"begin", "begin | use tabs", "begin | use tabs | and be quick"} {
		if got := userTexts(m.requests[i]); got != want {
			t.Errorf("request %d says %q, want %q", i+1, got, want)
		}
	}
	if _, ok := w.joinedIn("/steer too late"); ok {
		t.Error("taken although nothing runs")
	}
	// What the log says is the same conversation.
	before := encode(w.agent.history.messages)
	w.agent.Close()
	w.open(false, session.Settings{})
	if after := encode(w.agent.history.messages); string(before) != string(after) {
		t.Errorf("the history was\n%s\nand is read as\n%s", before, after)
	}
}

// What a turn does not get to is there in the next one, whether the turn was
// cancelled or failed.
func TestSteeringIsNotLostWhenTheTurnEnds(t *testing.T) {
	for name, how := range map[string]error{"cancelled": context.Canceled, "failed": errors.New("no")} {
		t.Run(name, func(t *testing.T) {
			ctx, cancel := context.WithCancel(context.Background())
			defer cancel()
			m := &interrupted{}
			w := newWorld(t, Config{LLM: m})
			m.messages = [][]llm.Event{{{Kind: llm.EventText, Text: "hi"}}, nil}
			m.do = func(call int) {
				if call != 2 {
					m.err = nil
					return
				}
				if _, ok := w.joinedIn("/steer use tabs"); !ok {
					t.Error("not taken")
				}
				if m.err = how; how == context.Canceled {
					cancel()
				}
			}
			w.prompt("hello")
			_, _ = w.run(ctx, textBlock("begin"))
			before := encode(w.agent.history.messages)
			w.agent.Close()
			w.open(false, session.Settings{})
			if after := encode(w.agent.history.messages); string(before) != string(after) {
				t.Errorf("the history was\n%s\nand is read as\n%s", before, after)
			}
			w.prompt("go on")
			if got := userTexts(m.requests[len(m.requests)-1]); !strings.HasSuffix(got, "use tabs | go on") {
				t.Errorf("the model is told %q", got)
			}
		})
	}
}

func TestSteeringKeepsItsAttachments(t *testing.T) {
	m := &interrupted{script: script{messages: [][]llm.Event{{calling("todo", `{"items":[]}`)}}}}
	w := newWorld(t, Config{LLM: m})
	m.do = func(call int) {
		if call == 1 {
			blocks := []json.RawMessage{json.RawMessage(textBlock("/steer look at this")), json.RawMessage(`{"type":"resource_link","name":"a","uri":"file:///a"}`)}
			if _, ok := w.agent.Join(session.Turn{Seq: 99, Blocks: blocks}, nil); !ok {
				t.Error("not taken")
			}
		}
	}
	w.prompt("begin")
	last := m.requests[1].Messages[len(m.requests[1].Messages)-1]
	if len(last.Parts) != 2 || last.Parts[0].Text != "look at this" || last.Parts[1].Attachment == nil || last.Parts[1].Attachment.URI != "file:///a" {
		t.Errorf("the model is told %+v", last)
	}
}

// With nothing to steer the text is a prompt like others.
func TestSteeringNothingIsAPrompt(t *testing.T) {
	m := &script{}
	w := newWorld(t, Config{LLM: m})
	w.prompt("/steer use tabs")
	w.prompt("/queue\nand later this")
	if got := userTexts(m.requests[1]); got != "use tabs | and later this" {
		t.Errorf("the model is told %q", got)
	}
	w.prompt("/steer")
	if len(m.requests) != 2 || !strings.Contains(w.said(), steerUsage) {
		t.Error(w.said())
	}
	before := encode(w.agent.history.messages)
	w.agent.Close()
	w.open(false, session.Settings{})
	if after := encode(w.agent.history.messages); string(before) != string(after) {
		t.Errorf("the history was\n%s\nand is read as\n%s", before, after)
	}
}

func TestCommandsInARunningTurn(t *testing.T) {
	m := &interrupted{}
	w := newWorld(t, Config{LLM: m, Version: "1.2.3"})
	waiting := []session.Turn{
		{Seq: 70, Blocks: []json.RawMessage{json.RawMessage(textBlock("first\nof two lines"))}},
		{Seq: 71, Blocks: []json.RawMessage{json.RawMessage(textBlock("second"))}},
	}
	m.do = func(int) {
		for prompt, want := range map[string]string{
			"/version":         "hermesd 1.2.3",
			"/help":            "`/queue [text | drop number]`",
			"/queue":           "1. first\n2. second",
			"/queue drop 2":    "Taken back: second",
			"/queue drop 3":    "no such prompt: 2 prompts waiting",
			"/queue drop all":  "Taken back: 2 prompts",
			"/queue drop some": "drop number",
			"/steer":           "`/steer text`",
			"/context":         "of 200000 tokens",
		} {
			if said, ok := w.joinedIn(prompt, waiting...); !ok || !strings.Contains(said, want) {
				t.Errorf("%s: %q %v, want %q", prompt, said, ok, want)
			}
		}
		// These wait for their turn.
		for _, prompt := range []string{"hello", "/queue do that later", "/compact", "/reset", "/unknown", "/"} {
			if _, ok := w.joinedIn(prompt, waiting...); ok {
				t.Errorf("%q was taken", prompt)
			}
		}
		got, _ := w.agent.Join(session.Turn{Seq: 80, Blocks: []json.RawMessage{json.RawMessage(textBlock("/queue drop 1"))}}, waiting)
		if len(got.Withdraw) != 1 || got.Withdraw[0] != 70 {
			t.Errorf("taken back: %v", got.Withdraw)
		}
		if said, ok := w.joinedIn("/title Another  name"); said != `The session is called "Another name" now.` || !ok {
			t.Error(said, ok)
		}
	}
	w.prompt("begin")
	if info := w.updates("session_info_update"); info[1]["title"] != "Another name" {
		t.Error(info)
	}
}
