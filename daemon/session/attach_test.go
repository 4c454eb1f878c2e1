package session

import (
	"context"
	"encoding/json"
	"testing"
	"testing/synctest"
)

// Who comes while a crash is mended is let in afterwards; who has gone by then
// must not stay as a ghost, for which questions wait.
func TestWhoLeavesWhileACrashIsMendedHasLeft(t *testing.T) {
	for name, leave := range map[string]func(t *testing.T, s *Session){
		"detach": func(_ *testing.T, s *Session) { s.Detach("a") },
		"close":  func(t *testing.T, s *Session) { s.Close(origin("a", "9"), func(err error) { t.Error(err) }) },
	} {
		t.Run(name, func(t *testing.T) {
			inWorld(t, newAskingForever(), nil, func(t *testing.T, w *world) {
				w.prompt("p", "1")
				l := w.st.log("s1")
				next := newFakeStore()
				next.logs["s1"] = &fakeLog{of: next, meta: l.meta, events: append([]Event(nil), l.events...), shown: l.Head(), closed: true}
				next.held = true
				s := Open("s1", w.cfg, next, &fakeAgents{}, nil)
				came := 0
				attach := func(conn string) {
					s.Attach(fakeEditor(conn), func(Snapshot, *Cursor) { came++ }, func(err error) { t.Error(err) })
				}
				attach("a")
				leave(t, s)
				attach("b")
				synctest.Wait()
				if came != 0 {
					t.Error("somebody was let in before the log was mended")
				}
				next.mu.Lock()
				next.held = false
				next.mu.Unlock()
				next.log("s1").write()
				next.log("s1").sync()
				synctest.Wait()
				editors := -1
				s.Snapshot(func(snap Snapshot) { editors = snap.Editors }, func(err error) { t.Error(err) })
				synctest.Wait()
				if came != 2 || editors != 1 {
					t.Errorf("%d were let in and %d are attached, should be two and the one who stayed", came, editors)
				}
				w.stop(s)
			})
		})
	}
}

// newAskingForever is an agent whose question stays open until the turn ends.
func newAskingForever() *fakeAgents {
	return &fakeAgents{turn: func(ctx context.Context, h Host, _ Turn) (TurnResult, error) {
		_, err := h.Ask(ctx, Question{ToolCall: json.RawMessage(`{"toolCallId":"x"}`), Options: yesNo})
		return TurnResult{}, err
	}}
}
