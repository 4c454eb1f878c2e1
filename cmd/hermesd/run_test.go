package main

import (
	"context"
	"path/filepath"
	"strings"
	"testing"

	"github.com/rs/zerolog"

	"github.com/hermesd/hermesd/agentpool/native/llm/fakellm"
	"github.com/hermesd/hermesd/configs"
	"github.com/hermesd/hermesd/daemon/session"
	"github.com/hermesd/hermesd/transport/link"
)

type quietHost struct{ session.Host }

func (quietHost) Update(context.Context, []byte) error { return nil }

// noKeys takes the keys of whoever runs the tests away.
func noKeys(t *testing.T) {
	for _, name := range []string{"ANTHROPIC_API_KEY", "ANTHROPIC_AUTH_TOKEN", "ANTHROPIC_BASE_URL", "OPENAI_API_KEY", "OPENAI_BASE_URL", "OPENROUTER_API_KEY", "NOUS_API_KEY"} {
		t.Setenv(name, "")
	}
	t.Setenv("OLLAMA_HOST", "127.0.0.1:1")
}

// The provider "auto" takes what the daemon's environment has a key for, and
// the offline model when it has none.
func TestTheModelOfANewSessionComesFromTheDaemonsEnvironment(t *testing.T) {
	server := fakellm.New(t, fakellm.Anthropic, "a-key", func(int, []byte) fakellm.Reply { return fakellm.Reply{} })
	server.SetModels(0, "claude-x")
	for name, c := range map[string]struct {
		env  map[string]string
		want string
	}{
		"no key": {nil, `"currentValue":"offline"`},
		"a key":  {map[string]string{"ANTHROPIC_API_KEY": "a-key", "ANTHROPIC_BASE_URL": server.URL}, `/claude-x"`},
	} {
		t.Run(name, func(t *testing.T) {
			noKeys(t)
			for k, v := range c.env {
				t.Setenv(k, v)
			}
			o := serveOptions{Config: configs.Default(), Places: link.Places{Config: filepath.Join(t.TempDir(), "config.toml")}}
			pool, closeModels, err := newAgents(o, zerolog.Nop())
			if err != nil {
				t.Fatal(err)
			}
			defer closeModels()
			a, set, err := pool.Open(t.Context(), session.Spec{Meta: session.Meta{ID: "s", Cwd: t.TempDir()}, Fresh: true}, quietHost{})
			if err != nil {
				t.Fatal(err)
			}
			defer a.Close()
			if !strings.Contains(string(set.Options), c.want) {
				t.Errorf("%s", set.Options)
			}
		})
	}
}

// What the configuration allows, the agent knows.
func TestEveryProviderOfTheConfigurationIsKnown(t *testing.T) {
	noKeys(t)
	for _, provider := range configs.Providers() {
		o := serveOptions{Config: configs.Default(), Places: link.Places{Config: filepath.Join(t.TempDir(), "config.toml")}}
		a := o.Config.Agents["hermes"]
		a.Provider = provider
		o.Config.Agents["hermes"] = a
		_, closeModels, err := newAgents(o, zerolog.Nop())
		if err != nil {
			t.Errorf("%s: %v", provider, err)
			continue
		}
		closeModels()
	}
}
