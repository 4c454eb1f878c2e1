package session

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

// formEditor shows forms and answers them with what the test sends.
type formEditor struct {
	fakeEditor
	answer chan any // raw JSON, or an error

	mu    sync.Mutex
	asked []string
}

func newFormEditor(conn string) *formEditor {
	return &formEditor{fakeEditor: fakeEditor(conn), answer: make(chan any, 1)}
}

func (*formEditor) CanElicit() bool { return true }

func (e *formEditor) Call(ctx context.Context, id, method string, params any) (json.RawMessage, error) {
	e.mu.Lock()
	e.asked = append(e.asked, method+" "+string(encode(params)))
	e.mu.Unlock()
	select {
	case a := <-e.answer:
		if err, ok := a.(error); ok {
			return nil, err
		}
		return json.RawMessage(a.(string)), nil
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

// elicited is a turn that puts a form and says what came of it.
func elicited(said chan<- string) *fakeAgents {
	return &fakeAgents{turn: func(ctx context.Context, h Host, _ Turn) (TurnResult, error) {
		f, err := h.Elicit(ctx, Form{ToolCall: "call_1", Message: "which?", Schema: json.RawMessage(`{"type":"object"}`)})
		switch {
		case errors.Is(err, ErrNoEditor):
			said <- "no editor"
		case err != nil:
			said <- err.Error()
		default:
			said <- fmt.Sprintf("%s %s", f.Outcome, f.Content)
		}
		return TurnResult{}, nil
	}}
}

func TestAFormHasOneOfTheseEnds(t *testing.T) {
	for _, c := range []struct {
		name string
		do   func(w *world, e *formEditor)
		want string
	}{
		{"sent", func(_ *world, e *formEditor) { e.answer <- `{"action":"accept","content":{"a":"b"}}` }, `selected {"a":"b"}`},
		{"declined", func(_ *world, e *formEditor) { e.answer <- `{"action":"decline"}` }, "not_offered "},
		{"put away", func(_ *world, e *formEditor) { e.answer <- `{"action":"cancel"}` }, "dismissed "},
		{"unknown action", func(_ *world, e *formEditor) { e.answer <- `{"action":"_later"}` }, "dismissed "},
		{"no answer to a form", func(_ *world, e *formEditor) { e.answer <- `[]` }, "no editor"},
		{"refused by the editor", func(_ *world, e *formEditor) { e.answer <- errors.New("-32601") }, "no editor"},
		{"nothing", func(*world, *formEditor) { sleep(2 * time.Minute) }, "timed_out "},
		{"the connection goes", func(w *world, _ *formEditor) { w.s.Detach("a") }, "no editor"},
		{"the session is closed there, another one stays", func(w *world, _ *formEditor) {
			w.attach("b")
			w.s.Close(origin("a", "9"), func(err error) { w.t.Error(err) })
		}, "no editor"},
		{"it attaches anew, then goes", func(w *world, e *formEditor) {
			w.s.Attach(e, func(Snapshot, *Cursor) {}, func(err error) { w.t.Error(err) })
			synctest.Wait()
			w.s.Detach("a")
		}, "no editor"},
		{"cancelled", func(w *world, _ *formEditor) { w.s.Cancel(origin("a", "9"), w.s.tail.headNow()) }, "context canceled"},
	} {
		t.Run(c.name, func(t *testing.T) {
			said := make(chan string, 1)
			inWorld(t, elicited(said), nil, func(t *testing.T, w *world) {
				e := newFormEditor("a")
				w.s.Attach(e, func(Snapshot, *Cursor) {}, func(err error) { t.Error(err) })
				synctest.Wait()
				w.prompt("a", "1")
				want := `elicitation/create {"message":"which?","mode":"form","requestedSchema":{"type":"object"},"sessionId":"s1","toolCallId":"call_1"}`
				if len(e.asked) != 1 || e.asked[0] != want {
					t.Fatalf("asked %q, want %q", e.asked, want)
				}
				c.do(w, e)
				synctest.Wait()
				select {
				case got := <-said:
					if got != c.want {
						t.Errorf("ended as %q, want %q", got, c.want)
					}
				default:
					t.Error("the turn hangs")
				}
			})
		})
	}
}

// What a user is asked by a form is bound to the connection that prompted.
func TestAFormIsPutToTheEditorThatPromptedAndToNoOther(t *testing.T) {
	said := make(chan string, 1)
	inWorld(t, elicited(said), nil, func(t *testing.T, w *world) {
		other := newFormEditor("b")
		w.s.Attach(other, func(Snapshot, *Cursor) {}, func(err error) { t.Error(err) })
		w.attach("a") // shows no forms
		w.prompt("a", "1")
		synctest.Wait()
		if got := <-said; got != "no editor" || len(other.asked) != 0 {
			t.Errorf("ended as %q; the other editor was asked %q", got, other.asked)
		}
	})
}
