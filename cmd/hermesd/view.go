package main

import (
	"encoding/json"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/hermesd/hermesd/transport/acp"
	"github.com/hermesd/hermesd/transport/acpclient"
)

// view prints a session to a terminal. On a terminal everything goes to stdout;
// otherwise stdout gets the agent's messages only, and the rest goes to stderr.
// It belongs to one goroutine.
type view struct {
	out, side io.Writer // messages; everything else
	c         colours   // of side
	spin      *spinner
	midline   bool   // the last thing printed did not end its line
	asking    string // what ready printed last
	message   string // "kind messageId" of the message being printed
	tools     map[string]*shownTool
	plan      string
}

type shownTool struct {
	call  json.RawMessage
	begun bool // its title is printed
	asked bool // a question has shown what it changes
	ended bool
}

// How much of a tool's result is shown.
const (
	maxDiffLines   = 16
	maxOutputLines = 8
	maxLineWidth   = 160
)

func newView(out, err io.Writer) *view {
	v := &view{out: out, side: err, c: coloursFor(err), tools: map[string]*shownTool{}}
	if isTerminal(out) {
		v.side, v.c = out, coloursFor(out)
	}
	v.spin = newSpinner(err, isTerminal(err))
	return v
}

func (v *view) close() { v.spin.stop() }

// busy lets the spinner appear if nothing is printed for a while.
func (v *view) busy(what string) {
	if !v.midline {
		v.spin.start(what)
	}
}

// rest takes the spinner away.
func (v *view) rest() { v.spin.stop() }

// line prints a whole line beside the messages.
func (v *view) line(format string, args ...any) {
	v.spin.stop()
	v.endMessage()
	fmt.Fprintf(v.side, format+"\n", args...)
}

// note says something of ours.
func (v *view) note(format string, args ...any) {
	v.line("%s%s%s", v.c.dim, harmless(fmt.Sprintf(format, args...)), v.c.reset)
}

// fail says what went wrong.
func (v *view) fail(text string) { v.line("%s✗ %s%s", v.c.red, harmless(text), v.c.reset) }

// streaming: a message is being printed, perhaps of another editor's turn.
func (v *view) streaming() bool { return v.midline && v.message != "" }

// ready prints what stands before the cursor when something is to be typed,
// unless it stands there already.
func (v *view) ready(text string) {
	v.spin.stop()
	if v.midline && v.message == "" && v.asking == text {
		return
	}
	v.asking = text
	v.endMessage()
	fmt.Fprint(v.side, v.c.bold+text+v.c.reset)
	v.midline = true
}

// typed: the user has ended the line.
func (v *view) typed() { v.midline, v.message = false, "" }

// endMessage ends the line a message was being printed on.
func (v *view) endMessage() {
	if !v.midline {
		return
	}
	if v.message != "" {
		w, reset := v.writer(v.message)
		fmt.Fprint(w, reset+"\n")
	} else {
		fmt.Fprintln(v.side)
	}
	v.midline, v.message = false, ""
}

// writer says where messages of a kind go, and what resets their colour.
func (v *view) writer(kind string) (io.Writer, string) {
	if strings.HasPrefix(kind, acp.AgentMessageChunk) {
		return v.out, ""
	}
	return v.side, v.c.reset
}

// update shows one update of the session.
func (v *view) update(kind string, update json.RawMessage) {
	switch kind {
	case acp.AgentMessageChunk, acp.AgentThoughtChunk, acp.UserMessageChunk:
		v.chunk(kind, update)
	case acp.ToolCall, acp.ToolCallUpdate:
		v.tool(update)
	case acp.Plan:
		if text := planText(update); text != v.plan {
			v.plan = text
			v.line("%s%s%s", v.c.cyan, strings.TrimRight(harmless(text), "\n"), v.c.reset)
		}
	case acp.SessionInfo:
		// Whoever's turn it was, its last message is complete.
		if state, _ := acp.GetPath(update, "_meta", "hermes", "turn", "state"); string(state) == `"idle"` {
			v.endMessage()
		}
	case acp.CurrentMode:
		mode, _ := acp.GetString(update, "currentModeId")
		v.note("Mode: %s", mode)
	case acp.Notice:
		title, _ := acp.GetString(update, "title")
		v.note("%s", title)
	}
}

// chunk prints a piece of a message.
func (v *view) chunk(kind string, update json.RawMessage) {
	v.spin.stop()
	content, _ := acp.Get(update, "content")
	text, ok := acp.GetString(content, "text")
	if !ok {
		t, _ := acp.GetString(content, "type")
		text = "[" + t + "]"
	}
	text = harmless(text)
	if text == "" {
		return
	}
	message := kind + " " + acp.MessageID(update)
	w, reset := v.writer(kind)
	if message != v.message {
		v.endMessage()
		v.message = message
		switch kind {
		case acp.AgentThoughtChunk:
			fmt.Fprint(w, v.c.dim)
		case acp.UserMessageChunk:
			fmt.Fprint(w, v.c.bold+"> ")
		}
	}
	if v.midline = !strings.HasSuffix(text, "\n"); v.midline {
		fmt.Fprint(w, text)
		return
	}
	// A line is over, perhaps the message too: colours end with the line.
	fmt.Fprint(w, text+reset)
	v.message = ""
}

// tool shows a tool call when it has a title to show, and again when it is over.
func (v *view) tool(update json.RawMessage) {
	t := v.toolOf(acp.ToolCallID(update))
	if t.ended {
		return
	}
	t.call = acp.MergeToolCall(t.call, update)
	title, _ := acp.GetString(t.call, "title")
	status, _ := acp.GetString(t.call, "status")
	if acp.ToolCallFinal(t.call) {
		t.ended = true
		mark, colour := "✓", v.c.green
		if status == "failed" {
			mark, colour = "✗", v.c.red
		}
		v.line("%s%s%s %s", colour, mark, v.c.reset, shorten(printable(title), maxLineWidth))
		v.toolResult(t)
		t.call = nil // what is over is not shown again
		return
	}
	if !t.begun && title != "" {
		t.begun = true
		v.line("%s•%s %s", v.c.yellow, v.c.reset, shorten(printable(title), maxLineWidth))
	}
}

func (v *view) toolOf(id string) *shownTool {
	t := v.tools[id]
	if t == nil {
		t = &shownTool{}
		v.tools[id] = t
	}
	return t
}

// toolResult shows what a tool changed and the end of what it printed.
func (v *view) toolResult(t *shownTool) {
	for _, c := range toolContents(t.call) {
		if c.path != "" {
			if !t.asked {
				v.diff(c)
			}
			continue
		}
		lines := strings.Split(strings.TrimSpace(c.text), "\n")
		// The text is Markdown; output stands in a fence, which says nothing here.
		lines = slices.DeleteFunc(lines, func(l string) bool { return strings.HasPrefix(l, "```") })
		if over := len(lines) - maxOutputLines; over > 0 {
			v.line("  %s… %d lines before%s", v.c.dim, over, v.c.reset)
			lines = lines[over:]
		}
		for _, l := range lines {
			if l != "" {
				v.line("  %s%s%s", v.c.dim, shorten(printable(l), maxLineWidth), v.c.reset)
			}
		}
	}
}

func (v *view) diff(c toolContent) {
	lines := diffLines(c.oldText, c.newText, 2)
	rest := 0
	if len(lines) > maxDiffLines {
		rest = len(lines) - maxDiffLines
		lines = lines[:maxDiffLines]
	}
	v.line("  %s%s%s", v.c.bold, printable(c.path), v.c.reset)
	for _, l := range lines {
		colour := v.c.dim
		switch l[0] {
		case '-':
			colour = v.c.red
		case '+':
			colour = v.c.green
		}
		v.line("  %s%s%s", colour, shorten(printable(l), maxLineWidth), v.c.reset)
	}
	if rest > 0 {
		v.line("  %s… %d lines more%s", v.c.dim, rest, v.c.reset)
	}
}

// question puts a question with numbered choices.
func (v *view) question(q acpclient.Question) {
	v.line("%s? %s%s", v.c.yellow, shorten(printable(q.Title), maxLineWidth), v.c.reset)
	t := v.toolOf(acp.ToolCallID(q.ToolCall))
	for _, c := range toolContents(q.ToolCall) {
		if c.path != "" {
			v.diff(c)
			t.asked = true
		}
	}
	for i, o := range q.Options {
		v.line("  %d  %s", i+1, printable(o.Name))
	}
}
