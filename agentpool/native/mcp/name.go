package mcp

import (
	"crypto/sha256"
	"encoding/hex"
	"strings"
)

// maxName is the longest name that every provider takes.
const maxName = 64

// FullName is what a model calls a tool that it is listed: it depends on the
// names of server and tool alone, so it is the same in every life of a session,
// whoever else is connected. Where the names do not fit into what providers
// take (letters, digits, "_" and "-", 64 of them), or would be ambiguous, a
// few digits of their hash stand at the end.
func FullName(server, tool string) string {
	s, t := plain(server), plain(tool)
	name := "mcp__" + s + "__" + t
	if s == server && t == tool && len(name) <= maxName &&
		!strings.Contains(server, "__") && !strings.HasSuffix(server, "_") && !strings.HasPrefix(tool, "_") {
		return name
	}
	sum := sha256.Sum256([]byte(server + "\x00" + tool))
	tail := "_" + hex.EncodeToString(sum[:4])
	if len(name) > maxName-len(tail) {
		// The tool's name says more than the server's.
		s = s[:min(len(s), max(8, maxName-len(tail)-len("mcp____")-len(t)))]
		if name = "mcp__" + s + "__" + t; len(name) > maxName-len(tail) {
			name = name[:maxName-len(tail)]
		}
	}
	return name + tail
}

// plain puts "_" in place of what providers do not take.
func plain(s string) string {
	return strings.Map(func(r rune) rune {
		switch {
		case r >= 'a' && r <= 'z', r >= 'A' && r <= 'Z', r >= '0' && r <= '9', r == '_', r == '-':
			return r
		}
		return '_'
	}, s)
}
