// Package session is the domain: what a session is, and what happens to it.
//
// A session is an append-only log of events (event.go). Everything else is a
// reader of it: a cursor per attached editor, and the State that a fold of the
// events gives (state.go). The package does no I/O; what it needs of the world
// stands in contract.go.
//
//	editor ──post──► inbox ──► one goroutine ──Append──► Log (store)
//	agent  ──post──►           (session.go)                │ Written, Durable
//	                                │ ◄────────────────────┘
//	                                └─ publish ─► tail ─► cursors ─► editors
//
// # Concurrency
//
// One goroutine, run, owns a session's state; everybody else posts to its
// inbox and never waits for it with a lock held. Order of arrival is order of
// decision. An event is shown to readers (published) only after the store has
// written it, and after it is durable if somebody outside depends on it (sync
// in publish.go); readers read the tail and the store, never the state.
//
// A turn runs in a goroutine of its own under the session's context. Nothing
// but Cancel, Close, Delete and Stop ends it; that an editor goes away does not.
package session
