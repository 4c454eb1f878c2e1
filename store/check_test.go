package store

import (
	"bytes"
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	bolt "go.etcd.io/bbolt"

	"github.com/hermesd/hermesd/daemon/session"
	"github.com/hermesd/hermesd/store/storetest"
)

// contents are all files of a folder.
func contents(t *testing.T, dir string) map[string]string {
	t.Helper()
	all := make(map[string]string)
	err := filepath.WalkDir(dir, func(path string, d os.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		b, err := os.ReadFile(path)
		all[path] = string(b)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return all
}

// found checks a store and sees to it that nothing was changed.
func found(t *testing.T, dir string) Report {
	t.Helper()
	before := contents(t, dir)
	r, err := Check(t.Context(), dir)
	if err != nil {
		t.Fatal(err)
	}
	after := contents(t, dir)
	for name := range before {
		if before[name] != after[name] {
			t.Errorf("%s was changed", name)
		}
	}
	if len(before) != len(after) {
		t.Errorf("%d files before, %d after", len(before), len(after))
	}
	return r
}

func TestACheckFindsNothingWrongWithWhatIsWell(t *testing.T) {
	dir := t.TempDir()
	if r, err := Check(t.Context(), filepath.Join(dir, "not there")); err != nil || !r.Complete || len(r.Problems) > 0 {
		t.Errorf("nothing: %+v, %v", r, err)
	}
	s := open(t, dir, still())
	appendTo(t, s, "s", storetest.Mixed(1, 50)...)
	if err := s.moveOnce(); err != nil {
		t.Fatal(err)
	}
	appendTo(t, s, "s", storetest.Mixed(51, 50)...)
	if _, err := Check(t.Context(), dir); err == nil || !strings.Contains(err.Error(), ErrLocked.Error()) {
		t.Errorf("while it is open: %v", err)
	}
	crash(s)
	if r := found(t, dir); !r.Complete || len(r.Problems) > 0 || r.Sessions != 1 || r.Events != 50 || r.Segments != 1 {
		t.Errorf("after a crash: %+v", r)
	}
	s = open(t, dir, still())
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	if r := found(t, dir); !r.Complete || len(r.Problems) > 0 || r.Events != 100 {
		t.Errorf("closed: %+v", r)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if r, err := Check(ctx, dir); err != nil || r.Complete {
		t.Errorf("without time: %+v, %v", r, err)
	}
}

func TestACheckSaysWhatCannotBeRead(t *testing.T) {
	damage := func(change func(*testing.T, *Store)) func(t *testing.T, dir string) {
		return func(t *testing.T, dir string) {
			s := open(t, dir, still())
			change(t, s)
			crash(s)
		}
	}
	for name, tc := range map[string]struct {
		do   func(t *testing.T, dir string)
		want string
	}{
		"a record": {damage(func(t *testing.T, s *Store) {
			if err := s.tree.update(func(tx *bolt.Tx) error {
				b := sessionEvents(tx, "s")
				k, v := b.Cursor().First()
				v = bytes.Clone(v)
				v[len(v)-1]++
				return b.Put(bytes.Clone(k), v)
			}); err != nil {
				t.Fatal(err)
			}
		}), "session s cannot be read from event 1 on"},
		"a record is gone": {damage(func(t *testing.T, s *Store) {
			if err := s.tree.update(func(tx *bolt.Tx) error {
				b := sessionEvents(tx, "s")
				k, _ := b.Cursor().First()
				return b.Delete(bytes.Clone(k))
			}); err != nil {
				t.Fatal(err)
			}
		}), "session s has no events 1 to "},
		"what is known of it": {damage(func(t *testing.T, s *Store) {
			if err := s.tree.update(func(tx *bolt.Tx) error { return tx.Bucket(bucketIndex).Put([]byte("s"), []byte("damaged")) }); err != nil {
				t.Fatal(err)
			}
		}), "what is known of session s is damaged"},
		"the journal": {func(t *testing.T, dir string) {
			s := open(t, dir, still())
			appendTo(t, s, "s", storetest.Mixed(51, 50)...)
			appendTo(t, s, "other", storetest.Mixed(1, 50)...)
			crash(s)
			names, err := listSegments(s.journal)
			if err != nil || len(names) == 0 {
				t.Fatal(names, err)
			}
			path := segmentName(s.journal, names[len(names)-1])
			b, err := os.ReadFile(path)
			if err != nil {
				t.Fatal(err)
			}
			b[headerSize+frameHeader+3]++
			if err := os.WriteFile(path, b, 0o600); err != nil {
				t.Fatal(err)
			}
		}, "bytes cannot be read"},
		"a segment is gone": {func(t *testing.T, dir string) {
			s := open(t, dir, still())
			appendTo(t, s, "s", storetest.Mixed(51, 50)...)
			crash(s)
			names, _ := listSegments(s.journal)
			for _, n := range names {
				if err := os.Remove(segmentName(s.journal, n)); err != nil {
					t.Fatal(err)
				}
			}
		}, "not of one time"},
		"a file too short": {func(t *testing.T, dir string) {
			if err := os.WriteFile(dbName(dir), []byte("x"), 0o600); err != nil {
				t.Fatal(err)
			}
		}, "too short"},
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			s := open(t, dir, still())
			appendTo(t, s, "s", storetest.Mixed(1, 50)...)
			if err := s.Close(); err != nil {
				t.Fatal(err)
			}
			tc.do(t, dir)
			r := found(t, dir)
			if !strings.Contains(strings.Join(r.Problems, "\n"), tc.want) {
				t.Errorf("%q, want %q", r.Problems, tc.want)
			}
		})
	}
}

func TestACheckOfAnotherProgramsFileIsAnError(t *testing.T) {
	dir := t.TempDir()
	if err := os.WriteFile(dbName(dir), bytes.Repeat([]byte("no database "), 4096), 0o600); err != nil {
		t.Fatal(err)
	}
	if r, err := Check(t.Context(), dir); err == nil || !strings.Contains(err.Error(), "backup") {
		t.Errorf("%+v, %v", r, err)
	}
}

func TestTheTimeOfCommitsIsCounted(t *testing.T) {
	var c Commits
	bounds := CommitBounds()
	for _, d := range append(bounds, time.Nanosecond, time.Hour) {
		c.add(d)
	}
	var n uint64
	for i, got := range c.Counts {
		want := uint64(1)
		if i == 0 {
			want = 2
		}
		if got != want {
			t.Errorf("bucket %d has %d", i, got)
		}
		n += got
	}
	if n != uint64(len(bounds)+2) || c.Slowest != time.Hour || c.Sum < time.Hour {
		t.Errorf("%+v", c)
	}
	dir := t.TempDir()
	s := open(t, dir, still())
	log, sink := create(t, s, "s")
	log.Append(nil, []session.Event{storetest.Chunk(1, "m", "text")}, true)
	sink.WaitDurable(t, 1)
	log.Close()
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	st := s.Stats()
	var counted uint64
	for _, n := range st.Commits.Counts {
		counted += n
	}
	if counted == 0 || counted != st.Syncs || st.Commits.Sum <= 0 || st.Commits.Slowest <= 0 {
		t.Errorf("%+v", st)
	}
	if database, _ := s.Size(); database < emptyTree() {
		t.Errorf("%d bytes", database)
	}
}

func TestWhyNothingCanBeStoredIsKnown(t *testing.T) {
	files := newFaulty()
	o := still()
	o.Files = files
	s := open(t, t.TempDir(), o)
	log, sink := create(t, s, "s")
	files.set(func(f *faulty) { f.space = 0 })
	log.Append(nil, []session.Event{storetest.Chunk(1, "m", "text")}, true)
	sink.WaitFailed(t, true)
	if why := s.Stats().Failing; !strings.Contains(why, "space") {
		t.Errorf("while the disk is full: %q", why)
	}
	files.set(func(f *faulty) { f.space = -1 })
	sink.WaitFailed(t, false)
	if why := s.Stats().Failing; why != "" {
		t.Errorf("afterwards: %q", why)
	}
	log.Close()
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
}
