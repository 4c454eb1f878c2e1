package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/hermesd/hermesd/transport/acpclient"
	"github.com/hermesd/hermesd/transport/jsonrpc"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// screen is what a terminal shows, to wait on.
type screen struct {
	mu      sync.Mutex
	text    bytes.Buffer
	changed chan struct{}
}

func newScreen() *screen { return &screen{changed: make(chan struct{})} }

func (s *screen) Write(b []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	close(s.changed)
	s.changed = make(chan struct{})
	return s.text.Write(b)
}

func (s *screen) all() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.text.String()
}

// shows waits until the text is on the screen.
func (s *screen) shows(t *testing.T, text string) {
	t.Helper()
	limit := time.After(20 * time.Second)
	for {
		s.mu.Lock()
		all, changed := s.text.String(), s.changed
		s.mu.Unlock()
		if strings.Contains(all, text) {
			return
		}
		select {
		case <-changed:
		case <-limit:
			t.Fatalf("the screen never shows %q:\n%s", text, all)
		}
	}
}

// fakeDaemon plays the other end of a chat: prompts come out of it, and their
// answers are given by the test.
type fakeDaemon struct {
	peer    *jsonrpc.Peer
	prompts chan json.RawMessage
	answers chan any
	notices chan string
}

func startChat(t *testing.T) (*chat, *screen, *fakeDaemon) {
	t.Helper()
	d := &fakeDaemon{prompts: make(chan json.RawMessage, 1), answers: make(chan any, 1), notices: make(chan string, 10)}
	fromDaemon, toChat := io.Pipe()
	fromChat, toDaemon := io.Pipe()
	d.peer = jsonrpc.New(fromChat, toChat, jsonrpc.Options{
		Admit: func(r *jsonrpc.Request) jsonrpc.Handler {
			return func(ctx context.Context) (any, error) {
				d.prompts <- r.Params
				select {
				case a := <-d.answers:
					if err, ok := a.(error); ok {
						return nil, err
					}
					return a, nil
				case <-ctx.Done():
					return nil, ctx.Err()
				}
			}
		},
		Notify: func(method string, _ json.RawMessage, _ uint64) { d.notices <- method },
	})
	d.peer.Start()
	s := newScreen()
	c := &chat{app: newApp(nil, s, s), session: "s", view: newView(s, s), lines: make(chan string), signals: make(chan os.Signal, 2)}
	c.inbox.ready = make(chan struct{}, 1)
	c.client = acpclient.New(fromDaemon, toDaemon, acpclient.Options{Forget: true, Received: c.inbox.post})
	t.Cleanup(func() {
		c.client.Close()
		d.peer.Close(nil)
		_ = d.peer.Wait()
	})
	return c, s, d
}

func (d *fakeDaemon) update(update string) {
	_ = d.peer.Enqueue(jsonrpc.Notification("session/update", json.RawMessage(`{"sessionId":"s","update":`+update+`}`)))
}

func (d *fakeDaemon) says(text string) {
	d.update(`{"sessionUpdate":"agent_message_chunk","messageId":"m","content":{"type":"text","text":"` + text + `"}}`)
}

const endTurn = `{"stopReason":"end_turn"}`

// question asks and gives the answer.
func (d *fakeDaemon) question(ctx context.Context, id string) chan string {
	answer := make(chan string, 1)
	go func() {
		raw, err := d.peer.Call(ctx, id, "session/request_permission", json.RawMessage(
			`{"sessionId":"s","toolCall":{"toolCallId":"t","title":"Write a.txt","content":[{"type":"diff","path":"/w/a.txt","oldText":"one\n","newText":"two\n"}]},`+
				`"options":[{"optionId":"yes","name":"Allow once","kind":"allow_once"},{"optionId":"no","name":"Reject","kind":"reject_once"}]}`))
		if err != nil {
			answer <- err.Error()
			return
		}
		answer <- string(raw)
	}()
	return answer
}

func conversing(c *chat) chan error {
	done := make(chan error, 1)
	go func() { done <- c.converse() }()
	return done
}

func TestChatSendsWhatIsTypedAndShowsTheAnswer(t *testing.T) {
	c, screen, d := startChat(t)
	done := conversing(c)
	screen.shows(t, "> ")
	c.lines <- ""
	c.lines <- `first \`
	screen.shows(t, "… ")
	c.lines <- "second"
	if got := string(<-d.prompts); !strings.Contains(got, `"text":"first \nsecond"`) {
		t.Errorf("the prompt is %s", got)
	}
	d.says("the ")
	d.says("answer")
	screen.shows(t, "the answer")
	d.answers <- json.RawMessage(endTurn)
	screen.shows(t, "the answer\n> ")
	close(c.lines)
	if err := <-done; err != nil {
		t.Error(err)
	}
}

func TestChatAnswersAQuestionByNumber(t *testing.T) {
	c, screen, d := startChat(t)
	done := conversing(c)
	c.lines <- "write"
	<-d.prompts
	answer := d.question(t.Context(), "q")
	screen.shows(t, "? Write a.txt\n  /w/a.txt\n  -one\n  +two\n  1  Allow once\n  2  Reject\n1-2? ")
	c.lines <- "3"
	screen.shows(t, "A number from 1 to 2? ")
	c.lines <- "1"
	if got := <-answer; got != `{"outcome":{"outcome":"selected","optionId":"yes"}}` {
		t.Errorf("answered %s", got)
	}
	d.answers <- json.RawMessage(endTurn)
	close(c.lines)
	if err := <-done; err != nil {
		t.Error(err)
	}
}

func TestChatSaysThatAQuestionIsWithdrawn(t *testing.T) {
	c, screen, d := startChat(t)
	done := conversing(c)
	c.lines <- "write"
	<-d.prompts
	ctx, withdraw := context.WithCancel(t.Context())
	answer := d.question(ctx, "q")
	screen.shows(t, "1-2? ")
	withdraw()
	<-answer
	screen.shows(t, "The question is closed, answered elsewhere or out of time: Write a.txt")
	c.lines <- "1" // too late: no answer, and no prompt either
	screen.shows(t, "The agent is at work")
	d.answers <- json.RawMessage(endTurn)
	close(c.lines)
	if err := <-done; err != nil {
		t.Error(err)
	}
	if len(d.prompts) != 0 {
		t.Error("the late answer became a prompt")
	}
}

func TestCtrlCCancelsTheTurnAndASecondOneLeaves(t *testing.T) {
	c, screen, d := startChat(t)
	done := conversing(c)
	c.lines <- "long"
	<-d.prompts
	c.signals <- os.Interrupt
	if got := <-d.notices; got != "session/cancel" {
		t.Errorf("sent %s", got)
	}
	screen.shows(t, "Ctrl-C once more leaves")
	c.signals <- os.Interrupt
	if err := <-done; err != nil {
		t.Error(err)
	}
	screen.shows(t, "Left. The session goes on: hermesd chat --session s")
	if len(d.notices) != 0 {
		t.Errorf("leaving sent %s", <-d.notices)
	}
}

func TestCancelledTurnLeadsBackToThePrompt(t *testing.T) {
	c, screen, d := startChat(t)
	done := conversing(c)
	c.lines <- "long"
	<-d.prompts
	c.signals <- os.Interrupt
	<-d.notices
	d.answers <- json.RawMessage(`{"stopReason":"cancelled"}`)
	screen.shows(t, "Cancelled.\n> ")
	c.signals <- os.Interrupt // at the prompt it leaves
	if err := <-done; err != nil {
		t.Error(err)
	}
}

func TestFailedTurnIsAnErrorOfASinglePromptOnly(t *testing.T) {
	c, screen, d := startChat(t)
	if err := c.ask("x"); err != nil {
		t.Fatal(err)
	}
	<-d.prompts
	d.answers <- &jsonrpc.Error{Code: -32603, Message: "the model is away"}
	if err := c.finish(); !errors.Is(err, errSaid) {
		t.Errorf("got %v", err)
	}
	screen.shows(t, "✗ the turn failed: the model is away")

	done := conversing(c)
	c.lines <- "y"
	<-d.prompts
	d.answers <- json.RawMessage(`{"stopReason":"max_tokens"}`)
	screen.shows(t, "✗ the turn ended early: max tokens\n> ")
	close(c.lines)
	if err := <-done; err != nil {
		t.Error(err)
	}
}

func TestTurnsOfOthersAreShownWhileWaitingForAPrompt(t *testing.T) {
	c, screen, d := startChat(t)
	done := conversing(c)
	screen.shows(t, "> ")
	d.update(`{"sessionUpdate":"user_message_chunk","messageId":"u","content":{"type":"text","text":"from elsewhere"}}`)
	screen.shows(t, "> from elsewhere")
	d.says("one ")
	screen.shows(t, "one ")
	d.says("two")
	screen.shows(t, "one two")
	d.update(`{"sessionUpdate":"session_info_update","_meta":{"hermes":{"turn":{"state":"idle"}}}}`)
	screen.shows(t, "one two\n> ")
	close(c.lines)
	if err := <-done; err != nil {
		t.Error(err)
	}
}

func TestLostDaemonEndsTheChat(t *testing.T) {
	c, _, d := startChat(t)
	done := conversing(c)
	c.lines <- "x"
	<-d.prompts
	d.peer.Close(nil)
	if err := <-done; err != nil && !errors.Is(err, acpclient.ErrClosed) {
		t.Errorf("got %v", err)
	}
}
