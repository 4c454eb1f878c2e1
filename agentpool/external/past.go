package external

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"unicode/utf8"

	"github.com/hermesd/hermesd/daemon/session"
	"github.com/hermesd/hermesd/transport/acp"
)

// record is what we put into the session's log for ourselves.
type record struct {
	Session string     `json:"externalSession"` // as the program calls it
	Of      session.ID `json:"of"`              // the session it is of: a fork has its parent's records
}

func encodeRecord(r record) []byte {
	data, err := json.Marshal(r)
	if err != nil {
		panic(err) // strings only
	}
	return data
}

// past is what the log knows of the program's side.
type past struct {
	id         string // of its session; "" if there is none
	transcript string // for a program that does not remember; "" if nothing was said
}

const (
	maxTranscript = 48 << 10 // bytes that a program without memory is given
	maxSaid       = 4 << 10  // of one message
)

// readPast reads the log.
func readPast(ctx context.Context, host session.Host, of session.ID) (past, error) {
	var p past
	var t transcript
	prompts := map[session.Seq]json.RawMessage{}
	err := host.Replay(ctx, func(r session.Record) error {
		switch r.Kind {
		case session.KindAgentRecord:
			var rec record
			if json.Unmarshal(r.Data, &rec) == nil && rec.Session != "" && rec.Of == of {
				p.id = rec.Session
			}
		case session.KindPromptAdmitted:
			if blocks, ok := acp.Get(r.Data, "prompt"); ok {
				prompts[r.First] = blocks
			}
		case session.KindTurnStarted:
			var f session.TurnStarted
			if json.Unmarshal(r.Data, &f) == nil {
				t.say("User", promptText(prompts[f.Prompt]))
				delete(prompts, f.Prompt)
			}
		case session.KindUpdate:
			t.update(r.Data)
		}
		return nil
	})
	if err != nil {
		return past{}, fmt.Errorf("reading the session's log: %w", err)
	}
	p.transcript = t.text()
	return p, nil
}

func promptText(blocks json.RawMessage) string {
	all, _ := acp.Elements(blocks)
	var texts []string
	for _, b := range all {
		if text, ok := acp.GetString(b, "text"); ok {
			texts = append(texts, text)
		} else if uri, ok := acp.GetString(b, "uri"); ok {
			texts = append(texts, "("+uri+")")
		}
	}
	return strings.Join(texts, "\n")
}

// transcript is a conversation in words.
type transcript struct {
	entries []string
	who     string
	open    strings.Builder
}

func (t *transcript) update(u []byte) {
	switch acp.UpdateKind(u) {
	case acp.AgentMessageChunk:
		content, _ := acp.Get(u, "content")
		if text, ok := acp.GetString(content, "text"); ok {
			if t.who != "Agent" {
				t.close()
				t.who = "Agent"
			}
			t.open.WriteString(text)
		}
	case acp.ToolCall:
		if title, ok := acp.GetString(u, "title"); ok {
			t.say("Tool", title)
		}
	}
}

func (t *transcript) say(who, text string) {
	t.close()
	t.who = who
	t.open.WriteString(text)
	t.close()
}

func (t *transcript) close() {
	if text := strings.TrimSpace(t.open.String()); text != "" {
		t.entries = append(t.entries, t.who+": "+cut(text, maxSaid))
	}
	t.open.Reset()
	t.who = ""
}

// text is the whole, the oldest left out where it is too long.
func (t *transcript) text() string {
	t.close()
	if len(t.entries) == 0 {
		return ""
	}
	n, size := len(t.entries), 0
	for n > 0 && size+len(t.entries[n-1]) <= maxTranscript {
		n--
		size += len(t.entries[n]) + 1
	}
	head := "What was said in this session before, as a transcript. Go on from it.\n\n"
	if n > 0 {
		head += fmt.Sprintf("(%d older entries are left out)\n", n)
	}
	return head + strings.Join(t.entries[n:], "\n") + "\n\nEnd of the transcript. What follows is the user's new prompt."
}

func cut(s string, max int) string {
	if len(s) <= max {
		return s
	}
	for max > 0 && !utf8.RuneStart(s[max]) {
		max--
	}
	return s[:max] + " […]"
}
