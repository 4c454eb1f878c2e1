package transport

import (
	"errors"
	"fmt"
	"net"
	"net/netip"
	"path/filepath"
	"strconv"
	"strings"
)

// Networks of an [Address].
const (
	Unix = "unix"
	// TCP is TLS 1.3 over TCP; every client shows a token.
	TCP = "tcp"
	// PlainTCP is TCP without TLS, between programs of one machine. Clients show a
	// token all the same.
	PlainTCP = "tcp+insecure"
)

// Address is where a daemon listens.
type Address struct {
	Network string // Unix, TCP or PlainTCP
	Path    string // of the socket; "" is the default one
	Host    string // of TCP: a name or an IP address; "" is every address of this machine
	Port    uint16 // of TCP; 0 lets the system choose
}

// ParseAddress reads an address as the configuration and the command line write
// it:
//
//	unix            the default socket
//	unix:PATH       unix:///PATH       /PATH      another one; the whole path
//	tcp://HOST:PORT                    TLS over TCP
//	tcp+insecure://HOST:PORT           TCP without TLS; HOST is this machine itself
func ParseAddress(s string) (Address, error) {
	if strings.ContainsRune(s, 0) {
		return Address{}, fmt.Errorf("address %q: a path has no NUL byte", s)
	}
	if s == Unix {
		return Address{Network: Unix}, nil
	}
	for _, network := range []string{TCP, PlainTCP} {
		if rest, ok := strings.CutPrefix(s, network+"://"); ok {
			a, err := parseHostPort(network, rest)
			if err != nil {
				return Address{}, fmt.Errorf("address %q: %w", s, err)
			}
			return a, nil
		}
	}
	path, unix := strings.CutPrefix(s, "unix:")
	if unix {
		path = strings.TrimPrefix(path, "//")
	} else if network, _, ok := strings.Cut(s, "://"); ok {
		return Address{}, fmt.Errorf("address %q: %q is not supported; use unix, unix:PATH or tcp://HOST:PORT", s, network)
	}
	if !filepath.IsAbs(path) {
		return Address{}, fmt.Errorf("address %q: write unix, or unix: with the whole path of a socket", s)
	}
	return Address{Network: Unix, Path: filepath.Clean(path)}, nil
}

func parseHostPort(network, s string) (Address, error) {
	host, port, err := net.SplitHostPort(strings.TrimSuffix(s, "/"))
	if err != nil {
		return Address{}, errors.New("write HOST:PORT, as in 127.0.0.1:7777 or [::1]:7777")
	}
	n, err := strconv.ParseUint(port, 10, 16)
	if err != nil {
		return Address{}, fmt.Errorf("%q is no port: write a number up to 65535", port)
	}
	if strings.ContainsAny(host, " \t\r\n/@?#\\") {
		return Address{}, fmt.Errorf("%q is no name of a machine", host)
	}
	a := Address{Network: network, Host: host, Port: uint16(n)}
	if network == PlainTCP && !a.Loopback() {
		return Address{}, fmt.Errorf("without TLS everybody on the way reads and writes what you do: only 127.0.0.1, [::1] and localhost are allowed; use %s://", TCP)
	}
	return a, nil
}

// Loopback says whether the address is written as one that only this machine
// reaches.
func (a Address) Loopback() bool {
	if a.Network == Unix || strings.EqualFold(a.Host, "localhost") {
		return true
	}
	ip, err := netip.ParseAddr(a.Host)
	return err == nil && ip.Unmap().IsLoopback()
}

// HostPort is the address as package net takes it.
func (a Address) HostPort() string { return net.JoinHostPort(a.Host, strconv.Itoa(int(a.Port))) }

// String returns the address as [ParseAddress] reads it.
func (a Address) String() string {
	switch {
	case a.Network != Unix:
		return a.Network + "://" + a.HostPort()
	case a.Path == "":
		return Unix
	}
	return Unix + ":" + a.Path
}
