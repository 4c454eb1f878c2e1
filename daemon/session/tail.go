package session

import (
	"context"
	"sync"

	"github.com/hermesd/hermesd/transport/acp"
)

// Block is a group of events that were published together. It is immutable and
// shared by all readers.
type Block struct {
	First, Last Seq
	Events      []Event
	// Plain is true when every event is an ungated update said in version 1, so
	// that Frames is exactly what every editor of that version is sent.
	Plain bool

	id     []byte // session id, as JSON
	size   int
	once   sync.Once
	frames []byte
	ends   []int
}

// Frames returns the block's session/update lines, encoded once for all
// readers, from the event with this Seq on. Only for Plain blocks.
func (b *Block) Frames(from Seq) []byte {
	b.once.Do(func() {
		n := 0
		for i := range b.Events {
			n += len(b.Events[i].Data) + len(b.id) + 96
		}
		b.frames = make([]byte, 0, n)
		b.ends = make([]int, len(b.Events))
		for i := range b.Events {
			b.frames = acp.AppendUpdateFrame(b.frames, b.id, b.Events[i].Data)
			b.ends[i] = len(b.frames)
		}
	})
	if from <= b.First {
		return b.frames
	}
	return b.frames[b.ends[from-b.First-1]:]
}

// tail holds the newest published events for readers that keep up; the others
// read the store.
type tail struct {
	mu     sync.Mutex
	blocks []*Block
	bytes  int
	head   Seq // last published
	wake   chan struct{}
	err    error // why nothing more will be published
}

func newTail(head Seq) *tail { return &tail{head: head, wake: make(chan struct{})} }

// publish makes b the newest block and drops old ones beyond limit bytes.
func (t *tail) publish(b *Block, limit int) {
	t.mu.Lock()
	t.blocks = append(t.blocks, b)
	t.bytes += b.size
	t.head = b.Last
	t.trimLocked(limit)
	wake := t.wake
	t.wake = make(chan struct{})
	t.mu.Unlock()
	close(wake)
}

// trim drops the oldest blocks until at most limit bytes are held.
func (t *tail) trim(limit int) {
	t.mu.Lock()
	t.trimLocked(limit)
	t.mu.Unlock()
}

func (t *tail) trimLocked(limit int) {
	n := 0
	for n < len(t.blocks) && t.bytes > limit {
		t.bytes -= t.blocks[n].size
		n++
	}
	if n == 0 {
		return
	}
	if n == len(t.blocks) {
		t.blocks = nil
		return
	}
	clear(t.blocks[:n])
	t.blocks = t.blocks[n:]
}

// end tells readers that nothing more will come.
func (t *tail) end(err error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.err == nil {
		t.err = err
		close(t.wake)
		t.wake = nil
	}
}

// after returns the block that holds the event after pos if the tail has it.
func (t *tail) after(pos Seq) (b *Block, head Seq, wake <-chan struct{}, err error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	head, wake, err = t.head, t.wake, t.err
	lo, hi := 0, len(t.blocks)
	for lo < hi {
		m := (lo + hi) / 2
		if t.blocks[m].Last <= pos {
			lo = m + 1
		} else {
			hi = m
		}
	}
	if lo < len(t.blocks) && t.blocks[lo].First <= pos+1 {
		b = t.blocks[lo]
	}
	return b, head, wake, err
}

// Page is what a cursor reads at once: either Block, from the event From on,
// or Records (which may be merged, and come from the store).
type Page struct {
	Block   *Block
	From    Seq
	Records []Record
	Last    Seq
}

// Cursor reads a session's published events in order. A cursor that lags costs
// the session nothing: it reads what the tail no longer has from the store.
// It is used by one goroutine.
type Cursor struct {
	s   *Session
	pos Seq
}

// Pos is the Seq of the last event read.
func (c *Cursor) Pos() Seq { return c.pos }

// Next waits for events after Pos and returns some of them, never past limit
// when limit is not 0. The error is ctx's, the store's, or why the session has
// ended.
func (c *Cursor) Next(ctx context.Context, limit Seq) (Page, error) {
	for {
		b, head, wake, err := c.s.tail.after(c.pos)
		if head <= c.pos {
			if err != nil {
				return Page{}, err
			}
			select {
			case <-wake:
				continue
			case <-ctx.Done():
				return Page{}, ctx.Err()
			}
		}
		if b != nil && (limit == 0 || b.Last <= limit) {
			p := Page{Block: b, From: c.pos + 1, Last: b.Last}
			c.pos = b.Last
			return p, nil
		}
		to := head
		if limit != 0 && limit < to {
			to = limit
		}
		recs, err := c.s.read(c.pos+1, to, pageBytes)
		if err != nil {
			return Page{}, err
		}
		c.pos = recs[len(recs)-1].Last
		return Page{Records: recs, Last: c.pos}, nil
	}
}

// Ready returns a channel that is closed when there may be events after Pos,
// and whether there are already.
func (c *Cursor) Ready() (<-chan struct{}, bool) {
	_, head, wake, err := c.s.tail.after(c.pos)
	return wake, head > c.pos || err != nil
}

const pageBytes = 256 << 10

// records gives the events from one Seq to another.
func (b *Block) records(from, to Seq) []Record {
	recs := make([]Record, 0, to-from+1)
	for _, e := range b.Events[from-b.First : to-b.First+1] {
		recs = append(recs, e.Record())
	}
	return recs
}

// over says why nothing more will come; nil while something may.
func (t *tail) over() error {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.err
}

func (t *tail) headNow() Seq {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.head
}

// WaitPast waits for an event after seq and returns the last published one.
func (s *Session) WaitPast(ctx context.Context, seq Seq) (Seq, error) {
	for {
		_, head, wake, err := s.tail.after(seq)
		if head > seq {
			return head, nil
		}
		if err != nil {
			return 0, err
		}
		select {
		case <-wake:
		case <-ctx.Done():
			return 0, ctx.Err()
		}
	}
}
