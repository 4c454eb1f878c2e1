package acp

import (
	"bytes"
	"encoding/json"
	"unicode/utf8"
)

// UpdateFrame is the complete line of a `session/update` notification, ending
// in a newline. The update's bytes are kept.
func UpdateFrame(sessionID string, update []byte) []byte {
	id := String(sessionID)
	return AppendUpdateFrame(make([]byte, 0, len(frameHead)+len(id)+len(frameMiddle)+len(update)+len(frameTail)), id, update)
}

const (
	frameHead   = `{"jsonrpc":"2.0","method":"session/update","params":{"sessionId":`
	frameMiddle = `,"update":`
	frameTail   = "}}\n"
)

// AppendUpdateFrame is UpdateFrame into dst, for a session id that is encoded
// already. It allocates only where dst is too small or the update contains raw
// newlines.
func AppendUpdateFrame(dst []byte, sessionIDJSON []byte, update []byte) []byte {
	dst = append(dst, frameHead...)
	dst = append(dst, sessionIDJSON...)
	dst = append(dst, frameMiddle...)
	dst = append(dst, oneLine(update)...)
	return append(dst, frameTail...)
}

// oneLine gives JSON without raw newlines: b itself if it has none.
func oneLine(b []byte) []byte {
	if bytes.IndexByte(b, '\n') < 0 && bytes.IndexByte(b, '\r') < 0 {
		return b
	}
	// A newline inside a string is escaped in JSON, so raw ones are layout.
	var compact bytes.Buffer
	compact.Grow(len(b))
	if json.Compact(&compact, b) == nil {
		return compact.Bytes()
	}
	// Not JSON. Whoever reads it must not lose the lines after it as well.
	return bytes.Map(func(r rune) rune {
		if r == '\n' || r == '\r' {
			return ' '
		}
		return r
	}, b)
}

// String encodes s as a JSON string. Only what must be escaped is escaped;
// bytes that are not UTF-8 become U+FFFD.
func String(s string) []byte { return AppendString(make([]byte, 0, len(s)+2), s) }

// AppendString is String into dst.
func AppendString(dst []byte, s string) []byte {
	const hex = "0123456789abcdef"
	dst = append(dst, '"')
	from := 0
	for i := 0; i < len(s); {
		c := s[i]
		if c < utf8.RuneSelf {
			if c >= 0x20 && c != '"' && c != '\\' {
				i++
				continue
			}
			dst = append(dst, s[from:i]...)
			switch c {
			case '"', '\\':
				dst = append(dst, '\\', c)
			case '\n':
				dst = append(dst, '\\', 'n')
			case '\r':
				dst = append(dst, '\\', 'r')
			case '\t':
				dst = append(dst, '\\', 't')
			default:
				dst = append(dst, '\\', 'u', '0', '0', hex[c>>4], hex[c&15])
			}
			i++
			from = i
			continue
		}
		r, size := utf8.DecodeRuneInString(s[i:])
		if r == utf8.RuneError && size == 1 {
			dst = append(dst, s[from:i]...)
			dst = append(dst, "\uFFFD"...)
			i++
			from = i
			continue
		}
		i += size
	}
	dst = append(dst, s[from:]...)
	return append(dst, '"')
}
