package mcp

import (
	"errors"
	"math"
	"net/url"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/hermesd/hermesd/agentpool/process"
)

const (
	// minSecret is how long a secret is at least: shorter values are none, and
	// are found everywhere.
	minSecret = 6
	// minPiece is how much of a secret that was cut at an end of a text is
	// taken out there.
	minPiece = 8
	// maxToRedact is how many bytes of a text are looked at.
	maxToRedact = 64 << 10
)

// redact takes out of a text what may be secret of the server: values of its
// environment and headers, and of its URL everything behind the host. At the
// ends of the text, where somebody may have cut it, pieces of them are taken
// out too. It is for all that is shown or told of a failure, and must come
// before anything is cut: see fit.
func (s Server) redact(text string) string {
	if u, err := url.Parse(s.URL); s.URL != "" && err == nil {
		shown := u.Scheme + "://" + u.Host
		for _, full := range []string{s.URL, u.String(), u.Redacted()} {
			text = strings.ReplaceAll(text, full, shown)
		}
	}
	// Secrets may overlap, so all are looked for in the text as it is.
	hide := make([]bool, len(text))
	mark := func(from, to int) {
		for i := from; i < to; i++ {
			hide[i] = true
		}
	}
	for _, v := range s.secrets() {
		for from := 0; ; {
			i := strings.Index(text[from:], v)
			if i < 0 {
				break
			}
			mark(from+i, from+i+len(v))
			from += i + 1
		}
		if len(text) >= minPiece && strings.Contains(v, text) {
			return "…"
		}
		for n := min(len(v), len(text)); n >= minPiece; n-- {
			if text[:n] == v[len(v)-n:] {
				mark(0, n)
				break
			}
		}
		for n := min(len(v), len(text)); n >= minPiece; n-- {
			if text[len(text)-n:] == v[:n] {
				mark(len(text)-n, len(text))
				break
			}
		}
	}
	var b strings.Builder
	for i := range len(text) {
		switch {
		case !hide[i]:
			b.WriteByte(text[i])
		case i == 0 || !hide[i-1]:
			b.WriteString("…")
		}
	}
	return b.String()
}

// secrets are what redact takes out.
func (s Server) secrets() []string {
	var all []string
	add := func(v string) {
		if len(v) >= minSecret {
			all = append(all, v)
		}
		if q := strconv.Quote(v); len(q) > len(v)+2 && len(q) >= minSecret+2 { // as errors quote it
			all = append(all, q[1:len(q)-1])
		}
	}
	for _, p := range slices.Concat(s.Env, s.Headers) {
		add(p.Value)
		for _, word := range strings.Fields(p.Value) { // Bearer x
			add(word)
		}
	}
	if u, err := url.Parse(s.URL); s.URL != "" && err == nil {
		add(u.RawQuery)
		for pair := range strings.SplitSeq(u.RawQuery, "&") {
			_, v, _ := strings.Cut(pair, "=")
			add(v)
		}
		for _, values := range u.Query() {
			for _, v := range values {
				add(v)
			}
		}
		if u.User != nil {
			password, _ := u.User.Password()
			add(password)
		}
		for _, path := range []string{u.Path, u.EscapedPath()} {
			for part := range strings.SplitSeq(path, "/") {
				if len(part) >= 16 { // a key in the path
					add(part)
				}
			}
		}
	}
	slices.Sort(all)
	return slices.Compact(all)
}

// fit makes of a text of the server one line of at most n bytes that can be
// told: what is secret is taken out first, then it is cut.
func (s Server) fit(text string, n int) string {
	text = clean(s.redact(cut(text, maxToRedact, "")), math.MaxInt)
	return cut(s.redact(text), n, "…") // once more: it may have been written in pieces
}

// lastWords is the last line of a server's stderr that says something.
func (s Server) lastWords(stderr *process.Tail) string {
	// The first byte that is kept may be one in the middle of a secret.
	if lines := process.Lines(s.redact(stderr.Text()), 1, math.MaxInt); len(lines) > 0 {
		return s.fit(lines[0], 300)
	}
	return ""
}

var doings = regexp.MustCompile(`(calling|sending) "[a-z/]*": |rejected by transport: `)

// short makes one line of an error, without what the SDK says of its own
// doings.
func (s Server) short(err error) error {
	return errors.New(s.fit(doings.ReplaceAllString(cut(err.Error(), maxToRedact, ""), ""), 500))
}
