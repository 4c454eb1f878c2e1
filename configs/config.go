// Package configs answers: what may the user choose, and what has been chosen?
//
// Config is the whole of it. Default is what holds without a file, Load reads
// a file over it, and Sample is a complete commented file whose values are the
// defaults. A key that is not known, a value of the wrong type and a value
// that is not allowed are errors which name file, line and key and say what
// would be right; all of them are reported at once.
//
// A Config is a value: nothing here keeps or watches a file.
package configs

import _ "embed"

// Config is everything that can be configured.
type Config struct {
	// DefaultAgent names the agent a session gets when none is asked for.
	DefaultAgent string      `toml:"default_agent"`
	Log          Log         `toml:"log"`
	Metrics      Metrics     `toml:"metrics"`
	Permissions  Permissions `toml:"permissions"`
	Sessions     Sessions    `toml:"sessions"`
	Store        Store       `toml:"store"`
	Limits       Limits      `toml:"limits"`
	Tools        Tools       `toml:"tools"`
	Web          Web         `toml:"web"`
	// Agents by name. The built-in agent "hermes" is always among them.
	Agents map[string]Agent `toml:"agents"`
	MCP    MCP              `toml:"mcp"`
	// Providers are servers of language models, by the names the user gives
	// them, beside those that are known.
	Providers map[string]Provider `toml:"providers"`
	// Listen says where the daemon accepts connections.
	Listen []Listen `toml:"listen"`
}

// Log says how much the daemon writes to its log, and where.
type Log struct {
	Level   string `toml:"level"`    // one of LogLevels
	File    string `toml:"file"`     // whole path; "" is stderr
	MaxSize Size   `toml:"max_size"` // of File; then it is put aside and a new one begun. Counted in whole MiB
	Keep    int    `toml:"keep"`     // files put aside that are kept
}

// Permissions says what happens to a question nobody has answered yet.
type Permissions struct {
	// Timeout counts from when a question was written to somebody who can
	// answer it; 0 waits for ever.
	Timeout Duration `toml:"timeout"`
	// Detached is "wait" or "deny": what becomes of a question while nobody is
	// attached.
	Detached string `toml:"detached"`
}

// Sessions says how long a session stays in memory.
type Sessions struct {
	// Idle is how long an unattached session without a turn stays in memory;
	// it comes back from the store when it is touched.
	Idle Duration `toml:"idle"`
}

// Store says which sessions are removed by themselves: none that is in memory,
// and none that is pinned.
type Store struct {
	MaxAge  Duration `toml:"max_age"`  // since something happened in a session last; 0 keeps all
	MaxSize Size     `toml:"max_size"` // that all sessions may take on the disk; 0 is any
}

// Limits bound what one peer can cost. None of them loses anything silently:
// what is beyond a limit is refused, or said to be shortened.
type Limits struct {
	LineLocal     Size     `toml:"line_local"`     // one line from an editor on this machine
	LineNetwork   Size     `toml:"line_network"`   // one line from an editor on the network
	LineEditor    Size     `toml:"line_editor"`    // one line towards an editor
	QueuedPrompts int      `toml:"queued_prompts"` // waiting prompts of a session
	Connections   int      `toml:"connections"`    // connections attached to a session
	InFlight      int      `toml:"in_flight"`      // unanswered requests of a connection
	CursorAhead   Size     `toml:"cursor_ahead"`   // waiting in a connection's queue when its cursor stops reading the log
	Queue         Size     `toml:"queue"`          // waiting in a connection's queue when it is closed
	Replay        Size     `toml:"replay"`         // what one session/load sends
	AgentStderr   Size     `toml:"agent_stderr"`   // last stderr output of an agent that is kept
	FirstFrame    Duration `toml:"first_frame"`    // from a connection's start to its first line
	LineTime      Duration `toml:"line_time"`      // from the beginning of a line of the network to its end
	AgentStart    Duration `toml:"agent_start"`    // an agent's answer to initialize or session/new
	AgentCancel   Duration `toml:"agent_cancel"`   // from a cancel to the end of the turn
}

// Agent is one agent, built in or a program that speaks ACP on its stdin and
// stdout.
type Agent struct {
	// Type is "native" for the built-in agent, "external" for a program. It is
	// inferred from Command when it is not given.
	Type string `toml:"type"`

	// Of native agents only.
	Provider        string           `toml:"provider"`          // one of Providers, or a name in Config.Providers
	Model           string           `toml:"model"`             // "" is the provider's default
	BaseURL         string           `toml:"base_url"`          // of a server; with "auto" an OpenAI-compatible one
	ReasoningEffort string           `toml:"reasoning_effort"`  // of new sessions, one of ReasoningEfforts; "" is the model's own
	ContextWindow   int              `toml:"context_window"`    // tokens the model holds; 0: what is known of it
	MaxOutput       int              `toml:"max_output"`        // tokens of one message; 0: what is known of the model
	MaxTurnRequests int              `toml:"max_turn_requests"` // to the model in one turn
	Prices          map[string]Price `toml:"prices"`            // by a model's name, or provider/name
	ApprovalMode    string           `toml:"approval_mode"`     // one of ApprovalModes

	// Of external agents only.
	Command []string          `toml:"command"` // the program and its arguments
	Warm    int               `toml:"warm"`    // initialised processes kept ready
	Env     map[string]string `toml:"env"`     // added to the editor's environment
	Hold    bool              `toml:"hold"`    // the agent outlives a daemon that crashes
}

// Listen is one place where connections are accepted.
type Listen struct {
	// Address is what transport.ParseAddress reads: "unix" is the default socket.
	Address string `toml:"address"`
}

// Agent types.
const (
	Native   = "native"
	External = "external"
)

// LogLevels lists the allowed values of log.level, most talkative first.
func LogLevels() []string { return []string{"trace", "debug", "info", "warn", "error"} }

// ApprovalModes lists the allowed values of an agent's approval_mode, most
// careful first.
func ApprovalModes() []string { return []string{"plan", "ask", "workspace_session", "session"} }

// DetachedChoices lists the allowed values of permissions.detached.
func DetachedChoices() []string { return []string{"wait", "deny"} }

//go:embed hermesd.toml
var sample []byte

// Sample returns a complete commented configuration file, whose values are the
// defaults. The bytes are the caller's.
func Sample() []byte { return append([]byte(nil), sample...) }

// Default returns what holds without a file.
func Default() Config {
	return Config{
		DefaultAgent: "hermes",
		Log:          Log{Level: "info", MaxSize: 10 * MiB, Keep: 5},
		Permissions:  Permissions{Timeout: 60 * second, Detached: "wait"},
		Sessions:     Sessions{Idle: 15 * minute},
		Limits: Limits{
			LineLocal:     64 * MiB,
			LineNetwork:   16 * MiB,
			LineEditor:    30 * MiB,
			QueuedPrompts: 64,
			Connections:   64,
			InFlight:      256,
			CursorAhead:   1 * MiB,
			Queue:         16 * MiB,
			Replay:        8 * MiB,
			AgentStderr:   64 * KiB,
			FirstFrame:    10 * second,
			LineTime:      60 * second,
			AgentStart:    60 * second,
			AgentCancel:   30 * second,
		},
		Tools:  defaultTools(),
		Web:    defaultWeb(),
		Agents: map[string]Agent{"hermes": nativeAgent()},
		MCP:    defaultMCP(),
		Listen: []Listen{{Address: "unix"}},
	}
}

// nativeAgent and externalAgent are what an agent is before its own table is read.
func nativeAgent() Agent {
	return Agent{Type: Native, Provider: "auto", MaxTurnRequests: 500, ApprovalMode: "ask"}
}

func externalAgent() Agent {
	return Agent{Type: External, Warm: 1, Hold: true}
}
