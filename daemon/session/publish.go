package session

import (
	"time"

	"github.com/hermesd/hermesd/transport/acp"
)

// mustSync says which events somebody outside depends on: they are shown only
// when a power cut cannot take them back.
func mustSync(k Kind) bool {
	switch k {
	case KindCreated, KindPromptWithdrawn, KindPromptJoined, KindTurnEnded, KindQuestionAnswered, KindSettingsChanged, KindDetached, KindRootsChanged, KindPinned, KindDeleted:
		return true
	}
	return false
}

func (s *Session) head() Seq { return s.decided.Head }

// append decides: the event is numbered and part of the session from here on.
// Nothing follows the deletion.
func (s *Session) append(k Kind, version uint8, data []byte) Seq {
	if s.decided.Deleted {
		return s.decided.Head
	}
	e := Event{Seq: s.decided.Head + 1, Time: time.Now().UnixMilli(), Kind: k, Version: version, Data: data}
	s.pending = append(s.pending, e)
	if k == KindUpdate {
		s.decided.Head = e.Seq
		if acp.UpdateKind(data) == acp.SessionInfo {
			s.decided.applyUpdate(data)
			s.metaNew = true
		}
		return e.Seq
	}
	if err := s.decided.Apply(e.Record()); err != nil {
		s.warn("applying an event of our own", err)
	}
	switch k {
	case KindTurnEnded, KindTurnStarted, KindRootsChanged, KindPinned:
		s.metaNew = true
	}
	s.sync = s.sync || mustSync(k)
	if s.cfg.Audit != nil && k != KindAgentRecord {
		s.audit = append(s.audit, e)
	}
	return e.Seq
}

// Record is the event as a log gives it back.
func (e Event) Record() Record {
	return Record{First: e.Seq, Last: e.Seq, Time: e.Time, Kind: e.Kind, Version: e.Version, Data: e.Data}
}

// flush hands what was decided in this round to the log, in one group.
func (s *Session) flush() {
	if s.log == nil || len(s.pending) == 0 && !s.sync {
		return
	}
	var meta *Meta
	if s.metaNew {
		m := s.decided.Meta
		m.Updated = time.Now().UTC()
		meta = &m
		s.metaNew = false
	}
	group := s.pending
	s.unpub = append(s.unpub, group...)
	s.log.Append(meta, group, s.sync)
	s.pending, s.sync = make([]Event, 0, min(len(group), 1024)), false
	s.moved()
}

// publish shows readers every event that may be shown.
func (s *Session) publish() {
	written, durable := Seq(s.written.Load()), Seq(s.durable.Load())
	n, bytes, free, plain := 0, 0, int64(0), true
	for n < len(s.unpub) {
		e := &s.unpub[n]
		if e.Seq > written || mustSync(e.Kind) && e.Seq > durable {
			break
		}
		plain = plain && isPlain(e)
		if e.Kind == KindUpdate || e.Kind == KindAgentRecord {
			free += int64(len(e.Data))
		}
		bytes += len(e.Data) + 64
		n++
	}
	if n > 0 {
		b := &Block{First: s.unpub[0].Seq, Last: s.unpub[n-1].Seq, Events: append([]Event(nil), s.unpub[:n]...), Plain: plain, id: encode(s.id), size: 2 * bytes}
		rest := copy(s.unpub, s.unpub[n:])
		clear(s.unpub[rest:])
		s.unpub = s.unpub[:rest]
		for i := range b.Events {
			if err := s.seen.Apply(b.Events[i].Record()); err != nil {
				s.warn("applying an event", err)
			}
		}
		s.seen.share(&s.decided)
		s.tail.publish(b, s.cfg.TailBytes)
		s.credit.release(free)
	}
	if len(s.waiting) == 0 {
		return
	}
	rest := s.waiting[:0]
	var run []func()
	for _, w := range s.waiting {
		if w.durable && w.seq <= durable || !w.durable && w.seq <= s.tail.headNow() {
			run = append(run, w.do)
		} else {
			rest = append(rest, w)
		}
	}
	clear(s.waiting[len(rest):])
	s.waiting = rest
	for _, do := range run {
		do()
	}
	if len(s.pending) > 0 || s.sync {
		s.flush()
	}
}

// maxPlain is the largest update that is sent to every editor as it is.
const maxPlain = 1 << 20

// isPlain says whether every editor of version 1 is sent exactly this.
func isPlain(e *Event) bool {
	if e.Kind != KindUpdate || e.Version != 1 || len(e.Data) > maxPlain {
		return false
	}
	kind := acp.UpdateKind(e.Data)
	return kind != acp.ConfigOption && acp.Gate(kind) == ""
}

// whenPublished runs do once readers may see event n.
func (s *Session) whenPublished(n Seq, do func()) {
	s.waiting = append(s.waiting, waiter{seq: n, do: do})
}

// whenDurable runs do once everything decided so far survives a power cut.
func (s *Session) whenDurable(do func()) {
	if Seq(s.durable.Load()) >= s.head() {
		do()
		return
	}
	s.sync = true
	s.waiting = append(s.waiting, waiter{seq: s.head(), durable: true, do: do})
}

// read returns records of published events only, cut to [from, to].
func (s *Session) read(from, to Seq, maxBytes int) ([]Record, error) {
	if b, _, _, _ := s.tail.after(from - 1); b != nil {
		return b.records(from, min(to, b.Last)), nil
	}
	recs, err := s.log.Read(from, maxBytes)
	if err != nil {
		if over := s.tail.over(); over != nil {
			return nil, over // the log is closed because the session has ended
		}
		return nil, err
	}
	if len(recs) == 0 {
		return nil, ErrClosed
	}
	if recs[0].First < from {
		recs[0] = recs[0].From(from)
	}
	for i := range recs {
		if recs[i].Last >= to {
			if recs[i].Last > to {
				recs[i] = recs[i].Until(to)
			}
			return recs[:i+1], nil
		}
	}
	return recs, nil
}

// sink is the session as its store sees it.
type sink struct{ s *Session }

func (k sink) Written(n Seq) {
	raise(&k.s.written, n)
	k.s.inbox.nudge()
}

func (k sink) Durable(n Seq) {
	raise(&k.s.written, n)
	raise(&k.s.durable, n)
	k.s.inbox.nudge()
}

func (k sink) Failed(err error) {
	if err == nil {
		k.s.storeErr.Store(nil)
		return
	}
	k.s.storeErr.Store(&storeFailure{err})
}
