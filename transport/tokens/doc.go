// Package tokens answers: who may come in over the network, and as what?
//
// A token is a secret of 256 random bits that a program shows when it connects.
// It has a name for people and a [Role]. What is kept of it, in one file of mode
// 0600, is its SHA-256: who reads the file cannot connect with what he finds.
// (A slow hash would protect guessable secrets. These are not.)
//
// An invitation is a short secret that is good for one token, once, for a few
// minutes ([File.Invite], [File.Redeem]). A [Code] is an invitation together
// with the beginning of the fingerprint of the daemon's certificate, as it is
// carried from one machine to the other by a person: so the first connection is
// checked as strictly as all later ones.
//
// # Concurrency
//
// A [File] may be used by any number of goroutines, and its path by any number
// of processes: changes are made under a lock beside the file and replace it as
// a whole; reading sees the file as it was before a change or after it.
package tokens
