// Package cases answers: do the inputs that broke other tools break this one?
//
// testdata/cases.jsonl holds fifty of them, each with what is expected. The
// test plays them against real processes, a hermesd and a shim for each editor,
// and checks every line that leaves against the official schema. A case that
// needs what is not built yet is listed in pending_test.go with the reason.
//
// The actors A, B, C and E are editors, each with a shim of its own; M, an MCP
// server, is this test's own binary. X, an agent outside of hermesd, and L, a
// language model, are not there yet: what L would say is put into the words of
// the built-in agent's offline model, and what can be shown with the built-in
// agent in place of X is shown.
package cases
