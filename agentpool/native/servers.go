package native

import (
	"cmp"
	"context"
	"crypto/rand"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/hermesd/hermesd/agentpool/native/llm"
	"github.com/hermesd/hermesd/agentpool/native/mcp"
	"github.com/hermesd/hermesd/agentpool/native/tool"
	"github.com/hermesd/hermesd/daemon/session"
	"github.com/hermesd/hermesd/transport/acp"
)

// This file is what the agent has to do with MCP servers: which there are, what
// a model is told of their tools and when, and what the user is told of them.
//
// A model is listed the tools that are ready at the session's first request;
// the list is part of the prefix and never changes. Tools that come later, or
// change, or go, it is told of by a note beside the next prompt, and it reaches
// them through mcp_call, which is always in the list.

// MCPConfig is what the configuration says of MCP servers. Zero values mean
// the defaults.
type MCPConfig struct {
	Servers     []mcp.Server  // of every session, beside its own
	Wait        time.Duration // how long a first turn waits for servers that are starting; 0: not at all
	StartTime   time.Duration // a server may take to be ready
	CallTime    time.Duration // a call may take without a sign of life
	ResultLimit int           // bytes of text taken of a result
}

// serversOf lists the servers of a session: its own, and those of the
// configuration that have no namesake among them. A namesake's time limit
// counts for the session's own.
func serversOf(meta session.Meta, cfg MCPConfig) ([]mcp.Server, error) {
	own, err := acp.ParseMCPServers(meta.MCPServers)
	if err != nil {
		return cfg.Servers, err
	}
	var all []mcp.Server
	named := map[string]bool{}
	for _, s := range own {
		if s.Withheld() {
			named[s.Name] = true // nor is a namesake what the session means
			continue
		}
		server := mcp.Server{Name: s.Name, Transport: s.Type, Command: s.Command, Args: s.Args, URL: s.URL, Env: pairs(s.Env), Headers: pairs(s.Headers)}
		for _, c := range cfg.Servers {
			if c.Name == s.Name {
				server.Timeout = c.Timeout
			}
		}
		named[s.Name] = true
		all = append(all, server)
	}
	for _, c := range cfg.Servers {
		if !named[c.Name] {
			all = append(all, c)
		}
	}
	return all, nil
}

// withheld are the servers of a session that nobody has given their environment
// or headers for.
func withheld(meta session.Meta) (names []string) {
	own, err := acp.ParseMCPServers(meta.MCPServers)
	if err != nil {
		return nil // said already
	}
	for _, s := range own {
		if s.Withheld() {
			names = append(names, s.Name)
		}
	}
	return names
}

func pairs(all []acp.Pair) []mcp.Pair {
	out := make([]mcp.Pair, len(all))
	for i, p := range all {
		out[i] = mcp.Pair(p)
	}
	return out
}

// openServers starts the session's servers, in the environment of the connection
// that the agent is opened for.
func (a *Agent) openServers(spec session.Spec) {
	servers, err := serversOf(spec.Meta, a.cfg.MCP)
	environ := a.findEnviron // may take its time: whoever makes a session does not wait for it
	if spec.Environ != nil {
		given := a.cfg.Credentials.Strip(spec.Environ)
		environ = func(context.Context) []string { return given }
	}
	a.servers = mcp.Open(servers, mcp.Options{
		Version: a.cfg.Version, Cwd: a.env.Cwd, Dirs: a.env.Dirs, Environ: environ,
		StartTime: a.cfg.MCP.StartTime, CallTime: a.cfg.MCP.CallTime, ResultLimit: a.cfg.MCP.ResultLimit,
		Tell: a.tell,
	})
	if names := withheld(spec.Meta); len(names) > 0 {
		a.tell("Not started: the MCP servers " + strings.Join(names, ", ") + ". What an editor gives them in environment or headers is not kept on disk, and none has given it since hermesd started. Load the session in the editor that has it.")
	}
	if err != nil {
		a.tell("The session's MCP servers cannot be read, and so none of them is used: " + err.Error())
	}
}

// tell says something to the user that belongs to no turn. While one runs it
// waits for a place between two messages.
func (a *Agent) tell(text string) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.closed {
		return
	}
	a.news = append(a.news, text)
	if a.turn == 0 && len(a.news) == 1 {
		a.work.Go(func() { _ = a.sayNews(a.life) })
	}
}

// sayNews says what is waiting to be said. An error is the host's or ctx's.
func (a *Agent) sayNews(ctx context.Context) error {
	a.mu.Lock()
	news := a.news
	a.news = nil
	a.mu.Unlock()
	for _, text := range news {
		// Such a message belongs to no turn that could name it.
		if err := a.host.Update(ctx, appendChunk(chunkHead("agent_message_chunk", "notice_"+rand.Text()), text+"\n\n")); err != nil {
			return err
		}
	}
	return nil
}

// toldTool is a tool as a model was told of it.
type toldTool struct {
	Server string `json:"server"`
	Tool   string `json:"tool"`
	Digest string `json:"digest"`
}

// note is what a model was told beside a prompt, and what it knows then.
type note struct {
	Text string              `json:"text"`
	Told map[string]toldTool `json:"told"` // by full name
}

// Limits of what a model is told.
const (
	maxListed       = 100       // tools of servers in a list; one provider takes 128 in all
	maxListedBytes  = 192 << 10 // of their descriptions and schemas
	maxNoted        = 100       // lines of a note
	maxInstructions = 2000      // bytes of a server
)

// listServers adds to a prefix the tools that are ready, and what servers say
// of themselves.
func (p *prefix) listServers(set *mcp.Set) {
	tools := set.Tools()
	p.MCP = map[string]toldTool{}
	bytes := 0
	for _, t := range tools {
		name := mcp.FullName(t.Server, t.Name)
		p.MCP[name] = toldTool{t.Server, t.Name, t.Digest()}
		description, schema := t.Listed()
		if bytes += len(description) + len(schema); len(p.MCP) <= maxListed && bytes <= maxListedBytes {
			p.Tools = append(p.Tools, llm.ToolSpec{Name: name, Description: description, Schema: schema})
		}
	}
	var b strings.Builder
	for _, s := range set.Status() {
		if b.Len() == 0 {
			b.WriteString("\nMCP servers give further tools. Those in your list are named mcp__SERVER__TOOL; mcp_tools lists all there are at the moment, and mcp_call calls one that is not in your list.\n")
		}
		switch s.State {
		case mcp.Ready:
			fmt.Fprintf(&b, "- %s: %d tools\n", s.Name, s.Tools)
			b.WriteString(instructions(s))
		default:
			fmt.Fprintf(&b, "- %s: not ready yet\n", s.Name)
		}
	}
	p.System += b.String()
}

func instructions(s mcp.Status) string {
	text := strings.TrimSpace(s.Instructions)
	if text == "" {
		return ""
	}
	return "  It says of itself: " + strings.ReplaceAll(cutAt(text, maxInstructions), "\n", "\n  ") + "\n"
}

// cutAt cuts a text to n bytes, at a character.
func cutAt(s string, n int) string {
	if len(s) <= n {
		return s
	}
	return strings.ToValidUTF8(s[:n], "") + "…"
}

// noteServers compares what a model was told with what there is; nil if that is the
// same. Tools of a server that does not work at the moment are still told of: a
// call says what is the matter, and starts it.
func (t *turn) noteServers() *note {
	now := map[string]toldTool{}
	lines := map[string]string{}
	ready := map[string]mcp.Status{}
	there := map[string]bool{}
	for _, s := range t.servers.Status() {
		there[s.Name] = true
		if s.State == mcp.Ready {
			ready[s.Name] = s
		}
	}
	for _, x := range t.servers.Tools() {
		name := mcp.FullName(x.Server, x.Name)
		now[name] = toldTool{x.Server, x.Name, x.Digest()}
		lines[name] = x.Line()
	}
	var fresh, changed, gone []string
	knew := map[string]bool{} // servers of which some tool was told
	for _, name := range slices.Sorted(maps.Keys(t.told)) {
		was := t.told[name]
		knew[was.Server] = true
		is, has := now[name]
		_, works := ready[was.Server]
		switch {
		case has && is.Digest != was.Digest:
			changed = append(changed, fmt.Sprintf("- %s of %s has changed", was.Tool, was.Server))
		case !has && (works || !there[was.Server]):
			gone = append(gone, fmt.Sprintf("- %s of %s is gone", was.Tool, was.Server))
		case !has:
			now[name] = was
		}
	}
	for _, name := range slices.SortedFunc(maps.Keys(now), func(a, b string) int {
		return cmp.Or(cmp.Compare(now[a].Server, now[b].Server), cmp.Compare(now[a].Tool, now[b].Tool))
	}) {
		if _, told := t.told[name]; told {
			continue
		}
		is := now[name]
		if s := ready[is.Server]; !knew[is.Server] {
			knew[is.Server] = true
			fresh = append(fresh, strings.TrimRight(fmt.Sprintf("- server %s is ready\n%s", is.Server, instructions(s)), "\n"))
		}
		fresh = append(fresh, fmt.Sprintf("- new, of server %s: %s", is.Server, lines[name]))
	}
	all := slices.Concat(gone, changed, fresh)
	if len(all) == 0 {
		return nil
	}
	if n := len(all) - maxNoted; n > 0 {
		all = append(all[:maxNoted:maxNoted], fmt.Sprintf("- and %d more: see mcp_tools", n))
	}
	return &note{
		Text: "<system-note>\nThe tools of MCP servers are not what you were told before. Call what is new with mcp_call; mcp_tools describes arguments.\n" +
			strings.Join(all, "\n") + "\n</system-note>",
		Told: now,
	}
}

// meetServers waits for servers that are in their first start, once, and puts
// a note on what has changed since beside the prompt.
func (t *turn) meetServers(ctx context.Context, prompt *llm.Message) error {
	t.servers.Nudge()
	if !t.met {
		t.met = true
		t.servers.Wait(ctx, t.cfg.MCP.Wait)
	}
	if t.prefix == nil || ctx.Err() != nil {
		return ctx.Err()
	}
	n := t.noteServers()
	if n == nil {
		return nil
	}
	if err := t.host.Record(ctx, encode(record{Note: n, Session: t.id})); err != nil {
		return err
	}
	prompt.Parts = append(prompt.Parts, llm.Part{Note: n.Text})
	t.told = n.Told
	return nil
}

// find returns the tool a model means by a name.
func (t *turn) find(name string) tool.Tool {
	if found := t.tools.Find(name); found != nil {
		return found
	}
	if t.prefix != nil {
		if m, ok := t.prefix.MCP[name]; ok {
			return t.servers.Tool(m.Server, m.Tool)
		}
	}
	return nil
}

// listServers is the answer to /mcp.
func (a *Agent) listServers() string {
	all := a.servers.Status()
	if len(all) == 0 {
		return "This session has no MCP servers."
	}
	var b strings.Builder
	b.WriteString("MCP servers:\n\n")
	for _, s := range all {
		fmt.Fprintf(&b, "- `%s`: ", s.Name)
		switch s.State {
		case mcp.Ready:
			fmt.Fprintf(&b, "%d tools\n", s.Tools)
		case mcp.Failed:
			fmt.Fprintf(&b, "does not work: %s\n", s.Reason)
		default:
			b.WriteString("starting\n")
		}
	}
	return b.String()
}
