package transport

import (
	"context"
	"errors"
	"fmt"
	"net"
	"strconv"

	"github.com/hermesd/hermesd/transport/link"
	"github.com/hermesd/hermesd/transport/tokens"
)

// Principal is who is on the other end of a connection, as far as the transport
// can prove it.
type Principal struct {
	UID     int    // user; -1 if the transport does not name users
	PID     int    // process; 0 if not known. For people: it may have ended, its number may be in use again
	Network string // "unix", "stdio", TCP or PlainTCP
	Remote  string // for logs

	// Of connections over the network, once a token was shown.
	Token   string // its name
	TokenID string
	Role    tokens.Role
}

// Remotely says whether the peer came over the network: it may be on another
// machine, with other files.
func (p Principal) Remotely() bool { return p.Network == TCP || p.Network == PlainTCP }

// MayChange says whether the peer may do more than look. On a socket of this
// machine only the user himself is let in, who may.
func (p Principal) MayChange() bool { return !p.Remotely() || p.Role == tokens.Control }

// String names the principal for logs and messages.
func (p Principal) String() string {
	s := p.Network
	if p.Remotely() {
		if p.Token != "" {
			s += " token " + p.Token
		}
		return s + " from " + p.Remote
	}
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

// Authenticate proves who a peer is that came over the network, by the token it
// has shown, and completes Principal. It does nothing for others, whom the kernel
// has named. It is called by whoever reads the connection, before anything is
// done for the peer.
//
// A peer may show an invitation instead. It gets a token for it, granted, which
// is to be told to it and to nobody else; the connection is good for nothing more.
//
// A [*Refusal] may be told to the peer. A wrong token is answered later and later
// for each address.
func (c *Conn) Authenticate(ctx context.Context, secret string) (granted string, err error) {
	n, ok := c.Conn.(*networkConn)
	if !ok {
		if c.Principal.Remotely() {
			return "", errNoToken
		}
		return "", nil
	}
	t, granted, err := n.authenticate(ctx, secret)
	if err != nil {
		var refusal *Refusal
		if !errors.As(err, &refusal) {
			err = fmt.Errorf("%w (%w)", errInside, err)
		}
		return "", err
	}
	c.Principal.Token, c.Principal.TokenID = t.Name, t.ID
	if granted == "" {
		c.Principal.Role = t.Role
		n.token = t
	}
	return granted, nil
}

// Refuse tells the peer why it may not come in, in its own words (a hello is
// answered with a welcome), and closes the connection.
func (c *Conn) Refuse(text string, hello bool) {
	line := RefusalLine(text)
	if hello {
		line = link.Welcome{Link: link.Number, Error: text}.Line()
	}
	farewell(c, line)
	c.Close()
}

// Allowed says whether the peer still may be here: its token is there and has the
// same role. Others than those over the network always may.
func (c *Conn) Allowed() bool {
	n, ok := c.Conn.(*networkConn)
	if !ok {
		return !c.Principal.Remotely()
	}
	valid, err := n.l.tokens.Valid(n.token)
	return valid && err == nil
}

// Cut ends the connection at once. What was on its way may be dropped, and so may
// be what Read would still give.
func (c *Conn) Cut() {
	if n, ok := c.Conn.(*networkConn); ok {
		n.cut(ErrRevoked)
		return
	}
	c.Conn.Close()
}

// ErrRevoked: the token of a connection was revoked.
var ErrRevoked = errors.New("its token was revoked")
