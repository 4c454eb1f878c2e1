package session

import "sync"

// message is one thing for the session's goroutine to do: an agent's update or
// record (data), or an act.
type message struct {
	host *host  // of an update or record
	kind Kind   // KindUpdate or KindAgentRecord
	data []byte // handed over
	act  func()
	fail func(error) // runs instead of act when the session has ended
}

// inbox is the one way in. Posting never blocks; agents are held back by
// credit (credit.go), editors by their own limits.
type inbox struct {
	mu     sync.Mutex
	q      []message
	spare  []message
	nudged bool
	closed bool
	wake   chan struct{} // capacity 1
}

func newInbox() *inbox { return &inbox{wake: make(chan struct{}, 1)} }

// post puts m in line; false when the inbox is closed for good.
func (b *inbox) post(m message) bool {
	b.mu.Lock()
	if b.closed {
		b.mu.Unlock()
		return false
	}
	b.q = append(b.q, m)
	first := len(b.q) == 1 && !b.nudged
	b.mu.Unlock()
	if first {
		b.signal()
	}
	return true
}

// nudge makes take return even if there is no message.
func (b *inbox) nudge() {
	b.mu.Lock()
	first := len(b.q) == 0 && !b.nudged && !b.closed
	b.nudged = true
	b.mu.Unlock()
	if first {
		b.signal()
	}
}

func (b *inbox) signal() {
	select {
	case b.wake <- struct{}{}:
	default:
	}
}

// take waits for messages or a nudge and returns all messages there are. The
// slice is valid until the next take.
func (b *inbox) take() []message {
	for {
		b.mu.Lock()
		if len(b.q) > 0 || b.nudged {
			q := b.q
			b.q, b.spare = b.spare[:0], q
			if cap(b.q) > 4096 && len(q) < 64 {
				b.q = nil // a flood is over: give its memory back
			}
			b.nudged = false
			b.mu.Unlock()
			return q
		}
		b.mu.Unlock()
		<-b.wake
	}
}

// more is take without waiting: nil if there is nothing.
func (b *inbox) more() []message {
	b.mu.Lock()
	defer b.mu.Unlock()
	if len(b.q) == 0 {
		return nil
	}
	q := b.q
	b.q, b.spare = b.spare[:0], q
	return q
}

// done gives back the slice of the last take, so that what it pointed to can
// be collected.
func (b *inbox) done(q []message) { clear(q) }

// rest gives back what is not in use.
func (b *inbox) rest() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.spare = nil
	if len(b.q) == 0 {
		b.q = nil
	}
}

// close refuses further posts. With ifEmpty it does so only when nothing waits.
// It returns what was left.
func (b *inbox) close(ifEmpty bool) (left []message, ok bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if ifEmpty && len(b.q) > 0 {
		return nil, false
	}
	b.closed = true
	left, b.q = b.q, nil
	return left, true
}

// Touch keeps a session in memory as if something had happened. It says false
// when the session takes nothing any more (see Leaving); after true, what is
// posted soon is not refused because the session was idle.
func (s *Session) Touch() bool {
	return s.inbox.post(message{act: s.moved})
}

// Leaving says whether the session takes nothing any more: it has left memory
// or is about to.
func (s *Session) Leaving() bool {
	s.inbox.mu.Lock()
	defer s.inbox.mu.Unlock()
	return s.inbox.closed
}
