package store

import (
	"fmt"
	"maps"
	"slices"
	"sync"

	"github.com/hermesd/hermesd/daemon/session"
)

// eventCost is what an event in memory costs beside its Data.
const eventCost = 64

func cost(events []session.Event) int64 {
	n := int64(len(events)) * eventCost
	for i := range events {
		n += int64(len(events[i].Data))
	}
	return n
}

// log is a session in memory: open, or with something that is not in bbolt yet.
// Its events are numbered
//
//	1 … stored        in bbolt
//	stored+1 … written  in memory and in the journal
//	written+1 … head    in memory, waiting for the writer
type log struct {
	store *Store
	id    session.ID

	mu      sync.Mutex
	tail    []session.Event // stored+1 … head; what is in it never changes
	stored  session.Seq
	written session.Seq
	head    session.Seq
	first   *session.Meta // of Create, for the first Append
	next    *session.Meta // appended, not written
	meta    *session.Meta // written, not in bbolt
	asked   bool          // somebody waits for a sync of all there is
	dirty   bool          // in Store.dirty
	pending bool          // in Store.pending
	dead    bool          // deleted: nothing of it goes anywhere any more
	open    *handle

	// Only the writer touches these.
	pos int64 // position of the last write in the stream of all writes

	// calls is held while the Sink is called.
	calls sync.Mutex
	sink  session.Sink
	told  bool // that writing fails
}

// handle is what Open and Create give out.
type handle struct{ log *log }

func (h *handle) Head() session.Seq {
	h.log.mu.Lock()
	defer h.log.mu.Unlock()
	return h.log.head
}

// Append panics when the Seqs do not continue Head: the log would be lost. What
// is appended after Close goes nowhere.
func (h *handle) Append(meta *session.Meta, events []session.Event, sync bool) {
	if meta != nil {
		meta = ownMeta(*meta)
	}
	l := h.log
	l.mu.Lock()
	if l.open != h {
		l.mu.Unlock()
		return
	}
	for i := range events {
		if want := l.head + 1 + session.Seq(i); events[i].Seq != want {
			l.mu.Unlock()
			panic(fmt.Sprintf("store: event %d of session %s appended where %d belongs", events[i].Seq, l.id, want))
		}
	}
	l.tail = append(l.tail, events...)
	l.head += session.Seq(len(events))
	if meta == nil {
		meta = l.first
	}
	if meta != nil {
		meta.ID = l.id
		l.next, l.first = meta, nil
	}
	l.asked = l.asked || sync
	wake := false
	if !l.dirty && (len(events) > 0 || meta != nil || sync) {
		l.dirty = true
		l.store.mu.Lock()
		l.store.dirty = append(l.store.dirty, l)
		l.store.mu.Unlock()
		wake = true
	}
	l.mu.Unlock()
	if wake {
		poke(l.store.wake)
	}
}

func (h *handle) Read(from session.Seq, maxBytes int) ([]session.Record, error) {
	from = max(from, 1)
	l := h.log
	l.mu.Lock()
	if l.open != h {
		l.mu.Unlock()
		return nil, fmt.Errorf("reading session %s: %w", l.id, session.ErrClosed)
	}
	stored, written := l.stored, l.written
	tail := l.tail[:written-stored]
	l.mu.Unlock()

	var found []session.Record
	if from <= stored {
		var err error
		want := maxBytes
		err = l.store.healed(func() (err error) {
			found, maxBytes, err = l.store.tree.read(l.id, from, stored, want)
			return err
		})
		if err != nil {
			return nil, fmt.Errorf("reading session %s from event %d: %w", l.id, from, err)
		}
		if len(found) > 0 && found[len(found)-1].Last < stored {
			return found, nil
		}
		from = stored + 1
	}
	if from > written || (maxBytes <= 0 && len(found) > 0) {
		return found, nil
	}
	return session.JoinEvents(found, page(tail[from-stored-1:], maxBytes)), nil
}

// Close ends the calls of the Sink. What was appended is written all the same.
func (h *handle) Close() error {
	l := h.log
	l.store.registry.Lock()
	defer l.store.registry.Unlock()
	l.calls.Lock()
	defer l.calls.Unlock()
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.open == h {
		l.open = nil
		l.sink, l.told = nil, false
		l.store.forget(l)
	}
	return nil
}

// forget takes a log out of memory that nobody needs there. registry and l.mu
// are held.
func (s *Store) forget(l *log) {
	if l.open == nil && len(l.tail) == 0 && l.meta == nil && l.next == nil && !l.dirty && !l.pending && s.logs[l.id] == l {
		delete(s.logs, l.id)
	}
}

// inMemory lists the logs in memory.
func (s *Store) inMemory() []*log {
	s.registry.Lock()
	defer s.registry.Unlock()
	return slices.Collect(maps.Values(s.logs))
}

// tell calls the Sink, if there is one.
func (l *log) tell(call func(session.Sink)) {
	l.calls.Lock()
	defer l.calls.Unlock()
	if l.sink != nil {
		call(l.sink)
	}
}

// drop takes the events up to stored out of memory. l.mu is held.
func (l *log) drop(stored session.Seq) {
	rest := l.tail[stored-l.stored:]
	l.tail = nil // what was read from it may still be in use
	if len(rest) > 0 {
		l.tail = slices.Clone(rest)
	}
	l.stored = stored
}

// poke wakes the one goroutine that receives from c.
func poke(c chan struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}
