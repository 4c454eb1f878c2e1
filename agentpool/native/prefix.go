package native

import (
	"bytes"
	"compress/flate"
	"encoding/json"
	"fmt"
	"io"
	"runtime"
	"slices"
	"strings"

	"github.com/hermesd/hermesd/agentpool/native/llm"
	"github.com/hermesd/hermesd/agentpool/native/tool"
)

// prefix is what stands before a conversation in every request. It is made at
// the session's first request and recorded: a provider keeps what it has read,
// and reads a conversation anew when a byte at its beginning changes. So it
// also stays when hermesd is updated in the life of a session. A fork has its
// own, because it may stand in another folder.
type prefix struct {
	System string         `json:"system"`
	Tools  []llm.ToolSpec `json:"tools"`
	// MCP are the tools of MCP servers it tells of, by full name.
	MCP map[string]toldTool `json:"mcp,omitempty"`
}

// newPrefix makes the prefix of a session. It says nothing that another
// session in the same folder would say differently, as the time: those have
// the same prefix then.
func newPrefix(env *tool.Env, tools *tool.Registry) *prefix {
	var b strings.Builder
	b.WriteString("You are the agent of hermesd, working in the user's folder through an editor. Use the tools; be brief.\n\n")
	fmt.Fprintf(&b, "Working directory: %s\n", env.Cwd)
	if dirs := slices.Compact(slices.Sorted(slices.Values(env.Dirs))); len(dirs) > 0 {
		fmt.Fprintf(&b, "Further folders of the workspace: %s\n", strings.Join(dirs, ", "))
	}
	fmt.Fprintf(&b, "Operating system: %s\n", runtime.GOOS)
	b.WriteString(projectWords(env.Cwd))
	p := &prefix{System: b.String()}
	for _, t := range tools.All() {
		p.Tools = append(p.Tools, llm.ToolSpec{Name: t.Name(), Description: t.Description(), Schema: t.Schema()})
	}
	return p
}

// pack makes a prefix small for the log: it is mostly the texts of tools, and
// each session has one.
func (p *prefix) pack() []byte {
	var b bytes.Buffer
	z, err := flate.NewWriter(&b, flate.DefaultCompression)
	if err != nil {
		panic(err) // the level is right
	}
	_, _ = z.Write(encode(p)) // a buffer takes everything
	_ = z.Close()
	return b.Bytes()
}

// maxPrefix bounds what unpack makes of a log that nobody knows who wrote.
const maxPrefix = 16 << 20

func unpack(packed []byte) (*prefix, error) {
	text, err := io.ReadAll(io.LimitReader(flate.NewReader(bytes.NewReader(packed)), maxPrefix))
	if err != nil {
		return nil, err
	}
	p := new(prefix)
	return p, json.Unmarshal(text, p)
}

// size is the number of bytes of a prefix, 0 of one that is not made yet.
func (p *prefix) size() int {
	if p == nil {
		return 0
	}
	n := len(p.System)
	for _, t := range p.Tools {
		n += len(t.Name) + len(t.Description) + len(t.Schema)
	}
	return n
}
