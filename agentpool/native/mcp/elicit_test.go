package mcp

import (
	"context"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"time"
)

// However many forms a server opens at once, the user sees one after the other,
// and no more than there may be of one call.
func TestFormsOfACallComeOneAfterTheOtherAndNotWithoutEnd(t *testing.T) {
	told := newSaid()
	set := open(t, Options{Tell: told.tell}, child("x", "good"))
	var now, most, all atomic.Int32
	var first atomic.Bool
	asker := func(ctx context.Context, _ Form) (string, map[string]any) {
		if n := now.Add(1); n > most.Load() {
			most.Store(n)
		}
		all.Add(1)
		if first.CompareAndSwap(true, false) { // nothing is answered before everything has come
			for c := set.server("x").find(func(*call) bool { return true }); c.asking.Load() < maxForms && ctx.Err() == nil; {
				time.Sleep(time.Millisecond)
			}
		}
		defer now.Add(-1)
		return "accept", map[string]any{"sure": true}
	}
	for round := range int32(2) { // each call has a count of its own
		first.Store(true)
		r, err := try(within(t), set, "x", "ask_many", fmt.Sprintf(`{"n":%d}`, maxForms+5), asker)
		want := strings.Repeat("accept ", maxForms) + strings.TrimSpace(strings.Repeat("cancel ", 5))
		if err != nil || r.Text != want || all.Load() != (round+1)*maxForms || most.Load() != 1 {
			t.Errorf("%d forms, %d at once, answered %s, %v", all.Load(), most.Load(), r.Text, err)
		}
	}
	if got := told.all(); len(got) != 2 || got[0] != "The MCP server “x” asked more than 20 times in one call: further questions of this call are not put to you." {
		t.Errorf("%q", got)
	}
	r, err := try(within(t), set, "x", "ask_many", fmt.Sprintf(`{"n":1,"f":%d}`, maxForm), asker)
	if err != nil || r.Text != "cancel" || all.Load() != 2*maxForms || !strings.Contains(told.await(t, "with a form of"), "not put to you") {
		t.Errorf("a huge form: %s, %v", r.Text, err)
	}
}

// A form that waits for another one ends with its call.
func TestFormsThatWaitEndWithTheCall(t *testing.T) {
	set := open(t, Options{}, child("x", "good"))
	ctx, cancel := context.WithCancel(within(t))
	var all atomic.Int32
	_, err := try(ctx, set, "x", "ask_many", `{"n":3}`, func(ctx context.Context, _ Form) (string, map[string]any) {
		all.Add(1)
		cancel()
		<-ctx.Done()
		return "cancel", nil
	})
	if err != context.Canceled || all.Load() != 1 {
		t.Errorf("%d forms, %v", all.Load(), err)
	}
	if got := do(t, set, "x", "echo", `{"t":"a"}`); got != "a" {
		t.Error(got)
	}
}
