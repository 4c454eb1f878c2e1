package session

import (
	"encoding/json"
	"time"
)

// ID names a session. It is opaque to everybody and never reused.
type ID string

// Seq numbers the events of one session: 1, 2, 3 … without a gap. 0 is "before
// the first event".
type Seq uint64

// Kind says what an event is. The numbers are persisted: never reuse one.
type Kind uint8

const (
	KindCreated          Kind = 1  // Created
	KindUpdate           Kind = 2  // Data is the agent's `update` object, byte for byte
	KindPromptAdmitted   Kind = 3  // PromptAdmitted
	KindPromptWithdrawn  Kind = 4  // PromptWithdrawn
	KindTurnStarted      Kind = 5  // TurnStarted
	KindTurnEnded        Kind = 6  // TurnEnded
	KindQuestionAsked    Kind = 7  // QuestionAsked
	KindQuestionAnswered Kind = 8  // QuestionAnswered
	KindSettingsChanged  Kind = 9  // SettingsChanged
	KindAgentStarted     Kind = 10 // AgentStarted
	KindAgentDied        Kind = 11 // AgentDied
	KindAgentRecord      Kind = 12 // Data is the agent's own memory, opaque to us, never shown
	KindDetached         Kind = 13 // Detached: an editor closed the session on its connection
	KindRootsChanged     Kind = 14 // RootsChanged
	KindDeleted          Kind = 15 // Deleted: the last event a session ever has
	KindPromptJoined     Kind = 16 // PromptJoined
	KindPinned           Kind = 17 // Pinned
)

// Event is one entry of a session's log. Events are immutable once appended:
// their Data is shared by every reader and must not be written to.
type Event struct {
	Seq  Seq
	Time int64 // Unix milliseconds
	Kind Kind
	// Version is the ACP version an update was said in; 0 for facts of ours.
	Version uint8
	// Data is the update object (KindUpdate), the agent's bytes
	// (KindAgentRecord) or the JSON of the fact named beside the Kind.
	Data []byte
}

// Origin names the line of an editor that caused an event. It is journalled in
// the same write as what the line changes, so that a line which is sent twice
// finds its first outcome. The connection is the id of the shim's hello, not a
// socket.
type Origin struct {
	Conn    string          `json:"conn,omitempty"`
	Line    uint64          `json:"line,omitempty"`    // number of the line on the connection, from 1
	Request json.RawMessage `json:"request,omitempty"` // id of the request, verbatim; absent for notifications
	Client  string          `json:"client,omitempty"`  // name the editor gave itself
	UID     int             `json:"uid,omitempty"`
	PID     int             `json:"pid,omitempty"`
	Token   string          `json:"token,omitempty"`  // over the network: name of the token that was shown
	Remote  string          `json:"remote,omitempty"` // over the network: address it came from

	Environ *Environ `json:"-"` // of the connection, if it sent one; in memory only
}

// Created is the first event of every session.
type Created struct {
	Origin   Origin   `json:"origin"`
	Meta     Meta     `json:"meta"`
	Settings Settings `json:"settings"`
}

// PromptAdmitted says that a prompt was taken into the session's queue. Its
// Seq is the prompt's (and later the turn's) name.
type PromptAdmitted struct {
	Origin Origin          `json:"origin"`
	Prompt json.RawMessage `json:"prompt"` // array of content blocks, verbatim
	Meta   json.RawMessage `json:"meta,omitempty"`
}

// PromptWithdrawn says that a queued prompt will never run.
type PromptWithdrawn struct {
	Prompt Seq    `json:"prompt"`
	Reason string `json:"reason"`
	// Code is 0 when the prompt is answered with stop reason "cancelled", else
	// the JSON-RPC error code of its answer.
	Code int `json:"code,omitempty"`
	// By is who took it back, zero if nobody did.
	By Origin `json:"by,omitzero"`
}

// PromptJoined says that a prompt was taken into the turn that runs and will get
// none of its own.
type PromptJoined struct {
	Prompt Seq `json:"prompt"`
	Turn   Seq `json:"turn"`
	// Update is what the agent says to it: a v1 `update` object, shown behind the
	// prompt and before its answer; absent if it says nothing.
	Update json.RawMessage `json:"update,omitempty"`
}

// TurnStarted says that a prompt left the queue and its turn runs.
type TurnStarted struct {
	Prompt Seq `json:"prompt"`
}

// TurnEnded ends the running turn. Exactly one of StopReason and Error is set.
type TurnEnded struct {
	Prompt     Seq             `json:"prompt"`
	StopReason string          `json:"stopReason,omitempty"`
	Error      *Error          `json:"error,omitempty"`
	Usage      json.RawMessage `json:"usage,omitempty"`
	Meta       json.RawMessage `json:"meta,omitempty"` // `_meta` of the agent's answer
	// By is who cancelled the turn, zero if nobody did.
	By Origin `json:"by,omitzero"`
}

// QuestionAsked is a permission request. Its Seq is the question's name.
type QuestionAsked struct {
	Prompt   Seq             `json:"prompt"`   // turn it belongs to, 0 outside any
	ToolCall json.RawMessage `json:"toolCall"` // v1 ToolCallUpdate object, complete
	Options  json.RawMessage `json:"options"`  // v1 PermissionOption array
	Meta     json.RawMessage `json:"meta,omitempty"`
}

// Outcome says how a question ended. Only Selected with an option that was
// offered can mean "allowed".
type Outcome string

const (
	Selected    Outcome = "selected"     // Option is one of those offered
	NotOffered  Outcome = "not_offered"  // an option that was not offered: a refusal, once
	Cancelled   Outcome = "cancelled"    // the turn was cancelled while the question was open
	TimedOut    Outcome = "timed_out"    // it stood before somebody who could answer for the whole time limit
	NobodyThere Outcome = "nobody_there" // nobody attached, and the config says not to wait
	Dismissed   Outcome = "dismissed"    // everybody who could answer put it away unanswered
	NobodyCould Outcome = "nobody_could" // nobody attached can answer questions
	Interrupted Outcome = "interrupted"  // the daemon or the agent ended while it was open
)

// QuestionAnswered closes a question. It is appended exactly once for each.
type QuestionAnswered struct {
	Question Seq             `json:"question"`
	Outcome  Outcome         `json:"outcome"`
	Option   string          `json:"option,omitempty"`
	Origin   Origin          `json:"origin"`           // zero when nobody answered
	Result   json.RawMessage `json:"result,omitempty"` // the editor's `_meta` and all, verbatim
}

// SettingsChanged says what the session's modes and options are from here on.
type SettingsChanged struct {
	Origin   Origin   `json:"origin"`
	Settings Settings `json:"settings"`
	Mode     bool     `json:"mode,omitempty"`    // the current mode changed
	Options  bool     `json:"options,omitempty"` // a config option changed
}

// AgentStarted says that an agent was given to the session.
type AgentStarted struct {
	Agent   string `json:"agent"`
	Version string `json:"version,omitempty"`
}

// AgentDied says that the agent ended without being asked to.
type AgentDied struct {
	Agent  string `json:"agent"`
	Reason string `json:"reason"`
}

// Detached says that an editor left by session/close. Its own unanswered
// prompts are answered "cancelled" where its cursor passes this.
type Detached struct {
	Origin Origin `json:"origin"`
}

// RootsChanged replaces the session's MCP servers and additional directories.
type RootsChanged struct {
	Origin     Origin          `json:"origin"`
	Dirs       []string        `json:"dirs,omitempty"`
	MCPServers json.RawMessage `json:"mcpServers,omitempty"`
}

// Pinned says that a session is to be kept whatever its age, or not any more.
type Pinned struct {
	Origin Origin `json:"origin"`
	Pinned bool   `json:"pinned"`
}

// Deleted ends a session for good.
type Deleted struct {
	Origin Origin `json:"origin"`
}

// Settings are the session's modes and config options in ACP v1 words, kept as
// JSON so that nothing an agent says in them is lost. Either may be empty.
type Settings struct {
	Modes   json.RawMessage `json:"modes,omitempty"`   // v1 SessionModeState
	Options json.RawMessage `json:"options,omitempty"` // v1 array of SessionConfigOption
}

// Meta is what is known of a session without reading its log.
type Meta struct {
	ID         ID              `json:"id"`
	Agent      string          `json:"agent"`
	Cwd        string          `json:"cwd"`
	Dirs       []string        `json:"dirs,omitempty"`
	MCPServers json.RawMessage `json:"mcpServers,omitempty"`
	Title      string          `json:"title,omitempty"`
	Created    time.Time       `json:"created"`
	Updated    time.Time       `json:"updated"`
	Parent     ID              `json:"parent,omitempty"`
	ForkedAt   Seq             `json:"forkedAt,omitempty"` // last event of Parent that was copied
	Turns      int             `json:"turns,omitempty"`    // turns started so far
	Pinned     bool            `json:"pinned,omitempty"`   // never removed for its age or for space
	Imported   ID              `json:"imported,omitempty"` // what it was called where it was exported
}

// Record is what a log gives back on reading: one event, or a run of
// neighbouring message chunks that differ in nothing but their text, joined.
type Record struct {
	First, Last Seq
	Time        int64 // of First
	Kind        Kind
	Version     uint8
	Data        []byte
	// Ends says, for a joined record, where in Data the text of each Seq from
	// First to Last ends; nil when First == Last. The text of First starts at
	// Text.
	Text int
	Ends []int
}
