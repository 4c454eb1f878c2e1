package transport

import "bytes"

// speech is what the first bytes of a connection look like.
type speech int

const (
	unclear    speech = iota // more bytes are needed
	speaksTLS                // a TLS handshake record
	speaksLine               // a JSON object: a hello, or ACP without TLS
	speaksHTTP               // a browser, curl, a scanner
	gibberish
)

// sniffed is the most that has to be seen to tell.
const sniffed = 8

// sniff tells what somebody speaks from what he said first.
func sniff(b []byte) speech {
	if len(b) == 0 {
		return unclear
	}
	switch b[0] {
	case 0x16: // ContentType handshake, then version 3.x (RFC 8446, 5.1)
		if len(b) > 1 && b[1] != 3 {
			return gibberish
		}
		return speaksTLS
	case '{', ' ', '\t', '\r', '\n', 0xEF: // an object, perhaps behind blanks or a BOM
		return speaksLine
	}
	for _, method := range []string{"GET ", "POST ", "PUT ", "HEAD ", "OPTIONS ", "CONNECT ", "DELETE ", "PATCH ", "TRACE ", "PRI "} {
		if n := min(len(b), len(method)); string(b[:n]) == method[:n] {
			if n < len(method) {
				return unclear
			}
			return speaksHTTP
		}
	}
	return gibberish
}

// The answers to who speaks something else than the port: what his program
// shows to its user.
var (
	// A fatal alert, protocol_version (RFC 8446, 6).
	alertNoTLS = []byte{0x15, 3, 3, 0, 2, 2, 70}

	answerHTTP = []byte("HTTP/1.1 400 Bad Request\r\nContent-Type: text/plain\r\nConnection: close\r\n\r\n" +
		"This is hermesd. It speaks the Agent Client Protocol, not HTTP; connect with: hermesd connect\n")
)

// isHello says whether a line without TLS began as a shim's hello does, as far as
// it was seen.
func isHello(b []byte) bool { return bytes.HasPrefix(b, []byte(`{"hermes`)[:min(len(b), 8)]) }
