package acpclient

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strings"

	"github.com/hermesd/hermesd/transport/acp"
)

// Story is what an editor saw of a session, in a form that two editors can
// compare: the text of each message joined, each tool call in the place where
// it was first seen and in its last state, each plan where it was first seen.
// What is state rather than story (modes, commands, usage, title) is left out.
type Story []Scene

// Scene is one message, tool call or anything else that has a place in a Story.
type Scene struct {
	Kind string // sessionUpdate of its first update; tool calls are "tool_call"
	ID   string // messageId or toolCallId, if there is one
	Text string // of messages whose content is text
	// JSON is the whole update for what is not text: for a tool call the
	// complete call.
	JSON json.RawMessage
}

// StoryOf makes a Story of one session's updates.
func StoryOf(session string, entries []Entry) Story {
	var s Story
	tools := map[string]int{}
	plan := -1
	for _, e := range entries {
		if e.Kind != Update || e.Session != session {
			continue
		}
		switch e.Update {
		case acp.ToolCall, acp.ToolCallUpdate:
			id := acp.ToolCallID(e.Raw)
			at, known := tools[id]
			if !known {
				at = len(s)
				tools[id] = at
				s = append(s, Scene{Kind: acp.ToolCall, ID: id})
			}
			s[at].JSON = acp.MergeToolCall(s[at].JSON, e.Raw)
		case acp.Plan:
			if plan < 0 {
				plan = len(s)
				s = append(s, Scene{Kind: acp.Plan})
			}
			s[plan].JSON = e.Raw
		case acp.AvailableCommands, acp.CurrentMode, acp.ConfigOption, acp.SessionInfo, acp.Usage, acp.Notice:
		default:
			id := acp.MessageID(e.Raw)
			content, _ := acp.Get(e.Raw, "content")
			kind, _ := acp.GetString(content, "type")
			if !acp.IsChunk(e.Update) || kind != "text" {
				s = append(s, Scene{Kind: e.Update, ID: id, JSON: e.Raw})
				continue
			}
			text, _ := acp.GetString(content, "text")
			if n := len(s); n > 0 && s[n-1].Kind == e.Update && s[n-1].ID == id && s[n-1].JSON == nil {
				s[n-1].Text += text
				continue
			}
			s = append(s, Scene{Kind: e.Update, ID: id, Text: text})
		}
	}
	return s
}

// Story is what this editor saw of a session so far.
func (c *Client) Story(session string) Story { return StoryOf(session, c.Entries()) }

// Says joins the text of all messages of a kind, as in Says("agent_message_chunk").
func (s Story) Says(kind string) string {
	var b strings.Builder
	for _, scene := range s {
		if scene.Kind == kind {
			b.WriteString(scene.Text)
		}
	}
	return b.String()
}

// Tools gives the tool calls.
func (s Story) Tools() []Scene {
	var tools []Scene
	for _, scene := range s {
		if scene.Kind == acp.ToolCall {
			tools = append(tools, scene)
		}
	}
	return tools
}

// Without leaves out the scenes of a kind.
func (s Story) Without(kind string) Story {
	var rest Story
	for _, scene := range s {
		if scene.Kind != kind {
			rest = append(rest, scene)
		}
	}
	return rest
}

// String writes the scenes one a line, for people.
func (s Story) String() string {
	var b strings.Builder
	for _, scene := range s {
		b.WriteString(scene.String() + "\n")
	}
	return b.String()
}

// String writes the scene in one line.
func (s Scene) String() string {
	if s.Kind == acp.ToolCall {
		title, _ := acp.GetString(s.JSON, "title")
		status, _ := acp.GetString(s.JSON, "status")
		return fmt.Sprintf("%s %s %q %s", s.Kind, s.ID, title, status)
	}
	if s.JSON != nil {
		return fmt.Sprintf("%s %s %s", s.Kind, s.ID, s.JSON)
	}
	return fmt.Sprintf("%s %s %q", s.Kind, s.ID, s.Text)
}

// Same says in an error what differs between two stories; nil if nothing does.
func (s Story) Same(other Story) error {
	for i := range max(len(s), len(other)) {
		switch {
		case i >= len(s):
			return fmt.Errorf("the first ends after %d scenes, where the second goes on: %s", i, other[i])
		case i >= len(other):
			return fmt.Errorf("the second ends after %d scenes, where the first goes on: %s", i, s[i])
		case !same(s[i], other[i]):
			return fmt.Errorf("scene %d differs:\n  %s\n  %s", i+1, detail(s[i]), detail(other[i]))
		}
	}
	return nil
}

// detail is a scene with everything that is compared.
func detail(s Scene) string {
	if s.JSON != nil {
		return fmt.Sprintf("%s %s %s", s.Kind, s.ID, s.JSON)
	}
	return s.String()
}

func same(a, b Scene) bool {
	return a.Kind == b.Kind && a.ID == b.ID && a.Text == b.Text && sameJSON(a.JSON, b.JSON)
}

// sameJSON compares values whatever the order of their members.
func sameJSON(a, b json.RawMessage) bool {
	if bytes.Equal(a, b) {
		return true
	}
	return bytes.Equal(canonical(a), canonical(b))
}

func canonical(raw json.RawMessage) []byte {
	d := json.NewDecoder(bytes.NewReader(raw))
	d.UseNumber()
	var v any
	if d.Decode(&v) != nil {
		return raw
	}
	out, err := json.Marshal(v)
	if err != nil {
		return raw
	}
	return out
}

// BeginningOf says in an error why s cannot be the beginning of whole, as an
// editor that left early saw it: the last message may be cut short, and tool
// calls may not have reached their last state.
func (s Story) BeginningOf(whole Story) error {
	for i, scene := range s {
		if i >= len(whole) {
			return fmt.Errorf("it has %d scenes, the whole only %d; the first too many: %s", len(s), len(whole), scene)
		}
		w := whole[i]
		ok := same(scene, w)
		switch {
		case scene.Kind != w.Kind || scene.ID != w.ID:
		case scene.Kind == acp.ToolCall || scene.Kind == acp.Plan:
			ok = true
		case i == len(s)-1 && scene.JSON == nil && w.JSON == nil:
			ok = strings.HasPrefix(w.Text, scene.Text)
		}
		if !ok {
			return fmt.Errorf("scene %d differs:\n  %s\n  %s", i+1, detail(scene), detail(w))
		}
	}
	return nil
}
