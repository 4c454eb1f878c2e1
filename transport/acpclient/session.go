package acpclient

import (
	"context"
	"encoding/json"
	"fmt"

	"github.com/hermesd/hermesd/transport/acp"
)

// Initialized is the agent's answer to initialize.
type Initialized struct {
	ProtocolVersion   int             `json:"protocolVersion"`
	AgentInfo         Info            `json:"agentInfo"`
	AgentCapabilities json.RawMessage `json:"agentCapabilities"`
	Meta              json.RawMessage `json:"_meta"`
}

// Info names a program.
type Info struct {
	Name    string `json:"name"`
	Version string `json:"version"`
	Title   string `json:"title,omitempty"`
}

// Session is what session/new, load and resume answer.
type Session struct {
	ID            string          `json:"sessionId"`
	Modes         json.RawMessage `json:"modes"`
	ConfigOptions json.RawMessage `json:"configOptions"`
	Meta          json.RawMessage `json:"_meta"`
}

// SessionInfo is one line of session/list.
type SessionInfo struct {
	ID        string          `json:"sessionId"`
	Cwd       string          `json:"cwd"`
	Dirs      []string        `json:"additionalDirectories,omitempty"`
	Title     string          `json:"title,omitempty"`
	UpdatedAt string          `json:"updatedAt,omitempty"`
	Meta      json.RawMessage `json:"_meta,omitempty"`
}

// PromptResult is the answer to session/prompt.
type PromptResult struct {
	StopReason string          `json:"stopReason"`
	Usage      json.RawMessage `json:"usage"`
	Meta       json.RawMessage `json:"_meta"`
}

// Initialize says who we are and what we can do.
func (c *Client) Initialize(ctx context.Context) (Initialized, error) {
	name, version, caps := c.o.Name, c.o.Version, c.o.Capabilities
	if name == "" {
		name = "acpclient"
	}
	if version == "" {
		version = "0"
	}
	if caps == nil {
		caps = json.RawMessage(`{}`)
	}
	var got Initialized
	err := c.Call(ctx, "initialize", map[string]any{
		"protocolVersion":    1,
		"clientInfo":         Info{Name: name, Version: version},
		"clientCapabilities": caps,
	}, &got)
	if err == nil && got.ProtocolVersion != 1 {
		err = fmt.Errorf("the agent speaks version %d of the protocol, this program only version 1", got.ProtocolVersion)
	}
	return got, err
}

func roots(id, cwd string) json.RawMessage {
	var o acp.Builder
	if id != "" {
		o.String("sessionId", id)
	}
	return o.String("cwd", cwd).Raw("mcpServers", []byte(`[]`)).JSON()
}

// NewSession makes a session in cwd, an absolute path.
func (c *Client) NewSession(ctx context.Context, cwd string) (Session, error) {
	var s Session
	err := c.Call(ctx, "session/new", roots("", cwd), &s)
	return s, err
}

// Load attaches to a session and has its history sent.
func (c *Client) Load(ctx context.Context, id, cwd string) (Session, error) {
	s := Session{}
	err := c.Call(ctx, "session/load", roots(id, cwd), &s)
	s.ID = id
	return s, err
}

// Join is Load of a listed session that leaves its roots as they are: its own
// directories are sent back, and of MCP servers nothing is said, which hermesd
// takes for "keep them".
func (c *Client) Join(ctx context.Context, listed SessionInfo) (Session, error) {
	return c.attach(ctx, "session/load", listed)
}

// JoinLive is Join without the session's history.
func (c *Client) JoinLive(ctx context.Context, listed SessionInfo) (Session, error) {
	return c.attach(ctx, "session/resume", listed)
}

func (c *Client) attach(ctx context.Context, method string, listed SessionInfo) (Session, error) {
	var o acp.Builder
	o.String("sessionId", listed.ID).String("cwd", listed.Cwd)
	if len(listed.Dirs) > 0 {
		o.Strings("additionalDirectories", listed.Dirs)
	}
	s := Session{}
	err := c.Call(ctx, method, o.JSON(), &s)
	s.ID = listed.ID
	return s, err
}

// Resume attaches to a session without its history.
func (c *Client) Resume(ctx context.Context, id, cwd string) (Session, error) {
	s := Session{}
	err := c.Call(ctx, "session/resume", roots(id, cwd), &s)
	s.ID = id
	return s, err
}

// List gives all sessions, page by page, newest first; those of one folder if
// cwd is not empty.
func (c *Client) List(ctx context.Context, cwd string) ([]SessionInfo, error) {
	var all []SessionInfo
	cursor := ""
	for {
		var o acp.Builder
		if cwd != "" {
			o.String("cwd", cwd)
		}
		if cursor != "" {
			o.String("cursor", cursor)
		}
		var page struct {
			Sessions   []SessionInfo `json:"sessions"`
			NextCursor string        `json:"nextCursor"`
		}
		if err := c.Call(ctx, "session/list", o.JSON(), &page); err != nil {
			return nil, err
		}
		all = append(all, page.Sessions...)
		if page.NextCursor == "" {
			return all, nil
		}
		if page.NextCursor == cursor {
			return nil, fmt.Errorf("session/list gives the same page again and again (cursor %q)", cursor)
		}
		cursor = page.NextCursor
	}
}

func sessionParams(id string) json.RawMessage {
	var o acp.Builder
	return o.String("sessionId", id).JSON()
}

func promptParams(id, text string) json.RawMessage {
	var block, o acp.Builder
	b := block.String("type", "text").String("text", text).JSON()
	return o.String("sessionId", id).Raw("prompt", acp.List(b)).JSON()
}

// StartPrompt sends text to the agent and returns at once.
func (c *Client) StartPrompt(id, text string) (*Call, error) {
	return c.Start("session/prompt", promptParams(id, text))
}

// Prompt sends text to the agent and returns when the turn is over. If ctx ends
// the request is cancelled.
func (c *Client) Prompt(ctx context.Context, id, text string) (PromptResult, error) {
	var r PromptResult
	err := c.Call(ctx, "session/prompt", promptParams(id, text), &r)
	return r, err
}

// ParsePromptResult reads the answer to session/prompt.
func ParsePromptResult(raw json.RawMessage) (PromptResult, error) {
	var r PromptResult
	if err := json.Unmarshal(raw, &r); err != nil {
		return r, fmt.Errorf("reading the answer to session/prompt: %w", err)
	}
	return r, nil
}

// Cancel ends the session's turn. The prompt's answer still comes.
func (c *Client) Cancel(id string) error { return c.Notify("session/cancel", sessionParams(id)) }

// CloseSession detaches this connection from a session.
func (c *Client) CloseSession(ctx context.Context, id string) error {
	return c.Call(ctx, "session/close", sessionParams(id), nil)
}

// Delete deletes a session for good.
func (c *Client) Delete(ctx context.Context, id string) error {
	return c.Call(ctx, "session/delete", sessionParams(id), nil)
}

// SetMode changes a session's mode.
func (c *Client) SetMode(ctx context.Context, id, mode string) error {
	var o acp.Builder
	return c.Call(ctx, "session/set_mode", o.String("sessionId", id).String("modeId", mode).JSON(), nil)
}

// SetOption changes a config option; value is a string or a boolean.
func (c *Client) SetOption(ctx context.Context, id, option string, value any) error {
	params := map[string]any{"sessionId": id, "configId": option, "value": value}
	if _, ok := value.(bool); ok {
		params["type"] = "boolean"
	}
	return c.Call(ctx, "session/set_config_option", params, nil)
}
