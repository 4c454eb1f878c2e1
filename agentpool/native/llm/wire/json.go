package wire

import (
	"bytes"
	"encoding/json"

	"github.com/hermesd/hermesd/agentpool/native/llm"
	"github.com/hermesd/hermesd/transport/acp"
)

// AppendString appends s as a JSON string: quotes, backslashes and control
// characters are escaped and nothing else, bytes that are no UTF-8 become
// U+FFFD. The bytes for a text are always the same.
func AppendString(b []byte, s string) []byte { return acp.AppendString(b, s) }

// AppendMember appends `"name":value`, with a comma before it unless it is the
// first of its object or array.
func AppendMember(b []byte, name, value string) []byte {
	b = AppendComma(b)
	b = AppendString(b, name)
	b = append(b, ':')
	return AppendString(b, value)
}

// AppendComma appends a comma unless b ends where something begins.
func AppendComma(b []byte) []byte {
	if n := len(b); n == 0 || b[n-1] == '{' || b[n-1] == '[' || b[n-1] == ':' {
		return b
	}
	return append(b, ',')
}

// AppendArgs appends the arguments of a call, always an object: what is none
// becomes the member "arguments" of one.
func AppendArgs(b []byte, args json.RawMessage) []byte {
	args = bytes.TrimSpace(args)
	switch {
	case len(args) == 0 || !json.Valid(args):
		return append(b, "{}"...)
	case args[0] != '{':
		b = append(b, `{"arguments":`...)
		b = appendCompact(b, args)
		return append(b, '}')
	}
	return appendCompact(b, args)
}

// AppendSchema appends a JSON schema, or that of an object without members.
func AppendSchema(b []byte, schema json.RawMessage) []byte {
	if len(bytes.TrimSpace(schema)) == 0 || !json.Valid(schema) {
		return append(b, `{"type":"object","properties":{}}`...)
	}
	return appendCompact(b, schema)
}

// appendCompact appends valid JSON without white space, so that what comes
// fresh from a model and what was stored have the same bytes.
func appendCompact(b []byte, raw json.RawMessage) []byte {
	buf := bytes.NewBuffer(b)
	_ = json.Compact(buf, raw) // valid
	return buf.Bytes()
}

// Weight is about how many bytes messages take in a request.
func Weight(messages []llm.Message) int {
	n := 0
	for _, m := range messages {
		n += 32
		for _, p := range m.Parts {
			n += 64 + len(p.Text) + len(p.Thought) + len(p.Signature)
			if p.Call != nil {
				n += 64 + len(p.Call.Args)
			}
			if p.Result != nil {
				n += 64 + len(p.Result.Text)
			}
			if p.Attachment != nil {
				n += len(p.Attachment.Text) + len(p.Attachment.Data)
			}
		}
	}
	return n + n/8
}
