// Package daemontest answers: does hermesd say what it should? It has two ways
// of asking.
//
// In memory, a [House] is a daemon with agents that play what a test writes;
// editors connect to it in the same process.
//
// From outside, [Build] compiles the real programs, a [Home] runs them in a
// folder of its own, a [Wire] is an editor with a shim that sends any bytes at
// all, and a [Tap] checks every line that leaves against the official schema.
//
// It holds no expectation of a particular test. It is used by tests and by
// scripts/bench.
//
// # Concurrency
//
// A Wire has one goroutine that reads the shim's output until it ends; all its
// methods may be called from any goroutine. A Home is used by one test.
package daemontest
