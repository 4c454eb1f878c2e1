package anthropic

import (
	"strconv"
	"strings"

	"github.com/hermesd/hermesd/agentpool/native/llm"
	"github.com/hermesd/hermesd/agentpool/native/llm/wire"
)

const (
	// redacted stands before the data of a thought that the provider keeps to
	// itself, in llm.Part.Signature. Real signatures are base64.
	redacted = "redacted:"

	// breakpoint tells the provider that what ends here will come again.
	breakpoint = `,"cache_control":{"type":"ephemeral"}`

	noOutput = "(no output)"
)

// body writes a request: what never changes in a session first, then the
// messages, each of which is written from itself alone. So the body of a
// request begins with the body of the one before without its last "]}".
//
// Cache breakpoints stand behind the tools and behind the system prompt. The
// third is the member cache_control of the whole request: the provider puts it
// on the last block, so it moves on without a change to what stands before.
func (m *Model) body(req llm.Request) []byte {
	b := make([]byte, 0, 16<<10+len(req.System)+wire.Weight(req.Messages))
	b = append(b, `{"model":`...)
	b = wire.AppendString(b, m.info.Name)
	limit := m.info.MaxOutput
	if limit <= 0 {
		limit = 8192
	}
	b = append(b, `,"max_tokens":`...)
	b = strconv.AppendInt(b, int64(limit), 10)
	b = append(b, `,"stream":true`...)
	b = append(b, breakpoint...)
	if len(req.Tools) > 0 {
		b = append(b, `,"tools":[`...)
		for i, t := range req.Tools {
			b = wire.AppendComma(b)
			b = append(b, '{')
			b = wire.AppendMember(b, "name", t.Name)
			b = wire.AppendMember(b, "description", t.Description)
			b = append(b, `,"input_schema":`...)
			b = wire.AppendSchema(b, t.Schema)
			if i == len(req.Tools)-1 {
				b = append(b, breakpoint...)
			}
			b = append(b, '}')
		}
		b = append(b, ']')
	}
	if strings.TrimSpace(req.System) != "" {
		b = append(b, `,"system":[{"type":"text","text":`...)
		b = wire.AppendString(b, req.System)
		b = append(b, breakpoint...)
		b = append(b, `}]`...)
	}
	b = m.thinking(b, req.Effort, limit)
	b = append(b, `,"messages":[`...)
	for _, msg := range req.Messages {
		b = m.message(b, msg)
	}
	return append(b, `]}`...)
}

// thinking writes how much the model shall think. "" is the model's own
// choice: one that can see itself how much to think is told to do so.
func (m *Model) thinking(b []byte, effort string, limit int) []byte {
	switch {
	case effort == none:
		// Not to think is not to be asked to.
	case m.info.Thinking == adaptive:
		b = append(b, `,"thinking":{"type":"adaptive","display":"summarized"}`...)
	case m.info.Thinking == budgeted && effort != "":
		budget := map[string]int{"low": 4096, "medium": 12_288}[effort]
		if budget == 0 {
			budget = 24_576
		}
		if budget = min(budget, limit-1024); budget >= 1024 {
			b = append(b, `,"thinking":{"type":"enabled","budget_tokens":`...)
			b = strconv.AppendInt(b, int64(budget), 10)
			b = append(b, '}')
		}
		return b
	}
	if effort != "" && effort != none && m.info.Thinking != budgeted {
		b = append(b, `,"output_config":{"effort":`...)
		b = wire.AppendString(b, effort)
		b = append(b, '}')
	}
	return b
}

// message writes one message, or nothing if nothing of it can be said to this
// provider.
func (m *Model) message(b []byte, msg llm.Message) []byte {
	start := len(b)
	role := "user"
	if msg.Role == llm.RoleAssistant {
		role = "assistant"
	}
	b = wire.AppendComma(b)
	b = append(b, '{')
	b = wire.AppendMember(b, "role", role)
	b = append(b, `,"content":[`...)
	empty := len(b)
	ours := strings.HasPrefix(msg.By, m.info.Provider+"/")
	for _, p := range msg.Parts {
		switch {
		case p.Text != "":
			b = text(b, p.Text)
		case p.Note != "":
			b = text(b, p.Note)
		case p.Call != nil:
			b = append(wire.AppendComma(b), `{"type":"tool_use"`...)
			b = wire.AppendMember(b, "id", p.Call.ID)
			b = wire.AppendMember(b, "name", p.Call.Name)
			b = append(b, `,"input":`...)
			b = wire.AppendArgs(b, p.Call.Args)
			b = append(b, '}')
		case p.Result != nil:
			b = result(b, *p.Result)
		case p.Attachment != nil:
			b = attachment(b, *p.Attachment)
		case p.Signature == "" || !ours:
			// A thought without its signature, or of another provider, is
			// not taken.
		case strings.HasPrefix(p.Signature, redacted):
			b = append(wire.AppendComma(b), `{"type":"redacted_thinking"`...)
			b = wire.AppendMember(b, "data", p.Signature[len(redacted):])
			b = append(b, '}')
		default:
			b = append(wire.AppendComma(b), `{"type":"thinking"`...)
			b = wire.AppendMember(b, "thinking", p.Thought)
			b = wire.AppendMember(b, "signature", p.Signature)
			b = append(b, '}')
		}
	}
	if len(b) == empty {
		return b[:start]
	}
	return append(b, `]}`...)
}

func text(b []byte, s string) []byte {
	b = append(wire.AppendComma(b), `{"type":"text"`...)
	b = wire.AppendMember(b, "text", s)
	return append(b, '}')
}

func image(b []byte, a llm.Attachment) []byte {
	return source(b, "image", strings.ToLower(a.MimeType), a.Data)
}

func source(b []byte, kind, mime, data string) []byte {
	b = append(wire.AppendComma(b), '{')
	b = wire.AppendMember(b, "type", kind)
	b = append(b, `,"source":{"type":"base64"`...)
	b = wire.AppendMember(b, "media_type", mime)
	b = wire.AppendMember(b, "data", data)
	return append(b, `}}`...)
}

func result(b []byte, r llm.ToolResult) []byte {
	b = append(wire.AppendComma(b), `{"type":"tool_result"`...)
	b = wire.AppendMember(b, "tool_use_id", r.CallID)
	b = append(b, `,"content":[`...)
	if strings.TrimSpace(r.Text) != "" {
		b = text(b, r.Text)
	} else if len(r.Images) == 0 {
		b = text(b, noOutput)
	}
	for _, a := range r.Images {
		b = image(b, a)
	}
	b = append(b, ']')
	if r.Failed {
		b = append(b, `,"is_error":true`...)
	}
	return append(b, '}')
}

func attachment(b []byte, a llm.Attachment) []byte {
	switch {
	case a.Kind == "image":
		return image(b, a)
	case a.Data != "" && strings.EqualFold(a.MimeType, "application/pdf"):
		return source(b, "document", "application/pdf", a.Data)
	}
	return text(b, wire.Describe(a))
}
