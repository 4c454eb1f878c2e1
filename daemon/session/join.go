package session

// Joiner is an Agent that can take a prompt into the turn that runs, so that it
// gets no turn of its own.
type Joiner interface {
	// Join is offered a prompt that has just been admitted while a turn runs;
	// queued are those that wait for their turns, in order. It says whether the
	// agent takes it: then the prompt is answered at once, and what it says is
	// part of the running turn. It is called on the session's goroutine and must
	// not block, nor call the Host.
	Join(prompt Turn, queued []Turn) (Joined, bool)
}

// Joined is what becomes of a prompt that was taken into a turn.
type Joined struct {
	// Update, if not nil, is one v1 `update` object that follows the prompt.
	Update []byte
	// Withdraw names queued prompts that are taken back.
	Withdraw []Seq
}

// join offers a prompt to the agent if a turn runs.
func (s *Session) join(p Seq, o Origin) bool {
	j, ok := s.agent.(Joiner)
	if !ok || s.turn == nil || s.turn.cancelled {
		return false
	}
	var queued []Turn
	for _, q := range s.decided.Queue {
		if q.Seq != p {
			queued = append(queued, s.content[q.Seq])
		}
	}
	got, ok := j.Join(s.content[p], queued)
	if !ok {
		return false
	}
	s.forget(p)
	s.append(KindPromptJoined, 0, encode(PromptJoined{Prompt: p, Turn: s.turn.prompt}))
	s.withdraw(got.Withdraw, o, "taken back", 0)
	if got.Update != nil {
		s.credit.add(int64(len(got.Update)))
		s.append(KindUpdate, 1, got.Update)
	}
	return true
}
