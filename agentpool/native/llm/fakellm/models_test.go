package fakellm_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/hermesd/hermesd/agentpool/native/llm"
	"github.com/hermesd/hermesd/agentpool/native/llm/anthropic"
	"github.com/hermesd/hermesd/agentpool/native/llm/credentials"
	"github.com/hermesd/hermesd/agentpool/native/llm/fakellm"
	"github.com/hermesd/hermesd/agentpool/native/llm/openai"
	"github.com/hermesd/hermesd/agentpool/native/llm/wire"
	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const key = "sk-fake-key"

var formats = []fakellm.Format{fakellm.Anthropic, fakellm.OpenAI}

func client(t testing.TB) *http.Client {
	c := wire.NewClient(time.Minute)
	t.Cleanup(c.CloseIdleConnections)
	return c
}

// model returns a model of the server.
func model(t testing.TB, s *fakellm.Server) llm.Model {
	return modelWith(t, s, key)
}

func modelWith(t testing.TB, s *fakellm.Server, key string) llm.Model {
	t.Helper()
	at := wire.Endpoint{Provider: string(s.Format), BaseURL: s.URL, Key: credentials.NewSecret(key), Client: client(t)}
	var m llm.Model
	var err error
	if s.Format == fakellm.Anthropic {
		m, err = anthropic.New(at, anthropic.Known(at.Provider, anthropic.DefaultModel))
	} else {
		m, err = openai.New(at, openai.Known(at.Provider, openai.DefaultModel))
	}
	if err != nil {
		t.Fatal(err)
	}
	return m
}

func each(t *testing.T, do func(t *testing.T, f fakellm.Format)) {
	for _, f := range formats {
		t.Run(string(f), func(t *testing.T) { do(t, f) })
	}
}

func prompt(text string) llm.Message {
	return llm.Message{Role: llm.RoleUser, Parts: []llm.Part{{Text: text}}}
}

var request = llm.Request{System: "Be brief.", Messages: []llm.Message{prompt("hello")},
	Tools: []llm.ToolSpec{{Name: "read_file", Description: "Reads <a> file", Schema: json.RawMessage(`{"type": "object", "properties": {"path": {"type": "string"}}}`)}}}

// said is what came of a stream.
type said struct {
	text, thought, signature string
	calls                    []llm.ToolCall
	usage                    llm.Usage
	pieces                   int
	stop                     llm.Stop
	err                      error
}

func ask(ctx context.Context, m llm.Model, req llm.Request) (s said) {
	s.stop, s.err = m.Stream(ctx, req, func(e llm.Event) error {
		switch e.Kind {
		case llm.EventText:
			s.text += e.Text
			s.pieces++
		case llm.EventThought:
			s.thought += e.Text
			s.signature += e.Signature
		case llm.EventCall:
			s.calls = append(s.calls, *e.Call)
		case llm.EventUsage:
			s.usage = e.Usage
		}
		return nil
	})
	return s
}

func TestThoughtsTextParallelCallsAndUsageAreStreamed(t *testing.T) {
	each(t, func(t *testing.T, f fakellm.Format) {
		s := fakellm.New(t, f, key, fakellm.Script(fakellm.Reply{
			Thoughts: []string{"Let me ", "see…"}, Texts: []string{"I read ", "both \u2028<&> ", "files."},
			Calls: []fakellm.Call{{"read_file", `{"path":"ä b"}`}, {"read_file", `{"path":"c"}`}, {"todo", `{}`}},
		}))
		m := model(t, s)
		got := ask(context.Background(), m, request)
		if got.err != nil || got.stop != llm.StopTools || got.thought != "Let me see…" || got.text != "I read both \u2028<&> files." || got.pieces != 3 || got.signature == "" {
			t.Errorf("%+v", got)
		}
		if len(got.calls) != 3 || got.calls[0].Name != "read_file" || string(got.calls[0].Args) != `{"path":"ä b"}` || string(got.calls[1].Args) != `{"path":"c"}` || got.calls[2].Name != "todo" || got.calls[0].ID == got.calls[1].ID {
			t.Errorf("%+v", got.calls)
		}
		if got.usage.Output == 0 || got.usage.Thought == 0 || got.usage.Input == 0 || got.usage.CacheRead != 0 {
			t.Errorf("%+v", got.usage)
		}
		again := ask(context.Background(), m, request)
		if again.usage.CacheRead == 0 || again.usage.Input > 1 {
			t.Errorf("the same request again: %+v", again.usage)
		}
		if h := s.Requests()[0].Header; strings.Contains(fmt.Sprint(h), "hermes") && h.Get("User-Agent") == "" {
			t.Error(h)
		}
	})
}

func TestWhyAMessageIsOver(t *testing.T) {
	call := []fakellm.Call{{"read_file", `{"path":"a"}`}, {"read_file", `{"path":"bbbbbb"}`}}
	each(t, func(t *testing.T, f fakellm.Format) {
		stop := func(a, o string) string {
			if f == fakellm.OpenAI {
				return o
			}
			return a
		}
		for name, c := range map[string]struct {
			reply fakellm.Reply
			want  llm.Stop
			calls int
		}{
			"end":             {fakellm.Reply{Texts: []string{"x"}}, llm.StopEnd, 0},
			"tools":           {fakellm.Reply{Calls: call}, llm.StopTools, 2},
			"tools said stop": {fakellm.Reply{Calls: call, Stop: stop("tool_use", "stop")}, llm.StopTools, 2},
			"length":          {fakellm.Reply{Texts: []string{"x"}, Stop: stop("max_tokens", "length")}, llm.StopLength, 0},
			"window":          {fakellm.Reply{Texts: []string{"x"}, Stop: stop("model_context_window_exceeded", "length")}, llm.StopLength, 0},
			"a cut call":      {fakellm.Reply{Calls: call, CutCall: true, Stop: stop("max_tokens", "length")}, llm.StopLength, 1},
			"refusal":         {fakellm.Reply{Texts: []string{"no"}, Stop: stop("refusal", "content_filter")}, llm.StopRefusal, 0},
			"refusal in text": {fakellm.Reply{Refusal: "no", Stop: stop("refusal", "stop")}, llm.StopRefusal, 0},
			"an unknown one":  {fakellm.Reply{Texts: []string{"x"}, Stop: "tired"}, llm.StopEnd, 0},
			"nothing said":    {fakellm.Reply{}, llm.StopEnd, 0},
		} {
			t.Run(name, func(t *testing.T) {
				s := fakellm.New(t, f, key, fakellm.Script(c.reply))
				if got := ask(context.Background(), model(t, s), request); got.err != nil || got.stop != c.want || len(got.calls) != c.calls {
					t.Errorf("%+v", got)
				}
			})
		}
	})
}

func TestArgumentsThatAreNoJSONArriveAsTheyAre(t *testing.T) {
	each(t, func(t *testing.T, f fakellm.Format) {
		s := fakellm.New(t, f, key, fakellm.Script(fakellm.Reply{Calls: []fakellm.Call{{"read_file", `{"path":`}}}))
		if got := ask(context.Background(), model(t, s), request); got.err != nil || len(got.calls) != 1 || string(got.calls[0].Args) != `{"path":` {
			t.Errorf("%+v", got)
		}
	})
}

func TestEveryFailureNamesProviderStatusAndAdvice(t *testing.T) {
	each(t, func(t *testing.T, f fakellm.Format) {
		typ := func(a, o string) string {
			if f == fakellm.OpenAI {
				return o
			}
			return a
		}
		for name, c := range map[string]struct {
			reply     fakellm.Reply
			status    int
			message   string
			advice    string
			auth      bool
			temporary bool
			after     time.Duration
		}{
			"400":        {fakellm.Reply{Status: 400, Type: "invalid_request_error", Message: "messages.0: no\n good"}, 400, "messages.0: no good", "change the prompt", false, false, 0},
			"long":       {fakellm.Reply{Status: 400, Type: typ("invalid_request_error", "context_length_exceeded"), Message: "prompt is too long: 200001 tokens"}, 400, "too long", "/compact", false, false, 0},
			"no credit":  {fakellm.Reply{Status: typ2(f, 400, 429), Type: typ("invalid_request_error", "insufficient_quota"), Message: "Your credit balance is too low"}, typ2(f, 400, 429), "credit", "no credit left", false, false, 0},
			"401":        {fakellm.Reply{Status: 401, Type: typ("authentication_error", "invalid_api_key"), Message: "bad key " + key}, 401, "bad key (secret)", "hermesd login " + string(f), true, false, 0},
			"403":        {fakellm.Reply{Status: 403, Type: "permission_error", Message: "not your model"}, 403, "not your model", "another model", false, false, 0},
			"403 key":    {fakellm.Reply{Status: 403, Type: "permission_error", Message: "this API key is disabled"}, 403, "disabled", "hermesd login " + string(f), true, false, 0},
			"404":        {fakellm.Reply{Status: 404, Type: "not_found_error", Message: "model: x"}, 404, "model: x", "base_url", false, false, 0},
			"429":        {fakellm.Reply{Status: 429, Type: typ("rate_limit_error", "rate_limit_exceeded"), Message: "slow down", RetryAfter: "7"}, 429, "slow down", "wait", false, true, 7 * time.Second},
			"500":        {fakellm.Reply{Status: 500, Type: "api_error", Message: "oops"}, 500, "oops", "trouble", false, true, 0},
			"529":        {fakellm.Reply{Status: 529, Type: "overloaded_error", Message: "Overloaded"}, 529, "Overloaded", "overloaded", false, true, 0},
			"web page":   {fakellm.Reply{Status: 502, Raw: "<html>bad gateway</html>", RawType: "text/html"}, 502, "a web page", "trouble", false, true, 0},
			"empty":      {fakellm.Reply{Status: 503, RawType: "text/plain"}, 503, "service unavailable", "overloaded", false, true, 0},
			"in stream":  {fakellm.Reply{Fail: true, Type: typ("overloaded_error", "server_error"), Message: "gone"}, typ2(f, 529, 500), "gone", "", false, true, 0},
			"no stream":  {fakellm.Reply{Raw: `{"hello":"world"}`, RawType: "application/json"}, 0, "application/json", "base_url", false, false, 0},
			"html":       {fakellm.Reply{Raw: `<html>welcome</html>`, RawType: "text/html"}, 0, "text/html", "base_url", false, false, 0},
			"broken":     {fakellm.Reply{Raw: "event: message_start\ndata: {\"type\":\n\n", RawType: "text/event-stream"}, 0, "not what a model streams", "base_url", false, false, 0},
			"cut":        {fakellm.Reply{Texts: []string{"half "}, Cut: true}, 0, "in the middle", "continue", false, true, 0},
			"cut before": {fakellm.Reply{Cut: true}, 0, "cut", "", false, true, 0},
		} {
			t.Run(name, func(t *testing.T) {
				s := fakellm.New(t, f, key, fakellm.Script(c.reply))
				got := ask(context.Background(), model(t, s), request)
				var e *llm.Error
				if !errors.As(got.err, &e) {
					t.Fatalf("%#v", got.err)
				}
				if e.Provider != string(f) || e.Status != c.status || !strings.Contains(e.Message, c.message) || strings.ContainsAny(e.Message, "\n") || !strings.Contains(e.Advice, c.advice) ||
					e.AuthNeeded != c.auth || e.Temporary != c.temporary || e.RetryAfter != c.after || e.Advice == "" {
					t.Errorf("%+v", *e)
				}
				if strings.Contains(fmt.Sprintf("%+v %v", *e, got.err), key) {
					t.Error("the key is shown")
				}
			})
		}
		t.Run("nobody listens", func(t *testing.T) {
			at := wire.Endpoint{Provider: "box:1", BaseURL: "http://127.0.0.1:1/", Client: client(t)}
			m, err := openai.New(at, openai.Known("box:1", "x"))
			if err != nil {
				t.Fatal(err)
			}
			var e *llm.Error
			if got := ask(context.Background(), m, request); !errors.As(got.err, &e) || e.Temporary || !strings.Contains(e.Message, "127.0.0.1:1") {
				t.Error(got.err)
			}
		})
		t.Run("another key", func(t *testing.T) {
			s := fakellm.New(t, f, key, fakellm.Script(fakellm.Reply{}))
			var e *llm.Error
			if got := ask(context.Background(), modelWith(t, s, ""), request); !errors.As(got.err, &e) || !e.AuthNeeded || e.Status != 401 {
				t.Errorf("%+v", e)
			}
		})
	})
}

func typ2(f fakellm.Format, a, o int) int {
	if f == fakellm.OpenAI {
		return o
	}
	return a
}

func TestACancelEndsAStreamAtOnceWithTheContextsError(t *testing.T) {
	each(t, func(t *testing.T, f fakellm.Format) {
		s := fakellm.New(t, f, key, fakellm.Script(fakellm.Reply{Texts: []string{"half "}, Hang: true}))
		ctx, cancel := context.WithCancel(context.Background())
		defer cancel()
		m := model(t, s)
		_, err := m.Stream(ctx, request, func(e llm.Event) error {
			if e.Kind == llm.EventText {
				cancel()
			}
			return nil
		})
		if !errors.Is(err, context.Canceled) {
			t.Error(err)
		}
		var e *llm.Error
		if got := ask(ctx, m, request); !errors.Is(got.err, context.Canceled) || errors.As(got.err, &e) {
			t.Errorf("%+v", got)
		}
	})
}

func TestAnErrorOfTheListenerEndsTheStream(t *testing.T) {
	enough := errors.New("enough")
	each(t, func(t *testing.T, f fakellm.Format) {
		s := fakellm.New(t, f, key, fakellm.Script(fakellm.Reply{Texts: []string{"one", "two"}, Calls: []fakellm.Call{{"a", "{}"}}}))
		n := 0
		_, err := model(t, s).Stream(context.Background(), request, func(e llm.Event) error {
			if e.Kind == llm.EventText {
				n++
				return enough
			}
			return nil
		})
		if !errors.Is(err, enough) || n != 1 {
			t.Error(err, n)
		}
	})
}

func TestASilentServerIsGivenUp(t *testing.T) {
	each(t, func(t *testing.T, f fakellm.Format) {
		s := fakellm.New(t, f, "", fakellm.Script(fakellm.Reply{Texts: []string{"half "}, Hang: true}))
		c := wire.NewClient(50 * time.Millisecond)
		defer c.CloseIdleConnections()
		at := wire.Endpoint{Provider: "slow", BaseURL: s.URL, Client: c}
		var m llm.Model
		m, err := openai.New(at, openai.Known("slow", "x"))
		if f == fakellm.Anthropic {
			m, err = anthropic.New(at, anthropic.Known("slow", "x"))
		}
		if err != nil {
			t.Fatal(err)
		}
		var e *llm.Error
		if got := ask(context.Background(), m, request); !errors.As(got.err, &e) || !strings.Contains(e.Message, "nothing came") || e.Temporary {
			t.Errorf("%+v", got)
		}
	})
}

func TestKeysDoNotFollowToAnotherHost(t *testing.T) {
	each(t, func(t *testing.T, f fakellm.Format) {
		s := fakellm.New(t, f, key, fakellm.Script(fakellm.Reply{}))
		m := redirecting(t, f, s.URL)
		var e *llm.Error
		got := ask(context.Background(), m, request)
		if !errors.As(got.err, &e) || len(s.Requests()) != 0 {
			t.Errorf("%+v, %d requests", got, len(s.Requests()))
		}
	})
}

func TestTheWholeConversationIsWritten(t *testing.T) {
	png := llm.Attachment{Kind: "image", MimeType: "image/PNG", Data: "iVBORw=="}
	conversation := []llm.Message{
		{Role: llm.RoleUser, Parts: []llm.Part{{Text: "look"}, {Attachment: &png},
			{Attachment: &llm.Attachment{Kind: "resource", URI: "file:///a.go", MimeType: "text/x-go", Text: "package a"}},
			{Attachment: &llm.Attachment{Kind: "link", URI: "file:///b.go", Name: "b.go"}},
			{Attachment: &llm.Attachment{Kind: "resource", URI: "file:///c.pdf", MimeType: "application/pdf", Data: "JVBERi0="}},
			{Attachment: &llm.Attachment{Kind: "resource", URI: "file:///d.bin", Data: "AAECAw=="}}}},
		{Role: llm.RoleAssistant, By: "BY", Parts: []llm.Part{{Thought: "hm", Signature: "SIG"}, {Signature: "REDACTED"}, {Text: "I look."},
			{Call: &llm.ToolCall{ID: "call_1_1", Name: "read_file", Args: json.RawMessage(`{ "path": "<x>" }`)}},
			{Call: &llm.ToolCall{ID: "call_1_2", Name: "read_file", Args: json.RawMessage(`"no object"`)}}}},
		{Role: llm.RoleTool, Parts: []llm.Part{{Result: &llm.ToolResult{CallID: "call_1_1", Name: "read_file", Text: "", Images: []llm.Attachment{png}}},
			{Result: &llm.ToolResult{CallID: "call_1_2", Name: "read_file", Text: " ", Failed: true}}}},
		{Role: llm.RoleAssistant, By: "other/model", Parts: []llm.Part{{Thought: "of another", Signature: "theirs"}}}, // nothing that could be said
		prompt("and now?"),
	}
	each(t, func(t *testing.T, f fakellm.Format) {
		s := fakellm.New(t, f, key, fakellm.Script(fakellm.Reply{Texts: []string{"ok"}}))
		m := model(t, s)
		req := request
		req.Session = "s1"
		var b strings.Builder
		enc := json.NewEncoder(&b)
		enc.SetEscapeHTML(false)
		if err := enc.Encode(conversation); err != nil {
			t.Fatal(err)
		}
		sig, red := "c2ln", "redacted:ZGF0YQ=="
		if f == fakellm.OpenAI {
			sig, red = `{"field":"reasoning_content"}`, `{"details":[{"type":"reasoning.encrypted","data":"x"}]}`
		}
		q := func(s string) string { b, _ := json.Marshal(s); return strings.Trim(string(b), `"`) }
		text := []byte(strings.NewReplacer("SIG", q(sig), "REDACTED", q(red), "BY", m.Info().ID()).Replace(b.String()))
		if err := json.Unmarshal(text, &req.Messages); err != nil {
			t.Fatal(err)
		}
		if got := ask(context.Background(), m, req); got.err != nil {
			t.Fatal(got.err)
		}
		body := string(s.Requests()[0].Body)
		for _, want := range map[fakellm.Format][]string{
			fakellm.Anthropic: {
				`{"type":"image","source":{"type":"base64","media_type":"image/png","data":"iVBORw=="}}`,
				`{"type":"document","source":{"type":"base64","media_type":"application/pdf","data":"JVBERi0="}}`,
				`{"type":"thinking","thinking":"hm","signature":"c2ln"},{"type":"redacted_thinking","data":"ZGF0YQ=="},{"type":"text","text":"I look."}`,
				`"input":{"path":"<x>"}`, `"input":{"arguments":"no object"}`,
				`{"type":"tool_result","tool_use_id":"call_1_1","content":[{"type":"image"`,
				`"content":[{"type":"text","text":"(no output)"}],"is_error":true`,
				`"thinking":{"type":"adaptive","display":"summarized"}`,
			},
			fakellm.OpenAI: {
				`{"type":"image_url","image_url":{"url":"data:image/png;base64,iVBORw=="}}`,
				`"content":"I look.","reasoning_details":[{"data":"x","type":"reasoning.encrypted"}],"tool_calls":[{"id":"call_1_1","type":"function"`,
				`"arguments":"{\"path\":\"<x>\"}"`, `"arguments":"{\"arguments\":\"no object\"}"`,
				`{"role":"tool","tool_call_id":"call_1_1","content":"(no output)"}`,
				`{"role":"user","content":[{"type":"image_url"`, `"prompt_cache_key":"s1"`,
			},
		}[f] {
			if !strings.Contains(body, want) {
				t.Errorf("no %s in\n%s", want, body)
			}
		}
		for _, want := range []string{`file:///a.go`, `package a`, `b.go`, `4 bytes that are no text`, `Reads <a> file`} {
			if !strings.Contains(body, want) {
				t.Errorf("no %s in\n%s", want, body)
			}
		}
		if strings.Contains(body, "of another") || strings.Contains(body, "theirs") {
			t.Error("a thought of another provider is told")
		}
	})
}

func TestEffortIsAskedForInTheWordsOfTheModel(t *testing.T) {
	for _, c := range []struct {
		f            fakellm.Format
		name, effort string
		want, not    string
	}{
		{fakellm.Anthropic, "claude-sonnet-5-5", "", `"thinking":{"type":"adaptive"`, "effort"},
		{fakellm.Anthropic, "claude-sonnet-5-5", "none", `"messages"`, "thinking"},
		{fakellm.Anthropic, "claude-sonnet-5-5", "high", `"thinking":{"type":"adaptive","display":"summarized"},"output_config":{"effort":"high"}`, "budget"},
		{fakellm.Anthropic, "claude-sonnet-4-5", "", `"messages"`, "thinking"},
		{fakellm.Anthropic, "claude-sonnet-4-5", "low", `"thinking":{"type":"enabled","budget_tokens":4096}`, "effort"},
		{fakellm.Anthropic, "claude-sonnet-4-5", "none", `"messages"`, "thinking"},
		{fakellm.Anthropic, "claude-3-5-haiku-latest", "", `"max_tokens":8192`, "thinking"},
		{fakellm.OpenAI, "gpt-5.5", "", `"messages"`, "effort"},
		{fakellm.OpenAI, "gpt-5.5", "xhigh", `"reasoning_effort":"xhigh"`, "thinking"},
	} {
		t.Run(c.name+" "+c.effort, func(t *testing.T) {
			s := fakellm.New(t, c.f, "", fakellm.Script(fakellm.Reply{}))
			at := wire.Endpoint{Provider: string(c.f), BaseURL: s.URL + "/v1/", Client: client(t)}
			var m llm.Model
			m, err := openai.New(at, openai.Known(at.Provider, c.name))
			if c.f == fakellm.Anthropic {
				m, err = anthropic.New(at, anthropic.Known(at.Provider, c.name))
			}
			if err != nil {
				t.Fatal(err)
			}
			req := request
			req.Effort = c.effort
			if got := ask(context.Background(), m, req); got.err != nil {
				t.Fatal(got.err)
			}
			body := string(s.Requests()[0].Body)
			if !strings.Contains(body, c.want) || strings.Contains(body, c.not) {
				t.Error(body)
			}
		})
	}
}

func TestAServerSaysWhichModelsItHas(t *testing.T) {
	t.Run("anthropic", func(t *testing.T) {
		s := fakellm.New(t, fakellm.Anthropic, key, nil)
		s.SetModels(0, `{"id":"claude-new","display_name":"Claude New","max_input_tokens":1000000,"max_tokens":128000,"lifecycle":"active","type":"model",`+
			`"capabilities":{"effort":{"supported":true,"low":{"supported":true},"high":{"supported":true},"max":{"supported":false}},"thinking":{"supported":true,"types":{"adaptive":{"supported":true}}}}}`,
			`{"id":"claude-gone","lifecycle":"retired"}`, "claude-sonnet-4-5")
		all, err := anthropic.List(context.Background(), wire.Endpoint{Provider: "anthropic", BaseURL: s.URL, Key: credentials.NewSecret(key), Client: client(t)})
		if err != nil || len(all) != 2 {
			t.Fatal(all, err)
		}
		if want := (llm.Info{Provider: "anthropic", Name: "claude-new", Title: "Claude New", Window: 1_000_000, MaxOutput: 64_000, Thinking: "adaptive", Efforts: []string{"none", "low", "high"}}); !reflect.DeepEqual(all[0], want) {
			t.Errorf("%+v", all[0])
		}
		if all[1].Thinking != "budget" || all[1].Window != 200_000 {
			t.Errorf("%+v", all[1])
		}
		_, err = anthropic.List(context.Background(), wire.Endpoint{Provider: "anthropic", BaseURL: s.URL, Client: client(t)})
		var e *llm.Error
		if !errors.As(err, &e) || !e.AuthNeeded {
			t.Error(err)
		}
	})
	t.Run("openai", func(t *testing.T) {
		s := fakellm.New(t, fakellm.OpenAI, key, nil)
		s.SetModels(0, "text-embedding-3-large", "gpt-5.5", `{"id":"a/b","name":"A: B","context_length":131072,"supported_parameters":["tools","reasoning"],"pricing":{"prompt":"0.000003","completion":"0.000015","input_cache_read":"0.0000003"}}`,
			`{"id":"a/c","supported_parameters":["temperature"]}`, `{"id":"qwen","max_model_len":32768}`)
		all, err := openai.List(context.Background(), wire.Endpoint{Provider: "openrouter", BaseURL: s.URL + "/v1", Key: credentials.NewSecret(key), Client: client(t)})
		if err != nil || len(all) != 3 {
			t.Fatal(all, err)
		}
		if i := all[0]; i.Name != "a/b" || i.Title != "A: B" || i.Window != 131072 || len(i.Efforts) != 3 || i.Price == nil || i.Price.Input < 2.99 || i.Price.Input > 3.01 || i.ID() != "openrouter/a/b" {
			t.Errorf("%+v", i)
		}
		if all[2].Window != 32768 {
			t.Errorf("%+v", all[2])
		}
		_, err = openai.List(context.Background(), wire.Endpoint{Provider: "openrouter", BaseURL: s.URL + "/v1", Client: client(t)})
		var e *llm.Error
		if !errors.As(err, &e) || !e.AuthNeeded || e.Provider != "openrouter" {
			t.Error(err)
		}
	})
}
