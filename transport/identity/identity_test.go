package identity

import (
	"crypto/tls"
	"errors"
	"io"
	"net"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func TestTheCertificateIsMadeOnceByWhoeverIsFirst(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "network")
	if _, err := Load(dir); !errors.Is(err, ErrNone) {
		t.Fatalf("before: %v", err)
	}
	var wg sync.WaitGroup
	all := make([]Fingerprint, 4)
	for i := range all {
		wg.Go(func() {
			c, err := LoadOrMake(t.Context(), dir)
			if err != nil {
				t.Error(err)
				return
			}
			all[i] = c.Fingerprint
		})
	}
	wg.Wait()
	for _, f := range all {
		if f != all[0] || len(f) != 71 {
			t.Errorf("%v", all)
		}
	}
	if runtime.GOOS != "windows" {
		if info, err := os.Stat(file(dir)); err != nil || info.Mode() != 0o600 {
			t.Errorf("%v, %v", info.Mode(), err)
		}
		os.Chmod(file(dir), 0o640)
		if _, err := Load(dir); err == nil || !strings.Contains(err.Error(), "other users") {
			t.Errorf("a key that others can read: %v", err)
		}
	}
}

func TestADamagedCertificateIsNotReplaced(t *testing.T) {
	dir := t.TempDir()
	c, err := LoadOrMake(t.Context(), dir)
	if err != nil {
		t.Fatal(err)
	}
	text, _ := os.ReadFile(file(dir))
	if err := os.WriteFile(file(dir), text[:len(text)/2], 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := LoadOrMake(t.Context(), dir); err == nil || !strings.Contains(err.Error(), "restore it") {
		t.Errorf("got %v", err)
	}
	if err := os.WriteFile(file(dir), text, 0o600); err != nil {
		t.Fatal(err)
	}
	if again, err := Load(dir); err != nil || again.Fingerprint != c.Fingerprint {
		t.Errorf("%v", err)
	}
}

func TestFingerprintsAreReadAsToolsWriteThem(t *testing.T) {
	f := FingerprintOf([]byte("x"))
	digits := f.Hex()
	var colons []string
	for i := 0; i < len(digits); i += 2 {
		colons = append(colons, strings.ToUpper(digits[i:i+2]))
	}
	for _, s := range []string{f.String(), digits, strings.ToUpper(digits), "SHA256:" + digits, strings.Join(colons, ":")} {
		if got, err := ParseFingerprint(s); got != f || err != nil {
			t.Errorf("%q: %q, %v", s, got, err)
		}
	}
	for _, s := range []string{"", "sha256:", digits[1:], digits + "00", "sha1:" + digits, strings.Repeat("g", 64)} {
		if got, err := ParseFingerprint(s); err == nil {
			t.Errorf("%q: %q", s, got)
		}
	}
}

// shake does a handshake over the loopback, whose buffers take what nobody reads.
func shake(t *testing.T, server, client *tls.Config) (serverErr, clientErr error) {
	t.Helper()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer ln.Close()
	done := make(chan error, 1)
	go func() {
		a, err := ln.Accept()
		if err != nil {
			done <- err
			return
		}
		defer a.Close()
		_ = a.SetDeadline(time.Now().Add(20 * time.Second))
		// Reading is a handshake first; the client's verdict comes after our part.
		_, err = tls.Server(a, server).Read(make([]byte, 1))
		done <- err
	}()
	b, err := net.Dial("tcp", ln.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	_ = b.SetDeadline(time.Now().Add(20 * time.Second))
	c := tls.Client(b, client)
	if clientErr = c.Handshake(); clientErr == nil {
		_, clientErr = c.Write([]byte("x"))
	}
	c.Close()
	return <-done, clientErr
}

func TestTheClientDecidesByTheFingerprint(t *testing.T) {
	cert, err := LoadOrMake(t.Context(), t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	var met Fingerprint
	if serr, cerr := shake(t, cert.Server(), Client(func(f Fingerprint) error { met = f; return nil })); serr != nil || cerr != nil {
		t.Fatalf("%v, %v", serr, cerr)
	}
	if met != cert.Fingerprint {
		t.Errorf("met %s, want %s", met, cert.Fingerprint)
	}
	no := errors.New("no")
	serr, cerr := shake(t, cert.Server(), Client(func(Fingerprint) error { return no }))
	if !errors.Is(cerr, no) || serr == nil || serr == io.EOF {
		t.Errorf("%v, %v", serr, cerr)
	}
}

func TestOnlyTLS13AndOnlyOurProtocol(t *testing.T) {
	cert, err := LoadOrMake(t.Context(), t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	trust := func(Fingerprint) error { return nil }
	for name, change := range map[string]func(server, client *tls.Config){
		"an older client": func(_, c *tls.Config) { c.MinVersion, c.MaxVersion = tls.VersionTLS12, tls.VersionTLS12 },
		"an older server": func(s, _ *tls.Config) { s.MinVersion, s.MaxVersion = tls.VersionTLS12, tls.VersionTLS12 },
		"another client":  func(_, c *tls.Config) { c.NextProtos = []string{"h2"} },
		"another server":  func(s, _ *tls.Config) { s.NextProtos = nil },
	} {
		server, client := cert.Server(), Client(trust)
		change(server, client)
		if serr, cerr := shake(t, server, client); serr == nil || cerr == nil && name != "another client" {
			t.Errorf("%s is spoken with: %v, %v", name, serr, cerr)
		}
	}
}
