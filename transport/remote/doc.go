// Package remote answers: how does a program of another machine get to a daemon,
// and how does it know that it is the right one?
//
// It dials over TLS and compares the certificate with the one it saw the first
// time, as ssh does ([Book.Dial]); nothing is said to a daemon that shows another.
// A code that a person brought from the daemon's machine settles even the first
// time, and is exchanged for a token ([Book.Pair]). Both are kept in a [Book]: two
// text files of mode 0600 beside the configuration, one daemon in a line,
//
//	known_daemons    ADDRESS sha256:FINGERPRINT
//	remote_tokens    ADDRESS TOKEN
//
// in which people may delete lines, reorder and comment.
//
// # Concurrency
//
// A Book may be used by any number of goroutines and processes: a change is made
// under a lock and replaces the file as a whole.
package remote
