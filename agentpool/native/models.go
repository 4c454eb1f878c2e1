package native

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/hermesd/hermesd/agentpool/native/llm"
	"github.com/hermesd/hermesd/agentpool/native/llm/catalog"
	"github.com/hermesd/hermesd/daemon/session"
)

// models are those a session can choose among. A catalog.Catalog is one.
type models interface {
	Default(ctx context.Context) (string, error)
	List(ctx context.Context, current string) []llm.Info
	Has(ctx context.Context, id string) bool
	Info(id string) llm.Info
	Open(id string) llm.Model
}

// only is the choice of a single model.
type only struct{ llm.Model }

func (o only) Default(context.Context) (string, error) { return o.Model.Info().ID(), nil }
func (o only) List(context.Context, string) []llm.Info { return []llm.Info{o.Model.Info()} }
func (o only) Has(_ context.Context, id string) bool   { return id == o.Model.Info().ID() }
func (o only) Info(string) llm.Info                    { return o.Model.Info() }
func (o only) Open(string) llm.Model                   { return o.Model }

// CatalogConfig is what the configuration says of models.
func (c Config) CatalogConfig() catalog.Config {
	return catalog.Config{
		Provider: c.Provider, Model: c.Model, BaseURL: c.BaseURL, Servers: c.Servers, Credentials: c.Credentials, Local: c.Local,
		Window: c.Window, MaxOutput: c.MaxOutput, Prices: c.Prices,
	}
}

// checkModel says what is wrong with what the configuration says of models.
func (c Config) checkModel() error {
	if c.LLM != nil {
		return nil
	}
	cc := c.CatalogConfig()
	if cc.Credentials.Env == nil && cc.Credentials.File == nil && !cc.Local && cc.BaseURL == "" && (cc.Provider == "" || cc.Provider == "auto") {
		cc.Provider = catalog.Offline // there is nothing else to find
	}
	return cc.Validate()
}

// models returns what a session can choose among, and what ends it with the
// session.
func (c Config) models() (models, func()) {
	switch {
	case c.LLM != nil:
		return only{c.LLM}, func() {}
	case c.Catalog != nil:
		return c.Catalog, func() {}
	}
	own := catalog.New(c.CatalogConfig())
	return own, own.Close
}

// modelError makes an error for the user of a model's: it names provider,
// status and what to do. Other errors are returned as they are.
func modelError(err error, model string) error {
	var me *llm.Error
	if !errors.As(err, &me) {
		return err
	}
	code := session.CodeInternal
	if me.AuthNeeded {
		code = session.CodeAuthRequired
	}
	status := ""
	if me.Status != 0 {
		status = fmt.Sprintf(" (%d)", me.Status)
	}
	text := fmt.Sprintf("the model call to %s failed%s: %s", me.Provider, status, strings.Join(strings.Fields(me.Message), " "))
	if me.Advice != "" && me.Provider != catalog.Offline {
		text = strings.TrimRight(text, ".") + ". " + strings.Join(strings.Fields(me.Advice), " ")
	}
	data := map[string]any{"provider": me.Provider, "model": model, "message": me.Message, "advice": me.Advice}
	if me.Status != 0 {
		data["status"] = me.Status
	}
	if me.RetryAfter > 0 {
		data["retryAfter"] = me.RetryAfter.Seconds()
	}
	return &session.Error{Code: code, Message: text, Data: encode(data)}
}

// choice is what a session has chosen.
type choice struct {
	mode   mode
	model  string // an ID
	effort string // "" is the model's own
}
