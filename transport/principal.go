package transport

import (
	"fmt"
	"net"
	"strconv"
)

// Principal is who is on the other end of a connection, as far as the transport
// can prove it.
type Principal struct {
	UID     int    // user; -1 if the transport does not name users
	PID     int    // process; 0 if not known. For people: it may have ended, its number may be in use again
	Network string // "unix", "stdio"
	Remote  string // for logs
}

// String names the principal for logs and messages.
func (p Principal) String() string {
	s := p.Network
	if p.UID >= 0 {
		s += " uid " + strconv.Itoa(p.UID)
	}
	if p.PID > 0 {
		s += " pid " + strconv.Itoa(p.PID)
	}
	return s
}

// Conn is a connection whose peer is known.
type Conn struct {
	net.Conn
	Principal Principal
}

// CloseWrite tells the peer that nothing more will come; reading goes on.
func (c *Conn) CloseWrite() error {
	half, ok := c.Conn.(interface{ CloseWrite() error })
	if !ok {
		return fmt.Errorf("closing one direction of a %s connection: not supported", c.Principal.Network)
	}
	return half.CloseWrite()
}
