package session

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/hermesd/hermesd/transport/acp"
)

// joining is an agent that takes prompts into its turn: those whose request is
// in takes.
type joining struct {
	fakeAgents
	takes map[string]Joined
	saw   []string // the queue at each offer
}

func (j *joining) Join(p Turn, queued []Turn) (Joined, bool) {
	var seqs []string
	for _, q := range queued {
		seqs = append(seqs, fmt.Sprint(q.Seq))
	}
	j.saw = append(j.saw, fmt.Sprintf("%s|%s", p.Blocks[0], strings.Join(seqs, ",")))
	for request, joined := range j.takes {
		if strings.Contains(string(p.Blocks[0]), `/`+request+`"`) {
			return joined, true
		}
	}
	return Joined{}, false
}

func TestAPromptIsTakenIntoTheRunningTurn(t *testing.T) {
	var g gate // made in the bubble
	ag := &joining{takes: map[string]Joined{"3": {Update: chunkUpdate("m", "yes"), Withdraw: []Seq{5}}}}
	ag.turn = func(ctx context.Context, h Host, t Turn) (TurnResult, error) { return g.turn(ctx, h, t) }
	ag.joiner = ag
	inWorld(t, &ag.fakeAgents, nil, func(t *testing.T, w *world) {
		g = make(gate)
		w.attach("a")
		w.prompt("a", "1") // nothing runs: it is not offered
		w.prompt("b", "2")
		w.prompt("c", "3")
		w.expect("admitted a/1", "started a/1", "admitted b/2", "admitted c/3", "joined c/3 to a/1 "+string(chunkUpdate("m", "yes")), "withdrawn b/2 0")
		if got := strings.Join(ag.saw, "\n"); got != `{"type":"text","text":"b/2"}|`+"\n"+`{"type":"text","text":"c/3"}|5` {
			t.Errorf("offered\n%s", got)
		}
		if n := len(w.s.decided.Queue) + len(w.s.content); n != 0 {
			t.Errorf("%d prompts are still queued", n)
		}
		g <- "end_turn"
		synctest.Wait()
		w.prompt("c", "3") // nothing runs again
		w.expect("admitted a/1", "started a/1", "admitted b/2", "admitted c/3", "joined c/3 to a/1 "+string(chunkUpdate("m", "yes")), "withdrawn b/2 0",
			"ended a/1 end_turn", "admitted c/3", "started c/3")
		g <- "end_turn"
	})
}

func TestACancelledTurnTakesNoPrompts(t *testing.T) {
	var g gate // made in the bubble
	ag := &joining{takes: map[string]Joined{"2": {}}}
	ag.turn = func(ctx context.Context, h Host, t Turn) (TurnResult, error) { return g.turn(ctx, h, t) }
	ag.joiner = ag
	inWorld(t, &ag.fakeAgents, nil, func(t *testing.T, w *world) {
		g = make(gate)
		w.attach("a")
		w.prompt("a", "1")
		w.s.Cancel(origin("a", ""), 100)
		w.prompt("b", "2")
		w.expect("admitted a/1", "started a/1", "admitted b/2", "ended a/1 cancelled", "started b/2")
		g <- "end_turn"
	})
}

// What a prompt says later comes with it, and before its answer.
func TestAJoinedPromptWaitsForWhatIsSaidToIt(t *testing.T) {
	var g gate
	say := make(chan struct{})
	ag := &joining{takes: map[string]Joined{"2": {Later: func(ctx context.Context) []byte {
		select {
		case <-say:
		case <-ctx.Done():
		}
		return chunkUpdate("m", "yes")
	}}}}
	ag.turn = func(ctx context.Context, h Host, t Turn) (TurnResult, error) { return g.turn(ctx, h, t) }
	ag.joiner = ag
	for name, first := range map[string]string{"the turn goes on": "say", "the turn ends before": "end"} {
		t.Run(name, func(t *testing.T) {
			inWorld(t, &ag.fakeAgents, nil, func(t *testing.T, w *world) {
				g, say = make(gate), make(chan struct{})
				w.attach("a")
				w.prompt("a", "1")
				w.prompt("b", "2")
				w.expect("admitted a/1", "started a/1", "admitted b/2")
				if first == "say" {
					close(say)
					w.expect("admitted a/1", "started a/1", "admitted b/2", "joined b/2 to a/1 "+string(chunkUpdate("m", "yes")))
					g <- "end_turn"
					return
				}
				g <- "end_turn"
				synctest.Wait() // the turn is over before anything is said
				close(say)
				w.expect("admitted a/1", "started a/1", "admitted b/2", "ended a/1 end_turn", "started b/2")
				g <- "end_turn"
			})
		})
	}
}

// A full queue does not keep out what would empty it.
func TestAFullQueueTakesWhatJoins(t *testing.T) {
	var g gate
	ag := &joining{takes: map[string]Joined{"3": {Withdraw: []Seq{5}}}}
	ag.turn = func(ctx context.Context, h Host, t Turn) (TurnResult, error) { return g.turn(ctx, h, t) }
	ag.joiner = ag
	inWorld(t, &ag.fakeAgents, func(c *Config) { c.MaxQueue = 1 }, func(t *testing.T, w *world) {
		g = make(gate)
		w.attach("a")
		w.prompt("a", "1")
		w.prompt("b", "2")
		w.prompt("c", "4")
		if len(w.refused) != 1 || !strings.HasPrefix(w.refused[0], "c/4: ") {
			t.Errorf("refused: %q", w.refused)
		}
		w.prompt("c", "3")
		w.expect("admitted a/1", "started a/1", "admitted b/2", "admitted c/3", "joined c/3 to a/1", "withdrawn b/2 0")
		g <- "end_turn"
	})
}

// A replay shows a joined prompt where it joined; a fork keeps it.
func TestAJoinedPromptIsShownWhereItJoined(t *testing.T) {
	var p past
	p.add(KindCreated, 0, encode(Created{}))
	first := p.admit(`[{"type":"text","text":"one"}]`)
	p.start(first)
	p.chunk("agent_message_chunk", "m", "working")
	second := p.admit(`[{"type":"text","text":"two"}]`)
	p.chunk("agent_message_chunk", "n", "on")
	fact := encode(PromptJoined{Prompt: second, Turn: first, Update: chunkUpdate("q", "yes")})
	p.add(KindPromptJoined, 0, fact)
	p.chunk("agent_message_chunk", "o", "ward")
	var got []string
	for _, u := range replayed(p.records(), acp.ClientCaps{}, 0) {
		content, _ := acp.Get([]byte(u), "content")
		text, _ := acp.GetString(content, "text")
		got = append(got, text)
	}
	if strings.Join(got, "|") != "one|working|on|two|yes|ward" {
		t.Errorf("replayed %q", got)
	}
	data, err := anonymous(Event{Kind: KindPromptJoined, Data: fact})
	if err != nil || string(data) != string(fact) {
		t.Errorf("a fork keeps %s, %v", data, err)
	}
}

// Whoever prompts a session that is being deleted is told so, and not to wait.
func TestAPromptOfADeletedSessionFindsNone(t *testing.T) {
	inWorld(t, &fakeAgents{turn: untilCancelled}, nil, func(t *testing.T, w *world) {
		w.attach("a")
		w.prompt("a", "1")
		done := make(chan error, 1)
		w.s.Delete(origin("b", "2"), func(err error) { done <- err })
		w.s.Prompt(origin("a", "3"), []byte(`[]`), nil, func(err error) { done <- err })
		for range 2 {
			if err := <-done; err != nil && !errors.Is(err, ErrNotFound) {
				t.Error(err)
			}
		}
	})
}
