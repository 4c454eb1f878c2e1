package jsonrpc

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"testing"
	"testing/iotest"
)

// TestLines says what each line is to a peer towards an editor: what it
// answers, and what its owner is told. After each of them a plain request is
// answered, so none ends the connection or costs the next line.
func TestLines(t *testing.T) {
	const (
		parse = `{"jsonrpc":"2.0","id":null,"error":{"code":-32700,"message":"Parse error: `
		inval = `{"jsonrpc":"2.0","id":null,"error":{"code":-32600,"message":"Invalid request: `
	)
	deep := strings.Repeat("[", maxDepth+1) + strings.Repeat("]", maxDepth+1)
	tests := []struct {
		rule  string
		lines string
		want  []string // lines on the wire
		told  []string // told to the callbacks, without the text of errors
	}{
		{"a request is answered", `{"jsonrpc":"2.0","id":1,"method":"m","params":{"a":1}}` + "\n", []string{`{"jsonrpc":"2.0","id":1,"result":{"a":1}}`}, nil},
		{"a notification is not", `{"jsonrpc":"2.0","method":"m","params":[1]}` + "\n", nil, []string{"notify m [1]"}},
		{"params may be absent", `{"jsonrpc":"2.0","method":"m"}` + "\n", nil, []string{"notify m "}},
		{"params are verbatim", `{"method":"m","params": {"b":1e400, "a" : "<&>\u0041\ud83d ", "a":12345678901234567890} }` + "\n", nil,
			[]string{`notify m {"b":1e400, "a" : "<&>\u0041\ud83d ", "a":12345678901234567890}`}},
		{"CRLF ends a line", `{"jsonrpc":"2.0","method":"m"}` + "\r\n", nil, []string{"notify m "}},
		{"space around a message", " \t" + `{ "jsonrpc" : "2.0" , "method" : "m" } ` + "\t\r\n", nil, []string{"notify m "}},
		{"blank lines are nothing", "\n\r\n  \t \n\n", nil, nil},
		{"escapes in names", `{"m\u0065thod":"\u006d\n","p\u0061rams":1}` + "\n", nil, []string{"notify m\n 1"}},
		{"unknown members are ignored", `{"jsonrpc":"2.0","_meta":{"x":[{}]},"id":1,"method":"m","zzz":null}` + "\n", []string{`{"jsonrpc":"2.0","id":1,"result":null}`}, nil},
		{"any version is 2.0", `{"jsonrpc":"1.0","id":1,"method":"m"}` + "\n" + `{"id":2,"method":"m"}` + "\n" + `{"jsonrpc":2,"id":3,"method":"m"}` + "\n",
			[]string{`{"jsonrpc":"2.0","id":1,"result":null}`, `{"jsonrpc":"2.0","id":2,"result":null}`, `{"jsonrpc":"2.0","id":3,"result":null}`}, nil},
		{"the last of two members counts", `{"method":"x","method":"m","params":1,"params":2}` + "\n", nil, []string{"notify m 2"}},

		{"broken JSON", `{"jsonrpc":"2.0","id":1,"method":` + "\n", []string{parse}, []string{"garbage"}},
		{"text", "npm warn deprecated\n", []string{parse}, []string{"garbage"}},
		{"colours", "\x1b[32mok\x1b[0m\n", []string{parse}, []string{"garbage"}},
		{"two messages in a line", `{"method":"a"}{"method":"b"}` + "\n", []string{parse}, []string{"garbage"}},
		{"a lone bad byte", "\xff\n", []string{parse}, []string{"garbage"}},
		{"bad UTF-8 in a string", `{"jsonrpc":"2.0","id":3,"method":"m","params":{"cwd":"/tmp/a` + "\xff\xfe" + `"}}` + "\n", []string{parse + "invalid UTF-8"}, []string{"garbage"}},
		{"half a character", `{"method":"m","params":["` + "\xe6\x97" + `"]}` + "\n", []string{parse + "invalid UTF-8"}, []string{"garbage"}},
		{"too deep", `{"method":"m","params":` + deep + "}\n", []string{parse + "JSON nested too deeply"}, []string{"garbage"}},
		{"a byte order mark in mid-stream", "\n\xef\xbb\xbf" + `{"method":"m"}` + "\n", []string{parse}, []string{"garbage"}},
		{"a batch gets one error", `[{"jsonrpc":"2.0","id":2,"method":"m"},{"jsonrpc":"2.0","id":3,"method":"m"}]` + "\n", []string{inval + "batches"}, []string{"garbage"}},
		{"an empty batch too", "[]\n", []string{inval + "batches"}, []string{"garbage"}},
		{"a broken batch is broken JSON", "[}\n", []string{parse}, []string{"garbage"}},
		{"a string", `"just a string"` + "\n", []string{inval}, []string{"garbage"}},
		{"a number", "42\n", []string{inval}, []string{"garbage"}},
		{"an object that is no message", `{"level":"info","msg":"migrated"}` + "\n", []string{inval + "neither"}, []string{"garbage"}},
		{"an empty object", "{}\n", []string{inval + "neither"}, []string{"garbage"}},
		{"neither method nor result", `{"jsonrpc":"2.0","id":5}` + "\n", []string{inval + "neither"}, []string{"garbage"}},
		{"a method that is a number", `{"jsonrpc":"2.0","id":5,"method":7}` + "\n", []string{inval + "a method"}, []string{"garbage"}},
		{"a method that is no text", `{"jsonrpc":"2.0","id":5,"method":7}` + "\n", []string{inval + "a method"}, []string{"garbage"}},
		{"an object as id", `{"jsonrpc":"2.0","id":{"a":1},"method":"m"}` + "\n", []string{inval + "an id"}, []string{"garbage"}},
		{"a boolean as id", `{"jsonrpc":"2.0","id":true,"method":"m"}` + "\n", []string{inval + "an id"}, []string{"garbage"}},

		{"a response to nothing is not answered", `{"jsonrpc":"2.0","id":9,"result":{"x":1}}` + "\n", nil, []string{`unclaimed 9 {"x":1}`}},
		{"nor an error to nothing", `{"jsonrpc":"2.0","id":"x","error":{"code":-32601,"message":"no"}}` + "\n", nil, []string{`unclaimed "x" error no`}},
		{"nor a complaint without id", `{"jsonrpc":"2.0","id":null,"error":{"code":-32700,"message":"Parse error"}}` + "\n", nil, []string{"unclaimed null error Parse error"}},
		{"nor a response that lacks its id", `{"jsonrpc":"2.0","result":{}}` + "\n", nil, []string{"garbage"}},
		{"nor one with an impossible id", `{"jsonrpc":"2.0","id":[],"error":{}}` + "\n", nil, []string{"garbage"}},
		{"result beside a null error", `{"id":1,"result":1,"error":null,"method":null}` + "\n", nil, []string{"unclaimed 1 1"}},
		{"error beside a null result", `{"id":1,"result":null,"error":{"code":1,"message":"e"}}` + "\n", nil, []string{"unclaimed 1 error e"}},
		{"a null error alone is an error", `{"id":1,"error":null}` + "\n", nil, []string{"unclaimed 1 error The answer carries a malformed error"}},
		{"a malformed error is an error", `{"id":1,"error":"boom"}` + "\n", nil, []string{"unclaimed 1 error The answer carries a malformed error"}},
	}
	for _, tt := range tests {
		for _, editor := range []bool{true, false} {
			name := tt.rule + "/agent"
			if editor {
				name = tt.rule + "/editor"
			}
			t.Run(name, func(t *testing.T) {
				var told record
				w := dial(t, told.watch(Options{AnswerGarbage: editor, Admit: echo}))
				w.send("\n" + tt.lines) // the first line is special, and tested elsewhere
				w.send(`{"jsonrpc":"2.0","id":"end","method":"m"}` + "\n")

				got := w.rest()
				i := slices.Index(got, `{"jsonrpc":"2.0","id":"end","result":null}`)
				if i < 0 {
					t.Fatalf("the next request is not answered: %q", got)
				}
				got = slices.Delete(got, i, i+1)
				slices.Sort(got) // handlers may overtake each other
				want := tt.want
				if !editor && len(tt.told) > 0 && tt.told[0] == "garbage" {
					want = nil
				}
				if len(got) != len(want) {
					t.Fatalf("answered %q, want %q", got, want)
				}
				for i := range want {
					if !strings.HasPrefix(got[i], want[i]) {
						t.Errorf("answered %s\nwant     %s", got[i], want[i])
					}
				}
				all := told.all()
				for i, s := range all {
					if strings.HasPrefix(s, "garbage") {
						all[i] = "garbage"
					}
				}
				if !slices.Equal(all, tt.told) {
					t.Errorf("told %q, want %q", all, tt.told)
				}
			})
		}
	}
}

func TestStreamStartsAndEndsLeniently(t *testing.T) {
	w := dial(t, Options{AnswerGarbage: true, Admit: echo})
	w.send("\xef\xbb\xbf" + `{"id":0,"method":"m"}` + "\r\n" + `{"id":1,"method":"m"}`) // no line break
	got := w.rest()
	slices.Sort(got)
	if want := []string{`{"jsonrpc":"2.0","id":0,"result":null}`, `{"jsonrpc":"2.0","id":1,"result":null}`}; !slices.Equal(got, want) {
		t.Fatalf("got %q, want %q", got, want)
	}
	if err := w.peer.Wait(); err != io.EOF {
		t.Errorf("ended with %v", err)
	}
}

func TestEveryLineCounts(t *testing.T) {
	var told record
	o := Options{MaxLine: 100, Admit: func(r *Request) Handler {
		told.add(fmt.Sprint("request ", r.Line))
		return echo(r)
	}}
	o.Notify = func(_ string, _ json.RawMessage, line uint64) { told.add(fmt.Sprint("notify ", line)) }
	w := dial(t, o)
	w.send("\n" + `{"method":"m"}` + "\n" + "garbage\n" + strings.Repeat("x", 1000) + "\n" + `{"id":1,"method":"m"}` + "\n" + `{"method":"m"}`)
	w.rest()
	if got, want := told.all(), []string{"notify 2", "request 5", "notify 6"}; !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
}

func TestIDsComeBackAsTheyWereSent(t *testing.T) {
	ids := []string{`1`, `"1"`, `1.0`, `0`, `""`, `"0"`, `-7`, `9007199254740993`, `123456789012345678901234567890`, `1e3`, `"req-a1"`, `"\u0061\/<>&"`, `"日本"`, `null`, `"null"`}
	release := make(chan struct{})
	w := dial(t, Options{Admit: func(r *Request) Handler {
		return func(context.Context) (any, error) { <-release; return r.ID, nil }
	}})
	var want []string
	for _, id := range ids {
		w.send(`{"jsonrpc":"2.0","id":` + id + `,"method":"m"}` + "\n") // all in flight at once
		want = append(want, `{"jsonrpc":"2.0","id":`+id+`,"result":`+id+`}`)
	}
	close(release)
	got := w.rest()
	slices.Sort(got)
	slices.Sort(want)
	if !slices.Equal(got, want) {
		t.Errorf("got  %q\nwant %q", got, want)
	}
}

func TestTooLongLineIsSkippedAndAnsweredAtOnce(t *testing.T) {
	for _, max := range []int{100, smallBuffer, largeBuffer, largeBuffer + 1, 300_000} {
		t.Run(fmt.Sprint(max), func(t *testing.T) {
			var told record
			w := dial(t, told.watch(Options{AnswerGarbage: true, MaxLine: max, Admit: echo}))
			fits := func(n int) string { // a notification of n bytes
				const frame = `{"method":"m","params":""}`
				return frame[:len(frame)-2] + strings.Repeat("y", n-len(frame)) + frame[len(frame)-2:]
			}
			w.send(fits(max) + "\n")
			go w.send(fits(max + 1)) // its end is not yet there
			w.want(fmt.Sprintf(`{"jsonrpc":"2.0","id":null,"error":{"code":-32600,"message":"Invalid request: a line is longer than %d bytes"}}`, max))
			w.send(strings.Repeat("z", 3*largeBuffer) + "\n" + fits(max) + "\n" + fits(max+1) + "\n" + fits(max) + "\n")
			w.rest()
			var got []string
			for _, s := range told.all() {
				got = append(got, s[:7])
			}
			if want := []string{"notify ", "garbage", "notify ", "garbage", "notify "}; !slices.Equal(got, want) {
				t.Errorf("told %q, want %q", got, want)
			}
		})
	}
}

func TestLinesSurviveAnyCut(t *testing.T) {
	text := `{"method":"m","params":"日本 👩‍🚀 é"}` + "\n\n" + `{"method":"n"}` + "\r\n" + strings.Repeat("x", 9000) + "\n" + strings.Repeat("y", 200_000) + "\nlast"
	for _, r := range []io.Reader{strings.NewReader(text), iotest.OneByteReader(strings.NewReader(text)), iotest.HalfReader(strings.NewReader(text)), iotest.DataErrReader(strings.NewReader(text))} {
		l := newLineReader(r, 1<<20)
		for i, want := range strings.Split(text, "\n") {
			got, _, err := l.next()
			if err != nil || string(got) != want {
				t.Fatalf("%T, line %d: %.40q, %v", r, i, got, err)
			}
		}
		if _, _, err := l.next(); err != io.EOF {
			t.Errorf("%T: ended with %v", r, err)
		}
	}
}

func TestReadErrorsAreReported(t *testing.T) {
	boom := errors.New("boom")
	for text, lines := range map[string]int{"": 0, "a\n": 1, "a\nhalf": 1, "a\n" + strings.Repeat("x", 100_000): 1} {
		l := newLineReader(io.MultiReader(strings.NewReader(text), iotest.ErrReader(boom)), 1<<20)
		for range lines {
			if _, _, err := l.next(); err != nil {
				t.Errorf("%.10q: %v", text, err)
			}
		}
		if line, _, err := l.next(); err != boom {
			t.Errorf("%.10q: got %.10q, %v", text, line, err)
		}
	}
	l := newLineReader(silent{}, 10)
	if _, _, err := l.next(); err != io.ErrNoProgress {
		t.Errorf("a reader that returns nothing: %v", err)
	}
}

type silent struct{}

func (silent) Read([]byte) (int, error) { return 0, nil }

func TestLongLinesAreKeptOnceAndShortBuffersComeBack(t *testing.T) {
	long := strings.Repeat("x", 3_000_000)
	l := newLineReader(strings.NewReader(long+"\na\n"+strings.Repeat("b\n", 100_000)), 1<<22)
	line, owned, err := l.next()
	if string(line) != long || !owned || err != nil || cap(line) != len(line) {
		t.Fatalf("%d bytes of %d, owned %v, %v", len(line), cap(line), owned, err)
	}
	for {
		if _, _, err := l.next(); err != nil {
			break
		}
	}
	if len(l.buf) != smallBuffer {
		t.Errorf("at rest the buffer is %d bytes", len(l.buf))
	}
}

func TestNestingLimitIsThatOfEncodingJSON(t *testing.T) {
	for _, open := range []string{"[", `{"a":`} {
		for depth := maxDepth - 2; depth <= maxDepth+2; depth++ {
			text := strings.Repeat(open, depth) + "1" + strings.Repeat(map[string]string{"[": "]", `{"a":`: "}"}[open], depth)
			var s scanner
			if got, want := s.valid([]byte(text)), json.Valid([]byte(text)); got != want {
				t.Errorf("%d times %s alone: %v, want %v", depth, open, got, want)
			}
			line := `{"method":"m","params":` + text + `}`
			if got, want := s.classify([]byte(line)).kind == notification, json.Valid([]byte(line)); got != want {
				t.Errorf("%d times %s in a message: %v, want %v", depth, open, got, want)
			}
		}
	}
}
