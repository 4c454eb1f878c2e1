package store

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	bolt "go.etcd.io/bbolt"

	"github.com/hermesd/hermesd/daemon/session"
)

// A copy of the database is made while everything goes on: session by session,
// page by page, with no transaction held longer than a page takes. What is moved
// to bbolt meanwhile is noted, and copied at the end, while nothing moves: that
// is the only moment for which somebody may have to wait.

// errMeanwhile: another file took the database's place while it was copied.
var errMeanwhile = errors.New("the database was replaced while it was copied; try again")

// copyPage is how much of a session is copied at a time.
const copyPage = 1 << 20

// copyTo builds a copy of everything in bbolt at path. When it is complete end is
// called, while nothing moves, and closes or abandons the builder.
func (s *Store) copyTo(ctx context.Context, path string, end func(b *builder) error) error {
	s.copying.Lock()
	defer s.copying.Unlock()
	s.moving.Lock()
	life := s.treeLife()
	s.touched = make(map[session.ID]bool)
	s.moving.Unlock()
	defer func() {
		s.moving.Lock()
		s.touched = nil
		s.moving.Unlock()
	}()
	ids, err := s.tree.ids()
	if err != nil {
		return err
	}
	b, err := newBuilder(path)
	if err != nil {
		return err
	}
	fail := func(err error) error { return errors.Join(err, b.abandon()) }
	for _, id := range ids {
		if err := s.copySession(ctx, b, id, 0); err != nil {
			return fail(err)
		}
	}
	s.moving.Lock()
	defer s.moving.Unlock()
	if err := s.moveAll(); err != nil {
		return fail(err)
	}
	switch {
	case s.treeClosed:
		return fail(ErrClosed)
	case s.treeLife() != life:
		return fail(errMeanwhile)
	}
	for id, deleted := range s.touched {
		from := session.Seq(0)
		if deleted {
			if err := b.remove(id); err != nil {
				return fail(err)
			}
		} else {
			from = b.head(id)
		}
		if err := s.copySession(ctx, b, id, from); err != nil {
			return fail(err)
		}
	}
	return end(b)
}

// copySession copies what a session has after an event, and its Meta; nothing if
// there is no such session.
func (s *Store) copySession(ctx context.Context, b *builder, id session.ID, after session.Seq) error {
	for more := true; more; {
		if err := ctx.Err(); err != nil {
			return err
		}
		type item struct{ k, v []byte }
		var page []item
		var meta []byte
		err := s.tree.view(func(tx *bolt.Tx) error {
			more = false
			if index := tx.Bucket(bucketIndex); index != nil {
				meta = bytes.Clone(index.Get([]byte(id)))
			}
			events := sessionEvents(tx, id)
			if events == nil {
				return nil
			}
			if err := s.tree.trust(id, events); err != nil {
				return err
			}
			c := events.Cursor()
			size := 0
			for k, v := c.Seek(seqKey(after + 1)); k != nil; k, v = c.Next() {
				if size >= copyPage {
					more = true
					return nil
				}
				page = append(page, item{bytes.Clone(k), bytes.Clone(v)})
				size += len(v)
			}
			return nil
		})
		if err != nil {
			return err
		}
		for _, x := range page {
			if len(x.k) != 8 {
				return s.tree.damaged(fmt.Sprintf("a record of session %s has no number", id))
			}
			last := session.Seq(binary.BigEndian.Uint64(x.k))
			if _, err := decodeRecord(id, last, x.v); err != nil {
				return s.tree.damaged(fmt.Sprintf("event %d of session %s", last, id))
			}
			if err := b.raw(id, x.k, x.v); err != nil {
				return err
			}
			after = last
		}
		if meta != nil {
			if err := b.tx.Bucket(bucketIndex).Put([]byte(id), meta); err != nil {
				return err
			}
		}
	}
	return nil
}

// ids lists the sessions of which something is stored.
func (t *tree) ids() ([]session.ID, error) {
	var ids []session.ID
	err := t.view(func(tx *bolt.Tx) error {
		b := tx.Bucket(bucketIndex)
		if b == nil {
			return nil
		}
		return b.ForEach(func(k, _ []byte) error {
			ids = append(ids, session.ID(k))
			return nil
		})
	})
	return ids, err
}

// raw puts a record as it is stored.
func (b *builder) raw(id session.ID, k, v []byte) error {
	events, err := b.tx.Bucket(bucketEvents).CreateBucketIfNotExists([]byte(id))
	if err != nil {
		return err
	}
	events.FillPercent = 0.95
	if err := events.Put(k, v); err != nil {
		return err
	}
	if b.size += len(v) + 64; b.size >= commitBytes {
		return b.commit()
	}
	return nil
}

// head is the last event of a session that was put.
func (b *builder) head(id session.ID) session.Seq {
	events := b.tx.Bucket(bucketEvents).Bucket([]byte(id))
	if events == nil {
		return 0
	}
	k, _ := events.Cursor().Last()
	if len(k) != 8 {
		return 0
	}
	return session.Seq(binary.BigEndian.Uint64(k))
}

// Backup writes a copy of everything that is written by now to a new file, which
// is complete when it is there. It can be put in the place of sessions.db while
// no daemon runs; the store then begins a new epoch. Everything goes on
// meanwhile. An error that is fs.ErrExist says that there is such a file, and
// replace was not asked for.
func (s *Store) Backup(ctx context.Context, file string, replace bool) error {
	try := func() error { return s.backup(ctx, file, replace) }
	// What is damaged is replaced by what can be read of it.
	err := s.healed(try)
	if errors.Is(err, errMeanwhile) {
		err = s.healed(try)
	}
	if err != nil {
		return fmt.Errorf("backing up the sessions: %w", err)
	}
	return nil
}

func (s *Store) backup(ctx context.Context, file string, replace bool) error {
	if _, err := os.Lstat(file); err == nil && !replace {
		return &fs.PathError{Op: "backup", Path: file, Err: fs.ErrExist}
	}
	tmp := file + ".tmp"
	err := s.copyTo(ctx, tmp, func(b *builder) error {
		s.mu.Lock()
		covered := s.covered
		s.mu.Unlock()
		return b.finish(state{epoch: s.Epoch(), clean: true, file: isBackup, journal: covered + 1, format: s.o.formats.newest})
	})
	if err != nil {
		return err
	}
	if err := os.Rename(tmp, file); err != nil {
		return errors.Join(err, os.Remove(tmp))
	}
	return syncDir(filepath.Dir(file))
}

const (
	compactSuffix = ".compact"
	// A file is made anew if that gains this much, and half of it.
	compactGain = 32 << 20
)

// wasteful says whether the file is worth compacting.
func (t *tree) wasteful(gain int64) bool {
	used, free, err := t.usage()
	return err == nil && free > gain && free > used
}

// usage says how much of the file is used and how much is free.
func (t *tree) usage() (used, free int64, err error) {
	err = t.view(func(tx *bolt.Tx) error {
		st := t.db.Stats()
		free = int64(st.FreePageN+st.PendingPageN) * int64(t.db.Info().PageSize)
		used = max(tx.Size()-free, 0)
		return nil
	})
	return used, free, err
}

// compact puts a copy without free pages in the file's place, while everything
// goes on.
func (s *Store) compact(ctx context.Context) error {
	path := s.tree.path
	return s.copyTo(ctx, path+compactSuffix, func(b *builder) error {
		s.mu.Lock()
		st := state{epoch: s.epoch, boot: s.o.boot(), journal: s.oldest, format: s.o.formats.newest}
		s.mu.Unlock()
		// Until the new file's identity is in it nobody must take it for one that
		// was put back.
		if err := b.finish(st); err != nil {
			return err
		}
		if err := os.Rename(path+compactSuffix, path+buildSuffix); err != nil {
			return err
		}
		if err := s.tree.replace(""); err != nil {
			return err
		}
		st.file = identity(path)
		return s.tree.save(st)
	})
}

// compactIfWasteful is compact, if it is worth it. A failure costs nothing but
// space.
func (s *Store) compactIfWasteful(ctx context.Context) {
	if !s.compacting.CompareAndSwap(false, true) {
		return
	}
	defer s.compacting.Store(false)
	if !s.tree.wasteful(s.o.compactGain) {
		return
	}
	before, _ := s.Size()
	err := s.compact(ctx)
	after, _ := s.Size()
	switch {
	case err == nil:
		s.mu.Lock()
		s.stats.Compactions++
		s.mu.Unlock()
		s.o.Log.Info().Int64("before", before).Int64("after", after).Msg("the database was made smaller")
	case ctx.Err() == nil:
		s.o.Log.Warn().Err(err).Msg("the database could not be made smaller")
	}
}

// Used is how many bytes the sessions take: of the database what is in use, and
// what waits in the journal for it.
func (s *Store) Used() (int64, error) {
	used, _, err := s.tree.usage()
	return used + s.backlog.Load(), err
}

// Weigh is how many bytes of the database a session takes, 0 if it has none.
func (s *Store) Weigh(id session.ID) (int64, error) {
	var size int64
	err := s.healed(func() error {
		return s.tree.view(func(tx *bolt.Tx) error {
			size = 0
			b := sessionEvents(tx, id)
			if b == nil {
				return nil
			}
			if err := s.tree.trust(id, b); err != nil {
				return err
			}
			st := b.Stats()
			size = int64(st.BranchAlloc + st.LeafAlloc + st.InlineBucketInuse)
			return nil
		})
	})
	return size, err
}
