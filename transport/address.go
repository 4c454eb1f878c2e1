package transport

import (
	"fmt"
	"path/filepath"
	"strings"
)

// Address is where a daemon listens.
type Address struct {
	Network string // "unix"
	Path    string // of the socket; "" is the default one
}

// ParseAddress reads an address as the configuration and --listen write it:
//
//	unix            the default socket
//	unix:PATH       unix:///PATH       /PATH      another one; the whole path
func ParseAddress(s string) (Address, error) {
	if strings.ContainsRune(s, 0) {
		return Address{}, fmt.Errorf("address %q: a path has no NUL byte", s)
	}
	if s == "unix" {
		return Address{Network: "unix"}, nil
	}
	path, unix := strings.CutPrefix(s, "unix:")
	if unix {
		path = strings.TrimPrefix(path, "//")
	} else if network, _, ok := strings.Cut(s, "://"); ok {
		return Address{}, fmt.Errorf("address %q: %q is not supported; use unix or unix:PATH", s, network)
	}
	if !filepath.IsAbs(path) {
		return Address{}, fmt.Errorf("address %q: write unix, or unix: with the whole path of a socket", s)
	}
	return Address{Network: "unix", Path: path}, nil
}

// String returns the address as [ParseAddress] reads it.
func (a Address) String() string {
	if a.Path == "" {
		return a.Network
	}
	return a.Network + ":" + a.Path
}
