package tool

import (
	"strings"
	"testing"
	"unicode/utf8"
)

func TestTailIsCutAtCharacters(t *testing.T) {
	const whole = "aé日😀z" // 1+2+3+4+1 bytes
	want := map[int]string{0: "", 1: "z", 2: "z", 3: "z", 4: "z", 5: "😀z", 6: "😀z", 7: "😀z", 8: "日😀z", 9: "日😀z", 10: "é日😀z", 11: whole, 12: whole}
	for limit := range 13 {
		for _, step := range []int{1, 2, 3, len(whole)} {
			out := newTail(limit)
			for rest := whole; rest != ""; {
				n := min(step, len(rest))
				out.Write([]byte(rest[:n]))
				rest = rest[n:]
				if s, _ := out.text(false); !utf8.ValidString(s) || len(s) > limit || strings.Contains(s, "\uFFFD") {
					t.Errorf("limit %d, in steps of %d: %q while it runs", limit, step, s)
				}
			}
			s, cut := out.text(true)
			if s != want[limit] || cut != (limit < 11) {
				t.Errorf("limit %d, in steps of %d: %q, %v", limit, step, s, cut)
			}
		}
	}
}

func TestTailShowsBytesThatAreNoTextAndStaysBounded(t *testing.T) {
	out := newTail(1000)
	out.Write([]byte("\xff\xfeok"))
	if s, cut := out.text(true); s != "\uFFFD\uFFFDok" || cut {
		t.Errorf("%q, %v", s, cut)
	}
	out.Write([]byte("\xe6\x97"))
	if s, _ := out.text(false); s != "\uFFFD\uFFFDok" {
		t.Errorf("%q: half a character is shown", s)
	}
	if s, _ := out.text(true); s != "\uFFFD\uFFFDok\uFFFD\uFFFD" {
		t.Errorf("%q", s)
	}
	chunk := []byte(strings.Repeat("\xff", 777))
	for range 1000 {
		out.Write(chunk)
	}
	s, cut := out.text(true)
	if len(s) > 1000 || len(s) < 990 || !cut || cap(out.buf) > 8000 || out.written() < 777_000 {
		t.Errorf("%d bytes shown, %v, %d kept", len(s), cut, cap(out.buf))
	}
}

func FuzzTail(f *testing.F) {
	f.Add([]byte("aé日😀z\xff"), 7, 3)
	f.Fuzz(func(t *testing.T, data []byte, limit, step int) {
		if limit < 0 || limit > 100 || step < 1 || step > 1000 {
			return
		}
		out := newTail(limit)
		for rest := data; len(rest) > 0; {
			n := min(step, len(rest))
			out.Write(rest[:n])
			rest = rest[n:]
			if s, _ := out.text(false); !utf8.ValidString(s) || len(s) > limit {
				t.Fatalf("%q", s)
			}
		}
		s, cut := out.text(true)
		if !utf8.ValidString(s) || len(s) > limit {
			t.Fatalf("%q", s)
		}
		whole := toValid(string(data))
		if cut != (len(whole) > limit) {
			t.Fatalf("cut %v of %d bytes, limit %d", cut, len(whole), limit)
		}
		if utf8.Valid(data) && !strings.HasSuffix(whole, s) {
			t.Fatalf("%q is not the end of %q", s, whole)
		}
	})
}
