package session

// Pin keeps the session from being removed for its age or for space, or lets go
// of it again. done is told when that is durable; it is no error if it was so.
func (s *Session) Pin(o Origin, pinned bool, done func(error)) {
	s.post(func() {
		if s.decided.Meta.Pinned != pinned {
			s.append(KindPinned, 0, encode(Pinned{Origin: o, Pinned: pinned}))
		}
		s.waiting = append(s.waiting, waiter{seq: s.head(), do: func() { done(nil) }, fail: done})
	}, done)
}
