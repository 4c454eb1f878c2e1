// Package daemon is the process that editors talk to: who is connected, which
// sessions are live, and what each connection may do.
//
//	connection ─► editor (editor.go)      one per connection; admits lines in the order they came
//	               └─ attachment (attachment.go)  one per session of it: a pump that reads the
//	                    session's log by a cursor and writes what it projects to (project.go)
//	registry (registry.go)                which sessions are in memory
//	admin.go                              the _hermes/ methods of the commands
//
// # Concurrency
//
// Each connection has the goroutines of its jsonrpc.Peer and one pump for each
// session that it has open. The Peer's reader admits requests in wire order: a
// session hears of them in that order. Answers that depend on a session's
// events are given by the pump when its cursor passes the event, so nothing of
// a turn can follow the answer to its prompt. Closing a connection ends its
// pumps and touches no session.
package daemon
