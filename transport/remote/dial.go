package remote

import (
	"bytes"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"strings"
	"syscall"
	"time"

	"github.com/hermesd/hermesd/transport"
	"github.com/hermesd/hermesd/transport/identity"
	"github.com/hermesd/hermesd/transport/link"
	"github.com/hermesd/hermesd/transport/tokens"
)

// ErrNoToken: this machine has no token for the daemon.
var ErrNoToken = errors.New("this machine is not paired with it")

// Dial connects to the daemon at an address (of network TCP or PlainTCP), and
// returns when it is sure to be the one that was met before. A daemon that was
// never met is remembered as it is now, and Note is told, unless want says which
// one it has to be. Nothing has been said to the daemon yet.
func (b *Book) Dial(ctx context.Context, a transport.Address, want identity.Fingerprint) (net.Conn, error) {
	if a.Network == transport.PlainTCP {
		return connect(ctx, a, nil)
	}
	known, err := b.Known(a)
	if err != nil {
		return nil, err
	}
	if want == "" {
		want = known
	}
	var met identity.Fingerprint
	c, err := connect(ctx, a, func(f identity.Fingerprint) error {
		met = f
		if want != "" && f != want {
			return &identity.ChangedError{Want: want, Got: f}
		}
		return nil
	})
	var other *identity.ChangedError
	if errors.As(err, &other) {
		return nil, b.changed(a, other)
	}
	if err == nil && met != known {
		if err = b.setKnown(a, met); err != nil {
			c.Close()
			return nil, fmt.Errorf("remembering the certificate of %s: %w", a, err)
		}
		if want == "" {
			b.note("first connection to %s: its certificate is %s from now on; compare it with what `hermesd pair --show` prints there", a, met)
		}
	}
	return c, err
}

// changed says what a person needs to know to decide what has happened.
func (b *Book) changed(a transport.Address, e *identity.ChangedError) error {
	return fmt.Errorf("%s shows another certificate than before, so nothing was sent to it.\n"+
		"  known    %s (in %s)\n"+
		"  now      %s\n"+
		"Either somebody stands between you and it, or it was set up anew. To find out, run `hermesd pair` on its machine:\n"+
		"the code it prints works only with the right certificate (hermesd connect %s --code CODE): %w",
		a, e.Want, b.known().path, e.Got, a, errChanged)
}

var errChanged = errors.New("the certificate has changed")

// Pair exchanges the code that `hermesd pair` printed for a token, which it keeps,
// and returns the token's name. Only the daemon with the certificate that the code
// names is told anything; it is the known one from then on.
func (b *Book) Pair(ctx context.Context, a transport.Address, code tokens.Code, hello link.Hello) (name string, err error) {
	var met identity.Fingerprint
	c, err := connect(ctx, a, func(f identity.Fingerprint) error {
		met = f
		if !strings.HasPrefix(f.Hex(), code.Fingerprint) {
			return errWrongDaemon
		}
		return nil
	})
	if errors.Is(err, errWrongDaemon) {
		return "", fmt.Errorf("the daemon at %s is not the one the code is from (its certificate is %s), so nothing was sent to it: check address and code; if both are right, somebody stands between you and it", a, met)
	}
	if err != nil {
		return "", err
	}
	defer c.Close()
	stop := context.AfterFunc(ctx, func() { _ = c.SetDeadline(time.Unix(1, 0)) })
	defer stop()
	hello.Token = code.Invitation
	w, err := greet(c, hello)
	if err != nil {
		return "", fmt.Errorf("pairing with %s: %w", a, err)
	}
	if w.Token == "" {
		return "", fmt.Errorf("pairing with %s: it gave no token", a)
	}
	if met != "" {
		if err := b.setKnown(a, met); err != nil {
			return "", fmt.Errorf("remembering the certificate of %s: %w", a, err)
		}
	}
	if err := b.SetToken(a, w.Token); err != nil {
		return "", fmt.Errorf("keeping the token for %s: %w; revoke it there: hermesd tokens revoke %s", a, err, w.TokenName)
	}
	return w.TokenName, nil
}

var errWrongDaemon = errors.New("not the daemon of the code")

// connect dials, and shakes hands if check is not nil.
func connect(ctx context.Context, a transport.Address, check func(identity.Fingerprint) error) (net.Conn, error) {
	if a.Network != transport.TCP && a.Network != transport.PlainTCP {
		return nil, fmt.Errorf("%s is no address of the network: write tcp://HOST:PORT", a)
	}
	if a.Host == "" || a.Port == 0 {
		return nil, fmt.Errorf("%s does not say which machine and port", a)
	}
	var d net.Dialer
	raw, err := d.DialContext(ctx, "tcp", a.HostPort())
	if err != nil {
		return nil, fmt.Errorf("connecting to %s: %w", a, explain(ctx, a, err))
	}
	if a.Network == transport.PlainTCP {
		if tcp, ok := raw.RemoteAddr().(*net.TCPAddr); !ok || !tcp.IP.IsLoopback() {
			raw.Close()
			return nil, fmt.Errorf("connecting to %s: it is not on this machine; without TLS nothing is sent elsewhere", a)
		}
		return raw, nil
	}
	c := tls.Client(raw, identity.Client(check))
	if err := c.HandshakeContext(ctx); err != nil {
		raw.Close()
		return nil, fmt.Errorf("connecting to %s: %w", a, explain(ctx, a, err))
	}
	return c, nil
}

// explain says what helps.
func explain(ctx context.Context, a transport.Address, err error) error {
	var dns *net.DNSError
	var record tls.RecordHeaderError
	switch {
	case errors.As(err, &dns):
		return fmt.Errorf("this machine does not know the name %q (%w)", a.Host, err)
	case errors.Is(err, syscall.ECONNREFUSED):
		return fmt.Errorf("nobody listens there (%w); is hermesd running on that machine, with this address under [[listen]]?", err)
	case errors.As(err, &record):
		return fmt.Errorf("what listens there does not speak TLS (%w)", err)
	case ctx.Err() != nil:
		return context.Cause(ctx)
	}
	return err
}

// greet says hello and reads the welcome, and nothing behind it.
func greet(c net.Conn, hello link.Hello) (link.Welcome, error) {
	if _, err := c.Write(hello.Line()); err != nil {
		return link.Welcome{}, err
	}
	var line []byte
	buf := make([]byte, 512)
	for !bytes.ContainsRune(line, '\n') {
		n, err := c.Read(buf)
		if line = append(line, buf[:n]...); err != nil || len(line) > link.MaxWelcome {
			break
		}
	}
	w, ok, err := link.ParseWelcome(line)
	switch {
	case err != nil:
		return w, err
	case !ok:
		return w, errors.New("what listens there is not hermesd")
	case w.Error != "":
		return w, &link.Refused{Text: w.Error}
	}
	return w, nil
}
