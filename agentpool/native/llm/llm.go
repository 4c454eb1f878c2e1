// Package llm answers: what is a language model to the agent? A Model reads a
// conversation and streams the next message: thoughts, text, calls of tools,
// and why it stopped.
//
// The types are rich enough for the message formats of Anthropic and OpenAI.
// The one model that needs no network, Offline, is a small interpreter: see
// its comment for the words it knows.
//
// # Concurrency
//
// A Model is safe for concurrent use by many sessions. One Stream call runs on
// the caller's goroutine, and yield is called on it, in order.
package llm

import (
	"context"
	"encoding/json"
	"fmt"
)

// Model is a language model.
type Model interface {
	// Info says which model this is.
	Info() Info
	// Stream asks for the next message of the conversation and yields it in
	// pieces. It returns why the message is over. An error of yield ends the
	// stream and is returned as it is; a cancelled ctx ends it with ctx's
	// error; any other failure should be an *Error.
	Stream(ctx context.Context, req Request, yield func(Event) error) (Stop, error)
}

// Info describes a model.
type Info struct {
	Provider string // "offline", "anthropic", …
	Name     string
	Window   int // tokens it can hold
}

// Request is what a model is asked.
type Request struct {
	System   string
	Messages []Message // ends with a user or a tool message; every call has its result
	Tools    []ToolSpec
}

// ToolSpec tells a model of a tool.
type ToolSpec struct {
	Name        string
	Description string
	Schema      json.RawMessage // JSON schema of the arguments
}

// Role says who speaks.
type Role string

const (
	RoleUser      Role = "user"
	RoleAssistant Role = "assistant"
	RoleTool      Role = "tool" // results of the calls of the assistant message before it
)

// Message is one entry of a conversation.
type Message struct {
	Role  Role   `json:"role"`
	Parts []Part `json:"parts"`
}

// Part is one piece of a message. Exactly one of its fields is set, except
// that Signature may stand beside Thought.
type Part struct {
	Text    string `json:"text,omitempty"`
	Thought string `json:"thought,omitempty"`
	// Signature is what a provider wants back with the thought, verbatim.
	Signature  string      `json:"signature,omitempty"`
	Attachment *Attachment `json:"attachment,omitempty"`
	Call       *ToolCall   `json:"call,omitempty"`
	Result     *ToolResult `json:"result,omitempty"`
}

// Attachment is something a user put beside the text of a prompt.
type Attachment struct {
	Kind     string `json:"kind"` // "link", "resource" or "image"
	Name     string `json:"name,omitempty"`
	URI      string `json:"uri,omitempty"`
	MimeType string `json:"mimeType,omitempty"`
	Text     string `json:"text,omitempty"` // of a resource with text
	Data     string `json:"data,omitempty"` // base64, of an image or a binary resource
}

// ToolCall is a model's wish to use a tool.
type ToolCall struct {
	ID   string          `json:"id"` // unique in the conversation; empty from a model that has no ids
	Name string          `json:"name"`
	Args json.RawMessage `json:"args"`
}

// ToolResult is what came of a call.
type ToolResult struct {
	CallID string `json:"callId"`
	Name   string `json:"name"`
	Text   string `json:"text"`
	Failed bool   `json:"failed,omitempty"`
}

// Event is one piece of a streamed message.
type Event struct {
	Kind EventKind
	Text string    // of EventText and EventThought; valid UTF-8
	Call *ToolCall // of EventCall, complete
}

// EventKind says what an event carries.
type EventKind uint8

const (
	EventText    EventKind = iota // a piece of the answer
	EventThought                  // a piece of a thought
	EventCall                     // a tool is called
	EventBreak                    // what follows is a message of its own to a reader
)

// Stop says why a message is over.
type Stop string

const (
	StopEnd     Stop = "end"     // the model has said what it wanted
	StopTools   Stop = "tools"   // it waits for the results of its calls
	StopLength  Stop = "length"  // it reached its limit of output
	StopRefusal Stop = "refusal" // it does not want to go on
)

// Error is a failed model call.
type Error struct {
	Provider string
	Message  string // one line, for the user
	Advice   string // what to do next, for the user
}

func (e *Error) Error() string { return fmt.Sprintf("%s: %s", e.Provider, e.Message) }
