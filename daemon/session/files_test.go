package session

import (
	"context"
	"encoding/json"
	"errors"
	"testing"
	"testing/synctest"
	"time"
)

// hangingEditor takes requests and never answers.
type hangingEditor struct{ fakeEditor }

func (hangingEditor) CanReadFiles() bool  { return true }
func (hangingEditor) CanWriteFiles() bool { return true }
func (hangingEditor) Call(ctx context.Context, _, _ string, _ any) (json.RawMessage, error) {
	<-ctx.Done()
	return nil, ctx.Err()
}

// An editor that hangs does not hang the turn: the text of the disk is read
// instead. Whether it has written is not known, so nothing is written beside it.
func TestAnEditorThatHangsHasItsTimeForAFile(t *testing.T) {
	for _, c := range []struct {
		name  string
		do    func(ctx context.Context, h Host) error
		check func(error) bool
	}{
		{"read", func(ctx context.Context, h Host) error {
			_, err := h.ReadTextFile(ctx, "/w/x")
			return err
		}, func(err error) bool { return errors.Is(err, ErrNoEditor) }},
		{"write", func(ctx context.Context, h Host) error { return h.WriteTextFile(ctx, "/w/x", "y") },
			func(err error) bool {
				return err != nil && !errors.Is(err, ErrNoEditor) && !errors.Is(err, context.DeadlineExceeded)
			}},
		{"cancelled before", func(ctx context.Context, h Host) error {
			ctx, cancel := context.WithTimeout(ctx, time.Second)
			defer cancel()
			_, err := h.ReadTextFile(ctx, "/w/x")
			return err
		}, func(err error) bool { return errors.Is(err, context.DeadlineExceeded) }},
	} {
		t.Run(c.name, func(t *testing.T) {
			said := make(chan error, 1)
			ag := &fakeAgents{turn: func(ctx context.Context, h Host, _ Turn) (TurnResult, error) {
				said <- c.do(ctx, h)
				return TurnResult{}, nil
			}}
			inWorld(t, ag, nil, func(t *testing.T, w *world) {
				w.s.Attach(hangingEditor{"a"}, func(Snapshot, *Cursor) {}, func(err error) { t.Error(err) })
				synctest.Wait()
				w.prompt("a", "1")
				select {
				case err := <-said:
					t.Fatalf("it was not asked, or not waited for: %v", err)
				default:
				}
				sleep(time.Minute)
				select {
				case err := <-said:
					if !c.check(err) {
						t.Errorf("ended with %v", err)
					}
				default:
					t.Error("the turn hangs")
				}
			})
		})
	}
}
