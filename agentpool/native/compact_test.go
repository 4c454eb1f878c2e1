//go:build unix

package native

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/hermesd/hermesd/agentpool/native/llm"
	"github.com/hermesd/hermesd/daemon/session"
)

// small is a model that holds little, and sums up.
type small struct {
	window   int
	requests []llm.Request
	summary  string // "" refuses to say anything
	tooLong  func(llm.Request) bool
	answer   func(llm.Request) []llm.Event
	fail     func(llm.Request) error
}

func (m *small) Info() llm.Info { return llm.Info{Provider: "script", Name: "small", Window: m.window} }

func summing(r llm.Request) bool {
	last := r.Messages[len(r.Messages)-1]
	return last.Role == llm.RoleUser && strings.HasPrefix(last.Parts[0].Text, llm.SummaryInstruction)
}

func (m *small) Stream(_ context.Context, r llm.Request, yield func(llm.Event) error) (llm.Stop, error) {
	r.Messages = append([]llm.Message(nil), r.Messages...)
	m.requests = append(m.requests, r)
	if m.tooLong != nil && m.tooLong(r) {
		return "", &llm.Error{Provider: "script", Status: 400, Message: "prompt is too long", TooLong: true}
	}
	if m.fail != nil {
		if err := m.fail(r); err != nil {
			return "", err
		}
	}
	events := []llm.Event{{Kind: llm.EventText, Text: "fine"}}
	switch {
	case summing(r):
		events = nil
		if m.summary != "" {
			events = []llm.Event{{Kind: llm.EventText, Text: m.summary}}
		}
	case m.answer != nil:
		events = m.answer(r)
	}
	for _, e := range events {
		if err := yield(e); err != nil {
			return "", err
		}
	}
	return llm.StopEnd, nil
}

func (w *world) compactions() string {
	var all []string
	for _, u := range w.updates("compaction_update") {
		all = append(all, fmt.Sprint(u["status"]))
	}
	return strings.Join(all, " ")
}

func (w *world) sameWhenRead() {
	w.t.Helper()
	before, n := string(encode(w.agent.history.messages)), w.agent.history.compactions
	w.agent.Close()
	w.open(false, session.Settings{})
	if after := string(encode(w.agent.history.messages)); before != after || n != w.agent.history.compactions {
		w.t.Errorf("the history was\n%s\nand is read as\n%s", before, after)
	}
}

func TestALongConversationIsSummedUpBeforeItIsTooLong(t *testing.T) {
	m := &small{window: 30_000, summary: "They said a lot."}
	w := newWorld(t, Config{LLM: m})
	w.prompt("hello")
	for range 20 {
		w.prompt("more: " + strings.Repeat("word ", 2000)) // 2,500 tokens
	}
	for i, r := range m.requests {
		bytes := w.agent.prefix.size()
		for _, msg := range r.Messages {
			bytes += size(msg)
		}
		if bytes/4 > m.window {
			t.Errorf("request %d holds %d tokens of %d", i, bytes/4, m.window)
		}
	}
	kinds := w.compactions()
	if n := strings.Count(kinds, "completed"); n < 1 || kinds != strings.TrimSpace(strings.Repeat("in_progress completed ", n)) {
		t.Errorf("told of compactions: %s", kinds)
	}
	last := m.requests[len(m.requests)-1]
	if first := last.Messages[0].Parts[0].Text; !strings.Contains(first, "summed up") || !strings.HasSuffix(first, m.summary) {
		t.Errorf("the conversation begins with %q", first)
	}
	if info := w.updates("session_info_update"); !strings.Contains(fmt.Sprint(info[len(info)-1]), "compactions") {
		t.Error(info)
	}
	w.sameWhenRead()
}

// Each request for a summary begins with what was said before, byte for byte,
// so that the provider need not read it again.
func TestASummaryIsAskedForBehindTheConversation(t *testing.T) {
	m := &small{window: 200_000, summary: "S"}
	w := newWorld(t, Config{LLM: m})
	w.prompt("one")
	w.prompt("two")
	w.prompt("/compact the colours")
	before, ask := m.requests[1], m.requests[2]
	if string(encode(ask.Messages[:len(before.Messages)])) != string(encode(before.Messages)) || ask.System != before.System || len(ask.Tools) != len(before.Tools) {
		t.Error("it begins otherwise")
	}
	if last := ask.Messages[len(ask.Messages)-1].Parts[0].Text; !strings.HasSuffix(last, "the colours") {
		t.Errorf("asked %q", last)
	}
	if !strings.Contains(w.said(), "Summed up: 4 messages") {
		t.Error(w.said())
	}
	w.prompt("three")
	if got := m.requests[3].Messages; len(got) != 2 || !strings.HasSuffix(got[0].Parts[0].Text, "S\n\nGo on from here.") || got[1].Parts[0].Text != "three" {
		t.Errorf("after it the model is told %+v", got)
	}
	w.sameWhenRead()
	w.prompt("/compact")
	w.prompt("/reset")
	if len(w.agent.history.messages) != 0 {
		t.Error("not forgotten")
	}
	w.sameWhenRead()
	w.prompt("/compact")
	if !strings.Contains(w.said(), "nothing to sum up") {
		t.Error(w.said())
	}
}

// A conversation that is too long all the same, because the model counts
// otherwise, is summed up, once, and the prompt is asked again.
func TestARefusalForLengthIsAnsweredWithASummary(t *testing.T) {
	m := &small{window: 1_000_000, summary: "S"}
	m.tooLong = func(r llm.Request) bool { return len(r.Messages) > 4 && !summing(r) }
	w := newWorld(t, Config{LLM: m})
	for range 4 {
		w.prompt("x")
	}
	if got := w.compactions(); got != "in_progress completed" {
		t.Errorf("told of compactions: %s", got)
	}
	m.tooLong = func(r llm.Request) bool { return !summing(r) }
	if _, err := w.run(context.Background(), textBlock("y")); err == nil || !strings.Contains(err.Error(), "too long") {
		t.Errorf("%v", err)
	}
	w.sameWhenRead()
}

// If not even the request for a summary fits, less and less is said in it.
func TestASummaryOfWhatDoesNotFit(t *testing.T) {
	m := &small{window: 1_000_000, summary: "S"}
	w := newWorld(t, Config{LLM: m, ApprovalMode: "session"})
	m.answer = func(r llm.Request) []llm.Event {
		if r.Messages[len(r.Messages)-1].Role == llm.RoleUser {
			return []llm.Event{calling("terminal", `{"command":"seq 1000"}`)}
		}
		return []llm.Event{{Kind: llm.EventText, Text: "ok"}}
	}
	for i := range 6 {
		w.prompt(fmt.Sprint("prompt ", i))
	}
	total := func(r llm.Request) (n int) {
		for _, msg := range r.Messages {
			n += size(msg)
		}
		return n
	}
	asked := len(m.requests)
	m.tooLong = func(r llm.Request) bool { return summing(r) && total(r) > 3000 }
	w.prompt("/compact")
	if n := len(m.requests) - asked; n < 3 {
		t.Errorf("%d requests; shortening the results was to be not enough", n)
	}
	last := m.requests[len(m.requests)-1]
	if last.Messages[0].Role != llm.RoleUser {
		t.Errorf("it begins with %s", last.Messages[0].Role)
	}
	m.tooLong = nil
	w.prompt("again")
	m.tooLong = summing
	if _, err := w.run(context.Background(), textBlock("/compact")); err == nil {
		t.Error("no error although nothing fits")
	}
	if got := w.compactions(); got != "in_progress completed in_progress failed" {
		t.Errorf("told of compactions: %s", got)
	}
	w.sameWhenRead()
}

// Without a summary the turn goes on with the conversation as it is.
func TestAFailedSummaryIsNotTheEndOfTheTurn(t *testing.T) {
	m := &small{window: 30_000}
	w := newWorld(t, Config{LLM: m})
	w.prompt("hello")
	w.prompt(strings.Repeat("word ", 20_000))
	w.prompt("next")
	if got := w.compactions(); got != "in_progress failed" && got != "in_progress failed in_progress failed" {
		t.Errorf("told of compactions: %s", got)
	}
	if got := userTexts(m.requests[len(m.requests)-1]); !strings.HasSuffix(got, "next") || !strings.HasPrefix(got, "hello") {
		t.Error("the conversation was changed")
	}
	w.sameWhenRead()
}

func TestACancelledSummaryChangesNothing(t *testing.T) {
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	m := &small{window: 200_000, summary: "S"}
	w := newWorld(t, Config{LLM: m})
	w.prompt("one")
	m.tooLong = func(llm.Request) bool { cancel(); return false }
	r, err := w.run(ctx, textBlock("/compact"))
	if err != nil || r.StopReason != "cancelled" {
		t.Errorf("%+v %v", r, err)
	}
	if got := w.compactions(); got != "in_progress cancelled" || len(w.agent.history.messages) != 2 {
		t.Errorf("told of compactions: %s; %d messages", got, len(w.agent.history.messages))
	}
	w.sameWhenRead()
}

// In the middle of a turn the prompt is summed up too, and the work goes on.
func TestATurnIsSummedUpWhileItRuns(t *testing.T) {
	m := &small{window: 30_000, summary: "They want numbers; some were counted."}
	w := newWorld(t, Config{LLM: m, ApprovalMode: "session"})
	calls := 0
	m.answer = func(llm.Request) []llm.Event {
		if calls++; calls < 12 {
			return []llm.Event{calling("terminal", `{"command":"seq 3000"}`)}
		}
		return []llm.Event{{Kind: llm.EventText, Text: "done"}}
	}
	w.prompt("count")
	if !strings.Contains(w.compactions(), "completed") || !strings.HasSuffix(w.said(), "done") {
		t.Errorf("told of compactions: %s; said %q", w.compactions(), w.said())
	}
	w.sameWhenRead()
}

func TestTheOfflineModelSumsUp(t *testing.T) {
	w := newWorld(t, Config{})
	w.prompt("say one")
	w.prompt("plan a; b")
	w.prompt("/compact")
	if got := w.agent.history.messages[0].Parts[0].Text; !strings.Contains(got, "say one") || !strings.Contains(got, "Calls of tools made: 1") {
		t.Errorf("summed up as %q", got)
	}
	w.prompt("say two")
	if !strings.HasSuffix(w.said(), "two") {
		t.Error(w.said())
	}
}

// The model that fails for another reason is asked no second time.
func TestOtherFailuresAreNotAnsweredWithASummary(t *testing.T) {
	m := &script{messages: [][]llm.Event{nil}, err: errors.New("broken")}
	w := newWorld(t, Config{LLM: m})
	if _, err := w.run(context.Background(), textBlock("x")); err == nil || len(m.requests) != 1 {
		t.Error(err, len(m.requests))
	}
}

// A failure right behind a summary forgets neither the summary nor anything
// else.
func TestAFailureBehindASummaryForgetsNothing(t *testing.T) {
	m := &small{window: 30_000, summary: "They want numbers."}
	w := newWorld(t, Config{LLM: m, ApprovalMode: "session"})
	m.answer = func(r llm.Request) []llm.Event { return []llm.Event{calling("terminal", `{"command":"seq 3000"}`)} }
	m.fail = func(r llm.Request) error {
		if !summing(r) && strings.Contains(r.Messages[0].Parts[0].Text, "summed up") {
			return &llm.Error{Provider: "script", Message: "overloaded"}
		}
		return nil
	}
	if _, err := w.run(context.Background(), textBlock("count")); err == nil {
		t.Fatal("no error")
	}
	if h := w.agent.history.messages; len(h) != 1 || !strings.Contains(h[0].Parts[0].Text, "They want numbers.") {
		t.Errorf("the history is %s", encode(h))
	}
	w.sameWhenRead()
}

// A prompt that failed is forgotten, here and in the log; what stands before it
// is not.
func TestAPromptThatFailsIsForgotten(t *testing.T) {
	m := &small{window: 200_000}
	w := newWorld(t, Config{LLM: m})
	fail := func(llm.Request) error { return &llm.Error{Provider: "script", Message: "broken"} }
	m.fail = fail
	if _, err := w.run(context.Background(), textBlock("first")); err == nil {
		t.Fatal("no error")
	}
	if w.agent.prefix == nil || w.agent.told == nil || len(w.agent.history.messages) != 0 {
		t.Errorf("after a first prompt that failed: %d messages, told %v", len(w.agent.history.messages), w.agent.told)
	}
	w.sameWhenRead()
	m.fail = nil
	w.prompt("second")
	m.fail = fail
	_, _ = w.run(context.Background(), textBlock("third"))
	m.fail = nil
	w.sameWhenRead()
	w.prompt("fourth")
	if got := userTexts(m.requests[len(m.requests)-1]); got != "second | fourth" {
		t.Errorf("the model is told %q", got)
	}
}

func TestATitleThatWasGivenStays(t *testing.T) {
	w := newWorld(t, Config{})
	w.prompt("/title My title")
	w.prompt("say hello there")
	if info := w.updates("session_info_update"); len(info) != 1 || info[0]["title"] != "My title" {
		t.Error(info)
	}
}
