package remote

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/hermesd/hermesd/transport"
	"github.com/hermesd/hermesd/transport/identity"
	"github.com/hermesd/hermesd/transport/private"
)

// Book is what this user knows of daemons on other machines.
type Book struct {
	dir string
	// Note is told what the user should know although nothing went wrong; may be
	// nil.
	Note func(text string)
}

// NewBook gives the book in a folder, commonly that of the configuration. It
// touches nothing.
func NewBook(dir string) *Book { return &Book{dir: dir} }

func (b *Book) note(format string, args ...any) {
	if b.Note != nil {
		b.Note(fmt.Sprintf(format, args...))
	}
}

func (b *Book) known() list  { return list{filepath.Join(b.dir, "known_daemons")} }
func (b *Book) tokens() list { return list{filepath.Join(b.dir, "remote_tokens")} }

// key is what a daemon is called in the book.
func key(a transport.Address) string { return strings.ToLower(a.String()) }

// Known gives the fingerprint that a daemon had the first time; "" if it was
// never met.
func (b *Book) Known(a transport.Address) (identity.Fingerprint, error) {
	value, err := b.known().get(key(a))
	if value == "" || err != nil {
		return "", err
	}
	f, err := identity.ParseFingerprint(value)
	if err != nil {
		return "", fmt.Errorf("%s, %s: %w", b.known().path, key(a), err)
	}
	return f, nil
}

func (b *Book) setKnown(a transport.Address, f identity.Fingerprint) error {
	return b.known().set(key(a), f.String())
}

// Token gives the token for a daemon, "" if there is none.
func (b *Book) Token(a transport.Address) (string, error) { return b.tokens().get(key(a)) }

// SetToken keeps the token for a daemon.
func (b *Book) SetToken(a transport.Address, token string) error {
	if token == "" || strings.ContainsAny(token, " \t\r\n") {
		return errors.New("a token is one word")
	}
	return b.tokens().set(key(a), token)
}

// Forget removes what is known of a daemon: fingerprint and token.
func (b *Book) Forget(a transport.Address) error {
	return errors.Join(b.known().set(key(a), ""), b.tokens().set(key(a), ""))
}

// list is a file of lines "KEY VALUE".
type list struct{ path string }

const maxList = 1 << 20

func (l list) file() *private.File[[]byte] {
	return &private.File[[]byte]{
		Path: l.path, Max: maxList,
		Parse: func(text []byte) ([]byte, error) {
			if len(text) > maxList {
				return nil, fmt.Errorf("%s is longer than %d bytes", l.path, maxList)
			}
			return text, nil
		},
		Exposed: func(mode fs.FileMode) error {
			return fmt.Errorf("other users can get at %s (mode %#o); look whether it is as you left it, then: chmod 600 %[1]s", l.path, mode)
		},
	}
}

// get gives the value of a key, "" if it has none. The first line holds, as in
// ssh's files.
func (l list) get(key string) (string, error) {
	text, err := l.file().Current()
	if err != nil {
		return "", err
	}
	return value(text, key), nil
}

// set replaces the lines of a key by one; by none if value is "". Other lines stay
// as they are.
func (l list) set(key, value string) error {
	if value == "" {
		if _, err := os.Stat(l.path); errors.Is(err, fs.ErrNotExist) {
			return nil
		}
	}
	if err := os.MkdirAll(filepath.Dir(l.path), 0o700); err != nil {
		return err
	}
	return l.file().Change(func(text []byte) ([]byte, error) { return changed(text, key, value), nil })
}

// entry reads a line; ok is false for comments and what is not understood.
func entry(line []byte) (key, value string, ok bool) {
	f := bytes.Fields(line)
	if len(f) < 2 || f[0][0] == '#' {
		return "", "", false
	}
	return strings.ToLower(string(f[0])), string(f[1]), true
}

func value(text []byte, key string) string {
	for line := range bytes.Lines(text) {
		if k, v, ok := entry(line); ok && k == key {
			return v
		}
	}
	return ""
}

func changed(text []byte, key, value string) []byte {
	var out bytes.Buffer
	for line := range bytes.Lines(text) {
		if k, _, ok := entry(line); ok && k == key {
			continue
		}
		out.Write(line)
		if line[len(line)-1] != '\n' {
			out.WriteByte('\n')
		}
	}
	if value != "" {
		fmt.Fprintf(&out, "%s %s\n", key, value)
	}
	return out.Bytes()
}
