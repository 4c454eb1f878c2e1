// Package llm answers: what is a language model to the agent? A Model reads a
// conversation and streams the next message: thoughts, text, calls of tools,
// and why it stopped.
//
// The types are rich enough for the message formats of Anthropic and OpenAI,
// which are spoken by packages anthropic and openai; package catalog says which
// models can be had. The one model that needs no network, Offline, is a small
// interpreter: see its comment for the words it knows.
//
// What a model has been told is never changed afterwards, only added to: the
// adapters write a conversation so that each request begins with the bytes of
// the one before, and providers need not read it again.
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
	"time"
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

// Info describes a model. What is zero is not known.
type Info struct {
	Provider  string // "offline", "anthropic", … or the host of a server
	Name      string // in the provider's words
	Title     string // for people
	Window    int    // tokens it can hold
	MaxOutput int    // tokens of one message
	// Efforts are the values Request.Effort may have beside "", least first;
	// nil if it cannot be chosen.
	Efforts []string
	// Thinking is how the model is asked to think, in its adapter's words.
	Thinking string
	Price    *Price
}

// ID names the model among those of all providers. It is stored with sessions.
func (i Info) ID() string {
	if i.Provider == i.Name {
		return i.Name // offline
	}
	return i.Provider + "/" + i.Name
}

// Price is what a million tokens cost.
type Price struct {
	Input, Output float64
	// CacheRead and CacheWrite are of input that was read from or written to
	// the provider's cache; zero means as Input.
	CacheRead, CacheWrite float64
	Currency              string // ISO 4217; "" means USD
}

// Cost is what u costs.
func (p Price) Cost(u Usage) float64 {
	or := func(a, b float64) float64 {
		if a == 0 {
			return b
		}
		return a
	}
	return (float64(u.Input)*p.Input + float64(u.Output)*p.Output +
		float64(u.CacheRead)*or(p.CacheRead, p.Input) + float64(u.CacheWrite)*or(p.CacheWrite, p.Input)) / 1e6
}

// Usage counts the tokens of one message.
type Usage struct {
	Input      int `json:"input,omitempty"`      // neither read from nor written to a cache
	CacheRead  int `json:"cacheRead,omitempty"`  // input that the provider had in its cache
	CacheWrite int `json:"cacheWrite,omitempty"` // input that it put there
	Output     int `json:"output,omitempty"`
	Thought    int `json:"thought,omitempty"` // part of Output
}

// Total is all of u: what the context holds after the message.
func (u Usage) Total() int { return u.Input + u.CacheRead + u.CacheWrite + u.Output }

// Add returns the sum of u and v.
func (u Usage) Add(v Usage) Usage {
	return Usage{u.Input + v.Input, u.CacheRead + v.CacheRead, u.CacheWrite + v.CacheWrite, u.Output + v.Output, u.Thought + v.Thought}
}

// Request is what a model is asked.
type Request struct {
	System   string
	Messages []Message // ends with a user or a tool message; every call has its result
	Tools    []ToolSpec
	Effort   string // of thinking, one of Info.Efforts; "" is the model's own choice
	Session  string // opaque; requests of one session share a prefix
}

// SummaryInstruction is what a model is asked at the end of a conversation that
// is to be replaced by its answer.
const SummaryInstruction = "Sum up our conversation so far: your answer will stand in its place, and you will go on from it alone. " +
	"Call no tool; answer with text only. Keep what is needed to go on without asking again: what the user wants, word for word where the words matter; " +
	"what was decided and why; which files were read, changed or created, with their paths and what is special about them; commands that were run and what came of them; " +
	"errors and how they were solved; what is done, what is under way, and what comes next. Leave out what no longer matters."

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
	// By is the ID of the model that said it. Signatures mean something to the
	// models of the same provider only.
	By string `json:"by,omitempty"`
}

// Part is one piece of a message. Exactly one of its fields is set, except
// that Signature may stand beside Thought, or alone for a thought that the
// provider keeps to itself.
type Part struct {
	Text    string `json:"text,omitempty"`
	Thought string `json:"thought,omitempty"`
	// Signature is what a provider wants back with the thought, opaque to all
	// but its adapter. A thought with a signature must not be cut.
	Signature  string      `json:"signature,omitempty"`
	Attachment *Attachment `json:"attachment,omitempty"`
	Call       *ToolCall   `json:"call,omitempty"`
	Result     *ToolResult `json:"result,omitempty"`
	// Note is what hermesd itself tells a model beside a prompt.
	Note string `json:"note,omitempty"`
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
	// Signature is what a provider wants back with the call, as in Part.
	Signature string `json:"signature,omitempty"`
}

// ToolResult is what came of a call.
type ToolResult struct {
	CallID string `json:"callId"`
	Name   string `json:"name"`
	Text   string `json:"text"`
	Failed bool   `json:"failed,omitempty"`
	// Images are pictures the tool looked at, for models that see.
	Images []Attachment `json:"images,omitempty"`
}

// Event is one piece of a streamed message.
type Event struct {
	Kind EventKind
	Text string    // of EventText and EventThought; valid UTF-8
	Call *ToolCall // of EventCall, complete
	// Signature ends a thought: an EventThought that has one has no Text.
	Signature string
	Usage     Usage // of EventUsage
}

// EventKind says what an event carries.
type EventKind uint8

const (
	EventText    EventKind = iota // a piece of the answer
	EventThought                  // a piece of a thought
	EventCall                     // a tool is called
	EventBreak                    // what follows is a message of its own to a reader
	EventUsage                    // the tokens of this message so far; the last one counts
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
	Status   int    // of HTTP, also where it came inside a stream; 0: there was no answer
	Message  string // one line, for the user
	Advice   string // what to do next, for the user
	// AuthNeeded says that there are no credentials or that they were refused.
	AuthNeeded bool
	// TooLong says that the conversation does not fit into the model.
	TooLong bool
	// Temporary says that the same request may succeed later, after RetryAfter
	// at the earliest if the provider said so.
	Temporary  bool
	RetryAfter time.Duration
}

func (e *Error) Error() string {
	if e.Status == 0 {
		return fmt.Sprintf("%s: %s", e.Provider, e.Message)
	}
	return fmt.Sprintf("%s answered %d: %s", e.Provider, e.Status, e.Message)
}
