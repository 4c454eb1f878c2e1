package web

import (
	"fmt"
	"net"
	"net/netip"
	"slices"
	"syscall"
	"time"
)

// special are the addresses that are not of the public internet, beyond those
// netip knows: IANA's registries of special-purpose addresses, and two of
// clouds.
var special = [...]struct {
	prefix netip.Prefix
	what   string
}{
	{netip.MustParsePrefix("0.0.0.0/8"), "this network"},
	{netip.MustParsePrefix("100.64.0.0/10"), "a carrier's private network"}, // with Alibaba's metadata in it
	{netip.MustParsePrefix("168.63.129.16/32"), "a cloud's metadata"},       // Azure
	{netip.MustParsePrefix("192.0.0.0/24"), "a reserved network"},           // with Oracle's metadata in it
	{netip.MustParsePrefix("192.0.2.0/24"), "a reserved network"},
	{netip.MustParsePrefix("192.88.99.0/24"), "a reserved network"},
	{netip.MustParsePrefix("198.18.0.0/15"), "a reserved network"},
	{netip.MustParsePrefix("198.51.100.0/24"), "a reserved network"},
	{netip.MustParsePrefix("203.0.113.0/24"), "a reserved network"},
	{netip.MustParsePrefix("240.0.0.0/4"), "a reserved network"},
	{netip.MustParsePrefix("::/96"), "a reserved network"},
	{netip.MustParsePrefix("64:ff9b:1::/48"), "a private network"},
	{netip.MustParsePrefix("100::/64"), "a reserved network"},
	{netip.MustParsePrefix("2001::/23"), "a reserved network"}, // with Teredo in it, which carries IPv4
	{netip.MustParsePrefix("2001:db8::/32"), "a reserved network"},
	{netip.MustParsePrefix("3fff::/20"), "a reserved network"},
	{netip.MustParsePrefix("5f00::/16"), "a reserved network"},
	{netip.MustParsePrefix("fec0::/10"), "a private network"},
}

var (
	nat64   = netip.MustParsePrefix("64:ff9b::/96")
	sixToIV = netip.MustParsePrefix("2002::/16")
)

// Guard says to which addresses may be spoken. The zero Guard lets through the
// public internet.
type Guard struct {
	// Allow are further networks, as 127.0.0.0/8 or fd00::/8.
	Allow []netip.Prefix
}

// Refuses says why nothing is fetched from an address, "" if it may be.
func (g Guard) Refuses(a netip.Addr) string {
	a = a.Unmap().WithZone("")
	if slices.ContainsFunc(g.Allow, func(p netip.Prefix) bool { return p.Contains(a) }) {
		return ""
	}
	switch {
	case !a.IsValid():
		return "no address"
	case a.IsUnspecified():
		return "this machine"
	case a.IsLoopback():
		return "this machine"
	case a.IsPrivate():
		return "a private network"
	case a.IsLinkLocalUnicast():
		return "a link-local network" // with the metadata of most clouds in it
	case a.IsMulticast(), a.IsInterfaceLocalMulticast(), a.IsLinkLocalMulticast():
		return "a group of machines"
	}
	for _, s := range special {
		if s.prefix.Contains(a) {
			return s.what
		}
	}
	// Addresses that lead to an IPv4 address are judged as that.
	b := a.As16()
	switch {
	case nat64.Contains(a):
		return g.Refuses(netip.AddrFrom4([4]byte(b[12:16])))
	case sixToIV.Contains(a):
		return g.Refuses(netip.AddrFrom4([4]byte(b[2:6])))
	}
	return ""
}

// RefusedError says that an address must not be spoken to.
type RefusedError struct {
	Addr netip.Addr
	What string // which network it is of
}

func (e *RefusedError) Error() string {
	return fmt.Sprintf("%s is of %s: nothing is fetched from there unless web.allow_private in the configuration has it", e.Addr, e.What)
}

// control is a net.Dialer's: it sees the address that is about to be dialled,
// after all names have been resolved.
func (g Guard) control(_, address string, _ syscall.RawConn) error {
	ap, err := netip.ParseAddrPort(address)
	if err != nil {
		return fmt.Errorf("the address %q is none: %w", address, err)
	}
	if what := g.Refuses(ap.Addr()); what != "" {
		return &RefusedError{Addr: ap.Addr().Unmap(), What: what}
	}
	return nil
}

func (g Guard) dialer() *net.Dialer {
	return &net.Dialer{Timeout: 10 * time.Second, Control: g.control, KeepAlive: -1}
}
