package native

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/hermesd/hermesd/agentpool/native/llm"
	"github.com/hermesd/hermesd/daemon/session"
)

const (
	defaultMaxCalls = 500

	// partingTime is how long a turn that was cancelled may take to say what
	// has become of its calls.
	partingTime = 5 * time.Second

	systemPrompt = "You are the agent of hermesd, working in the user's folder through an editor. Use the tools; be brief."
)

// turn is one run of Prompt.
type turn struct {
	*Agent
	seq      session.Seq
	messages int // messages shown so far
	calls    int // calls made so far
}

// run is the loop: model, tools, model, until the model calls no tool. It
// returns an ACP stop reason. When ctx is cancelled, every call has an end and
// a result before it returns.
func (t *turn) run(ctx context.Context, blocks []json.RawMessage) (string, error) {
	prompt, err := readPrompt(blocks)
	if err != nil {
		return "", err
	}
	if c, ok := slashCommand(prompt); ok {
		return "end_turn", t.host.Update(ctx, appendChunk(chunkHead("agent_message_chunk", t.messageID()), c.answer(t.Agent)))
	}
	t.history.add(prompt)
	if err := t.entitle(ctx, prompt); err != nil {
		if ctx.Err() == nil {
			t.history.takeBack()
		}
		return "", err
	}
	limit := t.cfg.MaxCalls
	if limit <= 0 {
		limit = defaultMaxCalls
	}
	for range limit {
		msg, stop, err := t.sample(ctx)
		if kerr := t.keep(ctx, msg); err == nil {
			err = kerr
		}
		if err != nil && ctx.Err() == nil {
			t.history.takeBack()
		}
		calls := callsOf(msg)
		if err == nil && len(calls) > 0 {
			var results llm.Message
			results, err = t.runCalls(ctx, calls)
			if kerr := t.keep(ctx, results); err == nil {
				err = kerr
			}
		} else if len(calls) > 0 {
			// The message was broken off behind these calls: none was made.
			t.history.settle()
		}
		if err == nil {
			err = t.sayUsage(ctx)
		}
		if err == nil {
			err = ctx.Err()
		}
		if err != nil {
			return "", t.failure(err)
		}
		if len(calls) > 0 {
			continue
		}
		switch stop {
		case llm.StopLength:
			return "max_tokens", nil
		case llm.StopRefusal:
			return "refusal", nil
		}
		return "end_turn", nil
	}
	return "max_turn_requests", nil
}

// failure makes an error for the user of a model's.
func (t *turn) failure(err error) error {
	var me *llm.Error
	if !errors.As(err, &me) {
		return err
	}
	return &session.Error{
		Code:    session.CodeInternal,
		Message: fmt.Sprintf("the model call to %s failed: %s", me.Provider, strings.Join(strings.Fields(me.Message), " ")),
		Data:    encode(map[string]string{"provider": me.Provider, "model": t.model.Info().Name, "message": me.Message, "advice": me.Advice}),
	}
}

// sample asks the model for one message and shows it while it comes. What has
// come is returned also with an error.
func (t *turn) sample(ctx context.Context) (llm.Message, llm.Stop, error) {
	req := llm.Request{System: systemPrompt, Messages: t.history.messages}
	for _, tl := range t.tools.All() {
		req.Tools = append(req.Tools, llm.ToolSpec{Name: tl.Name(), Description: tl.Description(), Schema: tl.Schema()})
	}
	msg := llm.Message{Role: llm.RoleAssistant}
	var head []byte
	var text strings.Builder
	kind := llm.EventBreak // of the message that is open
	finish := func() {
		switch {
		case text.Len() == 0:
		case kind == llm.EventText:
			msg.Parts = append(msg.Parts, llm.Part{Text: text.String()})
		default:
			msg.Parts = append(msg.Parts, llm.Part{Thought: text.String()})
		}
		text.Reset()
		kind = llm.EventBreak
	}
	stop, err := t.model.Stream(ctx, req, func(e llm.Event) error {
		switch e.Kind {
		case llm.EventText, llm.EventThought:
			if e.Text == "" {
				return nil
			}
			if kind != e.Kind {
				finish()
				kind = e.Kind
				name := "agent_message_chunk"
				if kind == llm.EventThought {
					name = "agent_thought_chunk"
				}
				head = chunkHead(name, t.messageID())
			}
			if text.Len() <= maxKept { // more is cut when it is kept
				text.WriteString(e.Text)
			}
			return t.host.Update(ctx, appendChunk(head, e.Text))
		case llm.EventCall:
			finish()
			call := *e.Call
			t.calls++
			call.ID = fmt.Sprintf("call_%d_%d", t.seq, t.calls)
			call.Args = validArgs(call.Args)
			msg.Parts = append(msg.Parts, llm.Part{Call: &call})
		case llm.EventBreak:
			finish()
		}
		return nil
	})
	finish()
	return msg, stop, err
}

// validArgs makes JSON of what a model gave as arguments: text that is none
// becomes a string, which the tool will refuse in its own words.
func validArgs(args json.RawMessage) json.RawMessage {
	switch {
	case len(bytes.TrimSpace(args)) == 0:
		return json.RawMessage("{}")
	case !json.Valid(args):
		return encode(string(args))
	}
	return args
}

func callsOf(m llm.Message) []llm.ToolCall {
	var calls []llm.ToolCall
	for _, p := range m.Parts {
		if p.Call != nil {
			calls = append(calls, *p.Call)
		}
	}
	return calls
}

// messageID names a message for ever: by the turn and its number in it.
func (t *turn) messageID() string {
	t.messages++
	return fmt.Sprintf("msg_%d_%d", t.seq, t.messages)
}

// keep puts a finished message into the history and the session's log, also
// when the turn was cancelled.
func (t *turn) keep(ctx context.Context, m llm.Message) error {
	m.Parts = kept(m.Parts)
	if len(m.Parts) == 0 {
		return nil
	}
	t.history.add(m)
	ctx, cancel := t.parting(ctx)
	defer cancel()
	return t.host.Record(ctx, encode(record{Message: &m}))
}

// parting is a context for what must be said also after a cancel: it outlives
// ctx by a short time. The returned function must be called.
func (t *turn) parting(ctx context.Context) (context.Context, context.CancelFunc) {
	p, cancel := context.WithCancel(context.WithoutCancel(ctx))
	stop := context.AfterFunc(ctx, func() { // ends with p at the latest
		timer := time.NewTimer(partingTime)
		defer timer.Stop()
		select {
		case <-timer.C:
			cancel()
		case <-p.Done():
		}
	})
	return p, func() {
		stop()
		cancel()
	}
}

// entitle gives the session the title of its first prompt.
func (t *turn) entitle(ctx context.Context, prompt llm.Message) error {
	if t.titled {
		return nil
	}
	t.titled = true
	text := title(prompt)
	if text == "" {
		return nil
	}
	return t.host.Update(ctx, encode(map[string]string{"sessionUpdate": "session_info_update", "title": text}))
}

// sayUsage tells how full the model's window is, guessing four bytes a token.
func (t *turn) sayUsage(ctx context.Context) error {
	window := t.model.Info().Window
	used := min(t.history.bytes/4, window)
	return t.host.Update(ctx, encode(map[string]any{"sessionUpdate": "usage_update", "used": used, "size": window}))
}
