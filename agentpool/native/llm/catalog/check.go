package catalog

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/hermesd/hermesd/agentpool/native/llm"
	"github.com/hermesd/hermesd/agentpool/native/llm/anthropic"
	"github.com/hermesd/hermesd/agentpool/native/llm/credentials"
	"github.com/hermesd/hermesd/agentpool/native/llm/openai"
	"github.com/hermesd/hermesd/agentpool/native/llm/wire"
)

// checkTime is how long a server may take to say whether a key is good.
const checkTime = 20 * time.Second

// LoggedIn returns who can be had now with credentials, as Providers does, but
// without looking for a server on this machine: it asks nobody.
func (c *Catalog) LoggedIn(ctx context.Context) ([]Provider, error) {
	all, err := c.providers(ctx, false)
	return slices.DeleteFunc(all, func(p Provider) bool { return p.Source == "" }), err
}

// Title is the provider's name for people.
func (p Provider) Title() string {
	if p.Name == p.kind.name {
		return p.kind.title
	}
	return p.Name
}

// NeedsLogin tells whether there is anybody to log in to: not with the offline
// model alone, nor with an Ollama alone.
func (c *Catalog) NeedsLogin() bool {
	return c.cfg.Provider != Offline && c.cfg.Provider != "ollama"
}

// Gateway is the server that BaseURL names, with its host for a name; ok is false
// if there is none, or if it is a provider's own.
func (c Config) Gateway() (s Server, ok bool) {
	k, known := kindOf(c.Provider)
	if c.Provider == "" || c.Provider == "auto" {
		k, known = kindOf("openai")
	}
	if !known || c.BaseURL == "" {
		return Server{}, false
	}
	p := provide(k, c.BaseURL)
	return Server{Name: p.Name, BaseURL: c.BaseURL, Anthropic: k.anthropic}, p.Name != k.name
}

// heard remembers what became of a request: whether the provider takes the key.
func (c *Catalog) heard(p Provider, err error) {
	var e *llm.Error
	c.mu.Lock()
	defer c.mu.Unlock()
	switch {
	case err == nil:
		delete(c.refused, p.Name)
	case errors.As(err, &e) && e.AuthNeeded && e.Status != 0:
		c.refused[p.Name] = p.at.Key.Reveal()
	}
}

// Refused is the error of a provider that did not take the key it has when it
// was asked last, nil if that is not known.
func (c *Catalog) Refused(p Provider) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if key, ok := c.refused[p.Name]; !ok || key != p.at.Key.Reveal() {
		return nil
	}
	e := &llm.Error{Provider: p.Name, AuthNeeded: true, Message: "it did not take the key", Advice: wire.Login(p.Name)}
	switch {
	case p.at.Key.Empty():
		e.Message = "it wants a key"
	case p.fixed:
		e.Advice = p.correct()
	}
	return e
}

// correct says what to do about a key of the environment that is refused.
func (p Provider) correct() string {
	return fmt.Sprintf("It is from the %s, which counts before a login: correct it there and start the daemon again: `hermesd stop` ends it.", p.Source)
}

// Missing is the error of a provider that may be used and has no credentials,
// nil for one that may not be used.
func (c *Catalog) Missing(provider string) error {
	if _, known := c.cfg.kind(provider); known && c.cfg.BaseURL == "" && (c.auto() || c.cfg.Provider == provider) {
		return missing(provider)
	}
	return nil
}

// Saves tells whether a credential that is saved for this provider may be used
// by this catalog.
func (c *Catalog) Saves(provider string) bool {
	if c.auto() && c.cfg.BaseURL == "" {
		return true
	}
	host := ""
	if u, err := url.Parse(c.cfg.BaseURL); err == nil {
		host = u.Host
	}
	return provider == c.cfg.Provider || host != "" && provider == host
}

// Check asks the credential's provider whether it takes it, with one or two
// short requests that cost nothing. proved is false if there is no error only
// because the server answers everybody. An *llm.Error says what the server said;
// AuthNeeded is true if it refused the key.
func (c Config) Check(ctx context.Context, cred credentials.Credential) (proved bool, err error) {
	inner, cancel := context.WithTimeout(ctx, checkTime)
	defer cancel()
	proved, err = c.check(inner, cred)
	if inner.Err() != nil && ctx.Err() == nil {
		err = &llm.Error{Provider: cred.Provider, Message: "it has not answered within " + checkTime.String(), Advice: "Look at the network, then try again.", Temporary: true}
	}
	return proved, err
}

func (c Config) check(ctx context.Context, cred credentials.Credential) (proved bool, err error) {
	k, ok := c.kind(cred.Provider)
	if !ok {
		k, _ = kindOf("openai")
		k.check = ""
		if cred.BaseURL == "" {
			return false, fmt.Errorf("there is no provider %q", cred.Provider)
		}
	}
	at := provide(k, cred.BaseURL).with(cred).at
	at.Client = wire.NewClient(checkTime)
	defer at.Client.CloseIdleConnections()
	if k.check != "" && cred.BaseURL == "" {
		return true, get(ctx, at, k.check)
	}
	list := openai.List
	if k.anthropic {
		list = anthropic.List
	}
	_, err = list(ctx, at)
	var e *llm.Error
	switch {
	case errors.As(err, &e) && (e.Status == http.StatusNotFound || e.Status == http.StatusMethodNotAllowed || e.Status == http.StatusNotImplemented):
		return false, nil // it has no list
	case err != nil:
		return false, err
	case k.anthropic && k.host == "api.anthropic.com" && cred.BaseURL == "", k.name == "openai" && cred.BaseURL == "":
		return true, nil // these answer with a key only
	}
	at.Key = credentials.Secret{}
	_, err = list(ctx, at)
	return err != nil, nil
}

// get asks for something of an OpenAI-like server that only the key is needed
// for.
func get(ctx context.Context, at wire.Endpoint, path string) error {
	base, err := at.Base("", "v1", true)
	if err != nil {
		return err
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, base+path, nil)
	if err != nil {
		return err
	}
	req.Header.Set("Authorization", "Bearer "+at.Key.Reveal())
	res, err := at.Client.Do(req)
	if err != nil {
		return at.Broken(ctx, err, false)
	}
	defer res.Body.Close()
	body, _ := io.ReadAll(io.LimitReader(res.Body, 64<<10))
	if res.StatusCode >= 400 {
		return at.Fault(wire.ReadAnswer(res.StatusCode, res.Header, body), "")
	}
	if !strings.HasPrefix(res.Header.Get("Content-Type"), "application/json") {
		return at.Strange(res)
	}
	return nil
}
