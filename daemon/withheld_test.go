package daemon_test

import (
	"context"
	"encoding/json"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/hermesd/hermesd/daemon/daemontest"
	"github.com/hermesd/hermesd/daemon/session"
	"github.com/hermesd/hermesd/store"
	"github.com/hermesd/hermesd/transport/acpclient"
)

// opened notes what agents are opened with.
type opened struct {
	mu   sync.Mutex
	last map[session.ID]string
	n    int
}

func (o *opened) script() *daemontest.Script {
	o.last = make(map[session.ID]string)
	return &daemontest.Script{Opening: func(_ context.Context, spec session.Spec, _ session.Host) error {
		o.mu.Lock()
		defer o.mu.Unlock()
		o.last[spec.Meta.ID] = string(spec.Meta.MCPServers)
		o.n++
		return nil
	}}
}

func (o *opened) of(id string) string {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.last[session.ID(id)]
}

func (o *opened) count() int {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.n
}

func servers(secret string) []any {
	return []any{
		map[string]any{"name": "a", "command": "a", "args": []string{}, "env": []any{map[string]any{"name": "KEY", "value": secret}}},
		map[string]any{"type": "http", "name": "b", "url": "http://b", "headers": []any{map[string]any{"name": "Authorization", "value": "Bearer " + secret}}},
	}
}

// What an editor gives MCP servers reaches the agent, and nothing that is kept.
func TestSecretsOfMCPServersAreForTheAgentAlone(t *testing.T) {
	const secret, rotated = "PLANTED-ONE", "PLANTED-TWO"
	dir := t.TempDir()
	st, err := store.Open(dir, store.Options{})
	if err != nil {
		t.Fatal(err)
	}
	var agents opened
	r := newRoomOn(t, st, agents.script(), nil)
	call := func(e *acpclient.Client, method string, params map[string]any) {
		t.Helper()
		if err := e.Call(within(t), method, params, nil); err != nil {
			t.Fatalf("%s: %v", method, err)
		}
	}
	prompt := func(e *acpclient.Client, id string) {
		t.Helper()
		if _, err := e.Prompt(within(t), id, "go"); err != nil {
			t.Fatal(err)
		}
	}
	given := func(when, id, want string) {
		t.Helper()
		if got := agents.of(id); strings.Count(got, want) != 2 || strings.Contains(got, "(not kept)") {
			t.Errorf("%s the agent is given %s", when, got)
		}
	}
	var s acpclient.Session
	if err := r.a.Call(within(t), "session/new", map[string]any{"cwd": r.cwd, "mcpServers": servers(secret)}, &s); err != nil {
		t.Fatal(err)
	}
	given("when it is made", s.ID, secret)
	// The same servers with the same values are nothing new, also for who joins.
	n := agents.count()
	call(r.a, "session/load", map[string]any{"sessionId": s.ID, "cwd": r.cwd, "mcpServers": servers(secret)})
	b := r.join(acpclient.Options{})
	call(b, "session/load", map[string]any{"sessionId": s.ID, "cwd": r.cwd, "mcpServers": servers(secret)})
	prompt(b, s.ID)
	if agents.count() != n {
		t.Error("another agent was opened for the same servers")
	}
	call(b, "session/close", map[string]any{"sessionId": s.ID})
	// Another value is, from the next turn on.
	call(r.a, "session/load", map[string]any{"sessionId": s.ID, "cwd": r.cwd, "mcpServers": servers(rotated)})
	prompt(r.a, s.ID)
	given("with another value", s.ID, rotated)
	// Who does not name the servers takes nothing away.
	call(r.a, "session/resume", map[string]any{"sessionId": s.ID, "cwd": r.cwd})
	prompt(r.a, s.ID)
	given("after a resume", s.ID, rotated)
	var fork acpclient.Session
	if err := r.a.Call(within(t), "session/fork", map[string]any{"sessionId": s.ID, "cwd": r.cwd}, &fork); err != nil {
		t.Fatal(err)
	}
	prompt(r.a, fork.ID)
	given("in a fork", fork.ID, rotated)

	var all []string
	for _, id := range []string{s.ID, fork.ID} {
		for _, method := range []string{"_hermes/status", "_hermes/sessions/show", "_hermes/sessions/tail", "session/list"} {
			var reply json.RawMessage
			if err := r.a.Call(within(t), method, map[string]any{"sessionId": id}, &reply); err != nil {
				t.Fatal(err)
			}
			all = append(all, string(reply))
		}
	}
	r.Drain()
	if err := st.Close(); err != nil {
		t.Fatal(err)
	}
	for _, text := range append(all, folder(t, dir)) {
		if i := strings.Index(text, "PLANTED"); i >= 0 {
			t.Errorf("it is kept: %q", text[max(0, i-100):min(len(text), i+100)])
		}
	}

	// Another daemon: an editor that loads gives them again.
	if st, err = store.Open(dir, store.Options{}); err != nil {
		t.Fatal(err)
	}
	defer st.Close()
	again := daemontest.NewHouse(t, st, agents.script(), nil)
	defer again.Drain()
	e := again.Editor(acpclient.Options{})
	call(e, "session/resume", map[string]any{"sessionId": s.ID, "cwd": r.cwd})
	prompt(e, s.ID)
	if got := agents.of(s.ID); strings.Count(got, "(not kept)") != 1+1 || strings.Contains(got, "PLANTED") {
		t.Errorf("without them the agent is given %s", got)
	}
	call(e, "session/load", map[string]any{"sessionId": s.ID, "cwd": r.cwd, "mcpServers": servers(secret)})
	prompt(e, s.ID)
	given("by another daemon", s.ID, secret)
}

// folder is all that stands in the files of a folder.
func folder(t *testing.T, dir string) string {
	t.Helper()
	var all strings.Builder
	err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		b, err := os.ReadFile(path)
		all.Write(b)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return all.String()
}
