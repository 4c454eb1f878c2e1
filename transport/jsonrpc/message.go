package jsonrpc

import (
	"bytes"
	"encoding/json"
	"fmt"
)

type kind uint8

const (
	blank kind = iota
	notification
	request
	response
	garbage
)

// A message is what one line turned out to be. Its slices point into the line.
type message struct {
	kind   kind
	id     json.RawMessage // verbatim; nil if absent
	method []byte          // decoded
	params json.RawMessage // nil if absent
	result json.RawMessage // of a response; nil if absent
	fault  json.RawMessage // the error member of a response; nil if absent

	bad  *Error // garbage: what is wrong with it, as it would be answered
	mute bool   // garbage that is nevertheless meant as a response, so never answered
}

// classify decides what line is. Members it does not know are ignored, and so
// is the version marker: a line that says what to do is better served than
// taught. Of a name that occurs twice the last counts, as in encoding/json.
// The message is valid until the next call.
func (s *scanner) classify(line []byte) *message {
	m := &s.m
	*m = message{}
	i := space(line, 0)
	if i == len(line) {
		return m
	}
	if line[i] != '{' {
		batch := line[i] == '['
		if !s.valid(line) {
			return s.unparsable()
		}
		if batch {
			return m.garbage(invalid("batches are not accepted, send one message per line"))
		}
		return m.garbage(invalid("a message is a JSON object"))
	}

	var method json.RawMessage
	i = space(line, i+1)
	for first := true; ; first = false {
		if first && i < len(line) && line[i] == '}' {
			i++
			break
		}
		start := i
		if i = s.key(line, i); i < 0 {
			return s.unparsable()
		}
		name := memberName(line[start:i])
		start = space(line, i)
		if i = s.value(line, start, 1); i < 0 {
			return s.unparsable()
		}
		switch v := json.RawMessage(line[start:i:i]); string(name) {
		case "id":
			m.id = v
		case "method":
			method = v
		case "params":
			m.params = v
		case "result":
			m.result = v
		case "error":
			m.fault = v
		}
		i = space(line, i)
		if i < len(line) && line[i] == ',' {
			i = space(line, i+1)
			continue
		}
		if i < len(line) && line[i] == '}' {
			i++
			break
		}
		s.fail(i, whySyntax)
		if i == len(line) {
			s.why = whyEnd
		}
		return s.unparsable()
	}
	if i = space(line, i); i < len(line) {
		s.fail(i, whySyntax)
		return s.unparsable()
	}
	return m.judge(method)
}

// judge applies the rules of JSON-RPC to the members that were found.
func (m *message) judge(method json.RawMessage) *message {
	if isNull(method) {
		method = nil
	}
	answer := method == nil && (m.result != nil || m.fault != nil)
	idOK := m.id == nil || isNull(m.id) || m.id[0] == '"' || m.id[0] == '-' || '0' <= m.id[0] && m.id[0] <= '9'
	switch {
	case answer && (m.id == nil || !idOK):
		m.mute = true
		return m.garbage(invalid("a response needs the id of its request"))
	case answer:
		m.kind = response
		if isNull(m.fault) && m.result != nil { // some send both, one of them null
			m.fault = nil
		}
		return m
	case !idOK:
		return m.garbage(invalid("an id is a string or a number"))
	case method == nil:
		return m.garbage(invalid("neither method nor result nor error"))
	case method[0] != '"':
		return m.garbage(invalid("a method is a string"))
	}
	m.method = method[1 : len(method)-1]
	if bytes.IndexByte(m.method, '\\') >= 0 {
		m.method = []byte(unquote(method))
	}
	m.kind = notification
	if m.id != nil {
		m.kind = request
	}
	return m
}

func (m *message) garbage(e *Error) *message {
	m.kind, m.bad = garbage, e
	return m
}

func (s *scanner) unparsable() *message {
	return s.m.garbage(&Error{Code: codeParse, Message: fmt.Sprintf("Parse error: %s at byte %d", s.why, s.at)})
}

// memberName returns the name in b, which is a checked name with its quotes,
// and possibly white space and a colon behind it.
func memberName(b []byte) []byte {
	if bytes.IndexByte(b, '\\') >= 0 {
		return []byte(unquote(b[:bytes.LastIndexByte(b, '"')+1]))
	}
	b = b[1:]
	return b[:bytes.IndexByte(b, '"')]
}

// unquote decodes a checked JSON string.
func unquote(b []byte) string {
	if bytes.IndexByte(b, '\\') < 0 {
		return string(b[1 : len(b)-1])
	}
	var s string
	if json.Unmarshal(b, &s) != nil {
		return "" // cannot happen: it was checked
	}
	return s
}

func isNull(b []byte) bool { return string(b) == "null" }

// Notification encodes a notification as one line. Params are not validated;
// nil leaves them out.
func Notification(method string, params json.RawMessage) []byte {
	b := make([]byte, 0, len(method)+len(params)+48)
	return appendCall(append(b, `{"jsonrpc":"2.0","method":`...), method, params)
}

// RequestLine encodes a request as one line. The id is a JSON string on the
// wire. Params are not validated; nil leaves them out.
func RequestLine(id string, method string, params json.RawMessage) []byte {
	b := make([]byte, 0, len(id)+len(method)+len(params)+64)
	b = appendString(append(b, `{"jsonrpc":"2.0","id":`...), id)
	return appendCall(append(b, `,"method":`...), method, params)
}

func appendCall(b []byte, method string, params json.RawMessage) []byte {
	b = appendString(b, method)
	if len(params) > 0 {
		b = appendRaw(append(b, `,"params":`...), params)
	}
	return append(b, '}', '\n')
}

// resultLine and errorLine encode responses. The id goes out as it came in.
func resultLine(id, result json.RawMessage) []byte {
	b := make([]byte, 0, len(id)+len(result)+48)
	b = append(append(b, `{"jsonrpc":"2.0","id":`...), id...)
	b = appendRaw(append(b, `,"result":`...), result)
	return append(b, '}', '\n')
}

func errorLine(id json.RawMessage, e *Error) []byte {
	b := make([]byte, 0, len(id)+len(e.Message)+len(e.Data)+96)
	b = append(append(b, `{"jsonrpc":"2.0","id":`...), id...)
	b = fmt.Appendf(b, `,"error":{"code":%d,"message":`, e.Code)
	b = appendString(b, e.Message)
	if new(scanner).valid(e.Data) {
		b = appendRaw(append(b, `,"data":`...), e.Data)
	}
	return append(b, '}', '}', '\n')
}

// appendRaw appends JSON that must stay on one line. A raw line break in JSON
// can only be white space between values.
func appendRaw(b []byte, raw json.RawMessage) []byte {
	n := len(b)
	b = append(b, raw...)
	if bytes.IndexByte(raw, '\n') >= 0 || bytes.IndexByte(raw, '\r') >= 0 {
		for i, c := range b[n:] {
			if c == '\n' || c == '\r' {
				b[n+i] = ' '
			}
		}
	}
	return b
}

func appendString(b []byte, s string) []byte {
	for i := range len(s) {
		if c := s[i]; c < ' ' || c >= 0x7f || c == '"' || c == '\\' {
			q, err := marshal(s)
			if err != nil {
				q = []byte(`""`) // cannot happen: every string has an encoding
			}
			return append(b, q...)
		}
	}
	b = append(b, '"')
	b = append(b, s...)
	return append(b, '"')
}

// encode returns v as JSON: raw JSON as it is, after a check, everything else
// through encoding/json. Nil is "null".
func encode(v any) (json.RawMessage, error) {
	raw, ok := v.(json.RawMessage)
	if !ok {
		return marshal(v)
	}
	if len(raw) == 0 {
		return json.RawMessage("null"), nil
	}
	var s scanner
	if !s.valid(raw) {
		return nil, fmt.Errorf("%s at byte %d of raw JSON", s.why, s.at)
	}
	return raw, nil
}

// marshal is json.Marshal without the escapes that are meant for HTML.
func marshal(v any) (json.RawMessage, error) {
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(v); err != nil {
		return nil, err
	}
	return bytes.TrimSuffix(b.Bytes(), []byte("\n")), nil
}
