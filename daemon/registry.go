package daemon

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/hermesd/hermesd/daemon/session"
)

// registry knows which sessions are in memory, and brings in those that are
// not.
type registry struct {
	cfg    session.Config
	store  session.Store
	agents session.Agents

	mu      sync.Mutex
	live    map[session.ID]*session.Session
	leaving map[session.ID]bool // are being deleted, and in nobody's memory
	stopped bool
}

func newRegistry(cfg session.Config, store session.Store, agents session.Agents) *registry {
	r := &registry{store: store, agents: agents, live: make(map[session.ID]*session.Session), leaving: make(map[session.ID]bool)}
	r.cfg = cfg
	r.cfg.Evict = r.evict
	return r
}

var errStopping = &session.Error{Code: session.CodeInternal, Message: "the daemon is stopping: try again when it is back"}

// get gives a session that exists. It does no I/O: a session that is not in
// memory opens in the background and answers everybody when it has.
func (r *registry) get(id session.ID) (*session.Session, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.stopped {
		return nil, errStopping
	}
	s := r.live[id]
	if s != nil && s.Touch() {
		return s, nil
	}
	if _, ok := r.store.Lookup(id); !ok || r.leaving[id] {
		return nil, session.ErrNotFound
	}
	var after <-chan struct{}
	if s != nil {
		after = s.Done()
	}
	s = session.Open(id, r.cfg, r.store, r.agents, after)
	r.live[id] = s
	return s, nil
}

// peek gives a session only if it is in memory.
func (r *registry) peek(id session.ID) *session.Session {
	r.mu.Lock()
	defer r.mu.Unlock()
	if s := r.live[id]; s != nil && !s.Leaving() {
		return s
	}
	return nil
}

func (r *registry) all() []*session.Session {
	r.mu.Lock()
	defer r.mu.Unlock()
	all := make([]*session.Session, 0, len(r.live))
	for _, s := range r.live {
		all = append(all, s)
	}
	return all
}

func (r *registry) evict(s *session.Session) {
	r.mu.Lock()
	if r.live[s.ID()] == s {
		delete(r.live, s.ID())
	}
	r.mu.Unlock()
}

// create makes a session and waits until it is durable.
func (r *registry) create(ctx context.Context, meta session.Meta, o session.Origin) (*session.Session, error) {
	return r.make(ctx, meta.ID, func(ready func(error)) *session.Session {
		return session.Create(meta, o, r.cfg, r.store, r.agents, ready)
	})
}

// fork makes a session from another one and waits until it is durable.
func (r *registry) fork(ctx context.Context, src *session.Session, meta session.Meta, o session.Origin) (*session.Session, error) {
	return r.make(ctx, meta.ID, func(ready func(error)) *session.Session {
		return session.Fork(src, meta, o, r.cfg, r.store, r.agents, ready)
	})
}

func (r *registry) make(ctx context.Context, id session.ID, start func(ready func(error)) *session.Session) (*session.Session, error) {
	r.mu.Lock()
	if r.stopped {
		r.mu.Unlock()
		return nil, errStopping
	}
	ready := make(chan error, 1)
	s := start(func(err error) {
		select {
		case ready <- err:
		default:
		}
	})
	r.live[id] = s
	r.mu.Unlock()
	select {
	case err := <-ready:
		if err != nil {
			r.evict(s)
			return nil, err
		}
		return s, nil
	case <-s.Done():
		r.evict(s)
		select {
		case err := <-ready: // why it has ended
			if err != nil {
				return nil, err
			}
		default:
		}
		return nil, session.ErrClosed
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

// stopGrace is how long an agent has to end its turn when the daemon stops.
const stopGrace = 8 * time.Second

// delete removes a session for good; unknown ids are no error.
func (r *registry) delete(ctx context.Context, id session.ID, o session.Origin) error {
	s, err := r.get(id)
	if errors.Is(err, session.ErrNotFound) {
		return nil
	}
	if err != nil {
		return err
	}
	done := make(chan error, 1)
	s.Delete(o, func(err error) { done <- err })
	select {
	case err = <-done:
	case <-s.Done():
		select {
		case err = <-done:
		default:
			err = session.ErrClosed // it ended for another reason before
		}
	case <-ctx.Done():
		return ctx.Err()
	}
	if err == nil {
		return nil
	}
	// A log that can't be read must not be a session that can't be deleted.
	select {
	case <-s.Done():
	case <-ctx.Done():
		return ctx.Err()
	}
	if err := r.store.Delete(ctx, id); err != nil {
		return fmt.Errorf("deleting session %s: %w", id, err)
	}
	return nil
}

// stop ends all sessions in good order and lets in no new ones.
func (r *registry) stop(ctx context.Context) error {
	r.mu.Lock()
	r.stopped = true
	r.mu.Unlock()
	all := r.all()
	for _, s := range all {
		s.Stop(stopGrace)
	}
	for _, s := range all {
		select {
		case <-s.Done():
		case <-ctx.Done():
			return fmt.Errorf("session %s did not end: %w", s.ID(), ctx.Err())
		}
	}
	return nil
}

func newMeta(now time.Time) session.Meta {
	now = now.UTC()
	return session.Meta{ID: session.NewID(now), Created: now, Updated: now}
}
