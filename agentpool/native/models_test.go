package native

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/hermesd/hermesd/agentpool/native/llm"
	"github.com/hermesd/hermesd/agentpool/native/llm/catalog"
	"github.com/hermesd/hermesd/agentpool/native/llm/credentials"
	"github.com/hermesd/hermesd/agentpool/native/llm/fakellm"
	"github.com/hermesd/hermesd/daemon/session"
	"pgregory.net/rapid"
)

const fakeKey = "sk-fake-key"

func eachFormat(t *testing.T, do func(t *testing.T, f fakellm.Format)) {
	for _, f := range []fakellm.Format{fakellm.Anthropic, fakellm.OpenAI} {
		t.Run(string(f), func(t *testing.T) { do(t, f) })
	}
}

// provider is the configuration of an agent at a fake server.
func provider(t testing.TB, s *fakellm.Server) Config {
	cfg := Config{Provider: string(s.Format), BaseURL: s.URL, Model: "claude-sonnet-5-5", ApprovalMode: "session", Window: 100_000,
		Credentials: credentials.Source{Env: func(name string) string {
			if name == credentials.Variable(string(s.Format)) {
				return fakeKey
			}
			return ""
		}}}
	if s.Format == fakellm.OpenAI {
		cfg.Model = "gpt-5.5"
	}
	cfg.Catalog = catalog.New(cfg.CatalogConfig())
	t.Cleanup(cfg.Catalog.Close)
	return cfg
}

// grows checks that each request begins with the bytes of the one before,
// which ends in "]}" where the messages end.
func grows(before, after []byte) error {
	want := bytes.TrimSuffix(before, []byte("]}"))
	if len(want) == len(before) {
		return fmt.Errorf("a request ends strangely: %s", before[max(0, len(before)-100):])
	}
	if bytes.HasPrefix(after, want) {
		return nil
	}
	n := 0
	for n < len(after) && n < len(want) && after[n] == want[n] {
		n++
	}
	return fmt.Errorf("a request leaves the one before at byte %d of %d:\n%s\nwas\n%s", n, len(want), after[max(0, n-200):min(len(after), n+200)], want[max(0, n-200):min(len(want), n+200)])
}

func TestASessionOfTwentyTurnsWithTools(t *testing.T) {
	eachFormat(t, func(t *testing.T, f fakellm.Format) {
		const turns = 20
		s := fakellm.New(t, f, fakeKey, func(n int, _ []byte) fakellm.Reply {
			turn := n / 3
			switch n % 3 {
			case 0:
				return fakellm.Reply{Thoughts: []string{"I write ", "first."}, Texts: []string{"Writing."}, Calls: []fakellm.Call{
					{Name: "write_file", Args: fmt.Sprintf(`{"path": "f%d", "content": "turn %d <é>\n"}`, turn, turn)},
					{Name: "read_file", Args: fmt.Sprintf(`{"path":"f%d"}`, turn)}}}
			case 1:
				return fakellm.Reply{Calls: []fakellm.Call{{Name: "patch", Args: fmt.Sprintf(`{"path":"f%d","old":"turn","new":"Turn"}`, turn)}, {Name: "no_such_tool", Args: `{}`}}}
			}
			return fakellm.Reply{Texts: []string{"Done with ", fmt.Sprint(turn), "."}}
		})
		cfg := provider(t, s)
		cfg.Prices = map[string]llm.Price{cfg.Model: {Input: 3, Output: 15, CacheRead: 0.3}}
		cfg.Catalog = catalog.New(cfg.CatalogConfig())
		t.Cleanup(cfg.Catalog.Close)
		w := newWorld(t, cfg)
		var last session.TurnResult
		for turn := range turns {
			r, err := w.run(context.Background(), textBlock(fmt.Sprintf("turn %d", turn)))
			if err != nil || r.StopReason != "end_turn" {
				t.Fatal(turn, r, err)
			}
			last = r
			if data, err := os.ReadFile(filepath.Join(w.dir, fmt.Sprintf("f%d", turn))); err != nil || string(data) != fmt.Sprintf("Turn %d <é>\n", turn) {
				t.Fatalf("turn %d: %q, %v", turn, data, err)
			}
			if turn%7 == 6 { // a restart
				live := shape(w.agent.history.messages)
				w.agent.Close()
				w.open(false, session.Settings{})
				if got := shape(w.agent.history.messages); got != live {
					t.Fatalf("%s\nwas %s", got, live)
				}
			}
		}
		requests := s.Requests()
		if len(requests) != 3*turns {
			t.Fatalf("%d requests", len(requests))
		}
		for i := 1; i < len(requests); i++ {
			if err := grows(requests[i-1].Body, requests[i].Body); err != nil {
				t.Fatal(i, err)
			}
		}
		var u map[string]int
		if err := json.Unmarshal(last.Usage, &u); err != nil {
			t.Fatal(err)
		}
		if u["cachedReadTokens"] < 8*u["inputTokens"] || u["outputTokens"] == 0 || u["thoughtTokens"] == 0 || u["totalTokens"] != u["inputTokens"]+u["outputTokens"]+u["cachedReadTokens"] {
			t.Errorf("most of the input should have been cached: %v", u)
		}
		updates := w.updates("usage_update")
		cost, _ := updates[len(updates)-1]["cost"].(map[string]any)
		want := (float64(u["inputTokens"])*3 + float64(u["outputTokens"])*15 + float64(u["cachedReadTokens"])*0.3) / 1e6
		if got, _ := cost["amount"].(float64); got < want*0.999 || got > want*1.001 || cost["currency"] != "USD" || updates[len(updates)-1]["size"] != 100_000.0 {
			t.Errorf("%v, want %v", updates[len(updates)-1], want)
		}
		if len(updates) != 3*turns {
			t.Errorf("usage was told %d times", len(updates))
		}
		if f == fakellm.Anthropic && strings.Count(string(requests[len(requests)-1].Body), `"type":"thinking","thinking":"I write first.","signature":`) != turns {
			t.Error("thoughts are not told back")
		}
	})
}

// Whatever happens in a session, a request begins with the bytes of the one
// before: only a prompt that failed before the model said anything is taken
// back, and a change of model or effort begins anew.
func TestEveryRequestBeginsWithTheBytesOfTheOneBefore(t *testing.T) {
	eachFormat(t, func(t *testing.T, f fakellm.Format) {
		rapid.Check(t, func(rt *rapid.T) {
			var next []fakellm.Reply
			s := fakellm.New(t, f, fakeKey, func(int, []byte) fakellm.Reply {
				if len(next) == 0 {
					return fakellm.Reply{Texts: []string{"done"}}
				}
				r := next[0]
				next = next[1:]
				return r
			})
			w := newWorld(t, provider(t, s))
			defer w.agent.Close()
			settings := session.Settings{}
			var before []byte
			seen := 0
			for range rapid.IntRange(2, 8).Draw(rt, "steps") {
				switch rapid.IntRange(0, 9).Draw(rt, "step") {
				case 0:
					w.agent.Close()
					settings = w.open(false, settings)
					continue
				case 1:
					var err error
					if settings, err = w.agent.Set(context.Background(), session.Change{Mode: rapid.SampledFrom([]string{"default", "accept_edits", "plan", "dont_ask"}).Draw(rt, "mode")}); err != nil {
						rt.Fatal(err)
					}
					continue
				case 2:
					effort := rapid.SampledFrom([]string{"default", "low", "high"}).Draw(rt, "effort")
					var err error
					if settings, err = w.agent.Set(context.Background(), session.Change{Option: optionEffort, Value: encode(effort)}); err != nil {
						rt.Fatal(err)
					}
					before = nil
					continue
				case 3:
					w.prompt("/tools")
					continue
				}
				w.answer = choose(rapid.SampledFrom([]string{allowOnce, allowAlways, rejectOnce}).Draw(rt, "answer"))
				next = rapid.SliceOfN(replies(f), 1, 4).Draw(rt, "replies")
				ctx, cancel := context.WithCancel(context.Background())
				done := make(chan struct{})
				go func() {
					select {
					case <-s.Hung():
						cancel()
					case <-done:
					}
				}()
				_, _ = w.run(ctx, prompts().Draw(rt, "prompt")...)
				close(done)
				cancel()
				requests := s.Requests()[seen:]
				seen += len(requests)
				for i, r := range requests {
					if before != nil {
						if err := grows(before, r.Body); err != nil {
							rt.Fatal(err)
						}
					}
					// A prompt that failed at once is taken back.
					if messages := w.agent.history.messages; i == len(requests)-1 && (len(messages) == 0 || !told(r.Body, messages)) {
						break
					}
					before = r.Body
				}
			}
		})
	})
}

// told says whether the last prompt of a request is still in the history.
func told(body []byte, messages []llm.Message) bool {
	users := 0
	for _, m := range messages {
		if m.Role == llm.RoleUser {
			users++
		}
	}
	return bytes.Count(body, []byte("PROMPT")) == users
}

// prompts makes the blocks of a prompt; one of them says PROMPT.
func prompts() *rapid.Generator[[]string] {
	return rapid.Custom(func(t *rapid.T) []string {
		blocks := []string{textBlock("PROMPT " + rapid.StringN(0, 20, -1).Draw(t, "text"))}
		return append(blocks, rapid.SliceOfN(rapid.SampledFrom([]string{
			`{"type":"image","mimeType":"image/png","data":"iVBORw=="}`,
			`{"type":"resource","resource":{"uri":"file:///a b","text":"<&>\u2028 \"x\""}}`,
			`{"type":"resource","resource":{"uri":"file:///p","mimeType":"application/pdf","blob":"JVBERi0="}}`,
			`{"type":"resource_link","name":"l","uri":"file:///l"}`,
		}), 0, 2).Draw(t, "attached")...)
	})
}

// replies makes what a model may do. A cancel follows on what hangs.
func replies(f fakellm.Format) *rapid.Generator[fakellm.Reply] {
	calls := rapid.SampledFrom([]fakellm.Call{
		{Name: "write_file", Args: `{ "path" : "a", "content": "1\u0000é<&>" }`}, {Name: "read_file", Args: `{"path":"a"}`}, {Name: "read_file", Args: `{"path":`},
		{Name: "read_file", Args: ``}, {Name: "search_files", Args: `"text"`}, {Name: "nothing", Args: `[1, 2]`}, {Name: "todo", Args: `{"items":[{"content":"x","status":"pending"}]}`},
	})
	return rapid.Custom(func(t *rapid.T) fakellm.Reply {
		var r fakellm.Reply
		if rapid.Bool().Draw(t, "thinks") {
			r.Thoughts = rapid.SliceOfN(rapid.SampledFrom([]string{"hm ", "\n", "é\u2028"}), 1, 3).Draw(t, "thoughts")
		}
		if f == fakellm.Anthropic && rapid.IntRange(0, 4).Draw(t, "redacted") == 0 {
			r.Redacted = "ZGF0YQ=="
		}
		r.Texts = rapid.SliceOfN(rapid.SampledFrom([]string{"text ", "\n", " ", "\x00\"<\\"}), 0, 3).Draw(t, "texts")
		r.Calls = rapid.SliceOfN(calls, 0, 3).Draw(t, "calls")
		switch rapid.IntRange(0, 12).Draw(t, "trouble") {
		case 0:
			r.Hang = true
		case 1:
			r = fakellm.Reply{Status: 400, Type: "invalid_request_error", Message: "no"}
		case 2:
			r.Texts, r.Cut = append(r.Texts, "half"), true // what was shown is not asked for again
		case 3:
			r.Stop, r.CutCall = map[fakellm.Format]string{fakellm.Anthropic: "max_tokens", fakellm.OpenAI: "length"}[f], len(r.Calls) > 0
		case 4:
			r.Stop = map[fakellm.Format]string{fakellm.Anthropic: "refusal", fakellm.OpenAI: "content_filter"}[f]
		}
		return r
	})
}

func TestAFailureNamesProviderStatusAndAdviceAndOnlyCredentialsAreAuth(t *testing.T) {
	eachFormat(t, func(t *testing.T, f fakellm.Format) {
		for name, c := range map[string]struct {
			reply fakellm.Reply
			code  int
			want  string
		}{
			"refused key": {fakellm.Reply{Status: 401, Type: "authentication_error", Message: "invalid key"}, session.CodeAuthRequired, "(401): invalid key. The key was refused. "},
			"too many":    {fakellm.Reply{Status: 429, Type: "rate_limit_error", Message: "slow down", RetryAfter: "3600"}, session.CodeInternal, "(429): slow down. Too many requests"},
			"bad request": {fakellm.Reply{Status: 400, Type: "invalid_request_error", Message: "no"}, session.CodeInternal, "(400): no. The request was not accepted"},
			"cut":         {fakellm.Reply{Texts: []string{"half"}, Cut: true}, session.CodeInternal, "cut in the middle"},
		} {
			t.Run(name, func(t *testing.T) {
				s := fakellm.New(t, f, "", fakellm.Script(c.reply))
				w := newWorld(t, provider(t, s))
				_, err := w.run(context.Background(), textBlock("hello"))
				var e *session.Error
				if !errors.As(err, &e) || e.Code != c.code || !strings.Contains(e.Message, c.want) || !strings.HasPrefix(e.Message, "the model call to 127.0.0.1:") || strings.Contains(e.Message, fakeKey) {
					t.Fatalf("%v", err)
				}
				var data struct {
					Provider, Model, Message, Advice string
					Status                           int
					RetryAfter                       float64
				}
				if err := json.Unmarshal(e.Data, &data); err != nil || data.Provider == "" || data.Model == "" || data.Advice == "" || data.Status != c.reply.Status || c.reply.RetryAfter != "" && data.RetryAfter != 3600 {
					t.Errorf("%s %v", e.Data, err)
				}
			})
		}
	})
	for _, cfg := range []Config{
		{Provider: "anthropic", Credentials: credentials.Source{Env: func(string) string { return "" }}},
		{Provider: "openai"},
	} {
		_, _, err := Open(context.Background(), session.Spec{Meta: session.Meta{ID: "s", Cwd: t.TempDir()}, Fresh: true}, newHost(t), cfg)
		var e *session.Error
		if !errors.As(err, &e) || e.Code != session.CodeAuthRequired || !strings.Contains(e.Message, cfg.Provider) || !strings.Contains(e.Message, credentials.Variable(cfg.Provider)) {
			t.Errorf("%v", err)
		}
	}
}

func TestAnOverloadedProviderIsAskedAgain(t *testing.T) {
	eachFormat(t, func(t *testing.T, f fakellm.Format) {
		s := fakellm.New(t, f, "", fakellm.Script(fakellm.Reply{Status: 529, Type: "overloaded_error", Message: "Overloaded", RetryAfter: "0.01"}, fakellm.Reply{Texts: []string{"hello"}}))
		w := newWorld(t, provider(t, s))
		w.prompt("hello")
		if w.said() != "hello" || len(s.Requests()) != 2 {
			t.Error(w.said(), len(s.Requests()))
		}
	})
}

func TestAModelAndAnEffortThatAreSetInATurnCountFromTheNextOneAndItIsSaid(t *testing.T) {
	eachFormat(t, func(t *testing.T, f fakellm.Format) {
		write := fakellm.Reply{Calls: []fakellm.Call{{Name: "write_file", Args: `{"path":"a","content":"1"}`}}}
		s := fakellm.New(t, f, fakeKey, fakellm.Script(write, fakellm.Reply{Texts: []string{"ok"}}, fakellm.Reply{Texts: []string{"ok"}}))
		first, second := "claude-sonnet-5-5", "claude-opus-5-5"
		if f == fakellm.OpenAI {
			first, second = "gpt-5.5", "gpt-6-sol"
		}
		s.SetModels(0, first, second)
		cfg := provider(t, s)
		cfg.ApprovalMode = "ask"
		w := newWorld(t, cfg)
		host := strings.TrimPrefix(s.URL, "http://")
		var now session.Settings
		w.answer = func(ctx context.Context, q session.Question) (session.Answer, error) {
			for option, value := range map[string]string{optionModel: host + "/" + second, optionEffort: "high"} {
				var err error
				if now, err = w.agent.Set(ctx, session.Change{Option: option, Value: encode(value)}); err != nil {
					t.Error(err)
				}
			}
			return choose(allowOnce)(ctx, q)
		}
		w.prompt("write")
		w.agent.work.Wait() // the notices are out
		said := w.said()
		for _, want := range []string{"From the next turn on the model is " + second, "From the next turn on the reasoning effort is high"} {
			if !strings.Contains(said, want) {
				t.Errorf("said %q", said)
			}
		}
		w.prompt("again")
		requests := s.Requests()
		for i, want := range []string{first, first, second} {
			body := string(requests[i].Body)
			if !strings.Contains(body, fmt.Sprintf(`"model":%q`, want)) || strings.Contains(body, `effort":"high"`) != (i == 2) || strings.Contains(body, "From the next turn") {
				t.Errorf("request %d: %.300s", i, body)
			}
		}
		var options []configOption
		if err := json.Unmarshal(now.Options, &options); err != nil {
			t.Fatal(err)
		}
		if len(options) != 3 || options[1].Current != host+"/"+second || len(options[1].Options) != 2 || options[2].Category != "thought_level" || options[2].Current != "high" {
			t.Errorf("%s", now.Options)
		}
		// What was chosen is there again when the session is opened again, and
		// the configuration counts for new sessions only.
		w.agent.Close()
		if got := w.open(false, now); string(got.Options) != string(now.Options) {
			t.Errorf("%s, was %s", got.Options, now.Options)
		}
		// No turn runs: nothing is said.
		before := w.said()
		if _, err := w.agent.Set(context.Background(), session.Change{Option: optionModel, Value: encode(host + "/" + first)}); err != nil {
			t.Error(err)
		}
		w.agent.work.Wait()
		if w.said() != before {
			t.Error("a change between turns is told in the session")
		}
		for _, bad := range []session.Change{{Option: optionModel, Value: encode(host + "/no-such")}, {Option: optionModel, Value: encode("anthropic/" + first)}, {Option: optionEffort, Value: encode("huge")}} {
			var e *session.Error
			if _, err := w.agent.Set(context.Background(), bad); !errors.As(err, &e) || e.Code != session.CodeParams {
				t.Errorf("%s: %v", bad.Value, err)
			}
		}
	})
}

func TestASessionKeepsItsProviderWhenTheConfigurationHasAnother(t *testing.T) {
	local := fakellm.New(t, fakellm.OpenAI, "", fakellm.Script(fakellm.Reply{Texts: []string{"local"}}))
	cloud := fakellm.New(t, fakellm.Anthropic, "", fakellm.Script(fakellm.Reply{Texts: []string{"cloud"}}))
	w := newWorld(t, provider(t, local))
	w.agent.Close()
	settings := w.open(true, session.Settings{})
	w.prompt("for the local one")
	w.agent.Close()

	w.cfg = provider(t, cloud)
	now := w.open(false, settings)
	_, err := w.run(context.Background(), textBlock("also for the local one"))
	var e *session.Error
	if !errors.As(err, &e) || e.Code != session.CodeInternal || !strings.Contains(e.Message, "the prompt was sent to no other") || len(cloud.Requests()) != 0 {
		t.Errorf("%v, %d requests", err, len(cloud.Requests()))
	}
	host := strings.TrimPrefix(cloud.URL, "http://")
	if saved(now, optionModel) != saved(settings, optionModel) {
		t.Error("the model changed in silence")
	}
	if _, err := w.agent.Set(context.Background(), session.Change{Option: optionModel, Value: encode(host + "/claude-sonnet-5-5")}); err != nil {
		t.Fatal(err)
	}
	w.prompt("now for the cloud")
	if body := string(cloud.Requests()[0].Body); !strings.Contains(body, "for the local one") {
		t.Error("the history is lost")
	}
}

func TestAForkHasItsOwnPrefixAndPaysForItself(t *testing.T) {
	s := fakellm.New(t, fakellm.Anthropic, "", fakellm.Script(fakellm.Reply{Texts: []string{"ok"}}))
	cfg := provider(t, s)
	w := newWorld(t, cfg)
	w.prompt("one")
	w.agent.Close()
	fork := newHost(t)
	fork.log = append(fork.log, w.log...)
	a, _, err := Open(context.Background(), session.Spec{Meta: session.Meta{ID: "fork", Cwd: t.TempDir(), Title: "x"}}, fork, cfg)
	if err != nil {
		t.Fatal(err)
	}
	defer a.Close()
	if a.prefix != nil || a.meter.counted || len(a.history.messages) != 2 {
		t.Errorf("%+v %+v, %d messages", a.prefix, a.meter, len(a.history.messages))
	}
}

func TestCommandsOfTheAgentGetNoKeys(t *testing.T) {
	t.Setenv("ANTHROPIC_API_KEY", fakeKey)
	w := newWorld(t, Config{})
	for _, kv := range w.agent.findEnviron(t.Context()) {
		if strings.Contains(kv, fakeKey) {
			t.Error(kv)
		}
	}
	if len(w.agent.findEnviron(t.Context())) == 0 {
		t.Error("commands have no environment")
	}
}
