package store

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/hermesd/hermesd/daemon/session"
	"github.com/hermesd/hermesd/store/storetest"
)

// restore puts a backup in the place of a store's database.
func restore(t *testing.T, backup, dir string) {
	t.Helper()
	if err := os.MkdirAll(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	data, err := os.ReadFile(backup)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(dbName(dir), data, 0o600); err != nil {
		t.Fatal(err)
	}
}

func TestABackupHasWhatIsInTheJournalToo(t *testing.T) {
	dir, file := t.TempDir(), filepath.Join(t.TempDir(), "backup")
	s := open(t, dir, still())
	appendTo(t, s, "moved", storetest.Mixed(1, 300)...)
	if err := s.moveOnce(); err != nil {
		t.Fatal(err)
	}
	appendTo(t, s, "moved", storetest.Mixed(301, 50)...)
	appendTo(t, s, "written", storetest.Mixed(1, 50)...)
	appendTo(t, s, "deleted", storetest.Mixed(1, 50)...)
	if err := s.Delete(t.Context(), "deleted"); err != nil {
		t.Fatal(err)
	}
	if err := s.Backup(t.Context(), file, false); err != nil {
		t.Fatal(err)
	}
	if err := s.Backup(t.Context(), file, false); !errors.Is(err, fs.ErrExist) {
		t.Errorf("over a file that is there: %v", err)
	}
	if err := s.Backup(t.Context(), file, true); err != nil {
		t.Error(err)
	}
	if info, err := os.Stat(file); err != nil || info.Mode().Perm()&0o077 != 0 {
		t.Errorf("%v, %v", info.Mode(), err)
	}
	// What comes after it is not in it, also when it is put back where that is in
	// the journal.
	appendTo(t, s, "moved", storetest.Mixed(351, 50)...)
	appendTo(t, s, "later", storetest.Mixed(1, 50)...)
	epoch := s.Epoch()
	crash(s)
	for name, at := range map[string]string{"in another place": t.TempDir(), "where it was": dir} {
		t.Run(name, func(t *testing.T) {
			restore(t, file, at)
			r := found(t, at)
			if len(r.Problems) > 0 && name == "in another place" {
				t.Errorf("the check says %q", r.Problems)
			}
			s := open(t, at, still())
			if s.Epoch() == epoch || len(s.Damage()) > 0 {
				t.Errorf("epoch %s, damage %+v", s.Epoch(), s.Damage())
			}
			if n := len(s.List()); n != 2 {
				t.Errorf("%d sessions", n)
			}
			storetest.Same(t, readAll(t, s, "moved"), storetest.Mixed(1, 350))
			storetest.Same(t, readAll(t, s, "written"), storetest.Mixed(1, 50))
			appendTo(t, s, "moved", storetest.Mixed(351, 5)...)
			again := s.Epoch()
			crash(s)
			s = open(t, at, still())
			defer s.Close()
			storetest.Same(t, readAll(t, s, "moved"), storetest.Mixed(1, 355))
			if s.Epoch() != again {
				t.Error("the epoch changes at each start")
			}
		})
	}
	if unused, _ := filepath.Glob(filepath.Join(journalName(dir), "*"+unusedSuffix)); len(unused) != 1 {
		t.Errorf("the journal that was there: %v", unused)
	}
}

// churn appends to sessions, makes and deletes some, until it is told to stop,
// and says what there is.
type churn struct {
	mu   sync.Mutex
	want map[session.ID]session.Seq // 0: deleted
	stop chan struct{}
	wg   sync.WaitGroup
}

func startChurn(t *testing.T, s *Store, logs int) *churn {
	c := &churn{want: make(map[session.ID]session.Seq), stop: make(chan struct{})}
	for i := range logs {
		c.wg.Go(func() {
			for round := 0; ; round++ {
				id := session.ID(fmt.Sprintf("churn-%d-%d", i, round/4))
				c.mu.Lock()
				next := c.want[id] + 1
				c.mu.Unlock()
				appendTo(t, s, id, storetest.Mixed(next, 40)...)
				c.mu.Lock()
				c.want[id] = next + 39
				c.mu.Unlock()
				if round%8 == 7 {
					if err := s.Delete(context.Background(), id); err != nil {
						t.Error(err)
					}
					c.mu.Lock()
					delete(c.want, id)
					c.mu.Unlock()
				}
				// Enough is enough: on a slow machine there would be ever more to copy.
				if round == 200 {
					<-c.stop
					return
				}
				select {
				case <-c.stop:
					return
				default:
				}
			}
		})
	}
	return c
}

func (c *churn) end() map[session.ID]session.Seq {
	close(c.stop)
	c.wg.Wait()
	return c.want
}

func TestABackupIsConsistentWhileEverythingGoesOn(t *testing.T) {
	o := Options{TransferAfter: time.Millisecond, TransferBytes: 10000, SegmentBytes: 50000}
	s := open(t, t.TempDir(), o)
	defer s.Close()
	appendTo(t, s, "large", storetest.Mixed(1, 20000)...)
	before := map[session.ID]session.Seq{}
	c := startChurn(t, s, 3)
	rounds := 4
	for round := range rounds {
		c.mu.Lock()
		clear(before)
		for id, n := range c.want {
			before[id] = n
		}
		c.mu.Unlock()
		file := filepath.Join(t.TempDir(), fmt.Sprint(round))
		if err := s.Backup(t.Context(), file, false); err != nil {
			t.Fatal(err)
		}
		at := t.TempDir()
		restore(t, file, at)
		b := open(t, at, still())
		if len(b.Damage()) > 0 {
			t.Errorf("%+v", b.Damage())
		}
		storetest.Same(t, readAll(t, b, "large"), storetest.Mixed(1, 20000))
		for _, m := range b.List() {
			got := readAll(t, b, m.ID)
			if len(got) == 0 {
				t.Errorf("%s is empty", m.ID)
			}
			storetest.Same(t, got, storetest.Mixed(1, len(got)))
			if n := before[m.ID]; session.Seq(len(got)) < n {
				t.Errorf("%s has %d events, %d were written before", m.ID, len(got), n)
			}
		}
		if err := b.Close(); err != nil {
			t.Error(err)
		}
	}
	c.end()
}

func TestCompactingKeepsEverythingWhileEverythingGoesOn(t *testing.T) {
	dir := t.TempDir()
	o := Options{TransferAfter: time.Millisecond, TransferBytes: 10000, SegmentBytes: 50000}
	s := open(t, dir, o)
	appendTo(t, s, "keep", storetest.Mixed(1, 5000)...)
	appendTo(t, s, "drop", storetest.Mixed(1, 20000)...)
	log, err := s.Open("keep", storetest.OpenSink())
	if err != nil {
		t.Fatal(err)
	}
	if err := s.moveOnce(); err != nil {
		t.Fatal(err)
	}
	if err := s.Delete(t.Context(), "drop"); err != nil {
		t.Fatal(err)
	}
	if err := s.moveOnce(); err != nil {
		t.Fatal(err)
	}
	epoch := s.Epoch()
	c := startChurn(t, s, 3)
	for range 5 {
		if err := s.compact(t.Context()); err != nil {
			t.Fatal(err)
		}
		storetest.Same(t, storetest.ReadAll(t, log, 1, 1<<20), storetest.Mixed(1, 5000))
	}
	want := c.end()
	log.Close()
	check := func() {
		t.Helper()
		if n := len(s.List()); n != len(want)+1 {
			t.Errorf("%d sessions, want %d", n, len(want)+1)
		}
		for id, n := range want {
			storetest.Same(t, readAll(t, s, id), storetest.Mixed(1, int(n)))
		}
		storetest.Same(t, readAll(t, s, "keep"), storetest.Mixed(1, 5000))
		if s.Epoch() != epoch || len(s.Damage()) > 0 {
			t.Error("the epoch changed")
		}
	}
	check()
	crash(s)
	s = open(t, dir, still())
	check()
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	if r := found(t, dir); len(r.Problems) > 0 {
		t.Errorf("%q", r.Problems)
	}
}

func TestTheFileGetsSmallerByItselfWhenMuchWasDeleted(t *testing.T) {
	o := Options{TransferAfter: time.Millisecond, compactGain: 1 << 20}
	s := open(t, t.TempDir(), o)
	defer s.Close()
	appendTo(t, s, "keep", storetest.Mixed(1, 500)...)
	appendTo(t, s, "drop", big(t, 8<<20)...)
	if err := s.moveOnce(); err != nil {
		t.Fatal(err)
	}
	before, _ := s.Size()
	if err := s.Delete(t.Context(), "drop"); err != nil {
		t.Fatal(err)
	}
	for end := time.Now().Add(time.Minute); s.Stats().Compactions == 0; time.Sleep(time.Millisecond) {
		if time.Now().After(end) {
			t.Fatal("it does not")
		}
	}
	if after, _ := s.Size(); after >= before/2 {
		t.Errorf("%d bytes became %d", before, after)
	}
	storetest.Same(t, readAll(t, s, "keep"), storetest.Mixed(1, 500))
}

// big gives events of about so many bytes.
func big(t *testing.T, bytes int) []session.Event {
	t.Helper()
	var events []session.Event
	for n := 0; n < bytes; n += 100 << 10 {
		e := storetest.Tool(session.Seq(len(events) + 1))
		e.Data = slices.Concat(e.Data[:len(e.Data)-1], []byte(`,"x":"`), repeated(100<<10), []byte(`"}`))
		events = append(events, e)
	}
	return events
}

func repeated(n int) []byte { return bytes.Repeat([]byte("x"), n) }

func TestACopyThatIsGivenUpLeavesNothing(t *testing.T) {
	dir := t.TempDir()
	s := open(t, dir, still())
	defer s.Close()
	appendTo(t, s, "s", storetest.Mixed(1, 500)...)
	if err := s.moveOnce(); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	to := t.TempDir()
	if err := s.Backup(ctx, filepath.Join(to, "b"), false); !errors.Is(err, context.Canceled) {
		t.Errorf("Backup: %v", err)
	}
	if err := s.compact(ctx); !errors.Is(err, context.Canceled) {
		t.Errorf("compact: %v", err)
	}
	if err := s.Backup(t.Context(), filepath.Join(to, "no folder", "b"), false); err == nil {
		t.Error("into a folder that is not there")
	}
	for _, d := range []string{to, dir} {
		entries, _ := os.ReadDir(d)
		for _, e := range entries {
			if e.Name() != "lock" && e.Name() != "journal" && e.Name() != "sessions.db" {
				t.Errorf("left behind: %s", e.Name())
			}
		}
	}
	storetest.Same(t, readAll(t, s, "s"), storetest.Mixed(1, 500))
}

func TestABackupOfADamagedDatabaseIsOfWhatCanBeRead(t *testing.T) {
	w := newWreckable(t)
	dir, file := t.TempDir(), filepath.Join(t.TempDir(), "b")
	if err := os.WriteFile(dbName(dir), w.data, 0o600); err != nil {
		t.Fatal(err)
	}
	s := open(t, dir, still())
	defer s.Close()
	spoilRecord(t, s, "large-1", 700)
	if err := s.Backup(t.Context(), file, false); err != nil {
		t.Fatal(err)
	}
	at := t.TempDir()
	restore(t, file, at)
	b := open(t, at, still())
	defer b.Close()
	var o outcome
	w.read(t, b, &o)
	if o.whole != len(w.want)-1 || o.holed != 1 {
		t.Errorf("%+v", o)
	}
}
