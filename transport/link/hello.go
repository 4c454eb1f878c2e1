package link

import (
	"bytes"
	"crypto/rand"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"unicode/utf8"
)

// Number is the link this package speaks.
const Number = 1

const (
	// MaxHello is the longest first line that is taken for a hello, in bytes
	// with its newline. A hello made by [Hello.Line] from an environment that
	// passed [Environ] is always shorter.
	MaxHello = 4 << 20

	// MaxEnv is how much environment a hello carries: names and values
	// together, in bytes.
	MaxEnv = 256 << 10

	// MaxWelcome is the longest first line a daemon may answer with.
	MaxWelcome = 64 << 10
)

// Hello is the first line of a shim.
type Hello struct {
	Link    int               `json:"link"`              // highest link the shim speaks; at least 1
	ID      string            `json:"id"`                // names the connection: 128 random bits in hex, see [NewID]
	Version string            `json:"version,omitempty"` // of the shim, for people
	PID     int               `json:"pid,omitempty"`     // of the shim, for people
	Cwd     string            `json:"cwd,omitempty"`     // where the editor started the shim
	Agent   string            `json:"agent,omitempty"`   // --agent; "" is the configured default
	Env     map[string]string `json:"env,omitempty"`     // the editor's environment, see [Environ]
	Token   string            `json:"token,omitempty"`   // proof of who it is where the transport gives none; or a pairing code's invitation
	Resume  json.RawMessage   `json:"resume,omitempty"`  // what an earlier socket of the same connection got to

	// SharesFiles says over the network that a path means the same file on both
	// machines, so that the editor may be asked for files.
	SharesFiles bool `json:"sharesFiles,omitempty"`
}

// Welcome is the daemon's first line back to a shim. The shim does not pass it
// on to the editor.
type Welcome struct {
	Link    int    `json:"link"`              // the lower of both sides' links
	Version string `json:"version,omitempty"` // of the daemon
	PID     int    `json:"pid,omitempty"`     // of the daemon
	Epoch   string `json:"epoch,omitempty"`   // life of the daemon's log that positions belong to
	Error   string `json:"error,omitempty"`   // not empty: refused; one line for the user

	// In exchange for the invitation of a pairing code, after which the connection
	// ends: a token to be shown in later hellos, and its name.
	Token     string `json:"newToken,omitempty"`
	TokenName string `json:"tokenName,omitempty"`
}

// NewID returns 128 random bits in hex.
func NewID() string {
	var b [16]byte
	rand.Read(b[:]) // never fails: it ends the process instead
	return hex.EncodeToString(b[:])
}

// Agree returns the link both sides speak, given the other side's number.
func Agree(theirs int) int { return min(theirs, Number) }

// Line returns h as one line with its newline.
func (h Hello) Line() []byte { return line(h) }

// Line returns w as one line with its newline.
func (w Welcome) Line() []byte { return line(w) }

func line(v any) []byte {
	b, err := json.Marshal(struct {
		Hermes any `json:"hermes"`
	}{v})
	if err != nil {
		// Only a Resume that is not JSON gets here, and that is our own.
		panic(fmt.Sprintf("encoding a line of the link: %v", err))
	}
	return append(b, '\n')
}

// ParseHello reads one line. ok tells whether the line is meant as a hello at
// all (its first member is "hermes"); if not, the peer is a plain ACP client
// and err is nil. A line that is meant as a hello and cannot be understood is
// ok with an error that can be shown to the peer.
func ParseHello(line []byte) (h Hello, ok bool, err error) {
	if match(line) != matches {
		return Hello{}, false, nil
	}
	if err := parse(line, &h); err != nil {
		return Hello{}, true, fmt.Errorf("reading the hello: %w", err)
	}
	if h.Link < 1 {
		return Hello{}, true, fmt.Errorf("reading the hello: link %d is not a link number", h.Link)
	}
	return h, true, nil
}

// ParseWelcome is the counterpart of [ParseHello] for the daemon's first line.
func ParseWelcome(line []byte) (w Welcome, ok bool, err error) {
	if match(line) != matches {
		return Welcome{}, false, nil
	}
	if err := parse(line, &w); err != nil {
		return Welcome{}, true, fmt.Errorf("reading the welcome: %w", err)
	}
	return w, true, nil
}

func parse(line []byte, v any) error {
	var outer struct {
		Hermes json.RawMessage `json:"hermes"`
	}
	if err := json.Unmarshal(line, &outer); err != nil {
		return err
	}
	if b := bytes.TrimSpace(outer.Hermes); len(b) == 0 || b[0] != '{' {
		return errors.New(`"hermes" is not an object`)
	}
	return json.Unmarshal(outer.Hermes, v)
}

// ReadHello reads the beginning of a connection. It stops reading as soon as
// the bytes cannot be a hello any more, so a plain ACP client is recognised by
// its first few bytes and none of its lines is held up.
//
// rest is the stream that follows: after the hello if ok, from the very first
// byte if not. err is an error of reading (io.ErrUnexpectedEOF for a hello that
// breaks off) or, with ok, a hello that is not understood. Limits of time are
// the caller's: a read deadline on r.
func ReadHello(r io.Reader) (h Hello, ok bool, rest io.Reader, err error) {
	buf := make([]byte, 0, 4<<10)
	seen := 0 // bytes known to hold no newline
	for {
		switch match(buf) {
		case differs:
			return Hello{}, false, &prefixed{buf, r}, nil
		case matches:
			if i := bytes.IndexByte(buf[seen:], '\n'); i >= 0 {
				end := seen + i + 1
				h, ok, err = ParseHello(buf[:end])
				return h, ok, &prefixed{bytes.Clone(buf[end:]), r}, err
			}
			seen = len(buf)
		}
		if len(buf) >= MaxHello {
			return Hello{}, true, r, fmt.Errorf("reading the hello: longer than %d bytes", MaxHello)
		}
		buf = slices.Grow(buf, 1)
		n, rerr := r.Read(buf[len(buf):cap(buf)])
		buf = buf[:len(buf)+n]
		if rerr == nil || n > 0 && rerr == io.EOF {
			continue // an end that came with bytes comes again without
		}
		if rerr != io.EOF {
			return Hello{}, false, &prefixed{buf, r}, fmt.Errorf("reading the first line: %w", rerr)
		}
		if match(buf) == matches {
			return Hello{}, true, r, fmt.Errorf("reading the hello: %w", io.ErrUnexpectedEOF)
		}
		return Hello{}, false, &prefixed{buf, r}, nil
	}
}

// prefixed is bytes already read, then the stream they came from. It lets go of
// the bytes once they are read.
type prefixed struct {
	head []byte
	r    io.Reader
}

func (p *prefixed) Read(b []byte) (int, error) {
	if len(p.head) == 0 {
		p.head = nil
		return p.r.Read(b)
	}
	n := copy(b, p.head)
	p.head = p.head[n:]
	return n, nil
}

type verdict int

const (
	unsure  verdict = iota // everything so far fits, more bytes are needed
	matches                // it is a line of the link
	differs                // it is something else
)

// match tells whether b begins like a line of the link: an object whose first
// member is "hermes". Nothing of ACP begins so, and looking at no more than
// that keeps a long first line of a plain client from being parsed here.
func match(b []byte) verdict {
	for _, token := range [...]string{"{", `"hermes"`, ":"} {
		for len(b) > 0 && (b[0] == ' ' || b[0] == '\t') {
			b = b[1:]
		}
		n := min(len(b), len(token))
		if string(b[:n]) != token[:n] {
			return differs
		}
		if n < len(token) {
			return unsure
		}
		b = b[n:]
	}
	return matches
}

// Environ turns an environment (as of [os.Environ]) into what a hello carries.
//
// Left out are the variables of the start-up handshake and those with which a
// service manager speaks to one process only, names and values that are not
// valid UTF-8 (JSON cannot carry them), and, when everything together exceeds
// max bytes, the largest ones: what every program needs to run (PATH, HOME,
// LANG, SHELL, …) is kept before everything else, then small before large.
func Environ(environ []string, max int) map[string]string {
	type variable struct{ name, value string }
	all := make([]variable, 0, len(environ))
	at := make(map[string]int, len(environ))
	size := 0
	for _, kv := range environ {
		name, value, ok := strings.Cut(kv, "=")
		// Windows keeps the folder of each drive in variables named "=C:".
		if !ok || name == "" || private(name) || !utf8.ValidString(kv) {
			continue
		}
		if i, twice := at[name]; twice { // the last one holds, as in os/exec
			size += len(value) - len(all[i].value)
			all[i].value = value
			continue
		}
		at[name] = len(all)
		all = append(all, variable{name, value})
		size += len(name) + len(value)
	}
	if size > max {
		slices.SortStableFunc(all, func(a, b variable) int {
			if ea, eb := essential(a.name), essential(b.name); ea != eb {
				if ea {
					return -1
				}
				return 1
			}
			return len(a.name) + len(a.value) - len(b.name) - len(b.value)
		})
	}
	env := make(map[string]string, len(all))
	for _, v := range all {
		if n := len(v.name) + len(v.value); n <= max {
			env[v.name] = v.value
			max -= n
		}
	}
	return env
}

// private tells whether a variable belongs to one process and not to those it
// starts.
func private(name string) bool {
	switch name {
	case ReadyFD,
		"NOTIFY_SOCKET", "WATCHDOG_PID", "WATCHDOG_USEC",
		"LISTEN_PID", "LISTEN_FDS", "LISTEN_FDNAMES", "LISTEN_PIDFDID":
		return true
	}
	return false
}

// essential tells whether programs commonly fail without the variable.
func essential(name string) bool {
	switch strings.ToUpper(name) { // Windows writes Path
	case "PATH", "HOME", "LANG", "SHELL", "USER", "LOGNAME", "TERM", "TZ", "TMPDIR", "TMP", "TEMP",
		"DISPLAY", "WAYLAND_DISPLAY", "SSH_AUTH_SOCK", "DBUS_SESSION_BUS_ADDRESS", "HERMESD_HOME",
		"SYSTEMROOT", "SYSTEMDRIVE", "WINDIR", "COMSPEC", "PATHEXT", "USERNAME", "USERPROFILE",
		"APPDATA", "LOCALAPPDATA", "PROGRAMDATA", "PROGRAMFILES", "PROGRAMFILES(X86)":
		return true
	}
	return strings.HasPrefix(name, "LC_") || strings.HasPrefix(name, "XDG_")
}

// withoutPrivate returns environ as a started daemon gets it.
func withoutPrivate(environ []string) []string {
	return slices.DeleteFunc(slices.Clone(environ), func(kv string) bool {
		name, _, _ := strings.Cut(kv, "=")
		return private(name)
	})
}
