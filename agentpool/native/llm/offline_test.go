package llm

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"strings"
	"testing"
	"testing/synctest"
	"time"
	"unicode/utf8"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func TestPromptIsReadLineByLine(t *testing.T) {
	for text, want := range map[string][]step{
		"":                                   nil,
		" \n\t\r\n":                          nil,
		"say hello  world ":                  {{word: "say", text: "hello  world"}},
		"  say a\r\nthink b":                 {{word: "say", text: "a"}, {word: "think", text: "b"}},
		"read a b.txt":                       {{word: "read", text: "a b.txt", path: "a b.txt"}},
		"read a b.txt 3-20":                  {{word: "read", text: "a b.txt 3-20", path: "a b.txt", from: 3, to: 20}},
		"read a 3-":                          {{word: "read", text: "a 3-", path: "a", from: 3}},
		"read a-b":                           {{word: "read", text: "a-b", path: "a-b"}},
		"read a x-3":                         {{word: "read", text: "a x-3", path: "a x-3"}},
		"read a 5-2":                         {{text: "read a 5-2", why: "the range ends before it begins"}},
		"search foo":                         {{word: "search", text: "foo", pattern: "foo"}},
		"search foo some dir":                {{word: "search", text: "foo some dir", pattern: "foo", path: "some dir"}},
		`search "foo bar" dir`:               {{word: "search", text: `"foo bar" dir`, pattern: "foo bar", path: "dir"}},
		`search ""`:                          {{text: `search ""`, why: "there is nothing to search for"}},
		`search "foo`:                        {{word: "search", text: `"foo`, pattern: `"foo`}},
		"write a.txt\none\n\n two\n.\nsay x": {{word: "write", text: "a.txt", path: "a.txt", new: "one\n\n two\n"}, {word: "say", text: "x"}},
		"write a\n.":                         {{word: "write", text: "a", path: "a"}},
		"write a\n\n.":                       {{word: "write", text: "a", path: "a", new: "\n"}},
		"write a\r\nx\r\n.\r\n":              {{word: "write", text: "a", path: "a", new: "x\n"}},
		"write a\nno end":                    {{word: "write", text: "a", path: "a", new: "no end\n"}},
		"edit a\nold\nlines\n---\nnew\n.":    {{word: "edit", text: "a", path: "a", old: "old\nlines", new: "new"}},
		"edit a\nold\n---\n.":                {{word: "edit", text: "a", path: "a", old: "old"}},
		"edit a\nold":                        {{word: "edit", text: "a", path: "a", old: "old"}},
		"run go test ./...":                  {{word: "run", text: "go test ./..."}},
		"fetch https://x.test":               {{word: "fetch", text: "https://x.test"}},
		"ask why? ":                          {{word: "ask", text: "why?"}},
		"propose 1. write":                   {{word: "propose", text: "1. write"}},
		"plan a; b c;;d ":                    {{word: "plan", text: "a; b c;;d", items: []string{"a", "b c", "d"}}},
		"plan ;":                             {{text: "plan ;", why: "a plan needs steps, separated by semicolons"}},
		"stream 10":                          {{word: "stream", text: "10", count: 10, size: 16}},
		"stream 10 3":                        {{word: "stream", text: "10 3", count: 10, size: 3}},
		"stream 0":                           {{text: "stream 0", why: "stream takes a number of chunks and the bytes of one"}},
		"stream 1 2 3":                       {{text: "stream 1 2 3", why: "stream takes a number of chunks and the bytes of one"}},
		"stream 99999999":                    {{text: "stream 99999999", why: "stream goes up to 10000000 chunks, 1 MiB each, 1 GiB together"}},
		"stream 10000000 1048576":            {{text: "stream 10000000 1048576", why: "stream goes up to 10000000 chunks, 1 MiB each, 1 GiB together"}},
		"sleep 250ms":                        {{word: "sleep", text: "250ms", pause: 250 * time.Millisecond}},
		"sleep 2":                            {{word: "sleep", text: "2", pause: 2 * time.Second}},
		"sleep -1s":                          {{text: "sleep -1s", why: "sleep takes a duration, 500ms or 2s"}},
		"sleep 2h":                           {{text: "sleep 2h", why: "sleep goes up to 1h"}},
		"fail no more credit":                {{word: "fail", text: "no more credit"}},
		"say":                                {{text: "say", why: "say needs something after it"}},
		"Say x":                              {{text: "Say x"}},
		"saying x":                           {{text: "saying x"}},
		"please help":                        {{text: "please help"}},
	} {
		if got := parse(text); !reflect.DeepEqual(got, want) {
			t.Errorf("%q:\n got %+v\nwant %+v", text, got, want)
		}
	}
}

func FuzzParse(f *testing.F) {
	f.Add("write a\nb\n.\nedit x\n---\n.\nsearch ' x")
	f.Add("read  1-\nstream 9999999999999999999 2\nsleep 999999999999h")
	f.Fuzz(func(t *testing.T, text string) {
		for _, s := range parse(text) {
			if s.word == "" && s.text == "" {
				t.Errorf("an empty step of %q", text)
			}
			if s.count*s.size > maxStreamBytes || s.count < 0 || s.pause < 0 || s.pause > maxSleep {
				t.Errorf("beyond the limits: %+v", s)
			}
			if _, ok := s.calls(); ok && !json.Valid(s.args()) {
				t.Errorf("arguments %s", s.args())
			}
		}
	})
}

var allTools = []ToolSpec{{Name: "read_file"}, {Name: "write_file"}, {Name: "patch"}, {Name: "search_files"}, {Name: "terminal"}, {Name: "todo"}}

// transcript writes what a model streams for messages.
func transcript(t *testing.T, ctx context.Context, messages ...Message) (string, Stop, error) {
	t.Helper()
	var b strings.Builder
	stop, err := Offline{}.Stream(ctx, Request{Messages: messages, Tools: allTools}, func(e Event) error {
		switch e.Kind {
		case EventText:
			fmt.Fprintf(&b, "%s|", e.Text)
		case EventThought:
			fmt.Fprintf(&b, "(%s)", e.Text)
		case EventCall:
			fmt.Fprintf(&b, "%s%s", e.Call.Name, e.Call.Args)
		case EventBreak:
			b.WriteString("/")
		}
		return nil
	})
	return b.String(), stop, err
}

func user(text string) Message { return Message{Role: RoleUser, Parts: []Part{{Text: text}}} }

func called(name string) Message {
	return Message{Role: RoleAssistant, Parts: []Part{{Call: &ToolCall{ID: "1", Name: name}}}}
}

func result(r ToolResult) Message { return Message{Role: RoleTool, Parts: []Part{{Result: &r}}} }

func TestOfflineGoesOnBehindTheCallsItHasMade(t *testing.T) {
	past := []Message{user("say earlier"), {Role: RoleAssistant, Parts: []Part{{Text: "earlier"}}}}
	prompt := user("think a b\nsay one\nread a 1-2\nask why\nsay two\nrun ls\nsay three\nsay four")
	for _, c := range []struct {
		more []Message
		want string
		stop Stop
	}{
		{nil, `(a)( b)one|read_file{"end":2,"path":"a","start":1}`, StopTools},
		{[]Message{called("read_file"), result(ToolResult{Name: "read_file", Text: "1\tx\n"})},
			"read_file| is| done:| “1| x”|\n\nI| cannot| ask| “why”:| there| is| no| tool| clarify| here| yet.|\n\ntwo|terminal{\"command\":\"ls\"}", StopTools},
		{[]Message{called("read_file"), result(ToolResult{}), called("terminal"), result(ToolResult{Name: "terminal", Text: "refused by the user", Failed: true})},
			"terminal| did| not| work:| “refused| by| the| user”|\n\nthree|\n\nfour|", StopEnd},
	} {
		got, stop, err := transcript(t, context.Background(), append(append(past[:2:2], prompt), c.more...)...)
		if got != c.want || stop != c.stop || err != nil {
			t.Errorf("got  %q\nwant %q\n%v %v", got, c.want, stop, err)
		}
	}
}

func TestOfflineSaysWhatItIsOnceInAMessageOfItsOwn(t *testing.T) {
	got, _, _ := transcript(t, context.Background(), user("say hi"))
	if want := offlineNotice + "|/hi|"; got != want {
		t.Errorf("%q, want %q", got, want)
	}
}

func TestOtherLinesAreAnsweredWithOneSentenceThatQuotesThem(t *testing.T) {
	past := []Message{user("x"), {Role: RoleAssistant, Parts: []Part{{Text: "x"}}}}
	got, _, _ := transcript(t, context.Background(), append(past, user("please help\nsleep long"))...)
	want := "I do not understand “please help”: without a language model I know only " + Words + ".\n\n" +
		"I do not understand “sleep long” (sleep takes a duration, 500ms or 2s): without a language model I know only " + Words + "."
	if strings.ReplaceAll(got, "|", "") != want {
		t.Errorf("%q", got)
	}
	got, _, _ = transcript(t, context.Background(), append(past, user(strings.Repeat("prose\n", 500)))...)
	if n := strings.Count(got, "understand"); n != maxAnswers || !strings.Contains(strings.ReplaceAll(got, "|", ""), "And 480 more lines") {
		t.Errorf("%d answers", n)
	}
}

func TestAttachmentsAreNamedInTheAnswer(t *testing.T) {
	for want, a := range map[string]Attachment{
		"You point at “my file.txt” (file:///w/my%20file.txt#L2); I open it only when you say `read PATH`.": {Kind: "link", Name: "my file.txt", URI: "file:///w/my%20file.txt#L2"},
		"You sent “file:///w/unsaved.go”, 15 bytes of text: “package unsaved”.":                             {Kind: "resource", URI: "file:///w/unsaved.go", Text: "package unsaved"},
		"You sent “mem://b”, 3 bytes (application/octet-stream) that are no text.":                          {Kind: "resource", URI: "mem://b", MimeType: "application/octet-stream", Data: "AAEC"},
		"You sent a picture of 8 bytes (image/png); I cannot see it.":                                       {Kind: "image", MimeType: "image/png", Data: "iVBORw0KGgo="},
	} {
		if got := describe(a); got != want {
			t.Errorf("%s\nwant %s", got, want)
		}
	}
	got, _, _ := transcript(t, context.Background(), Message{Role: RoleUser, Parts: []Part{{Text: "say see"}, {Attachment: &Attachment{Kind: "resource", Text: "package unsaved"}}}})
	if !strings.Contains(got, "unsaved”") || !strings.Contains(got, "see") {
		t.Error(got)
	}
}

func TestStreamSendsKnownChunks(t *testing.T) {
	for _, c := range []struct{ count, size int }{{1, 1}, {12, 1}, {1030, 3}, {5000, 16}, {3, 100_000}} {
		n := 0
		breaks := 0
		_, err := Offline{}.Stream(context.Background(), Request{Messages: []Message{user("x"), {Role: RoleAssistant}, user(fmt.Sprintf("stream %d %d", c.count, c.size))}}, func(e Event) error {
			if e.Kind == EventBreak {
				breaks++
				return nil
			}
			n++
			want := fmt.Sprint(n)
			if len(want) >= c.size {
				want = want[len(want)-c.size:]
			} else {
				want += strings.Repeat(".", c.size-len(want)-1) + " "
			}
			if e.Text != want {
				t.Fatalf("chunk %d is %.40q, want %.40q", n, e.Text, want)
			}
			return nil
		})
		if err != nil || n != c.count || breaks != 2 {
			t.Errorf("%+v: %d chunks, %d breaks, %v", c, n, breaks, err)
		}
	}
}

func TestSleepWaitsAndCanBeCancelled(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		start := time.Now()
		if _, _, err := transcript(t, context.Background(), user("sleep 30s")); err != nil || time.Since(start) != 30*time.Second {
			t.Error(time.Since(start), err)
		}
		ctx, cancel := context.WithTimeout(context.Background(), time.Second)
		defer cancel()
		if _, _, err := transcript(t, ctx, user("sleep 30s\nsay never")); !errors.Is(err, context.DeadlineExceeded) || time.Since(start) != 31*time.Second {
			t.Error(time.Since(start), err)
		}
	})
}

func TestFailFailsWithProviderAndAdvice(t *testing.T) {
	_, _, err := transcript(t, context.Background(), user("fail no more credit"))
	var me *Error
	if !errors.As(err, &me) || me.Provider != "offline" || me.Message != "no more credit" || me.Advice == "" {
		t.Errorf("%#v", err)
	}
}

func TestAnErrorOfTheReaderEndsTheStream(t *testing.T) {
	broken := errors.New("broken")
	n := 0
	_, err := Offline{}.Stream(context.Background(), Request{Messages: []Message{user("stream 1000000 8")}}, func(Event) error {
		if n++; n == 5 {
			return broken
		}
		return nil
	})
	if !errors.Is(err, broken) || n != 5 {
		t.Error(n, err)
	}
}

func TestWordsTogetherAreTheText(t *testing.T) {
	for _, text := range []string{"a", "a b", "  a  b  ", "a\n\nb c", "日 本 😀"} {
		var got []string
		s := speaker{ctx: context.Background(), yield: func(e Event) error {
			if !utf8.ValidString(e.Text) || e.Text == "" {
				t.Errorf("%q", e.Text)
			}
			got = append(got, e.Text)
			return nil
		}}
		s.say(text)
		if strings.Join(got, "") != text {
			t.Errorf("%q, want %q", got, text)
		}
	}
}

func BenchmarkStream(b *testing.B) {
	req := Request{Messages: []Message{user("stream 100000 20")}}
	for b.Loop() {
		n := 0
		if _, err := (Offline{}).Stream(context.Background(), req, func(Event) error { n++; return nil }); err != nil {
			b.Fatal(err)
		}
	}
	b.ReportMetric(float64(100000*b.N)/b.Elapsed().Seconds(), "chunks/s")
}
