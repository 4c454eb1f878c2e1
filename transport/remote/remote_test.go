package remote

import (
	"bufio"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/hermesd/hermesd/transport"
	"github.com/hermesd/hermesd/transport/identity"
	"github.com/hermesd/hermesd/transport/link"
	"github.com/hermesd/hermesd/transport/tokens"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// box is a machine whose daemon answers hellos. heard is what it was told.
type box struct {
	cert    *identity.Certificate
	address transport.Address
	heard   chan link.Hello
}

// start listens at an address; port 0 is any. welcome is what hellos are answered
// with.
func start(t *testing.T, at transport.Address, welcome link.Welcome) *box {
	t.Helper()
	cert, err := identity.LoadOrMake(t.Context(), t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	ln, err := net.Listen("tcp", at.HostPort())
	if err != nil {
		t.Fatal(err)
	}
	b := &box{cert: cert, address: at, heard: make(chan link.Hello, 100)}
	b.address.Port = uint16(ln.Addr().(*net.TCPAddr).Port)
	var wg sync.WaitGroup
	wg.Go(func() {
		for {
			raw, err := ln.Accept()
			if err != nil {
				return
			}
			wg.Go(func() {
				defer raw.Close()
				_ = raw.SetDeadline(time.Now().Add(20 * time.Second))
				var c net.Conn = raw
				if at.Network == transport.TCP {
					c = tls.Server(raw, cert.Server())
				}
				line, err := bufio.NewReader(c).ReadBytes('\n')
				if err != nil {
					return
				}
				h, _, _ := link.ParseHello(line)
				b.heard <- h
				c.Write(welcome.Line())
			})
		}
	})
	t.Cleanup(func() { ln.Close(); wg.Wait() })
	return b
}

var anyPort = transport.Address{Network: transport.TCP, Host: "127.0.0.1"}

// say is a whole conversation: dial, hello, welcome.
func say(t *testing.T, b *Book, a transport.Address, want identity.Fingerprint) error {
	t.Helper()
	c, err := b.Dial(t.Context(), a, want)
	if err != nil {
		return err
	}
	defer c.Close()
	_, err = greet(c, link.Hello{Link: 1, ID: link.NewID()})
	return err
}

func TestTheFirstCertificateIsRememberedAndNoOtherAccepted(t *testing.T) {
	b := NewBook(filepath.Join(t.TempDir(), "config"))
	var notes []string
	b.Note = func(s string) { notes = append(notes, s) }
	one := start(t, anyPort, link.Welcome{Link: 1})
	for range 2 {
		if err := say(t, b, one.address, ""); err != nil {
			t.Fatal(err)
		}
	}
	if len(notes) != 1 || !strings.Contains(notes[0], one.cert.Fingerprint.String()) {
		t.Errorf("notes %q", notes)
	}
	// The same address, another certificate.
	other := start(t, anyPort, link.Welcome{Link: 1})
	if err := b.setKnown(other.address, one.cert.Fingerprint); err != nil {
		t.Fatal(err)
	}
	err := say(t, b, other.address, "")
	if err == nil || !errors.Is(err, errChanged) {
		t.Fatalf("got %v", err)
	}
	for _, want := range []string{one.cert.Fingerprint.String(), other.cert.Fingerprint.String(), "known_daemons", "hermesd pair", "--code", "nothing was sent"} {
		if !strings.Contains(err.Error(), want) {
			t.Errorf("it does not say %q: %v", want, err)
		}
	}
	if len(other.heard) > 0 {
		t.Errorf("it was told %+v", <-other.heard)
	}
	if f, err := b.Known(other.address); f != one.cert.Fingerprint || err != nil {
		t.Errorf("now known: %s, %v", f, err)
	}
	// A fingerprint that a person gives is what counts.
	if err := say(t, b, one.address, other.cert.Fingerprint); err == nil {
		t.Error("the wrong fingerprint is accepted")
	}
	if err := say(t, b, other.address, other.cert.Fingerprint); err != nil {
		t.Error(err)
	}
	if err := b.Forget(one.address); err != nil {
		t.Fatal(err)
	}
	if f, err := b.Known(one.address); f != "" || err != nil {
		t.Errorf("not forgotten: %s, %v", f, err)
	}
}

func TestACodeSettlesEvenTheFirstTime(t *testing.T) {
	b := NewBook(t.TempDir())
	one := start(t, anyPort, link.Welcome{Link: 1, Token: "hdt_given", TokenName: "laptop"})
	other := start(t, anyPort, link.Welcome{Link: 1, Token: "hdt_evil", TokenName: "laptop"})
	text := tokens.NewCode("hdi_0123456789ab", one.cert.Fingerprint.Hex()).String()
	code, err := tokens.ParseCode(text)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := b.Pair(t.Context(), other.address, code, link.Hello{Link: 1}); err == nil || !strings.Contains(err.Error(), "nothing was sent") {
		t.Fatalf("with another daemon: %v", err)
	}
	if len(other.heard) > 0 {
		t.Errorf("it was told %+v", <-other.heard)
	}
	// An old pin is replaced: the code comes from the right machine.
	if err := b.setKnown(one.address, other.cert.Fingerprint); err != nil {
		t.Fatal(err)
	}
	name, err := b.Pair(t.Context(), one.address, code, link.Hello{Link: 1})
	if name != "laptop" || err != nil {
		t.Fatalf("%q, %v", name, err)
	}
	if h := <-one.heard; h.Token != code.Invitation {
		t.Errorf("it was told %+v", h)
	}
	if token, err := b.Token(one.address); token != "hdt_given" || err != nil {
		t.Errorf("token %q, %v", token, err)
	}
	if f, err := b.Known(one.address); f != one.cert.Fingerprint || err != nil {
		t.Errorf("known %s, %v", f, err)
	}
	if token, err := b.Token(other.address); token != "" || err != nil {
		t.Errorf("the other one's token: %q, %v", token, err)
	}
}

func TestARefusalIsPassedOn(t *testing.T) {
	b := NewBook(t.TempDir())
	one := start(t, anyPort, link.Welcome{Link: 1, Error: "this pairing code has expired"})
	code := tokens.NewCode("hdi_0123456789ab", one.cert.Fingerprint.Hex())
	if _, err := b.Pair(t.Context(), one.address, code, link.Hello{Link: 1}); err == nil || !strings.Contains(err.Error(), "has expired") {
		t.Errorf("got %v", err)
	}
	if token, _ := b.Token(one.address); token != "" {
		t.Errorf("token %q", token)
	}
}

func TestWithoutTLSOnlyOnThisMachine(t *testing.T) {
	b := NewBook(t.TempDir())
	one := start(t, transport.Address{Network: transport.PlainTCP, Host: "127.0.0.1"}, link.Welcome{Link: 1})
	if err := say(t, b, one.address, ""); err != nil {
		t.Error(err)
	}
}

func TestWhatCannotBeReachedSaysWhy(t *testing.T) {
	b := NewBook(t.TempDir())
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	free := anyPort
	free.Port = uint16(ln.Addr().(*net.TCPAddr).Port)
	ln.Close()
	web, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	var wg sync.WaitGroup
	wg.Go(func() {
		for {
			c, err := web.Accept()
			if err != nil {
				return
			}
			c.Write([]byte("HTTP/1.1 400 Bad Request\r\n\r\n"))
			c.Close()
		}
	})
	defer wg.Wait()
	defer web.Close()
	http := anyPort
	http.Port = uint16(web.Addr().(*net.TCPAddr).Port)
	for name, tc := range map[string]struct {
		a    transport.Address
		want string
	}{
		"nobody listens": {free, "nobody listens there"},
		"no such name":   {transport.Address{Network: transport.TCP, Host: "no-such-host.invalid", Port: 1}, "does not know the name"},
		"no TLS there":   {http, "connecting to"},
		"no port":        {transport.Address{Network: transport.TCP, Host: "a"}, "which machine and port"},
		"a socket":       {transport.Address{Network: transport.Unix}, "no address of the network"},
	} {
		ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
		if c, err := b.Dial(ctx, tc.a, ""); err == nil || !strings.Contains(err.Error(), tc.want) {
			t.Errorf("%s: %v", name, err)
			if c != nil {
				c.Close()
			}
		}
		cancel()
	}
	// A daemon that says nothing is given up.
	mute, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer mute.Close()
	silent := anyPort
	silent.Port = uint16(mute.Addr().(*net.TCPAddr).Port)
	ctx, cancel := context.WithTimeoutCause(t.Context(), 20*time.Millisecond, errors.New("enough"))
	defer cancel()
	if _, err := b.Dial(ctx, silent, ""); err == nil || !strings.Contains(err.Error(), "enough") {
		t.Errorf("a mute one: %v", err)
	}
}

func TestTheFilesAreClosedToOthersAndKeepWhatPeopleWrote(t *testing.T) {
	dir := t.TempDir()
	b := NewBook(dir)
	a := transport.Address{Network: transport.TCP, Host: "Box.Example", Port: 7777}
	path := filepath.Join(dir, "remote_tokens")
	if err := os.WriteFile(path, []byte("# mine\n\ntcp://other:1 hdt_o a comment\r\nnonsense\nTCP://box.example:7777 hdt_old\ntcp://box.example:7777 hdt_older"), 0o600); err != nil {
		t.Fatal(err)
	}
	if token, err := b.Token(a); token != "hdt_old" || err != nil {
		t.Errorf("%q, %v", token, err)
	}
	if err := b.SetToken(a, "hdt_new"); err != nil {
		t.Fatal(err)
	}
	text, _ := os.ReadFile(path)
	if want := "# mine\n\ntcp://other:1 hdt_o a comment\r\nnonsense\ntcp://box.example:7777 hdt_new\n"; string(text) != want {
		t.Errorf("now %q", text)
	}
	for _, bad := range []string{"", "a b", "a\nb"} {
		if err := b.SetToken(a, bad); err == nil {
			t.Errorf("%q is a token", bad)
		}
	}
	if runtime.GOOS == "windows" {
		return
	}
	if info, err := os.Stat(path); err != nil || info.Mode() != 0o600 {
		t.Errorf("%v, %v", info.Mode(), err)
	}
	os.Chmod(path, 0o644)
	if _, err := b.Token(a); err == nil || !strings.Contains(err.Error(), "chmod 600") {
		t.Errorf("a file that others can read: %v", err)
	}
}

func TestManyProcessesWriteAtOnce(t *testing.T) {
	dir := t.TempDir()
	var wg sync.WaitGroup
	for i := range 10 {
		wg.Go(func() {
			a := transport.Address{Network: transport.TCP, Host: fmt.Sprintf("box%d", i), Port: 1}
			if err := NewBook(dir).SetToken(a, fmt.Sprintf("hdt_%d", i)); err != nil {
				t.Error(err)
			}
		})
	}
	wg.Wait()
	for i := range 10 {
		a := transport.Address{Network: transport.TCP, Host: fmt.Sprintf("box%d", i), Port: 1}
		if token, err := NewBook(dir).Token(a); token != fmt.Sprintf("hdt_%d", i) || err != nil {
			t.Errorf("%d: %q, %v", i, token, err)
		}
	}
}

func FuzzList(f *testing.F) {
	f.Add([]byte("a b\n# c\n a  d e\n"), "x")
	f.Add([]byte("tcp://box:1 v"), "y")
	f.Add([]byte{}, "z")
	f.Fuzz(func(t *testing.T, text []byte, v string) {
		if v == "" || strings.ContainsAny(v, " \t\r\n\v\f\u0085\u00a0") || len(strings.Fields(v)) != 1 || strings.Fields(v)[0] != v {
			return
		}
		const key = "tcp://box:1"
		before := value(text, "tcp://other:1")
		now := changed(text, key, v)
		if got := value(now, key); got != v {
			t.Errorf("set %q, got %q in %q", v, got, now)
		}
		if after := value(now, "tcp://other:1"); after != before {
			t.Errorf("another one was %q and is %q", before, after)
		}
		if got := value(changed(now, key, ""), key); got != "" {
			t.Errorf("still %q", got)
		}
	})
}
