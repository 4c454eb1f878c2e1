package store

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"time"

	bolt "go.etcd.io/bbolt"

	"github.com/hermesd/hermesd/daemon/session"
)

// Report is what Check has found.
type Report struct {
	Sessions int
	Events   uint64   // that can be read
	Segments int      // of the journal, which the next Open reads
	Problems []string // what cannot be read, for people; at most maxProblems
	// Complete is false if ctx has ended before everything was looked at.
	Complete bool
}

const maxProblems = 20

func (r *Report) problem(format string, args ...any) {
	if len(r.Problems) < maxProblems {
		r.Problems = append(r.Problems, fmt.Sprintf(format, args...))
	}
}

// Check reads everything that the store in dir keeps and says what of it cannot
// be read. It changes nothing, not even a lock's file: the caller sees to it that
// no daemon has the store open, or begins to. A folder that is not there is an
// empty store. The error is ErrLocked if a process has the database open, ErrNewer
// if a newer version wrote it, ErrDamaged if nothing of it can be read.
func Check(ctx context.Context, dir string) (Report, error) {
	var r Report
	if _, err := os.Stat(dir); errors.Is(err, fs.ErrNotExist) {
		r.Complete = true
		return r, nil
	}
	st, err := checkTree(ctx, dir, &r)
	if err != nil {
		return r, fmt.Errorf("checking the session store in %s: %w", dir, err)
	}
	if err := checkJournal(ctx, dir, st, &r); err != nil {
		return r, fmt.Errorf("checking the session store in %s: %w", dir, err)
	}
	r.Complete = ctx.Err() == nil
	return r, nil
}

// SetAside are the files in the store's folder that could not be read once and
// are kept for whoever wants to look at them.
func SetAside(dir string) []string {
	var all []string
	for _, pattern := range []string{dbName(dir) + ".corrupt-*", filepath.Join(journalName(dir), "*"+damagedSuffix), filepath.Join(journalName(dir), "*"+unusedSuffix)} {
		found, err := filepath.Glob(pattern)
		if err == nil { // the patterns are ours
			all = append(all, found...)
		}
	}
	return all
}

func checkTree(ctx context.Context, dir string, r *Report) (state, error) {
	path := dbName(dir)
	info, err := os.Stat(path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return state{fresh: true}, nil
	case err != nil:
		return state{}, err
	case info.Size() < emptyTree():
		r.problem("%s is too short to hold anything; the next start puts it aside", path)
		return state{fresh: true}, nil
	}
	t := &tree{path: path, format: treeFormat}
	err = t.guard(func() (err error) {
		if err := t.firstLook(); err != nil {
			return err
		}
		t.db, err = bolt.Open(path, 0, &bolt.Options{ReadOnly: true, Timeout: time.Second, FreelistType: bolt.FreelistMapType,
			OpenFile: func(name string, _ int, _ os.FileMode) (*os.File, error) { return os.Open(name) }})
		return err
	})
	if err == nil {
		t.trusted = make(map[session.ID]bool)
		if err = t.lookClosely(); err != nil {
			err = errors.Join(err, t.close())
		}
	}
	if err = openError(t, err); errors.Is(err, ErrDamaged) {
		return state{}, fmt.Errorf("%w; the next start keeps what can be read, and the file beside it, unless you put a backup in its place", err)
	} else if err != nil {
		return state{}, err
	}
	defer func() { _ = t.close() }()
	st, err := t.load()
	if err != nil {
		return st, err
	}
	known := newIndex()
	damaged, err := t.metas(known)
	if err != nil {
		return st, err
	}
	r.Sessions = known.len()
	for _, id := range damaged {
		r.problem("what is known of session %s is damaged; the next start keeps what can be read", id)
	}
	err = t.view(func(tx *bolt.Tx) error {
		events := tx.Bucket(bucketEvents)
		if events == nil {
			return nil
		}
		return events.ForEachBucket(func(id []byte) error {
			b := events.Bucket(id)
			if err := t.trust(session.ID(id), b); err != nil {
				r.problem("%v", err)
				return ctx.Err()
			}
			checkRecords(ctx, b, session.ID(id), r)
			return ctx.Err()
		})
	})
	if ctx.Err() != nil {
		err = nil
	}
	return st, err
}

// checkRecords reads one session's records.
func checkRecords(ctx context.Context, b *bolt.Bucket, id session.ID, r *Report) {
	next := session.Seq(1)
	c := b.Cursor()
	for k, v := c.First(); k != nil && ctx.Err() == nil; k, v = c.Next() {
		if len(k) != 8 {
			r.problem("session %s has a record without a number", id)
			return
		}
		last := session.Seq(binary.BigEndian.Uint64(k))
		rec, err := decodeRecord(id, last, v)
		switch {
		case err != nil:
			r.problem("session %s cannot be read from event %d on", id, next)
			return
		case rec.First > next:
			r.problem("session %s has no events %d to %d", id, next, rec.First-1)
			return
		}
		r.Events += uint64(last - next + 1)
		next = last + 1
	}
}

func checkJournal(ctx context.Context, dir string, st state, r *Report) error {
	numbers, err := listSegments(journalName(dir))
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	numbers = slices.DeleteFunc(numbers, func(n uint64) bool { return n < st.journal }) // removed by the next Open
	var segments []segment
	for _, n := range numbers {
		if ctx.Err() != nil {
			return nil
		}
		name := segmentName(journalName(dir), n)
		data, err := os.ReadFile(name)
		if err != nil {
			return err
		}
		if format, ok := readHeader(data); ok && format > segmentFormat {
			return newer(name, format, segmentFormat)
		}
		got := readSegment(data, func(frame) {})
		powerCut := got.tail && !st.clean && (st.boot == "" || st.boot != bootID()) // pages that never got to the disk
		if got.damaged > 0 && !powerCut {
			r.problem("%s: %d bytes cannot be read; the next start keeps a copy and goes on with the rest", name, got.damaged)
		}
		segments = append(segments, segment{number: n})
	}
	r.Segments = len(segments)
	if why := missing(segments, st); why != "" {
		r.problem("%s; events that were said last may be lost", why)
	}
	return nil
}
