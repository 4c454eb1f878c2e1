// Package anthropic answers: how is a model asked that speaks Anthropic's
// Messages format? The official SDK carries the request and reads the stream;
// the body is written here, in an order that never changes, so that each
// request of a session begins with the bytes of the one before.
package anthropic

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"slices"
	"strings"

	sdk "github.com/anthropics/anthropic-sdk-go"
	"github.com/anthropics/anthropic-sdk-go/option"
	"github.com/hermesd/hermesd/agentpool/native/llm"
	"github.com/hermesd/hermesd/agentpool/native/llm/wire"
)

const (
	ownBase = "https://api.anthropic.com/"

	// DefaultModel is taken when none is asked for.
	DefaultModel = sdk.ModelClaudeSonnet5_5
)

// Values of llm.Info.Thinking.
const (
	adaptive = "adaptive" // the model sees itself how much to think
	budgeted = "budget"   // it is given a number of tokens to think with
)

// Model is one model of a server. It implements llm.Model.
type Model struct {
	at       wire.Endpoint
	info     llm.Info
	messages sdk.MessageService
}

// New returns a model; info should come from List or Known.
func New(at wire.Endpoint, info llm.Info) (*Model, error) {
	opts, err := options(at)
	if err != nil {
		return nil, err
	}
	return &Model{at: at, info: info, messages: sdk.NewMessageService(opts...)}, nil
}

// options are what the SDK is told: everything from us, nothing from the
// environment, no retries of its own.
func options(at wire.Endpoint) ([]option.RequestOption, error) {
	base, err := at.Base(ownBase, "v1", false)
	if err != nil {
		return nil, err
	}
	opts := []option.RequestOption{option.WithBaseURL(base), option.WithHTTPClient(at.Client), option.WithMaxRetries(0)}
	switch {
	case at.Key.Empty():
	case at.Bearer:
		opts = append(opts, option.WithAuthToken(at.Key.Reveal()))
	default:
		opts = append(opts, option.WithAPIKey(at.Key.Reveal()))
	}
	return opts, nil
}

// Info implements llm.Model.
func (m *Model) Info() llm.Info { return m.info }

// Stream implements llm.Model.
func (m *Model) Stream(ctx context.Context, req llm.Request, yield func(llm.Event) error) (llm.Stop, error) {
	var res *http.Response
	stream := m.messages.NewStreaming(ctx, sdk.MessageNewParams{Model: m.info.Name},
		option.WithRequestBody("application/json", m.body(req)), option.WithResponseInto(&res))
	if err := stream.Err(); err != nil {
		return "", m.fault(ctx, err, res, false)
	}
	defer stream.Close()

	r := reader{yield: yield, blocks: map[int64]*block{}}
	for stream.Next() {
		if err := r.take(stream.Current()); err != nil {
			return r.stop, err
		}
		if r.ended {
			break
		}
	}
	switch err := stream.Err(); {
	case err != nil:
		return r.stop, m.fault(ctx, err, res, true)
	case ctx.Err() != nil:
		return r.stop, ctx.Err()
	case !r.begun:
		return r.stop, m.at.Strange(res)
	case !r.ended && r.stop == "":
		return r.stop, m.at.Broken(ctx, nil, true)
	}
	return r.stop, r.finish()
}

// fault makes an *llm.Error, or ctx's error, of an error of the SDK.
func (m *Model) fault(ctx context.Context, err error, res *http.Response, begun bool) error {
	var answer *sdk.Error
	if errors.As(err, &answer) && ctx.Err() == nil {
		var header http.Header
		if answer.Response != nil && answer.StatusCode >= 400 {
			header = answer.Response.Header
		}
		return m.at.Fault(wire.ReadAnswer(answer.StatusCode, header, []byte(answer.RawJSON())), m.info.Name)
	}
	var syntax *json.SyntaxError
	switch {
	case errors.As(err, &syntax):
		return m.at.Strange(res)
	case res != nil && res.StatusCode >= 400 && ctx.Err() == nil:
		return m.at.Fault(wire.Answer{Status: res.StatusCode, Header: res.Header}, m.info.Name)
	}
	return m.at.Broken(ctx, err, begun)
}

// reader turns the events of a stream into ours.
type reader struct {
	yield  func(llm.Event) error
	blocks map[int64]*block // open ones
	held   []llm.Event      // calls without arguments or with some that are no JSON: perhaps cut
	usage  llm.Usage
	stop   llm.Stop
	begun  bool
	ended  bool
}

type block struct {
	kind, id, name string
	args           strings.Builder
	signature      strings.Builder
}

func (r *reader) take(e sdk.MessageStreamEventUnion) error {
	switch e.Type {
	case "message_start":
		r.begun = true
		u := e.Message.Usage
		r.usage = llm.Usage{Input: int(u.InputTokens), CacheRead: int(u.CacheReadInputTokens), CacheWrite: int(u.CacheCreationInputTokens), Output: int(u.OutputTokens)}
		return r.yield(llm.Event{Kind: llm.EventUsage, Usage: r.usage})
	case "content_block_start":
		c := e.ContentBlock
		b := &block{kind: c.Type, id: c.ID, name: c.Name}
		r.blocks[e.Index] = b
		switch c.Type {
		case "text":
			return r.say(llm.EventText, c.Text)
		case "thinking":
			b.signature.WriteString(c.Signature)
			return r.say(llm.EventThought, c.Thinking)
		case "redacted_thinking":
			b.signature.WriteString(redacted + c.Data)
		}
	case "content_block_delta":
		b := r.blocks[e.Index]
		if b == nil {
			return nil
		}
		switch e.Delta.Type {
		case "text_delta":
			return r.say(llm.EventText, e.Delta.Text)
		case "thinking_delta":
			return r.say(llm.EventThought, e.Delta.Thinking)
		case "signature_delta":
			b.signature.WriteString(e.Delta.Signature)
		case "input_json_delta":
			b.args.WriteString(e.Delta.PartialJSON)
		}
	case "content_block_stop":
		b := r.blocks[e.Index]
		delete(r.blocks, e.Index)
		if b == nil {
			return nil
		}
		return r.close(b)
	case "message_delta":
		r.stop = stopOf(string(e.Delta.StopReason))
		u := e.Usage
		r.usage.Output = int(u.OutputTokens)
		r.usage.Thought = int(u.OutputTokensDetails.ThinkingTokens)
		if u.InputTokens > 0 || u.CacheReadInputTokens > 0 || u.CacheCreationInputTokens > 0 {
			r.usage.Input, r.usage.CacheRead, r.usage.CacheWrite = int(u.InputTokens), int(u.CacheReadInputTokens), int(u.CacheCreationInputTokens)
		}
		return r.yield(llm.Event{Kind: llm.EventUsage, Usage: r.usage})
	case "message_stop":
		r.ended = true
	}
	return nil
}

func (r *reader) say(kind llm.EventKind, text string) error {
	if text == "" {
		return nil
	}
	return r.yield(llm.Event{Kind: kind, Text: text})
}

func (r *reader) close(b *block) error {
	switch b.kind {
	case "thinking", "redacted_thinking":
		if s := b.signature.String(); s != "" {
			return r.yield(llm.Event{Kind: llm.EventThought, Signature: s})
		}
	case "tool_use":
		args := b.args.String()
		call := llm.Event{Kind: llm.EventCall, Call: &llm.ToolCall{ID: b.id, Name: b.name, Args: json.RawMessage(args)}}
		if !json.Valid(call.Call.Args) {
			r.held = append(r.held, call)
			return nil
		}
		return r.yield(call)
	}
	return nil
}

// finish gives out the calls that were held, unless the limit of output cut
// them: such a call was never made.
func (r *reader) finish() error {
	if r.stop == llm.StopLength {
		return nil
	}
	for _, call := range r.held {
		if err := r.yield(call); err != nil {
			return err
		}
	}
	return nil
}

func stopOf(reason string) llm.Stop {
	switch reason {
	case "tool_use":
		return llm.StopTools
	case "max_tokens", "model_context_window_exceeded":
		return llm.StopLength
	case "refusal":
		return llm.StopRefusal
	}
	return llm.StopEnd
}

// Known is what can be said of a model by its name alone. What a server says
// in its list is better.
func Known(provider, name string) llm.Info {
	i := llm.Info{Provider: provider, Name: name, Window: 200_000, MaxOutput: 32_000}
	old := func(prefixes ...string) bool {
		return slices.ContainsFunc(prefixes, func(p string) bool { return strings.HasPrefix(name, p) })
	}
	switch {
	case !strings.HasPrefix(name, "claude-"):
		// Of somebody who speaks Anthropic's format: nothing is known.
		i.MaxOutput = 8192
	case old("claude-3-5-"):
		i.MaxOutput = 8192
	case old("claude-3-7-", "claude-opus-4-2", "claude-sonnet-4-2", "claude-opus-4-0", "claude-sonnet-4-0", "claude-opus-4-1", "claude-sonnet-4-5", "claude-haiku-4-5", "claude-opus-4-5"):
		i.Thinking, i.Efforts = budgeted, budgets()
	case old("claude-3-", "claude-2", "claude-instant"):
		i.MaxOutput = 4096
	default:
		i.Thinking, i.Efforts = adaptive, []string{none, "low", "medium", "high", "max"}
	}
	return i
}

// none is the effort of not thinking at all.
const none = "none"

func budgets() []string { return []string{none, "low", "medium", "high"} }

// List asks the server which models it has, newest first as it gives them.
func List(ctx context.Context, at wire.Endpoint) ([]llm.Info, error) {
	opts, err := options(at)
	if err != nil {
		return nil, err
	}
	models := sdk.NewModelService(opts...)
	page, err := models.List(ctx, sdk.ModelListParams{Limit: sdk.Int(200)})
	if err != nil {
		m := Model{at: at}
		return nil, m.fault(ctx, err, nil, false)
	}
	var all []llm.Info
	for _, d := range page.Data {
		if d.ID == "" || d.Lifecycle == "retired" {
			continue
		}
		all = append(all, describe(at.Provider, d))
	}
	return all, nil
}

// describe reads what the server says of a model. Older servers say nothing of
// limits and capabilities.
func describe(provider string, d sdk.ModelInfo) llm.Info {
	i := Known(provider, d.ID)
	i.Title = d.DisplayName
	if d.MaxInputTokens > 0 {
		i.Window = int(d.MaxInputTokens)
	}
	if d.MaxTokens > 0 {
		// What is not needed is not asked for: some servers count it.
		i.MaxOutput = min(int(d.MaxTokens), 64_000)
	}
	if !d.JSON.Capabilities.Valid() {
		return i
	}
	c := d.Capabilities
	i.Thinking, i.Efforts = "", nil
	switch {
	case c.Thinking.Types.Adaptive.Supported:
		i.Thinking = adaptive
	case c.Thinking.Types.Enabled.Supported:
		i.Thinking = budgeted
	}
	if i.Thinking == budgeted {
		i.Efforts = budgets()
		return i
	}
	if c.Effort.Supported {
		if i.Thinking == adaptive {
			i.Efforts = []string{none}
		}
		for _, level := range []struct {
			name string
			ok   bool
		}{{"low", c.Effort.Low.Supported}, {"medium", c.Effort.Medium.Supported}, {"high", c.Effort.High.Supported}, {"xhigh", c.Effort.Xhigh.Supported}, {"max", c.Effort.Max.Supported}} {
			if level.ok {
				i.Efforts = append(i.Efforts, level.name)
			}
		}
	}
	return i
}
