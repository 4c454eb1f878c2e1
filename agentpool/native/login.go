package native

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/hermesd/hermesd/agentpool/native/llm"
	"github.com/hermesd/hermesd/agentpool/native/llm/catalog"
	"github.com/hermesd/hermesd/agentpool/native/llm/credentials"
	"github.com/hermesd/hermesd/daemon/session"
)

// Ids of the ways to log in that are no provider's name.
const (
	loginDone     = "hermesd-login"
	loginTerminal = "hermesd-login-terminal"
)

// catalogOf returns the catalog to ask about logins, nil if there is nothing to
// log in to, and what ends it.
func (c Config) catalogOf() (*catalog.Catalog, func()) {
	if c.LLM != nil {
		return nil, func() {}
	}
	cat, end := c.Catalog, func() {}
	if cat == nil {
		cat = catalog.New(c.CatalogConfig())
		end = cat.Close
	}
	if !cat.NeedsLogin() {
		end()
		return nil, func() {}
	}
	return cat, end
}

// Login says how the user logs in: as each provider there are credentials for,
// and with hermesd login.
func (c Config) Login(ctx context.Context) session.Login {
	cat, end := c.catalogOf()
	defer end()
	if cat == nil {
		return session.Login{}
	}
	var l session.Login
	have, _ := cat.LoggedIn(ctx) // what is wrong with the file, prompts and Authenticate say
	for _, p := range have {
		l.Methods = append(l.Methods, session.LoginMethod{ID: p.Name, Name: p.Title(), Description: "With the key from " + p.Source})
	}
	if len(have) == 0 {
		l.Methods = append(l.Methods, session.LoginMethod{ID: loginDone, Name: "Key given with hermesd login",
			Description: "Run `hermesd login` in a terminal of the machine that hermesd runs on, then choose this"})
	}
	l.Methods = append(l.Methods, session.LoginMethod{ID: loginTerminal, Name: "Log in with a key", Description: "Choose a provider and paste its key", Terminal: true})
	forgettable, _ := c.forgettable(cat)
	l.Logout = len(forgettable) > 0
	return l
}

// Authenticate says whether the way a user has chosen gives the agent what it
// needs, as an *session.Error if it does not.
func (c Config) Authenticate(ctx context.Context, method string) error {
	cat, end := c.catalogOf()
	defer end()
	if cat == nil {
		return &session.Error{Code: session.CodeParams, Message: fmt.Sprintf("the method %q was not offered: there is nothing to log in to", short(method))}
	}
	have, err := cat.Providers(ctx)
	if err != nil && len(have) == 0 {
		return &session.Error{Code: session.CodeAuthRequired, Message: err.Error()}
	}
	named := slices.ContainsFunc(have, func(p catalog.Provider) bool { return p.Name == method })
	var refused error
	for _, p := range have {
		if named && p.Name != method {
			continue
		}
		if refused = cat.Refused(p); refused == nil {
			break
		}
	}
	switch {
	case named, (method == loginDone || method == loginTerminal) && len(have) > 0:
		return authNeeded(refused)
	case method == loginDone || method == loginTerminal:
		return &session.Error{Code: session.CodeAuthRequired, Message: "there is no key yet: run `hermesd login` in a terminal, then try again"}
	}
	if missing := cat.Missing(method); missing != nil {
		return authNeeded(missing)
	}
	return &session.Error{Code: session.CodeParams, Message: fmt.Sprintf("the method %q was not offered: choose one of authMethods", short(method))}
}

// authNeeded is a catalog's error for an editor; nil stays nil.
func authNeeded(err error) error {
	var e *llm.Error
	if !errors.As(err, &e) {
		return err
	}
	text := e.Provider + ": " + e.Message
	if e.Advice != "" {
		text += ". " + e.Advice
	}
	return &session.Error{Code: session.CodeAuthRequired, Message: text}
}

// Logout forgets the keys that were logged in with, as far as this agent could
// have used them.
func (c Config) Logout(ctx context.Context) error {
	nothing := func(why string) error {
		return &session.Error{Code: session.CodeInvalid, Message: "there is nothing to log out of: " + why}
	}
	cat, end := c.catalogOf()
	defer end()
	if cat == nil {
		return nothing("this agent needs no login")
	}
	saved, err := c.forgettable(cat)
	if err != nil {
		return &session.Error{Code: session.CodeInternal, Message: err.Error()}
	}
	if len(saved) == 0 {
		have, _ := cat.LoggedIn(ctx)
		var from []string
		for _, p := range have {
			from = append(from, fmt.Sprintf("the key of %s is from the %s", p.Name, p.Source))
		}
		if len(from) == 0 {
			return nothing("no key is kept")
		}
		return nothing(strings.Join(from, ", ") + "; take it out there, and start the daemon again: `hermesd stop` ends it")
	}
	if err := c.Credentials.File.Delete(saved...); err != nil {
		return &session.Error{Code: session.CodeInternal, Message: err.Error()}
	}
	return nil
}

// forgettable are the providers whose keys are in the file and could be used by
// this agent.
func (c Config) forgettable(cat *catalog.Catalog) ([]string, error) {
	if c.Credentials.File == nil {
		return nil, nil
	}
	saved, err := c.Credentials.File.Load()
	if err != nil {
		return nil, err
	}
	return slices.DeleteFunc(slices.Sorted(maps.Keys(saved)), func(p string) bool {
		return credentials.IsSearch(p) || !cat.Saves(p)
	}), nil
}

// short is an id of a client as it may stand in a message.
func short(id string) string {
	if r := []rune(id); len(r) > 80 {
		return string(r[:80]) + "…"
	}
	return id
}
