package native

import (
	"encoding/json"
	"slices"
	"testing"

	"github.com/hermesd/hermesd/agentpool/native/mcp"
	"github.com/hermesd/hermesd/daemon/session"
)

// A server that nobody has given its secrets since the daemon started is not
// started with others, nor is one of the same name in its place.
func TestAServerWithoutItsSecretsIsNotStarted(t *testing.T) {
	meta := session.Meta{MCPServers: json.RawMessage(`[{"name":"a","command":"x","env":[{"name":"E","value":"(not kept)"}]},{"type":"http","name":"b","url":"http://b","headers":[{"name":"H","value":"(not kept)"}]},{"name":"c","command":"y","env":[]}]`)}
	all, err := serversOf(meta, MCPConfig{Servers: []mcp.Server{{Name: "a", Command: "configured"}, {Name: "d", Command: "z"}}})
	var names []string
	for _, s := range all {
		names = append(names, s.Name)
	}
	if err != nil || !slices.Equal(names, []string{"c", "d"}) {
		t.Errorf("%v, %v", names, err)
	}
	if got := withheld(meta); !slices.Equal(got, []string{"a", "b"}) {
		t.Errorf("%v are told of", got)
	}
	if got := withheld(session.Meta{}); got != nil {
		t.Errorf("%v are told of", got)
	}
}
