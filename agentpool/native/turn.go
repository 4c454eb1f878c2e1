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
)

// turn is one run of Prompt.
type turn struct {
	*Agent
	seq      session.Seq
	messages int             // messages shown so far
	calls    int             // calls made so far
	denied   map[string]bool // resolved paths whose change was not allowed

	knew map[string]toldTool // tools of MCP servers the model knew of before the prompt

	compactions int
	noRoom      bool // summing up has failed: it is not tried again in this turn
}

// run is the loop: model, tools, model, until the model calls no tool. It
// returns an ACP stop reason. When ctx is cancelled, every call has an end and
// a result before it returns.
func (t *turn) run(ctx context.Context, blocks []json.RawMessage) (string, error) {
	prompt, err := readPrompt(blocks)
	if err != nil {
		return "", err
	}
	if c, arg, ok := slashCommand(prompt); ok {
		as, isPrompt, err := t.runCommand(ctx, c, arg, prompt)
		if !isPrompt || err != nil {
			return "end_turn", err
		}
		prompt = as
	}
	t.knew = t.told
	titled := prompt
	if err = t.sayNews(ctx); err == nil {
		err = t.meetServers(ctx, &prompt)
	}
	t.history.begin(prompt)
	t.mu.Lock()
	t.steering.open = true
	t.mu.Unlock()
	defer t.endSteering(ctx)
	if err == nil {
		err = t.tellMode(ctx)
	}
	if err == nil {
		err = t.entitle(ctx, titled)
	}
	if err != nil {
		if ctx.Err() == nil {
			t.takeBack(ctx)
		}
		return "", err
	}
	limit := t.cfg.MaxCalls
	if limit <= 0 {
		limit = defaultMaxCalls
	}
	for range limit {
		if _, err := t.takeSteering(ctx, false); err != nil {
			return "", err
		}
		if err := t.makeRoom(ctx); err != nil {
			return "", err
		}
		msg, cost, stop, err := t.sample(ctx)
		if tooLong(err) && len(msg.Parts) == 0 && !t.noRoom && t.compactable() {
			t.noRoom = true // once
			if err = t.compact(ctx, ""); err == nil {
				continue
			}
		}
		if kerr := t.keep(ctx, msg, cost); err == nil {
			err = kerr
		}
		if err != nil && ctx.Err() == nil {
			t.takeBack(ctx)
		}
		calls := callsOf(msg)
		if err == nil && len(calls) > 0 {
			var results llm.Message
			results, err = t.runCalls(ctx, calls)
			if kerr := t.keep(ctx, results, spent{}); err == nil {
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
			err = t.sayNews(ctx)
		}
		if err == nil {
			err = ctx.Err()
		}
		if err != nil {
			return "", modelError(err, t.model.Info().Name)
		}
		if len(calls) > 0 {
			continue
		}
		if stop != llm.StopRefusal {
			if more, err := t.takeSteering(ctx, true); err != nil {
				return "", err
			} else if more {
				continue
			}
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

// sample asks the model for one message and shows it while it comes. What has
// come is returned also with an error.
func (t *turn) sample(ctx context.Context) (llm.Message, spent, llm.Stop, error) {
	info := t.model.Info()
	msg := llm.Message{Role: llm.RoleAssistant, By: info.ID()}
	if err := t.freeze(ctx); err != nil {
		return msg, spent{}, "", err
	}
	req := llm.Request{System: t.prefix.System, Tools: t.prefix.Tools, Messages: t.history.messages, Effort: t.effort, Session: string(t.id)}
	var usage llm.Usage
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
			if e.Signature != "" {
				thinking := kind == llm.EventThought && text.Len() > 0
				finish()
				if thinking {
					msg.Parts[len(msg.Parts)-1].Signature = e.Signature
				} else {
					msg.Parts = append(msg.Parts, llm.Part{Signature: e.Signature})
				}
				return nil
			}
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
			// More is cut when it is kept, but a thought that is signed later
			// must be whole.
			if text.Len() <= maxKept || kind == llm.EventThought {
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
		case llm.EventUsage:
			usage = e.Usage
		}
		return nil
	})
	finish()
	return msg, priced(usage, info), stop, err
}

// freeze makes the prefix of the session's requests, before the first of them.
func (t *turn) freeze(ctx context.Context) error {
	if t.prefix != nil {
		return nil
	}
	p := newPrefix(&t.env, t.tools)
	p.listServers(t.servers)
	t.cfg.Common.share(p)
	if err := t.host.Record(ctx, encode(record{Packed: t.cfg.Common.pack(p), Session: t.id})); err != nil {
		return err
	}
	t.prefix, t.told, t.knew = p, p.MCP, p.MCP
	return nil
}

// takeBack forgets the turn's prompt if the model has not answered it, and what
// was told beside it. It is a fact of the log: nobody could tell from the turn's
// end alone.
func (t *turn) takeBack(ctx context.Context) {
	if !t.history.takeBack() {
		return
	}
	t.told = t.knew
	ctx, cancel := t.parting(ctx)
	defer cancel()
	_ = t.host.Record(ctx, encode(record{TakenBack: true}))
}

// tooLong says whether a request did not fit into the model.
func tooLong(err error) bool {
	var failed *llm.Error
	return errors.As(err, &failed) && failed.TooLong
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
	// As it will be read from the log: the bytes a model is told must not
	// change when a session is opened again.
	return encode(args)
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

// keep puts a finished message and what it cost into the history and the
// session's log, also when the turn was cancelled.
func (t *turn) keep(ctx context.Context, m llm.Message, cost spent) error {
	m.Parts = kept(m.Parts)
	var rec record
	if len(m.Parts) > 0 {
		t.history.add(m)
		rec.Message = &m
	}
	if cost.Usage != (llm.Usage{}) {
		t.meter.add(cost)
		t.meter.context, t.meter.bytes = cost.Total(), t.history.bytes
		rec.Spent, rec.Session = &cost, t.id
	}
	if rec.Message == nil && rec.Spent == nil {
		return nil
	}
	ctx, cancel := t.parting(ctx)
	defer cancel()
	return t.host.Record(ctx, encode(rec))
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
	if t.titled.Swap(true) {
		return nil
	}
	text := title(prompt)
	if text == "" {
		return nil
	}
	return t.host.Update(ctx, titleUpdate(text))
}
