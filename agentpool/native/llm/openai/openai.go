// Package openai answers: how is a model asked that speaks OpenAI's Chat
// Completions format, as nearly every server does? The official SDK carries
// the request and reads the stream; the body is written here, in an order that
// never changes, so that each request of a session begins with the bytes of
// the one before.
package openai

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"slices"
	"strconv"
	"strings"

	"github.com/hermesd/hermesd/agentpool/native/llm"
	"github.com/hermesd/hermesd/agentpool/native/llm/wire"
	sdk "github.com/openai/openai-go/v3"
	"github.com/openai/openai-go/v3/option"
	"github.com/openai/openai-go/v3/packages/ssestream"
)

const (
	ownBase = "https://api.openai.com/v1/"

	// Provider is the name of OpenAI itself.
	Provider = "openai"
	// DefaultModel is what OpenAI itself is asked for when nothing is configured.
	DefaultModel = sdk.ChatModelGPT6_1Sol
)

// Model is one model of a server. It implements llm.Model.
type Model struct {
	at   wire.Endpoint
	info llm.Info
	chat sdk.ChatCompletionService
}

// New returns a model; info should come from List or Known.
func New(at wire.Endpoint, info llm.Info) (*Model, error) {
	opts, err := options(at)
	if err != nil {
		return nil, err
	}
	return &Model{at: at, info: info, chat: sdk.NewChatCompletionService(opts...)}, nil
}

// options are what the SDK is told: everything from us, nothing from the
// environment, no retries of its own.
func options(at wire.Endpoint) ([]option.RequestOption, error) {
	base, err := at.Base(ownBase, "v1", true)
	if err != nil {
		return nil, err
	}
	opts := []option.RequestOption{option.WithBaseURL(base), option.WithHTTPClient(at.Client), option.WithMaxRetries(0)}
	if !at.Key.Empty() {
		opts = append(opts, option.WithAPIKey(at.Key.Reveal()))
	}
	return opts, nil
}

// Info implements llm.Model.
func (m *Model) Info() llm.Info { return m.info }

// Stream implements llm.Model.
func (m *Model) Stream(ctx context.Context, req llm.Request, yield func(llm.Event) error) (llm.Stop, error) {
	var res *http.Response
	stream := m.chat.NewStreaming(ctx, sdk.ChatCompletionNewParams{Model: m.info.Name},
		option.WithRequestBody("application/json", m.body(req)), option.WithResponseInto(&res))
	if err := stream.Err(); err != nil {
		return "", m.fault(ctx, err, res, false)
	}
	defer stream.Close()

	r := reader{yield: yield}
	for stream.Next() {
		if err := r.take(stream.Current()); err != nil {
			return r.stop, err
		}
	}
	switch err := stream.Err(); {
	case ctx.Err() != nil:
		return r.stop, ctx.Err()
	case r.stop != "":
		// It is complete, whatever became of the connection.
	case err != nil:
		return r.stop, m.fault(ctx, err, res, r.begun)
	case !r.begun:
		return r.stop, m.at.Strange(res)
	default:
		return r.stop, m.at.Broken(ctx, nil, true)
	}
	return r.finish()
}

// fault makes an *llm.Error, or ctx's error, of an error of the SDK.
func (m *Model) fault(ctx context.Context, err error, res *http.Response, begun bool) error {
	if ctx.Err() != nil {
		return ctx.Err()
	}
	var inStream *ssestream.StreamError
	var answer *sdk.Error
	var syntax *json.SyntaxError
	if errors.As(err, &answer) && res == nil {
		res = answer.Response
	}
	switch {
	case errors.As(err, &inStream):
		return m.at.Fault(wire.ReadAnswer(http.StatusOK, nil, inStream.Event.Data), m.info.Name)
	case res != nil && res.StatusCode >= 400:
		body, _ := io.ReadAll(io.LimitReader(res.Body, 64<<10)) // in memory already
		return m.at.Fault(wire.ReadAnswer(res.StatusCode, res.Header, body), m.info.Name)
	case errors.As(err, &syntax):
		return m.at.Strange(res)
	}
	return m.at.Broken(ctx, err, begun)
}

// reader turns the chunks of a stream into events.
type reader struct {
	yield   func(llm.Event) error
	calls   []*call
	thought signature
	refused bool
	stop    llm.Stop
	begun   bool
}

type call struct {
	index    int64
	id, name string
	args     strings.Builder
	extra    string
}

func (r *reader) take(c sdk.ChatCompletionChunk) error {
	r.begun = true
	if u := c.Usage; u.PromptTokens > 0 || u.CompletionTokens > 0 {
		cached := int(u.PromptTokensDetails.CachedTokens)
		if hit, ok := u.JSON.ExtraFields["prompt_cache_hit_tokens"]; ok && cached == 0 { // DeepSeek
			cached, _ = strconv.Atoi(hit.Raw())
		}
		usage := llm.Usage{Input: max(0, int(u.PromptTokens)-cached), CacheRead: cached,
			Output: int(u.CompletionTokens), Thought: int(u.CompletionTokensDetails.ReasoningTokens)}
		if err := r.yield(llm.Event{Kind: llm.EventUsage, Usage: usage}); err != nil {
			return err
		}
	}
	if len(c.Choices) == 0 {
		return nil
	}
	d := c.Choices[0].Delta
	if err := r.think(d); err != nil {
		return err
	}
	for _, text := range []string{d.Content, d.Refusal} {
		if text == "" {
			continue
		}
		if err := r.yield(llm.Event{Kind: llm.EventText, Text: text}); err != nil {
			return err
		}
	}
	r.refused = r.refused || d.Refusal != ""
	for _, t := range d.ToolCalls {
		k := r.find(t.Index, t.ID)
		k.id = cmp.Or(k.id, t.ID)
		k.name = cmp.Or(k.name, t.Function.Name) // some servers repeat it
		k.args.WriteString(t.Function.Arguments)
		if extra, ok := t.JSON.ExtraFields["extra_content"]; ok { // Gemini
			k.extra = extra.Raw()
		}
	}
	switch reason := c.Choices[0].FinishReason; reason {
	case "":
	case "length":
		r.stop = llm.StopLength
	case "content_filter":
		r.stop = llm.StopRefusal
	case "tool_calls", "function_call":
		r.stop = llm.StopTools
	default:
		r.stop = llm.StopEnd
	}
	return nil
}

// think takes the reasoning of a chunk. Servers have not agreed on its name.
func (r *reader) think(d sdk.ChatCompletionChunkChoiceDelta) error {
	if len(d.JSON.ExtraFields) == 0 {
		return nil
	}
	if details, ok := d.JSON.ExtraFields["reasoning_details"]; ok {
		r.thought.add(details.Raw())
	}
	for _, name := range []string{"reasoning_content", "reasoning"} {
		field, ok := d.JSON.ExtraFields[name]
		if !ok {
			continue
		}
		var text string
		if json.Unmarshal([]byte(field.Raw()), &text) != nil || text == "" {
			continue
		}
		r.thought.Field = name
		return r.yield(llm.Event{Kind: llm.EventThought, Text: text})
	}
	return nil
}

// find returns the call a piece belongs to. Some servers give every call the
// index 0 and an id of its own.
func (r *reader) find(index int64, id string) *call {
	for _, c := range slices.Backward(r.calls) {
		if c.index == index && (id == "" || c.id == "" || c.id == id) {
			return c
		}
	}
	c := &call{index: index}
	r.calls = append(r.calls, c)
	return c
}

// finish gives out the calls. One that the limit of output cut was never made.
func (r *reader) finish() (llm.Stop, error) {
	if s := r.thought.encode(); s != "" {
		if err := r.yield(llm.Event{Kind: llm.EventThought, Signature: s}); err != nil {
			return r.stop, err
		}
	}
	for _, c := range r.calls {
		args := c.args.String()
		if r.stop == llm.StopLength && !json.Valid([]byte(args)) {
			continue
		}
		if err := r.yield(llm.Event{Kind: llm.EventCall, Call: &llm.ToolCall{ID: c.id, Name: c.name, Args: json.RawMessage(args), Signature: c.extra}}); err != nil {
			return r.stop, err
		}
		if r.stop == llm.StopEnd {
			r.stop = llm.StopTools
		}
	}
	if r.refused && r.stop == llm.StopEnd {
		r.stop = llm.StopRefusal
	}
	return r.stop, nil
}

// Known is what can be said of a model by its name alone. What a server says
// in its list is better.
func Known(provider, name string) llm.Info {
	i := llm.Info{Provider: provider, Name: name}
	base := name[strings.LastIndexByte(name, '/')+1:]
	is := func(prefixes ...string) bool {
		return slices.ContainsFunc(prefixes, func(p string) bool { return strings.HasPrefix(base, p) })
	}
	switch {
	case is("gpt-oss"):
		i.Window, i.Efforts = 128_000, []string{"low", "medium", "high"}
	case is("gpt-5-chat", "gpt-4o", "chatgpt"):
		i.Window = 128_000
	case is("gpt-5-", "gpt-5:") || base == "gpt-5":
		i.Window, i.Efforts = 400_000, []string{"minimal", "low", "medium", "high"}
	case is("gpt-5.", "gpt-6"):
		i.Window, i.Efforts = 400_000, []string{"none", "low", "medium", "high", "xhigh"}
	case is("gpt-4.1"):
		i.Window = 1_000_000
	case is("o1", "o3", "o4"):
		i.Window, i.Efforts = 200_000, []string{"low", "medium", "high"}
	}
	return i
}

// List asks the server which models it has. Models that are for something else
// than conversation are left out, as far as their names tell.
func List(ctx context.Context, at wire.Endpoint) ([]llm.Info, error) {
	opts, err := options(at)
	if err != nil {
		return nil, err
	}
	models := sdk.NewModelService(opts...)
	page, err := models.List(ctx)
	if err != nil {
		m := Model{at: at}
		return nil, m.fault(ctx, err, nil, false)
	}
	var all []llm.Info
	for _, d := range page.Data {
		if i, ok := describe(at.Provider, d.ID, []byte(d.RawJSON())); ok {
			all = append(all, i)
		}
	}
	slices.SortStableFunc(all, func(a, b llm.Info) int { return cmp.Compare(a.Name, b.Name) })
	return all, nil
}

// describe reads what a server says of a model: nothing at OpenAI, a lot
// elsewhere.
func describe(provider, id string, raw []byte) (llm.Info, bool) {
	var d struct {
		Name          string `json:"name"`
		ContextLength int    `json:"context_length"` // OpenRouter, Together
		ContextWindow int    `json:"context_window"` // Groq
		MaxModelLen   int    `json:"max_model_len"`  // vLLM
		Meta          struct {
			Ctx int `json:"n_ctx"` // llama.cpp
		} `json:"meta"`
		Parameters []string `json:"supported_parameters"`
		Pricing    *struct {
			Prompt     string `json:"prompt"`
			Completion string `json:"completion"`
			CacheRead  string `json:"input_cache_read"`
			CacheWrite string `json:"input_cache_write"`
		} `json:"pricing"`
	}
	if json.Unmarshal(raw, &d) != nil || id == "" {
		return llm.Info{Provider: provider, Name: id}, id != ""
	}
	lower := strings.ToLower(id)
	for _, word := range []string{"embed", "whisper", "tts", "dall-e", "moderation", "transcribe", "realtime", "-audio", "-image", "sora", "davinci", "babbage", "-instruct-0914", "rerank"} {
		if strings.Contains(lower, word) {
			return llm.Info{}, false
		}
	}
	i := Known(provider, id)
	i.Title = d.Name
	i.Window = cmp.Or(d.ContextLength, d.ContextWindow, d.MaxModelLen, d.Meta.Ctx, i.Window)
	if d.Parameters != nil {
		if !slices.Contains(d.Parameters, "tools") {
			return llm.Info{}, false
		}
		i.Efforts = nil
		if slices.Contains(d.Parameters, "reasoning") {
			i.Efforts = []string{"low", "medium", "high"}
		}
	}
	if p := d.Pricing; p != nil {
		per := func(s string) float64 {
			f, err := strconv.ParseFloat(s, 64)
			if err != nil || f < 0 {
				return 0
			}
			return f * 1e6
		}
		i.Price = &llm.Price{Input: per(p.Prompt), Output: per(p.Completion), CacheRead: per(p.CacheRead), CacheWrite: per(p.CacheWrite), Currency: "USD"}
	}
	return i, true
}
