package tokens

import (
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"strings"
)

// Secrets tell by how they begin what they are, so that a person, a scanner for
// leaked secrets, and we see at once what was shown to us.
const (
	tokenPrefix  = "hdt_"
	invitePrefix = "hdi_"
)

// alphabet is Crockford's base 32: digits and lower-case letters without i, l, o
// and u, so that nothing in it can be taken for something else.
const alphabet = "0123456789abcdefghjkmnpqrstvwxyz"

// random gives n letters of the alphabet: 5 bits each.
func random(n int) string {
	b := make([]byte, n)
	rand.Read(b) // never fails: it ends the process instead
	for i := range b {
		b[i] = alphabet[b[i]&31]
	}
	return string(b)
}

// newToken gives a token: 260 random bits.
func newToken() string { return tokenPrefix + random(52) }

// newInvite gives an invitation: 60 random bits, which have to last for minutes
// against guessing over the network.
func newInvite() string { return invitePrefix + random(12) }

// IsInvitation says whether a secret is meant as an invitation.
func IsInvitation(secret string) bool { return strings.HasPrefix(secret, invitePrefix) }

// digest is what is kept of a secret.
func digest(secret string) string {
	sum := sha256.Sum256([]byte(secret))
	return hex.EncodeToString(sum[:])
}
