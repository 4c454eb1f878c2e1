package session

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	"github.com/hermesd/hermesd/transport/acp"
)

// Fork makes a session that has src's log up to its last ended turn, and then
// goes its own way. meta names the new session: its id, cwd, roots and, as
// given, its title; parent and fork point are filled in. The events keep their
// Seqs; who caused them is left out, so that no connection is answered twice.
// ready is called as with Create.
func Fork(src *Session, meta Meta, origin Origin, cfg Config, store Store, agents Agents, ready func(error)) *Session {
	s := newSession(meta.ID, cfg, store, agents)
	go func() {
		err := s.copyOf(src, meta, origin)
		if err != nil {
			ready(err)
			s.run(err)
			if s.log != nil { // half a copy is no session
				s.warn("removing a fork that failed", s.store.Delete(context.Background(), s.id))
			}
			return
		}
		s.whenPublished(s.head(), func() { ready(nil) })
		s.run(nil)
	}()
	return s
}

func (s *Session) copyOf(src *Session, meta Meta, origin Origin) error {
	type point struct {
		snap    Snapshot
		end     Seq
		servers json.RawMessage
		err     error
	}
	got := make(chan point, 1)
	src.post(func() {
		got <- point{snap: src.snapshot(), end: src.seen.LastEnded, servers: src.serversOf(src.decided.Meta)}
	}, func(err error) { got <- point{err: err} })
	p := <-got
	if p.err != nil {
		return p.err
	}
	p.end = max(p.end, 1)
	meta.Parent, meta.ForkedAt = src.id, p.end
	meta.Agent = p.snap.Meta.Agent
	if meta.Title == "" {
		meta.Title = p.snap.Meta.Title
	}
	if sameJSON(meta.MCPServers, acp.WithholdSecrets(p.servers)) {
		meta.MCPServers = p.servers // the same, with what is not written of them
	}
	meta.MCPServers = s.keepServers(meta.MCPServers)
	log, err := s.store.Create(meta, sink{s})
	if err != nil {
		return err
	}
	s.log = log
	s.born, s.metaNew = true, true
	s.append(KindCreated, 0, encode(Created{Origin: origin, Meta: meta, Settings: p.snap.Settings}))
	err = src.Read(context.Background(), 2, p.end, func(r Record) error {
		for _, e := range r.Events() {
			if e.Seq < 2 {
				continue
			}
			data, err := anonymous(e)
			if err != nil {
				return fmt.Errorf("copying event %d: %w", e.Seq, err)
			}
			if e.Kind == KindUpdate || e.Kind == KindAgentRecord {
				s.credit.add(int64(len(data)))
			}
			s.append(e.Kind, e.Version, data)
		}
		return s.settle()
	})
	if err != nil {
		return err
	}
	// Settings, title and roots are those of now, the rest is that of the fork
	// point.
	s.decided.Settings = p.snap.Settings
	s.changed(Origin{}, p.snap.Settings)
	s.append(KindRootsChanged, 0, encode(RootsChanged{Dirs: meta.Dirs, MCPServers: meta.MCPServers}))
	if meta.Title != "" {
		title := acp.InfoUpdate(meta.Title, time.Time{}, nil)
		s.credit.add(int64(len(title)))
		s.append(KindUpdate, 1, title)
	}
	s.metaNew = true
	s.withdrawOf("", Origin{}, "left behind by a fork", 0)
	return nil
}

// settle writes what has been appended before the session's goroutine runs,
// page by page.
func (s *Session) settle() error {
	s.flush()
	for Seq(s.written.Load()) < s.head() {
		if f := s.storeErr.Load(); f != nil {
			return f.err
		}
		select {
		case <-s.inbox.wake:
			s.inbox.mu.Lock()
			s.inbox.nudged = false
			s.inbox.mu.Unlock()
		case <-time.After(time.Second): // a failing store does not nudge
		}
		s.publish()
	}
	return nil
}

// anonymous is an event's data without the connection that caused it.
func anonymous(e Event) ([]byte, error) {
	switch e.Kind {
	case KindUpdate, KindAgentRecord, KindTurnStarted, KindTurnEnded, KindPromptWithdrawn, KindPromptJoined, KindQuestionAsked, KindAgentStarted, KindAgentDied:
		return e.Data, nil
	}
	var fact map[string]json.RawMessage
	if err := json.Unmarshal(e.Data, &fact); err != nil {
		return nil, err
	}
	var o Origin
	if err := json.Unmarshal(fact["origin"], &o); err != nil {
		return nil, err
	}
	fact["origin"] = encode(Origin{Client: o.Client})
	return encode(fact), nil
}
