package acp

import (
	"bytes"
	"encoding/json"
	"strconv"
)

// Get gives the value of a member as it stands in obj; the result is part of
// obj. ok is false if there is no such member or obj is no object.
func Get(obj []byte, name string) (value json.RawMessage, ok bool) {
	start, end, ok := find(obj, name)
	if !ok {
		return nil, false
	}
	return obj[start:end:end], true
}

// GetPath follows names through nested objects.
func GetPath(obj []byte, names ...string) (value json.RawMessage, ok bool) {
	value = obj
	for _, name := range names {
		if value, ok = Get(value, name); !ok {
			return nil, false
		}
	}
	return value, true
}

// GetString gives a member that is a string; ok is false if it is anything else.
func GetString(obj []byte, name string) (s string, ok bool) {
	value, ok := Get(obj, name)
	if !ok {
		return "", false
	}
	return decodeString(value)
}

// Set gives obj with the member set to value, in its old place or at the end.
// The other members keep their bytes and their order. Something that is no
// object counts as an empty one.
func Set(obj []byte, name string, value []byte) []byte {
	var o Builder
	done := false
	last, _, _ := find(obj, name)
	m := object(obj)
	for m.next() {
		switch {
		case !m.is(name):
			o.member(m.b[m.keyStart-1:m.keyEnd+1], m.value())
		case m.valStart == last:
			o.member(m.b[m.keyStart-1:m.keyEnd+1], value)
			done = true
		}
	}
	if !done {
		o.member(String(name), value)
	}
	return o.JSON()
}

// Delete gives obj without the member; obj itself if it has none.
func Delete(obj []byte, name string) []byte {
	if _, _, ok := find(obj, name); !ok {
		return obj
	}
	var o Builder
	m := object(obj)
	for m.next() {
		if !m.is(name) {
			o.member(m.b[m.keyStart-1:m.keyEnd+1], m.value())
		}
	}
	return o.JSON()
}

// Overlay gives base with the members of patch put over it: those of both have
// patch's value in base's place, those of base alone are kept, those of patch
// alone follow. Values keep their bytes. Something that is no object counts as
// an empty one.
func Overlay(base, patch []byte) []byte { return overlay(base, patch, nil) }

// overlay is Overlay, where value may say what a member becomes: was is nil if
// base lacks it, is is nil if patch does. A nil result leaves the member out.
func overlay(base, patch []byte, value func(name string, was, is []byte) []byte) []byte {
	if value == nil {
		value = func(_ string, was, is []byte) []byte {
			if is != nil {
				return is
			}
			return was
		}
	}
	type member struct{ key, was, is []byte }
	var order []string
	all := make(map[string]*member)
	collect := func(obj []byte, take func(*member, []byte)) {
		m := object(obj)
		for m.next() {
			name := m.name()
			known := all[name]
			if known == nil {
				known = &member{key: m.b[m.keyStart-1 : m.keyEnd+1]}
				all[name] = known
				order = append(order, name)
			}
			take(known, m.value())
		}
	}
	collect(base, func(m *member, v []byte) { m.was = v })
	collect(patch, func(m *member, v []byte) { m.is = v })

	o := Builder{b: make([]byte, 0, len(base)+len(patch))}
	for _, name := range order {
		m := all[name]
		if v := value(name, m.was, m.is); v != nil {
			o.member(m.key, v)
		}
	}
	return o.JSON()
}

// MergeToolCall gives the complete tool call that results when patch, a
// `tool_call_update` or a repeated `tool_call`, is applied to base, a
// `tool_call`. base may be nil: then the result is what patch says, as a
// `tool_call`.
//
// A member of patch replaces base's. Null, and what has not the type the
// protocol gives the member, means "unchanged". `_meta` is merged by its
// top-level keys. Members we do not know are overlaid like the others.
func MergeToolCall(base, patch []byte) []byte {
	return overlay(base, patch, func(name string, was, is []byte) []byte {
		if name == "sessionUpdate" {
			return []byte(`"` + ToolCall + `"`)
		}
		if is == nil {
			return was
		}
		usable := true
		switch name {
		case "title", "name", "kind", "status", "toolCallId":
			usable = is[0] == '"'
		case "content", "locations":
			usable = is[0] == '['
		case "rawInput", "rawOutput":
			usable = !isNull(is)
		case "_meta":
			usable = is[0] == '{'
			if usable && was != nil && was[0] == '{' {
				return Overlay(was, is)
			}
		}
		if !usable {
			return was
		}
		return is
	})
}

// ToolCallFinal says whether a tool call's status is one that does not change
// any more.
func ToolCallFinal(call []byte) bool {
	status, _ := GetString(call, "status")
	return status == "completed" || status == "failed"
}

// Compact gives JSON without layout; what is not JSON comes back as it is.
func Compact(b []byte) []byte {
	var out bytes.Buffer
	out.Grow(len(b))
	if json.Compact(&out, b) != nil {
		return b
	}
	return out.Bytes()
}

// Builder writes a JSON object member by member. The zero Builder is ready.
type Builder struct{ b []byte }

func (o *Builder) member(key, value []byte) {
	if len(o.b) == 0 {
		o.b = append(o.b, '{')
	} else {
		o.b = append(o.b, ',')
	}
	o.b = append(o.b, key...)
	o.b = append(o.b, ':')
	o.b = append(o.b, value...)
}

// Raw adds a member whose value is JSON already; an empty value adds nothing.
func (o *Builder) Raw(name string, value []byte) *Builder {
	if len(value) != 0 {
		o.member(String(name), value)
	}
	return o
}

// String adds a string.
func (o *Builder) String(name, value string) *Builder {
	o.member(String(name), String(value))
	return o
}

// Strings adds an array of strings.
func (o *Builder) Strings(name string, values []string) *Builder {
	b := []byte{'['}
	for i, v := range values {
		if i > 0 {
			b = append(b, ',')
		}
		b = AppendString(b, v)
	}
	o.member(String(name), append(b, ']'))
	return o
}

// Int adds an integer.
func (o *Builder) Int(name string, value int64) *Builder {
	o.member(String(name), strconv.AppendInt(nil, value, 10))
	return o
}

// Bool adds true or false.
func (o *Builder) Bool(name string, value bool) *Builder {
	o.member(String(name), strconv.AppendBool(nil, value))
	return o
}

// JSON is the object. Nothing may be added after it.
func (o *Builder) JSON() json.RawMessage {
	if len(o.b) == 0 {
		return json.RawMessage(`{}`)
	}
	return append(o.b, '}')
}

// List joins values that are JSON already to an array.
func List(values ...json.RawMessage) json.RawMessage {
	n := 2
	for _, v := range values {
		n += len(v) + 1
	}
	b := append(make([]byte, 0, n), '[')
	for i, v := range values {
		if i > 0 {
			b = append(b, ',')
		}
		b = append(b, v...)
	}
	return append(b, ']')
}

// Elements gives the elements of a JSON array as they stand; ok is false if b
// is no array. The results are parts of b.
func Elements(b []byte) (values []json.RawMessage, ok bool) {
	e := array(b)
	for e.next() {
		values = append(values, e.value()[:e.end-e.start:e.end-e.start])
	}
	return values, !e.bad
}

func isNull(value []byte) bool { return string(value) == "null" }

// decodeString decodes a value that is a string.
func decodeString(value []byte) (string, bool) {
	inner, ok := inside(value)
	if !ok {
		return "", false
	}
	return text(inner), true
}
