package session

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
)

func TestATurnHasTheEnvironmentOfWhoPromptedAndNothingKeepsIt(t *testing.T) {
	var mu sync.Mutex
	got := map[string]string{}
	opened := []string{}
	release := make(chan struct{})
	agents := &fakeAgents{
		turn: func(ctx context.Context, h Host, turn Turn) (TurnResult, error) {
			mu.Lock()
			var block struct{ Text string }
			if err := json.Unmarshal(turn.Blocks[0], &block); err != nil {
				t.Error(err)
			}
			got[block.Text] = strings.Join(turn.Environ, " ")
			mu.Unlock()
			<-release
			return TurnResult{}, nil
		},
		opening: func(_ context.Context, spec Spec) error {
			mu.Lock()
			defer mu.Unlock()
			opened = append(opened, strings.Join(spec.Environ, " "))
			return nil
		},
	}
	inWorld(t, agents, nil, func(t *testing.T, w *world) {
		release = make(chan struct{})
		ask := func(conn string, environ *Environ) {
			o := origin(conn, "1")
			o.Environ = environ
			w.s.Prompt(o, json.RawMessage(fmt.Sprintf(`[{"type":"text","text":%q}]`, conn)), nil, func(err error) { t.Error(err) })
		}
		ask("a", NewEnviron(map[string]string{"SECRET": "of-a", "PATH": "/a"}))
		ask("b", NewEnviron(map[string]string{"SECRET": "of-b"})) // waits in the queue, and its editor may be gone by then
		ask("c", nil)
		close(release)
		synctest.Wait()
		mu.Lock()
		if want := map[string]string{"a": "PATH=/a SECRET=of-a", "b": "SECRET=of-b", "c": ""}; fmt.Sprint(got) != fmt.Sprint(want) {
			t.Errorf("the turns have %v, want %v", got, want)
		}
		mu.Unlock()
		for _, e := range w.st.log(w.s.ID()).events {
			if strings.Contains(string(e.Data), "of-a") || strings.Contains(string(e.Data), "environ") {
				t.Errorf("an event has it: %s", e.Data)
			}
		}
		// An agent that is opened after a while is opened for who asks now.
		w.reopen()
		ask("d", NewEnviron(map[string]string{"D": "1"}))
		synctest.Wait()
		mu.Lock()
		defer mu.Unlock()
		if want := []string{"", "D=1"}; !slices.Equal(opened, want) {
			t.Errorf("agents are opened with %q, want %q", opened, want)
		}
	})
}

func TestAnEnvironmentShowsItselfToNobody(t *testing.T) {
	o := Origin{Conn: "c", Environ: NewEnviron(map[string]string{"SECRET": "hush"})}
	b, err := json.Marshal(struct{ O, E any }{o, o.Environ})
	if err != nil {
		t.Fatal(err)
	}
	for _, text := range []string{fmt.Sprintf("%v %+v %#v", o, o, o), fmt.Sprintf("%v %+v %#v %s %q", o.Environ, o.Environ, o.Environ, o.Environ, o.Environ), string(b)} {
		if strings.Contains(text, "hush") {
			t.Errorf("it is shown: %s", text)
		}
	}
	if got := o.Environ.List(); !slices.Equal(got, []string{"SECRET=hush"}) {
		t.Errorf("got %q", got)
	}
	if NewEnviron(nil) != nil || (*Environ)(nil).List() != nil {
		t.Error("one that nobody sent is not nil")
	}
}
