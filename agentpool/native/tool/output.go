package tool

import (
	"strings"
	"sync"
	"unicode/utf8"
)

// tail keeps the last bytes of an output of any length. It is safe for
// concurrent use.
type tail struct {
	mu    sync.Mutex
	limit int
	buf   []byte // at most 2*limit: cut when it gets there
	total int64  // bytes ever written
}

// newTail returns a tail that shows at most limit bytes.
func newTail(limit int) *tail { return &tail{limit: limit} }

// Write implements io.Writer and never fails.
func (t *tail) Write(p []byte) (int, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.total += int64(len(p))
	n := len(p)
	// What text shows is valid UTF-8 of at most limit bytes, so limit raw bytes
	// and the beginning of a character before them are enough.
	keep := t.limit + utf8.UTFMax
	if len(p) > keep {
		p = p[len(p)-keep:]
	}
	if len(t.buf)+len(p) > 2*keep {
		drop := len(t.buf) + len(p) - keep
		t.buf = append(t.buf[:0], t.buf[min(drop, len(t.buf)):]...)
	}
	t.buf = append(t.buf, p...)
	return n, nil
}

// written is the number of bytes ever written.
func (t *tail) written() int64 {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.total
}

// text returns the end of the output as valid UTF-8 of at most limit bytes,
// cut at a character; bytes that are none become U+FFFD. While the output is
// not over, a character of which only the beginning has come is left out. cut
// tells whether there is more before it.
func (t *tail) text(over bool) (s string, cut bool) {
	t.mu.Lock()
	raw := string(t.buf)
	lost := t.total > int64(len(t.buf))
	t.mu.Unlock()
	if !over {
		raw = raw[:len(raw)-partial(raw)]
	}
	if lost {
		// The first bytes may be the end of a character that was cut; limit
		// bytes remain without them.
		for i := 0; i < utf8.UTFMax-1 && raw != "" && !utf8.RuneStart(raw[0]); i++ {
			raw = raw[1:]
		}
	}
	s = toValid(raw)
	if len(s) <= t.limit {
		return s, lost
	}
	from := len(s) - t.limit
	for from < len(s) && !utf8.RuneStart(s[from]) {
		from++
	}
	return s[from:], true
}

// since returns what has come after the first from bytes, as much of its end as
// is kept, in the same form as text; lost is how many bytes before that are
// not in it, upTo where the next call goes on.
func (t *tail) since(from int64, over bool) (s string, lost, upTo int64) {
	t.mu.Lock()
	first := t.total - int64(len(t.buf))
	start := max(from, first)
	raw := string(t.buf[start-first:])
	t.mu.Unlock()
	lost = start - from
	if !over {
		raw = raw[:len(raw)-partial(raw)]
	}
	upTo = start + int64(len(raw))
	if cut := len(raw) - t.limit; cut > 0 {
		for cut < len(raw) && !utf8.RuneStart(raw[cut]) {
			cut++
		}
		raw, lost = raw[cut:], lost+int64(cut)
	}
	return toValid(raw), lost, upTo
}

// toValid puts U+FFFD in place of each byte that is no character.
// (strings.ToValidUTF8 would put one in place of a run of them.)
func toValid(s string) string {
	if utf8.ValidString(s) {
		return s
	}
	var b strings.Builder
	for _, r := range s {
		b.WriteRune(r)
	}
	return b.String()
}

// partial is the length of the incomplete character at the end of s.
func partial(s string) int {
	for n := 1; n < utf8.UTFMax && n <= len(s); n++ {
		c := s[len(s)-n]
		if !utf8.RuneStart(c) {
			continue
		}
		if c >= utf8.RuneSelf && !utf8.FullRuneInString(s[len(s)-n:]) {
			return n
		}
		break
	}
	return 0
}
