package session

import (
	"encoding/json"
	"fmt"
	"strings"
	"time"
)

// question is an open one, as the session's goroutine knows it.
type question struct {
	seq     Seq
	prompt  Seq
	options []Option
	reply   chan Answer // capacity 1

	shown      map[string]bool // connections it was written to
	abstained  map[string]bool // put it away, failed or cannot answer
	dismissed  bool            // somebody put it away
	later      map[string]bool // said they would answer later
	timer      *time.Timer
	generation int // of the timer
	answered   bool
}

func (q *question) finish(a Answer) {
	if !q.answered {
		q.answered = true
		if q.timer != nil {
			q.timer.Stop()
		}
		q.reply <- a
	}
}

// ask appends the question and puts it before whoever is attached.
func (s *Session) ask(h *host, ask Question, q *question) {
	if s.host != h || s.ended != nil || s.decided.Deleted || s.turn != nil && s.turn.cancelled {
		q.finish(Answer{Outcome: Cancelled})
		return
	}
	fact := QuestionAsked{ToolCall: ask.ToolCall, Options: encode(ask.Options), Meta: ask.Meta}
	if s.turn != nil {
		fact.Prompt = s.turn.prompt
	}
	s.append(KindQuestionAsked, 0, encode(fact))
	q.seq, q.prompt = s.head(), fact.Prompt
	s.asked = append(s.asked, q)
	s.openSet.Store(q.seq, true)
	s.weigh(q)
}

// weigh closes a question that nobody can answer any more.
func (s *Session) weigh(q *question) {
	if q.answered {
		return
	}
	if s.count(true) == 0 {
		if s.cfg.DenyDetached {
			s.closeQuestion(q, QuestionAnswered{Outcome: NobodyThere})
		}
		return
	}
	for conn, e := range s.editors {
		if q.abstained[conn] || !e.editor.CanAnswer() {
			continue
		}
		return // this one can still answer, or said it will
	}
	out := NobodyCould
	if q.dismissed {
		out = Dismissed
	}
	s.closeQuestion(q, QuestionAnswered{Outcome: out})
}

// Reconsider closes the questions that nobody can answer any more, after what
// an attached editor can do has changed.
func (s *Session) Reconsider() { s.post(s.weighAll, nil) }

func (s *Session) weighAll() {
	for _, q := range append([]*question(nil), s.asked...) {
		s.weigh(q)
	}
}

// closeQuestion decides the outcome. The agent hears it when it is durable.
func (s *Session) closeQuestion(q *question, end QuestionAnswered) {
	if q.answered {
		return
	}
	for i := range s.asked {
		if s.asked[i] == q {
			s.asked = append(s.asked[:i:i], s.asked[i+1:]...)
			break
		}
	}
	q.answered = true
	if q.timer != nil {
		q.timer.Stop()
	}
	s.openSet.Delete(q.seq)
	end.Question = q.seq
	s.append(KindQuestionAnswered, 0, encode(end))
	a := Answer{Outcome: end.Outcome}
	if end.Outcome == Selected {
		for _, o := range q.options {
			if o.ID == end.Option {
				a.Option = o
			}
		}
	}
	s.waiting = append(s.waiting, waiter{seq: s.head(), do: func() { q.reply <- a }, fail: func(error) { q.reply <- Answer{Outcome: Interrupted} }})
}

// closeQuestions closes those of a turn.
func (s *Session) closeQuestions(prompt Seq, out Outcome) {
	for _, q := range append([]*question(nil), s.asked...) {
		if q.prompt == prompt {
			s.closeQuestion(q, QuestionAnswered{Outcome: out})
		}
	}
}

func (s *Session) openQuestion(seq Seq) *question {
	for _, q := range s.asked {
		if q.seq == seq {
			return q
		}
	}
	return nil
}

// Shown says that the question was written to a connection. The time limit
// runs from the first time.
func (s *Session) Shown(conn string, question Seq) {
	s.post(func() {
		q := s.openQuestion(question)
		if q == nil || s.editors[conn] == nil {
			return
		}
		q.shown[conn] = true
		s.startLimit(q)
	}, nil)
}

// startLimit lets the time run, unless it does or somebody has said that he
// will answer later.
func (s *Session) startLimit(q *question) {
	if q.timer != nil || s.cfg.QuestionTimeout <= 0 || len(q.later) > 0 {
		return
	}
	q.generation++
	gen := q.generation
	q.timer = time.AfterFunc(s.cfg.QuestionTimeout, func() {
		s.post(func() {
			if q.generation == gen && q.timer != nil {
				s.closeQuestion(q, QuestionAnswered{Outcome: TimedOut})
			}
		}, nil)
	})
}

func stopLimit(q *question) {
	if q.timer != nil {
		q.timer.Stop()
		q.timer = nil
	}
}

// Reply is what a connection answered to a question.
type Reply struct {
	Option   string          // selected
	Selected bool            // Option counts; else the question was put away
	Later    bool            // put away for now: it stays open
	Unable   bool            // the connection does not know questions (-32601): it is not asked again
	Failed   bool            // any other error, or an answer that makes no sense
	Result   json.RawMessage // verbatim, kept in the log
}

// Answer takes a connection's reply. The first one that decides wins; replies
// to questions that are not open are dropped.
func (s *Session) Answer(o Origin, question Seq, r Reply) {
	s.post(func() {
		e := s.editors[o.Conn]
		q := s.openQuestion(question)
		if q == nil || e == nil {
			return
		}
		switch {
		case r.Selected:
			end := QuestionAnswered{Outcome: NotOffered, Option: r.Option, Origin: o, Result: r.Result}
			for _, opt := range q.options {
				if opt.ID == r.Option {
					end.Outcome = Selected
				}
			}
			s.closeQuestion(q, end)
			return
		case r.Later:
			q.later[o.Conn] = true
			stopLimit(q)
		default:
			q.abstained[o.Conn] = true
			q.dismissed = q.dismissed || !r.Unable && !r.Failed
		}
		s.weighAll()
	}, nil)
}

// Decide answers a question from outside of any attached connection (a
// command). done gets ErrNotFound if it is not open, and an *Error if the
// option was not offered.
func (s *Session) Decide(o Origin, question Seq, option string, done func(error)) {
	s.post(func() {
		q := s.openQuestion(question)
		if q == nil {
			done(ErrNotFound)
			return
		}
		for _, opt := range q.options {
			if opt.ID == option {
				s.closeQuestion(q, QuestionAnswered{Outcome: Selected, Option: option, Origin: o})
				s.whenPublished(s.head(), func() { done(nil) })
				return
			}
		}
		offered := make([]string, len(q.options))
		for i, opt := range q.options {
			offered[i] = opt.ID
		}
		done(&Error{Code: CodeParams, Message: fmt.Sprintf("the option %q was not offered: choose one of %s", option, strings.Join(offered, ", "))})
	}, done)
}

// IsOpen says whether a question may still be answered. It may be asked from
// any goroutine.
func (s *Session) IsOpen(question Seq) bool {
	_, open := s.openSet.Load(question)
	return open
}
