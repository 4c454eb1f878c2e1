package main

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"time"

	"github.com/hermesd/hermesd/transport/acp"
	"github.com/hermesd/hermesd/transport/acpclient"
)

// exportMarkdown writes a session as a document: prompts as headings, answers as
// they are, tool calls in their last state where they began.
func exportMarkdown(ctx context.Context, c *acpclient.Client, s sessionDetails, w *bufio.Writer) error {
	d := document{tools: map[string]int{}}
	if err := readLog(ctx, c, s.ID, 0, false, func(e logEvent) error { d.add(e); return nil }); err != nil {
		return err
	}
	title := s.Title
	if title == "" {
		title = "Session " + s.ID
	}
	fmt.Fprintf(w, "# %s\n\n", oneLine(title))
	fmt.Fprintf(w, "Session `%s` of agent `%s` in `%s`, %s to %s.\n", s.ID, s.Agent, s.Cwd,
		s.Created.Local().Format(time.DateTime), s.Updated.Local().Format(time.DateTime))
	for _, part := range d.parts {
		text := part.text
		if part.call != nil {
			text = callMarkdown(part.call)
		}
		if text = strings.TrimSpace(text); text != "" {
			fmt.Fprintf(w, "\n%s\n", text)
		}
	}
	return nil
}

// document is what has been read of a log: its parts in order.
type document struct {
	parts []part
	tools map[string]int // toolCallId to part
}

type part struct {
	kind string // of the update or event
	id   string // messageId
	text string
	call []byte // of a tool call, merged
}

func (d *document) add(e logEvent) {
	switch e.Kind {
	case "prompt_admitted":
		d.parts = append(d.parts, part{kind: e.Kind, text: "## Prompt\n\n" + promptText(e.Data) + "\n\n## Answer"})
	case "turn_ended":
		reason, _ := acp.GetString(e.Data, "stopReason")
		if message, ok := acp.GetPath(e.Data, "error", "message"); ok {
			var text string
			_ = json.Unmarshal(message, &text) // as it stands, if it is no string
			d.parts = append(d.parts, part{kind: e.Kind, text: "*The turn failed: " + oneLine(text) + "*"})
		} else if reason != "end_turn" {
			d.parts = append(d.parts, part{kind: e.Kind, text: "*The turn ended: " + strings.ReplaceAll(reason, "_", " ") + "*"})
		}
	case "question_answered":
		outcome, _ := acp.GetString(e.Data, "outcome")
		option, _ := acp.GetString(e.Data, "option")
		d.parts = append(d.parts, part{kind: e.Kind, text: "*Permission: " + strings.TrimSpace(strings.ReplaceAll(outcome, "_", " ")+" "+option) + "*"})
	case "update":
		d.addUpdate(e.Data)
	}
}

func (d *document) addUpdate(update json.RawMessage) {
	kind := acp.UpdateKind(update)
	switch kind {
	case acp.ToolCall, acp.ToolCallUpdate:
		id := acp.ToolCallID(update)
		at, ok := d.tools[id]
		if !ok {
			at = len(d.parts)
			d.tools[id] = at
			d.parts = append(d.parts, part{kind: acp.ToolCall, id: id})
		}
		d.parts[at].call = acp.MergeToolCall(d.parts[at].call, update)
	case acp.AgentMessageChunk, acp.AgentThoughtChunk:
		content, _ := acp.Get(update, "content")
		text, ok := acp.GetString(content, "text")
		if !ok {
			t, _ := acp.GetString(content, "type")
			text = "[" + t + "]"
		}
		id := acp.MessageID(update)
		if kind == acp.AgentThoughtChunk {
			text = strings.ReplaceAll(text, "\n", "\n> ")
		}
		if n := len(d.parts); n > 0 && d.parts[n-1].kind == kind && d.parts[n-1].id == id {
			d.parts[n-1].text += text
			return
		}
		if kind == acp.AgentThoughtChunk {
			text = "> " + text
		}
		d.parts = append(d.parts, part{kind: kind, id: id, text: text})
	case acp.Plan:
		d.parts = append(d.parts, part{kind: kind, text: planText(update)})
	}
}

// callMarkdown writes a tool call: what it was, how it ended, what it changed and
// what came out.
func callMarkdown(call []byte) string {
	var b strings.Builder
	title, _ := acp.GetString(call, "title")
	status, _ := acp.GetString(call, "status")
	fmt.Fprintf(&b, "**%s** (%s)\n", oneLine(title), strings.ReplaceAll(status, "_", " "))
	for _, c := range toolContents(call) {
		switch {
		case c.path != "":
			fmt.Fprintf(&b, "\n`%s`\n\n%s\n", c.path, fenced("diff", strings.Join(diffLines(c.oldText, c.newText, 3), "\n")))
		case strings.HasPrefix(c.text, "```"): // it brings its own fence
			fmt.Fprintf(&b, "\n%s\n", strings.TrimRight(c.text, "\n"))
		case c.text != "":
			fmt.Fprintf(&b, "\n%s\n", fenced("", strings.TrimRight(c.text, "\n")))
		}
	}
	return b.String()
}

// fenced puts text into a fence that is longer than any in it.
func fenced(language, text string) string {
	fence := "```"
	for strings.Contains(text, fence) {
		fence += "`"
	}
	return fence + language + "\n" + text + "\n" + fence
}

func oneLine(s string) string { return strings.Join(strings.Fields(s), " ") }
