package jsonrpc

import (
	"context"
	"fmt"
	"io"
	"slices"
	"sync"
)

// maxWrite is how much is put together for one write. A longer line is written
// by itself, uncopied.
const maxWrite = 128 << 10

// An item is a line, or a block of whole lines, that waits to be written.
type item struct {
	line    []byte
	written func() // may be nil
}

// A queue holds what is to be written and who waits for it to shrink. There is
// a writer only while there is something to write: most connections are idle
// most of the time, and a waiting goroutine costs 4 KiB.
type queue struct {
	max   int    // bytes; beyond it put refuses
	spawn func() // starts a goroutine that calls write; called with mu held

	mu      sync.Mutex
	started bool // there may be a writer
	writing bool // there is one, or it is about to be
	items   []item
	size    int // bytes not yet taken by the other side, also those being written
	// holds counts the reasons to go on although nothing is queued: the
	// reader, and every request that has not been answered.
	holds int
	rooms []*room
	err   error // set when the peer closes; nothing is taken or written after it

	// blocks are buffers that small lines are put together in. The collector
	// takes them from an idle peer.
	blocks sync.Pool
}

// A room is somebody who waits for the queue to get smaller than below.
type room struct {
	below int
	free  chan struct{}
}

// start lets the writer come.
func (q *queue) start() {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.started = true
	q.rouseLocked()
}

// rouseLocked sees to it that there is a writer if there is work for one. To
// find the end of everything is work too.
func (q *queue) rouseLocked() {
	if q.started && !q.writing && q.err == nil && (len(q.items) > 0 || q.holds == 0) {
		q.writing = true
		q.spawn()
	}
}

// put appends the items. overflow means that nothing was appended because the
// queue would have outgrown its limit.
func (q *queue) put(items ...item) (overflow bool, err error) {
	size := 0
	for _, it := range items {
		if n := len(it.line); n == 0 || it.line[n-1] != '\n' {
			return false, fmt.Errorf("enqueueing %d bytes: no line break at the end", n)
		}
		size += len(it.line)
	}
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.err != nil {
		return false, q.err
	}
	if q.size > 0 && q.size+size > q.max {
		return true, ErrSlowReader
	}
	q.items = append(q.items, items...)
	q.size += size
	q.rouseLocked()
	return false, nil
}

func (q *queue) hold() {
	q.mu.Lock()
	q.holds++
	q.mu.Unlock()
}

func (q *queue) release() {
	q.mu.Lock()
	q.holds--
	q.rouseLocked()
	q.mu.Unlock()
}

// close makes err the reason and reports whether it was the first.
func (q *queue) close(err error) bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.err != nil {
		return false
	}
	q.err = err
	q.items = nil
	q.freeLocked()
	return true
}

func (q *queue) reason() error {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.err
}

// take returns all items there are; spare is used for the next ones. With
// nothing to write it returns none, and the writer must end. The error is
// io.EOF when, besides, nothing holds the queue open, and the reason when the
// peer is closed.
func (q *queue) take(spare []item) ([]item, error) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.err != nil {
		return nil, q.err
	}
	items := q.items
	q.items = spare
	if len(items) > 0 {
		return items, nil
	}
	if q.holds == 0 {
		return nil, io.EOF // writing stays set: there will be no other
	}
	q.writing = false
	if cap(spare) > 16 { // an idle peer keeps little
		q.items = nil
	}
	return nil, nil
}

// shrink notes that n bytes are written.
func (q *queue) shrink(n int) {
	q.mu.Lock()
	q.size -= n
	if len(q.rooms) > 0 {
		q.freeLocked()
	}
	q.mu.Unlock()
}

// freeLocked wakes those who have waited long enough: all, when the peer closes.
func (q *queue) freeLocked() {
	q.rooms = slices.DeleteFunc(q.rooms, func(r *room) bool {
		if q.err == nil && q.size >= r.below {
			return false
		}
		close(r.free)
		return true
	})
}

// wait returns when fewer than n bytes are queued (0 counts as 1), the context
// ends, or the peer closes.
func (q *queue) wait(ctx context.Context, n int) error {
	n = max(n, 1)
	q.mu.Lock()
	if q.err != nil || q.size < n {
		defer q.mu.Unlock()
		return q.err
	}
	r := &room{below: n, free: make(chan struct{})}
	q.rooms = append(q.rooms, r)
	q.mu.Unlock()
	select {
	case <-r.free:
		return q.reason()
	case <-ctx.Done():
		q.mu.Lock()
		defer q.mu.Unlock()
		q.rooms = slices.DeleteFunc(q.rooms, func(x *room) bool { return x == r })
		return ctx.Err()
	}
}

// write writes what is queued until nothing is. The error is the reason why
// there will be nothing any more: io.EOF if all is done.
func (q *queue) write(w io.Writer) error {
	var spare []item
	for {
		items, err := q.take(spare)
		if len(items) == 0 {
			return err
		}
		for rest := items; len(rest) > 0; {
			n, size := 1, len(rest[0].line)
			for n < len(rest) && size+len(rest[n].line) <= maxWrite {
				size += len(rest[n].line)
				n++
			}
			if err := q.writeTogether(w, rest[:n]); err != nil {
				return fmt.Errorf("writing: %w", err)
			}
			q.shrink(size)
			for _, it := range rest[:n] {
				if it.written != nil {
					it.written()
				}
			}
			rest = rest[n:]
		}
		clear(items)
		spare = items[:0]
	}
}

// writeTogether writes the items at once.
func (q *queue) writeTogether(w io.Writer, items []item) error {
	if len(items) == 1 {
		_, err := w.Write(items[0].line)
		return err
	}
	block, _ := q.blocks.Get().(*[]byte)
	if block == nil {
		block = new([]byte)
	}
	b := (*block)[:0]
	for _, it := range items {
		b = append(b, it.line...)
	}
	*block = b
	defer q.blocks.Put(block)
	_, err := w.Write(b)
	return err
}
