package store

import (
	"context"
	"fmt"
	"sync"

	"github.com/hermesd/hermesd/daemon/session"
)

// Memory is a session.Store that forgets: for tests and for a daemon inside
// one process. What is written is durable there.
type Memory struct {
	epoch string
	index *index

	telling sync.WaitGroup // goroutines of logs

	mu   sync.Mutex
	logs map[session.ID]*memoryLog
}

var (
	_ session.Store = (*Memory)(nil)
	_ session.Log   = (*memoryHandle)(nil)
)

// NewMemory returns an empty store. It has nothing that needs closing: a log
// has a goroutine only while there is something to tell its Sink.
func NewMemory() *Memory {
	return &Memory{epoch: newEpoch(), index: newIndex(), logs: make(map[session.ID]*memoryLog)}
}

// memoryLog is one session; its mutex is taken after Memory.mu.
type memoryLog struct {
	id session.ID
	of *Memory

	mu      sync.Mutex
	events  []session.Event
	written int // of events
	first   *session.Meta
	next    *session.Meta
	asked   bool
	telling bool // a goroutine does
	open    *memoryHandle
	stored  bool // something was appended
	gone    bool

	calls sync.Mutex // held while the Sink is called; taken before mu
	sink  session.Sink
}

type memoryHandle struct{ log *memoryLog }

// Epoch is random text, for as long as the store lives.
func (m *Memory) Epoch() string { return m.epoch }

// List returns every session of which something is written.
func (m *Memory) List() []session.Meta { return m.index.all() }

// Lookup returns what is written of a session's Meta.
func (m *Memory) Lookup(id session.ID) (session.Meta, bool) { return m.index.get(id) }

// Create makes an empty log.
func (m *Memory) Create(meta session.Meta, sink session.Sink) (session.Log, error) {
	if err := validID(meta.ID); err != nil {
		return nil, fmt.Errorf("creating a session: %w", err)
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.logs[meta.ID] != nil {
		return nil, fmt.Errorf("creating session %s: %w", meta.ID, session.ErrInUse)
	}
	l := &memoryLog{id: meta.ID, of: m, first: ownMeta(meta), sink: sink}
	l.open = &memoryHandle{l}
	m.logs[meta.ID] = l
	return l.open, nil
}

// Open opens the log of a session that was created and has an event or a Meta.
func (m *Memory) Open(id session.ID, sink session.Sink) (session.Log, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	l := m.logs[id]
	if l == nil {
		return nil, fmt.Errorf("opening session %s: %w", id, session.ErrNotFound)
	}
	l.calls.Lock()
	defer l.calls.Unlock()
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.open != nil {
		return nil, fmt.Errorf("opening session %s: %w", id, session.ErrInUse)
	}
	l.open, l.sink = &memoryHandle{l}, sink
	return l.open, nil
}

// Delete forgets a session.
func (m *Memory) Delete(_ context.Context, id session.ID) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	l := m.logs[id]
	if l == nil {
		return nil
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.open != nil {
		return fmt.Errorf("deleting session %s: %w", id, session.ErrInUse)
	}
	l.gone = true
	delete(m.logs, id)
	m.index.remove(id)
	return nil
}

// Close returns when what was appended is written. The store can be used on.
func (m *Memory) Close() error {
	m.telling.Wait()
	return nil
}

func (h *memoryHandle) Head() session.Seq {
	h.log.mu.Lock()
	defer h.log.mu.Unlock()
	return session.Seq(len(h.log.events))
}

// Append panics when the Seqs do not continue Head.
func (h *memoryHandle) Append(meta *session.Meta, events []session.Event, sync bool) {
	if meta != nil {
		meta = ownMeta(*meta)
	}
	l := h.log
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.open != h {
		return
	}
	for i := range events {
		if want := session.Seq(len(l.events) + 1 + i); events[i].Seq != want {
			panic(fmt.Sprintf("store: event %d of session %s appended where %d belongs", events[i].Seq, l.id, want))
		}
	}
	if len(events) == 0 && meta == nil && !sync {
		return
	}
	l.events = append(l.events, events...)
	if meta == nil {
		meta = l.first
	}
	if meta != nil {
		meta.ID = l.id
		l.next, l.first = meta, nil
	}
	l.stored = true
	l.asked = l.asked || sync
	if !l.telling {
		l.telling = true
		l.of.telling.Go(l.tell)
	}
}

// tell makes what was appended written and calls the Sink until there is no
// more to tell.
func (l *memoryLog) tell() {
	for {
		l.calls.Lock()
		l.mu.Lock()
		if l.gone || (l.written == len(l.events) && l.next == nil && !l.asked) {
			l.telling = false
			l.mu.Unlock()
			l.calls.Unlock()
			return
		}
		news := l.written < len(l.events) || l.next != nil
		l.written = len(l.events)
		if l.next != nil {
			l.of.index.put(l.next)
		}
		n, asked, sink := session.Seq(l.written), l.asked, l.sink
		l.next, l.asked = nil, false
		l.mu.Unlock()
		if sink != nil {
			if news {
				sink.Written(n)
			}
			if asked {
				sink.Durable(n)
			}
		}
		l.calls.Unlock()
	}
}

func (h *memoryHandle) Read(from session.Seq, maxBytes int) ([]session.Record, error) {
	from = max(from, 1)
	l := h.log
	l.mu.Lock()
	if l.open != h {
		l.mu.Unlock()
		return nil, fmt.Errorf("reading session %s: %w", l.id, session.ErrClosed)
	}
	events := l.events[:l.written]
	l.mu.Unlock()
	if from > session.Seq(len(events)) {
		return nil, nil
	}
	return session.JoinEvents(nil, page(events[from-1:], maxBytes)), nil
}

// Close ends the calls of the Sink.
func (h *memoryHandle) Close() error {
	l := h.log
	l.of.mu.Lock()
	defer l.of.mu.Unlock()
	l.calls.Lock()
	defer l.calls.Unlock()
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.open == h {
		l.open, l.sink = nil, nil
		if !l.stored {
			delete(l.of.logs, l.id)
		}
	}
	return nil
}

// page is the front of events that a page of maxBytes holds, one at least.
func page(events []session.Event, maxBytes int) []session.Event {
	n := 0
	for n < len(events) && (n == 0 || maxBytes > 0) {
		maxBytes -= len(events[n].Data) + eventCost
		n++
	}
	return events[:n]
}
