package acp

import (
	"bytes"
	"encoding/json"
)

// members walks over the members of a JSON object without decoding or
// allocating anything.
type members struct {
	b     []byte
	i     int
	first bool

	// keyStart and keyEnd enclose the member's name without its quotes,
	// valStart and valEnd its value.
	keyStart, keyEnd, valStart, valEnd int
	// bad is set when the walk ended because of malformed JSON.
	bad bool
}

// object begins a walk over b; a value that is no object has no members.
func object(b []byte) members {
	i := skipSpace(b, 0)
	if i >= len(b) || b[i] != '{' {
		return members{b: b, i: len(b), bad: true}
	}
	return members{b: b, i: i + 1, first: true}
}

// next goes to the next member and reports whether there is one.
func (m *members) next() bool {
	if m.bad {
		return false
	}
	b, i := m.b, skipSpace(m.b, m.i)
	if i >= len(b) {
		m.bad = true
		return false
	}
	if b[i] == '}' {
		m.i = i
		return false
	}
	if !m.first {
		if b[i] != ',' {
			m.bad = true
			return false
		}
		i = skipSpace(b, i+1)
	}
	m.first = false
	if i >= len(b) || b[i] != '"' {
		m.bad = true
		return false
	}
	end := skipString(b, i)
	if end < 0 {
		m.bad = true
		return false
	}
	m.keyStart, m.keyEnd = i+1, end-1
	i = skipSpace(b, end)
	if i >= len(b) || b[i] != ':' {
		m.bad = true
		return false
	}
	m.valStart = skipSpace(b, i+1)
	m.valEnd = skipValue(b, m.valStart)
	if m.valEnd < 0 {
		m.bad = true
		return false
	}
	m.i = m.valEnd
	return true
}

// is reports whether the member is called name.
func (m *members) is(name string) bool { return sameText(m.b[m.keyStart:m.keyEnd], name) }

// name is the member's decoded name.
func (m *members) name() string { return text(m.b[m.keyStart:m.keyEnd]) }

func (m *members) value() []byte { return m.b[m.valStart:m.valEnd] }

// find gives the range of the value of the last member called name.
func find(b []byte, name string) (start, end int, ok bool) {
	m := object(b)
	for m.next() {
		if m.is(name) {
			start, end, ok = m.valStart, m.valEnd, true
		}
	}
	return start, end, ok
}

// elements walks over the elements of a JSON array.
type elements struct {
	b          []byte
	i          int
	first      bool
	start, end int
	bad        bool
}

func array(b []byte) elements {
	i := skipSpace(b, 0)
	if i >= len(b) || b[i] != '[' {
		return elements{b: b, i: len(b), bad: true}
	}
	return elements{b: b, i: i + 1, first: true}
}

func (e *elements) next() bool {
	if e.bad {
		return false
	}
	i := skipSpace(e.b, e.i)
	if i >= len(e.b) {
		e.bad = true
		return false
	}
	if e.b[i] == ']' {
		e.i = i
		return false
	}
	if !e.first {
		if e.b[i] != ',' {
			e.bad = true
			return false
		}
		i = skipSpace(e.b, i+1)
	}
	e.first = false
	e.start, e.end = i, skipValue(e.b, i)
	if e.end < 0 {
		e.bad = true
		return false
	}
	e.i = e.end
	return true
}

func (e *elements) value() []byte { return e.b[e.start:e.end] }

// sameText reports whether inner, the inside of a JSON string, means s.
func sameText(inner []byte, s string) bool {
	if string(inner) == s {
		return true
	}
	if bytes.IndexByte(inner, '\\') < 0 {
		return false
	}
	return text(inner) == s
}

// text decodes the inside of a JSON string.
func text(inner []byte) string {
	if bytes.IndexByte(inner, '\\') < 0 {
		return string(inner)
	}
	quoted := make([]byte, 0, len(inner)+2)
	quoted = append(quoted, '"')
	quoted = append(quoted, inner...)
	quoted = append(quoted, '"')
	var s string
	if json.Unmarshal(quoted, &s) != nil {
		return string(inner)
	}
	return s
}

// inside gives the bytes between the quotes of a JSON string.
func inside(value []byte) ([]byte, bool) {
	if len(value) < 2 || value[0] != '"' {
		return nil, false
	}
	return value[1 : len(value)-1], true
}

func skipSpace(b []byte, i int) int {
	for i < len(b) {
		switch b[i] {
		case ' ', '\t', '\n', '\r':
			i++
		default:
			return i
		}
	}
	return i
}

// skipString takes the place of an opening quote and gives the place after the
// closing one, or -1.
func skipString(b []byte, i int) int {
	i++
	start := i
	for {
		n := bytes.IndexByte(b[i:], '"')
		if n < 0 {
			return -1
		}
		i += n
		slashes := 0
		for j := i - 1; j >= start && b[j] == '\\'; j-- {
			slashes++
		}
		i++
		if slashes%2 == 0 {
			return i
		}
		start = i
	}
}

// skipValue takes the place where a value begins and gives the place after it,
// or -1. It finds ends and leaves judging what lies between to others.
func skipValue(b []byte, i int) int {
	if i >= len(b) {
		return -1
	}
	switch b[i] {
	case '"':
		return skipString(b, i)
	case '{', '[':
		depth := 0
		for i < len(b) {
			switch b[i] {
			case '"':
				i = skipString(b, i)
				if i < 0 {
					return -1
				}
				continue
			case '{', '[':
				depth++
			case '}', ']':
				depth--
				if depth == 0 {
					return i + 1
				}
			}
			i++
		}
		return -1
	}
	start := i
	for i < len(b) {
		switch b[i] {
		case ',', '}', ']', ':', '"', '{', '[', ' ', '\t', '\n', '\r':
			if i == start {
				return -1
			}
			return i
		}
		i++
	}
	if i == start {
		return -1
	}
	return i
}
