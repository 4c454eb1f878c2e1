package configs

import (
	"maps"
	"net/url"
	"slices"
	"strings"

	"github.com/BurntSushi/toml"
)

// MCP is what the built-in agents need to know to use MCP servers.
type MCP struct {
	Wait   Duration `toml:"wait"`   // of a session's first turn for servers that are starting
	Start  Duration `toml:"start"`  // that a server may take to be ready
	Call   Duration `toml:"call"`   // that a call may take without a sign of life
	Result Size     `toml:"result"` // of text taken of one result
	// Servers of every session, by name, beside those an editor gives it.
	Servers map[string]MCPServer `toml:"servers"`
}

// MCPServer is one server: a program, or a URL.
type MCPServer struct {
	// Type is one of MCPTypes. It is inferred when it is not given: "stdio" with
	// a command, "http" with a URL.
	Type    string            `toml:"type"`
	Command []string          `toml:"command"` // the program and its arguments
	Env     map[string]string `toml:"env"`     // of the program, added to the daemon's
	URL     string            `toml:"url"`
	Headers map[string]string `toml:"headers"` // of every request
	Call    Duration          `toml:"call"`    // like MCP.Call, for this server; 0: the same
	// Trusted says that what the server says of its tools is true: those that
	// only read are then not asked about.
	Trusted bool `toml:"trusted"`
}

// MCPTypes lists the allowed values of a server's type.
func MCPTypes() []string { return []string{"stdio", "http", "sse"} }

func defaultMCP() MCP {
	return MCP{Wait: 2 * second, Start: 60 * second, Call: 5 * minute, Result: 96 * KiB}
}

// withDefaults fills in what the server's table leaves out.
func (s MCPServer) withDefaults() MCPServer {
	switch {
	case s.Type != "":
	case len(s.Command) > 0:
		s.Type = "stdio"
	case s.URL != "":
		s.Type = "http"
	}
	return s
}

// invalid reports every value that is not allowed. Values
// that may be secret are not repeated.
func (m MCP) invalid(md toml.MetaData, bad func(key toml.Key, format string, args ...any)) {
	if m.Wait < 0 || m.Wait > 60*second {
		bad(toml.Key{"mcp", "wait"}, "%s is not allowed; choose 0s to 1m", m.Wait)
	}
	for key, d := range map[string]Duration{"start": m.Start, "call": m.Call} {
		if d < second {
			bad(toml.Key{"mcp", key}, "%s is not allowed; choose 1s or more", d)
		}
	}
	if m.Result < 1*KiB || m.Result > 16*MiB {
		bad(toml.Key{"mcp", "result"}, "%s is not allowed; choose %s to %s", m.Result, Size(1*KiB), Size(16*MiB))
	}
	for _, name := range slices.Sorted(maps.Keys(m.Servers)) {
		s := m.Servers[name]
		key := func(k ...string) toml.Key { return append(toml.Key{"mcp", "servers", name}, k...) }
		foreign := func(keys ...string) {
			for _, k := range keys {
				if md.IsDefined(key(k)...) {
					bad(key(k), "is not of servers of the type %q; remove it", s.Type)
				}
			}
		}
		if !agentName.MatchString(name) {
			bad(key(), "a name of a server has letters, digits, \"-\", \"_\" and \".\", begins with a letter or digit and has at most 64 characters")
		}
		if s.Call != 0 && s.Call < second {
			bad(key("call"), "%s is not allowed; choose 1s or more", s.Call)
		}
		switch s.Type {
		case "stdio":
			if len(s.Command) == 0 || s.Command[0] == "" {
				bad(key("command"), "is missing; say what to start, as in command = [\"npx\", \"-y\", \"some-server\"]")
			}
			for n, v := range s.Env {
				if n == "" || strings.ContainsAny(n, "=\x00") || strings.ContainsRune(v, 0) {
					bad(key("env", n), "is no environment variable")
				}
			}
			foreign("url", "headers")
		case "http", "sse":
			if u, err := url.Parse(s.URL); err != nil || u.Host == "" || u.Scheme != "http" && u.Scheme != "https" {
				bad(key("url"), "is no address; write it as in url = \"https://example.org/mcp\"")
			}
			for n, v := range s.Headers {
				if n == "" || strings.ContainsAny(n, " :\r\n") || strings.ContainsAny(v, "\r\n\x00") {
					bad(key("headers", n), "is no HTTP header")
				}
			}
			foreign("command", "env")
		case "":
			bad(key(), "has neither command nor url; say how the server is reached")
		default:
			bad(key("type"), "%q is not allowed; choose one of: %s", s.Type, strings.Join(MCPTypes(), ", "))
		}
	}
}
