package session

import (
	"context"
	"fmt"
)

var kindWords = map[Kind]string{
	KindCreated: "created", KindUpdate: "update", KindPromptAdmitted: "prompt_admitted", KindPromptWithdrawn: "prompt_withdrawn",
	KindTurnStarted: "turn_started", KindTurnEnded: "turn_ended", KindQuestionAsked: "question_asked", KindQuestionAnswered: "question_answered",
	KindSettingsChanged: "settings_changed", KindAgentStarted: "agent_started", KindAgentDied: "agent_died", KindAgentRecord: "agent_record",
	KindDetached: "detached", KindRootsChanged: "roots_changed", KindDeleted: "deleted",
}

// String is the kind as commands and exports write it.
func (k Kind) String() string {
	if w := kindWords[k]; w != "" {
		return w
	}
	return fmt.Sprintf("kind_%d", uint8(k))
}

// WaitPast waits for an event after seq and returns the last published one.
func (s *Session) WaitPast(ctx context.Context, seq Seq) (Seq, error) {
	for {
		_, head, wake, err := s.tail.after(seq)
		if head > seq {
			return head, nil
		}
		if err != nil {
			return 0, err
		}
		select {
		case <-wake:
		case <-ctx.Done():
			return 0, ctx.Err()
		}
	}
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

// IsOpen says whether a question may still be answered. It may be asked from
// any goroutine.
func (s *Session) IsOpen(question Seq) bool {
	_, open := s.openSet.Load(question)
	return open
}
