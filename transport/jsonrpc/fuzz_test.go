package jsonrpc

import (
	"bytes"
	"encoding/json"
	"io"
	"testing"
	"testing/iotest"
	"unicode/utf8"
)

var seeds = []string{
	`{"jsonrpc":"2.0","id":1,"method":"a","params":{"x":[1,"}\"",{}]}}`,
	`{"id":null,"method":"m"}`, `{"result":1,"id":"\u0031"}`, `[]`, `{}`, `[{}]`, ` `,
	`{"m\u0065thod":"x"}`, ` { "id" : 1 , "method" : "x" } `, `{"a":"\\\\","id":2}`,
	`{"id":1,"id":2,"method":"a","method":null,"result":[]}`, `{"id":true,"method":"m"}`,
	`{"id":-1.5e+10,"error":{"code":-32600,"message":"m"}}`, `{"error":null,"id":"x"}`,
	`{"method":"m","params":"` + "\xff" + `"}`, `{"method":"日本\ud83d"}`, `{"method":"m",}`,
	`{"method":"m"}}`, `{"a":01}`, `{"a":-}`, `{"a":1.}`, `{"a":1e}`, `{"a":tru}`, `{"a":[1,]}`, `{"a":"\u00g0"}`,
	`[[[{"a":[{}]}]],"` + "\t" + `"]`, "\xef\xbb\xbf{}", `"s"`, `42`, `{"method":""}`, `{"a":"01234567\"","method":"m"}`,
}

// The scanner takes exactly what encoding/json takes, if it is UTF-8.
func FuzzValid(f *testing.F) {
	for _, s := range seeds {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		var s scanner
		want := json.Valid(b) && utf8.Valid(b)
		for range 2 { // a scanner forgets what it has seen
			if got := s.valid(b); got != want {
				t.Fatalf("%q: got %v, want %v (%s at %d)", b, got, want, s.why, s.at)
			}
		}
	})
}

// A line is classified by what encoding/json finds in it, and what is handed
// on is the very text of the line.
func FuzzClassify(f *testing.F) {
	for _, s := range seeds {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, line []byte) {
		before := bytes.Clone(line)
		var s scanner
		m := s.classify(line)
		if !bytes.Equal(line, before) {
			t.Fatalf("%q was written to", before)
		}
		var members map[string]json.RawMessage
		trimmed := bytes.Trim(line, " \t\r\n")
		object := len(trimmed) > 0 && trimmed[0] == '{'
		switch {
		case len(trimmed) == 0:
			if m.kind != blank {
				t.Fatalf("%q: %+v", line, m)
			}
			return
		case !json.Valid(line) || !utf8.Valid(line):
			if m.kind != garbage || m.bad.Code != codeParse {
				t.Fatalf("%q: %+v", line, m)
			}
			return
		case !object:
			if m.kind != garbage || m.bad.Code != codeInvalid {
				t.Fatalf("%q: %+v", line, m)
			}
			return
		}
		if err := json.Unmarshal(line, &members); err != nil {
			t.Fatal(err)
		}
		var method *string
		badMethod := json.Unmarshal(members["method"], &method) != nil && members["method"] != nil
		hasMethod := method != nil
		id := members["id"]
		badID := id != nil && (id[0] == '{' || id[0] == '[' || id[0] == 't' || id[0] == 'f')
		answers := members["result"] != nil || members["error"] != nil
		want := garbage
		switch {
		case badMethod || badID:
		case hasMethod && id != nil:
			want = request
		case hasMethod:
			want = notification
		case answers && id != nil:
			want = response
		}
		if m.kind != want {
			t.Fatalf("%q: got %+v, want kind %d", line, m, want)
		}
		if m.kind == garbage {
			if m.bad.Code != codeInvalid || m.mute != (method == nil && !badMethod && answers) {
				t.Fatalf("%q: %+v", line, m)
			}
			return
		}
		fault := members["error"]
		if isNull(fault) && members["result"] != nil && m.kind == response {
			fault = nil
		}
		if !bytes.Equal(m.id, id) || !bytes.Equal(m.params, members["params"]) || !bytes.Equal(m.result, members["result"]) || !bytes.Equal(m.fault, fault) {
			t.Fatalf("%q: %+v", line, m)
		}
		if hasMethod && string(m.method) != *method {
			t.Fatalf("%q: method %q, want %q", line, m.method, *method)
		}
	})
}

// Lines are what lies between line breaks, wherever reads are cut.
func FuzzLines(f *testing.F) {
	f.Add([]byte("a\nb\r\n\n\xef\xbb\xbfc"), uint32(3), false)
	f.Add([]byte("\xef\xbb\xbfa\n"), uint32(100), true)
	f.Add([]byte("xxx\nx\nxxxxxxxxxxxxx\nx"), uint32(100_000), true)
	f.Add([]byte("xxxxxxxxx\nb\nxxxxxxxx"), uint32(72_000), false)
	f.Add([]byte("12345\n1234\n123456"), uint32(5), false)
	f.Fuzz(func(t *testing.T, text []byte, max uint32, cut bool) {
		// Stretched, so that lines outgrow the buffers.
		text = bytes.ReplaceAll(text, []byte("x"), bytes.Repeat([]byte("x"), 9000))
		max %= 300_000
		var r io.Reader = bytes.NewReader(text)
		if cut {
			r = iotest.HalfReader(r)
		}
		l := newLineReader(r, int(max))
		lines := bytes.Split(text, []byte("\n"))
		if len(lines[len(lines)-1]) == 0 {
			lines = lines[:len(lines)-1]
		}
		for i, want := range lines {
			got, _, err := l.next()
			if l.n != uint64(i+1) {
				t.Fatalf("line %d is counted as %d", i+1, l.n)
			}
			if len(want) > int(max) {
				if err != ErrLineTooLong {
					t.Fatalf("line %d: %q, %v", i, got, err)
				}
				continue
			}
			if i == 0 {
				want = bytes.TrimPrefix(want, []byte("\xef\xbb\xbf"))
			}
			if err != nil || !bytes.Equal(got, want) {
				t.Fatalf("line %d: %q, %v; want %q", i, got, err, want)
			}
		}
		if got, _, err := l.next(); err != io.EOF {
			t.Fatalf("at the end: %q, %v", got, err)
		}
	})
}

// What we encode we read as what it was.
func FuzzEncode(f *testing.F) {
	f.Add("id", "session/update", []byte(`{"a": 1}`), 3)
	f.Add("a\"\\\n\u2028<é", "m", []byte("[\r\n1]"), -32600)
	f.Fuzz(func(t *testing.T, id, method string, raw []byte, code int) {
		if !utf8.ValidString(id) || !utf8.ValidString(method) || method == "" {
			return
		}
		var s scanner
		if !s.valid(raw) {
			raw = []byte("null")
		}
		quoted, err := marshal(id)
		if err != nil {
			t.Fatal(err)
		}
		for _, line := range [][]byte{RequestLine(id, method, raw), Notification(method, raw), resultLine(quoted, raw), errorLine(quoted, &Error{code, method, raw})} {
			if bytes.IndexByte(line, '\n') != len(line)-1 || bytes.IndexByte(line, '\r') >= 0 {
				t.Fatalf("not one line: %q", line)
			}
			m := s.classify(line)
			if m.kind == garbage || m.id != nil && unquote(m.id) != id || m.method != nil && string(m.method) != method {
				t.Fatalf("%q: %+v", line, m)
			}
			if m.fault != nil {
				if e := parseError(m.fault); e.Code != code || e.Message != method {
					t.Fatalf("%q: %+v", line, e)
				}
			}
		}
	})
}
