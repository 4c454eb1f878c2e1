// Package jsonrpc is one end of a JSON-RPC 2.0 connection on newline-delimited
// JSON. The two ends are alike: a [Peer] sends and receives notifications,
// requests and responses, and keeps their order.
//
// Everything the other side says stays raw: ids are opaque and come back as
// they were sent, params and results are validated once as JSON in UTF-8 and
// then handed on as the bytes they arrived in. What a line means is decided
// here; what a method means is not.
//
// A line that is no message never ends the connection. It is reported to
// [Options.Garbage] and, where [Options.AnswerGarbage] says so, answered with
// an error whose id is null. A response is never answered, whatever is wrong
// with it, so two peers cannot complain at each other without end. Batches are
// not part of the Agent Client Protocol and are refused.
//
// # Concurrency
//
// A started peer has one reader goroutine, one writer while there is something
// to write, and, after the first request has come in, a [jrpc2.Server] that runs
// the handlers.
//
//   - The reader calls Notify, Admit, Unclaimed and Garbage, one at a time and
//     in the order of the lines. They hold everything up that follows, so they
//     only note what they are told (post it to an inbox) and return. A
//     response to [Peer.Call] is handed over in the same order: when Call
//     returns, every notification that came before the answer has been given
//     to Notify.
//   - A [Handler] runs in a goroutine of its own, any number at a time up to
//     MaxInFlight. Order between requests is therefore made in Admit, not in
//     handlers. Every handler that Admit returns is run exactly once, even if
//     the request is cancelled or the peer closed before it starts; its
//     context is then over already.
//   - A request that something else will answer in its own time is deferred in
//     Admit ([Request.Defer]) and costs no goroutine; whoever comes to the
//     answer gives it with [Peer.Answer], in order with what it enqueues.
//   - The writer takes whole lines off one queue. [Peer.Enqueue] takes one
//     lock for as long as an append takes, never waits for the other side and
//     may be called from everywhere, callbacks and handlers included. What is
//     enqueued first is written first. A queue that outgrows MaxQueue closes
//     the peer with [ErrSlowReader]; a producer that can wait uses [Peer.Room].
//   - The callback of [Peer.EnqueueNotify] runs in the writer, without a lock.
//   - No lock is held while a callback runs or while anything is written.
//
// The end of the input is not the end of the peer: what is in flight is still
// answered, and the peer closes when nothing is in flight and the queue is
// written. [Peer.EOF] tells the owner, who may [Peer.Close] earlier. Close ends
// everything now and cancels the handlers' contexts; [Peer.Drain] before it
// ends well; [Peer.Wait] proves that every goroutine is gone.
//
// [jrpc2.Server]: https://pkg.go.dev/github.com/creachadair/jrpc2#Server
package jsonrpc
