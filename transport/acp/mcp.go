package acp

import (
	"encoding/json"
	"fmt"
	"net/url"
	"strings"
)

// Transports of MCP servers.
const (
	MCPStdio = "stdio"
	MCPHTTP  = "http"
	MCPSSE   = "sse"
)

// MCPServer is one entry of `mcpServers`. Env and Headers may be secret.
type MCPServer struct {
	Name    string
	Type    string // MCPStdio, MCPHTTP or MCPSSE
	Command string // of stdio
	Args    []string
	Env     []Pair
	URL     string // of http and sse
	Headers []Pair
	Raw     json.RawMessage
}

// Pair is a named value: an environment variable or an HTTP header.
type Pair struct{ Name, Value string }

// ParseMCPServers reads an array of MCP servers, such as a session stores it.
// Absent and null mean none.
func ParseMCPServers(servers json.RawMessage) ([]MCPServer, error) {
	all, _, err := parseMCPServers(servers)
	return all, err
}

// CheckTransports refuses servers whose transport was not advertised; stdio is
// always there.
func CheckTransports(servers []MCPServer, http, sse bool) error {
	for i, s := range servers {
		if s.Type == MCPHTTP && !http || s.Type == MCPSSE && !sse {
			return bad(fmt.Sprintf("mcpServers[%d].type", i), "%q was not advertised by this agent", s.Type)
		}
	}
	return nil
}

func parseMCPServers(v json.RawMessage) ([]MCPServer, json.RawMessage, error) {
	none := json.RawMessage("[]")
	if len(v) == 0 || isNull(v) {
		return nil, none, nil
	}
	items, ok := Elements(v)
	if !ok {
		return nil, nil, bad("mcpServers", "must be an array, not %s", shown(v))
	}
	if len(items) == 0 {
		return nil, none, nil
	}
	servers := make([]MCPServer, 0, len(items))
	raws := make([]json.RawMessage, 0, len(items))
	named := make(map[string]int, len(items))
	changed := false
	for i, item := range items {
		path := fmt.Sprintf("mcpServers[%d]", i)
		s, err := parseMCPServer(item, path)
		if err != nil {
			return nil, nil, err
		}
		if first, twice := named[s.Name]; twice {
			return nil, nil, bad(path+".name", "%s is the name of mcpServers[%d] already; each server needs a name of its own", shownText(s.Name), first)
		}
		named[s.Name] = i
		changed = changed || len(s.Raw) != len(item)
		servers = append(servers, s)
		raws = append(raws, s.Raw)
	}
	if !changed {
		return servers, v, nil
	}
	return servers, List(raws...), nil
}

func parseMCPServer(item json.RawMessage, path string) (MCPServer, error) {
	var none MCPServer
	if item[0] != '{' {
		return none, bad(path, "must be an object, not %s", shown(item))
	}
	s := MCPServer{Type: MCPStdio, Raw: item}
	if v, ok := Get(item, "type"); ok && !isNull(v) {
		t, ok := decodeString(v)
		if !ok {
			return none, bad(path+".type", "must be a string, not %s", shown(v))
		}
		s.Type = t
	}
	switch s.Type {
	case MCPStdio, MCPHTTP, MCPSSE:
	default:
		return none, bad(path+".type", "%s is not a transport we know (stdio, http)", shownText(s.Type))
	}
	var err error
	if s.Name, err = requiredString(item, path, "name"); err != nil {
		return none, err
	}
	if s.Name == "" {
		return none, bad(path+".name", "must not be empty")
	}
	if s.Type == MCPStdio {
		return s, s.stdio(path)
	}
	return s, s.remote(path)
}

func (s *MCPServer) stdio(path string) error {
	var err error
	if s.Command, err = requiredString(s.Raw, path, "command"); err != nil {
		return err
	}
	if s.Command == "" || strings.IndexByte(s.Command, 0) >= 0 {
		return bad(path+".command", "must be the path of a program")
	}
	args, err := s.list(path, "args")
	if err != nil {
		return err
	}
	for i, v := range args {
		at := fmt.Sprintf("%s.args[%d]", path, i)
		arg, ok := decodeString(v)
		if !ok {
			return bad(at, "must be a string, not %s", shown(v))
		}
		if strings.IndexByte(arg, 0) >= 0 {
			return bad(at, "contains a NUL character")
		}
		s.Args = append(s.Args, arg)
	}
	s.Env, err = s.pairs(path, "env", func(p Pair) string {
		switch {
		case p.Name == "" || strings.ContainsAny(p.Name, "=\x00"):
			return "is not the name of an environment variable: " + shownText(p.Name)
		case strings.IndexByte(p.Value, 0) >= 0:
			return "has a value with a NUL character"
		}
		return ""
	})
	return err
}

func (s *MCPServer) remote(path string) error {
	var err error
	if s.URL, err = requiredString(s.Raw, path, "url"); err != nil {
		return err
	}
	// The URL may hold a secret: errors do not repeat it.
	u, err := url.Parse(s.URL)
	if err != nil || u.Host == "" || u.Scheme != "http" && u.Scheme != "https" {
		return bad(path+".url", "must be an http or https URL")
	}
	s.Headers, err = s.pairs(path, "headers", func(p Pair) string {
		switch {
		case !isToken(p.Name):
			return "is not the name of an HTTP header: " + shownText(p.Name)
		case strings.ContainsAny(p.Value, "\r\n\x00"):
			return "has a value that is not allowed in an HTTP header"
		}
		return ""
	})
	return err
}

// list reads an array. Absent or null means empty, and then Raw gets the array
// it must have by the schema.
func (s *MCPServer) list(path, name string) ([]json.RawMessage, error) {
	v, ok := Get(s.Raw, name)
	if !ok || isNull(v) {
		s.Raw = Set(s.Raw, name, []byte("[]"))
		return nil, nil
	}
	items, ok := Elements(v)
	if !ok {
		if name == "args" {
			return nil, bad(path+"."+name, "must be an array of strings, not %s", shown(v))
		}
		return nil, bad(path+"."+name, `must be an array of {"name", "value"} objects, not %s`, shown(v))
	}
	return items, nil
}

// pairs reads an array of names and values. check says what is wrong with one.
func (s *MCPServer) pairs(path, name string, check func(Pair) string) ([]Pair, error) {
	items, err := s.list(path, name)
	if err != nil {
		return nil, err
	}
	var pairs []Pair
	for i, item := range items {
		at := fmt.Sprintf("%s.%s[%d]", path, name, i)
		if item[0] != '{' {
			return nil, bad(at, `must be a {"name", "value"} object`)
		}
		key, err := requiredString(item, at, "name")
		if err != nil {
			return nil, err
		}
		v, ok := Get(item, "value")
		if !ok {
			return nil, bad(at+".value", "is missing")
		}
		value, ok := decodeString(v)
		if !ok {
			// Not shown: it is likely to be a secret.
			return nil, bad(at+".value", "must be a string")
		}
		p := Pair{Name: key, Value: value}
		if wrong := check(p); wrong != "" {
			return nil, bad(at+".name", "%s", wrong)
		}
		pairs = append(pairs, p)
	}
	return pairs, nil
}

// isToken reports whether s may name an HTTP header (RFC 9110, token).
func isToken(s string) bool {
	for i := 0; i < len(s); i++ {
		c := s[i]
		if c <= ' ' || c >= 0x7f || strings.IndexByte(`"(),/:;<=>?@[\]{}`, c) >= 0 {
			return false
		}
	}
	return s != ""
}
