package session

import (
	"context"
	"encoding/json"
)

// This file is what the domain needs of the world. The store, the agents and
// the daemon implement it and never import each other.

// Store keeps sessions. Its methods are safe for concurrent use.
type Store interface {
	// Epoch identifies the unbroken life of what has been published from this
	// store. It changes exactly when a published tail may have been lost.
	Epoch() string
	// List returns every session, newest Updated first, ties by ID descending.
	List() []Meta
	// Lookup returns what is known of a session; it does no I/O.
	Lookup(ID) (Meta, bool)
	// Create makes an empty log. Nothing is on disk before the first Append.
	Create(Meta, Sink) (Log, error)
	// Open opens the log of a stored session. ErrNotFound if there is none,
	// ErrInUse if it is open.
	Open(ID, Sink) (Log, error)
	// Delete removes a session for good and returns when that is durable. An
	// open log of it must be closed first. Unknown ids are no error.
	Delete(context.Context, ID) error
}

// Sink is told how far a log has got. The store calls it from goroutines
// of its own, one call at a time; it must not block and must not call the store.
type Sink interface {
	// Written: events up to n survive the death of the process.
	Written(n Seq)
	// Durable: events up to n survive a power cut. Durable(n) implies Written(n).
	Durable(n Seq)
	// Failed says why nothing can be written at the moment (a full disk), nil
	// when writing works again. What was appended is not lost: it is tried
	// again until it is written or the store is closed.
	Failed(err error)
}

// Log is one session's log, open for one writer and any number of readers.
type Log interface {
	// Head is the Seq of the last event appended.
	Head() Seq
	// Append adds events, whose Seqs must continue Head, and stores meta with
	// them when it is not nil. It never blocks: the Sink says when they are
	// written, and, if sync, when they are durable. The caller bounds what is
	// outstanding.
	Append(meta *Meta, events []Event, sync bool)
	// Read returns records in order, beginning with the one that holds from,
	// until one of: about maxBytes of Data, the last event written. An empty
	// page means there is nothing at or after from. The result is the
	// caller's; no transaction is held when it returns.
	Read(from Seq, maxBytes int) ([]Record, error)
	// Close flushes nothing and loses nothing; the log can be opened again.
	Close() error
}

// Agents gives sessions their agents.
type Agents interface {
	// Has says whether an agent of this name exists; "" names the default.
	Has(name string) bool
	// Default is the name of the agent a session gets when none is asked for.
	Default() string
	// Open readies an agent for one session. It returns when the agent can
	// take a prompt, and the settings the session then has. host belongs to
	// the session and stays valid until Close. Errors may be *Error.
	Open(ctx context.Context, spec Spec, host Host) (Agent, Settings, error)
}

// Spec says for which session an agent is opened.
type Spec struct {
	Meta Meta
	// Settings are those of the log, empty for a session just made. The agent
	// restores them.
	Settings Settings
	// Fresh is true when the session has just been made: there is no log to
	// replay.
	Fresh bool
	// Environ is the environment of the connection for which the agent is needed;
	// nil if it sent none, as one of another machine or a plain ACP client. Then
	// the agent finds one itself.
	Environ []string
}

// Agent is one session's agent. The session calls one method at a time, except
// that Set and Close may be called while Prompt runs.
type Agent interface {
	// Prompt runs one turn and returns when it is over; everything it has to
	// say it said through the Host before. When ctx is cancelled it returns
	// soon with StopReason "cancelled" (or an error, which then counts as
	// cancelled). An *Error reaches the editor as it is, any other error as
	// internal error.
	Prompt(ctx context.Context, turn Turn) (TurnResult, error)
	// Set changes a mode or an option and returns the settings there are now.
	// An unknown id or value is an *Error with code -32602. A change during a
	// turn takes effect at the next one, except the mode, which counts at once.
	Set(ctx context.Context, change Change) (Settings, error)
	// Close ends the agent's part and returns when nothing of it runs.
	Close() error
}

// Busy is what an Agent may also be: one that can have something running though
// no turn does, as a command in the background. While it has, its session does
// not leave memory. The method must return at once.
type Busy interface{ Busy() bool }

// Turn is what an agent is asked.
type Turn struct {
	// Seq names the turn: the Seq of its PromptAdmitted. Ids an agent makes
	// (tool calls, messages) are unique for ever if they contain it.
	Seq    Seq
	Blocks []json.RawMessage // content blocks, verbatim
	Meta   json.RawMessage
	// Environ is the environment of the connection that prompted, for commands;
	// nil as in Spec.
	Environ []string
}

// TurnResult is an agent's answer to a prompt.
type TurnResult struct {
	StopReason string          // v1 stop reason
	Usage      json.RawMessage // v1 Usage object, may be nil
	Meta       json.RawMessage // `_meta`, may be nil
}

// Change is a wish to set one thing. Exactly one of Mode and Option is set.
type Change struct {
	Mode   string
	Option string
	Value  json.RawMessage // of Option: a JSON string or boolean
}

// Host is the session as its agent sees it. All methods are safe for
// concurrent use and keep, per caller, the order of calls.
type Host interface {
	// Update appends one v1 `update` object. It blocks while too much is
	// unwritten and returns ctx's error then. The bytes are handed over.
	Update(ctx context.Context, update []byte) error
	// Record appends something only the agent understands and gets back from
	// Replay. Same blocking.
	Record(ctx context.Context, data []byte) error
	// Barrier returns when everything said so far is durable. It stands before
	// every action with effects.
	Barrier(ctx context.Context) error
	// Ask puts a question to whoever is attached and returns its outcome. It
	// returns after the outcome is durable. A cancelled ctx closes the question.
	Ask(ctx context.Context, q Question) (Answer, error)
	// Elicit puts a form before the editor that prompted. ErrNoEditor if that
	// one knows no forms or is not there: a question can be put to the others.
	Elicit(ctx context.Context, f Form) (Filled, error)
	// ReadTextFile asks the editor that prompted, for its unsaved text.
	// ErrNoEditor if it cannot or is not there; then the disk is the truth.
	ReadTextFile(ctx context.Context, path string) (string, error)
	// WriteTextFile writes through the editor that prompted; ErrNoEditor as above.
	WriteTextFile(ctx context.Context, path, content string) error
	// Set has the session change a mode or an option of its agent, as an editor
	// would: the agent's Set is called, and every attached editor is told. It
	// returns when that is decided, with the error of Set.
	Set(ctx context.Context, change Change) error
	// Changed says that the agent has changed its modes or options by itself, and
	// what they are now: every attached editor is told.
	Changed(ctx context.Context, now Settings) error
	// Replay gives the session's log from its beginning, in order.
	Replay(ctx context.Context, yield func(Record) error) error
}

// Question is a request for permission.
type Question struct {
	ToolCall json.RawMessage // v1 ToolCallUpdate: complete, its call already announced
	Options  []Option
	Meta     json.RawMessage
}

// Option is a v1 PermissionOption.
type Option struct {
	ID   string          `json:"optionId"`
	Name string          `json:"name"`
	Kind string          `json:"kind"` // allow_once, allow_always, reject_once, reject_always
	Meta json.RawMessage `json:"_meta,omitempty"`
}

// Answer is how a question ended. Allowed tells whether it may count as consent.
type Answer struct {
	Outcome Outcome
	Option  Option // the one selected; zero unless Outcome is Selected
}

// Allowed is true only for an offered option whose kind allows.
func (a Answer) Allowed() bool {
	return a.Outcome == Selected && (a.Option.Kind == "allow_once" || a.Option.Kind == "allow_always")
}

// Editor is one attached connection as the session sees it.
type Editor interface {
	// Conn is the id of the connection.
	Conn() string
	// CanReadFiles and CanWriteFiles say what it offered at initialize.
	CanReadFiles() bool
	CanWriteFiles() bool
	// CanElicit says whether it shows forms.
	CanElicit() bool
	// CanDecide says whether it may do more than look. Who only looks is not
	// asked, does not count as attached for any decision, and takes nobody's place.
	CanDecide() bool
	// Call makes a request of the editor and waits for its answer. id is
	// unique for ever.
	Call(ctx context.Context, id, method string, params any) (json.RawMessage, error)
	// CanAnswer says whether it may decide and has not said, in any session,
	// that it does not know questions. When that changes its sessions are told
	// by Reconsider.
	CanAnswer() bool
}
