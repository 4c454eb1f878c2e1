package jsonrpc

import (
	"encoding/binary"
	"math/bits"
	"unicode/utf8"
)

// maxDepth is how deep values may nest. It is encoding/json's own limit, so
// that whatever passes here can be decoded later.
const maxDepth = 10000

// A scanner checks JSON text (RFC 8259) and its UTF-8 in one pass and without
// recursion. It accepts exactly what is both json.Valid and utf8.Valid; a fuzz
// test holds it to that. The zero scanner is ready; it may be used again and
// again by one goroutine.
type scanner struct {
	// stack has one bit for each open container below the present one,
	// set for an object.
	stack []uint64
	why   string // what was wrong, and
	at    int    // where, after a failure

	m message // what classify returns; here, so that reading needs little stack
}

// fail notes the reason and returns the position that means failure.
func (s *scanner) fail(at int, why string) int {
	s.at, s.why = at, why
	return -1
}

const (
	whyEnd    = "unexpected end of JSON"
	whySyntax = "invalid JSON"
	whyUTF8   = "invalid UTF-8"
	whyDepth  = "JSON nested too deeply"
)

// valid reports whether b is one JSON value in valid UTF-8.
func (s *scanner) valid(b []byte) bool {
	i := s.value(b, space(b, 0), 0)
	return i >= 0 && space(b, i) == len(b)
}

func space(b []byte, i int) int {
	for i < len(b) && (b[i] == ' ' || b[i] == '\t' || b[i] == '\r' || b[i] == '\n') {
		i++
	}
	return i
}

// value checks the value that starts at b[i] and returns where it ends, or -1.
// base containers are open around it.
func (s *scanner) value(b []byte, i, base int) int {
	depth, object := base, false // object: the innermost container is one

value:
	i = space(b, i)
	if i >= len(b) {
		return s.fail(i, whyEnd)
	}
	switch c := b[i]; c {
	case '"':
		if i = s.str(b, i); i < 0 {
			return i
		}
	case '{', '[':
		if depth == maxDepth {
			return s.fail(i, whyDepth)
		}
		if n := depth - base; n>>6 == len(s.stack) {
			s.stack = append(s.stack, 0)
		}
		if n := depth - base; object {
			s.stack[n>>6] |= 1 << (n & 63)
		} else {
			s.stack[n>>6] &^= 1 << (n & 63)
		}
		depth++
		object = c == '{'
		i = space(b, i+1)
		switch {
		case i < len(b) && b[i] == c+2: // '}' is '{'+2, ']' is '['+2
			goto after
		case object:
			goto key
		}
		goto value
	case 't':
		i = s.literal(b, i, "true")
	case 'f':
		i = s.literal(b, i, "false")
	case 'n':
		i = s.literal(b, i, "null")
	default:
		i = s.number(b, i)
	}
	if i < 0 {
		return i
	}

after: // a value has ended; the containers around it go on or end
	if depth == base {
		return i
	}
	i = space(b, i)
	if i >= len(b) {
		return s.fail(i, whyEnd)
	}
	switch c := b[i]; {
	case c == ',' && object:
		i = space(b, i+1)
		goto key
	case c == ',':
		i++
		goto value
	case c == '}' && object, c == ']' && !object:
		i++
		depth--
		n := depth - base
		object = s.stack[n>>6]&(1<<(n&63)) != 0
		goto after
	}
	return s.fail(i, whySyntax)

key:
	if i = s.key(b, i); i < 0 {
		return i
	}
	goto value
}

// key checks a member's name at b[i] with its colon and returns what follows.
func (s *scanner) key(b []byte, i int) int {
	if i >= len(b) {
		return s.fail(i, whyEnd)
	}
	if b[i] != '"' {
		return s.fail(i, whySyntax)
	}
	if i = s.str(b, i); i < 0 {
		return i
	}
	i = space(b, i)
	if i >= len(b) {
		return s.fail(i, whyEnd)
	}
	if b[i] != ':' {
		return s.fail(i, whySyntax)
	}
	return i + 1
}

func (s *scanner) literal(b []byte, i int, word string) int {
	if len(b)-i < len(word) {
		return s.fail(len(b), whyEnd)
	}
	if string(b[i:i+len(word)]) != word {
		return s.fail(i, whySyntax)
	}
	return i + len(word)
}

func (s *scanner) number(b []byte, i int) int {
	if b[i] == '-' {
		i++
	}
	switch {
	case i >= len(b):
		return s.fail(i, whyEnd)
	case b[i] == '0': // no digit may follow a leading zero
		i++
	case '1' <= b[i] && b[i] <= '9':
		i = digits(b, i)
	default:
		return s.fail(i, whySyntax)
	}
	if i < len(b) && b[i] == '.' {
		n := digits(b, i+1)
		if n == i+1 {
			return s.fail(n, whySyntax)
		}
		i = n
	}
	if i < len(b) && (b[i] == 'e' || b[i] == 'E') {
		i++
		if i < len(b) && (b[i] == '+' || b[i] == '-') {
			i++
		}
		n := digits(b, i)
		if n == i {
			return s.fail(n, whySyntax)
		}
		i = n
	}
	return i
}

func digits(b []byte, i int) int {
	for i < len(b) && '0' <= b[i] && b[i] <= '9' {
		i++
	}
	return i
}

// One bit or byte in each of eight lanes.
const (
	lows   = 0x0101010101010101
	highs  = 0x8080808080808080
	quotes = '"' * lows
	slants = '\\' * lows
	spaces = ' ' * lows
)

// str checks the string whose opening quote is b[i] and returns where it ends.
func (s *scanner) str(b []byte, i int) int {
	i++
	for {
		// Most of a line is plain text inside strings: eight bytes at a time.
		// In each mask the lowest flagged byte is exact (borrows only run
		// upwards from one), and only the lowest is looked at.
		for i+8 <= len(b) {
			w := binary.LittleEndian.Uint64(b[i:])
			q, e := w^quotes, w^slants
			if m := ((q-lows)&^q | (e-lows)&^e | (w-spaces)&^w | w) & highs; m != 0 {
				i += bits.TrailingZeros64(m) >> 3
				break
			}
			i += 8
		}
		if i >= len(b) {
			return s.fail(i, whyEnd)
		}
		switch c := b[i]; {
		case c == '"':
			return i + 1
		case c == '\\':
			n := escape(b[i:])
			if n == 0 {
				return s.fail(i, whySyntax)
			}
			i += n
		case c < ' ':
			return s.fail(i, whySyntax)
		case c < utf8.RuneSelf:
			i++
		default:
			for i < len(b) && b[i] >= utf8.RuneSelf {
				r, n := utf8.DecodeRune(b[i:])
				if r == utf8.RuneError && n == 1 {
					return s.fail(i, whyUTF8)
				}
				i += n
			}
		}
	}
}

// escape returns the length of the escape sequence that b begins with, or 0.
func escape(b []byte) int {
	if len(b) < 2 {
		return 0
	}
	switch b[1] {
	case '"', '\\', '/', 'b', 'f', 'n', 'r', 't':
		return 2
	case 'u':
		if len(b) < 6 {
			return 0
		}
		for _, c := range b[2:6] {
			if !('0' <= c && c <= '9' || 'a' <= c && c <= 'f' || 'A' <= c && c <= 'F') {
				return 0
			}
		}
		return 6
	}
	return 0
}
