package mcp

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"
)

// Tool is a tool of a server, as it was when the server listed it.
type Tool struct {
	Server      string
	Name        string
	Title       string
	Description string
	Schema      json.RawMessage // of the arguments, as the server gave it; its keys are sorted
	Hints       Hints
}

// Hints are what a server says of its own tool. Nobody has to believe them.
type Hints struct {
	ReadOnly    bool
	Destructive bool // said, not assumed
	OpenWorld   bool // said, not assumed
}

// Digest changes when what a model was told of the tool does.
func (t Tool) Digest() string {
	sum := sha256.Sum256([]byte(t.Description + "\x00" + string(t.Schema)))
	return hex.EncodeToString(sum[:6])
}

// Limits of what is listed to a model.
const (
	maxTools       = 1000     // of one server
	maxDescription = 1000     // bytes; one provider refuses 1024 characters and more
	maxSchema      = 48 << 10 // bytes
	maxText        = 64 << 10 // of a description that is kept at all
)

const (
	descriptionCut = "… (mcp_tools has the rest)"
	anyObject      = `{"type":"object"}`
)

// Listed is the tool as a model is listed it: every provider takes it.
// Descriptions are cut; a schema that some provider would refuse is replaced
// by one that takes any object, and what it says stands in the description.
func (t Tool) Listed() (description string, schema json.RawMessage) {
	description = strings.TrimSpace(t.Description)
	if description == "" {
		description = t.Title
	}
	if description == "" {
		description = "The tool " + t.Name + " of the MCP server " + t.Server + "."
	}
	schema = listedSchema(t.Schema)
	if string(schema) == anyObject && string(t.Schema) != anyObject && len(t.Schema) > 0 {
		description = cut(description, maxDescription/2, "…") + "\nIts arguments: see mcp_tools."
	}
	return cut(description, maxDescription, descriptionCut), schema
}

// listedSchema returns the schema if every provider takes it. They want an
// object at the top, and nothing there that makes it a choice of several.
func listedSchema(schema json.RawMessage) json.RawMessage {
	var top map[string]json.RawMessage
	if len(schema) > maxSchema || json.Unmarshal(schema, &top) != nil || string(top["type"]) != `"object"` {
		return json.RawMessage(anyObject)
	}
	for _, refused := range []string{"anyOf", "oneOf", "allOf", "not", "enum", "if"} {
		if _, there := top[refused]; there {
			return json.RawMessage(anyObject)
		}
	}
	delete(top, "$schema")
	delete(top, "$id")
	if _, there := top["properties"]; !there {
		top["properties"] = json.RawMessage("{}") // one provider wants it to be there
	}
	return encode(top)
}

// readTools takes what a server listed. What has no usable name is left out;
// the order is that of the names, so it does not depend on the server.
func readTools(server string, listed []*sdk.Tool) []Tool {
	var all []Tool
	seen := map[string]bool{}
	for _, l := range listed {
		if l == nil || l.Name == "" || len(l.Name) > 256 || seen[l.Name] || !utf8.ValidString(l.Name) || strings.ContainsFunc(l.Name, unicode.IsControl) {
			continue
		}
		seen[l.Name] = true
		t := Tool{Server: server, Name: l.Name, Title: clean(l.Title, 200), Description: cut(strings.ToValidUTF8(l.Description, "\uFFFD"), maxText, "…"), Schema: encode(l.InputSchema)}
		if a := l.Annotations; a != nil {
			if t.Title == "" {
				t.Title = clean(a.Title, 200)
			}
			t.Hints.ReadOnly = a.ReadOnlyHint
			t.Hints.Destructive = !a.ReadOnlyHint && a.DestructiveHint != nil && *a.DestructiveHint
			t.Hints.OpenWorld = a.OpenWorldHint != nil && *a.OpenWorldHint
		}
		all = append(all, t)
	}
	slices.SortFunc(all, func(a, b Tool) int { return strings.Compare(a.Name, b.Name) })
	return all
}

// clean is text of others on one line, without what could make it look like
// something else.
func clean(s string, n int) string {
	s = strings.Map(func(r rune) rune {
		switch {
		case unicode.IsSpace(r):
			return ' '
		case unicode.IsControl(r), unicode.Is(unicode.Bidi_Control, r), r == utf8.RuneError:
			return '\uFFFD'
		}
		return r
	}, s)
	return cut(strings.Join(strings.Fields(s), " "), n, "…")
}

// cut shortens s to at most n bytes, at a character, with note at its end.
func cut(s string, n int, note string) string {
	if len(s) <= n {
		return s
	}
	n = max(0, n-len(note))
	for n > 0 && !utf8.RuneStart(s[n]) {
		n--
	}
	return s[:n] + note
}

// encode is json.Marshal without the escapes for HTML; of what cannot be
// written, null.
func encode(v any) json.RawMessage {
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	if enc.Encode(v) != nil {
		return json.RawMessage("null")
	}
	return bytes.TrimRight(b.Bytes(), "\n")
}
