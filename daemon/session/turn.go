package session

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"
)

// turn is the one that runs, as the session's goroutine knows it.
type turn struct {
	prompt    Seq
	origin    Origin
	started   Seq
	cancel    context.CancelCauseFunc
	cancelled bool
	by        Origin // who cancelled it
	grace     *time.Timer
	after     []func() // when its TurnEnded has been appended
}

// ErrCancelled is the cause of a turn's context when somebody cancelled it.
var ErrCancelled = errors.New("cancelled")

// Prompt admits a prompt: it is queued, in the log, and answered by the events
// that end it. refuse is called instead if it cannot be taken.
func (s *Session) Prompt(o Origin, blocks, meta json.RawMessage, refuse func(error)) {
	s.post(func() {
		switch {
		case s.deleting:
			refuse(ErrNotFound)
		case s.leaving:
			refuse(&Error{Code: CodeInternal, Message: "the daemon is stopping: send the prompt again when it is back"})
		case s.decided.Deleted:
			refuse(ErrNotFound)
		case s.storeErr.Load() != nil:
			refuse(&Error{Code: CodeStoreReadOnly, Message: fmt.Sprintf("the session store cannot write (%v): free some space, then send the prompt again", s.storeErr.Load().err)})
		default:
			s.admit(o, blocks, meta, refuse)
		}
	}, refuse)
}

// admit takes a prompt. The limit is of those that wait: what goes into the
// running turn, as a command that takes prompts back, does not.
func (s *Session) admit(o Origin, blocks, meta json.RawMessage, refuse func(error)) {
	p := s.split(s.head()+1, blocks, meta, o.Environ)
	got, joins := s.offer(p)
	if !joins && len(s.decided.Queue) >= s.cfg.MaxQueue {
		refuse(&Error{Code: CodeBusy, Message: fmt.Sprintf("%d prompts are waiting in this session already: wait for one to end or cancel some", s.cfg.MaxQueue)})
		return
	}
	s.append(KindPromptAdmitted, 0, encode(PromptAdmitted{Origin: o, Prompt: blocks, Meta: meta}))
	if s.content == nil {
		s.content = make(map[Seq]Turn)
	}
	s.content[p.Seq] = p
	if joins {
		s.joins(p.Seq, o, got)
		return
	}
	s.startNext()
}

// split makes the turn of a prompt.
func (s *Session) split(p Seq, blocks, meta json.RawMessage, environ *Environ) Turn {
	t := Turn{Seq: p, Meta: meta, Environ: environ.List()}
	if err := json.Unmarshal(blocks, &t.Blocks); err != nil {
		s.warn("splitting a prompt", err)
	}
	return t
}

// forget drops the content of a prompt that is queued no longer.
func (s *Session) forget(p Seq) {
	if delete(s.content, p); len(s.content) == 0 {
		s.content = nil // an idle session keeps little
	}
}

// startNext starts the first queued prompt if nothing stands before it: no
// running turn and no setting that arrived earlier and is not done yet.
func (s *Session) startNext() {
	if s.turn != nil || len(s.decided.Queue) == 0 || s.waitsForAgent() || s.leaving || s.ended != nil {
		return
	}
	q := s.decided.Queue[0]
	s.append(KindTurnStarted, 0, encode(TurnStarted{Prompt: q.Seq}))
	t := &turn{prompt: q.Seq, origin: q.Origin, started: s.head()}
	s.turn = t
	var ctx context.Context
	ctx, t.cancel = context.WithCancelCause(s.ctx)
	ask := s.content[q.Seq]
	s.forget(q.Seq)
	s.servedFor(ask.Environ)
	s.withAgent(func(err error) {
		if s.turn != t {
			return // given up meanwhile
		}
		if err != nil {
			s.turnOver(t, TurnResult{}, err)
			return
		}
		a := s.agent
		s.launch = append(s.launch, func() {
			res, err := prompt(ctx, a, ask)
			s.post(func() { s.turnOver(t, res, err) }, nil)
		})
	})
}

// prompt runs the agent's turn; a panic of ours in an agent ends the turn, not
// the daemon with everybody's sessions.
func prompt(ctx context.Context, a Agent, ask Turn) (res TurnResult, err error) {
	defer func() {
		if x := recover(); x != nil {
			err = fmt.Errorf("the agent panicked: %v", x)
		}
	}()
	return a.Prompt(ctx, ask)
}

// turnOver appends the end of t and starts what waits.
func (s *Session) turnOver(t *turn, res TurnResult, err error) {
	if s.turn != t {
		return // freed before: the grace after a cancel had passed
	}
	s.turn = nil
	t.cancel(nil)
	if t.grace != nil {
		t.grace.Stop()
	}
	s.closeQuestions(t.prompt, Cancelled)
	end := TurnEnded{Prompt: t.prompt, StopReason: res.StopReason, Usage: res.Usage, Meta: res.Meta}
	switch {
	case t.cancelled:
		end.StopReason, end.By = "cancelled", t.by
	case err != nil:
		end = TurnEnded{Prompt: t.prompt, Error: wireError(err)}
	case end.StopReason == "":
		end.StopReason = "end_turn"
	}
	s.append(KindTurnEnded, 0, encode(end))
	for _, do := range t.after {
		do()
	}
	s.startNext()
}

// wireError is err as the editor gets it.
func wireError(err error) *Error {
	var e *Error
	if errors.As(err, &e) {
		return e
	}
	return &Error{Code: CodeInternal, Message: err.Error()}
}

// cancelTurn asks the running turn to end, for by. The agent has CancelGrace for
// it, then the turn is freed and the agent given up.
func (s *Session) cancelTurn(by Origin) {
	t := s.turn
	if t == nil || t.cancelled {
		return
	}
	t.cancelled, t.by = true, by
	t.cancel(ErrCancelled)
	s.closeQuestions(t.prompt, Cancelled)
	t.grace = time.AfterFunc(s.cfg.CancelGrace, func() {
		s.post(func() {
			if s.turn == t {
				s.giveUpAgent(fmt.Sprintf("did not end its turn within %s of the cancel", s.cfg.CancelGrace))
				s.turnOver(t, TurnResult{}, nil)
			}
		}, nil)
	})
}

// Cancel is session/cancel of a connection whose cursor has passed the event
// passed.
func (s *Session) Cancel(o Origin, passed Seq) {
	s.post(func() {
		own, conn := false, o.Conn
		var mine []Seq
		for _, q := range s.decided.Queue {
			if q.Origin.Conn == conn {
				mine = append(mine, q.Seq)
			}
		}
		withdraw := func() { s.withdraw(mine, o, "cancelled", 0) }
		if t := s.turn; t != nil {
			own = t.origin.Conn == conn
			if own || len(mine) == 0 && passed >= t.started {
				// Queued prompts are answered after the one before them. They
				// can't start: withdraw comes before startNext in turnOver.
				t.after = append(t.after, withdraw)
				s.cancelTurn(o)
				return
			}
		}
		withdraw()
	}, nil)
}

// CancelPrompt is $/cancel_request of a connection for the prompt that its
// request made.
func (s *Session) CancelPrompt(o Origin, request json.RawMessage) {
	s.post(func() {
		conn := o.Conn
		if t := s.turn; t != nil && t.origin.Conn == conn && string(t.origin.Request) == string(request) {
			s.cancelTurn(o)
			return
		}
		for _, q := range s.decided.Queue {
			if q.Origin.Conn == conn && string(q.Origin.Request) == string(request) {
				s.withdraw([]Seq{q.Seq}, o, "request cancelled", CodeCancelled)
				return
			}
		}
	}, nil)
}

// withdraw takes queued prompts back, for by.
func (s *Session) withdraw(prompts []Seq, by Origin, why string, code int) {
	for _, p := range prompts {
		for _, q := range s.decided.Queue {
			if q.Seq == p {
				s.forget(p)
				s.append(KindPromptWithdrawn, 0, encode(PromptWithdrawn{Prompt: p, Reason: why, Code: code, By: by}))
				break
			}
		}
	}
}

// withdrawOf takes back all queued prompts of a connection, or of all if conn
// is empty, for by.
func (s *Session) withdrawOf(conn string, by Origin, why string, code int) {
	var mine []Seq
	for _, q := range s.decided.Queue {
		if conn == "" || q.Origin.Conn == conn {
			mine = append(mine, q.Seq)
		}
	}
	s.withdraw(mine, by, why, code)
}

// Close is session/close of one connection: its queued prompts are taken back,
// and the turn ends only if nobody else is attached and this connection
// started it. The Detached event ends the connection's reading.
func (s *Session) Close(o Origin, fail func(error)) {
	s.post(func() { s.whenMended(func() { s.leaveOut(o) }, fail) }, fail)
}

func (s *Session) leaveOut(o Origin) {
	s.withdrawOf(o.Conn, o, "session closed", 0)
	closing := s.editors[o.Conn]
	leave := func() {
		s.append(KindDetached, 0, encode(Detached{Origin: o}))
		if s.editors[o.Conn] == closing { // it may have attached anew meanwhile
			s.detach(o.Conn)
		}
	}
	if s.turn != nil && s.turn.origin.Conn == o.Conn && s.others(o.Conn) == 0 {
		s.turn.after = append(s.turn.after, leave)
		s.cancelTurn(o)
		return
	}
	leave()
}

// Delete ends the session for good: turn and queue are cancelled, every
// attached editor is told by the Deleted event, and the log is removed. done is
// called when that is durable; it may run on any goroutine.
func (s *Session) Delete(o Origin, done func(error)) {
	s.post(func() {
		s.leaving, s.deleting = true, true
		s.withdrawOf("", o, "session deleted", 0)
		finish := func() {
			if s.decided.Deleted {
				s.deleted = append(s.deleted, done)
				return
			}
			s.append(KindDeleted, 0, encode(Deleted{Origin: o}))
			s.deleted = append(s.deleted, done)
			s.whenPublished(s.head(), func() { s.end(ErrNotFound) })
		}
		if s.turn != nil {
			s.turn.after = append(s.turn.after, finish)
			s.cancelTurn(o)
			return
		}
		finish()
	}, func(err error) {
		if errors.Is(err, ErrNotFound) {
			err = nil
		}
		done(err)
	})
}

// Stop ends turn and queue and leaves memory: the planned end of the daemon. An
// agent has the shorter of CancelGrace and grace to end its turn. Wait for Done.
func (s *Session) Stop(grace time.Duration) {
	s.post(func() {
		s.leaving = true
		s.cfg.CancelGrace = min(s.cfg.CancelGrace, grace)
		s.withdrawOf("", Origin{}, "the daemon was stopped", 0)
		finish := func() {
			s.whenPublished(s.head(), func() { s.end(ErrClosed) })
		}
		if s.turn != nil {
			s.turn.after = append(s.turn.after, finish)
			s.cancelTurn(Origin{})
			return
		}
		finish()
	}, nil)
}

// mend closes what was open when the daemon died: nothing of it runs any
// more, and what it did is unknown. It is never run again.
func (s *Session) mend() {
	if s.decided.Turn == nil && len(s.decided.Queue) == 0 && len(s.decided.Questions) == 0 {
		return
	}
	for _, u := range s.seen.Calls.Fail("Interrupted: the daemon ended while this ran. What it did is unknown: look before you repeat it.", "unknown") {
		s.credit.add(int64(len(u)))
		s.append(KindUpdate, 1, u)
	}
	for _, q := range append([]OpenQuestion(nil), s.decided.Questions...) {
		s.append(KindQuestionAnswered, 0, encode(QuestionAnswered{Question: q.Seq, Outcome: Interrupted}))
	}
	if t := s.decided.Turn; t != nil {
		s.append(KindTurnEnded, 0, encode(TurnEnded{Prompt: t.Prompt, Error: &Error{Code: CodeInterrupted, Message: "interrupted: the daemon ended during this turn; what was under way is unknown"}}))
	}
	s.withdrawOf("", Origin{}, "interrupted: the daemon ended before this prompt ran", CodeInterrupted)
	s.mended = s.head()
}
