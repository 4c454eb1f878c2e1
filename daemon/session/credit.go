package session

import (
	"context"
	"sync"
	"sync/atomic"
)

// credit bounds how many bytes an agent is ahead of the disk: a full journal
// holds back the agent that fills it, and nobody else.
type credit struct {
	mu     sync.Mutex
	max    int64
	used   int64
	room   chan struct{} // closed when used falls; nil if nobody waits
	closed bool
}

// take waits until there is room, then counts n. More than max at once is
// taken when nothing else is outstanding.
func (c *credit) take(ctx context.Context, n int64) error {
	for {
		c.mu.Lock()
		if c.closed {
			c.mu.Unlock()
			return ErrClosed
		}
		if c.used == 0 || c.used+n <= c.max {
			c.used += n
			c.mu.Unlock()
			return nil
		}
		if c.room == nil {
			c.room = make(chan struct{})
		}
		room := c.room
		c.mu.Unlock()
		select {
		case <-room:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// add counts n without waiting: for what the session itself writes.
func (c *credit) add(n int64) {
	c.mu.Lock()
	c.used += n
	c.mu.Unlock()
}

// release gives n back.
func (c *credit) release(n int64) {
	if n == 0 {
		return
	}
	c.mu.Lock()
	c.used -= n
	c.wakeLocked()
	c.mu.Unlock()
}

// close lets every waiter go with ErrClosed.
func (c *credit) close() {
	c.mu.Lock()
	c.closed = true
	c.wakeLocked()
	c.mu.Unlock()
}

func (c *credit) wakeLocked() {
	if c.room != nil {
		close(c.room)
		c.room = nil
	}
}

// raise sets a to n unless it is further already.
func raise(a *atomic.Uint64, n Seq) {
	for {
		old := a.Load()
		if uint64(n) <= old || a.CompareAndSwap(old, uint64(n)) {
			return
		}
	}
}
