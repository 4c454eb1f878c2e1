package daemon_test

import (
	"testing"

	"github.com/hermesd/hermesd/daemon/daemontest"
	"github.com/hermesd/hermesd/transport/acpclient"
)

func TestWhoJoinsAListedSessionTakesNoRootsAway(t *testing.T) {
	st := openStore(t)
	h := daemontest.NewHouse(t, st, &daemontest.Script{}, nil)
	a := h.Editor(acpclient.Options{})
	cwd, more := t.TempDir(), t.TempDir()
	var s acpclient.Session
	err := a.Call(within(t), "session/new", map[string]any{
		"cwd": cwd, "additionalDirectories": []string{more},
		"mcpServers": []any{map[string]any{"name": "m", "command": "m", "args": []string{}, "env": []any{}}},
	}, &s)
	if err != nil {
		t.Fatal(err)
	}
	if err := a.CloseSession(within(t), s.ID); err != nil {
		t.Fatal(err)
	}
	b := h.Editor(acpclient.Options{})
	list, err := b.List(within(t), cwd)
	if err != nil || len(list) != 1 {
		t.Fatalf("listed %v, %v", list, err)
	}
	if _, err := b.Join(within(t), list[0]); err != nil {
		t.Fatal(err)
	}
	m := st.List()[0]
	if len(m.Dirs) != 1 || m.Dirs[0] != more || len(m.MCPServers) < 10 {
		t.Errorf("roots after joining: %v, %s", m.Dirs, m.MCPServers)
	}
}
