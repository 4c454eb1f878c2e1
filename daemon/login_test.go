package daemon_test

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/rs/zerolog"

	"github.com/hermesd/hermesd/daemon"
	"github.com/hermesd/hermesd/daemon/daemontest"
	"github.com/hermesd/hermesd/daemon/session"
	"github.com/hermesd/hermesd/store"
	"github.com/hermesd/hermesd/transport/acpclient"
	"github.com/hermesd/hermesd/transport/link"
	"github.com/hermesd/hermesd/transport/tokens"
)

// lodge is an agent that can be logged in to.
type lodge struct {
	*daemontest.Script
	login session.Login
	outs  []string // agents that were logged out of
}

func (l *lodge) Login(_ context.Context, agent string) session.Login {
	return l.login
}

func (l *lodge) Authenticate(_ context.Context, agent, method string) error {
	switch method {
	case "there":
		return nil
	case "missing":
		return &session.Error{Code: session.CodeAuthRequired, Message: "run hermesd login\nfirst"}
	}
	return &session.Error{Code: session.CodeParams, Message: "no such method"}
}

func (l *lodge) Logout(_ context.Context, agent string) error {
	if len(l.outs) > 0 {
		return &session.Error{Code: session.CodeInvalid, Message: "nothing is kept"}
	}
	l.outs = append(l.outs, agent)
	return nil
}

// offered are the methods a connection was offered, terminal ones with what the
// command is to be told, and whether it was offered to log out.
func offered(t *testing.T, e *acpclient.Client) string {
	t.Helper()
	for _, entry := range e.Entries() {
		var r struct {
			Methods []struct {
				Type, ID string
				Args     []string
			} `json:"authMethods"`
			Caps struct {
				Auth struct{ Logout json.RawMessage }
			} `json:"agentCapabilities"`
		}
		if entry.Kind != acpclient.Response || json.Unmarshal(entry.Raw, &r) != nil || r.Methods == nil {
			continue
		}
		text := ""
		for _, m := range r.Methods {
			text += fmt.Sprint(m.Type, ":", m.ID, m.Args, " ")
		}
		if r.Caps.Auth.Logout != nil {
			text += "logout"
		}
		return strings.TrimSpace(text)
	}
	t.Fatal("initialize was not answered with authMethods")
	return ""
}

var terminalCaps = json.RawMessage(`{"auth":{"terminal":true}}`)

func TestLoginsAreOfferedToThoseWhoCanUseThem(t *testing.T) {
	agent := &lodge{Script: &daemontest.Script{}, login: session.Login{Logout: true, Methods: []session.LoginMethod{
		{ID: "openai", Name: "OpenAI", Description: "a key"}, {ID: "term", Name: "Log in", Description: "in a terminal", Terminal: true},
	}}}
	w := &web{log: &logged{}, room: &room{t: t, cwd: t.TempDir(), House: daemontest.NewHouse(t, store.NewMemory(), agent, nil)}}
	w.listen(t, "tcp")
	hello := link.Hello{Link: 1, ID: link.NewID()}
	able, unable := acpclient.Options{Capabilities: terminalCaps}, acpclient.Options{}
	embedded := daemontest.NewHouse(t, store.NewMemory(), agent, func(c *daemon.Config) { c.Embedded = true })
	for name, c := range map[string]struct {
		editor *acpclient.Client
		want   string
	}{
		"behind the shim":         {w.EditorWithHello(hello, able), "agent:openai[] terminal:term[--login] logout"},
		"without a terminal":      {w.EditorWithHello(link.Hello{Link: 1, ID: link.NewID()}, unable), "agent:openai[] logout"},
		"of an unknown command":   {w.Editor(able), "agent:openai[] logout"},
		"of a process of its own": {embedded.Editor(able), "agent:openai[] terminal:term[--login] logout"},
		"of another machine":      {w.far(link.Hello{Token: w.token("laptop", tokens.Control)}, able), "agent:openai[] logout"},
		"of an observer":          {w.far(link.Hello{Token: w.token("wall", tokens.Observe)}, able), "agent:openai[]"},
	} {
		got := strings.ReplaceAll(offered(t, c.editor), " :", " agent:") // no type is "agent"
		if strings.HasPrefix(got, ":") {
			got = "agent" + got
		}
		if got != c.want {
			t.Errorf("%s: offered are %q, want %q", name, got, c.want)
		}
	}
	wall := w.far(link.Hello{Token: w.token("wall2", tokens.Observe)}, acpclient.Options{})
	if err := wall.Call(within(t), "logout", map[string]any{}, nil); codeOf(err) != session.CodeForbidden || len(agent.outs) != 0 {
		t.Errorf("an observer logs out: %v", err)
	}
	if err := wall.Call(within(t), "authenticate", map[string]any{"methodId": "there"}, nil); err != nil {
		t.Errorf("an observer may look: %v", err)
	}
}

func TestAuthenticateAndLogoutAreTheAgents(t *testing.T) {
	log := &logged{}
	agent := &lodge{Script: &daemontest.Script{}}
	h := daemontest.NewHouse(t, store.NewMemory(), agent, func(c *daemon.Config) { c.Log = zerolog.New(log) })
	e := h.Editor(acpclient.Options{})
	if got := offered(t, e); got != "" {
		t.Errorf("offered are %q", got)
	}
	for method, want := range map[string]int{"there": 0, "missing": session.CodeAuthRequired, "nope": session.CodeParams} {
		var reply json.RawMessage
		err := e.Call(within(t), "authenticate", map[string]any{"methodId": method}, &reply)
		if codeOf(err) != want || want == 0 && string(reply) != "{}" || err != nil && strings.Contains(err.Error(), "\n") {
			t.Errorf("%s: %s %v", method, reply, err)
		}
	}
	if err := e.Call(within(t), "authenticate", map[string]any{}, nil); codeOf(err) != session.CodeParams {
		t.Errorf("without a method: %v", err)
	}
	var reply json.RawMessage
	if err := e.Call(within(t), "logout", map[string]any{}, &reply); err != nil || string(reply) != "{}" || len(agent.outs) != 1 {
		t.Errorf("%s %v, %q", reply, err, agent.outs)
	}
	if err := e.Call(within(t), "logout", map[string]any{}, nil); codeOf(err) != session.CodeInvalid {
		t.Errorf("%v", err)
	}
	if lines := log.audit("logout"); len(lines) != 1 || lines[0]["conn"] == nil {
		t.Errorf("%v", lines)
	}
}

// An agent that knows nothing of logins has none.
func TestWithoutLoginsThereIsNothingToLogInTo(t *testing.T) {
	h := daemontest.NewHouse(t, store.NewMemory(), &daemontest.Script{}, nil)
	e := h.Editor(acpclient.Options{Capabilities: terminalCaps})
	if got := offered(t, e); got != "" {
		t.Errorf("offered are %q", got)
	}
	if err := e.Call(within(t), "authenticate", map[string]any{"methodId": "x"}, nil); codeOf(err) != session.CodeParams {
		t.Error(err)
	}
	if err := e.Call(within(t), "logout", map[string]any{}, nil); codeOf(err) != session.CodeInvalid {
		t.Error(err)
	}
}
