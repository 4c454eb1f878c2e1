package daemon_test

import (
	"context"
	"encoding/json"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/hermesd/hermesd/daemon/daemontest"
	"github.com/hermesd/hermesd/daemon/session"
	"github.com/hermesd/hermesd/store"
	"github.com/hermesd/hermesd/transport/acpclient"
)

// What an agent has to say before the answer to session/new is written, as that
// an MCP server does not work, reaches the editor that made the session: once,
// and behind the answer.
func TestWhoMakesASessionMissesNothingOfIt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		said := `{"sessionUpdate":"agent_message_chunk","messageId":"n","content":{"type":"text","text":"it does not work"}}`
		commands := `{"sessionUpdate":"available_commands_update","availableCommands":[]}`
		agent := &daemontest.Script{Opening: func(ctx context.Context, _ session.Spec, h session.Host) error {
			for _, u := range []string{commands, said} {
				if err := h.Update(ctx, []byte(u)); err != nil {
					return err
				}
			}
			return nil
		}}
		h := daemontest.NewHouse(t, store.NewMemory(), agent, nil)
		a := h.Editor(acpclient.Options{})
		cwd := t.TempDir()
		s, err := a.NewSession(within(t), cwd)
		if err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		var order []string
		for _, e := range a.Entries() {
			switch {
			case e.Update != "":
				for _, part := range []string{"available_commands_update", "it does not work"} {
					if strings.Contains(string(e.Raw), part) {
						order = append(order, part)
					}
				}
			case e.Kind == acpclient.Response && e.Method == "session/new":
				order = append(order, "answer")
			}
		}
		if got := strings.Join(order, ", "); got != "answer, available_commands_update, it does not work" {
			t.Errorf("received %s", got)
		}
		b := h.Editor(acpclient.Options{})
		if _, err := b.Load(within(t), s.ID, cwd); err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		if text := b.Story(s.ID).Says("agent_message_chunk"); text != "it does not work" {
			t.Errorf("a load says %q", text)
		}
	})
}

func TestTransportsOfMCPServersAreOffered(t *testing.T) {
	h := daemontest.NewHouse(t, store.NewMemory(), &daemontest.Script{}, nil)
	a := h.Editor(acpclient.Options{})
	var caps struct {
		MCP map[string]bool `json:"mcpCapabilities"`
	}
	for _, e := range a.Entries() {
		var r struct{ AgentCapabilities json.RawMessage }
		if e.Kind == acpclient.Response && json.Unmarshal(e.Raw, &r) == nil && r.AgentCapabilities != nil {
			if err := json.Unmarshal(r.AgentCapabilities, &caps); err != nil {
				t.Fatal(err)
			}
		}
	}
	if !caps.MCP["http"] || !caps.MCP["sse"] {
		t.Errorf("%v", caps)
	}
	for _, server := range []string{
		`{"name":"m","command":"/m","args":[],"env":[]}`, `{"type":"http","name":"m","url":"https://m","headers":[]}`, `{"type":"sse","name":"m","url":"https://m","headers":[]}`,
	} {
		err := a.Call(within(t), "session/new", map[string]any{"cwd": t.TempDir(), "mcpServers": []any{json.RawMessage(server)}}, nil)
		if err != nil {
			t.Errorf("%s: %v", server, err)
		}
	}
}
