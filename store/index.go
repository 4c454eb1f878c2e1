package store

import (
	"cmp"
	"slices"
	"sync"

	"github.com/hermesd/hermesd/daemon/session"
)

// index knows every session's Meta. It holds what is written; Metas in it are
// immutable.
type index struct {
	mu    sync.Mutex
	metas map[session.ID]*session.Meta
	list  []session.Meta // sorted; nil when metas changed since
}

func newIndex() *index { return &index{metas: make(map[session.ID]*session.Meta)} }

func (x *index) put(m *session.Meta) {
	x.mu.Lock()
	x.metas[m.ID] = m
	x.list = nil
	x.mu.Unlock()
}

// remove reports whether the session was there.
func (x *index) remove(id session.ID) bool {
	x.mu.Lock()
	defer x.mu.Unlock()
	_, ok := x.metas[id]
	if ok {
		delete(x.metas, id)
		x.list = nil
	}
	return ok
}

func (x *index) get(id session.ID) (session.Meta, bool) {
	x.mu.Lock()
	defer x.mu.Unlock()
	m, ok := x.metas[id]
	if !ok {
		return session.Meta{}, false
	}
	return *m, true
}

func (x *index) len() int {
	x.mu.Lock()
	defer x.mu.Unlock()
	return len(x.metas)
}

func (x *index) all() []session.Meta {
	x.mu.Lock()
	defer x.mu.Unlock()
	if x.list == nil {
		x.list = make([]session.Meta, 0, len(x.metas))
		for _, m := range x.metas {
			x.list = append(x.list, *m)
		}
		slices.SortFunc(x.list, func(a, b session.Meta) int {
			if c := b.Updated.Compare(a.Updated); c != 0 {
				return c
			}
			return cmp.Compare(b.ID, a.ID)
		})
	}
	return slices.Clone(x.list)
}
