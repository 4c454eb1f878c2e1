package agentpool

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/hermesd/hermesd/agentpool/native"
	"github.com/hermesd/hermesd/daemon/session"
	"github.com/rs/zerolog"
	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// quietHost takes everything.
type quietHost struct{ session.Host }

func (quietHost) Update(context.Context, []byte) error { return nil }

var config = Config{Default: "hermes", Agents: map[string]AgentConfig{"hermes": {}, "second": {Type: TypeNative, Native: native.Config{ApprovalMode: "session"}}, "odd": {Type: "telnet"}}}

func TestAgentsAreFoundByName(t *testing.T) {
	p := New(config, zerolog.Nop())
	if !p.Has("") || !p.Has("hermes") || p.Has("claude") || p.Default() != "hermes" || len(p.List()) != 3 {
		t.Error(p.List())
	}
	for name, mode := range map[string]string{"": "default", "second": "dont_ask"} {
		a, s, err := p.Open(context.Background(), session.Spec{Meta: session.Meta{Agent: name, Cwd: "/"}, Fresh: true}, quietHost{})
		if err != nil || !strings.Contains(string(s.Modes), fmt.Sprintf(`"currentModeId":%q`, mode)) {
			t.Fatal(err, string(s.Modes))
		}
		if err := a.Close(); err != nil {
			t.Error(err)
		}
	}
}

func TestAnUnknownNameIsAnsweredWithTheKnownOnes(t *testing.T) {
	_, _, err := New(config, zerolog.Nop()).Open(context.Background(), session.Spec{Meta: session.Meta{Agent: "claude"}}, quietHost{})
	var e *session.Error
	if !errors.As(err, &e) || e.Code != session.CodeParams || !strings.Contains(e.Message, `"claude"`) || !strings.Contains(e.Message, "hermes, odd, second") {
		t.Error(err)
	}
	if _, _, err := New(config, zerolog.Nop()).Open(context.Background(), session.Spec{Meta: session.Meta{Agent: "odd"}}, quietHost{}); err == nil {
		t.Error("an agent of an unknown type opens")
	}
}

func TestConfigurationIsCheckedByName(t *testing.T) {
	for part, c := range map[string]Config{
		"no agent":           {},
		`default_agent "x"`:  {Default: "x", Agents: map[string]AgentConfig{"hermes": {}}},
		"agents.odd":         config,
		"agents.a: provider": {Default: "a", Agents: map[string]AgentConfig{"a": {Native: native.Config{Provider: "acme"}}}},
	} {
		if err := c.Validate(); err == nil || !strings.Contains(err.Error(), part) {
			t.Errorf("%v, want %q", err, part)
		}
	}
	if err := (Config{Default: "hermes", Agents: map[string]AgentConfig{"hermes": {}}}).Validate(); err != nil {
		t.Error(err)
	}
}
