// Package web answers: what does our agent get from the web, and from where
// does it get nothing? Client fetches pages as text, and Searcher asks a search
// engine that the user has configured.
//
// An address a model names may be chosen by whoever wrote what the model has
// read. So nothing is fetched from this machine, its network or a cloud's
// metadata service unless the configuration allows it. That is judged on the
// address that is really dialled, at every hop: a name that resolves to another
// address a moment later gains nothing.
//
// # Concurrency
//
// A Client and a Searcher do not change and are safe for concurrent use. No
// connection and no goroutine outlives a call.
package web
