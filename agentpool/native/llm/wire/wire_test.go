package wire

import (
	"encoding/json"
	"net/http"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/hermesd/hermesd/agentpool/native/llm/credentials"
	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func TestABaseURLIsTakenWithItsVersionAndWithout(t *testing.T) {
	for _, c := range []struct {
		in   string
		keep bool
		want string
	}{
		{"", true, "https://own/v1/"},
		{"http://box:1", true, "http://box:1/v1/"},
		{"http://box:1/v1", true, "http://box:1/v1/"},
		{"http://box:1/v1/", true, "http://box:1/v1/"},
		{"http://box/openai/v2?x=1", true, "http://box/openai/v2/"},
		{"http://box:1", false, "http://box:1/"},
		{"http://box:1/v1/", false, "http://box:1/"},
		{"http://box/anthropic", false, "http://box/anthropic/"},
		{"http://box/anthropic/v1", false, "http://box/anthropic/"},
		{"box:1", true, ""},
		{"/v1", true, ""},
		{"unix:///x", true, ""},
	} {
		got, err := Endpoint{BaseURL: c.in}.Base("https://own/v1/", "v1", c.keep)
		if got != c.want || (err == nil) != (c.want != "") {
			t.Errorf("%q: %q, %v, want %q", c.in, got, err, c.want)
		}
	}
}

func TestRetryAfterIsReadInAllItsForms(t *testing.T) {
	for _, c := range []struct {
		name, value string
		min, max    time.Duration
	}{
		{"Retry-After", "7", 7 * time.Second, 7 * time.Second},
		{"Retry-After", "0.5", 500 * time.Millisecond, 500 * time.Millisecond},
		{"Retry-After-Ms", "250", 250 * time.Millisecond, 250 * time.Millisecond},
		{"Retry-After", time.Now().Add(time.Minute).UTC().Format(http.TimeFormat), 50 * time.Second, time.Minute},
		{"Retry-After", time.Now().Add(-time.Minute).UTC().Format(http.TimeFormat), 0, 0},
		{"Retry-After", "soon", 0, 0},
		{"Retry-After", "-3", 0, 0},
		{"Retry-After", "NaN", 0, 0},
	} {
		h := http.Header{}
		h.Set(c.name, c.value)
		if got := retryAfter(h); got < c.min || got > c.max {
			t.Errorf("%s: %s is %v", c.name, c.value, got)
		}
	}
}

func FuzzAnErrorOfAServerBecomesOneShortLineWithoutTheKey(f *testing.F) {
	for _, s := range []string{
		`{"type":"error","error":{"type":"overloaded_error","message":"Overloaded"}}`,
		`{"error":{"message":"Incorrect API key provided: sk-secret","type":"invalid_request_error","param":null,"code":"invalid_api_key"}}`,
		`{"error":{"code":429,"message":"Rate limited","metadata":{}}}`, `{"error":"model not found"}`, `{"detail":"Not Found"}`,
		`<html>`, ``, `null`, `[]`, `"x"`, `{"error":null}`, "\xff\xfe",
	} {
		f.Add(200, []byte(s))
		f.Add(503, []byte(s))
	}
	e := Endpoint{Provider: "p", Key: credentials.NewSecret("sk-secret")}
	f.Fuzz(func(t *testing.T, status int, body []byte) {
		got := e.Fault(ReadAnswer(status, nil, body), "m")
		if got.Message == "" && got.Status < 600 && http.StatusText(got.Status) != "" || got.Advice == "" || got.Status < 400 ||
			strings.ContainsAny(got.Message, "\n\r") || strings.Contains(got.Message, "sk-secret") || !utf8.ValidString(got.Message) || len([]rune(got.Message)) > maxMessage {
			t.Errorf("%+v", *got)
		}
	})
}

func FuzzStringsAreWrittenAsJSONAndReadBack(f *testing.F) {
	for _, s := range []string{"", "a\"b\\c\n\r\t\x00\x1f\x7f", "<&>\u2028", "\xff\xfea", "é😀"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		b := AppendString(nil, s)
		var got string
		if err := json.Unmarshal(b, &got); err != nil {
			t.Fatalf("%q: %v", b, err)
		}
		var want string
		for _, r := range s { // invalid bytes come as U+FFFD, one each
			want += string(r)
		}
		if got != want {
			t.Errorf("%q, want %q", got, want)
		}
	})
}

func FuzzArgumentsAreAlwaysAnObjectAndStayAsTheyAre(f *testing.F) {
	for _, s := range []string{`{}`, ` { "a" : [1 , 2.0e5] } `, `"x"`, `[1]`, `null`, ``, `{`, `{"a":12345678901234567890}`} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		once := AppendArgs(nil, json.RawMessage(s))
		var o map[string]json.RawMessage
		if err := json.Unmarshal(once, &o); err != nil {
			t.Fatalf("%q: %v", once, err)
		}
		if twice := AppendArgs(nil, once); string(twice) != string(once) {
			t.Errorf("%q, then %q", once, twice)
		}
	})
}
