// Package tool answers: what can our own agent do to the world, what must be
// asked before, and what does the editor see of it?
//
// A call goes through two steps. Plan reads the arguments, touches nothing,
// and returns an Action: its title, the files it concerns, the diff it would
// make, and the permission it needs. Run does it. Between the two the agent
// asks whoever must be asked; it may take days, so Run looks again whether the
// world is still the one that was shown.
//
// # Concurrency
//
// Tools keep no state and are safe for concurrent use. An Action is used once,
// by one goroutine; everything Run starts has ended when it returns, but for
// jobs. Of a command that is what has not left its process group; of one that was
// ended before its time also what has, where that can be found.
package tool

import (
	"bytes"
	"context"
	"embed"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/hermesd/hermesd/agentpool/native/tool/web"
)

//go:embed *.md
var texts embed.FS

// describe returns the text that stands beside the code in NAME.md.
func describe(name string) string {
	text, err := texts.ReadFile(name + ".md")
	if err != nil {
		panic(err) // built in
	}
	return strings.TrimSpace(string(text))
}

// Tool is one thing a model can call.
type Tool interface {
	// Name is what the model calls it.
	Name() string
	// Description tells the model what it does.
	Description() string
	// Schema is the JSON schema of the arguments.
	Schema() json.RawMessage
	// Kind is the ACP kind of its calls: read, edit, search, execute, think …
	Kind() string
	// Plan says what a call with these arguments would do. It changes nothing.
	// An error is a text for the model and the user: the call then fails.
	Plan(ctx context.Context, env *Env, args json.RawMessage) (*Action, error)
}

// Action is a call that is ready to run.
type Action struct {
	Title     string // one line, says what is done
	Kind      string // where it differs from the tool's
	Locations []Location
	Content   []Content // shown before it runs: the diff, the command
	Need      Need
	// Inquiry is what the user is asked before Run, and Run looks at the answer
	// that was put into it; nil: nothing.
	Inquiry *Inquiry
	// Switch is where the answer of a call of class Switching goes; else nil.
	Switch *Switch
	// Run does it. show replaces what the editor sees of the call while it
	// runs; it may be called from Run's goroutine only. An error means that the
	// call failed; a cancelled ctx ends it soon.
	Run func(ctx context.Context, show func([]Content)) (Result, error)
}

// Class says what a call does to the world. The rules of approval know nothing
// else of a tool: a new tool chooses the class that says most of what it may do.
type Class uint8

const (
	Free      Class = iota // nothing, or reads inside the session's folders
	Reading                // reads outside of them
	Fetching               // gets something from the network
	Editing                // changes, moves or removes files
	Running                // runs a command
	Calling                // has somebody else do something of which only the name is known, as an MCP server, whatever he says of it
	Switching              // asks the user to end plan mode
)

// Need is the permission a call needs.
type Need struct {
	Class   Class
	Outside bool // it concerns a path outside the session's folders
	// Sensitive is the path or reason for which it is asked in every mode; ""
	// if there is none. Such a call is never granted beforehand.
	Sensitive string
	// Forbidden is the reason for which it is refused in every mode, unasked.
	Forbidden string
	// Grants names exactly what an "always" would cover, one word for each thing
	// that must have been granted before such a call is not asked any more:
	// resolved paths (of Editing all that are changed, both ends of a move too), the command,
	// a host, the name of a tool. Empty: there is no "always".
	Grants []string
	// Scope says the same to the user, as the end of "Always allow …".
	Scope string
	// Lasting says that an "always" is kept for the workspace, also for later
	// sessions, until it is revoked; else it ends with the session.
	Lasting bool
	// Command is what there is to know of a command; nil unless one is run.
	Command *Command
}

// Changes tells whether a call of this class may change something: what plan
// mode refuses, and what waits until the log is on the disk.
func (c Class) Changes() bool { return c == Editing || c == Running || c == Calling }

// Location is a place in a file.
type Location struct {
	Path string `json:"path"`           // absolute
	Line int    `json:"line,omitempty"` // from 1
}

// Content is what an editor shows of a call: a text, a diff, a picture, or
// another block.
type Content struct {
	Text  string
	Diff  *Diff
	Image *Image
	Block json.RawMessage // an ACP content block, as a resource
}

// Image is a picture.
type Image struct {
	MimeType string `json:"mimeType"`
	Data     string `json:"data"` // base64
}

// Diff is a change of one file.
type Diff struct {
	Path string  // absolute
	Old  *string // nil: the file is new
	New  string
}

// MarshalJSON writes the ACP v1 ToolCallContent object.
func (c Content) MarshalJSON() ([]byte, error) {
	if c.Diff != nil {
		return encode(struct {
			Type string  `json:"type"`
			Path string  `json:"path"`
			Old  *string `json:"oldText"`
			New  string  `json:"newText"`
		}{"diff", c.Diff.Path, c.Diff.Old, c.Diff.New})
	}
	if c.Image != nil {
		type image struct {
			Type string `json:"type"`
			Image
		}
		return encode(struct {
			Type    string `json:"type"`
			Content image  `json:"content"`
		}{"content", image{"image", *c.Image}})
	}
	if c.Block != nil {
		return encode(struct {
			Type    string          `json:"type"`
			Content json.RawMessage `json:"content"`
		}{"content", c.Block})
	}
	type text struct {
		Type string `json:"type"`
		Text string `json:"text"`
	}
	return encode(struct {
		Type    string `json:"type"`
		Content text   `json:"content"`
	}{"content", text{"text", c.Text}})
}

// encode is json.Marshal without the escapes for HTML.
func encode(v any) ([]byte, error) {
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(v); err != nil {
		return nil, err
	}
	return bytes.TrimRight(b.Bytes(), "\n"), nil
}

// Result is what came of a call.
type Result struct {
	Text    string    // for the model
	Content []Content // for the editor; nil leaves what it shows already
	Raw     any       // rawOutput, encoded as JSON; nil for none
	Failed  bool      // it ran, and what it ran did not succeed
	Plan    []PlanEntry
	// Images are for the model, if it sees.
	Images []Image
	// Locations are the places that were found; nil leaves those of the plan.
	Locations []Location
}

// PlanEntry is one step of the agent's plan, in ACP words.
type PlanEntry struct {
	Content  string `json:"content"`
	Priority string `json:"priority"`
	Status   string `json:"status"`
}

// Files are the texts as an editor has them. session.Host implements it.
type Files interface {
	ReadTextFile(ctx context.Context, path string) (string, error)
	WriteTextFile(ctx context.Context, path, content string) error
}

// Env is where the calls of one session happen.
type Env struct {
	Cwd   string   // absolute; relative paths are taken from here
	Dirs  []string // further folders of the session, absolute
	Files Files
	// NoEditor tells whether an error of Files means that no editor serves the
	// file, so that the disk is the truth.
	NoEditor func(error) bool
	// Protected are files and folders that are asked about in every mode, as
	// hermesd's own configuration; absolute.
	Protected []string
	Jobs      *Jobs // nil: there are none
	// Web fetches pages; nil: with the defaults.
	Web *web.Client
	// Allows tells whether a call of this need would run unasked, for what a
	// call finds out only while it runs; nil: never. It may be called from Run's
	// goroutine only.
	Allows func(Need) bool

	// Command settings; zero values mean the defaults.
	Environ []string // environment of commands; nil: what FindEnviron says
	// FindEnviron is asked, when a command runs, if nobody has said what Environ is;
	// it may take a while. nil: this process's, without HERMESD_*.
	FindEnviron func() []string
	TimeLimit   time.Duration // of a command that asks for none; default 120 s
	MaxTime     time.Duration // a command can ask for; default 1 h
	Grace       time.Duration // between TERM and KILL; default 2 s
	OutputLimit int           // bytes of output kept; default 32 KiB
}

// Registry holds tools in order.
type Registry struct{ tools []Tool }

// NewRegistry returns a registry of the given tools.
func NewRegistry(tools ...Tool) *Registry { return &Registry{tools: tools} }

// Standard returns the tools every session has.
func Standard() *Registry {
	return NewRegistry(ReadFile{}, WriteFile{}, Patch{}, DeleteFile{}, MoveFile{}, SearchFiles{}, Terminal{}, Process{}, WebFetch{}, Todo{}, ExitPlan{}, Clarify{})
}

// All returns the tools; the slice must not be written to.
func (r *Registry) All() []Tool { return r.tools }

// Find returns the tool of this name, nil if there is none.
func (r *Registry) Find(name string) Tool {
	for _, t := range r.tools {
		if t.Name() == name {
			return t
		}
	}
	return nil
}

// decode reads arguments strictly: an unknown one is an error that names it,
// so that a model can correct itself.
func decode(args json.RawMessage, into any) error {
	if len(bytes.TrimSpace(args)) == 0 {
		args = json.RawMessage("{}")
	}
	dec := json.NewDecoder(bytes.NewReader(args))
	dec.DisallowUnknownFields()
	if err := dec.Decode(into); err != nil {
		return fmt.Errorf("reading the arguments: %s", strings.TrimPrefix(err.Error(), "json: "))
	}
	if _, err := dec.Token(); !errors.Is(err, io.EOF) {
		return errors.New("reading the arguments: more than one JSON value")
	}
	return nil
}

// oneLine shows at most n runes of s on one line, without control characters
// and those that turn the direction of writing.
func oneLine(s string, n int) string {
	s = strings.Map(func(r rune) rune {
		switch {
		case r == '\n' || r == '\t' || r == '\r':
			return ' '
		case unicode.IsControl(r), unicode.Is(unicode.Bidi_Control, r), r == utf8.RuneError:
			return '\uFFFD'
		}
		return r
	}, s)
	s = strings.TrimSpace(s)
	if utf8.RuneCountInString(s) > n {
		s = string([]rune(s)[:n-1]) + "…"
	}
	return s
}

// code shows s as code in a title.
func code(s string, n int) string {
	s = oneLine(s, n)
	if strings.Contains(s, "`") {
		return s
	}
	return "`" + s + "`"
}

// Fence puts text into a Markdown code fence that the text cannot end.
func Fence(lang, text string) string {
	longest, run := 2, 0
	for _, r := range text {
		if r == '`' {
			run++
			longest = max(longest, run)
		} else {
			run = 0
		}
	}
	fence := strings.Repeat("`", longest+1)
	if text != "" && !strings.HasSuffix(text, "\n") {
		text += "\n"
	}
	return fence + lang + "\n" + text + fence
}
