// Package daemontest answers: does hermesd, seen from outside, say what it
// should? It builds the real programs, runs them in a folder of their own,
// plays an editor that sends any bytes at all, and checks every line that
// leaves against the official schema of the protocol.
//
// It holds no expectation of a particular test and imports nothing of ours, so
// that it sees what an editor sees. It is used by tests and by scripts/bench.
//
// # Concurrency
//
// A [Wire] has one goroutine that reads the shim's output until it ends; all
// its methods may be called from any goroutine. A [Home] is used by one test.
package daemontest
