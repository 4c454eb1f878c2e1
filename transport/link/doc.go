// Package link is what the shim and the daemon must agree on before the first
// byte of ACP: where the daemon lives, how it is found or started, and the two
// lines with which a connection begins.
//
// The daemon's side of the same agreement (listening, the daemon's lock, who
// the peer is) is package transport, which builds on this one. Everything here
// is standard library only, because the shim is made of it and has to start
// within a few milliseconds.
//
// # The two lines
//
// A shim's first line is a [Hello], the daemon's first line back to a shim is a
// [Welcome]. Both are frozen for ever: members that are not known are ignored,
// members that are missing are zero, and both sides speak the lower of the two
// link numbers. A connection whose first line is not a hello is a plain ACP
// client; it gets no welcome.
//
// # Finding or starting the daemon
//
// [Connect] dials the socket. When nobody listens it takes the starter's lock,
// dials again, and only then starts a daemon, so any number of shims that start
// at once end up with one daemon. The daemon reports on an inherited pipe
// (HERMESD_READY_FD) when it accepts connections, or why it cannot; its death
// closes the pipe. Nobody polls.
//
// A started daemon is nobody's child and inherits nothing of the editor but the
// environment: it has a session and process group of its own, no controlling
// terminal, no file descriptor of the editor's, the root folder as its working
// directory. Inside a systemd user session it also gets a scope of its own, so
// that it does not end with the editor's. Where there is no systemd user
// session (or it refuses) the cgroup is left as it is: a supervisor that ends
// the editor's whole cgroup then ends the daemon with it, and installing
// hermesd as a service is the remedy.
//
// # Concurrency
//
// Functions may be called from any goroutine. Each says which goroutines it
// leaves behind, if any.
package link
