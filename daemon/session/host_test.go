package session

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
)

// A mode that the agent sets is a fact like one an editor sets, and stands in
// line with those.
func TestAnAgentChangesItsModeInLineWithEditors(t *testing.T) {
	ag := &fakeAgents{}
	var told error
	ag.turn = func(ctx context.Context, h Host, _ Turn) (TurnResult, error) {
		told = h.Set(ctx, Change{Mode: "agents"})
		return TurnResult{StopReason: "end_turn"}, nil
	}
	inWorld(t, ag, nil, func(t *testing.T, w *world) {
		w.attach("a")
		w.prompt("a", "1")
		synctest.Wait()
		if told != nil {
			t.Error(told)
		}
		w.s.Set(origin("a", "2"), Change{Mode: "editors"}, func(err error) { t.Error(err) })
		synctest.Wait()
		var modes []string
		err := w.s.Read(context.Background(), 1, w.st.log("s1").Head(), func(r Record) error {
			if r.Kind == KindSettingsChanged {
				f, err := decode[SettingsChanged](r.Data)
				if err != nil || !f.Mode {
					t.Errorf("%s, %v", r.Data, err)
				}
				modes = append(modes, string(f.Settings.Modes)+" by "+f.Origin.Conn)
			}
			return nil
		})
		if err != nil || strings.Join(modes, "; ") != `{"currentModeId":"agents"} by ; {"currentModeId":"editors"} by a` {
			t.Error(modes, err)
		}
		// A refusal reaches the agent, and changes nothing.
		ag.setting = func(context.Context, Change) (Settings, error) { return Settings{}, errors.New("no such mode") }
		w.prompt("a", "3")
		synctest.Wait()
		if told == nil || told.Error() != "no such mode" {
			t.Error(told)
		}
		facts := w.facts()
		if n := len(slices.DeleteFunc(facts, func(f string) bool { return !strings.Contains(f, "settings") })); n != 2 {
			t.Errorf("%d changes", n)
		}
		// An agent that is gone changes nothing.
		h := ag.last()
		w.stop(w.s)
		if err := h.Set(context.Background(), Change{Mode: "late"}); !errors.Is(err, ErrClosed) {
			t.Error(err)
		}
	})
}
