package catalog

import (
	"context"
	"errors"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/hermesd/hermesd/agentpool/native/llm"
	"github.com/hermesd/hermesd/agentpool/native/llm/credentials"
	"github.com/hermesd/hermesd/agentpool/native/llm/fakellm"
	"github.com/hermesd/hermesd/agentpool/native/llm/wire"
	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

type env map[string]string

func (e env) get(name string) string { return e[name] }

func open(t *testing.T, cfg Config) *Catalog {
	t.Helper()
	if err := cfg.Validate(); err != nil {
		t.Fatal(err)
	}
	c := New(cfg)
	t.Cleanup(c.Close)
	return c
}

func names(infos []llm.Info) string {
	var all []string
	for _, i := range infos {
		all = append(all, i.ID())
	}
	return strings.Join(all, " ")
}

func host(url string) string { return strings.TrimPrefix(url, "http://") }

// ollama is a server that says it is one.
func ollama(t *testing.T, models ...string) string {
	f := fakellm.New(t, fakellm.OpenAI, "", fakellm.Script(fakellm.Reply{Texts: []string{"local"}}))
	f.SetModels(0, models...)
	front := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/api/version" {
			w.Header().Set("Content-Type", "application/json; charset=utf-8")
			_, _ = w.Write([]byte(`{"version":"0.9"}`))
			return
		}
		http.Redirect(w, r, f.URL+r.URL.Path, http.StatusTemporaryRedirect)
	}))
	t.Cleanup(front.Close)
	return front.URL
}

func TestTheFirstProviderWithCredentialsIsTakenElseTheOfflineModel(t *testing.T) {
	s := fakellm.New(t, fakellm.OpenAI, "", nil)
	s.SetModels(0, "qwen", "llama")
	file := &credentials.File{Path: filepath.Join(t.TempDir(), credentials.FileName)}
	if err := file.Save(credentials.Credential{Provider: "nous", Key: credentials.NewSecret("n")}); err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]struct {
		cfg  Config
		env  env
		want string // or the beginning of the error
	}{
		"nothing":                     {Config{}, nil, "offline"},
		"offline":                     {Config{Provider: "offline"}, env{"ANTHROPIC_API_KEY": "k"}, "offline"},
		"auto, model offline":         {Config{Model: "offline"}, env{"ANTHROPIC_API_KEY": "k"}, "offline"},
		"anthropic":                   {Config{}, env{"ANTHROPIC_API_KEY": "k", "OPENAI_API_KEY": "k"}, "anthropic/claude-sonnet-5-5"},
		"openai":                      {Config{}, env{"OPENAI_API_KEY": "k", "NOUS_API_KEY": "k"}, "openai/gpt-6.1-sol"},
		"openrouter":                  {Config{}, env{"OPENROUTER_API_KEY": "k"}, "openrouter/openrouter/auto"},
		"file":                        {Config{Credentials: credentials.Source{File: file}}, nil, "nous/Hermes-4-405B"},
		"environment goes first":      {Config{Credentials: credentials.Source{File: file}}, env{"OPENAI_API_KEY": "k"}, "openai/gpt-6.1-sol"},
		"named":                       {Config{Provider: "openai", Model: "gpt-5.5"}, env{"ANTHROPIC_API_KEY": "k", "OPENAI_API_KEY": "k"}, "openai/gpt-5.5"},
		"named in the model":          {Config{Model: "openai/gpt-5.5"}, env{"ANTHROPIC_API_KEY": "k", "OPENAI_API_KEY": "k"}, "openai/gpt-5.5"},
		"named without a key":         {Config{Provider: "anthropic"}, env{"OPENAI_API_KEY": "k"}, "anthropic: there are no credentials"},
		"a model and no key":          {Config{Model: "claude"}, nil, "auto: there are no credentials"},
		"a server":                    {Config{BaseURL: s.URL}, env{"OPENAI_API_KEY": "k"}, host(s.URL) + "/llama"},
		"a server and a model":        {Config{BaseURL: s.URL, Model: "a/b"}, nil, host(s.URL) + "/a/b"},
		"base URL of the environment": {Config{}, env{"OPENAI_API_KEY": "k", "OPENAI_BASE_URL": s.URL + "/v1"}, host(s.URL) + "/llama"},
		"gateway":                     {Config{Provider: "anthropic", BaseURL: "http://gate:1", Model: "m"}, nil, "gate:1/m"},
		"the provider's own base URL": {Config{Provider: "openai", BaseURL: "https://api.openai.com/v1", Model: "m"}, env{"OPENAI_API_KEY": "k"}, "openai/m"},
	} {
		t.Run(name, func(t *testing.T) {
			c.cfg.Credentials.Env = c.env.get
			got, err := open(t, c.cfg).Default(context.Background())
			if err != nil {
				var e *llm.Error
				if !errors.As(err, &e) || e.Advice == "" || e.AuthNeeded != strings.Contains(c.want, "credentials") {
					t.Errorf("%#v", err)
				}
				got = err.Error()
			}
			if got != c.want && (err == nil || !strings.HasPrefix(got, c.want)) {
				t.Errorf("%q, want %q", got, c.want)
			}
		})
	}
}

func TestALocalOllamaIsFoundWhenItAnswersSoon(t *testing.T) {
	up := ollama(t, "llama3", "embed-text")
	c := open(t, Config{Local: true, Credentials: credentials.Source{Env: env{"OLLAMA_HOST": host(up)}.get}})
	all, err := c.Providers(context.Background())
	if err != nil || len(all) != 1 || all[0].Name != "ollama" || all[0].Source != "" {
		t.Fatal(all, err)
	}
	for name, address := range map[string]string{"closed": "127.0.0.1:1", "not one": host(fakellm.New(t, fakellm.OpenAI, "", nil).URL)} {
		c := open(t, Config{Local: true, Credentials: credentials.Source{Env: env{"OLLAMA_HOST": address}.get}})
		if id, err := c.Default(context.Background()); id != Offline || err != nil {
			t.Error(name, id, err)
		}
	}
	// It is not looked for when that is not wanted.
	c = open(t, Config{Credentials: credentials.Source{Env: env{"OLLAMA_HOST": host(up)}.get}})
	if id, err := c.Default(context.Background()); id != Offline || err != nil {
		t.Error(id, err)
	}
}

func TestWhereOllamaIs(t *testing.T) {
	for in, want := range map[string]string{
		"": "http://127.0.0.1:11434/v1", "0.0.0.0": "http://127.0.0.1:11434/v1", "box": "http://box:11434/v1", "[::]:99": "http://127.0.0.1:99/v1",
		"https://box:1/": "https://box:1/v1", ":5": "http://127.0.0.1:5/v1", "a b": "http://127.0.0.1:11434/v1",
	} {
		if got := ollamaBase(env{"OLLAMA_HOST": in}.get); got != want {
			t.Errorf("%q: %s, want %s", in, got, want)
		}
	}
}

func TestTheListHasTheCurrentModelAndIsAskedForOnce(t *testing.T) {
	s := fakellm.New(t, fakellm.OpenAI, "k", nil)
	s.SetModels(0, `{"id":"m1","name":"Model One","context_length":1000}`, "m2")
	c := open(t, Config{Provider: "openai", BaseURL: s.URL, Window: 5000, Prices: map[string]llm.Price{"m2": {Input: 3}}, Credentials: credentials.Source{Env: env{"OPENAI_API_KEY": "k"}.get}})
	h := host(s.URL)
	for range 3 {
		if got := names(c.List(context.Background(), h+"/mine")); got != h+"/mine "+h+"/m1 "+h+"/m2" {
			t.Error(got)
		}
	}
	if got := names(c.List(context.Background(), h+"/m2")); got != h+"/m1 "+h+"/m2" || s.Listed() != 1 {
		t.Error(got, s.Listed())
	}
	if i := c.Info(h + "/m2"); i.Window != 5000 || i.Price == nil || i.Price.Input != 3 {
		t.Errorf("%+v", i)
	}
	if i := c.Info(h + "/m1"); i.Title != "Model One" {
		t.Errorf("%+v", i)
	}
	for id, want := range map[string]bool{h + "/m1": true, h + "/m3": false, "openai/m1": false, "offline": false, "": false, h: false, h + "/": false} {
		if c.Has(context.Background(), id) != want {
			t.Errorf("%s: %v", id, !want)
		}
	}
}

func TestASlowListIsNotWaitedForAndIsThereTheNextTime(t *testing.T) {
	s := fakellm.New(t, fakellm.OpenAI, "", nil)
	s.SetModels(400*time.Millisecond, "m1")
	c := open(t, Config{BaseURL: s.URL})
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Millisecond)
	defer cancel()
	h := host(s.URL)
	if got := names(c.List(ctx, h+"/x")); got != h+"/x" {
		t.Error(got)
	}
	if got := names(c.List(context.Background(), h+"/x")); got != h+"/x "+h+"/m1" || s.Listed() != 1 {
		t.Error(got, s.Listed())
	}
}

func TestTwoSecondsAreTheLimitOfAList(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := New(Config{BaseURL: "http://box:1"})
		defer c.Close()
		// Somebody asks already and gets no answer.
		c.lists["box:1"] = &list{at: time.Now(), done: make(chan struct{})}
		c.lists["box:2"] = &list{at: time.Now(), done: make(chan struct{})}
		start := time.Now()
		c.wait(t.Context(), []Provider{{Name: "box:1"}, {Name: "box:2"}})
		if d := time.Since(start); d != listWait {
			t.Error(d)
		}
	})
}

func TestAPromptGoesToNoOtherProvider(t *testing.T) {
	cloud := fakellm.New(t, fakellm.OpenAI, "", fakellm.Script(fakellm.Reply{Texts: []string{"cloud"}}))
	file := &credentials.File{Path: filepath.Join(t.TempDir(), credentials.FileName)}
	for name, c := range map[string]struct {
		cfg     Config
		id      string
		auth    bool
		message string
	}{
		"a server that is gone":      {Config{BaseURL: cloud.URL}, "box:1/llama", false, "does not name"},
		"a cloud that is not wanted": {Config{BaseURL: cloud.URL}, "openai/gpt", false, "does not name"},
		"another provider":           {Config{Provider: "openai", BaseURL: cloud.URL}, "anthropic/claude", false, "does not name"},
		"offline only":               {Config{Provider: "offline"}, "anthropic/claude", false, "does not name"},
		"no key any more":            {Config{}, "anthropic/claude", true, "no credentials"},
		"no Ollama any more":         {Config{Local: true, Credentials: credentials.Source{Env: env{"OLLAMA_HOST": "127.0.0.1:1"}.get}}, "ollama/llama", false, "no Ollama"},
		"no provider at all":         {Config{}, "nonsense", false, "does not name"},
	} {
		t.Run(name, func(t *testing.T) {
			if c.cfg.Credentials.File = file; c.cfg.Provider == "offline" {
				c.cfg.Credentials.Env = env{"ANTHROPIC_API_KEY": "k"}.get
			}
			_, err := open(t, c.cfg).Open(c.id).Stream(context.Background(), llm.Request{}, nil)
			var e *llm.Error
			if !errors.As(err, &e) || e.AuthNeeded != c.auth || !strings.Contains(e.Message, c.message) || e.Advice == "" || e.Provider == "" {
				t.Errorf("%+v", err)
			}
		})
	}
	if n := len(cloud.Requests()); n != 0 {
		t.Errorf("%d prompts went elsewhere", n)
	}
}

func TestTheKeyOfTheEnvironmentGoesToAServerOnlyWhenTheProviderIsNamed(t *testing.T) {
	for name, c := range map[string]struct {
		provider string
		want     string
	}{"auto": {"auto", ""}, "openai": {"openai", "Bearer k"}} {
		s := fakellm.New(t, fakellm.OpenAI, "", fakellm.Script(fakellm.Reply{Texts: []string{"x"}}))
		cat := open(t, Config{Provider: c.provider, BaseURL: s.URL, Model: "m", Credentials: credentials.Source{Env: env{"OPENAI_API_KEY": "k"}.get}})
		id, err := cat.Default(context.Background())
		if err != nil {
			t.Fatal(err)
		}
		ok := llm.Request{Messages: []llm.Message{{Role: llm.RoleUser, Parts: []llm.Part{{Text: "x"}}}}}
		if _, err := cat.Open(id).Stream(context.Background(), ok, func(llm.Event) error { return nil }); err != nil {
			t.Error(name, err)
		}
		if got := s.Requests()[0].Header.Get("Authorization"); got != c.want {
			t.Errorf("%s: %q", name, got)
		}
	}
}

func TestALoginHelpsASessionThatIsOpen(t *testing.T) {
	s := fakellm.New(t, fakellm.Anthropic, "k", fakellm.Script(fakellm.Reply{Texts: []string{"x"}}))
	file := &credentials.File{Path: filepath.Join(t.TempDir(), credentials.FileName)}
	c := open(t, Config{Provider: "anthropic", BaseURL: s.URL, Model: "m", Credentials: credentials.Source{File: file}})
	id, err := c.Default(context.Background())
	if err != nil {
		t.Fatal(err)
	}
	m := c.Open(id)
	ask := func() error {
		_, err := m.Stream(context.Background(), llm.Request{Messages: []llm.Message{{Role: llm.RoleUser, Parts: []llm.Part{{Text: "x"}}}}}, func(llm.Event) error { return nil })
		return err
	}
	var e *llm.Error
	if err := ask(); !errors.As(err, &e) || !e.AuthNeeded {
		t.Error(err)
	}
	if err := file.Save(credentials.Credential{Provider: host(s.URL), Key: credentials.NewSecret("k")}); err != nil {
		t.Fatal(err)
	}
	if err := ask(); err != nil {
		t.Error(err)
	}
}

func TestConfigurationsThatCannotBe(t *testing.T) {
	for want, c := range map[string]Config{
		`provider "acme" is unknown`:   {Provider: "acme"},
		`model "m" is unknown`:         {Provider: "offline", Model: "m"},
		`base_url is set`:              {Provider: "offline", BaseURL: "http://box"},
		`base_url "box" is no address`: {BaseURL: "box"},
	} {
		if err := c.Validate(); err == nil || !strings.HasPrefix(err.Error(), want) {
			t.Errorf("%v, want %s", err, want)
		}
	}
}

func TestServersOfTheUsersOwnAreProvidersByTheirNames(t *testing.T) {
	one := fakellm.New(t, fakellm.OpenAI, "key-1", fakellm.Script(fakellm.Reply{Texts: []string{"one"}}))
	one.SetModels(0, "m1", "m2")
	two := fakellm.New(t, fakellm.Anthropic, "key-2", fakellm.Script(fakellm.Reply{Texts: []string{"two"}}))
	two.SetModels(0, "claude-x")
	file := &credentials.File{Path: filepath.Join(t.TempDir(), credentials.FileName)}
	if err := file.Save(credentials.Credential{Provider: "two", Key: credentials.NewSecret("key-2"), BaseURL: "http://elsewhere"}); err != nil {
		t.Fatal(err)
	}
	cfg := Config{
		Servers:     []Server{{Name: "one", BaseURL: one.URL + "/v1"}, {Name: "two", BaseURL: two.URL, Anthropic: true}},
		Credentials: credentials.Source{Env: env{"ONE_KEY": "key-1"}.get, File: file, Servers: map[string]string{"one": "ONE_KEY", "two": ""}},
	}
	c := open(t, cfg)
	if got := names(c.List(t.Context(), "one/m1")); got != "one/m1 one/m2 two/claude-x offline" {
		t.Errorf("listed are %s", got)
	}
	if id, err := c.Default(t.Context()); id != "one/m1" || err != nil {
		t.Errorf("the first is %s, %v", id, err)
	}
	for id, want := range map[string]string{"one/m2": "one", "two/claude-x": "two"} {
		got := ""
		_, err := c.Open(id).Stream(t.Context(), ask("hello"), func(e llm.Event) error { got += e.Text; return nil })
		if err != nil || got != want {
			t.Errorf("%s says %q, %v", id, got, err)
		}
	}
	if i := c.Info("two/claude-x"); i.Window == 0 {
		t.Error("the format of a server decides what is known of its models")
	}
	// A key of ours goes before all of them, and a name chooses one.
	cfg.Credentials.Env = env{"ONE_KEY": "key-1", "ANTHROPIC_API_KEY": "k"}.get
	if id, err := open(t, cfg).Default(t.Context()); id != "anthropic/claude-sonnet-5-5" || err != nil {
		t.Errorf("%s, %v", id, err)
	}
	cfg.Provider = "two"
	if id, err := open(t, cfg).Default(t.Context()); id != "two/claude-x" || err != nil {
		t.Errorf("%s, %v", id, err)
	}
	// The variable of a server's key is kept from commands too.
	if kept := cfg.Credentials.Strip([]string{"ONE_KEY=key-1", "TWO=2", "OPENAI_API_KEY=k"}); strings.Join(kept, " ") != "TWO=2" {
		t.Errorf("commands see %q", kept)
	}
	for _, bad := range []Config{
		{Provider: "three", Servers: cfg.Servers}, {Provider: "one", BaseURL: "http://x", Servers: cfg.Servers}, {Servers: []Server{{Name: "openai", BaseURL: "http://x"}}},
		{Servers: []Server{{Name: "a/b", BaseURL: "http://x"}}}, {Servers: []Server{{Name: "x", BaseURL: "lab:1"}}},
	} {
		if bad.Validate() == nil {
			t.Errorf("%+v is accepted", bad)
		}
	}
}

// A session remembers provider and model. With "auto" too, nothing takes the
// place of a provider that cannot be had any more.
func TestAutoGoesToNoOtherProviderWhenOneIsGone(t *testing.T) {
	local := fakellm.New(t, fakellm.OpenAI, "", fakellm.Script(fakellm.Reply{Texts: []string{"local"}}))
	cloud := fakellm.New(t, fakellm.OpenAI, "", fakellm.Script(fakellm.Reply{Texts: []string{"cloud"}}))
	both := Config{Servers: []Server{{Name: "cloud", BaseURL: cloud.URL}, {Name: "local", BaseURL: local.URL}}}
	for name, c := range map[string]struct {
		cfg    Config
		model  string
		auth   bool
		advice string
	}{
		"a server that is not named any more": {Config{Servers: both.Servers[:1]}, "local/m", false, "Choose another model for this session"},
		"a key that is gone":                  {both, "openai/gpt-5.5", true, "hermesd login openai"},
		"a host that is gone":                 {both, "my-server:8080/m", false, "Choose another model for this session"},
		"an Ollama that is gone":              {both, "ollama/m", false, "ollama serve"},
		"another provider is configured":      {Config{Provider: "cloud", Servers: both.Servers}, "local/m", false, "put the provider back"},
	} {
		t.Run(name, func(t *testing.T) {
			cat := open(t, c.cfg)
			_, err := cat.Open(c.model).Stream(t.Context(), ask("for one eye only"), func(llm.Event) error { return nil })
			var e *llm.Error
			if !errors.As(err, &e) || e.AuthNeeded != c.auth || e.Temporary || !strings.Contains(e.Advice, c.advice) {
				t.Errorf("%#v", err)
			}
			if cat.Has(t.Context(), c.model) {
				t.Error("it can be chosen all the same")
			}
			if got := names(cat.List(t.Context(), c.model)); strings.Fields(got)[0] != c.model {
				t.Errorf("the session's own model is not shown any more: %s", got)
			}
		})
	}
	if n := len(local.Requests()) + len(cloud.Requests()); n != 0 {
		t.Errorf("%d prompts went elsewhere", n)
	}
}

func TestARefusedKeyOfTheEnvironmentIsSaidToBeThat(t *testing.T) {
	s := fakellm.New(t, fakellm.OpenAI, "good", fakellm.Script(fakellm.Reply{Texts: []string{"hello"}}))
	file := &credentials.File{Path: filepath.Join(t.TempDir(), credentials.FileName)}
	cfg := Config{Servers: []Server{{Name: "lab", BaseURL: s.URL}}, Credentials: credentials.Source{Env: env{"LAB": "bad"}.get, File: file, Servers: map[string]string{"lab": "LAB"}}}
	stream := func(c *Catalog) (said string, e *llm.Error) {
		_, err := c.Open("lab/m").Stream(t.Context(), ask("hello"), func(e llm.Event) error { said += e.Text; return nil })
		errors.As(err, &e)
		return said, e
	}
	if _, e := stream(open(t, cfg)); e == nil || !e.AuthNeeded || !strings.Contains(e.Advice, "environment variable LAB") || strings.Contains(e.Advice, "hermesd login") {
		t.Errorf("%#v", e)
	}
	// One that was logged in with is replaced by logging in, in the same catalog.
	cfg.Credentials.Env = nil
	c := open(t, cfg)
	if _, e := stream(c); e == nil || !e.AuthNeeded || !strings.Contains(e.Advice, "hermesd login lab") {
		t.Errorf("%#v", e)
	}
	s.SetModels(0, "m")
	if c.Has(t.Context(), "lab/m") != true { // it did not say what it has
		t.Error("a model is refused")
	}
	if err := file.Save(credentials.Credential{Provider: "lab", Key: credentials.NewSecret("good")}); err != nil {
		t.Fatal(err)
	}
	if said, e := stream(c); said != "hello" || e != nil {
		t.Errorf("%q, %v", said, e)
	}
	if got := names(c.List(t.Context(), "lab/m")); got != "lab/m offline" || c.Has(t.Context(), "lab/other") {
		t.Errorf("the list is that of before the login: %s", got)
	}
}

func TestWhoIsLoggedInIsKnownWithoutAskingAnybody(t *testing.T) {
	s := fakellm.New(t, fakellm.OpenAI, "", nil)
	cfg := Config{Local: true, Servers: []Server{{Name: "lab", BaseURL: s.URL}, {Name: "other", BaseURL: s.URL}},
		Credentials: credentials.Source{Env: env{"OPENAI_API_KEY": "k", "LAB": "l", "OLLAMA_HOST": host(ollama(t, "m"))}.get, Servers: map[string]string{"lab": "LAB"}}}
	all, err := open(t, cfg).LoggedIn(t.Context())
	if err != nil || len(all) != 2 || all[0].Title() != "OpenAI" || all[0].Source != "environment variable OPENAI_API_KEY" || all[1].Title() != "lab" || s.Listed() != 0 {
		t.Errorf("%+v, %v", all, err)
	}
	for name, c := range map[string]struct {
		cfg          Config
		needs, saves bool
	}{
		"auto": {Config{}, true, true}, "offline": {Config{Provider: "offline"}, false, false}, "ollama": {Config{Provider: "ollama"}, false, false},
		"another": {Config{Provider: "anthropic"}, true, false}, "this": {Config{Provider: "openai"}, true, true},
		"a server": {Config{BaseURL: "http://lab:1/v1"}, true, false}, "gateway": {Config{Provider: "openai", BaseURL: "http://gate:1"}, true, true},
	} {
		cat := open(t, c.cfg)
		if cat.NeedsLogin() != c.needs || cat.Saves("openai") != c.saves {
			t.Errorf("%s: %v, %v", name, cat.NeedsLogin(), cat.Saves("openai"))
		}
	}
}

func TestAKeyIsChecked(t *testing.T) {
	models := func(f fakellm.Format, key string) string {
		s := fakellm.New(t, f, key, nil)
		s.SetModels(0, "m")
		return s.URL
	}
	answers := func(status int, kind, body string) string {
		s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			status, body := status, body
			if strings.HasSuffix(r.URL.Path, "/key") && r.Header.Get("Authorization") != "Bearer good" {
				status, body = 401, `{"error":{"message":"No auth credentials found","code":401}}`
			}
			w.Header().Set("Content-Type", kind)
			w.WriteHeader(status)
			_, _ = w.Write([]byte(body))
		}))
		t.Cleanup(s.Close)
		return s.URL
	}
	own := func(url string, anthropic bool) Config {
		return Config{Servers: []Server{{Name: "lab", BaseURL: url, Anthropic: anthropic}}}
	}
	for name, c := range map[string]struct {
		cfg    Config
		cred   credentials.Credential
		proved bool
		status int // of the error; 0 is none
		auth   bool
	}{
		"good":                {own(models(fakellm.OpenAI, "good"), false), credentials.Credential{Provider: "lab"}, true, 0, false},
		"good, anthropic":     {own(models(fakellm.Anthropic, "good"), true), credentials.Credential{Provider: "lab"}, true, 0, false},
		"bad":                 {own(models(fakellm.OpenAI, "other"), false), credentials.Credential{Provider: "lab"}, false, 401, true},
		"bad, anthropic":      {own(models(fakellm.Anthropic, "other"), true), credentials.Credential{Provider: "lab"}, false, 401, true},
		"everybody is told":   {own(models(fakellm.OpenAI, ""), false), credentials.Credential{Provider: "lab"}, false, 0, false},
		"no list":             {own(answers(404, "text/plain", "no"), false), credentials.Credential{Provider: "lab"}, false, 0, false},
		"trouble":             {own(answers(500, "text/plain", "boom"), false), credentials.Credential{Provider: "lab"}, false, 500, false},
		"by its address":      {Config{}, credentials.Credential{Provider: "x:1", BaseURL: models(fakellm.OpenAI, "good")}, true, 0, false},
		"gateway":             {Config{}, credentials.Credential{Provider: "anthropic", BaseURL: models(fakellm.Anthropic, "good")}, true, 0, false},
		"nobody there":        {own("http://127.0.0.1:1", false), credentials.Credential{Provider: "lab"}, false, -1, false},
		"somebody else there": {own(answers(200, "text/html", "<html>"), false), credentials.Credential{Provider: "lab"}, false, -1, false},
	} {
		t.Run(name, func(t *testing.T) {
			c.cred.Key = credentials.NewSecret("good")
			proved, err := c.cfg.Check(t.Context(), c.cred)
			var e *llm.Error
			errors.As(err, &e)
			switch {
			case proved != c.proved, (err == nil) != (c.status == 0):
				t.Errorf("%v, %v", proved, err)
			case e != nil && (c.status > 0 && e.Status != c.status || e.AuthNeeded != c.auth || strings.Contains(err.Error(), "good")):
				t.Errorf("%#v", e)
			}
		})
	}
	if _, err := (Config{}).Check(t.Context(), credentials.Credential{Provider: "nobody"}); err == nil {
		t.Error("nobody was asked")
	}
	// Where everybody is told the list there is something else to ask for.
	at := wire.Endpoint{Provider: "openrouter", BaseURL: answers(200, "application/json", `{"data":{}}`), Client: http.DefaultClient}
	for key, want := range map[string]bool{"good": true, "bad": false} {
		at.Key = credentials.NewSecret(key)
		if err := get(t.Context(), at, "key"); (err == nil) != want {
			t.Errorf("%s: %v", key, err)
		}
	}
	http.DefaultClient.CloseIdleConnections()
}

func ask(text string) llm.Request {
	return llm.Request{Messages: []llm.Message{{Role: llm.RoleUser, Parts: []llm.Part{{Text: text}}}}}
}
