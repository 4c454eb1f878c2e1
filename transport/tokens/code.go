package tokens

import (
	"fmt"
	"strings"
)

// Code is what a person carries from the daemon's machine to the other one.
type Code struct {
	Invitation  string // to be shown to the daemon, which gives a token for it
	Fingerprint string // begins the fingerprint of the daemon's certificate, in hex
}

// fingerprintLetters of a code name the certificate: 80 bits, which nobody finds
// a second certificate for.
const (
	fingerprintLetters = 16
	inviteLetters      = 12
	groupLetters       = 7
)

// NewCode joins an invitation with the fingerprint (hex, 64 digits) of the
// certificate that the other machine is to meet.
func NewCode(invitation, fingerprint string) Code {
	return Code{Invitation: invitation, Fingerprint: fingerprint[:fingerprintLetters/4*5]}
}

// String writes the code in groups, as [ParseCode] reads it.
func (c Code) String() string {
	letters := toLetters(c.Fingerprint) + strings.TrimPrefix(c.Invitation, invitePrefix)
	var groups []string
	for len(letters) > 0 {
		n := min(groupLetters, len(letters))
		groups = append(groups, letters[:n])
		letters = letters[n:]
	}
	return strings.Join(groups, "-")
}

// ParseCode reads a code as a person may type it: in either case, with or without
// the hyphens, and with i, l and o for 1, 1 and 0.
func ParseCode(s string) (Code, error) {
	var letters []byte
	for _, r := range strings.ToLower(s) {
		switch r {
		case '-', ' ', '\t', '\r', '\n':
			continue
		case 'i', 'l':
			r = '1'
		case 'o':
			r = '0'
		}
		if r > 127 || strings.IndexByte(alphabet, byte(r)) < 0 {
			return Code{}, fmt.Errorf("a pairing code has no %q in it; copy it whole as `hermesd pair` printed it", r)
		}
		if letters = append(letters, byte(r)); len(letters) > fingerprintLetters+inviteLetters {
			break
		}
	}
	if len(letters) != fingerprintLetters+inviteLetters {
		return Code{}, fmt.Errorf("a pairing code has %d letters and digits, this one has not; copy it whole as `hermesd pair` printed it", fingerprintLetters+inviteLetters)
	}
	return Code{
		Fingerprint: fromLetters(string(letters[:fingerprintLetters])),
		Invitation:  invitePrefix + string(letters[fingerprintLetters:]),
	}, nil
}

// toLetters writes hex digits, five for four letters.
func toLetters(digits string) string {
	var out strings.Builder
	for ; len(digits) >= 5; digits = digits[5:] {
		var v uint32
		for _, d := range []byte(digits[:5]) {
			v = v<<4 | uint32(strings.IndexByte("0123456789abcdef", d)&15)
		}
		for shift := 15; shift >= 0; shift -= 5 {
			out.WriteByte(alphabet[v>>shift&31])
		}
	}
	return out.String()
}

// fromLetters is toLetters backwards.
func fromLetters(letters string) string {
	var out strings.Builder
	for ; len(letters) >= 4; letters = letters[4:] {
		var v uint32
		for _, l := range []byte(letters[:4]) {
			v = v<<5 | uint32(strings.IndexByte(alphabet, l)&31)
		}
		fmt.Fprintf(&out, "%05x", v)
	}
	return out.String()
}
