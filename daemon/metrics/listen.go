package metrics

import (
	"context"
	"errors"
	"fmt"
	"net"

	"github.com/hermesd/hermesd/transport"
	"github.com/hermesd/hermesd/transport/link"
)

// Listen listens on the network "tcp" or "unix". A socket is for this user alone,
// as the daemon's own is; one that a crash left behind is replaced. p is where
// the daemon is.
func Listen(ctx context.Context, network, address string, p link.Places) (net.Listener, error) {
	ln, err := listen(ctx, network, address, p)
	if err != nil {
		return nil, fmt.Errorf("metrics: %w; end what is there, or choose another address under [metrics]", err)
	}
	return ln, nil
}

func listen(ctx context.Context, network, address string, p link.Places) (net.Listener, error) {
	if network != "unix" {
		var lc net.ListenConfig
		return lc.Listen(ctx, network, address)
	}
	if address == p.Socket {
		return nil, errors.New("that is the daemon's own socket")
	}
	p, err := p.WithSocket(address)
	if err != nil {
		return nil, err
	}
	ln, err := transport.Listen(ctx, transport.ListenConfig{Places: p})
	if err != nil {
		return nil, err
	}
	return socket{ln}, nil
}

// socket is the daemon's listener for who wants a net.Listener.
type socket struct{ *transport.Listener }

func (s socket) Accept() (net.Conn, error) {
	c, err := s.Listener.Accept()
	if err != nil {
		return nil, err
	}
	return c, nil
}

func (s socket) Addr() net.Addr {
	return &net.UnixAddr{Name: s.Listener.Address().Path, Net: "unix"}
}
