package configs

import (
	"fmt"
	"net"
	"net/netip"
	"path/filepath"
	"strings"

	"github.com/BurntSushi/toml"
)

// Metrics says where the daemon's figures can be read by a program.
type Metrics struct {
	Listen   string `toml:"listen"`   // "127.0.0.1:PORT" or "unix:PATH"; "" is nowhere
	Anywhere bool   `toml:"anywhere"` // Listen may be an address that other machines reach
}

// Address is Listen as package net takes it; "" without any. There is neither a
// token nor TLS, so without Anywhere an address that other machines reach is an
// error.
func (m Metrics) Address() (network, address string, err error) {
	s := m.Listen
	if s == "" {
		return "", "", nil
	}
	if path, ok := strings.CutPrefix(s, "unix:"); ok {
		if !filepath.IsAbs(path) {
			return "", "", fmt.Errorf("%q is a relative path; give the whole path of the socket, as in unix:/run/user/1000/hermesd-metrics.sock", path)
		}
		return "unix", path, nil
	}
	host, port, err := net.SplitHostPort(s)
	if err != nil || port == "" || strings.ContainsAny(host, "/ ") {
		return "", "", fmt.Errorf("%q is not an address; write 127.0.0.1:PORT or unix:PATH", s)
	}
	if ip, err := netip.ParseAddr(host); !m.Anywhere && (err != nil || !ip.IsLoopback()) {
		return "", "", fmt.Errorf("%q may be reached by other machines, and metrics have neither a password nor TLS; write 127.0.0.1:%s or unix:PATH, or set anywhere = true", s, port)
	}
	return "tcp", s, nil
}

func (m Metrics) invalid(bad func(toml.Key, string, ...any)) {
	if _, _, err := m.Address(); err != nil {
		bad(toml.Key{"metrics", "listen"}, "%v", err)
	}
}
