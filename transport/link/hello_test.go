package link

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"reflect"
	"strings"
	"testing"
	"testing/iotest"
	"time"
)

func TestParseHello(t *testing.T) {
	for _, test := range []struct {
		name, line string
		want       Hello
		ok         bool
		err        string
	}{
		{"whole", `{"hermes":{"link":1,"id":"ab","version":"v1","pid":7,"cwd":"/w","agent":"a","env":{"A":"b"},"token":"t","resume":{"x":[1]}}}`,
			Hello{Link: 1, ID: "ab", Version: "v1", PID: 7, Cwd: "/w", Agent: "a", Env: map[string]string{"A": "b"}, Token: "t", Resume: json.RawMessage(`{"x":[1]}`)}, true, ""},
		{"missing members are zero", `{"hermes":{"link":1}}`, Hello{Link: 1}, true, ""},
		{"unknown members are ignored", `{"hermes":{"link":3,"new":{"a":[]}},"more":1}`, Hello{Link: 3}, true, ""},
		{"spaces between tokens", " {\t\"hermes\" : {\"link\":1}} \r\n", Hello{Link: 1}, true, ""},

		{"empty", ``, Hello{}, false, ""},
		{"initialize", `{"jsonrpc":"2.0","id":0,"method":"initialize","params":{}}`, Hello{}, false, ""},
		{"the word as a later member", `{"method":"x","hermes":{"link":1}}`, Hello{}, false, ""},
		{"the word in another case", `{"Hermes":{"link":1}}`, Hello{}, false, ""},
		{"a longer word", `{"hermesd":{"link":1}}`, Hello{}, false, ""},
		{"array", `[{"hermes":{"link":1}}]`, Hello{}, false, ""},
		{"breaks off before the colon", `{"hermes"`, Hello{}, false, ""},

		{"no object", `{"hermes":1}`, Hello{}, true, "not an object"},
		{"null", `{"hermes":null}`, Hello{}, true, "not an object"},
		{"no link", `{"hermes":{}}`, Hello{}, true, "link 0"},
		{"negative link", `{"hermes":{"link":-1}}`, Hello{}, true, "link -1"},
		{"wrong type", `{"hermes":{"link":"1"}}`, Hello{}, true, "reading the hello"},
		{"not JSON", `{"hermes":{"link":1}`, Hello{}, true, "reading the hello"},
		{"two values", `{"hermes":{"link":1}} {}`, Hello{}, true, "reading the hello"},
	} {
		t.Run(test.name, func(t *testing.T) {
			h, ok, err := ParseHello([]byte(test.line))
			if ok != test.ok || (err == nil) != (test.err == "") || err != nil && !strings.Contains(err.Error(), test.err) {
				t.Fatalf("got ok %v, error %v; want %v, %q", ok, err, test.ok, test.err)
			}
			if err == nil && !reflect.DeepEqual(h, test.want) {
				t.Errorf("got %+v, want %+v", h, test.want)
			}
		})
	}
}

// What is written here is spoken by every shim ever released.
func TestLinesAreFrozen(t *testing.T) {
	for want, got := range map[string][]byte{
		`{"hermes":{"link":1,"id":"ab"}}` + "\n": Hello{Link: 1, ID: "ab"}.Line(),
		`{"hermes":{"link":1,"id":"ab","version":"v","pid":2,"cwd":"/","agent":"a","env":{"A":"1","B":"2"},"token":"t","resume":[1]}}` + "\n": Hello{
			Link: 1, ID: "ab", Version: "v", PID: 2, Cwd: "/", Agent: "a", Env: map[string]string{"B": "2", "A": "1"}, Token: "t", Resume: json.RawMessage("[1]")}.Line(),
		`{"hermes":{"link":1,"version":"v","pid":2,"epoch":"e"}}` + "\n": Welcome{Link: 1, Version: "v", PID: 2, Epoch: "e"}.Line(),
		`{"hermes":{"link":1,"error":"no"}}` + "\n":                      Welcome{Link: 1, Error: "no"}.Line(),
	} {
		if string(got) != want {
			t.Errorf("got  %swant %s", got, want)
		}
	}
}

func TestParseWelcome(t *testing.T) {
	want := Welcome{Link: 1, Version: "v", PID: 3, Epoch: "e", Error: "a\nb"}
	if w, ok, err := ParseWelcome(want.Line()); w != want || !ok || err != nil {
		t.Errorf("got %+v, %v, %v", w, ok, err)
	}
	if _, ok, err := ParseWelcome([]byte(`{"jsonrpc":"2.0"}`)); ok || err != nil {
		t.Errorf("a line of ACP: got %v, %v", ok, err)
	}
	if _, ok, err := ParseWelcome([]byte(`{"hermes":[]}`)); !ok || err == nil {
		t.Errorf("a bad welcome: got %v, %v", ok, err)
	}
}

func TestReadHelloLeavesTheRest(t *testing.T) {
	hello := string(Hello{Link: 1, ID: "x", Cwd: strings.Repeat("d", 10_000)}.Line())
	acp := `{"jsonrpc":"2.0","id":1,"method":"initialize"}` + "\n"
	readers := map[string]func(io.Reader) io.Reader{
		"at once":      func(r io.Reader) io.Reader { return r },
		"byte by byte": iotest.OneByteReader,
		"EOF in hand":  iotest.DataErrReader,
	}
	for how, wrap := range readers {
		for _, test := range []struct {
			name, in string
			ok       bool
			rest     string
		}{
			{"hello alone", hello, true, ""},
			{"hello and more", hello + acp + acp, true, acp + acp},
			{"plain client", acp + acp, false, acp + acp},
			{"nothing", "", false, ""},
			{"half a word", `{"her`, false, `{"her`},
			{"a plain client's hello-like second line", acp + hello, false, acp + hello},
		} {
			t.Run(test.name+" "+how, func(t *testing.T) {
				h, ok, rest, err := ReadHello(wrap(strings.NewReader(test.in)))
				if ok != test.ok || err != nil {
					t.Fatalf("got %v, %v", ok, err)
				}
				if ok && h.ID != "x" {
					t.Errorf("got %+v", h)
				}
				if got, err := io.ReadAll(rest); string(got) != test.rest || err != nil {
					t.Errorf("rest is %q, %v; want %q", got, err, test.rest)
				}
			})
		}
	}
}

func TestReadHelloDoesNotWaitForAPlainClientsLine(t *testing.T) {
	r, w := io.Pipe()
	defer w.Close()
	go w.Write([]byte(`{"j`)) // and no more for now
	_, ok, rest, err := ReadHello(r)
	if ok || err != nil {
		t.Fatalf("got %v, %v", ok, err)
	}
	b := make([]byte, 10)
	if n, err := rest.Read(b); string(b[:n]) != `{"j` || err != nil {
		t.Errorf("rest begins %q, %v", b[:n], err)
	}
}

func TestReadHelloErrors(t *testing.T) {
	for _, test := range []struct {
		name string
		r    io.Reader
		ok   bool
		want error
	}{
		{"breaks off", strings.NewReader(`{"hermes":{"link":1`), true, io.ErrUnexpectedEOF},
		{"fails", iotest.ErrReader(iotest.ErrTimeout), false, iotest.ErrTimeout},
		{"fails in the middle", io.MultiReader(strings.NewReader(`{"hermes":{"li`), iotest.ErrReader(iotest.ErrTimeout)), false, iotest.ErrTimeout},
		{"without end", io.MultiReader(strings.NewReader(`{"hermes":{"id":"`), endless{}), true, nil},
		{"nonsense", strings.NewReader(`{"hermes":5}` + "\n"), true, nil},
	} {
		t.Run(test.name, func(t *testing.T) {
			_, ok, rest, err := ReadHello(test.r)
			if ok != test.ok || err == nil || rest == nil || test.want != nil && !errors.Is(err, test.want) {
				t.Errorf("got %v, %v, %v", ok, rest, err)
			}
		})
	}
}

type endless struct{}

func (endless) Read(b []byte) (int, error) {
	for i := range b {
		b[i] = 'x'
	}
	return len(b), nil
}

func TestAgreeIsTheLowerLink(t *testing.T) {
	for theirs, want := range map[int]int{1: 1, 2: Number, 99: Number} {
		if got := Agree(theirs); got != want {
			t.Errorf("Agree(%d) = %d, want %d", theirs, got, want)
		}
	}
}

func TestNewIDIs128BitsAndNew(t *testing.T) {
	a, b := NewID(), NewID()
	if len(a) != 32 || a == b {
		t.Errorf("got %q and %q", a, b)
	}
}

func TestEnviron(t *testing.T) {
	big := func(n int) string { return strings.Repeat("v", n) }
	for _, test := range []struct {
		name string
		env  []string
		max  int
		want map[string]string
	}{
		{"all of it", []string{"A=1", "B==x=", "HERMESD_HOME=/h", "EMPTY="}, 1000,
			map[string]string{"A": "1", "B": "=x=", "HERMESD_HOME": "/h", "EMPTY": ""}},
		{"what belongs to one process", []string{"A=1", "HERMESD_READY_FD=3", "NOTIFY_SOCKET=/n", "LISTEN_FDS=1", "LISTEN_PID=1", "WATCHDOG_USEC=1"}, 1000,
			map[string]string{"A": "1"}},
		{"what is no variable", []string{`=C:=C:\w`, "novalue", "B=\xff", "A=1"}, 1000, map[string]string{"A": "1"}},
		{"the last one holds", []string{"A=1", "B=2", "A=333"}, 6, map[string]string{"A": "333", "B": "2"}},
		{"the largest go first", []string{"HUGE=" + big(100), "PATH=" + big(50), "S=1", "M=" + big(20)}, 80,
			map[string]string{"PATH": big(50), "S": "1", "M": big(20)}},
		{"essential before small", []string{"A=" + big(9), "PATH=" + big(50), "LC_ALL=" + big(20), "Path=" + big(3)}, 87,
			map[string]string{"PATH": big(50), "LC_ALL": big(20), "Path": big(3)}},
		{"even essential ones have to fit", []string{"PATH=" + big(500), "HOME=/h"}, 100, map[string]string{"HOME": "/h"}},
	} {
		t.Run(test.name, func(t *testing.T) {
			if got := Environ(test.env, test.max); !maps.Equal(got, test.want) {
				t.Errorf("got %v, want %v", got, test.want)
			}
		})
	}
}

func TestAHelloWithTheWorstEnvironmentIsShortEnough(t *testing.T) {
	var env []string
	for i := range 100 {
		env = append(env, fmt.Sprintf("V%d=%s", i, strings.Repeat("\x01", 10_000))) // six bytes each in JSON
	}
	h := Hello{Link: 1, Env: Environ(env, MaxEnv)}
	if n := len(h.Line()); n >= MaxHello {
		t.Errorf("%d bytes", n)
	}
	if len(h.Env) < 20 {
		t.Errorf("only %d variables", len(h.Env))
	}
	if _, ok, _, err := ReadHello(bytes.NewReader(h.Line())); !ok || err != nil {
		t.Errorf("got %v, %v", ok, err)
	}
}

func FuzzParseHello(f *testing.F) {
	for _, s := range []string{
		`{"hermes":{"link":1,"id":"ab","version":"v1","pid":7,"cwd":"/w","agent":"a","env":{"A":"b"},"token":"t","resume":{"x":[1]}}}`,
		`{"hermes":{"link":1}}` + "\n" + `{"jsonrpc":"2.0","method":"x"}` + "\n",
		`{"hermes":{"link":0}}`, `{"hermes":null}`, ` { "hermes" : [] }`, `{"hermes":{"link":1e3,"env":{"a":null}}}`,
		`{"jsonrpc":"2.0","id":0,"method":"initialize","params":{"protocolVersion":1}}` + "\n",
		"\xef\xbb\xbf{}", "", "\n", `{"her`, `{"hermes":{"link":1,"id":"\ud800"}}`, `{"hermes":{"link":1,"link":2,"LINK":3}}`,
		`{"hermes":{"link":9223372036854775808}}`, `{"hermes":{"link":1,"resume":"\u2028<>&"}}`,
	} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, in []byte) {
		line := in
		if i := bytes.IndexByte(in, '\n'); i >= 0 {
			line = in[:i+1]
		}
		h, ok, err := ParseHello(line)
		if ok && err == nil {
			// What we understood, we say again in the same words.
			again, ok, err := ParseHello(h.Line())
			if !ok || err != nil {
				t.Fatalf("our own line %q: %v, %v", h.Line(), ok, err)
			}
			if !bytes.Equal(h.Line(), again.Line()) {
				t.Fatalf("%q became %q", h.Line(), again.Line())
			}
		}
		ParseWelcome(line)

		// A connection is judged as its first line is, however it comes in.
		rh, rok, rest, rerr := ReadHello(iotest.OneByteReader(bytes.NewReader(in)))
		if rok != ok && !(bytes.IndexByte(in, '\n') < 0 && rok) {
			t.Fatalf("ReadHello says %v, ParseHello %v", rok, ok)
		}
		if rok && rerr == nil && (err != nil || !bytes.Equal(rh.Line(), h.Line())) {
			t.Fatalf("ReadHello: %+v, ParseHello: %+v, %v", rh, h, err)
		}
		if !rok {
			if got, err := io.ReadAll(rest); !bytes.Equal(got, in) || err != nil {
				t.Fatalf("a plain client's bytes %q became %q, %v", in, got, err)
			}
		}
	})
}

func TestReadHelloHonoursADeadline(t *testing.T) {
	ours, theirs := socketPair(t)
	theirs.Write([]byte(`{"hermes":{"link":1`))
	ours.SetReadDeadline(time.Now().Add(5 * time.Millisecond))
	_, _, _, err := ReadHello(ours)
	var timeout interface{ Timeout() bool }
	if !errors.As(err, &timeout) || !timeout.Timeout() {
		t.Errorf("got %v", err)
	}
}
