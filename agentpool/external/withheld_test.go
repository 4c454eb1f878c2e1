//go:build unix

package external

import (
	"context"
	"encoding/json"
	"strings"
	"testing"

	"github.com/hermesd/hermesd/daemon/session"
)

// A program is not given a server without its secrets, and the user is told.
func TestAServerWithoutItsSecretsIsLeftOut(t *testing.T) {
	w := newWorld(t, "")
	a, _, err := Open(context.Background(), session.Spec{Fresh: true, Meta: session.Meta{ID: "sess", Cwd: w.dir, MCPServers: json.RawMessage(
		`[{"name":"waits","command":"x","args":[],"env":[{"name":"E","value":"(not kept)"}]},{"name":"goes","command":"y","args":[],"env":[{"name":"E","value":"v"}]}]`)}}, w.host, w.cfg)
	if err != nil {
		t.Fatal(err)
	}
	defer a.Close()
	if heard := w.heard(); strings.Contains(heard, "waits") || strings.Contains(heard, "(not kept)") || !strings.Contains(heard, `"name":"goes"`) {
		t.Errorf("it was told %s", heard)
	}
	w.until("the notice", func() bool {
		return strings.Contains(w.said(), "The MCP server waits is left out")
	})
}
