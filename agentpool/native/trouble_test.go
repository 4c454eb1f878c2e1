package native

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/hermesd/hermesd/agentpool/native/llm/fakellm"
	"github.com/hermesd/hermesd/daemon/session"
)

// One session in which everything goes wrong that servers of models do wrong, in
// their wire format: each turn ends with the answer that says so, every call has one
// result, and the turn after it goes on from what is there. The server refuses what
// the real ones refuse, so a conversation that was damaged by a failure would be seen.
func TestASessionOfTwentyTurnsInWhichEverythingGoesWrong(t *testing.T) {
	eachFormat(t, func(t *testing.T, f fakellm.Format) {
		of := func(anthropic, openai string) string {
			if f == fakellm.OpenAI {
				return openai
			}
			return anthropic
		}
		length, refused := of("max_tokens", "length"), of("refusal", "content_filter")
		overloaded := fakellm.Reply{Status: 529, Type: of("overloaded_error", "server_error"), Message: "Overloaded", RetryAfter: "0.001"}
		text := func(s string) fakellm.Reply { return fakellm.Reply{Texts: []string{s}} }
		write := func(name, content string) fakellm.Call {
			return fakellm.Call{Name: "write_file", Args: fmt.Sprintf(`{"path":%q,"content":%q}`, name, content)}
		}
		turns := []struct {
			what    string
			replies []fakellm.Reply
			cancel  bool   // when the server hangs
			stop    string // or
			code    int    // of the error
			says    string // in the answer or the error
		}{
			{"an answer", []fakellm.Reply{text("hello")}, false, "end_turn", 0, "hello"},
			{"tools", []fakellm.Reply{{Thoughts: []string{"hm"}, Calls: []fakellm.Call{write("a", "1"), {Name: "read_file", Args: `{"path":"a"}`}}}, text("written")}, false, "end_turn", 0, "written"},
			{"overloaded twice", []fakellm.Reply{overloaded, overloaded, text("at last")}, false, "end_turn", 0, "at last"},
			{"overloaded between calls", []fakellm.Reply{{Calls: []fakellm.Call{write("b", "2")}}, overloaded, text("b is there")}, false, "end_turn", 0, "b is there"},
			{"too many requests", []fakellm.Reply{{Status: 429, Type: of("rate_limit_error", "rate_limit_exceeded"), Message: "slow down", RetryAfter: "3600"}}, false, "", session.CodeInternal, "Too many requests"},
			{"the key is refused", []fakellm.Reply{{Status: 401, Type: of("authentication_error", "invalid_api_key"), Message: "no such key"}}, false, "", session.CodeAuthRequired, "The key was refused"},
			{"no credit", []fakellm.Reply{{Status: 402, Type: "billing_error", Message: "pay first"}}, false, "", session.CodeInternal, "no credit left"},
			{"not accepted", []fakellm.Reply{{Status: 400, Type: "invalid_request_error", Message: "no"}}, false, "", session.CodeInternal, "was not accepted"},
			{"no stream", []fakellm.Reply{{Raw: "<html>welcome</html>", RawType: "text/html"}}, false, "", session.CodeInternal, "not what a model streams"},
			{"fails in the stream", []fakellm.Reply{{Texts: []string{"I begin "}, Fail: true, Type: of("overloaded_error", "server_error"), Message: "gone"}}, false, "", session.CodeInternal, "gone"},
			{"cut in the answer", []fakellm.Reply{{Texts: []string{"half of "}, Cut: true}}, false, "", session.CodeInternal, `Send "continue"`},
			{"continue", []fakellm.Reply{text("the sentence")}, false, "end_turn", 0, "the sentence"},
			{"cut in a call", []fakellm.Reply{{Texts: []string{"I write"}, Calls: []fakellm.Call{write("never", "x")}, Cut: true}}, false, "", session.CodeInternal, "cut in the middle"},
			{"refusal", []fakellm.Reply{{Texts: []string{"I will not."}, Stop: refused}}, false, "refusal", 0, "I will not."},
			{"length", []fakellm.Reply{{Texts: []string{"on and on"}, Stop: length}}, false, "max_tokens", 0, "on and on"},
			{"length in a call", []fakellm.Reply{{Texts: []string{"now "}, Calls: []fakellm.Call{write("never", "too long")}, CutCall: true, Stop: length}}, false, "max_tokens", 0, "now "},
			{"cancel while it says nothing", []fakellm.Reply{{Hang: true}}, true, "cancelled", 0, ""},
			{"cancel in the answer", []fakellm.Reply{{Calls: []fakellm.Call{write("c", "3")}}, {Texts: []string{"I go "}, Hang: true}}, true, "cancelled", 0, "I go "},
			{"calls that are none", []fakellm.Reply{{Calls: []fakellm.Call{{Name: "no_such_tool", Args: `{}`}, {Name: "read_file", Args: `{"path":`}, {Name: "read_file", Args: ``}, {Name: "read_file", Args: `[1]`}, write("d", "4")}}, text("some worked")}, false, "end_turn", 0, "some worked"},
			{"all is well", []fakellm.Reply{{Calls: []fakellm.Call{{Name: "search_files", Args: `{"pattern":"[1-4]"}`}}}, text("done")}, false, "end_turn", 0, "done"},
		}
		if len(turns) != 20 {
			t.Fatalf("%d turns", len(turns))
		}
		var next []fakellm.Reply
		s := fakellm.New(t, f, fakeKey, func(int, []byte) fakellm.Reply {
			if len(next) == 0 {
				return fakellm.Reply{Status: 418, Type: "x", Message: "this request was not expected"}
			}
			r := next[0]
			next = next[1:]
			return r
		})
		w := newWorld(t, provider(t, s))
		for i, turn := range turns {
			next = turn.replies
			ctx, cancel := context.WithCancel(context.Background())
			done := make(chan struct{})
			if turn.cancel {
				go func() { // ends with the turn
					select {
					case <-s.Hung():
						for !strings.Contains(w.said(), turn.says) { // until it is shown
							<-w.signal
						}
						cancel()
					case <-done:
					}
				}()
			}
			before := w.said()
			r, err := w.run(ctx, textBlock(fmt.Sprintf("turn %d: %s", i+1, turn.what)))
			close(done)
			cancel()
			code, message := answered(err)
			if r.StopReason != turn.stop || code != turn.code || len(next) != 0 {
				t.Errorf("%s: %q, %d %s, %d replies left", turn.what, r.StopReason, code, message, len(next))
			}
			said := strings.TrimPrefix(w.said(), before)
			if !strings.Contains(said+message, turn.says) {
				t.Errorf("%s: said is %q, %s", turn.what, said, message)
			}
			if turn.cancel && said != turn.says {
				t.Errorf("%s: something was put into the model's mouth: %q", turn.what, said)
			}
			if code == session.CodeInternal && !strings.HasPrefix(message, "the model call to ") || strings.Contains(message, fakeKey) {
				t.Errorf("%s: %s", turn.what, message)
			}
			if i%5 == 4 { // a restart
				live := shape(w.agent.history.messages)
				w.agent.Close()
				w.open(false, session.Settings{})
				if got := shape(w.agent.history.messages); got != live {
					t.Fatalf("%s: after a restart the history is\n%s\nwas\n%s", turn.what, got, live)
				}
			}
		}
		for name, want := range map[string]string{"a": "1", "b": "2", "c": "3", "d": "4"} {
			if got, err := os.ReadFile(filepath.Join(w.dir, name)); string(got) != want {
				t.Errorf("%s is %q, %v", name, got, err)
			}
		}
		if _, err := os.Stat(filepath.Join(w.dir, "never")); err == nil {
			t.Error("a call was made that had not come whole")
		}
		requests := s.Requests()
		last := string(requests[len(requests)-1].Body)
		for _, told := range []string{"hello", "half of ", "the sentence", "I will not.", "on and on", "I go "} {
			if !strings.Contains(last, told) {
				t.Errorf("%q was shown, and the model is not told of it", told)
			}
		}
		for _, taken := range []string{"too many requests", "the key is refused", "not accepted"} {
			if strings.Contains(last, taken) {
				t.Errorf("the prompt %q failed before anything was said, and stands before the model still", taken)
			}
		}
	})
}
