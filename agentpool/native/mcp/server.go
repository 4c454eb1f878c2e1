package mcp

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"
)

const (
	firstPause = time.Second // before the second try
	maxPause   = time.Minute
	// maxTries is how often a server that fails is tried in a row; then only
	// when somebody wants it.
	maxTries = 6
	// minPause is what lies between two tries, whoever wants it.
	minPause = time.Second
	// steady is how long a server must have lived for its end to be the first
	// in a row.
	steady = time.Minute
)

// server is one server of a session.
type server struct {
	spec  Server
	opts  Options
	tried chan struct{} // closed when the first try is over
	wake  chan struct{} // capacity 1: somebody wants it
	over  chan struct{} // closed when run has ended

	mu    sync.Mutex
	now   condition
	moved chan struct{} // closed, and made anew, when now changes
	calls []*call       // that run, in the order they began
}

// condition is what a server is at a moment. The slices are not written to.
type condition struct {
	state        State
	reason       string // of Failed
	tries        int    // ever begun
	link         *link  // nil unless Ready
	tools        []Tool // nil unless Ready
	known        []Tool // tools it had last
	instructions string
}

func newServer(spec Server, opts Options) *server {
	if spec.Timeout <= 0 {
		spec.Timeout = opts.CallTime
	}
	return &server{
		spec: spec, opts: opts, tried: make(chan struct{}), wake: make(chan struct{}, 1), over: make(chan struct{}),
		now: condition{state: Starting, tries: 1}, moved: make(chan struct{}),
	}
}

func (s *server) snapshot() condition {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.now
}

func (s *server) change(f func(*condition)) {
	s.mu.Lock()
	f(&s.now)
	close(s.moved)
	s.moved = make(chan struct{})
	s.mu.Unlock()
}

func (s *server) nudge() {
	if s.snapshot().state != Failed {
		return
	}
	select {
	case s.wake <- struct{}{}:
	default:
	}
}

// run is the server's life: connect, serve, and again when it has ended.
func (s *server) run(ctx context.Context) {
	first := sync.OnceFunc(func() { close(s.tried) })
	defer func() {
		s.change(func(c *condition) { c.state, c.reason, c.link, c.tools = Failed, errOver.Error(), nil, nil })
		close(s.over)
		first()
	}()
	told := false // the user knows that it failed
	for failures := 0; ; {
		flaps := false // it works and ends and works: said once
		l, err := s.start(ctx)
		if ctx.Err() != nil {
			if l != nil {
				l.close()
			}
			return
		}
		ended := time.Now()
		if err == nil {
			s.change(func(c *condition) {
				c.state, c.reason, c.link = Ready, "", l
				c.tools, c.known, c.instructions = l.tools, l.tools, l.instructions
			})
			first()
			if told {
				s.opts.Tell(fmt.Sprintf("The MCP server %s works again.", quoted(s.spec.Name)))
				told = false
			}
			began := time.Now()
			err = s.serve(ctx, l)
			s.change(func(c *condition) { c.link, c.tools = nil, nil })
			l.close()
			if ctx.Err() != nil {
				return
			}
			ended = time.Now()
			if ended.Sub(began) >= steady {
				failures = 0
			}
			flaps = failures > 0
		}
		failures++
		reason := s.spec.redact(err.Error())
		s.change(func(c *condition) { c.state, c.reason = Failed, reason })
		first()
		if !told && !flaps {
			told = true
			s.opts.Tell(fmt.Sprintf("The MCP server %s does not work: %s. It is tried again; `/mcp` says how it is doing.", quoted(s.spec.Name), reason))
		}
		if !s.pause(ctx, failures, ended) {
			return
		}
		s.change(func(c *condition) { c.state = Starting; c.tries++ })
	}
}

// pause waits until it is time for another try; false if there is none.
func (s *server) pause(ctx context.Context, failures int, ended time.Time) bool {
	select {
	case <-s.wake: // wanted before it failed
	default:
	}
	d := time.Duration(-1) // for ever
	switch {
	case failures == 1:
		d = minPause
	case failures < maxTries:
		d = min(maxPause, firstPause<<(failures-1))
	}
	for {
		var due <-chan time.Time
		if d >= 0 {
			timer := time.NewTimer(time.Until(ended.Add(d)))
			defer timer.Stop()
			due = timer.C
		}
		select {
		case <-due:
			return true
		case <-s.wake:
			d = minPause
		case <-ctx.Done():
			return false
		}
	}
}

// start connects within the time there is for it, and lists the tools.
func (s *server) start(ctx context.Context) (*link, error) {
	limited, cancel := context.WithTimeout(ctx, s.opts.StartTime)
	defer cancel()
	l, err := s.opts.dial(limited, s)
	if err == nil {
		err = l.list(limited)
		if err != nil {
			l.close()
			err = l.failure(err)
		}
	}
	if err != nil {
		if limited.Err() != nil && ctx.Err() == nil {
			err = fmt.Errorf("it was not ready within %s", s.opts.StartTime)
		}
		return nil, err
	}
	return l, nil
}

// serve returns when the connection has ended, with the reason, or with ctx.
func (s *server) serve(ctx context.Context, l *link) error {
	for {
		select {
		case <-l.done:
			return l.failure(nil)
		case <-ctx.Done():
			return ctx.Err()
		case <-l.listChanged:
			limited, cancel := context.WithTimeout(ctx, s.opts.StartTime)
			// Without an answer what is known stays; a connection that is
			// broken ends by itself.
			if l.list(limited) == nil {
				s.change(func(c *condition) { c.tools, c.known = l.tools, l.tools })
			}
			cancel()
		}
	}
}

// ready returns a connection, waiting while one is being made. If the server
// has failed it is tried once more, soon.
func (s *server) ready(ctx context.Context) (*link, error) {
	from := s.snapshot()
	if from.state == Failed {
		s.nudge()
	}
	for {
		s.mu.Lock()
		now, moved := s.now, s.moved
		s.mu.Unlock()
		switch {
		case now.state == Ready && now.link != nil && !now.link.over():
			return now.link, nil
		case now.state == Failed && (from.state == Starting || now.tries > from.tries):
			return nil, errors.New(now.reason)
		}
		select {
		case <-moved:
		case <-s.over:
			return nil, errOver
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
}

var errOver = errors.New("the session has ended")

// enter notes that a call runs; the returned function that it is over.
func (s *server) enter(c *call) (leave func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.calls = append(s.calls, c)
	return func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.calls = slices.DeleteFunc(s.calls, func(x *call) bool { return x == c })
	}
}

// find returns a running call that matches, the last one that began.
func (s *server) find(match func(*call) bool) *call {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, c := range slices.Backward(s.calls) {
		if match(c) {
			return c
		}
	}
	return nil
}

func quoted(name string) string { return "“" + clean(name, 100) + "”" }
