package daemon_test

import (
	"context"
	"encoding/json"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/hermesd/hermesd/daemon"
	"github.com/hermesd/hermesd/daemon/daemontest"
	"github.com/hermesd/hermesd/daemon/session"
	"github.com/hermesd/hermesd/store"
	"github.com/hermesd/hermesd/transport/acpclient"
)

// shelf is a store that counts how often a session is brought into memory, and
// whose logs cannot be read while broken is set.
type shelf struct {
	session.Store
	opened atomic.Int64
	broken atomic.Pointer[error]
}

func newShelf() *shelf { return &shelf{Store: store.NewMemory()} }

func (s *shelf) Create(m session.Meta, k session.Sink) (session.Log, error) {
	l, err := s.Store.Create(m, k)
	return shelved{l, s}, err
}

func (s *shelf) Open(id session.ID, k session.Sink) (session.Log, error) {
	s.opened.Add(1)
	l, err := s.Store.Open(id, k)
	return shelved{l, s}, err
}

type shelved struct {
	session.Log
	s *shelf
}

func (l shelved) Read(from session.Seq, maxBytes int) ([]session.Record, error) {
	if err := l.s.broken.Load(); err != nil {
		return nil, *err
	}
	return l.Log.Read(from, maxBytes)
}

// page is the answer to _hermes/sessions/tail.
type page struct {
	Events []struct {
		Kind string
		Data struct {
			Dirs       []string
			MCPServers json.RawMessage
		}
	}
	Head, Next session.Seq
}

// Who follows a session does not keep it in memory, and does not lose it when
// it leaves.
func TestWhoFollowsASessionThatLeavesMemoryIsToldWhatComesNext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		sh := newShelf()
		h := daemontest.NewHouse(t, sh, &daemontest.Script{}, func(c *daemon.Config) { c.Session.IdleAfter = time.Second })
		a, follower := h.Editor(acpclient.Options{}), h.Editor(acpclient.Options{})
		cwd := t.TempDir()
		s, err := a.NewSession(within(t), cwd)
		if err != nil {
			t.Fatal(err)
		}
		if err := a.CloseSession(within(t), s.ID); err != nil {
			t.Fatal(err)
		}
		tail := func(from session.Seq, wait bool) (p page) {
			ctx, cancel := context.WithTimeout(t.Context(), 24*time.Hour)
			defer cancel()
			if err := follower.Call(ctx, "_hermes/sessions/tail", map[string]any{"sessionId": s.ID, "from": from, "wait": wait}, &p); err != nil {
				t.Errorf("following: %v", err)
			}
			return p
		}
		head := tail(0, false).Head
		got := make(chan page, 1)
		go func() { got <- tail(head, true) }()
		time.Sleep(time.Minute)
		synctest.Wait()
		if sh.opened.Load() == 0 {
			t.Error("the session stayed in memory for who only follows it")
		}
		select {
		case p := <-got:
			t.Fatalf("nothing happened, and the follower got %+v", p)
		default:
		}
		if _, err := a.Load(within(t), s.ID, cwd); err != nil {
			t.Fatal(err)
		}
		if _, err := a.Prompt(within(t), s.ID, "x"); err != nil {
			t.Fatal(err)
		}
		if p := <-got; len(p.Events) == 0 || p.Events[0].Kind != session.KindPromptAdmitted.String() {
			t.Errorf("what came next was told as %+v", p)
		}
	})
}
