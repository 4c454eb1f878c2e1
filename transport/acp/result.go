package acp

import (
	"encoding/json"
	"time"
)

// AgentCaps is what an agent says at initialize that it can do.
type AgentCaps struct {
	Load            bool
	Image           bool
	Audio           bool
	EmbeddedContext bool
	MCPHTTP         bool
	MCPSSE          bool
	List            bool
	Resume          bool
	Close           bool
	Delete          bool
	Fork            bool
	AdditionalDirs  bool
	Logout          bool
	Meta            json.RawMessage // `_meta` of the capabilities
}

// AuthMethod is one way to log in. A terminal method makes the editor run the
// agent's command with Args and Env in a terminal.
type AuthMethod struct {
	ID          string
	Name        string
	Description string
	Terminal    bool
	Args        []string
	Env         []Pair
}

// InitializeResult is the result of `initialize`. Terminal methods are left out
// for editors that did not say they can run one.
func InitializeResult(version int, agent Implementation, caps AgentCaps, methods []AuthMethod, client ClientCaps, meta json.RawMessage) json.RawMessage {
	var prompt, mcp, session, auth, all Builder
	prompt.Bool("image", caps.Image).Bool("audio", caps.Audio).Bool("embeddedContext", caps.EmbeddedContext)
	mcp.Bool("http", caps.MCPHTTP).Bool("sse", caps.MCPSSE)
	for _, c := range []struct {
		name string
		has  bool
	}{
		{"list", caps.List}, {"resume", caps.Resume}, {"close", caps.Close}, {"delete", caps.Delete},
		{"fork", caps.Fork}, {"additionalDirectories", caps.AdditionalDirs},
	} {
		if c.has {
			session.Raw(c.name, []byte("{}"))
		}
	}
	if caps.Logout {
		auth.Raw("logout", []byte("{}"))
	}
	all.Bool("loadSession", caps.Load).Raw("promptCapabilities", prompt.JSON()).Raw("mcpCapabilities", mcp.JSON()).
		Raw("sessionCapabilities", session.JSON()).Raw("auth", auth.JSON()).Raw("_meta", caps.Meta)

	ways := make([]json.RawMessage, 0, len(methods))
	for _, m := range methods {
		if m.Terminal && !client.AuthTerminal {
			continue
		}
		ways = append(ways, m.json())
	}
	var info Builder
	info.String("name", agent.Name)
	if agent.Title != "" {
		info.String("title", agent.Title)
	}
	info.String("version", agent.Version)

	var o Builder
	return o.Int("protocolVersion", int64(version)).Raw("agentCapabilities", all.JSON()).Raw("authMethods", List(ways...)).
		Raw("agentInfo", info.JSON()).Raw("_meta", meta).JSON()
}

func (m AuthMethod) json() json.RawMessage {
	var o Builder
	if m.Terminal {
		o.String("type", "terminal")
	}
	o.String("id", m.ID).String("name", m.Name)
	if m.Description != "" {
		o.String("description", m.Description)
	}
	if m.Terminal {
		o.Strings("args", m.Args)
		var env Builder
		for _, p := range m.Env {
			env.String(p.Name, p.Value)
		}
		o.Raw("env", env.JSON())
	}
	return o.JSON()
}

// SessionResult is the result of `session/new` and `session/fork`, and with an
// empty id of `session/load` and `session/resume`. modes, options and meta are
// JSON or empty.
func SessionResult(id string, modes, options, meta json.RawMessage) json.RawMessage {
	var o Builder
	if id != "" {
		o.String("sessionId", id)
	}
	return o.Raw("modes", modes).Raw("configOptions", options).Raw("_meta", meta).JSON()
}

// SessionEntry is one entry of `session/list`.
type SessionEntry struct {
	ID      string
	Cwd     string
	Dirs    []string
	Title   string    // "" if it has none
	Updated time.Time // zero if unknown
	Meta    json.RawMessage
}

// ListResult is the result of `session/list`; an empty cursor ends the list.
func ListResult(entries []SessionEntry, nextCursor string) json.RawMessage {
	list := make([]json.RawMessage, len(entries))
	for i, e := range entries {
		var o Builder
		o.String("sessionId", e.ID).String("cwd", e.Cwd)
		if len(e.Dirs) > 0 {
			o.Strings("additionalDirectories", e.Dirs)
		}
		if e.Title != "" {
			o.String("title", e.Title)
		}
		if !e.Updated.IsZero() {
			o.String("updatedAt", Time(e.Updated))
		}
		list[i] = o.Raw("_meta", e.Meta).JSON()
	}
	var o Builder
	o.Raw("sessions", List(list...))
	if nextCursor != "" {
		o.String("nextCursor", nextCursor)
	}
	return o.JSON()
}

// PromptResult is the result of `session/prompt`. usage and meta may be empty.
func PromptResult(stopReason string, usage, meta json.RawMessage) json.RawMessage {
	var o Builder
	return o.String("stopReason", stopReason).Raw("usage", usage).Raw("_meta", meta).JSON()
}

// ConfigOptionsResult is the result of `session/set_config_option`: all options.
func ConfigOptionsResult(options json.RawMessage) json.RawMessage {
	if len(options) == 0 {
		options = json.RawMessage("[]")
	}
	var o Builder
	return o.Raw("configOptions", options).JSON()
}

// EmptyResult is the result of the methods that answer nothing.
func EmptyResult() json.RawMessage { return json.RawMessage("{}") }

// PermissionParams are the params of `session/request_permission`. toolCall is
// what was asked about, complete; a `sessionUpdate` in it is taken out.
func PermissionParams(sessionID string, toolCall, options, meta json.RawMessage) json.RawMessage {
	var o Builder
	return o.String("sessionId", sessionID).Raw("toolCall", Delete(toolCall, "sessionUpdate")).Raw("options", options).
		Raw("_meta", meta).JSON()
}

// UserChunk is the update that shows one block of a prompt.
func UserChunk(messageID string, block, meta json.RawMessage) json.RawMessage {
	return chunk(UserMessageChunk, messageID, block, meta)
}

// AgentText is the update that shows text as the agent's.
func AgentText(messageID, text string, meta json.RawMessage) json.RawMessage {
	return chunk(AgentMessageChunk, messageID, TextBlock(text), meta)
}

func chunk(kind, messageID string, block, meta json.RawMessage) json.RawMessage {
	var o Builder
	o.String("sessionUpdate", kind).Raw("content", block)
	if messageID != "" {
		o.String("messageId", messageID)
	}
	return o.Raw("_meta", meta).JSON()
}

// TextBlock is a content block of text.
func TextBlock(text string) json.RawMessage {
	var o Builder
	return o.String("type", "text").String("text", text).JSON()
}

// TextContent is the content of a tool call that is one text.
func TextContent(text string) json.RawMessage {
	var o Builder
	return List(o.String("type", "content").Raw("content", TextBlock(text)).JSON())
}

// ModeUpdate is the update that says which mode the session is in.
func ModeUpdate(modeID string) json.RawMessage {
	var o Builder
	return o.String("sessionUpdate", CurrentMode).String("currentModeId", modeID).JSON()
}

// OptionsUpdate is the update that says what the config options are, all of them.
func OptionsUpdate(options json.RawMessage) json.RawMessage {
	if len(options) == 0 {
		options = json.RawMessage("[]")
	}
	var o Builder
	return o.String("sessionUpdate", ConfigOption).Raw("configOptions", options).JSON()
}

// InfoUpdate is the update that tells title and time of the last change. An
// empty title and a zero time are not said, so they stay what they were.
func InfoUpdate(title string, updated time.Time, meta json.RawMessage) json.RawMessage {
	var o Builder
	o.String("sessionUpdate", SessionInfo)
	if title != "" {
		o.String("title", title)
	}
	if !updated.IsZero() {
		o.String("updatedAt", Time(updated))
	}
	return o.Raw("_meta", meta).JSON()
}

// ToolCallFailed is the update that ends a tool call as failed. text, if not
// empty, becomes its content.
func ToolCallFailed(toolCallID, text string, meta json.RawMessage) json.RawMessage {
	var o Builder
	o.String("sessionUpdate", ToolCallUpdate).String("toolCallId", toolCallID).String("status", "failed")
	if text != "" {
		o.Raw("content", TextContent(text))
	}
	return o.Raw("_meta", meta).JSON()
}

// HermesMeta wraps our own additions in the `_meta` object they live under.
func HermesMeta(hermes json.RawMessage) json.RawMessage {
	var o Builder
	return o.Raw("hermes", hermes).JSON()
}

// Time writes a time the way the protocol does: RFC 3339 with milliseconds, in
// UTC.
func Time(t time.Time) string { return t.UTC().Format("2006-01-02T15:04:05.000Z07:00") }
