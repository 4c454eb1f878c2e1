// Package acp knows the words of the Agent Client Protocol.
//
// It answers: what does this JSON say, as far as we act on it, and how is what
// we say written? Everything in it is a pure function on raw JSON. What is not
// acted on is never decoded: bytes, order of members and unknown members stay
// as the peer sent them, because a value that is decoded into a struct and
// encoded again has lost what the struct does not know.
//
// Where an object names a member twice the last one counts, as in every parser
// on the other end. Malformed JSON never panics here; functions that take JSON
// the connection has already checked say "absent" for what they cannot read.
package acp
