package transport

import (
	"context"
	"crypto/tls"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/hermesd/hermesd/transport/identity"
	"github.com/hermesd/hermesd/transport/link"
	"github.com/hermesd/hermesd/transport/tokens"
)

// maxUnproven is how many bytes a connection may say before it has shown a token:
// a hello without an environment is much shorter.
const maxUnproven = 64 << 10

// NetworkConfig says where and for whom to listen on the network.
type NetworkConfig struct {
	Address     Address // of network TCP or PlainTCP
	Certificate *identity.Certificate
	Tokens      *tokens.File
}

// NetworkListener accepts connections over TCP. Who connects has to show a token
// ([Conn.Authenticate]) before anything is done for him.
type NetworkListener struct {
	ln      *net.TCPListener
	address Address
	tls     *tls.Config // nil: none
	tokens  *tokens.File
	gate    *gate

	ctx    context.Context // ends when the listener is closed
	cancel context.CancelFunc
}

// ListenNetwork listens. The errors of an address that cannot be had say why and
// what helps.
func ListenNetwork(ctx context.Context, c NetworkConfig) (*NetworkListener, error) {
	a := c.Address
	if a.Network == PlainTCP && !a.Loopback() {
		return nil, fmt.Errorf("listening on %s: without TLS only on this machine itself", a)
	}
	var lc net.ListenConfig
	ln, err := lc.Listen(ctx, "tcp", a.HostPort())
	if err != nil {
		return nil, fmt.Errorf("listening on %s: %w", a, explainListen(a, err))
	}
	l := &NetworkListener{ln: ln.(*net.TCPListener), address: a, tokens: c.Tokens, gate: newGate(maxStrangers, maxStrangersPer)}
	at := l.ln.Addr().(*net.TCPAddr)
	if a.Network == PlainTCP && !at.IP.IsLoopback() { // localhost need not be what it says
		ln.Close()
		return nil, fmt.Errorf("listening on %s: it is %s, which other machines reach; write 127.0.0.1", a, at.IP)
	}
	l.address.Port = uint16(at.Port)
	if a.Network == TCP {
		l.tls = c.Certificate.Server()
	}
	l.ctx, l.cancel = context.WithCancel(context.Background())
	return l, nil
}

// explainListen says what helps.
func explainListen(a Address, err error) error {
	var dns *net.DNSError
	switch {
	case errors.As(err, &dns):
		return fmt.Errorf("this machine does not know the name %q (%w); write an address of this machine, or 0.0.0.0 for all of them", a.Host, err)
	case errors.Is(err, syscall.EADDRINUSE):
		return fmt.Errorf("another program uses port %d, perhaps another hermesd (%w); end it, or choose another port under [[listen]]", a.Port, err)
	case errors.Is(err, syscall.EADDRNOTAVAIL):
		return fmt.Errorf("%s is no address of this machine (%w); write one that is, or 0.0.0.0 for all of them", a.Host, err)
	case errors.Is(err, os.ErrPermission):
		return fmt.Errorf("port %d needs privileges (%w); choose one above 1023", a.Port, err)
	}
	return err
}

// Address is where the listener listens, with the port it was given.
func (l *NetworkListener) Address() Address { return l.address }

// Close ends listening. Connections that were accepted live on.
func (l *NetworkListener) Close() error {
	l.cancel()
	return l.ln.Close()
}

// Accept returns the next connection, or [net.ErrClosed] (wrapped) once the
// listener is closed. Nothing has been read from it: the TLS handshake is part of
// its first Read, so the deadline for that limits it.
func (l *NetworkListener) Accept() (*Conn, error) {
	raw, err := patiently(l.ln.AcceptTCP, l.ctx.Done())
	if err != nil {
		return nil, fmt.Errorf("accepting: %w", err)
	}
	c := &networkConn{raw: raw, l: l, closed: make(chan struct{})}
	c.stranger = &stranger{from: origin(raw.RemoteAddr()), evict: func() { c.cut(errEvicted) }}
	if err := l.gate.enter(l.ctx, c.stranger); err != nil {
		raw.Close()
		return nil, fmt.Errorf("accepting: %w", net.ErrClosed)
	}
	return &Conn{Conn: c, Principal: Principal{UID: -1, Network: l.address.Network, Remote: raw.RemoteAddr().String()}}, nil
}

var (
	errEvicted = errors.New("it said nothing useful while others waited to be let in")
	errTooMuch = fmt.Errorf("it said more than %d bytes before it showed a token", maxUnproven)
)

// networkConn is a connection over TCP. Its first Read finds out what the peer
// speaks, and does the TLS handshake.
type networkConn struct {
	raw      *net.TCPConn // not embedded: its ReadFrom and WriteTo would go past TLS
	l        *NetworkListener
	stranger *stranger

	begin  sync.Once
	failed error                    // of begin
	stream net.Conn                 // what is read and written: TLS, or plain; set by begin
	secure atomic.Pointer[tls.Conn] // stream, if it is TLS; for those who do not wait for begin

	proven atomic.Bool // a token was shown
	token  tokens.Token
	unsure int // bytes read until then; only the reader's

	end    sync.Once
	closed chan struct{}
	why    error // why we closed it; set before closed is
}

func (c *networkConn) start() error {
	c.begin.Do(func() {
		head := make([]byte, sniffed)
		n, kind := 0, unclear
		for kind == unclear {
			m, err := c.raw.Read(head[n:])
			if n += m; n > 0 {
				c.l.gate.heard(c.stranger)
				kind = sniff(head[:n])
			}
			if err != nil && kind == unclear {
				c.failed = c.reason(err)
				return
			}
		}
		head = head[:n]
		heard := &heardConn{Conn: c.raw, head: head}
		switch {
		case kind == speaksTLS && c.l.tls != nil:
			t := tls.Server(heard, c.l.tls)
			c.stream = t
			c.secure.Store(t)
		case kind == speaksLine && c.l.tls == nil:
			c.stream = heard
		default:
			c.failed = c.mismatch(kind, head)
		}
	})
	return c.failed
}

// mismatch answers who speaks something else than this port, in his language,
// and says what it was.
func (c *networkConn) mismatch(kind speech, head []byte) error {
	switch kind {
	case speaksTLS:
		farewell(c.raw, alertNoTLS)
		return fmt.Errorf("it speaks TLS on a port without; connect to %s", c.l.address)
	case speaksHTTP:
		farewell(c.raw, answerHTTP)
		return errors.New("it speaks HTTP: a browser or a scanner")
	case speaksLine:
		text := "this port speaks TLS: connect with hermesd connect tcp://HOST:PORT, or with hermes-acp-shim --connect"
		if isHello(head) {
			farewell(c.raw, link.Welcome{Link: link.Number, Error: text}.Line())
		} else {
			farewell(c.raw, RefusalLine(text))
		}
		return errors.New("it speaks without TLS on a port with TLS")
	}
	return errors.New("what it speaks is neither TLS nor ours")
}

const (
	farewellTime  = 500 * time.Millisecond
	farewellBytes = 256 << 10
)

// farewell says a last thing and gives the peer the time to read it: closing a
// socket while something it sent is unread throws away what it was told.
func farewell(c net.Conn, last []byte) {
	_ = c.SetDeadline(time.Now().Add(farewellTime))
	if _, err := c.Write(last); err != nil {
		return
	}
	if half, ok := c.(interface{ CloseWrite() error }); ok && half.CloseWrite() == nil {
		_, _ = io.CopyN(io.Discard, c, farewellBytes)
	}
}

// RefusalLine is what a plain ACP client is told that may not come in: the answer
// to a request whose id nobody has read.
func RefusalLine(text string) []byte {
	b, err := json.Marshal(map[string]any{"jsonrpc": "2.0", "id": nil, "error": map[string]any{"code": -32000, "message": text}})
	if err != nil {
		panic(err) // strings and numbers
	}
	return append(b, '\n')
}

func (c *networkConn) Read(b []byte) (int, error) {
	if err := c.start(); err != nil {
		return 0, err
	}
	if c.proven.Load() {
		return c.stream.Read(b)
	}
	if c.unsure >= maxUnproven {
		return 0, errTooMuch
	}
	n, err := c.stream.Read(b[:min(len(b), maxUnproven-c.unsure)])
	c.unsure += n
	if err != nil && err != io.EOF {
		err = c.reason(err)
	}
	return n, err
}

func (c *networkConn) Write(b []byte) (int, error) {
	if err := c.start(); err != nil {
		return 0, err
	}
	return c.stream.Write(b)
}

// reason is err, or why we closed the connection if that is why.
func (c *networkConn) reason(err error) error {
	select {
	case <-c.closed:
		if c.why != nil {
			return c.why
		}
	default:
	}
	if errors.Is(err, os.ErrDeadlineExceeded) {
		return fmt.Errorf("it did not show a token in time: %w", err)
	}
	return err
}

// CloseWrite tells the peer that nothing more will come.
func (c *networkConn) CloseWrite() error {
	if err := c.start(); err != nil {
		return err
	}
	if t := c.secure.Load(); t != nil {
		if err := t.CloseWrite(); err != nil {
			return err
		}
	}
	return c.raw.CloseWrite()
}

func (c *networkConn) Close() error {
	err := net.ErrClosed
	c.end.Do(func() {
		close(c.closed)
		c.l.gate.leave(c.stranger)
		if t := c.secure.Load(); t != nil && c.proven.Load() {
			// TLS says good-bye, which a peer that does not read cannot hold up for
			// more than the five seconds that crypto/tls allows.
			err = t.Close()
			return
		}
		err = c.raw.Close()
	})
	return err
}

// cut closes the connection at once: what is on its way is dropped.
func (c *networkConn) cut(why error) {
	c.end.Do(func() {
		c.why = why
		close(c.closed)
		c.l.gate.leave(c.stranger)
		_ = c.raw.SetLinger(0)
		c.raw.Close()
	})
}

func (c *networkConn) LocalAddr() net.Addr                { return c.raw.LocalAddr() }
func (c *networkConn) RemoteAddr() net.Addr               { return c.raw.RemoteAddr() }
func (c *networkConn) SetDeadline(t time.Time) error      { return c.raw.SetDeadline(t) }
func (c *networkConn) SetReadDeadline(t time.Time) error  { return c.raw.SetReadDeadline(t) }
func (c *networkConn) SetWriteDeadline(t time.Time) error { return c.raw.SetWriteDeadline(t) }

// authenticate takes what the peer shows, a token or an invitation.
func (c *networkConn) authenticate(ctx context.Context, secret string) (t tokens.Token, granted string, err error) {
	from, gate := c.stranger.from, c.l.gate
	switch {
	case secret == "":
		return t, "", errNoToken
	case tokens.IsInvitation(secret):
		pause, ok := gate.turn(from, time.Now())
		if !ok {
			return t, "", errTooOften
		}
		if err := c.wait(ctx, pause); err != nil {
			return t, "", err
		}
		if granted, t, err = c.l.tokens.Redeem(secret); err == nil {
			return t, granted, nil
		}
		if errors.Is(err, tokens.ErrExpired) { // it was no guess
			return t, "", errExpired
		}
		gate.failed(from, time.Now())
		if errors.Is(err, tokens.ErrUnknown) {
			return t, "", errWrongCode
		}
		return t, "", err
	}
	if t, err = c.l.tokens.Check(secret); err != nil {
		pause := gate.failed(from, time.Now())
		if werr := c.wait(ctx, pause); werr != nil {
			return t, "", werr
		}
		if errors.Is(err, tokens.ErrUnknown) {
			return t, "", errWrongToken
		}
		return t, "", err
	}
	c.proven.Store(true)
	gate.leave(c.stranger)
	return t, "", nil
}

// What the peer is told. It is not told more: which of them it is does not help
// who guesses.
var (
	errNoToken    = &Refusal{"a token is needed: pair this machine with the code that `hermesd pair` prints on the other one (hermesd connect ADDRESS --code CODE)"}
	errWrongToken = &Refusal{"this token is not known, or was revoked: pair this machine again with the code that `hermesd pair` prints on the other one (hermesd connect ADDRESS --code CODE)"}
	errWrongCode  = &Refusal{"this pairing code is not known, or was used already: get a new one with `hermesd pair` on the other machine"}
	errExpired    = &Refusal{"this pairing code has expired: get a new one with `hermesd pair` on the other machine"}
	errTooOften   = &Refusal{"too many wrong pairing codes came from your address: wait a minute and try again"}
	errInside     = &Refusal{"the daemon cannot read its tokens: its log says why"}
)

// Refusal is an error that the peer may be told.
type Refusal struct{ Text string }

func (r *Refusal) Error() string { return r.Text }

// wait holds something back, unless the connection ends.
func (c *networkConn) wait(ctx context.Context, d time.Duration) error {
	if d <= 0 {
		return nil
	}
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-c.closed:
		return c.reason(net.ErrClosed)
	case <-ctx.Done():
		return ctx.Err()
	case <-c.l.ctx.Done():
		return net.ErrClosed
	}
}

// heardConn is a connection whose first bytes have been read.
type heardConn struct {
	net.Conn
	head []byte
}

func (c *heardConn) Read(b []byte) (int, error) {
	if len(c.head) == 0 {
		return c.Conn.Read(b)
	}
	n := copy(b, c.head)
	if c.head = c.head[n:]; len(c.head) == 0 {
		c.head = nil
	}
	return n, nil
}
