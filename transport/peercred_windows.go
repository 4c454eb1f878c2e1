package transport

import "net"

// identify: Windows does not tell. The access list of the socket's folder is
// what admits a peer.
func identify(*net.UnixConn) (Principal, error) {
	return Principal{UID: -1}, nil
}
