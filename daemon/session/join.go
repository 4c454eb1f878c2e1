package session

import (
	"context"
	"encoding/json"
)

// Joiner is an Agent that can take a prompt into the turn that runs, so that it
// gets no turn of its own.
type Joiner interface {
	// Join is offered a prompt that arrived while a turn runs; queued are those
	// that wait for their turns, in order. It says whether the agent takes it:
	// then what it says is part of the running turn. It is called on the session's
	// goroutine and must not block, nor call the Host.
	Join(prompt Turn, queued []Turn) (Joined, bool)
}

// Joined is what becomes of a prompt that was taken into a turn. It is answered
// behind Update, or Later.
type Joined struct {
	// Update, if not nil, is one v1 `update` object that follows the prompt.
	Update []byte
	// Later, if not nil, gives the Update when it is called, off the session's
	// goroutine. Should the turn end before, the prompt gets one of its own.
	Later func(context.Context) []byte
	// Withdraw names queued prompts that are taken back.
	Withdraw []Seq
}

// offer asks the agent whether it takes a prompt into the running turn.
func (s *Session) offer(p Turn) (Joined, bool) {
	j, ok := s.agent.(Joiner)
	if !ok || s.turn == nil || s.turn.cancelled {
		return Joined{}, false
	}
	var queued []Turn
	for _, q := range s.decided.Queue {
		queued = append(queued, s.content[q.Seq])
	}
	return j.Join(p, queued)
}

// joins makes a prompt that was admitted part of the running turn.
func (s *Session) joins(p Seq, o Origin, got Joined) {
	if got.Later != nil {
		s.wg.Go(func() {
			u := got.Later(s.ctx)
			s.post(func() { s.joined(p, u) }, nil)
		})
	} else {
		s.joined(p, got.Update)
	}
	s.withdraw(got.Withdraw, o, "taken back", 0)
}

// joined appends that, unless the prompt has left the queue in the meantime.
func (s *Session) joined(p Seq, update []byte) {
	if s.turn == nil || s.decided.Deleted {
		return
	}
	for _, q := range s.decided.Queue {
		if q.Seq == p {
			s.forget(p)
			s.append(KindPromptJoined, 0, encode(PromptJoined{Prompt: p, Turn: s.turn.prompt, Update: json.RawMessage(update)}))
			return
		}
	}
}
