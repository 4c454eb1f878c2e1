// Package transport brings bytes to the daemon and says whose they are: it
// listens, names the peer of each connection, and keeps a second daemon from
// starting beside the first. It knows nothing of ACP.
//
// How a client finds or starts the daemon is package link.
//
// # One daemon
//
// A daemon holds the lock of its socket ([Hold]) for as long as it lives.
// Holding it is what makes it right to remove a socket that a crash left
// behind; a socket on which somebody accepts, and anything that is not a
// socket, is never removed.
//
// # Who may connect
//
// On a Unix socket the kernel names the peer. The daemon's own user and root
// are served, everybody else is refused, and so is a peer that cannot be named.
// The socket has mode 0600 and lies in a folder that only its user can enter.
// Windows does not name peers of a Unix socket; there the folder's access list,
// inherited from the user's profile, is the only guard.
//
// # Concurrency
//
// A [Listener] may be closed while Accept runs. A [Conn] may be read, written
// and closed from different goroutines, as any net.Conn.
package transport
