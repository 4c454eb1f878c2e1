// Package external answers: how does any program that speaks ACP become the
// agent of a session? The daemon is the client of version 1 on the program's
// stdin and stdout; what the program says goes into the session's log as it
// is, and what it asks is put to whoever is attached.
//
// Each session has a process of its own. It is started with the session, and
// again, when it has ended, with the next prompt; its side of the session is
// then restored by session/resume, else by session/load with its replay left
// out, else the program begins anew with a transcript and the user is told.
//
// What is changed on the way: session ids; a messageId is given to chunks
// without one; a call of a tool that was never announced is announced first;
// modes and options become the session's settings.
//
// The parts: an Agent outlives its processes (agent.go), one of which is a life
// (life.go, ending.go); what a life hears is in hear.go, what it is asked in
// serve.go and files.go; order.go repairs the order of updates, past.go reads
// what the log knows of the agent's side.
//
// # Concurrency
//
// The reader of a life's connection hands over what the program says, in order,
// and waits while too much of it is unwritten, so that a program that floods is
// held back by its own pipe. Prompt, Set and Close may be called as
// session.Agent says.
package external
