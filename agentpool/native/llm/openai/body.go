package openai

import (
	"strconv"
	"strings"

	"github.com/hermesd/hermesd/agentpool/native/llm"
	"github.com/hermesd/hermesd/agentpool/native/llm/wire"
)

const noOutput = "(no output)"

// body writes a request: what never changes in a session first, then the
// messages, each of which is written from itself alone. So the body of a
// request begins with the body of the one before without its last "]}".
func (m *Model) body(req llm.Request) []byte {
	b := make([]byte, 0, 16<<10+len(req.System)+wire.Weight(req.Messages))
	b = append(b, `{"model":`...)
	b = wire.AppendString(b, m.info.Name)
	b = append(b, `,"stream":true,"stream_options":{"include_usage":true}`...)
	if m.at.Provider == Provider && req.Session != "" {
		// Requests with one key meet the same cache.
		b = wire.AppendMember(b, "prompt_cache_key", req.Session)
	}
	if m.info.MaxOutput > 0 {
		name := "max_tokens" // what all know but OpenAI's newer models
		if m.at.Provider == Provider {
			name = "max_completion_tokens"
		}
		b = append(b, `,"`+name+`":`...)
		b = strconv.AppendInt(b, int64(m.info.MaxOutput), 10)
	}
	if len(req.Tools) > 0 {
		b = append(b, `,"tools":[`...)
		for _, t := range req.Tools {
			b = append(wire.AppendComma(b), `{"type":"function","function":{`...)
			b = wire.AppendMember(b, "name", t.Name)
			b = wire.AppendMember(b, "description", t.Description)
			b = append(b, `,"parameters":`...)
			b = wire.AppendSchema(b, t.Schema)
			b = append(b, `}}`...)
		}
		b = append(b, ']')
	}
	if req.Effort != "" {
		b = wire.AppendMember(b, "reasoning_effort", req.Effort)
	}
	b = append(b, `,"messages":[`...)
	if strings.TrimSpace(req.System) != "" {
		b = open(b, "system")
		b = wire.AppendMember(b, "content", req.System)
		b = append(b, '}')
	}
	for _, msg := range req.Messages {
		switch msg.Role {
		case llm.RoleAssistant:
			b = m.assistant(b, msg)
		case llm.RoleTool:
			b = results(b, msg)
		default:
			b = user(b, msg)
		}
	}
	return append(b, `]}`...)
}

func open(b []byte, role string) []byte {
	b = append(wire.AppendComma(b), '{')
	return wire.AppendMember(b, "role", role)
}

// assistant writes what the model said, or nothing if nothing of it can be
// said to this server.
func (m *Model) assistant(b []byte, msg llm.Message) []byte {
	var text, thought strings.Builder
	var calls []*llm.ToolCall
	var sig signature
	for _, p := range msg.Parts {
		text.WriteString(p.Text)
		thought.WriteString(p.Thought)
		if p.Call != nil {
			calls = append(calls, p.Call)
		}
		if p.Signature != "" {
			sig.decode(p.Signature)
		}
	}
	if text.Len() == 0 && len(calls) == 0 {
		return b
	}
	ours := strings.HasPrefix(msg.By, m.info.Provider+"/")
	b = open(b, "assistant")
	if text.Len() > 0 {
		b = wire.AppendMember(b, "content", text.String())
	} else {
		b = append(b, `,"content":null`...)
	}
	switch {
	case !ours:
	case len(sig.Details) > 0:
		b = append(b, `,"reasoning_details":`...)
		b = append(b, sig.details()...)
	case sig.Field != "" && len(calls) > 0 && thought.Len() > 0:
		// Those who think between calls want to be told what they thought.
		b = wire.AppendMember(b, sig.Field, thought.String())
	}
	if len(calls) > 0 {
		b = append(b, `,"tool_calls":[`...)
		for _, c := range calls {
			b = append(wire.AppendComma(b), '{')
			b = wire.AppendMember(b, "id", c.ID)
			b = append(b, `,"type":"function","function":{`...)
			b = wire.AppendMember(b, "name", c.Name)
			b = wire.AppendMember(b, "arguments", string(wire.AppendArgs(nil, c.Args)))
			b = append(b, '}')
			if ours && c.Signature != "" {
				b = append(b, `,"extra_content":`...)
				b = wire.AppendSchema(b, []byte(c.Signature))
			}
			b = append(b, '}')
		}
		b = append(b, ']')
	}
	return append(b, '}')
}

// results writes a message for each result, then one with the pictures tools
// looked at: results themselves are text only in this format.
func results(b []byte, msg llm.Message) []byte {
	var images []llm.Attachment
	for _, p := range msg.Parts {
		if p.Result == nil {
			continue
		}
		b = open(b, "tool")
		b = wire.AppendMember(b, "tool_call_id", p.Result.CallID)
		text := p.Result.Text
		if strings.TrimSpace(text) == "" {
			text = noOutput
		}
		b = wire.AppendMember(b, "content", text)
		b = append(b, '}')
		images = append(images, p.Result.Images...)
	}
	if len(images) > 0 {
		b = open(b, "user")
		b = append(b, `,"content":[`...)
		for _, a := range images {
			b = image(b, a)
		}
		b = append(b, `]}`...)
	}
	return b
}

func user(b []byte, msg llm.Message) []byte {
	if len(msg.Parts) == 0 {
		return b
	}
	b = open(b, "user")
	if len(msg.Parts) == 1 && msg.Parts[0].Text != "" {
		b = wire.AppendMember(b, "content", msg.Parts[0].Text)
		return append(b, '}')
	}
	b = append(b, `,"content":[`...)
	for _, p := range msg.Parts {
		switch {
		case p.Text != "":
			b = text(b, p.Text)
		case p.Note != "":
			b = text(b, p.Note)
		case p.Attachment == nil:
		case p.Attachment.Kind == "image":
			b = image(b, *p.Attachment)
		default:
			b = text(b, wire.Describe(*p.Attachment))
		}
	}
	return append(b, `]}`...)
}

func text(b []byte, s string) []byte {
	b = append(wire.AppendComma(b), `{"type":"text"`...)
	b = wire.AppendMember(b, "text", s)
	return append(b, '}')
}

func image(b []byte, a llm.Attachment) []byte {
	b = append(wire.AppendComma(b), `{"type":"image_url","image_url":{`...)
	b = wire.AppendMember(b, "url", "data:"+strings.ToLower(a.MimeType)+";base64,"+a.Data)
	return append(b, `}}`...)
}
