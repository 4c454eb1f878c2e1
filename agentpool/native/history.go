package native

import (
	"bytes"
	"encoding/json"
	"strings"
	"unicode/utf8"

	"github.com/hermesd/hermesd/agentpool/native/llm"
	"github.com/hermesd/hermesd/daemon/session"
)

// history is the conversation as a model is told it. It is always valid:
// every call has exactly one result, in the message after it, and no message
// is empty.
//
// It is not stored as such. What the user said stands in the session's log as
// prompts; what the model said and what its calls came to is recorded there,
// one record for each finished message. replay makes the history of these
// again, also of a log that ends in the middle of a call.
type history struct {
	messages []llm.Message
	bytes    int // of all texts, to guess the tokens
	calls    int
	planning bool // the model was last told that the session is in plan mode
	// prompt is one more than the place of the prompt that the running turn, or
	// the last one, began with; 0 if it is not there any more.
	prompt int
	// compactions is how often a part of the conversation was summed up.
	compactions int
}

const (
	maxKept = 256 << 10 // bytes of one text that are kept

	keptNote        = "\n[the rest was not kept]"
	interruptedNote = "hermesd was interrupted before this call was over: whether it had an effect is unknown, it was not run again"
)

// add appends a message. Calls that are still open get the result that they
// were interrupted first.
func (h *history) add(m llm.Message) {
	m.Parts = kept(m.Parts)
	if len(m.Parts) == 0 {
		return
	}
	if m.Role != llm.RoleTool {
		h.settle()
	}
	h.messages = append(h.messages, m)
	h.bytes += size(m)
	if m.Role == llm.RoleAssistant {
		h.calls += len(callsOf(m))
	}
}

// begin appends the prompt of a turn.
func (h *history) begin(m llm.Message) {
	n := len(h.messages)
	h.add(m) // may settle calls first
	if h.prompt = 0; len(h.messages) > n {
		h.prompt = len(h.messages)
	}
}

// settle gives the calls of the last message a result if they have none.
func (h *history) settle() {
	if len(h.messages) == 0 {
		return
	}
	results := llm.Message{Role: llm.RoleTool}
	for _, p := range h.messages[len(h.messages)-1].Parts {
		if p.Call != nil {
			results.Parts = append(results.Parts, llm.Part{Result: &llm.ToolResult{CallID: p.Call.ID, Name: p.Call.Name, Text: interruptedNote, Failed: true}})
		}
	}
	if len(results.Parts) > 0 {
		h.messages = append(h.messages, results)
		h.bytes += size(results)
	}
}

// takeBack removes the turn's prompt unless the model has answered it: it
// failed, and what made it fail must not make every later one fail too. What
// users said after it stays. It tells whether it was removed.
func (h *history) takeBack() bool {
	if !h.unanswered() {
		return false
	}
	at := h.prompt - 1
	h.bytes -= size(h.messages[at])
	h.messages = append(h.messages[:at:at], h.messages[at+1:]...)
	h.prompt = 0
	h.planning = h.lookForPlan() // it may have been told of it beside the prompt
	return true
}

// unanswered tells whether nobody but users has spoken since the turn began.
func (h *history) unanswered() bool {
	if h.prompt == 0 || h.prompt > len(h.messages) {
		return false
	}
	for _, m := range h.messages[h.prompt-1:] {
		if m.Role != llm.RoleUser {
			return false
		}
	}
	return true
}

// note puts a note beside the turn's prompt.
func (h *history) note(text string) {
	if !h.unanswered() {
		return
	}
	m := &h.messages[h.prompt-1]
	h.bytes -= size(*m)
	m.Parts = append(m.Parts[:len(m.Parts):len(m.Parts)], llm.Part{Note: text})
	h.bytes += size(*m)
	if text == planNote || text == planOver {
		h.planning = text == planNote
	}
}

// kept drops empty parts and cuts huge texts.
func kept(parts []llm.Part) []llm.Part {
	var out []llm.Part
	for _, p := range parts {
		if strings.TrimSpace(p.Text) == "" {
			p.Text = "" // no provider takes it
		}
		if p == (llm.Part{}) {
			continue
		}
		p.Text = cutText(p.Text)
		if p.Signature == "" { // a signed thought is taken back whole or not at all
			p.Thought = cutText(p.Thought)
		}
		if p.Result != nil && len(p.Result.Text) > maxKept {
			r := *p.Result
			r.Text = cutText(r.Text)
			p.Result = &r
		}
		out = append(out, p)
	}
	return out
}

func cutText(s string) string {
	if len(s) <= maxKept {
		return s
	}
	n := maxKept - len(keptNote)
	for n > 0 && !utf8.RuneStart(s[n]) {
		n--
	}
	return s[:n] + keptNote
}

func size(m llm.Message) int {
	n := 0
	for _, p := range m.Parts {
		n += len(p.Text) + len(p.Thought) + len(p.Note)
		if p.Attachment != nil {
			n += len(p.Attachment.Text) + len(p.Attachment.Data) + len(p.Attachment.URI)
		}
		if p.Call != nil {
			n += len(p.Call.Args)
		}
		if p.Result != nil {
			n += len(p.Result.Text)
		}
	}
	return n
}

// record is what we put into the session's log for ourselves.
type record struct {
	Message *llm.Message `json:"message,omitempty"`
	Grant   *grant       `json:"grant,omitempty"`
	Packed  []byte       `json:"prefix,omitempty"`  // a prefix, see pack
	Spent   *spent       `json:"spent,omitempty"`   // for the message
	Note    *note        `json:"note,omitempty"`    // beside the prompt
	Aside   *spent       `json:"aside,omitempty"`   // for what is no message of the conversation
	Session session.ID   `json:"session,omitempty"` // whose all this is but the message and the note's text
	Mode    string       `json:"mode,omitempty"`    // a note on plan mode, beside the prompt

	// What follows changes the conversation, that of a fork too.
	Compaction *compaction `json:"compaction,omitempty"`
	Reset      bool        `json:"reset,omitempty"`
	Joined     session.Seq `json:"joined,omitempty"`    // prompt that was taken into the turn: here is its place
	TakenBack  bool        `json:"takenBack,omitempty"` // the turn's prompt failed and is forgotten
}

// memory is what a log says of the past.
type memory struct {
	session  session.ID
	history  history
	prefix   *prefix
	meter    meter
	grants   map[grant]bool
	titled   bool   // the session has got a title, or had a prompt
	commands string // the last available_commands_update, raw

	prompts map[session.Seq]json.RawMessage // admitted and not started
	joined  joined
	open    bool // the turn that runs has put its prompt into the history

	told map[string]toldTool // tools of MCP servers
	knew map[string]toldTool // the same, when the turn that runs began
}

// afresh is what a new beginning of the conversation means for the rest.
func (m *memory) afresh() {
	m.meter.context = 0
	if m.prefix != nil {
		m.told = m.prefix.MCP
		m.knew = m.told
	}
}

// replay takes one record of the log. Records it cannot read are of another
// version of ours or of another agent: they are passed over.
func (m *memory) replay(r session.Record) error {
	switch r.Kind {
	case session.KindUpdate:
		if bytes.HasPrefix(r.Data, []byte(`{"sessionUpdate":"available_commands_update"`)) {
			m.commands = string(r.Data)
		}
	case session.KindPromptAdmitted:
		var p session.PromptAdmitted
		if json.Unmarshal(r.Data, &p) == nil {
			m.prompts[r.First] = p.Prompt
		}
	case session.KindPromptWithdrawn:
		var p session.PromptWithdrawn
		if json.Unmarshal(r.Data, &p) == nil {
			delete(m.prompts, p.Prompt)
		}
	case session.KindPromptJoined:
		var p session.PromptJoined
		if json.Unmarshal(r.Data, &p) == nil {
			m.joined.add(p.Prompt, m.prompts[p.Prompt])
			delete(m.prompts, p.Prompt)
		}
	case session.KindTurnStarted:
		var t session.TurnStarted
		if json.Unmarshal(r.Data, &t) != nil {
			break
		}
		var blocks []json.RawMessage
		m.open, m.knew = false, m.told
		err := json.Unmarshal(m.prompts[t.Prompt], &blocks)
		delete(m.prompts, t.Prompt)
		if err != nil {
			break
		}
		msg, err := readPrompt(blocks)
		if err != nil {
			break
		}
		if !isCommand(msg) {
			m.titled = true
			m.history.begin(asPrompt(msg))
			m.open = true
		}
	case session.KindTurnEnded:
		m.open = false
		for _, msg := range m.joined.rest() {
			m.history.add(msg)
		}
	case session.KindAgentRecord:
		var rec record
		if json.Unmarshal(r.Data, &rec) != nil {
			break
		}
		if rec.Message != nil {
			m.history.add(*rec.Message)
		}
		if rec.Note != nil && m.open {
			m.history.note(rec.Note.Text)
		}
		if rec.Mode != "" && m.open {
			m.history.note(rec.Mode)
		}
		if msg, ok := m.joined.take(rec.Joined); ok {
			m.history.add(msg)
		}
		if rec.TakenBack && m.history.takeBack() {
			m.told = m.knew
		}
		if rec.Compaction != nil {
			m.history.compact(*rec.Compaction)
			m.afresh()
		}
		if rec.Reset {
			m.history.reset()
			m.afresh()
		}
		// A fork begins with its parent's log, but not with what was granted
		// and paid there, nor in the same folder.
		if rec.Session != m.session {
			break
		}
		if rec.Grant != nil && rec.Grant.Kind != "run" { // commands are granted in the workspace
			m.grants[*rec.Grant] = true
		}
		if p, err := unpack(rec.Packed); rec.Packed != nil && err == nil {
			m.prefix, m.told, m.knew = p, p.MCP, p.MCP
		}
		if rec.Note != nil {
			m.told = rec.Note.Told
		}
		if rec.Spent != nil {
			m.meter.add(*rec.Spent)
			m.meter.context, m.meter.bytes = rec.Spent.Total(), m.history.bytes
		}
		if rec.Aside != nil {
			m.meter.add(*rec.Aside)
		}
	}
	return nil
}
