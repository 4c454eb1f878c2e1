package acpclient

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/hermesd/hermesd/transport/jsonrpc"
	"github.com/hermesd/hermesd/transport/link"
)

func TestMain(m *testing.M) {
	if os.Getenv("ACPCLIENT_TEST_AGENT") != "" {
		echoAgent(os.Stdin, os.Stdout)
		return
	}
	goleak.VerifyTestMain(m)
}

// echoAgent is a program that streams each prompt back as one update.
func echoAgent(r io.Reader, w io.WriteCloser) {
	var p *jsonrpc.Peer
	p = jsonrpc.New(r, w, jsonrpc.Options{Admit: func(r *jsonrpc.Request) jsonrpc.Handler {
		return func(context.Context) (any, error) {
			fmt.Fprintf(os.Stderr, "agent: %s\n", r.Method)
			if r.Method == "session/prompt" {
				_ = p.Enqueue(update("s", `{"sessionUpdate":"agent_message_chunk","content":{"type":"text","text":"hi"}}`))
				return map[string]string{"stopReason": "end_turn"}, nil
			}
			return map[string]any{"protocolVersion": 1}, nil
		}
	}})
	p.Start()
	_ = p.Wait()
}

func update(session, update string) []byte {
	return jsonrpc.Notification("session/update", json.RawMessage(`{"sessionId":"`+session+`","update":`+update+`}`))
}

func chunk(text string) string {
	return `{"sessionUpdate":"agent_message_chunk","messageId":"m","content":{"type":"text","text":"` + text + `"}}`
}

// pair is a Client and the agent's end of its connection.
func pair(t *testing.T, o Options, agent jsonrpc.Options) (*Client, *jsonrpc.Peer) {
	t.Helper()
	fromAgent, toClient := io.Pipe()
	fromClient, toAgent := io.Pipe()
	p := jsonrpc.New(fromClient, toClient, agent)
	c := New(fromAgent, toAgent, o)
	p.Start()
	t.Cleanup(func() {
		if err := c.Close(); err != nil {
			t.Errorf("closing: %v", err)
		}
		p.Close(nil)
		_ = p.Wait()
	})
	return c, p
}

func within(t *testing.T) context.Context {
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	t.Cleanup(cancel)
	return ctx
}

// answering makes an agent that answers every request through f.
func answering(f func(method string, params json.RawMessage) (any, error)) jsonrpc.Options {
	return jsonrpc.Options{Admit: func(r *jsonrpc.Request) jsonrpc.Handler {
		return func(context.Context) (any, error) { return f(r.Method, r.Params) }
	}}
}

func TestEntriesKeepTheOrderOfTheWire(t *testing.T) {
	var agent *jsonrpc.Peer
	ready := make(chan struct{})
	c, agent := pair(t, Options{}, answering(func(string, json.RawMessage) (any, error) {
		<-ready
		for i := range 500 {
			_ = agent.Enqueue(update("s", chunk(fmt.Sprint(i%10))))
		}
		return map[string]string{"stopReason": "end_turn"}, nil
	}))
	close(ready)
	ctx := within(t)
	got, err := c.Prompt(ctx, "s", "go")
	if err != nil || got.StopReason != "end_turn" {
		t.Fatal(got, err)
	}
	_ = agent.Enqueue(update("s", chunk("late")))
	if _, err := c.Await(ctx, 0, func(e Entry) bool { return strings.Contains(string(e.Raw), "late") }); err != nil {
		t.Fatal(err)
	}
	entries := c.Entries()
	if len(entries) != 503 || entries[0].Kind != Sent || entries[501].Kind != Response || entries[501].Method != "session/prompt" {
		t.Fatalf("%d entries, the answer is not the 502nd", len(entries))
	}
	for i, e := range entries[1:501] {
		if want := fmt.Sprintf(`"text":"%d"`, i%10); e.Kind != Update || e.Session != "s" || !strings.Contains(string(e.Raw), want) || e.Index != i+1 {
			t.Fatalf("entry %d: %+v", i+1, e)
		}
	}
}

func TestQuestionIsAnsweredOnceOrWithdrawn(t *testing.T) {
	c, agent := pair(t, Options{}, jsonrpc.Options{})
	ctx := within(t)
	params := json.RawMessage(`{"sessionId":"s","toolCall":{"toolCallId":"t","title":"Write x"},"options":[{"optionId":"yes","name":"Allow","kind":"allow_once"},{"optionId":"no","name":"No","kind":"reject_once"}]}`)
	ask := func(ctx context.Context, id string) chan string {
		answer := make(chan string, 1)
		go func() {
			raw, err := agent.Call(ctx, id, "session/request_permission", params)
			answer <- fmt.Sprintf("%s %v", raw, err)
		}()
		return answer
	}
	asked := func(id string) func(Entry) bool {
		return func(e Entry) bool { return e.Kind == Asked && e.ID == `"`+id+`"` }
	}

	answer := ask(ctx, "q1")
	if _, err := c.Await(ctx, 0, asked("q1")); err != nil {
		t.Fatal(err)
	}
	q := c.Questions()
	if len(q) != 1 || q[0].Title != "Write x" || q[0].Session != "s" {
		t.Fatalf("open: %+v", q)
	}
	yes, ok := q[0].Find("allow_once")
	if !ok || yes.ID != "yes" {
		t.Fatalf("found %+v", yes)
	}
	if err := c.Answer(q[0].ID, yes.ID); err != nil {
		t.Fatal(err)
	}
	if got := <-answer; got != `{"outcome":{"outcome":"selected","optionId":"yes"}} <nil>` {
		t.Errorf("the agent got %s", got)
	}
	if err := c.Answer(q[0].ID, yes.ID); !errors.Is(err, ErrNotOpen) {
		t.Errorf("second answer: %v", err)
	}

	answer = ask(ctx, "q2")
	if _, err := c.Await(ctx, 0, asked("q2")); err != nil {
		t.Fatal(err)
	}
	if err := c.Answer(`"q2"`, ""); err != nil {
		t.Fatal(err)
	}
	if got := <-answer; got != `{"outcome":{"outcome":"cancelled"}} <nil>` {
		t.Errorf("the agent got %s", got)
	}

	askCtx, withdraw := context.WithCancel(ctx)
	answer = ask(askCtx, "q3")
	if _, err := c.Await(ctx, 0, asked("q3")); err != nil {
		t.Fatal(err)
	}
	withdraw()
	<-answer
	if _, err := c.Await(ctx, 0, func(e Entry) bool { return e.Kind == Withdrawn && e.ID == `"q3"` && e.Session == "s" }); err != nil {
		t.Fatal(err)
	}
	if err := c.Answer(`"q3"`, "yes"); !errors.Is(err, ErrNotOpen) {
		t.Errorf("answer to a withdrawn question: %v", err)
	}
}

func TestPermissionHandlerAnswersAndIsCancelled(t *testing.T) {
	started := make(chan struct{}, 1)
	ended := make(chan error, 1)
	c, agent := pair(t, Options{Permission: func(ctx context.Context, q Question) (string, error) {
		if q.Title == "wait" {
			started <- struct{}{}
			<-ctx.Done()
			ended <- ctx.Err()
			return "", ctx.Err()
		}
		return "yes", nil
	}}, jsonrpc.Options{})
	ctx := within(t)
	raw, err := agent.Call(ctx, "1", "session/request_permission", json.RawMessage(`{"sessionId":"s","toolCall":{"title":"go"}}`))
	if err != nil || !strings.Contains(string(raw), `"yes"`) {
		t.Fatal(string(raw), err)
	}
	askCtx, withdraw := context.WithCancel(ctx)
	go func() { <-started; withdraw() }()
	_, _ = agent.Call(askCtx, "2", "session/request_permission", json.RawMessage(`{"sessionId":"s","toolCall":{"title":"wait"}}`))
	if err := <-ended; !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
	if len(c.Questions()) != 0 {
		t.Error("a question is left open")
	}
}

func TestUnknownRequestsAreRefused(t *testing.T) {
	_, agent := pair(t, Options{}, jsonrpc.Options{})
	_, err := agent.Call(within(t), "1", "fs/read_text_file", json.RawMessage(`{}`))
	var e *jsonrpc.Error
	if !errors.As(err, &e) || e.Code != -32601 {
		t.Errorf("got %v", err)
	}
}

func TestErrorsOfTheAgentKeepTheirCode(t *testing.T) {
	c, _ := pair(t, Options{}, answering(func(string, json.RawMessage) (any, error) {
		return nil, &jsonrpc.Error{Code: -32002, Message: "no such session", Data: json.RawMessage(`{"sessionId":"x"}`)}
	}))
	_, err := c.Load(within(t), "x", "/")
	var e *jsonrpc.Error
	if !errors.As(err, &e) || e.Code != -32002 || string(e.Data) != `{"sessionId":"x"}` {
		t.Errorf("got %#v", err)
	}
}

func TestCancelledCallTellsTheAgent(t *testing.T) {
	arrived, cancelled := make(chan struct{}), make(chan string, 1)
	c, _ := pair(t, Options{}, jsonrpc.Options{
		Admit: func(*jsonrpc.Request) jsonrpc.Handler {
			return func(ctx context.Context) (any, error) { close(arrived); <-ctx.Done(); return nil, ctx.Err() }
		},
		Notify: func(method string, params json.RawMessage, _ uint64) { cancelled <- method + string(params) },
	})
	ctx, cancel := context.WithCancel(within(t))
	go func() { <-arrived; cancel() }()
	if _, err := c.Prompt(ctx, "s", "x"); !errors.Is(err, context.Canceled) {
		t.Errorf("got %v", err)
	}
	if got := <-cancelled; got != `$/cancel_request{"requestId":"c1"}` {
		t.Errorf("the agent was told %s", got)
	}
}

func TestEndOfTheConnectionEndsEverythingThatWaits(t *testing.T) {
	arrived := make(chan struct{})
	c, agent := pair(t, Options{}, jsonrpc.Options{Admit: func(*jsonrpc.Request) jsonrpc.Handler {
		return func(ctx context.Context) (any, error) { close(arrived); <-ctx.Done(); return nil, ctx.Err() }
	}})
	ctx := within(t)
	waited := make(chan error, 1)
	go func() {
		_, err := c.Await(ctx, 0, func(Entry) bool { return false })
		waited <- err
	}()
	go func() { <-arrived; agent.Close(nil) }()
	if _, err := c.Prompt(ctx, "s", "x"); !errors.Is(err, ErrClosed) {
		t.Errorf("prompt: %v", err)
	}
	if err := <-waited; !errors.Is(err, ErrClosed) {
		t.Errorf("await: %v", err)
	}
	if _, err := c.Start("x", nil); !errors.Is(err, ErrClosed) {
		t.Errorf("start: %v", err)
	}
	if entries := c.Entries(); entries[len(entries)-1].Kind != Closed {
		t.Errorf("the last entry is %+v", entries[len(entries)-1])
	}
}

func TestListReadsAllPages(t *testing.T) {
	c, _ := pair(t, Options{}, answering(func(_ string, params json.RawMessage) (any, error) {
		switch string(params) {
		case `{"cwd":"/w"}`:
			return json.RawMessage(`{"sessions":[{"sessionId":"a","cwd":"/w"}],"nextCursor":"2"}`), nil
		case `{"cwd":"/w","cursor":"2"}`:
			return json.RawMessage(`{"sessions":[{"sessionId":"b","cwd":"/w"}]}`), nil
		}
		return nil, fmt.Errorf("unexpected %s", params)
	}))
	list, err := c.List(within(t), "/w")
	if err != nil || len(list) != 2 || list[0].ID != "a" || list[1].ID != "b" {
		t.Errorf("%+v, %v", list, err)
	}
}

func TestListEndsWhenTheCursorStands(t *testing.T) {
	c, _ := pair(t, Options{}, answering(func(string, json.RawMessage) (any, error) {
		return json.RawMessage(`{"sessions":[],"nextCursor":"2"}`), nil
	}))
	if _, err := c.List(within(t), ""); err == nil {
		t.Error("no error")
	}
}

func TestForgetKeepsNothingAndTellsEverything(t *testing.T) {
	told := make(chan Entry, 10)
	c, agent := pair(t, Options{Forget: true, Received: func(e Entry) { told <- e }}, jsonrpc.Options{})
	_ = agent.Enqueue(update("s", chunk("a")), jsonrpc.Notification("_x/y", nil))
	if e := <-told; e.Kind != Update || e.Session != "s" {
		t.Errorf("told %+v", e)
	}
	if e := <-told; e.Kind != Notification || e.Method != "_x/y" {
		t.Errorf("told %+v", e)
	}
	if c.Len() != 0 {
		t.Errorf("%d entries are kept", c.Len())
	}
}

func TestSpawnedProgramIsAnAgent(t *testing.T) {
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), "ACPCLIENT_TEST_AGENT=1")
	p, err := Spawn(cmd, Options{})
	if err != nil {
		t.Fatal(err)
	}
	ctx := within(t)
	if _, err := p.Initialize(ctx); err != nil {
		t.Fatal(err)
	}
	if _, err := p.Prompt(ctx, "s", "x"); err != nil {
		t.Fatal(err)
	}
	if got := p.Story("s").Says("agent_message_chunk"); got != "hi" {
		t.Errorf("it said %q", got)
	}
	if err := p.Close(); err != nil {
		t.Error(err)
	}
	if err := p.ExitErr(ctx); err != nil {
		t.Errorf("it ended with %v", err)
	}
	if !strings.Contains(p.Stderr(), "agent: session/prompt") {
		t.Errorf("its stderr: %q", p.Stderr())
	}
}

func TestKilledProgramEndsTheConnection(t *testing.T) {
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), "ACPCLIENT_TEST_AGENT=1")
	p, err := Spawn(cmd, Options{})
	if err != nil {
		t.Fatal(err)
	}
	ctx := within(t)
	if _, err := p.Initialize(ctx); err != nil {
		t.Fatal(err)
	}
	if err := p.Kill(); err != nil {
		t.Fatal(err)
	}
	if _, err := p.Await(ctx, 0, func(e Entry) bool { return e.Kind == Closed }); err != nil {
		t.Fatal(err)
	}
	if err := p.ExitErr(ctx); err == nil {
		t.Error("a killed program ended well")
	}
	if err := p.Close(); err != nil {
		t.Error(err)
	}
}

func TestGreetSaysHelloAndReadsTheWelcome(t *testing.T) {
	for name, tc := range map[string]struct {
		answer string
		want   string // part of the error
	}{
		"welcome":     {`{"hermes":{"link":1,"version":"v1","pid":7}}` + "\n", ""},
		"refused":     {`{"hermes":{"link":1,"error":"not today"}}` + "\n", "not today"},
		"not hermesd": {"SSH-2.0-OpenSSH\r\n", "not hermesd"},
		"endless":     {strings.Repeat("x", link.MaxWelcome+1024), "not hermesd"},
		"hung up":     {"", "EOF"},
	} {
		t.Run(name, func(t *testing.T) {
			ours, theirs := net.Pipe()
			served := make(chan error, 1)
			go func() {
				defer theirs.Close()
				hello, ok, rest, err := link.ReadHello(theirs)
				if err != nil || !ok || hello.ID != "id" {
					served <- fmt.Errorf("hello %+v %v %v", hello, ok, err)
					return
				}
				served <- nil
				if _, err := io.WriteString(theirs, tc.answer); err == nil && tc.want == "" {
					echoAgent(rest, theirs)
				}
			}()
			ctx := within(t)
			c, welcome, err := Greet(ctx, ours, link.Hello{Link: 1, ID: "id"}, Options{})
			if err := <-served; err != nil {
				t.Error(err)
			}
			if tc.want != "" {
				if err == nil || !strings.Contains(err.Error(), tc.want) {
					t.Errorf("got %v", err)
				}
				return
			}
			if err != nil || welcome.PID != 7 {
				t.Fatal(welcome, err)
			}
			if _, err := c.Initialize(ctx); err != nil {
				t.Error(err)
			}
			c.Close()
		})
	}
}

func TestGreetEndsWithItsContext(t *testing.T) {
	ours, theirs := net.Pipe()
	defer theirs.Close()
	ctx, cancel := context.WithCancel(t.Context())
	go func() { _, _, _, _ = link.ReadHello(theirs); cancel() }()
	if _, _, err := Greet(ctx, ours, link.Hello{Link: 1, ID: "id"}, Options{}); !errors.Is(err, context.Canceled) {
		t.Errorf("got %v", err)
	}
}
