// Package identity answers: how does a client know that it speaks with the same
// daemon as last time?
//
// A daemon that listens on the network has a key and a certificate that it made
// itself, once. Nobody vouches for it: clients remember its [Fingerprint], as ssh
// does with host keys, and refuse any other. Names, dates and issuers in the
// certificate mean nothing and are not looked at.
package identity

import (
	"bytes"
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/sha256"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/hex"
	"encoding/pem"
	"errors"
	"fmt"
	"io/fs"
	"math/big"
	"path/filepath"
	"strings"
	"time"

	"github.com/hermesd/hermesd/transport/link"
	"github.com/hermesd/hermesd/transport/private"
)

// Protocol is what both sides name in the TLS handshake (ALPN), so that neither
// is ever led to speak with a server or client of something else.
const Protocol = "hermes-acp"

// Fingerprint names a certificate: "sha256:" and 64 hexadecimal digits.
type Fingerprint string

const fingerprintPrefix = "sha256:"

// FingerprintOf gives that of a certificate in DER.
func FingerprintOf(der []byte) Fingerprint {
	sum := sha256.Sum256(der)
	return Fingerprint(fingerprintPrefix + hex.EncodeToString(sum[:]))
}

// ParseFingerprint reads one as [Fingerprint.String] and openssl (colons,
// upper case) write it.
func ParseFingerprint(s string) (Fingerprint, error) {
	digits := strings.ToLower(s)
	digits = strings.TrimPrefix(digits, fingerprintPrefix)
	digits = strings.ReplaceAll(digits, ":", "")
	if b, err := hex.DecodeString(digits); err != nil || len(b) != sha256.Size {
		return "", fmt.Errorf("%.100q is no fingerprint: it is sha256: and 64 hexadecimal digits, as `hermesd pair --show` prints it", s)
	}
	return Fingerprint(fingerprintPrefix + digits), nil
}

func (f Fingerprint) String() string { return string(f) }

// Hex is the fingerprint without its prefix.
func (f Fingerprint) Hex() string { return strings.TrimPrefix(string(f), fingerprintPrefix) }

// Certificate is a daemon's.
type Certificate struct {
	tls         tls.Certificate
	Fingerprint Fingerprint
}

// Server gives the TLS configuration of the daemon's side: version 1.3 and
// nothing else, no tickets (a pinned certificate makes a handshake cheap enough,
// and what is not resumed cannot be replayed).
func (c *Certificate) Server() *tls.Config {
	return &tls.Config{
		Certificates:           []tls.Certificate{c.tls},
		MinVersion:             tls.VersionTLS13,
		NextProtos:             []string{Protocol},
		SessionTicketsDisabled: true,
	}
}

const maxFile = 1 << 20 // bytes

// ErrNone: the daemon has no certificate yet.
var ErrNone = errors.New("this hermesd has no certificate yet; make one with: hermesd pair")

// Load reads the certificate of a folder, [ErrNone] if there is none.
func Load(dir string) (*Certificate, error) {
	path := file(dir)
	f := private.File[*Certificate]{
		Path: path, Max: maxFile, Reading: "reading the certificate: ",
		Parse: func(text []byte) (*Certificate, error) {
			c, err := parse(text)
			if len(text) > maxFile {
				err = fmt.Errorf("longer than %d bytes", maxFile)
			}
			if err != nil {
				return nil, fmt.Errorf("reading the certificate in %s: %w; restore it, or remove it and pair all clients again", path, err)
			}
			return c, nil
		},
		Exposed: func(mode fs.FileMode) error {
			return fmt.Errorf("other users can get at the key in %s (mode %#o): remove it, make a new one with `hermesd pair` and pair again; if nobody else was there: chmod 600 %[1]s", path, mode)
		},
	}
	c, err := f.Load()
	if errors.Is(err, fs.ErrNotExist) {
		return nil, ErrNone
	}
	return c, err
}

// LoadOrMake reads the certificate of a folder and makes one if there is none.
// Two processes that do this at the same time get the same one.
func LoadOrMake(ctx context.Context, dir string) (*Certificate, error) {
	if c, err := Load(dir); !errors.Is(err, ErrNone) {
		return c, err
	}
	if err := link.PrivateDir(dir); err != nil {
		return nil, err
	}
	lock, err := link.WaitLock(ctx, file(dir)+".lock")
	if err != nil {
		return nil, fmt.Errorf("making a certificate: %w", err)
	}
	defer lock.Close()
	if c, err := Load(dir); !errors.Is(err, ErrNone) {
		return c, err // somebody was quicker
	}
	text, err := generate()
	if err != nil {
		return nil, fmt.Errorf("making a certificate: %w", err)
	}
	if err := private.Replace(file(dir), text); err != nil {
		return nil, fmt.Errorf("making a certificate: %w", err)
	}
	return Load(dir)
}

func file(dir string) string { return filepath.Join(dir, "certificate.pem") }

// generate makes a key and a certificate for it, as the text of a file.
func generate() ([]byte, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, err
	}
	serial, err := rand.Int(rand.Reader, new(big.Int).Lsh(big.NewInt(1), 127))
	if err != nil {
		return nil, err
	}
	template := &x509.Certificate{
		SerialNumber: serial,
		Subject:      pkix.Name{CommonName: "hermesd"},
		NotBefore:    time.Date(2020, 1, 1, 0, 0, 0, 0, time.UTC),
		// "To indicate that a certificate has no well-defined expiration date"
		// (RFC 5280, 4.1.2.5).
		NotAfter:    time.Date(9999, 12, 31, 23, 59, 59, 0, time.UTC),
		KeyUsage:    x509.KeyUsageDigitalSignature,
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth},
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, &key.PublicKey, key)
	if err != nil {
		return nil, err
	}
	private, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		return nil, err
	}
	var text bytes.Buffer
	text.WriteString("# The key and the certificate of this hermesd. Clients know it by the\n" +
		"# fingerprint of the certificate: a new one has to be paired with them again.\n")
	_ = pem.Encode(&text, &pem.Block{Type: "CERTIFICATE", Bytes: der}) // a buffer takes everything
	_ = pem.Encode(&text, &pem.Block{Type: "PRIVATE KEY", Bytes: private})
	return text.Bytes(), nil
}

func parse(text []byte) (*Certificate, error) {
	pair, err := tls.X509KeyPair(text, text)
	if err != nil {
		return nil, err
	}
	return &Certificate{tls: pair, Fingerprint: FingerprintOf(pair.Certificate[0])}, nil
}

// ChangedError says that the daemon showed another certificate than the one that
// was expected. Nothing was sent to it.
type ChangedError struct{ Want, Got Fingerprint }

func (e *ChangedError) Error() string {
	return fmt.Sprintf("the certificate is %s, not %s", e.Got, e.Want)
}

// Client gives the TLS configuration of the other side. check is asked about the
// certificate's fingerprint before anything is sent; its error ends the
// handshake and is that of the handshake.
func Client(check func(Fingerprint) error) *tls.Config {
	return &tls.Config{
		MinVersion: tls.VersionTLS13,
		NextProtos: []string{Protocol},
		// The chain is not verified, because there is none; that the daemon has the
		// certificate's key is, always.
		InsecureSkipVerify: true,
		VerifyConnection: func(s tls.ConnectionState) error {
			if s.NegotiatedProtocol != Protocol {
				return errors.New("what listens there speaks TLS and is not hermesd")
			}
			return check(FingerprintOf(s.PeerCertificates[0].Raw))
		},
	}
}
