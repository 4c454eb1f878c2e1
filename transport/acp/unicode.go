package acp

import "bytes"

// ValidUnicode gives JSON in which every half of a surrogate pair that stands
// alone (`\ud83d` without its `\ude00`) is written as U+FFFD. b itself is
// returned if there is none. Such a half is no character: it cannot be stored
// as text, and services refuse JSON that contains it.
func ValidUnicode(b []byte) []byte {
	out := b
	copied := false
	for i := 0; ; {
		n := bytes.IndexByte(b[i:], '\\')
		if n < 0 || i+n+1 >= len(b) {
			return out
		}
		i += n
		high, ok := escapedUnit(b, i)
		if !ok {
			i += 2 // also steps over an escaped backslash
			continue
		}
		if high&0xF800 != 0xD800 {
			i += 6
			continue
		}
		if low, ok := escapedUnit(b, i+6); high < 0xDC00 && ok && low&0xFC00 == 0xDC00 {
			i += 12
			continue
		}
		if !copied {
			out, copied = bytes.Clone(b), true
		}
		copy(out[i:], `\ufffd`)
		i += 6
	}
}

// escapedUnit reads the UTF-16 unit of the escape \uXXXX at i.
func escapedUnit(b []byte, i int) (unit uint16, ok bool) {
	if i+6 > len(b) || b[i] != '\\' || b[i+1] != 'u' {
		return 0, false
	}
	for _, c := range b[i+2 : i+6] {
		unit <<= 4
		switch {
		case '0' <= c && c <= '9':
			unit |= uint16(c - '0')
		case 'a' <= c && c <= 'f':
			unit |= uint16(c-'a') + 10
		case 'A' <= c && c <= 'F':
			unit |= uint16(c-'A') + 10
		default:
			return 0, false
		}
	}
	return unit, true
}

// CutText gives the greatest n <= limit at which inner, the inside of a JSON
// string, may be cut without splitting a character, an escape or an escaped
// surrogate pair. It is 0 only if limit is smaller than the first of them.
func CutText(inner []byte, limit int) int {
	if limit >= len(inner) {
		return len(inner)
	}
	if limit <= 0 {
		return 0
	}
	n := limit
	for n > 0 && inner[n]&0xC0 == 0x80 {
		n-- // inside a UTF-8 sequence
	}
	// Is n inside an escape? The longest one is 12 bytes (a pair). Walk to n
	// from a place that is certainly outside.
	from := outside(inner, n)
	for i := from; i < n; {
		size := 1
		if inner[i] == '\\' {
			size = 2
			if unit, ok := escapedUnit(inner, i); ok {
				size = 6
				if low, ok := escapedUnit(inner, i+6); ok && unit&0xFC00 == 0xD800 && low&0xFC00 == 0xDC00 {
					size = 12
				}
			}
		}
		if i+size > n {
			return i
		}
		i += size
	}
	return n
}

// outside finds a place at or before n that begins an escape or a character:
// after the last byte, at least 12 before n, that can be part of no escape.
func outside(inner []byte, n int) int {
	for i := n - 12; i > 0; i-- {
		switch c := inner[i-1]; {
		case c == '\\' || c == '/' || c == '"':
		case '0' <= c && c <= '9' || 'a' <= c && c <= 'f' || 'A' <= c && c <= 'F':
		case c == 'n' || c == 'r' || c == 't' || c == 'u':
		case c >= 0x80:
		default:
			return i
		}
	}
	return 0
}
