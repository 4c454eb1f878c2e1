package session

import (
	"encoding/json"

	"github.com/hermesd/hermesd/transport/acp"
)

// What MCP servers are given in their environments and headers are mostly keys of
// others. They are in no event and not in the store: the session keeps them while
// it is in memory, for the agents it opens. Every editor gives them again when it
// loads the session.

// keepServers keeps servers as an editor gave them, and returns what may be
// written of them. Servers that come from the log say nothing new.
func (s *Session) keepServers(given json.RawMessage) (written json.RawMessage) {
	written = acp.WithholdSecrets(given)
	if !acp.IsWithheld(given) {
		s.servers = given
	}
	return written
}

// serversOf is what an agent is opened with: as they were given, if those are the
// ones that are written.
func (s *Session) serversOf(m Meta) json.RawMessage {
	if s.servers != nil && sameJSON(acp.WithholdSecrets(s.servers), m.MCPServers) {
		return s.servers
	}
	return m.MCPServers
}

// otherSecrets says whether given are the servers that are written, with values
// that the session does not know.
func (s *Session) otherSecrets(given, written json.RawMessage) bool {
	return !sameJSON(given, written) && !acp.IsWithheld(given) && !sameJSON(s.servers, given)
}
