package transport

import (
	"bufio"
	"bytes"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/hermesd/hermesd/transport/identity"
	"github.com/hermesd/hermesd/transport/link"
	"github.com/hermesd/hermesd/transport/tokens"
)

// port is a listener on the loopback that serves each connection as a daemon
// does: hello, token, and then what comes is sent back.
type port struct {
	t      testing.TB
	ln     *NetworkListener
	file   *tokens.File
	cert   *identity.Certificate
	limit  atomic.Int64 // time.Duration until a token
	served sync.WaitGroup

	mu    sync.Mutex
	conns []*Conn
	ended chan error // why each connection ended
}

func newPort(t testing.TB, network string) *port {
	t.Helper()
	dir := t.TempDir()
	p := &port{t: t, file: tokens.Open(filepath.Join(dir, "n", "tokens.json")), ended: make(chan error, 2000)}
	p.limit.Store(int64(10 * time.Second))
	cert, err := identity.LoadOrMake(t.Context(), filepath.Join(dir, "n"))
	if err != nil {
		t.Fatal(err)
	}
	p.cert = cert
	p.ln, err = ListenNetwork(t.Context(), NetworkConfig{Address: Address{Network: network, Host: "127.0.0.1"}, Certificate: cert, Tokens: p.file})
	if err != nil {
		t.Fatal(err)
	}
	p.served.Go(func() {
		for {
			c, err := p.ln.Accept()
			if err != nil {
				if !errors.Is(err, net.ErrClosed) {
					t.Error(err)
				}
				return
			}
			p.mu.Lock()
			p.conns = append(p.conns, c)
			p.mu.Unlock()
			p.served.Go(func() { p.ended <- p.serve(c); c.Close() })
		}
	})
	t.Cleanup(func() {
		p.ln.Close()
		p.mu.Lock()
		for _, c := range p.conns {
			c.Close()
		}
		p.mu.Unlock()
		p.served.Wait()
	})
	return p
}

func (p *port) serve(c *Conn) error {
	_ = c.SetDeadline(time.Now().Add(time.Duration(p.limit.Load())))
	hello, said, rest, err := link.ReadHello(c)
	if err != nil {
		return err
	}
	granted, err := c.Authenticate(context.Background(), hello.Token)
	var refusal *Refusal
	if errors.As(err, &refusal) {
		c.Refuse(refusal.Text, said)
	}
	if err != nil {
		return err
	}
	_ = c.SetDeadline(time.Time{})
	if _, err := c.Write(link.Welcome{Link: 1, Token: granted}.Line()); err != nil || granted != "" {
		return err
	}
	if !c.Allowed() {
		c.Cut()
	}
	_, err = io.Copy(c, rest)
	return err
}

// forgive forgets that somebody has guessed.
func (p *port) forgive() {
	p.ln.gate.mu.Lock()
	clear(p.ln.gate.guesses)
	p.ln.gate.mu.Unlock()
}

func (p *port) token(name string, role tokens.Role) string {
	p.t.Helper()
	secret, _, err := p.file.Create(name, role)
	if err != nil {
		p.t.Fatal(err)
	}
	return secret
}

// dial connects, with TLS if the port has it.
func (p *port) dial() net.Conn {
	p.t.Helper()
	return p.client(p.raw())
}

// client speaks TLS on a connection if the port does.
func (p *port) client(c net.Conn) net.Conn {
	if p.ln.tls == nil {
		return c
	}
	return tls.Client(c, identity.Client(func(f identity.Fingerprint) error {
		if f != p.cert.Fingerprint {
			return fmt.Errorf("met %s", f)
		}
		return nil
	}))
}

func (p *port) raw() net.Conn {
	p.t.Helper()
	c, err := net.Dial("tcp", p.ln.Address().HostPort())
	if err != nil {
		p.t.Fatal(err)
	}
	_ = c.SetDeadline(time.Now().Add(30 * time.Second))
	p.t.Cleanup(func() { c.Close() })
	return c
}

// greet says hello with a token and gives the welcome.
func greet(c net.Conn, token string) (link.Welcome, error) {
	if _, err := c.Write(link.Hello{Link: 1, ID: link.NewID(), Token: token}.Line()); err != nil {
		return link.Welcome{}, err
	}
	line, err := bufio.NewReader(c).ReadBytes('\n')
	if err != nil {
		return link.Welcome{}, err
	}
	w, _, err := link.ParseWelcome(line)
	return w, err
}

func (p *port) why() error {
	p.t.Helper()
	select {
	case err := <-p.ended:
		return err
	case <-time.After(30 * time.Second):
		p.t.Fatal("the connection does not end")
		return nil
	}
}

func bothNetworks(t *testing.T, f func(t *testing.T, p *port)) {
	for _, network := range []string{TCP, PlainTCP} {
		t.Run(network, func(t *testing.T) { f(t, newPort(t, network)) })
	}
}

func TestATokenLetsIn(t *testing.T) {
	bothNetworks(t, func(t *testing.T, p *port) {
		c := p.dial()
		if w, err := greet(c, p.token("wall", tokens.Observe)); err != nil || w.Error != "" {
			t.Fatalf("%+v, %v", w, err)
		}
		// Both directions, and each can be closed alone.
		text := bytes.Repeat([]byte("0123456789abcdef"), 16<<10)
		go func() {
			c.Write(text)
			c.(interface{ CloseWrite() error }).CloseWrite()
		}()
		if got, err := io.ReadAll(c); err != nil || !bytes.Equal(got, text) {
			t.Errorf("%d bytes came back, %v", len(got), err)
		}
		if err := p.why(); err != nil {
			t.Errorf("it ended with %v", err)
		}
		p.mu.Lock()
		defer p.mu.Unlock()
		got := p.conns[0].Principal
		if got.Token != "wall" || got.Role != tokens.Observe || got.MayChange() || !got.Remotely() || got.UID != -1 || got.Remote != c.LocalAddr().String() {
			t.Errorf("it was %+v", got)
		}
		if want := p.ln.address.Network + " token wall from " + got.Remote; got.String() != want {
			t.Errorf("named %q", got)
		}
	})
}

func TestWithoutAGoodTokenNothingIsServed(t *testing.T) {
	bothNetworks(t, func(t *testing.T, p *port) {
		good := p.token("a", tokens.Control)
		for name, token := range map[string]string{
			"none": "", "wrong": "hdt_wrong", "the good one cut short": good[:len(good)-1], "its name": "a", "long": strings.Repeat("x", 60<<10),
		} {
			p.forgive()
			c := p.dial()
			w, err := greet(c, token)
			c.Close()
			if err != nil || !strings.Contains(w.Error, "pair") {
				t.Errorf("%s: %+v, %v", name, w, err)
			}
			if strings.Contains(w.Error, good) || token != "" && len(token) > 10 && strings.Contains(w.Error, token) {
				t.Errorf("%s: the answer repeats a token: %s", name, w.Error)
			}
			var r *Refusal
			if err := p.why(); !errors.As(err, &r) {
				t.Errorf("%s: it ended with %v", name, err)
			}
		}
		// A plain ACP client is told in its own words.
		c := p.dial()
		fmt.Fprintln(c, `{"jsonrpc":"2.0","id":7,"method":"initialize","params":{"protocolVersion":1}}`)
		if b, err := io.ReadAll(c); err != nil || !bytes.Contains(b, []byte(`"code":-32000`)) || !bytes.Contains(b, []byte("a token is needed")) {
			t.Errorf("a plain client: %q, %v", b, err)
		}
	})
}

func TestAWrongTokenIsAnsweredLater(t *testing.T) {
	p := newPort(t, TCP)
	for i, at := range []time.Duration{guessPause, 2 * guessPause} {
		began := time.Now()
		if w, err := greet(p.dial(), "hdt_x"); err != nil || w.Error == "" {
			t.Fatalf("%+v, %v", w, err)
		}
		if took := time.Since(began); took < at {
			t.Errorf("%d: answered after %v", i, took)
		}
	}
	// The right one does not wait for somebody who guesses from the same address.
	good := p.token("a", tokens.Control)
	for range 3 {
		p.ln.gate.failed(addr("127.0.0.1"), time.Now())
	}
	g := p.ln.gate
	g.mu.Lock()
	far := g.guesses[addr("127.0.0.1")].next
	g.mu.Unlock()
	if w, err := greet(p.dial(), good); err != nil || w.Error != "" || time.Now().After(far) {
		t.Errorf("%+v, %v", w, err)
	}
}

func TestAnInvitationGivesATokenAndNothingElse(t *testing.T) {
	bothNetworks(t, func(t *testing.T, p *port) {
		invitation, _, err := p.file.Invite("laptop", tokens.Control, time.Minute)
		if err != nil {
			t.Fatal(err)
		}
		c := p.dial()
		w, err := greet(c, invitation)
		if err != nil || w.Token == "" {
			t.Fatalf("%+v, %v", w, err)
		}
		if b, err := io.ReadAll(c); len(b) > 0 || err != nil {
			t.Errorf("the connection goes on: %q, %v", b, err)
		}
		if w, err := greet(p.dial(), w.Token); err != nil || w.Error != "" {
			t.Errorf("the new token: %+v, %v", w, err)
		}
		if w, err := greet(p.dial(), invitation); err != nil || w.Error != errWrongCode.Text {
			t.Errorf("a second time: %+v, %v", w, err)
		}
		expired, _, err := p.file.Invite("laptop", tokens.Control, -time.Minute)
		if err != nil {
			t.Fatal(err)
		}
		if w, err := greet(p.dial(), expired); err != nil || w.Error != errExpired.Text {
			t.Errorf("expired: %+v, %v", w, err)
		}
		// Guesses wait for their turn before they are looked at.
		far := time.Now().Add(time.Hour)
		p.ln.gate.mu.Lock()
		p.ln.gate.guesses[addr("127.0.0.1")].next = far
		p.ln.gate.mu.Unlock()
		fresh, _, err := p.file.Invite("laptop", tokens.Control, time.Minute)
		if err != nil {
			t.Fatal(err)
		}
		if w, err := greet(p.dial(), fresh); err != nil || w.Error != errTooOften.Text {
			t.Errorf("out of turn: %+v, %v", w, err)
		}
	})
}

func TestARevokedTokenIsNotAllowedAnyMore(t *testing.T) {
	bothNetworks(t, func(t *testing.T, p *port) {
		token := p.token("a", tokens.Control)
		c := p.dial()
		if w, err := greet(c, token); err != nil || w.Error != "" {
			t.Fatalf("%+v, %v", w, err)
		}
		p.mu.Lock()
		served := p.conns[0]
		p.mu.Unlock()
		if !served.Allowed() {
			t.Error("not allowed before")
		}
		if _, err := p.file.Revoke("a"); err != nil {
			t.Fatal(err)
		}
		if served.Allowed() {
			t.Error("allowed after")
		}
		served.Cut()
		served.Cut()
		if _, err := c.Read(make([]byte, 1)); err == nil {
			t.Error("the connection lives")
		}
		p.why()
		if w, err := greet(p.dial(), token); err != nil || w.Error != errWrongToken.Text {
			t.Errorf("again: %+v, %v", w, err)
		}
	})
}

func TestTokensThatCannotBeReadLetNobodyIn(t *testing.T) {
	if runtime.GOOS == "windows" {
		t.Skip("access lists, not modes")
	}
	p := newPort(t, TCP)
	token := p.token("a", tokens.Control)
	if err := os.Chmod(p.file.Path(), 0o666); err != nil {
		t.Fatal(err)
	}
	// Another File than the listener's, which has read nothing yet.
	p.ln.tokens = tokens.Open(p.file.Path())
	w, err := greet(p.dial(), token)
	if err != nil || w.Error != errInside.Text {
		t.Errorf("%+v, %v", w, err)
	}
	if err := p.why(); err == nil || !strings.Contains(err.Error(), "chmod 600") {
		t.Errorf("the log is told %v", err)
	}
}

func TestWhoSpeaksSomethingElseIsToldInHisWords(t *testing.T) {
	hello := string(link.Hello{Link: 1, ID: link.NewID()}.Line())
	for name, tc := range map[string]struct{ network, said, answer, log string }{
		"a hello without TLS": {TCP, hello, `{"hermes":{"link":1,"error":"this port speaks TLS`, "without TLS on a port with TLS"},
		"ACP without TLS":     {TCP, `{"jsonrpc":"2.0","id":1,"method":"initialize"}` + "\n", `"code":-32000,"message":"this port speaks TLS`, "without TLS on a port with TLS"},
		"a browser":           {TCP, "GET / HTTP/1.1\r\nHost: x\r\n\r\n", "HTTP/1.1 400 Bad Request", "HTTP"},
		"a browser, no TLS":   {PlainTCP, "POST /x HTTP/1.1\r\n\r\n{\"hermes\":{\"link\":1}}\n", "HTTP/1.1 400 Bad Request", "HTTP"},
		"gibberish":           {TCP, "\x00\x01\x02\x03\x04\x05\x06\x07\x08", "", "neither TLS nor ours"},
		"ssh":                 {PlainTCP, "SSH-2.0-OpenSSH_9\r\n", "", "neither TLS nor ours"},
		"TLS without TLS":     {PlainTCP, "\x16\x03\x01\x00\x05hello", "\x15\x03\x03\x00\x02\x02\x46", "speaks TLS on a port without"},
		"a broken record":     {TCP, "\x16\x03\x01\x00\x05hello", "\x15\x03", "tls"},
	} {
		t.Run(name, func(t *testing.T) {
			p := newPort(t, tc.network)
			c := p.raw()
			if _, err := io.WriteString(c, tc.said); err != nil {
				t.Fatal(err)
			}
			b, _ := io.ReadAll(c)
			if tc.answer == "" && len(b) > 0 || !strings.Contains(string(b), tc.answer) {
				t.Errorf("was told %q", b)
			}
			if err := p.why(); err == nil || !strings.Contains(err.Error(), tc.log) {
				t.Errorf("the log is told %v", err)
			}
		})
	}
	t.Run("a real TLS client without TLS", func(t *testing.T) {
		p := newPort(t, PlainTCP)
		c := tls.Client(p.raw(), identity.Client(func(identity.Fingerprint) error { return nil }))
		if err := c.Handshake(); err == nil || !strings.Contains(err.Error(), "protocol version") {
			t.Errorf("got %v", err)
		}
	})
}

// Everything up to the token is under one deadline, however slowly it comes.
func TestTheTimeUntilATokenIsBounded(t *testing.T) {
	for name, say := range map[string]func(c net.Conn){
		"silence":         func(net.Conn) {},
		"half a hello":    func(c net.Conn) { io.WriteString(c, `{"hermes":{`) },
		"half a TLS hand": func(c net.Conn) { c.Write([]byte{0x16, 3, 1, 2, 0, 1}) },
	} {
		bothNetworks(t, func(t *testing.T, p *port) {
			p.limit.Store(int64(50 * time.Millisecond))
			c := p.raw()
			say(c)
			b, _ := io.ReadAll(c)
			err := p.why()
			if !errors.Is(err, os.ErrDeadlineExceeded) && !strings.Contains(fmt.Sprint(err), "port") && !strings.Contains(fmt.Sprint(err), "neither") {
				t.Errorf("%s: ended with %v, was told %q", name, err, b)
			}
		})
	}
	t.Run("one byte after the other", func(t *testing.T) {
		p := newPort(t, PlainTCP)
		p.limit.Store(int64(200 * time.Millisecond))
		c := p.raw()
		stop := make(chan struct{})
		done := make(chan struct{})
		go func() {
			defer close(done)
			line := link.Hello{Link: 1, ID: strings.Repeat("x", 10000)}.Line()
			for _, b := range line {
				select {
				case <-stop:
					return
				case <-time.After(5 * time.Millisecond):
				}
				if _, err := c.Write([]byte{b}); err != nil {
					return
				}
			}
		}()
		if err := p.why(); !errors.Is(err, os.ErrDeadlineExceeded) {
			t.Errorf("ended with %v", err)
		}
		close(stop)
		<-done
	})
}

func TestWhatIsSaidBeforeATokenIsBounded(t *testing.T) {
	bothNetworks(t, func(t *testing.T, p *port) {
		c := p.dial()
		go func() {
			io.WriteString(c, `{"hermes":{"link":1,"env":{"A":"`)
			for range 1000 {
				if _, err := c.Write(bytes.Repeat([]byte("x"), 64<<10)); err != nil {
					return
				}
			}
		}()
		if err := p.why(); !errors.Is(err, errTooMuch) {
			t.Errorf("ended with %v", err)
		}
	})
}

func TestAThousandHalfOpenConnectionsKeepNobodyOut(t *testing.T) {
	p := newPort(t, TCP)
	token := p.token("a", tokens.Control)
	var mu sync.Mutex
	var open []net.Conn
	defer func() {
		for _, c := range open {
			c.Close()
		}
	}()
	var wg sync.WaitGroup
	for range 4 {
		wg.Go(func() {
			for range 250 {
				c, err := net.Dial("tcp", p.ln.Address().HostPort())
				if errors.Is(err, syscall.ECONNRESET) {
					continue // it had to make room before it knew that it was in
				}
				if err != nil {
					t.Error(err)
					return
				}
				mu.Lock()
				open = append(open, c)
				mu.Unlock()
			}
		})
	}
	wg.Wait()
	for range 3 {
		if w, err := greet(p.dial(), token); err != nil || w.Error != "" {
			t.Fatalf("%+v, %v", w, err)
		}
	}
	g := p.ln.gate
	g.mu.Lock()
	n := len(g.strangers)
	g.mu.Unlock()
	if n > maxStrangersPer {
		t.Errorf("%d strangers are in", n)
	}
}

func TestAnAddressThatCannotBeHadSaysWhy(t *testing.T) {
	p := newPort(t, TCP)
	listen := func(a Address) error {
		ln, err := ListenNetwork(t.Context(), NetworkConfig{Address: a, Certificate: p.cert, Tokens: p.file})
		if err == nil {
			ln.Close()
		}
		return err
	}
	for name, tc := range map[string]struct {
		a    Address
		want string
	}{
		"two on one port":      {p.ln.Address(), "another program uses port"},
		"in use without TLS":   {Address{Network: PlainTCP, Host: "127.0.0.1", Port: p.ln.Address().Port}, "another program uses port"},
		"unresolvable":         {Address{Network: TCP, Host: "no-such-host.invalid"}, "does not know the name"},
		"another machine's":    {Address{Network: TCP, Host: "192.0.2.1"}, "no address of this machine"},
		"plain for everybody":  {Address{Network: PlainTCP}, "without TLS"},
		"plain on any address": {Address{Network: PlainTCP, Host: "0.0.0.0"}, "without TLS"},
	} {
		if err := listen(tc.a); err == nil || !strings.Contains(err.Error(), tc.want) {
			t.Errorf("%s: %v", name, err)
		}
	}
	// It is free again when the first one is gone.
	a := p.ln.Address()
	p.ln.Close()
	if err := listen(a); err != nil {
		t.Error(err)
	}
}

func TestOthersThanThoseOverTheNetworkNeedNoToken(t *testing.T) {
	a, b := net.Pipe()
	defer a.Close()
	defer b.Close()
	c := &Conn{Conn: a, Principal: Principal{UID: 1000, Network: Unix}}
	if granted, err := c.Authenticate(t.Context(), ""); granted != "" || err != nil || !c.Allowed() || !c.Principal.MayChange() {
		t.Errorf("%q, %v", granted, err)
	}
	// A principal of the network whose connection cannot prove itself may nothing.
	c.Principal = Principal{UID: -1, Network: TCP}
	if _, err := c.Authenticate(t.Context(), "x"); err == nil || c.Allowed() || c.Principal.MayChange() {
		t.Error("let in without a proof")
	}
}

// Whatever somebody says first, he is not let in, nothing panics, and the
// connection ends.
func FuzzFirstBytes(f *testing.F) {
	for _, s := range []string{"", "{", `{"hermes":{"link":1}}` + "\n", `{"hermes":{"link":1,"token":"hdi_0"}}` + "\n", "GET / HTTP/1.1\r\n\r\n", "\x16\x03\x01\x00\x05hello",
		"\x16\x03\x01\x00\xff\x01\x00\x00\xfb\x03\x03", `{"jsonrpc":"2.0"}`} {
		f.Add([]byte(s), true)
		f.Add([]byte(s), false)
	}
	secure, plain := newPort(f, TCP), newPort(f, PlainTCP)
	f.Fuzz(func(t *testing.T, said []byte, withTLS bool) {
		p := plain
		if withTLS {
			p = secure
		}
		p.forgive()
		c, err := net.Dial("tcp", p.ln.Address().HostPort())
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
		_ = c.SetDeadline(time.Now().Add(20 * time.Second))
		c.Write(said)
		c.(*net.TCPConn).CloseWrite()
		io.Copy(io.Discard, c)
		if err := <-p.ended; err == nil {
			t.Errorf("%q was let in", said)
		}
	})
}

// Whatever stands in the hello, inside of TLS too: without a good token nobody is
// let in, with one it is only its own connection that suffers.
func FuzzHandshake(f *testing.F) {
	secure, plain := newPort(f, TCP), newPort(f, PlainTCP)
	for _, s := range []string{
		`{"hermes":{"link":1,"id":"x","token":"TOKEN"}}`, `{"hermes":{"link":9,"id":"x","token":"TOKEN"}}`, `{"hermes":{"link":1,"token":"TOKEN","env":{"A":"b"}}}`,
		`{"hermes":{"link":1,"id":"x"}}`, `{"hermes":{"link":0,"token":"TOKEN"}}`, `{"hermes":{"link":1,"token":["TOKEN"]}}`, `{"hermes":{"link":1,"token":"TOKEN","token":""}}`,
		`{"hermes":{"link":1,"token":"hdi_0000000000000"}}`, `{"hermes":null}`, `{ "hermes" : { "link" : 1 , "token" : "TOKEN" } }`, `{"jsonrpc":"2.0","id":1,"method":"initialize"}`, "{\"hermes\":{\xff",
	} {
		f.Add([]byte(s+"\n"), true, true)
		f.Add([]byte(s+"\n"), false, false)
	}
	tokens := map[*port]string{secure: secure.token("good", tokens.Control), plain: plain.token("good", tokens.Control)}
	f.Fuzz(func(t *testing.T, said []byte, withTLS, good bool) {
		p := plain
		if withTLS {
			p = secure
		}
		p.forgive()
		token := "hdt_wrong"
		if good {
			token = tokens[p]
		}
		said = bytes.ReplaceAll(said, []byte("TOKEN"), []byte(token))
		dial := func() net.Conn {
			c, err := net.Dial("tcp", p.ln.Address().HostPort())
			if err != nil {
				t.Fatal(err)
			}
			_ = c.SetDeadline(time.Now().Add(20 * time.Second))
			return p.client(c)
		}
		c := dial()
		defer c.Close()
		_, _ = c.Write(said)
		if half, ok := c.(interface{ CloseWrite() error }); ok {
			_ = half.CloseWrite()
		}
		answer, _ := io.ReadAll(c)
		err := <-p.ended
		if head, _, _ := bytes.Cut(answer, []byte("\n")); bytes.Contains(head, []byte(token)) { // what follows is sent back by this port
			t.Errorf("%q is answered with its token: %q", said, answer)
		}
		if err == nil && !(good && bytes.Contains(said, []byte(token))) {
			t.Errorf("%q was let in", said)
		}
		again := dial()
		defer again.Close()
		if w, err := greet(again, tokens[p]); err != nil || w.Error != "" {
			t.Errorf("after %q nobody is served: %+v, %v", said, w, err)
		}
		p.drop()
	})
}

// drop closes the connections so far and forgets why they ended.
func (p *port) drop() {
	p.mu.Lock()
	conns := p.conns
	p.conns = nil
	p.mu.Unlock()
	for _, c := range conns {
		c.Close()
	}
	for len(conns) > 1 { // one was taken by the caller
		<-p.ended
		conns = conns[1:]
	}
}
