package mcp

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"sync/atomic"
	"time"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"
)

// maxCalls is how many times its time limit a call may last that shows signs
// of life.
const maxCalls = 12

// progressPause is what lies between two pieces of progress that are shown.
const progressPause = 200 * time.Millisecond

// call is one that runs.
type call struct {
	ctx    context.Context // ends with it
	token  string
	asker  Asker         // nil: there is nobody to be asked
	form   chan struct{} // capacity 1: full while a form stands before the user
	forms  atomic.Int32  // that were ever asked for
	asking atomic.Int32  // forms that stand before the user, or wait until they may
	news   chan Progress // capacity 1, the latest
	alive  chan struct{} // capacity 1: something came
}

// Progress is what a server says of a call that runs.
type Progress struct {
	Done, Total float64 // Total 0: not known
	Message     string
}

// String is the progress in words.
func (p Progress) String() string {
	text := "Progress: " + strconv.FormatFloat(p.Done, 'g', 6, 64)
	if p.Total > 0 {
		text += " of " + strconv.FormatFloat(p.Total, 'g', 6, 64)
	}
	if p.Message != "" {
		text += ": " + clean(p.Message, 300)
	}
	return text
}

// Call calls a tool and returns what came of it; failed means that the tool says
// so itself. progress is called on this goroutine. A server that is starting is
// waited for, one that has failed tried once more. The call ends with ctx, and
// when its time is over; the server is told. It is never made twice.
func (set *Set) Call(ctx context.Context, server, name string, args json.RawMessage, asker Asker, progress func(Progress)) (*sdk.CallToolResult, error) {
	s := set.server(server)
	if s == nil {
		return nil, fmt.Errorf("there is no MCP server %q in this session%s", server, set.names())
	}
	l, err := s.ready(ctx)
	if ctx.Err() != nil {
		return nil, ctx.Err()
	}
	if err != nil {
		return nil, fmt.Errorf("the MCP server %s does not work: %w", quoted(server), err)
	}
	res, err := l.call(ctx, name, args, asker, progress)
	if err != nil && ctx.Err() == nil {
		err = errors.New(s.spec.redact(err.Error()))
	}
	return res, err
}

var errTime = errors.New("nothing came in time")

// call makes one call. Its answer is waited for beside everything else that
// may happen to it.
func (l *link) call(ctx context.Context, name string, args json.RawMessage, asker Asker, progress func(Progress)) (*sdk.CallToolResult, error) {
	s := l.server
	type outcome struct {
		res *sdk.CallToolResult
		err error
	}
	over := make(chan outcome, 1)
	limited, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	c := &call{
		ctx: limited, token: "call-" + strconv.FormatInt(l.tokens.Add(1), 10), asker: asker,
		form: make(chan struct{}, 1), news: make(chan Progress, 1), alive: make(chan struct{}, 1),
	}
	defer s.enter(c)()
	watching, w := watched(limited)
	params := &sdk.CallToolParams{Name: name, Arguments: args}
	params.SetProgressToken(c.token)
	go func() { // ends with limited
		res, err := l.session.CallTool(watching, params)
		over <- outcome{res, err}
	}()

	limit := time.NewTimer(s.spec.Timeout)
	defer limit.Stop()
	whole := time.NewTimer(maxCalls * s.spec.Timeout)
	defer whole.Stop()
	lost, late := w.lost, (<-chan time.Time)(nil)
	news, quiet := c.news, (<-chan time.Time)(nil)
	for {
		select {
		case o := <-over:
			switch {
			case o.err == nil:
				return o.res, nil
			case ctx.Err() != nil:
				return nil, ctx.Err()
			case errors.Is(context.Cause(limited), errTime):
				return nil, fmt.Errorf("the MCP server %s did not answer the call within %s: it was cancelled, what it did is unknown", quoted(s.spec.Name), s.spec.Timeout)
			case isAnswer(o.err):
				return nil, fmt.Errorf("the MCP server %s refused the call: %w", quoted(s.spec.Name), s.spec.short(o.err))
			}
			return nil, fmt.Errorf("the MCP server %s failed in the call: %w; what the call did is unknown", quoted(s.spec.Name), l.failure(o.err))
		case p := <-news:
			if progress != nil {
				progress(p)
			}
			news, quiet = nil, time.After(progressPause)
		case <-quiet:
			news, quiet = c.news, nil
		case <-c.alive:
			limit.Reset(s.spec.Timeout)
		case <-limit.C:
			if c.asking.Load() > 0 {
				limit.Reset(s.spec.Timeout) // it waits for the user, not we for it
				continue
			}
			cancel(errTime)
		case <-whole.C:
			cancel(errTime)
		case <-lost:
			// The answer may have been the last that came.
			timer := time.NewTimer(exitTime)
			defer timer.Stop()
			lost, late = nil, timer.C
		case <-late:
			return nil, fmt.Errorf("the MCP server %s ended the connection in the middle of the call: what the call did is unknown", quoted(s.spec.Name))
		}
	}
}

// progress takes what a server says of a call.
func (l *link) progress(p *sdk.ProgressNotificationParams) {
	if p == nil {
		return
	}
	token, _ := p.ProgressToken.(string)
	c := l.server.find(func(c *call) bool { return c.token == token })
	if c == nil {
		return // of a call that is over
	}
	select {
	case c.alive <- struct{}{}:
	default:
	}
	select {
	case <-c.news: // only the latest counts
	default:
	}
	select {
	case c.news <- Progress{Done: p.Progress, Total: p.Total, Message: p.Message}:
	default:
	}
}
