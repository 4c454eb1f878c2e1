package session

import (
	"context"
	"sync/atomic"
	"testing"
	"time"
)

// busyAgents opens agents that have something running while busy is set.
type busyAgents struct {
	*fakeAgents
	busy atomic.Bool
}

type busyAgent struct {
	Agent
	of *busyAgents
}

func (a busyAgent) Busy() bool { return a.of.busy.Load() }

func (b *busyAgents) Open(ctx context.Context, spec Spec, h Host) (Agent, Settings, error) {
	a, s, err := b.fakeAgents.Open(ctx, spec, h)
	if err != nil {
		return nil, s, err
	}
	return busyAgent{a, b}, s, nil
}

func TestASessionWhoseAgentIsBusyStaysInMemory(t *testing.T) {
	inWorld(t, &fakeAgents{}, nil, func(t *testing.T, w *world) {
		agents := &busyAgents{fakeAgents: w.ag}
		agents.busy.Store(true)
		cfg := w.cfg
		cfg.IdleAfter = time.Minute
		ready := make(chan error, 1)
		s := Create(Meta{ID: "s2", Agent: "fake", Cwd: "/w"}, Origin{}, cfg, w.st, agents, func(err error) { ready <- err })
		if err := <-ready; err != nil {
			t.Fatal(err)
		}
		s.Prompt(origin("a", "1"), []byte(`[{"type":"text","text":"x"}]`), nil, func(err error) { t.Error(err) })
		ended := func() bool {
			select {
			case <-s.Done():
				return true
			default:
				return false
			}
		}
		sleep(10 * time.Minute)
		if ended() {
			t.Fatal("the session left memory while something of its agent ran")
		}
		agents.busy.Store(false)
		sleep(10 * time.Minute)
		if !ended() {
			t.Error("the session stays in memory for nothing")
			s.Stop(time.Minute)
			<-s.Done()
		}
	})
}
