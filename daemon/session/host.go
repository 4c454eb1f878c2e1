package session

import "context"

// host is the session as one opening of its agent sees it.
type host struct{ s *Session }

func (h *host) Update(ctx context.Context, update []byte) error {
	return h.say(ctx, KindUpdate, update)
}
func (h *host) Record(ctx context.Context, data []byte) error {
	return h.say(ctx, KindAgentRecord, data)
}

func (h *host) say(ctx context.Context, k Kind, data []byte) error {
	if err := h.s.credit.take(ctx, int64(len(data))); err != nil {
		return err
	}
	if !h.s.inbox.post(message{host: h, kind: k, data: data}) {
		h.s.credit.release(int64(len(data)))
		return ErrClosed
	}
	return nil
}

func (h *host) Barrier(ctx context.Context) error {
	done := make(chan error, 1)
	h.s.post(func() { h.s.whenDurable(func() { done <- nil }) }, func(err error) { done <- err })
	select {
	case err := <-done:
		return err
	case <-ctx.Done():
		return ctx.Err()
	}
}

func (h *host) Ask(ctx context.Context, ask Question) (Answer, error) {
	s := h.s
	q := &question{options: ask.Options, reply: make(chan Answer, 1),
		shown: make(map[string]bool), abstained: make(map[string]bool), later: make(map[string]bool)}
	s.post(func() { s.ask(h, ask, q) }, func(error) { q.reply <- Answer{Outcome: Interrupted} })
	select {
	case a := <-q.reply:
		return a, nil
	case <-ctx.Done():
	}
	s.post(func() {
		if !q.answered {
			s.closeQuestion(q, QuestionAnswered{Outcome: Cancelled})
		}
	}, func(error) {
		select {
		case q.reply <- Answer{Outcome: Interrupted}:
		default:
		}
	})
	return <-q.reply, nil
}

// Set is what an editor's change is, made by the agent: it stands in line with
// those of editors.
func (h *host) Set(ctx context.Context, change Change) error {
	s := h.s
	done := make(chan error, 1)
	s.post(func() {
		if s.host != h || s.agent == nil {
			done <- ErrClosed
			return
		}
		a := s.agent
		var now Settings
		var err error
		s.do(op{
			run: func(ctx context.Context) { now, err = s.set(ctx, a, change) },
			done: func() {
				if err == nil && !s.decided.Deleted {
					s.changed(Origin{}, now)
				}
				done <- err
			},
			fail: func(err error) { done <- err },
		})
	}, func(err error) { done <- err })
	select {
	case err := <-done:
		return err
	case <-ctx.Done():
		return ctx.Err()
	}
}

func (h *host) Changed(ctx context.Context, now Settings) error {
	s := h.s
	if !s.inbox.post(message{act: func() {
		// Before the session exists its first settings are those of Open.
		if s.host != h || !s.born || s.decided.Deleted {
			return
		}
		if old := s.decided.Settings; string(old.Modes) != string(now.Modes) || string(old.Options) != string(now.Options) {
			s.changed(Origin{}, now)
		}
	}}) {
		return ErrClosed
	}
	return ctx.Err()
}
