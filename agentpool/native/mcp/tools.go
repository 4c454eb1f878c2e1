package mcp

import (
	"bytes"
	"context"
	_ "embed"
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	"github.com/hermesd/hermesd/agentpool/native/tool"
)

// WithAsker returns a context in which the calls of servers can ask the user.
func WithAsker(ctx context.Context, a Asker) context.Context {
	return context.WithValue(ctx, askerKey{}, a)
}

type askerKey struct{}

// Generic returns the two tools through which a model reaches all others. They
// do not depend on which servers there are, so a list of tools that is told
// once need never change.
func (set *Set) Generic() []tool.Tool { return []tool.Tool{listTool{set}, callTool{set}} }

// Tool is a tool of a server under its full name.
func (set *Set) Tool(server, name string) tool.Tool { return serverTool{set, server, name} }

// serverTool is one tool of a server.
type serverTool struct {
	set          *Set
	server, name string
}

func (t serverTool) Name() string { return FullName(t.server, t.name) }
func (t serverTool) Kind() string { return "other" }

func (t serverTool) found() Tool {
	found, err := t.set.Find(t.server, t.name)
	if err != nil {
		found = Tool{Server: t.server, Name: t.name}
	}
	return found
}

func (t serverTool) Description() string {
	description, _ := t.found().Listed()
	return description
}

func (t serverTool) Schema() json.RawMessage {
	_, schema := t.found().Listed()
	return schema
}

func (t serverTool) Plan(_ context.Context, _ *tool.Env, args json.RawMessage) (*tool.Action, error) {
	return t.set.plan(t.server, t.name, args)
}

const maxShown = 4 << 10 // bytes of arguments in a question

// plan says what a call of a tool would do. Hints of the server choose words
// and the icon, and nothing else: whatever it says, and whenever it says it (a
// list of tools can change after an "always"), a call is one that may do
// anything. Only if the user has vouched for the server is a tool that says it
// only reads taken at its word.
func (set *Set) plan(server, name string, args json.RawMessage) (*tool.Action, error) {
	t, err := set.Find(server, name)
	if err != nil {
		return nil, err
	}
	if len(bytes.TrimSpace(args)) == 0 || string(args) == "null" {
		args = json.RawMessage("{}")
	}
	var object map[string]json.RawMessage
	if json.Unmarshal(args, &object) != nil {
		return nil, errors.New("reading the arguments: they must be a JSON object")
	}
	a := &tool.Action{
		Title: clean(server, 60) + ": " + clean(name, 80),
		Kind:  "other",
		Need: tool.Need{
			Class:   tool.Calling,
			Grants:  []string{grantName(server, name)},
			Scope:   fmt.Sprintf("the tool %s of the MCP server %s", clean(name, 80), quoted(server)),
			Lasting: true,
		},
	}
	says := ""
	switch {
	case t.Hints.ReadOnly:
		a.Kind, says = "read", "It says that it only reads."
		if t.Hints.OpenWorld {
			a.Kind = "fetch"
		}
		if set.Trusted(server) {
			a.Need.Class = tool.Free
		}
	case t.Hints.Destructive:
		says = "It says that it may destroy something."
	}
	if t.Title != "" && t.Title != name {
		says = strings.TrimSpace(clean(t.Title, 120) + ". " + says)
	}
	if says != "" {
		a.Content = append(a.Content, tool.Content{Text: says})
	}
	if len(object) > 0 {
		var pretty bytes.Buffer
		_ = json.Indent(&pretty, args, "", "  ") // it is JSON
		a.Content = append(a.Content, tool.Content{Text: tool.Fence("json", cut(pretty.String(), maxShown, "…"))})
	}
	a.Run = func(ctx context.Context, show func([]tool.Content)) (tool.Result, error) {
		asker, _ := ctx.Value(askerKey{}).(Asker)
		res, err := set.Call(ctx, server, name, args, asker, func(p Progress) {
			show(append(a.Content[:len(a.Content):len(a.Content)], tool.Content{Text: p.String()}))
		})
		if err != nil {
			return tool.Result{}, err
		}
		return Result(res, set.opts.ResultLimit), nil
	}
	return a, nil
}

// grantName names a tool in what is allowed for good, as no other tool is.
func grantName(server, name string) string {
	if strings.Contains(server, "/") || strings.Contains(name, "/") {
		return FullName(server, name)
	}
	return server + "/" + name
}

//go:embed mcp_call.md
var callText string

// callTool is mcp_call.
type callTool struct{ set *Set }

func (callTool) Name() string        { return "mcp_call" }
func (callTool) Kind() string        { return "other" }
func (callTool) Description() string { return strings.TrimSpace(callText) }
func (callTool) Schema() json.RawMessage {
	return json.RawMessage(`{"type":"object","properties":{"server":{"type":"string"},"tool":{"type":"string"},"arguments":{"type":"object"}},"required":["server","tool"]}`)
}

func (c callTool) Plan(_ context.Context, _ *tool.Env, args json.RawMessage) (*tool.Action, error) {
	var in struct {
		Server    string          `json:"server"`
		Tool      string          `json:"tool"`
		Arguments json.RawMessage `json:"arguments"`
	}
	if err := decode(args, &in); err != nil {
		return nil, err
	}
	// Some models write an object as a string.
	var text string
	if json.Unmarshal(in.Arguments, &text) == nil && json.Valid([]byte(text)) {
		in.Arguments = json.RawMessage(text)
	}
	return c.set.plan(in.Server, in.Tool, in.Arguments)
}

//go:embed mcp_tools.md
var listText string

// listTool is mcp_tools.
type listTool struct{ set *Set }

func (listTool) Name() string        { return "mcp_tools" }
func (listTool) Kind() string        { return "read" }
func (listTool) Description() string { return strings.TrimSpace(listText) }
func (listTool) Schema() json.RawMessage {
	return json.RawMessage(`{"type":"object","properties":{"server":{"type":"string","description":"Only its tools"},"tool":{"type":"string","description":"With server: all there is to know of this tool"}}}`)
}

func (l listTool) Plan(_ context.Context, _ *tool.Env, args json.RawMessage) (*tool.Action, error) {
	var in struct{ Server, Tool string }
	if err := decode(args, &in); err != nil {
		return nil, err
	}
	a := &tool.Action{Title: "List MCP tools"}
	switch {
	case in.Server != "" && in.Tool != "":
		if _, err := l.set.Find(in.Server, in.Tool); err != nil {
			return nil, err
		}
		a.Title = "Describe " + clean(in.Tool, 80) + " of " + clean(in.Server, 60)
	case in.Tool != "":
		return nil, errors.New("reading the arguments: a tool needs its server")
	case in.Server != "" && l.set.server(in.Server) == nil:
		return nil, fmt.Errorf("there is no MCP server %q in this session%s", in.Server, l.set.names())
	}
	a.Run = func(context.Context, func([]tool.Content)) (tool.Result, error) {
		text := l.list(in.Server)
		if in.Tool != "" {
			text = l.describe(in.Server, in.Tool)
		}
		return tool.Result{Text: text, Content: []tool.Content{{Text: text}}}, nil
	}
	return a, nil
}

const maxList = 64 << 10 // bytes of a list

func (l listTool) list(only string) string {
	var b strings.Builder
	tools := l.set.Tools()
	for _, s := range l.set.Status() {
		if only != "" && s.Name != only {
			continue
		}
		switch s.State {
		case Ready:
			fmt.Fprintf(&b, "%s (%d tools):\n", quoted(s.Name), s.Tools)
			for _, t := range tools {
				if t.Server == s.Name {
					fmt.Fprintf(&b, "- %s\n", t.Line())
				}
			}
		case Failed:
			fmt.Fprintf(&b, "%s does not work: %s\n", quoted(s.Name), s.Reason)
		default:
			fmt.Fprintf(&b, "%s is starting.\n", quoted(s.Name))
		}
	}
	if b.Len() == 0 {
		return "There is no MCP server in this session."
	}
	return cut(b.String(), maxList, "…\n(The list is cut: ask for one server.)")
}

func (l listTool) describe(server, name string) string {
	t, err := l.set.Find(server, name)
	if err != nil {
		return err.Error()
	}
	if t.Schema == nil {
		return fmt.Sprintf("The MCP server %s is not ready: nothing is known of its tools yet.", quoted(server))
	}
	return cut(fmt.Sprintf("%s of %s\n\n%s\n\nIts arguments, as JSON schema:\n%s", name, quoted(server), t.Description, t.Schema), 2*maxList, "…\n(It is longer, and cut.)")
}

// Line names the tool and says in a line what it does.
func (t Tool) Line() string {
	what := t.Description
	if what == "" {
		what = t.Title
	}
	what, _, _ = strings.Cut(strings.TrimSpace(what), "\n")
	if what = clean(what, 160); what == "" {
		return t.Name
	}
	return t.Name + ": " + what
}

// decode reads arguments strictly.
func decode(args json.RawMessage, into any) error {
	if len(bytes.TrimSpace(args)) == 0 {
		return nil
	}
	dec := json.NewDecoder(bytes.NewReader(args))
	dec.DisallowUnknownFields()
	if err := dec.Decode(into); err != nil {
		return fmt.Errorf("reading the arguments: %s", strings.TrimPrefix(err.Error(), "json: "))
	}
	return nil
}
