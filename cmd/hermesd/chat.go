package main

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"

	"github.com/spf13/cobra"

	"github.com/hermesd/hermesd/transport/acpclient"
	"github.com/hermesd/hermesd/transport/jsonrpc"
)

func (a *app) chatCommand() *cobra.Command {
	var o chatOptions
	cmd := &cobra.Command{
		Use:   "chat [PROMPT]",
		Short: "A terminal as one more editor: send prompts, watch, answer questions",
		Long: `A terminal as one more editor of a session. The prompt comes from the arguments,
from stdin if that is not a terminal, or is asked for, one after the other (a
line that ends in \ goes on in the next).

Ctrl-C cancels the running turn, a second one leaves; leaving never ends the
session. When stdout is not a terminal it gets the answer and nothing else.`,
		Example: `  hermesd chat "what does this module do?"
  git diff | hermesd chat
  hermesd chat --continue`,
		Args: cobra.ArbitraryArgs,
		RunE: func(cmd *cobra.Command, args []string) error {
			if o.session != "" && o.last {
				return usagef("--session and --continue exclude each other")
			}
			if o.agent != "" && (o.session != "" || o.last) {
				return usagef("--agent is for new sessions; a session keeps its agent")
			}
			if cmd.Flags().Changed("session") && o.session == "" {
				return usagef("--session: give the id of a session, see hermesd sessions list")
			}
			return a.chat(o, strings.Join(args, " "))
		},
	}
	cmd.Flags().StringVar(&o.agent, "agent", "", "the `name` of the agent of the new session (default: the configured one)")
	cmd.Flags().StringVar(&o.session, "session", "", "go on with the session of this `id`")
	cmd.Flags().BoolVarP(&o.last, "continue", "c", false, "go on with the newest session of this folder")
	return cmd
}

type chatOptions struct {
	agent, session string
	last           bool
}

// chat is a conversation in a terminal. One goroutine, loop, owns it and does
// all the printing; the connection, the keyboard and signals only post to it.
type chat struct {
	app     *app
	client  *acpclient.Client
	session string
	view    *view
	inbox   mailbox
	lines   chan string // lines typed or piped, closed at their end
	signals chan os.Signal

	turn        *acpclient.Call // our prompt under way
	cancelled   bool            // Ctrl-C was pressed in this turn
	questions   []*acpclient.Question
	interactive bool
}

// errLeft: the user left while a turn was running.
var errLeft = errors.New("left")

func (a *app) chat(o chatOptions, prompt string) error {
	typed := isTerminal(a.in)
	if prompt == "" && !typed {
		text, err := io.ReadAll(a.in)
		if err != nil {
			return fmt.Errorf("reading the prompt: %w", err)
		}
		if prompt = strings.TrimRight(string(text), "\n"); strings.TrimSpace(prompt) == "" {
			return usagef("there is no prompt: give one as argument or on stdin")
		}
	}

	c := &chat{app: a, view: newView(a.out, a.err), signals: make(chan os.Signal, 2), interactive: prompt == ""}
	c.inbox.ready = make(chan struct{}, 1)
	signal.Notify(c.signals, os.Interrupt, syscall.SIGTERM)
	defer signal.Stop(c.signals)
	defer c.view.close()

	if err := c.connect(o); err != nil {
		return err
	}
	defer c.client.Close()
	if typed {
		c.lines = make(chan string)
		// Ends with the process: a read of a terminal cannot be ended.
		go readLines(a.in, c.lines)
	}
	if c.interactive {
		return c.converse()
	}
	if err := c.ask(prompt); err != nil {
		return err
	}
	return c.finish()
}

// connect joins the session, starting a daemon if there is none. Ctrl-C ends it.
func (c *chat) connect(o chatOptions) error {
	ctx, cancel := context.WithCancelCause(context.Background())
	defer cancel(nil)
	done := make(chan struct{})
	var waiting sync.WaitGroup
	waiting.Go(func() {
		select {
		case <-c.signals:
			cancel(errors.New("interrupted"))
		case <-done:
		}
	})
	defer waiting.Wait()
	defer close(done)
	c.view.busy("connecting to hermesd")
	defer c.view.rest()

	client, err := c.app.dial(ctx, dialOptions{Start: true, Agent: o.agent, Env: true, Client: acpclient.Options{
		Name: "hermesd chat", Forget: true, Received: c.inbox.post,
	}})
	if err != nil {
		return err
	}
	if err := c.join(ctx, client, o); err != nil {
		client.Close()
		return err
	}
	c.client = client
	return nil
}

// join makes or loads the session.
func (c *chat) join(ctx context.Context, client *acpclient.Client, o chatOptions) error {
	cwd, err := os.Getwd()
	if err != nil {
		return err
	}
	var found acpclient.SessionInfo
	switch {
	case o.session != "":
		found, err = findSession(ctx, client, o.session)
	case o.last:
		var list []acpclient.SessionInfo
		if list, err = client.List(ctx, cwd); err != nil {
			break
		}
		if len(list) == 0 {
			err = notFoundf("there is no session of %s to continue", cwd)
			break
		}
		found = list[0]
	default:
		s, err := client.NewSession(ctx, cwd)
		c.session = s.ID
		return err
	}
	if err != nil {
		return err
	}
	c.session = found.ID
	found.Cwd = filepath.Clean(found.Cwd)
	join := client.Join // as it is: a terminal that looks in takes no roots away
	if !c.interactive && !isTerminal(c.app.out) {
		join = client.JoinLive // the answer and nothing else
	}
	_, err = join(ctx, found)
	return err
}

// converse takes prompts until the input ends.
func (c *chat) converse() error {
	c.view.note("Session %s. Ctrl-C cancels a turn, Ctrl-D leaves.", c.session)
	for {
		text, err := c.prompt()
		if err != nil || text == "" {
			return err
		}
		if err := c.ask(text); err != nil {
			return err
		}
		switch err := c.finish(); {
		case errors.Is(err, errLeft):
			return nil
		case errors.Is(err, errSaid): // the turn failed, not the conversation
		case err != nil:
			return err
		}
	}
}

// prompt waits for something to ask; "" at the end of the input. What happens in
// the session meanwhile is shown.
func (c *chat) prompt() (string, error) {
	var text strings.Builder
	for {
		if len(c.questions) == 0 && !c.view.streaming() {
			if text.Len() == 0 {
				c.view.ready("> ")
			} else {
				c.view.ready("… ")
			}
		}
		select {
		case line, ok := <-c.lines:
			c.view.typed()
			switch {
			case !ok:
				c.view.line("")
				return "", nil
			case len(c.questions) > 0:
				c.answer(line)
				continue
			}
			if more, ok := strings.CutSuffix(line, `\`); ok {
				text.WriteString(more + "\n")
				continue
			}
			text.WriteString(line)
			if strings.TrimSpace(text.String()) == "" {
				text.Reset()
				continue
			}
			return text.String(), nil
		case <-c.inbox.ready:
			if err := c.receive(); err != nil {
				return "", err
			}
		case <-c.signals:
			c.view.line("")
			return "", nil
		}
	}
}

// ask sends a prompt.
func (c *chat) ask(text string) error {
	call, err := c.client.StartPrompt(c.session, text)
	if err != nil {
		return connectionLost(err)
	}
	c.turn, c.cancelled = call, false
	c.view.busy("working")
	return nil
}

// finish shows the turn until its end. errSaid if it failed, errLeft if the user
// left before.
func (c *chat) finish() error {
	lines := c.lines
	for {
		select {
		case <-c.inbox.ready:
			if err := c.receive(); err != nil {
				return err
			}
		case <-c.turn.Done():
			// All of the turn was posted before.
			if err := c.receive(); err != nil {
				return err
			}
			return c.ended()
		case line, ok := <-lines:
			if !ok {
				lines = nil // Ctrl-D: the turn is shown to its end
				continue
			}
			c.view.typed()
			if len(c.questions) > 0 {
				c.answer(line)
			} else if strings.TrimSpace(line) != "" {
				c.view.note("The agent is at work; Ctrl-C cancels the turn.")
			}
		case <-c.signals:
			if c.cancelled {
				c.view.note("Left. The session goes on: hermesd chat --session %s", c.session)
				return errLeft
			}
			c.cancelled = true
			if err := c.client.Cancel(c.session); err != nil {
				return connectionLost(err)
			}
			c.view.note("Cancelling the turn; Ctrl-C once more leaves.")
		}
	}
}

// ended says how the turn ended.
func (c *chat) ended() error {
	raw, err := c.turn.Wait(context.Background())
	c.turn = nil
	c.view.rest()
	c.view.endMessage()
	if err == nil {
		var r acpclient.PromptResult
		if r, err = acpclient.ParsePromptResult(raw); err == nil && r.StopReason == "end_turn" {
			return nil
		}
		if err == nil {
			err = fmt.Errorf("the turn ended early: %s", strings.ReplaceAll(r.StopReason, "_", " "))
		}
	}
	var wire *jsonrpc.Error
	if errors.As(err, &wire) {
		err = fmt.Errorf("the turn failed: %w", wire)
	}
	if c.cancelled {
		c.view.note("Cancelled.")
	} else {
		c.view.fail(connectionLost(err).Error())
	}
	return errSaid
}

// receive shows what has come in.
func (c *chat) receive() error {
	for _, e := range c.inbox.take() {
		if e.Kind == acpclient.Closed {
			c.view.rest()
			if c.turn != nil {
				return connectionLost(c.client.Err())
			}
			return connectionLost(acpclient.ErrClosed)
		}
		if e.Session != c.session && e.Session != "" && c.session != "" {
			continue
		}
		switch e.Kind {
		case acpclient.Update:
			c.view.update(e.Update, e.Raw)
		case acpclient.Asked:
			if e.Method == "session/request_permission" {
				q := acpclient.ParseQuestion(e.ID, e.Raw)
				c.questions = append(c.questions, &q)
				c.show()
			}
		case acpclient.Withdrawn:
			c.withdrawn(e.ID)
		}
	}
	if c.turn != nil && len(c.questions) == 0 {
		c.view.busy("working")
	}
	return nil
}

// show puts the first open question, if it is the only one or has become the
// first.
func (c *chat) show() {
	if len(c.questions) == 0 {
		return
	}
	q := c.questions[len(c.questions)-1]
	c.view.question(*q)
	if c.lines == nil {
		var id string
		_ = json.Unmarshal([]byte(q.ID), &id) // the daemon's ids are strings
		c.view.note("Answer it in an editor, or with: hermesd permissions answer %s %s", id, strings.Join(optionIDs(q.Options), "|"))
		return
	}
	c.view.ready(fmt.Sprintf("1-%d? ", len(q.Options)))
}

// answer takes a line as the choice for the question that was shown last.
func (c *chat) answer(line string) {
	q := c.questions[len(c.questions)-1]
	n, err := strconv.Atoi(strings.TrimSpace(line))
	if err != nil || n < 1 || n > len(q.Options) {
		c.view.ready(fmt.Sprintf("A number from 1 to %d? ", len(q.Options)))
		return
	}
	c.questions = c.questions[:len(c.questions)-1]
	if errors.Is(c.client.Answer(q.ID, q.Options[n-1].ID), acpclient.ErrNotOpen) {
		// Its withdrawal is on its way to us.
		c.view.note("Somebody else was faster.")
	}
	c.show()
	if c.turn != nil && len(c.questions) == 0 {
		c.view.busy("working")
	}
}

func (c *chat) withdrawn(id string) {
	for i, q := range c.questions {
		if q.ID != id {
			continue
		}
		c.questions = append(c.questions[:i], c.questions[i+1:]...)
		c.view.note("The question is closed, answered elsewhere or out of time: %s", oneLine(q.Title))
		c.show()
		return
	}
}

// mailbox hands entries from the connection's goroutine to the loop. It is
// unbounded: what the terminal has not shown yet waits here.
type mailbox struct {
	ready   chan struct{} // holds one token while there may be something
	mu      sync.Mutex
	entries []acpclient.Entry
}

func (m *mailbox) post(e acpclient.Entry) {
	m.mu.Lock()
	m.entries = append(m.entries, e)
	m.mu.Unlock()
	select {
	case m.ready <- struct{}{}:
	default:
	}
}

func (m *mailbox) take() []acpclient.Entry {
	m.mu.Lock()
	defer m.mu.Unlock()
	entries := m.entries
	m.entries = nil
	return entries
}

// readLines posts each line of r, and closes lines at its end.
func readLines(r io.Reader, lines chan<- string) {
	defer close(lines)
	s := bufio.NewScanner(r)
	s.Buffer(nil, 16<<20)
	for s.Scan() {
		lines <- strings.TrimSuffix(s.Text(), "\r")
	}
}
