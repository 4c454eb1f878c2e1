// Package catalog answers: which models can be had here, and with what? It
// knows the providers, finds their credentials, asks their servers which
// models they have, and opens one of them by its ID.
//
// A model is never replaced by that of another provider: an ID names provider
// and model, and if the provider cannot be had any more, prompts fail and say
// so. A server that is not the provider's own is named by its host, so a
// prompt meant for a local server cannot go to a cloud because the
// configuration changed.
//
// # Concurrency
//
// A Catalog is safe for concurrent use. It owns the goroutines that ask
// servers for their lists; Close ends them and waits for them.
package catalog

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/hermesd/hermesd/agentpool/native/llm"
	"github.com/hermesd/hermesd/agentpool/native/llm/anthropic"
	"github.com/hermesd/hermesd/agentpool/native/llm/credentials"
	"github.com/hermesd/hermesd/agentpool/native/llm/openai"
	"github.com/hermesd/hermesd/agentpool/native/llm/retry"
	"github.com/hermesd/hermesd/agentpool/native/llm/wire"
)

// Config says what is wanted. The zero Config finds the offline model only.
type Config struct {
	Provider string // auto, anthropic, openai, openrouter, nous, ollama, the name of a server, offline; "" means auto
	Model    string // of new sessions; "" means the provider's default
	BaseURL  string // of a server; with "auto" it is one that speaks OpenAI's format

	// Servers are the user's own. "auto" has them beside the providers that
	// there are keys for.
	Servers []Server

	Credentials credentials.Source
	Local       bool // look for an Ollama on this machine when there is nothing else

	Window    int                  // tokens a model holds; 0: what is known of it
	MaxOutput int                  // tokens of one message; 0: what is known of it
	Prices    map[string]llm.Price // by a model's ID or name
}

// Server is one that the user has given a name. It can be had without a key.
type Server struct {
	Name      string // has no slash, and is not that of a provider we know
	BaseURL   string
	Anthropic bool // it speaks Anthropic's format; else OpenAI's
}

// Offline is the ID of the model that needs no network.
const Offline = "offline"

const (
	listWait   = 2 * time.Second // a caller waits no longer for a list
	listTime   = 20 * time.Second
	listFresh  = 10 * time.Minute
	listFailed = 15 * time.Second // before a list that failed is asked for again

	probeTime = 300 * time.Millisecond
	probeKept = 10 * time.Second
)

// kind is a provider we know.
type kind struct {
	name      string
	title     string // for people
	anthropic bool   // speaks Anthropic's format; else OpenAI's
	base      string // "" is in its adapter
	host      string // of the base
	model     string // default; "" is the first of its list
	keyless   bool
	own       bool // a Server of the user's
	// check is what is asked to learn whether a key is good, where everybody is
	// told the list of models.
	check string
}

var kinds = [...]kind{
	{name: "anthropic", title: "Anthropic", anthropic: true, host: "api.anthropic.com", model: anthropic.DefaultModel},
	{name: "openai", title: "OpenAI", host: "api.openai.com", model: openai.DefaultModel},
	{name: "openrouter", title: "OpenRouter", check: "key", base: "https://openrouter.ai/api/v1", host: "openrouter.ai", model: "openrouter/auto"},
	{name: "nous", title: "Nous Research", base: "https://inference-api.nousresearch.com/v1", host: "inference-api.nousresearch.com", model: "Hermes-4-405B"},
	{name: "ollama", title: "Ollama", base: "http://127.0.0.1:11434/v1", host: "127.0.0.1:11434", keyless: true},
}

func kindOf(name string) (kind, bool) {
	for _, k := range kinds {
		if k.name == name {
			return k, true
		}
	}
	return kind{}, false
}

// kind is a provider we know or a server of the user's.
func (c Config) kind(name string) (kind, bool) {
	if k, ok := kindOf(name); ok {
		return k, true
	}
	for _, s := range c.Servers {
		if s.Name == name {
			return s.kind(), true
		}
	}
	return kind{}, false
}

func (s Server) kind() kind {
	k := kind{name: s.Name, title: s.Name, anthropic: s.Anthropic, base: s.BaseURL, keyless: true, own: true}
	if u, err := url.Parse(s.BaseURL); err == nil {
		k.host = u.Host
	}
	return k
}

// Kinds are the names of the providers that are known without being configured.
func Kinds() []string {
	var names []string
	for _, k := range kinds {
		names = append(names, k.name)
	}
	return names
}

// Provider is one that can be had now.
type Provider struct {
	Name   string // as in IDs
	Source string // where its credentials were found; "" if it needs none
	fixed  bool   // they are from the environment, which no login changes
	kind   kind
	at     wire.Endpoint
}

// Validate says what is wrong with the configuration, in the words of the
// configuration file. It asks nobody.
func (c Config) Validate() error {
	switch c.Provider {
	case "", "auto":
	case Offline:
		if c.Model != "" && c.Model != Offline {
			return fmt.Errorf("model %q is unknown to the provider offline: leave model empty", c.Model)
		}
		if c.BaseURL != "" {
			return errors.New("base_url is set, but the provider is offline: set provider to auto or openai")
		}
	default:
		k, ok := c.kind(c.Provider)
		if !ok {
			names := Kinds()
			for _, s := range c.Servers {
				names = append(names, s.Name)
			}
			return fmt.Errorf("provider %q is unknown: use auto, %s or offline", c.Provider, strings.Join(names, ", "))
		}
		if k.own && c.BaseURL != "" {
			return fmt.Errorf("base_url is set, but the provider %s has its own: remove one of them", c.Provider)
		}
	}
	for _, s := range c.Servers {
		if _, known := kindOf(s.Name); known || s.Name == "" || s.Name == "auto" || s.Name == Offline || strings.Contains(s.Name, "/") {
			return fmt.Errorf("a server cannot be named %q", s.Name)
		}
		if _, err := (wire.Endpoint{BaseURL: s.BaseURL}).Base("", "v1", true); err != nil {
			return fmt.Errorf("the server %s: %w", s.Name, err)
		}
	}
	if c.BaseURL != "" {
		if _, err := (wire.Endpoint{BaseURL: c.BaseURL}).Base("", "v1", true); err != nil {
			return err
		}
	}
	return nil
}

// Catalog is what a Config comes to.
type Catalog struct {
	cfg    Config
	client *http.Client

	life   context.Context
	cancel context.CancelFunc
	work   sync.WaitGroup

	mu     sync.Mutex
	closed bool
	lists  map[string]*list // by provider
	probes map[string]*probe
	// refused has the key that a provider did not take, "" for none at all.
	refused map[string]string
}

type list struct {
	key    string // with which it was asked for
	models []llm.Info
	at     time.Time     // when it was asked for
	done   chan struct{} // closed when the answer is there; nil: nobody asks
	failed bool
}

type probe struct {
	at time.Time
	up bool
}

// New returns a catalog; cfg should have passed Validate. It asks nobody yet.
func New(cfg Config) *Catalog {
	life, cancel := context.WithCancel(context.Background())
	return &Catalog{cfg: cfg, client: wire.NewClient(wire.Idle), life: life, cancel: cancel, lists: map[string]*list{}, probes: map[string]*probe{}, refused: map[string]string{}}
}

// Close ends what the catalog does and its idle connections. Models it opened
// must not be asked any more.
func (c *Catalog) Close() {
	c.mu.Lock()
	c.closed = true
	c.mu.Unlock()
	c.cancel()
	c.work.Wait()
	c.client.CloseIdleConnections()
}

// Providers returns who can be had now, the one a new session gets first. An
// error is about the file of credentials; what there is is returned with it.
// It may look for a local server, for 300 ms at most.
func (c *Catalog) Providers(ctx context.Context) ([]Provider, error) {
	return c.providers(ctx, true)
}

// providers is Providers; only if local, it looks for a local server.
func (c *Catalog) providers(ctx context.Context, local bool) ([]Provider, error) {
	src := c.cfg.Credentials
	switch c.cfg.Provider {
	case Offline:
		return nil, nil
	case "", "auto":
	default:
		k, ok := c.cfg.kind(c.cfg.Provider)
		if !ok {
			return nil, c.cfg.Validate()
		}
		own, has, err := src.Find(k.name)
		base := cmp.Or(c.cfg.BaseURL, own.BaseURL)
		if k.own {
			base = "" // where it is, the configuration alone says
		}
		p := provide(k, base)
		if p.Name != k.name {
			if of, ok, _ := src.Find(p.Name); ok {
				own, has = of, true
			}
		}
		if !has && p.Name == k.name && !k.keyless {
			return nil, err
		}
		return []Provider{p.with(own)}, err
	}
	if c.cfg.BaseURL != "" {
		k, _ := kindOf("openai")
		p := provide(k, c.cfg.BaseURL)
		// A key from the environment is OpenAI's: it goes nowhere else unasked.
		own, has, err := src.Find(p.Name)
		if !has && p.Name == k.name {
			return nil, err
		}
		return []Provider{p.with(own)}, err
	}
	creds, err := src.All()
	var all []Provider
	for _, cred := range creds {
		k, ok := c.cfg.kind(cred.Provider)
		if ok && k.own {
			continue // below
		}
		if !ok {
			k, _ = kindOf("openai") // a server
			if cred.BaseURL == "" {
				continue
			}
		}
		all = append(all, provide(k, cred.BaseURL).with(cred))
	}
	for _, s := range c.cfg.Servers {
		p := provide(s.kind(), "")
		if i := slices.IndexFunc(creds, func(c credentials.Credential) bool { return c.Provider == s.Name }); i >= 0 {
			p = p.with(creds[i])
		}
		all = append(all, p)
	}
	if local && c.cfg.Local && !slices.ContainsFunc(all, func(p Provider) bool { return p.Name == "ollama" }) {
		k, _ := kindOf("ollama")
		base := ollamaBase(src.Env)
		if c.probe(ctx, base) {
			p := provide(k, base)
			p.Name = k.name // also where OLLAMA_HOST says another port
			p.at.Provider = k.name
			all = append(all, p)
		}
	}
	return all, err
}

// provide makes a provider of a kind at a base URL, "" for its own.
func provide(k kind, base string) Provider {
	name := k.name
	if base != "" {
		if u, err := url.Parse(base); err == nil && u.Host != "" && u.Host != k.host {
			name = u.Host
		}
	}
	return Provider{Name: name, kind: k, at: wire.Endpoint{Provider: name, BaseURL: cmp.Or(base, k.base)}}
}

func (p Provider) with(c credentials.Credential) Provider {
	p.at.Key, p.at.Bearer, p.Source, p.fixed = c.Key, c.Bearer, c.Source, c.Environ
	return p
}

// ollamaBase is where OLLAMA_HOST says that Ollama is.
func ollamaBase(env func(string) string) string {
	host := ""
	if env != nil {
		host = strings.TrimSpace(env("OLLAMA_HOST"))
	}
	if host == "" {
		host = "127.0.0.1:11434"
	}
	if !strings.Contains(host, "://") {
		host = "http://" + host
	}
	u, err := url.Parse(host)
	if err != nil || u.Host == "" {
		return "http://127.0.0.1:11434/v1"
	}
	name, port := u.Hostname(), u.Port()
	if ip := net.ParseIP(name); name == "" || ip != nil && ip.IsUnspecified() {
		name = "127.0.0.1" // where a server listens that listens everywhere
	}
	return u.Scheme + "://" + net.JoinHostPort(name, cmp.Or(port, "11434")) + "/v1"
}

// probe tells whether an Ollama answers at base.
func (c *Catalog) probe(ctx context.Context, base string) bool {
	c.mu.Lock()
	if p := c.probes[base]; p != nil && time.Since(p.at) < probeKept {
		c.mu.Unlock()
		return p.up
	}
	c.mu.Unlock()
	ctx, cancel := context.WithTimeout(ctx, probeTime)
	defer cancel()
	up := false
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, strings.TrimSuffix(base, "/v1")+"/api/version", nil)
	if err == nil {
		if res, err := c.client.Do(req); err == nil {
			up = res.StatusCode == http.StatusOK && strings.HasPrefix(res.Header.Get("Content-Type"), "application/json")
			res.Body.Close()
		}
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.probes[base] = &probe{time.Now(), up}
	return up
}

// Default returns the ID of the model a new session gets: of the first
// provider there is, the offline model if there is none. An *llm.Error says
// what is missing.
func (c *Catalog) Default(ctx context.Context) (string, error) {
	if c.cfg.Provider == Offline {
		return Offline, nil
	}
	all, err := c.Providers(ctx)
	auto := c.auto()
	if auto && c.cfg.Model == Offline {
		return Offline, nil
	}
	name := c.cfg.Model
	if before, after, ok := strings.Cut(name, "/"); auto && ok {
		if i := slices.IndexFunc(all, func(p Provider) bool { return p.Name == before }); i >= 0 {
			return all[i].Name + "/" + after, nil
		}
	}
	if len(all) == 0 {
		switch {
		case err != nil:
			return "", &llm.Error{Provider: cmp.Or(c.cfg.Provider, "auto"), Message: err.Error(), Advice: "Put the file in order.", AuthNeeded: true}
		case !auto:
			return "", missing(c.cfg.Provider)
		case name != "":
			return "", &llm.Error{Provider: "auto", AuthNeeded: true, Message: fmt.Sprintf("there are no credentials for a provider of the model %s", name),
				Advice: "Run `hermesd login` in a terminal, or take model out of the configuration for the offline model."}
		}
		return Offline, nil
	}
	p := all[0]
	if name == "" && p.Name == p.kind.name {
		name = p.kind.model
	}
	if name == "" {
		models := c.wait(ctx, []Provider{p})[p.Name]
		if len(models) == 0 {
			if auto && p.Name == "ollama" && len(all) == 1 {
				return Offline, nil // it runs, and has no model
			}
			return "", &llm.Error{Provider: p.Name, Message: "it does not say which models it has", Advice: "Set model in the configuration."}
		}
		name = models[0].Name
	}
	return p.Name + "/" + name, nil
}

// missing is the error of a provider without credentials.
func missing(provider string) *llm.Error {
	return &llm.Error{Provider: provider, AuthNeeded: true, Message: "there are no credentials for it", Advice: wire.Login(provider)}
}

// List returns the models that can be had, in about two seconds at most: what
// has not answered by then is there the next time. The model with the ID
// current is always among them.
func (c *Catalog) List(ctx context.Context, current string) []llm.Info {
	providers, _ := c.Providers(ctx) // the file's error is seen by Default and by prompts
	lists := c.wait(ctx, providers)
	var all []llm.Info
	for _, p := range providers {
		all = append(all, lists[p.Name]...)
	}
	if c.offline() {
		all = append(all, llm.Offline{}.Info())
	}
	if !slices.ContainsFunc(all, func(i llm.Info) bool { return i.ID() == current }) {
		all = slices.Insert(all, 0, c.Info(current))
	}
	return all
}

// offline tells whether the offline model may be chosen.
func (c *Catalog) offline() bool {
	return c.cfg.Provider == Offline || c.auto() && c.cfg.BaseURL == ""
}

func (c *Catalog) auto() bool { return c.cfg.Provider == "" || c.cfg.Provider == "auto" }

// Has tells whether a prompt may be sent to the model: it is in the list, or
// its provider can be had and did not say which models it has.
func (c *Catalog) Has(ctx context.Context, id string) bool {
	name, model, ok := strings.Cut(id, "/")
	if !ok || model == "" {
		return id == Offline && c.offline()
	}
	providers, _ := c.Providers(ctx)
	i := slices.IndexFunc(providers, func(p Provider) bool { return p.Name == name })
	if i < 0 {
		return false
	}
	models := c.wait(ctx, providers[i:i+1])[name]
	return len(models) == 0 || model == c.cfg.Model || slices.ContainsFunc(models, func(m llm.Info) bool { return m.Name == model })
}

// wait returns the lists of providers as far as they are there within the
// limit. Old ones are given out at once and asked for again behind.
func (c *Catalog) wait(ctx context.Context, providers []Provider) map[string][]llm.Info {
	timer := time.NewTimer(listWait)
	defer timer.Stop()
	out := map[string][]llm.Info{}
	for _, p := range providers {
		done := c.ask(p)
		if done != nil {
			select {
			case <-done:
			case <-timer.C:
				timer.Reset(0)
			case <-ctx.Done():
			}
		}
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, p := range providers {
		if l := c.lists[p.Name]; l != nil {
			for _, i := range l.models {
				out[p.Name] = append(out[p.Name], c.dressed(i))
			}
		}
	}
	return out
}

// ask starts asking a provider for its list unless that is known or under way.
// It returns what to wait for, nil if there is something to give out.
func (c *Catalog) ask(p Provider) <-chan struct{} {
	c.mu.Lock()
	defer c.mu.Unlock()
	l := c.lists[p.Name]
	if l == nil || l.key != p.at.Key.Reveal() { // after a login the answer is another one
		l = &list{key: p.at.Key.Reveal()}
		c.lists[p.Name] = l
	}
	age := time.Since(l.at)
	if l.done == nil && !c.closed && (l.at.IsZero() || l.failed && age > listFailed || age > listFresh) {
		done := make(chan struct{})
		l.done, l.at = done, time.Now()
		c.work.Go(func() {
			ctx, cancel := context.WithTimeout(c.life, listTime)
			defer cancel()
			at := p.at
			at.Client = c.client
			get := openai.List
			if p.kind.anthropic {
				get = anthropic.List
			}
			models, err := get(ctx, at)
			if err != nil {
				c.heard(p, err)
			}
			c.mu.Lock()
			defer c.mu.Unlock()
			if l.failed = err != nil; !l.failed {
				l.models = models
			}
			l.done = nil
			close(done)
		})
	}
	if len(l.models) > 0 || l.done == nil {
		return nil
	}
	return l.done
}

// dressed adds to a model what the configuration says of it.
func (c *Catalog) dressed(i llm.Info) llm.Info {
	if c.cfg.Window > 0 {
		i.Window = c.cfg.Window
	}
	if c.cfg.MaxOutput > 0 {
		i.MaxOutput = c.cfg.MaxOutput
	}
	for _, key := range []string{i.Name, i.ID()} {
		if p, ok := c.cfg.Prices[key]; ok {
			i.Price = &p
		}
	}
	return i
}

// Info is what is known of the model now. It asks nobody.
func (c *Catalog) Info(id string) llm.Info {
	name, model, ok := strings.Cut(id, "/")
	if !ok {
		if id == Offline {
			return llm.Offline{}.Info()
		}
		return llm.Info{Provider: id, Name: id}
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if l := c.lists[name]; l != nil {
		for _, i := range l.models {
			if i.Name == model {
				return c.dressed(i)
			}
		}
	}
	if k, ok := c.cfg.kind(name); ok && k.anthropic || !ok && c.cfg.Provider == "anthropic" {
		return c.dressed(anthropic.Known(name, model))
	}
	return c.dressed(openai.Known(name, model))
}

// Open returns the model with this ID. That its provider can be had is seen
// when it is asked, so that a login helps sessions that are open.
func (c *Catalog) Open(id string) llm.Model {
	if id == Offline {
		return llm.Offline{}
	}
	return retry.Model{Model: model{c, id}}
}

// model finds its provider anew with each message.
type model struct {
	catalog *Catalog
	id      string
}

func (m model) Info() llm.Info { return m.catalog.Info(m.id) }

func (m model) Stream(ctx context.Context, req llm.Request, yield func(llm.Event) error) (llm.Stop, error) {
	c := m.catalog
	name, _, _ := strings.Cut(m.id, "/")
	providers, err := c.Providers(ctx)
	i := slices.IndexFunc(providers, func(p Provider) bool { return p.Name == name })
	if i < 0 {
		_, known := c.cfg.kind(name)
		allowed := c.cfg.BaseURL == "" && (c.auto() || c.cfg.Provider == name)
		switch {
		case ctx.Err() != nil:
			return "", ctx.Err()
		case known && allowed && err != nil:
			return "", &llm.Error{Provider: name, AuthNeeded: true, Message: err.Error(), Advice: "Put the file in order."}
		case known && allowed && name == "ollama":
			return "", &llm.Error{Provider: name, Message: "no Ollama answers on this machine", Advice: "Start it with `ollama serve`, or choose another model."}
		case known && allowed:
			return "", missing(name)
		}
		return "", &llm.Error{Provider: name, Message: "the configuration does not name this provider any more, and the prompt was sent to no other",
			Advice: "Choose another model for this session, or put the provider back into the configuration."}
	}
	p := providers[i]
	p.at.Client = c.client
	var inner llm.Model
	if p.kind.anthropic {
		inner, err = anthropic.New(p.at, m.Info())
	} else {
		inner, err = openai.New(p.at, m.Info())
	}
	if err != nil {
		return "", &llm.Error{Provider: name, Message: err.Error(), Advice: "Correct base_url in the configuration."}
	}
	stop, err := inner.Stream(ctx, req, yield)
	c.heard(p, err)
	var e *llm.Error
	if errors.As(err, &e) && e.AuthNeeded && e.Status == http.StatusUnauthorized && p.fixed {
		e.Advice = "The key was refused. " + p.correct()
	}
	return stop, err
}
