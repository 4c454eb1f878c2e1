package process

import (
	"strings"
	"sync"
	"unicode"
)

// Tail keeps the end of what is written to it. It is safe for concurrent use.
type Tail struct {
	max int
	mu  sync.Mutex
	buf []byte
}

// NewTail returns a Tail that keeps max bytes.
func NewTail(max int) *Tail { return &Tail{max: max} }

// Write implements io.Writer. It never fails.
func (t *Tail) Write(p []byte) (int, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	n := len(p)
	if len(p) > t.max {
		p = p[len(p)-t.max:]
	}
	if over := len(t.buf) + len(p) - t.max; over > 0 {
		t.buf = append(t.buf[:0], t.buf[over:]...)
	}
	t.buf = append(t.buf, p...)
	return n, nil
}

// Text is all that is kept, as it was written.
func (t *Tail) Text() string {
	t.mu.Lock()
	defer t.mu.Unlock()
	return string(t.buf)
}

// Lines returns the last n lines that say something, each of at most width
// bytes and without control characters.
func (t *Tail) Lines(n, width int) []string { return Lines(t.Text(), n, width) }

// Lines returns the last n lines of a text that say something, as [Tail.Lines]
// does. Who has to take something out of the text does that before.
func Lines(text string, n, width int) []string {
	var last []string
	lines := strings.Split(text, "\n")
	for i := len(lines) - 1; i >= 0 && len(last) < n; i-- {
		if s := clean(lines[i], width); s != "" {
			last = append(last, s)
		}
	}
	for i, j := 0, len(last)-1; i < j; i, j = i+1, j-1 {
		last[i], last[j] = last[j], last[i]
	}
	return last
}

// clean makes a line fit for people: colours and other controls are left out.
func clean(s string, width int) string {
	var b strings.Builder
	escape := false
	for _, r := range strings.ToValidUTF8(s, "") {
		switch {
		case r == '\x1b':
			escape = true
		case escape:
			escape = !(unicode.IsLetter(r) || r == '~')
		case unicode.IsControl(r):
			b.WriteByte(' ')
		default:
			b.WriteRune(r)
		}
	}
	s = strings.TrimSpace(b.String())
	if len(s) > width {
		s = strings.ToValidUTF8(s[:width], "") + "…"
	}
	return s
}
