package store

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/hermesd/hermesd/daemon/session"
	"github.com/hermesd/hermesd/store/storetest"
)

// still keeps everything in the journal.
func still() Options { return Options{TransferAfter: time.Hour} }

// crash ends the store as a kill would, after what was appended is written.
func crash(s *Store) {
	s.settle()
	s.abandon()
}

// appendTo opens or makes a log, appends and waits until it is written.
func appendTo(t testing.TB, s *Store, id session.ID, events ...session.Event) {
	t.Helper()
	sink := storetest.OpenSink()
	log, err := s.Open(id, sink)
	if errors.Is(err, session.ErrNotFound) {
		log, err = s.Create(session.Meta{ID: id, Title: "title of " + string(id)}, sink)
	}
	if err != nil {
		t.Fatal(err)
	}
	log.Append(nil, events, false)
	sink.WaitWritten(t, events[len(events)-1].Seq)
	log.Close()
}

func readAll(t testing.TB, s *Store, id session.ID) []session.Event {
	t.Helper()
	log, err := s.Open(id, storetest.OpenSink())
	if errors.Is(err, session.ErrNotFound) {
		return nil
	}
	if err != nil {
		t.Fatal(err)
	}
	defer log.Close()
	return storetest.ReadAll(t, log, 1, 1<<20)
}

func TestACrashLosesNothingThatWasWritten(t *testing.T) {
	dir := t.TempDir()
	s := open(t, dir, still())
	epoch := s.Epoch()
	for round := range 5 {
		appendTo(t, s, "s", storetest.Mixed(session.Seq(round*50+1), 50)...)
		appendTo(t, s, session.ID(fmt.Sprintf("only-%d", round)), storetest.Tool(1))
		crash(s)
		s = open(t, dir, still())
		storetest.Same(t, readAll(t, s, "s"), storetest.Mixed(1, (round+1)*50))
		if m, _ := s.Lookup("s"); m.Title != "title of s" {
			t.Errorf("meta is %+v", m)
		}
		if round == 2 { // part of it in bbolt, part in the journal
			if err := s.moveOnce(); err != nil {
				t.Fatal(err)
			}
		}
	}
	if s.Epoch() != epoch {
		t.Error("the epoch changed though nothing was lost")
	}
	if n := len(s.List()); n != 6 {
		t.Errorf("%d sessions", n)
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	if names, _ := listSegments(s.journal); len(names) != 0 {
		t.Errorf("segments left after a clean close: %v", names)
	}
}

func TestACrashDoesNotBringADeletedSessionBack(t *testing.T) {
	for _, moved := range []string{"nothing", "the session", "some of it"} {
		t.Run(moved+" in bbolt", func(t *testing.T) {
			dir := t.TempDir()
			s := open(t, dir, still())
			appendTo(t, s, "s", storetest.Mixed(1, 50)...)
			if moved != "nothing" {
				s.moveOnce()
			}
			if moved == "some of it" {
				appendTo(t, s, "s", storetest.Mixed(51, 50)...)
			}
			if err := s.Delete(context.Background(), "s"); err != nil {
				t.Fatal(err)
			}
			for range 3 {
				crash(s)
				s = open(t, dir, still())
				if len(s.List()) != 0 || readAll(t, s, "s") != nil {
					t.Fatal("it is back")
				}
			}
			s.moveOnce()
			crash(s)
			s = open(t, dir, still())
			defer s.Close()
			if len(s.List()) != 0 || readAll(t, s, "s") != nil {
				t.Fatal("it is back")
			}
		})
	}
}

// A deletion may be carried out in bbolt while the journal still holds events
// of the session: they begin in the middle then.
func TestADeletionCarriedOutLeavesNoGap(t *testing.T) {
	dir := t.TempDir()
	o := still()
	o.SegmentBytes = 2000
	s := open(t, dir, o)
	epoch := s.Epoch()
	appendTo(t, s, "s", storetest.Mixed(1, 50)...) // fills the first segment
	s.moveOnce()
	appendTo(t, s, "s", storetest.Mixed(51, 5)...)
	if err := s.Delete(context.Background(), "s"); err != nil {
		t.Fatal(err)
	}
	s.moveOnce()
	crash(s)
	numbers, _ := listSegments(s.journal)
	data, err := os.ReadFile(segmentName(s.journal, numbers[0]))
	frames := 0
	readSegment(data, func(frame) { frames++ })
	if err != nil || len(numbers) != 1 || frames != 2 {
		t.Fatalf("segments %v, %d frames: not what this test is about", numbers, frames)
	}
	s = open(t, dir, still())
	defer s.Close()
	if s.Epoch() != epoch || readAll(t, s, "s") != nil {
		t.Error("events of a deleted session were taken for damage")
	}
}

func TestDeletingASessionThatIsBeingMoved(t *testing.T) {
	s := open(t, t.TempDir(), still())
	defer s.Close()
	appendTo(t, s, "s", storetest.Mixed(1, 50)...)
	appendTo(t, s, "kept", storetest.Mixed(1, 50)...)
	s.tree.fault = func() error {
		s.tree.fault = nil
		return s.Delete(context.Background(), "s")
	}
	if err := s.moveOnce(); err != nil {
		t.Fatal(err)
	}
	if st := s.Stats(); st.Backlog != 0 || st.Sessions != 1 {
		t.Errorf("%+v", st)
	}
	if readAll(t, s, "s") != nil {
		t.Error("it is back")
	}
	s.moveOnce()
	if head, err := s.tree.head("s"); head != 0 || err != nil {
		t.Errorf("bbolt has it up to %d, %v", head, err)
	}
	storetest.Same(t, readAll(t, s, "kept"), storetest.Mixed(1, 50))
}

// What a killed process wrote may not be on the disk yet.
func TestWhatWasReplayedIsSyncedBeforeItIsCalledDurable(t *testing.T) {
	dir := t.TempDir()
	s := open(t, dir, still())
	appendTo(t, s, "s", storetest.Mixed(1, 5)...)
	crash(s)
	o := still()
	files := newFaulty()
	o.Files = files
	s = open(t, dir, o)
	defer s.Close()
	sink := storetest.OpenSink()
	log, err := s.Open("s", sink)
	if err != nil {
		t.Fatal(err)
	}
	sink.From(log.Head())
	before := files.syncs.Load()
	log.Append(nil, nil, true)
	sink.WaitDurable(t, 5)
	if n := files.syncs.Load() - before; n < 2 {
		t.Errorf("%d syncs, want that of the old segment and that of the new one", n)
	}
}

// journalOf gives the bytes of a journal of one segment with these sessions.
func journalOf(t *testing.T) (data []byte, want map[session.ID][]session.Event) {
	dir := t.TempDir()
	s := open(t, dir, still())
	want = map[session.ID][]session.Event{}
	for _, id := range []session.ID{"a", "b"} {
		for k := range 2 {
			events := []session.Event{storetest.Chunk(session.Seq(k*2+1), "m", "x"), storetest.Tool(session.Seq(k*2 + 2))}
			appendTo(t, s, id, events...)
			want[id] = append(want[id], events...)
		}
	}
	number := s.writer.number
	crash(s)
	data, err := os.ReadFile(segmentName(filepath.Join(dir, "journal"), number))
	if err != nil {
		t.Fatal(err)
	}
	return bytes.TrimRight(data, "\x00"), want // without the space that was reserved
}

// staged opens a store that finds this segment, written before a crash.
func staged(t *testing.T, data []byte, o Options) (*Store, string) {
	t.Helper()
	dir := t.TempDir()
	s := open(t, dir, still())
	crash(s)
	numbers, err := listSegments(s.journal)
	if err != nil || len(numbers) != 1 {
		t.Fatal(numbers, err)
	}
	if err := os.WriteFile(segmentName(s.journal, numbers[0]), data, 0o600); err != nil {
		t.Fatal(err)
	}
	again := open(t, dir, o)
	return again, s.Epoch()
}

func prefix(t *testing.T, got, want []session.Event) {
	t.Helper()
	if len(got) > len(want) {
		t.Fatalf("%d events of %d", len(got), len(want))
	}
	storetest.Same(t, got, want[:len(got)])
}

func TestATornTailIsCutAtEveryOffset(t *testing.T) {
	data, want := journalOf(t)
	var ends []int // of frames
	for pos := headerSize; pos < len(data); {
		size, _, ok := checkFrame(data[pos:])
		if !ok {
			t.Fatal("not a frame")
		}
		pos += size
		ends = append(ends, pos)
	}
	step := 7
	if testing.Short() {
		step = 29
	}
	for cut := 0; cut < len(data); cut++ {
		// At every offset the journal reads right; at some, and around the ends
		// of frames, a whole store does.
		whole := 0
		for _, end := range ends {
			if end <= cut {
				whole++
			}
		}
		frames := 0
		got := readSegment(data[:cut], func(frame) { frames++ })
		atEnd := cut == headerSize || slices.Contains(ends, cut)
		if frames != whole || got.damaged > 0 || got.torn == atEnd {
			t.Errorf("cut at %d: %d frames, want %d; %+v", cut, frames, whole, got)
		}
		near := slices.ContainsFunc(ends, func(end int) bool { return cut >= end-1 && cut <= end+1 })
		if cut%step == 0 || near {
			openCut(t, data[:cut], want, whole*2)
		}
		// The same with reserved space behind it. A frame that lacks nothing but
		// zeros is whole then.
		if cut < headerSize || data[cut-1] == 0 || data[cut] == 0 {
			continue
		}
		spacious := append(slices.Clone(data[:cut]), make([]byte, 5000)...)
		frames = 0
		got = readSegment(spacious, func(frame) { frames++ })
		if frames != whole || got.damaged > 0 || got.torn == atEnd {
			t.Errorf("cut at %d, before zeros: %d frames, want %d; %+v", cut, frames, whole, got)
		}
		if cut%step == 0 || near {
			openCut(t, spacious, want, whole*2)
		}
	}
}

// Zeros are space only at the end: in front of a frame they are damage.
func TestZerosBetweenFramesAreDamage(t *testing.T) {
	data, _ := journalOf(t)
	size, _, ok := checkFrame(data[headerSize:])
	if !ok {
		t.Fatal("not a frame")
	}
	bad := slices.Clone(data)
	clear(bad[headerSize : headerSize+size])
	if got := readSegment(bad, func(frame) {}); got.damaged != size || got.tail {
		t.Errorf("%+v, want %d damaged bytes", got, size)
	}
}

// openCut opens a store with this torn journal and goes on with it.
func openCut(t *testing.T, data []byte, want map[session.ID][]session.Event, n int) {
	t.Helper()
	cut := len(data)
	s, epoch := staged(t, data, still())
	got := 0
	for id, events := range want {
		have := readAll(t, s, id)
		prefix(t, have, events)
		got += len(have)
	}
	if got != n {
		t.Errorf("cut at %d: %d events, want %d", cut, got, n)
	}
	if s.Epoch() != epoch {
		t.Errorf("cut at %d: a torn tail changed the epoch", cut)
	}
	// It goes on from there.
	next := session.Seq(len(readAll(t, s, "a")) + 1)
	appendTo(t, s, "a", storetest.Tool(next))
	crash(s)
	s = open(t, s.dir, still())
	if n := len(readAll(t, s, "a")); n != int(next) {
		t.Errorf("cut at %d: %d events after going on, want %d", cut, n, next)
	}
	s.Close()
}

func TestEveryFlippedBitIsFoundAndSetAside(t *testing.T) {
	data, want := journalOf(t)
	step := 7
	if testing.Short() {
		step = 31
	}
	rng := rand.New(rand.NewPCG(1, 2))
	for at := 0; at < len(data); at++ {
		bad := slices.Clone(data)
		bad[at] ^= 1 << rng.IntN(8)
		if got := readSegment(bad, func(frame) {}); got.damaged == 0 {
			t.Errorf("flip at %d: not found", at)
		}
		if at%step != 0 {
			continue
		}
		s, epoch := staged(t, bad, still())
		for id, events := range want {
			prefix(t, readAll(t, s, id), events)
		}
		if s.Epoch() == epoch {
			t.Errorf("flip at %d: the epoch stays", at)
		}
		aside, _ := filepath.Glob(filepath.Join(s.journal, "*"+damagedSuffix))
		if len(aside) != 1 {
			t.Fatalf("flip at %d: set aside: %v", at, aside)
		}
		if kept, _ := os.ReadFile(aside[0]); !bytes.Equal(kept, bad) {
			t.Errorf("flip at %d: what was set aside is not what was there", at)
		}
		epoch = s.Epoch()
		crash(s)
		s = open(t, s.dir, still())
		if s.Epoch() != epoch {
			t.Errorf("flip at %d: the damage was found twice", at)
		}
		s.Close()
	}
}

func TestDamageInTheMiddleCostsOnlyWhatItHit(t *testing.T) {
	data, want := journalOf(t)
	size, _, _ := checkFrame(data[headerSize:])
	bad := slices.Clone(data)
	bad[headerSize+size+frameHeader+20] ^= 1 // the second frame: the rest of session a
	s, _ := staged(t, bad, still())
	defer s.Close()
	storetest.Same(t, readAll(t, s, "a"), want["a"][:2])
	storetest.Same(t, readAll(t, s, "b"), want["b"])
	// An earlier one: what follows in session a is not a's beginning.
	bad[headerSize+frameHeader+20] ^= 1
	bad[headerSize+size+frameHeader+20] ^= 1
	s2, _ := staged(t, bad, still())
	defer s2.Close()
	if got := readAll(t, s2, "a"); got != nil {
		t.Errorf("%d events with a hole before them were used", len(got))
	}
	storetest.Same(t, readAll(t, s2, "b"), want["b"])
}

func TestAPowerCutLeavesATornTailOfAnyContent(t *testing.T) {
	data, want := journalOf(t)
	zeros := append(slices.Clone(data), make([]byte, 5000)...)
	dir := t.TempDir()
	before := still()
	before.boot = func() string { return "before" }
	s := open(t, dir, before)
	crash(s)
	numbers, _ := listSegments(s.journal)
	os.WriteFile(segmentName(s.journal, numbers[0]), zeros, 0o600)
	epoch := s.Epoch()
	s = open(t, dir, still())
	defer s.Close()
	for id, events := range want {
		storetest.Same(t, readAll(t, s, id), events)
	}
	if aside, _ := filepath.Glob(filepath.Join(s.journal, "*"+damagedSuffix)); len(aside) != 0 {
		t.Errorf("set aside: %v", aside)
	}
	if s.Epoch() == epoch {
		t.Error("the epoch stays")
	}
}

func TestTheEpochChangesExactlyWhenATailMayBeLost(t *testing.T) {
	boot := func(id string) Options {
		o := still()
		o.boot = func() string { return id }
		return o
	}
	copyDir := func(t *testing.T, from, to string) {
		t.Helper()
		if err := os.RemoveAll(to); err != nil {
			t.Fatal(err)
		}
		if err := os.CopyFS(to, os.DirFS(from)); err != nil {
			t.Fatal(err)
		}
	}
	for _, test := range []struct {
		name    string
		between func(t *testing.T, s *Store, dir string)
		boot    string
		changes bool
	}{
		{"closed well, same boot", func(t *testing.T, s *Store, dir string) { s.Close() }, "1", false},
		{"closed well, other boot", func(t *testing.T, s *Store, dir string) { s.Close() }, "2", false},
		{"killed, same boot", func(t *testing.T, s *Store, dir string) { crash(s) }, "1", false},
		{"killed, other boot", func(t *testing.T, s *Store, dir string) { crash(s) }, "2", true},
		{"killed, boot unknown", func(t *testing.T, s *Store, dir string) { crash(s) }, "", true},
		{"closed well without bbolt, other boot", func(t *testing.T, s *Store, dir string) {
			s.tree.fault = func() error { return errors.New("no space") }
			if err := s.Close(); err != nil {
				t.Fatal(err)
			}
		}, "2", false},
		{"the journal is gone", func(t *testing.T, s *Store, dir string) {
			crash(s)
			os.RemoveAll(s.journal)
		}, "1", true},
		{"a segment is gone", func(t *testing.T, s *Store, dir string) {
			crash(s)
			s = open(t, dir, boot("1"))
			appendTo(t, s, "s", storetest.Tool(2))
			crash(s)
			os.Remove(segmentName(s.journal, s.writer.number-1))
		}, "1", true},
		{"the folder was put back from a copy", func(t *testing.T, s *Store, dir string) {
			s.Close()
			copyDir(t, dir, dir+".bak")
			copyDir(t, dir+".bak", dir)
		}, "1", true},
		{"the database is older than the journal", func(t *testing.T, s *Store, dir string) {
			old, _ := os.ReadFile(dbName(dir))
			s.o.SegmentBytes = 1
			appendTo(t, s, "s", storetest.Tool(2))
			s.moveOnce()
			appendTo(t, s, "s", storetest.Tool(3))
			crash(s)
			f, _ := os.OpenFile(dbName(dir), os.O_WRONLY|os.O_TRUNC, 0)
			f.Write(old)
			f.Close()
		}, "1", true},
		{"the database is one closed well before", func(t *testing.T, s *Store, dir string) {
			s.Close()
			old, _ := os.ReadFile(dbName(dir))
			s = open(t, dir, boot("1"))
			appendTo(t, s, "s", storetest.Tool(2))
			crash(s)
			f, _ := os.OpenFile(dbName(dir), os.O_WRONLY|os.O_TRUNC, 0)
			f.Write(old)
			f.Close()
		}, "1", true},
		{"the database is gone", func(t *testing.T, s *Store, dir string) {
			crash(s)
			os.Remove(dbName(dir))
		}, "1", true},
		{"a segment that is not needed any more came back", func(t *testing.T, s *Store, dir string) {
			old, _ := os.ReadFile(segmentName(s.journal, s.writer.number))
			name := segmentName(s.journal, s.writer.number)
			s.Close()
			os.WriteFile(name, old, 0o600)
		}, "1", false},
	} {
		t.Run(test.name, func(t *testing.T) {
			dir := filepath.Join(t.TempDir(), "store")
			s := open(t, dir, boot("1"))
			appendTo(t, s, "s", storetest.Tool(1))
			epoch := s.Epoch()
			test.between(t, s, dir)
			s = open(t, dir, boot(test.boot))
			defer s.Close()
			if changed := s.Epoch() != epoch; changed != test.changes {
				t.Errorf("changed: %v, want %v", changed, test.changes)
			}
		})
	}
}

func TestASecondProcessIsRefusedByName(t *testing.T) {
	dir := t.TempDir()
	s := open(t, dir, Options{})
	_, err := Open(dir, Options{})
	if !errors.Is(err, ErrLocked) || !strings.Contains(err.Error(), fmt.Sprintf("process %d", os.Getpid())) {
		t.Errorf("second Open: %v", err)
	}
	s.Close()
	open(t, dir, Options{}).Close()

	// A tool that has the database open, too.
	tree, err := openTree(dbName(dir), treeFormat)
	if err != nil {
		t.Fatal(err)
	}
	defer tree.close()
	if _, err := Open(dir, Options{}); !errors.Is(err, ErrLocked) {
		t.Errorf("Open beside another program: %v", err)
	}
}

func TestANewerFormatIsLeftUntouched(t *testing.T) {
	for _, which := range []string{"database", "journal"} {
		t.Run(which, func(t *testing.T) {
			dir := t.TempDir()
			s := open(t, dir, still())
			appendTo(t, s, "s", storetest.Mixed(1, 10)...)
			s.moveOnce()
			appendTo(t, s, "s", storetest.Mixed(11, 10)...)
			crash(s)
			name := segmentName(s.journal, s.writer.number)
			if which == "journal" {
				data, _ := os.ReadFile(name)
				binary.LittleEndian.PutUint32(data[8:], 2)
				binary.LittleEndian.PutUint32(data[20:], checksum(data[:20]))
				os.WriteFile(name, data, 0o600)
			} else {
				tr, err := openTree(dbName(dir), treeFormat)
				if err != nil {
					t.Fatal(err)
				}
				if err := setFormat(tr, treeFormat+1); err != nil {
					t.Fatal(err)
				}
				tr.close()
			}
			before := snapshot(t, dir)
			_, err := Open(dir, Options{})
			if !errors.Is(err, ErrNewer) || !strings.Contains(err.Error(), fmt.Sprintf("format %d", map[string]int{"journal": 2, "database": treeFormat + 1}[which])) {
				t.Errorf("Open: %v", err)
			}
			if after := snapshot(t, dir); after != before {
				t.Errorf("it was touched:\n%s\n%s", before, after)
			}
		})
	}
}

// snapshot names every file with its content's checksum.
func snapshot(t *testing.T, dir string) string {
	var b strings.Builder
	filepath.WalkDir(dir, func(path string, d os.DirEntry, err error) error {
		if err == nil && !d.IsDir() && d.Name() != "lock" {
			data, _ := os.ReadFile(path)
			fmt.Fprintf(&b, "%s %d %08x\n", d.Name(), len(data), checksum(data))
		}
		return err
	})
	return b.String()
}

func TestSegmentsLeaveOnceTheirEventsAreInBbolt(t *testing.T) {
	o := still()
	o.SegmentBytes = 1000
	s := open(t, t.TempDir(), o)
	defer s.Close()
	for i := range 30 {
		appendTo(t, s, "s", storetest.Mixed(session.Seq(i*10+1), 10)...)
	}
	if n, _ := listSegments(s.journal); len(n) < 10 {
		t.Errorf("only %d segments", len(n))
	}
	s.moveOnce()
	if n, _ := listSegments(s.journal); len(n) != 1 {
		t.Errorf("%d segments left", len(n))
	}
	storetest.Same(t, readAll(t, s, "s"), storetest.Mixed(1, 300))
	if st := s.Stats(); st.Backlog != 0 || st.InMemory != 0 || st.Events != 300 {
		t.Errorf("stats %+v", st)
	}
}

// An id may be used again when its session was deleted: what comes after is
// another session, wherever the deletion has got to.
func TestAnIDIsUsedAgain(t *testing.T) {
	for _, moved := range []string{"never", "before the deletion", "after the deletion", "at the end"} {
		t.Run("moved "+moved, func(t *testing.T) {
			dir := t.TempDir()
			s := open(t, dir, still())
			move := func(when string) {
				if moved == when {
					if err := s.moveOnce(); err != nil {
						t.Fatal(err)
					}
				}
			}
			appendTo(t, s, "s", storetest.Mixed(1, 50)...)
			move("before the deletion")
			if err := s.Delete(t.Context(), "s"); err != nil {
				t.Fatal(err)
			}
			move("after the deletion")
			appendTo(t, s, "s", storetest.Tool(1), storetest.Tool(2))
			move("at the end")
			want := []session.Event{storetest.Tool(1), storetest.Tool(2)}
			storetest.Same(t, readAll(t, s, "s"), want)
			file := filepath.Join(t.TempDir(), "backup")
			crash(s)
			s = open(t, dir, still())
			storetest.Same(t, readAll(t, s, "s"), want)
			if err := s.Backup(t.Context(), file, false); err != nil {
				t.Fatal(err)
			}
			if err := s.Close(); err != nil {
				t.Fatal(err)
			}
			for _, at := range []string{dir, t.TempDir()} {
				if at != dir {
					restore(t, file, at)
				}
				s := open(t, at, still())
				storetest.Same(t, readAll(t, s, "s"), want)
				s.Close()
			}
		})
	}
}
