package native

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"strings"
	"testing"

	"github.com/hermesd/hermesd/agentpool/native/llm"
	"github.com/hermesd/hermesd/agentpool/native/llm/catalog"
	"github.com/hermesd/hermesd/agentpool/native/llm/credentials"
	"github.com/hermesd/hermesd/agentpool/native/llm/fakellm"
	"github.com/hermesd/hermesd/daemon/session"
)

type environment map[string]string

func (e environment) get(name string) string { return e[name] }

// keyFile is a file of credentials with these keys.
func keyFile(t *testing.T, keys map[string]string) *credentials.File {
	t.Helper()
	f := &credentials.File{Path: filepath.Join(t.TempDir(), credentials.FileName)}
	for provider, key := range keys {
		if err := f.Save(credentials.Credential{Provider: provider, Key: credentials.NewSecret(key)}); err != nil {
			t.Fatal(err)
		}
	}
	return f
}

// answered is the code of an error, 0 for none, and its text.
func answered(err error) (int, string) {
	var e *session.Error
	if errors.As(err, &e) {
		return e.Code, e.Message
	}
	if err != nil {
		return -1, err.Error()
	}
	return 0, ""
}

func TestTheWaysToLogInAreThoseThereAre(t *testing.T) {
	lab := []catalog.Server{{Name: "lab", BaseURL: "http://127.0.0.1:1"}}
	for name, c := range map[string]struct {
		cfg    Config
		env    environment
		keys   map[string]string
		want   string // ids, * for terminal ones
		logout bool
	}{
		"nothing":             {Config{}, nil, nil, "hermesd-login hermesd-login-terminal*", false},
		"environment":         {Config{}, environment{"OPENAI_API_KEY": "k", "ANTHROPIC_API_KEY": "k"}, nil, "anthropic openai hermesd-login-terminal*", false},
		"logged in":           {Config{}, nil, map[string]string{"nous": "k", "brave": "b"}, "nous hermesd-login-terminal*", true},
		"a search engine":     {Config{}, nil, map[string]string{"brave": "b"}, "hermesd-login hermesd-login-terminal*", false},
		"one provider":        {Config{Provider: "openai"}, environment{"ANTHROPIC_API_KEY": "k"}, map[string]string{"nous": "k"}, "hermesd-login hermesd-login-terminal*", false},
		"this provider":       {Config{Provider: "nous"}, environment{"ANTHROPIC_API_KEY": "k"}, map[string]string{"nous": "k"}, "nous hermesd-login-terminal*", true},
		"a server of ours":    {Config{Servers: lab}, nil, map[string]string{"lab": "k"}, "lab hermesd-login-terminal*", true},
		"no key for ours":     {Config{Provider: "lab", Servers: lab}, nil, nil, "hermesd-login hermesd-login-terminal*", false},
		"a server":            {Config{BaseURL: "http://lab:1/v1"}, environment{"OPENAI_API_KEY": "k"}, map[string]string{"lab:1": "k"}, "lab:1 hermesd-login-terminal*", true},
		"offline":             {Config{Provider: "offline"}, environment{"OPENAI_API_KEY": "k"}, map[string]string{"nous": "k"}, "", false},
		"ollama":              {Config{Provider: "ollama"}, nil, nil, "", false},
		"a model of a test's": {Config{LLM: llm.Offline{}}, nil, nil, "", false},
	} {
		t.Run(name, func(t *testing.T) {
			c.cfg.Credentials = credentials.Source{Env: c.env.get, File: keyFile(t, c.keys)}
			l := c.cfg.Login(t.Context())
			var ids []string
			for _, m := range l.Methods {
				if m.Name == "" || m.Description == "" || strings.Contains(fmt.Sprint(m), "k ") {
					t.Errorf("%+v", m)
				}
				if m.Terminal {
					m.ID += "*"
				}
				ids = append(ids, m.ID)
			}
			if got := strings.Join(ids, " "); got != c.want || l.Logout != c.logout {
				t.Errorf("%q, logout %v", got, l.Logout)
			}
		})
	}
}

func TestAuthenticateLooksWhetherThereIsAKey(t *testing.T) {
	for name, c := range map[string]struct {
		cfg    Config
		env    environment
		method string
		code   int
		text   string
	}{
		"a provider there is":     {Config{}, environment{"OPENAI_API_KEY": "k"}, "openai", 0, ""},
		"one there is not":        {Config{}, environment{"OPENAI_API_KEY": "k"}, "anthropic", session.CodeAuthRequired, "hermesd login anthropic"},
		"logged in":               {Config{}, environment{"OPENAI_API_KEY": "k"}, "hermesd-login", 0, ""},
		"in the terminal":         {Config{}, environment{"OPENAI_API_KEY": "k"}, "hermesd-login-terminal", 0, ""},
		"not logged in":           {Config{}, nil, "hermesd-login", session.CodeAuthRequired, "run `hermesd login`"},
		"unknown":                 {Config{}, environment{"OPENAI_API_KEY": "k"}, "nope", session.CodeParams, "was not offered"},
		"of another provider":     {Config{Provider: "openai"}, environment{"OPENAI_API_KEY": "k"}, "anthropic", session.CodeParams, "was not offered"},
		"nothing to log in to":    {Config{Provider: "offline"}, environment{"OPENAI_API_KEY": "k"}, "openai", session.CodeParams, "nothing to log in to"},
		"not this one's":          {Config{Provider: "anthropic"}, environment{"OPENAI_API_KEY": "k"}, "hermesd-login", session.CodeAuthRequired, "no key yet"},
		"a long id is not echoed": {Config{}, nil, strings.Repeat("x", 1000), session.CodeParams, "x…"},
	} {
		t.Run(name, func(t *testing.T) {
			c.cfg.Credentials.Env = c.env.get
			if code, text := answered(c.cfg.Authenticate(t.Context(), c.method)); code != c.code || !strings.Contains(text, c.text) || len(text) > 300 {
				t.Errorf("%d %s", code, text)
			}
		})
	}
	if code, text := answered(Config{Credentials: credentials.Source{File: &credentials.File{Path: t.TempDir()}}}.Authenticate(t.Context(), "hermesd-login")); code != session.CodeAuthRequired || text == "" {
		t.Errorf("a file that cannot be read: %d %s", code, text)
	}
}

// A key that was refused is not taken for a login, until there is another one.
func TestAKeyThatWasRefusedIsNoLogin(t *testing.T) {
	s := fakellm.New(t, fakellm.OpenAI, "good", fakellm.Script(fakellm.Reply{Texts: []string{"hello"}}))
	file := keyFile(t, map[string]string{"lab": "bad"})
	cfg := Config{Provider: "lab", Model: "m", Servers: []catalog.Server{{Name: "lab", BaseURL: s.URL}}, Credentials: credentials.Source{File: file}}
	cfg.Catalog = catalog.New(cfg.CatalogConfig())
	t.Cleanup(cfg.Catalog.Close)
	w := newWorld(t, cfg)
	refused := func(want string) {
		t.Helper()
		if _, err := w.run(context.Background(), textBlock("hello")); err == nil {
			t.Fatal("it answered")
		} else if code, text := answered(err); code != session.CodeAuthRequired || !strings.Contains(text, "hermesd login lab") || strings.Contains(text, "bad") {
			t.Errorf("%d %s", code, text)
		}
		for _, method := range []string{"lab", "hermesd-login"} {
			if code, text := answered(cfg.Authenticate(t.Context(), method)); code != session.CodeAuthRequired || !strings.Contains(text, want) {
				t.Errorf("%s: %d %s", method, code, text)
			}
		}
	}
	refused("lab: it did not take the key. Run `hermesd login lab`")
	if err := cfg.Logout(t.Context()); err != nil {
		t.Error(err)
	}
	refused("lab: it wants a key. Run `hermesd login lab`")
	if err := file.Save(credentials.Credential{Provider: "lab", Key: credentials.NewSecret("good")}); err != nil {
		t.Fatal(err)
	}
	if code, text := answered(cfg.Authenticate(t.Context(), "lab")); code != 0 { // not asked yet with this one
		t.Error(code, text)
	}
	w.prompt("hello")
	if w.said() != "hello" {
		t.Error(w.said())
	}
}

func TestLogoutForgetsWhatWasLoggedInWithAndNothingElse(t *testing.T) {
	file := keyFile(t, map[string]string{"openai": "k", "nous": "k", "brave": "b"})
	cfg := Config{Provider: "openai", Credentials: credentials.Source{Env: environment{"OPENAI_API_KEY": "k"}.get, File: file}}
	if err := cfg.Logout(t.Context()); err != nil {
		t.Fatal(err)
	}
	saved, err := file.Load()
	if _, gone := saved["openai"]; gone || err != nil || len(saved) != 2 {
		t.Errorf("%v, %v", saved, err)
	}
	if code, text := answered(cfg.Logout(t.Context())); code != session.CodeInvalid || !strings.Contains(text, "the key of openai is from the environment variable OPENAI_API_KEY") {
		t.Errorf("%d %s", code, text)
	}
	cfg.Provider = "auto"
	if err := cfg.Logout(t.Context()); err != nil {
		t.Fatal(err)
	}
	if saved, _ = file.Load(); len(saved) != 1 || saved["brave"].Key.Empty() {
		t.Errorf("%v", saved)
	}
	for _, cfg := range []Config{{Provider: "offline"}, {}} {
		if code, text := answered(cfg.Logout(t.Context())); code != session.CodeInvalid || !strings.Contains(text, "nothing to log out of") {
			t.Errorf("%d %s", code, text)
		}
	}
}

// A session remembers provider and model: with "auto" too its prompts go to
// nobody else when the provider is gone, and to it when it is back.
func TestASessionOfAutoWaitsForItsProvider(t *testing.T) {
	one := fakellm.New(t, fakellm.OpenAI, "", fakellm.Script(fakellm.Reply{Texts: []string{"one"}}))
	two := fakellm.New(t, fakellm.Anthropic, "", fakellm.Script(fakellm.Reply{Texts: []string{"two"}}))
	one.SetModels(0, "m")
	two.SetModels(0, "claude-x")
	servers := []catalog.Server{{Name: "one", BaseURL: one.URL}, {Name: "two", BaseURL: two.URL, Anthropic: true}}
	with := func(s ...catalog.Server) Config {
		cfg := Config{Provider: "auto", Servers: s, Local: true, Credentials: credentials.Source{Env: environment{"OLLAMA_HOST": "127.0.0.1:1"}.get}}
		cfg.Catalog = catalog.New(cfg.CatalogConfig())
		t.Cleanup(cfg.Catalog.Close)
		return cfg
	}
	w := newWorld(t, with(servers...))
	w.agent.Close()
	settings := w.open(true, session.Settings{})
	if saved(settings, optionModel) != "one/m" {
		t.Fatalf("%s", settings.Options)
	}
	w.prompt("for one")
	w.agent.Close()

	w.cfg = with(servers[1])
	if now := w.open(false, settings); saved(now, optionModel) != "one/m" {
		t.Errorf("the model changed in silence: %s", now.Options)
	}
	_, err := w.run(context.Background(), textBlock("also for one"))
	if code, text := answered(err); code != session.CodeInternal || !strings.Contains(text, "the prompt was sent to no other") || !strings.Contains(text, "Choose another model") {
		t.Errorf("%d %s", code, text)
	}
	if len(two.Requests()) != 0 {
		t.Error("the prompt went to another provider")
	}
	w.agent.Close()

	w.cfg = with(servers...)
	w.open(false, settings)
	w.prompt("for one again")
	if w.said() != "oneone" || len(two.Requests()) != 0 {
		t.Errorf("%q", w.said())
	}
}
