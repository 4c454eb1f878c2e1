package acp

import (
	"encoding/json"
	"strings"
)

// Withheld stands in the place of a value of an MCP server's environment or
// headers where it is not to be kept.
const Withheld = "(not kept)"

// WithholdSecrets gives an array of MCP servers without the values of their
// environments and headers; the names stay, and so does everything else, byte for
// byte. Without any value to withhold it gives servers itself. What is no such
// array is given back as it is.
func WithholdSecrets(servers json.RawMessage) json.RawMessage {
	items, ok := Elements(servers)
	if !ok {
		return servers
	}
	changed := false
	for i, item := range items {
		for _, key := range []string{"env", "headers"} {
			list, ok := Get(item, key)
			if !ok {
				continue
			}
			if clean, some := withholdValues(list); some {
				item = Set(item, key, clean)
				changed = true
			}
		}
		items[i] = item
	}
	if !changed {
		return servers
	}
	return List(items...)
}

func withholdValues(list json.RawMessage) (clean json.RawMessage, some bool) {
	pairs, ok := Elements(list)
	if !ok {
		return list, false
	}
	for i, p := range pairs {
		if v, ok := GetString(p, "value"); ok && v != "" && v != Withheld {
			pairs[i] = Set(p, "value", json.RawMessage(`"`+Withheld+`"`))
			some = true
		}
	}
	if !some {
		return list, false
	}
	return List(pairs...), true
}

// IsWithheld says whether some value of the servers was withheld.
func IsWithheld(servers json.RawMessage) bool {
	if !strings.Contains(string(servers), Withheld) {
		return false
	}
	all, err := ParseMCPServers(servers)
	if err != nil {
		return false
	}
	for _, s := range all {
		if s.Withheld() {
			return true
		}
	}
	return false
}

// Withheld says whether some value of the server was withheld, so that it cannot
// be used.
func (s MCPServer) Withheld() bool {
	for _, pairs := range [][]Pair{s.Env, s.Headers} {
		for _, p := range pairs {
			if p.Value == Withheld {
				return true
			}
		}
	}
	return false
}
