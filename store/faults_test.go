package store

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/hermesd/hermesd/daemon/session"
	"github.com/hermesd/hermesd/store/storetest"
)

// faulty is a file system that fails on demand.
type faulty struct {
	osFiles
	mu     sync.Mutex
	space  int64 // bytes that can still be written; negative: any number
	noSync error
	noMake error
	gate   chan struct{} // a Sync waits for it, if it is there
	syncs  atomic.Int64
	atGate atomic.Int64 // syncs that wait for the gate, or have
	makes  atomic.Int64 // calls of Create
}

func newFaulty() *faulty { return &faulty{space: -1} }

func (f *faulty) set(change func(*faulty)) {
	f.mu.Lock()
	change(f)
	f.mu.Unlock()
}

func (f *faulty) Create(name string) (File, error) {
	f.makes.Add(1)
	f.mu.Lock()
	err := f.noMake
	f.mu.Unlock()
	if err != nil {
		return nil, err
	}
	file, err := f.osFiles.Create(name)
	return faultyFile{file, f}, err
}

func (f *faulty) OpenWrite(name string) (File, error) {
	file, err := f.osFiles.OpenWrite(name)
	if err != nil {
		return nil, err
	}
	return faultyFile{file, f}, nil
}

type faultyFile struct {
	File
	f *faulty
}

// WriteAt writes what fits and fails for the rest, as a full disk does.
func (w faultyFile) WriteAt(b []byte, at int64) (int, error) {
	w.f.mu.Lock()
	n, err := len(b), error(nil)
	if w.f.space >= 0 && int64(n) > w.f.space {
		n, err = int(w.f.space), syscall.ENOSPC
	}
	if w.f.space >= 0 {
		w.f.space -= int64(n)
	}
	w.f.mu.Unlock()
	n, werr := w.File.WriteAt(b[:n], at)
	return n, errors.Join(err, werr)
}

func (w faultyFile) Sync() error {
	w.f.syncs.Add(1)
	w.f.mu.Lock()
	gate, err := w.f.gate, w.f.noSync
	w.f.mu.Unlock()
	if gate != nil {
		w.f.atGate.Add(1)
		<-gate
	}
	if err != nil {
		return err
	}
	return w.File.Sync()
}

func create(t *testing.T, s *Store, id session.ID) (session.Log, *storetest.Sink) {
	t.Helper()
	sink := storetest.NewSink()
	log, err := s.Create(session.Meta{ID: id}, sink)
	if err != nil {
		t.Fatal(err)
	}
	return log, sink
}

func TestAFullDiskIsToldAndNothingIsLost(t *testing.T) {
	for _, room := range []int64{0, 1, 17, 100, 1500} {
		t.Run(fmt.Sprintf("%d bytes left", room), func(t *testing.T) {
			files := newFaulty()
			o := still()
			o.Files = files
			dir := t.TempDir()
			s := open(t, dir, o)
			log, sink := create(t, s, "s")
			quiet, quietSink := create(t, s, "quiet")
			log.Append(nil, storetest.Mixed(1, 10), true)
			sink.WaitDurable(t, 10)

			files.set(func(f *faulty) { f.space = room })
			log.Append(nil, storetest.Mixed(11, 50), true)
			sink.WaitFailed(t, true)
			quietSink.WaitFailed(t, true)
			if err := sink.Err(); !errors.Is(err, syscall.ENOSPC) {
				t.Errorf("failed with %v", err)
			}
			log.Append(nil, storetest.Mixed(61, 40), false)
			late, lateSink := create(t, s, "late") // opened while writing fails
			late.Append(nil, storetest.Mixed(1, 5), false)
			lateSink.WaitFailed(t, true)
			if written, _ := sink.Seen(); written != 10 {
				t.Errorf("written %d on a full disk", written)
			}
			storetest.Same(t, storetest.ReadAll(t, log, 1, 1<<20), storetest.Mixed(1, 10))

			files.set(func(f *faulty) { f.space = -1 })
			sink.WaitFailed(t, false)
			quietSink.WaitFailed(t, false)
			lateSink.WaitFailed(t, false)
			sink.WaitDurable(t, 60)
			sink.WaitWritten(t, 100)
			lateSink.WaitWritten(t, 5)
			quiet.Append(nil, storetest.Mixed(1, 5), false)
			quietSink.WaitWritten(t, 5)
			crash(s)
			s = open(t, dir, still())
			defer s.Close()
			storetest.Same(t, readAll(t, s, "s"), storetest.Mixed(1, 100))
			storetest.Same(t, readAll(t, s, "late"), storetest.Mixed(1, 5))
			storetest.Same(t, readAll(t, s, "quiet"), storetest.Mixed(1, 5))
		})
	}
}

func TestACrashOnAFullDiskLeavesATornTailOnly(t *testing.T) {
	files := newFaulty()
	o := still()
	o.Files = files
	dir := t.TempDir()
	s := open(t, dir, o)
	epoch := s.Epoch()
	log, sink := create(t, s, "s")
	log.Append(nil, storetest.Mixed(1, 10), false)
	sink.WaitWritten(t, 10)
	files.set(func(f *faulty) { f.space = 300 })
	log.Append(nil, storetest.Mixed(11, 50), false)
	sink.WaitFailed(t, true)
	crash(s)
	s = open(t, dir, still())
	defer s.Close()
	storetest.Same(t, readAll(t, s, "s"), storetest.Mixed(1, 10))
	if s.Epoch() != epoch {
		t.Error("the epoch changed")
	}
}

func TestClosingOnAFullDiskSaysThatSomethingIsLost(t *testing.T) {
	files := newFaulty()
	o := still()
	o.Files = files
	s := open(t, t.TempDir(), o)
	log, sink := create(t, s, "s")
	files.set(func(f *faulty) { f.space = 0 })
	log.Append(nil, storetest.Mixed(1, 10), false)
	sink.WaitFailed(t, true)
	if err := s.Close(); !errors.Is(err, syscall.ENOSPC) {
		t.Errorf("Close: %v", err)
	}
}

func TestANewSegmentThatCannotBeMadeIsTriedAgain(t *testing.T) {
	files := newFaulty()
	o := still()
	o.Files, o.SegmentBytes = files, 1
	s := open(t, t.TempDir(), o)
	defer s.Close()
	log, sink := create(t, s, "s")
	log.Append(nil, storetest.Mixed(1, 1), false)
	sink.WaitWritten(t, 1)
	files.set(func(f *faulty) { f.noMake = syscall.EMFILE })
	log.Append(nil, storetest.Mixed(2, 1), false)
	sink.WaitFailed(t, true)
	files.set(func(f *faulty) { f.noMake = nil })
	sink.WaitFailed(t, false)
	sink.WaitWritten(t, 2)
	storetest.Same(t, storetest.ReadAll(t, log, 1, 100), storetest.Mixed(1, 2))
}

// After a sync that failed nobody knows what of the file the disk has: all that
// is only there is written again, to another file.
func TestAfterAFailedSyncEverythingIsWrittenAgain(t *testing.T) {
	files := newFaulty()
	o := still()
	o.Files = files
	dir := t.TempDir()
	s := open(t, dir, o)
	appendTo(t, s, "gone", storetest.Tool(1))
	s.moveOnce()
	log, sink := create(t, s, "s")
	log.Append(nil, storetest.Mixed(1, 10), false)
	appendTo(t, s, "other", storetest.Mixed(1, 7)...)
	sink.WaitWritten(t, 10)
	gate := make(chan struct{})
	files.set(func(f *faulty) { f.noSync, f.gate = syscall.EIO, gate })
	log.Append(nil, storetest.Mixed(11, 10), true)
	sink.WaitWritten(t, 20)
	before := s.Stats().Groups
	deleted := make(chan error)
	go func() { deleted <- s.Delete(context.Background(), "gone") }()
	for s.Stats().Groups == before { // until it is in the journal
		time.Sleep(time.Millisecond)
	}
	files.set(func(f *faulty) { f.gate = nil })
	close(gate)
	sink.WaitFailed(t, true)
	if _, durable := sink.Seen(); durable != 0 {
		t.Errorf("durable %d though no sync worked", durable)
	}
	log.Append(nil, storetest.Mixed(21, 10), false)
	files.set(func(f *faulty) { f.noSync = nil })
	sink.WaitFailed(t, false)
	sink.WaitDurable(t, 20)
	sink.WaitWritten(t, 30)
	if err := <-deleted; err != nil {
		t.Error(err)
	}
	crash(s)
	loseAllButLast(t, s)
	s = open(t, dir, still())
	defer s.Close()
	storetest.Same(t, readAll(t, s, "s"), storetest.Mixed(1, 30))
	storetest.Same(t, readAll(t, s, "other"), storetest.Mixed(1, 7))
	if readAll(t, s, "gone") != nil {
		t.Error("a deleted session is back")
	}
}

// loseAllButLast makes a journal of which only the last segment reached the disk.
func loseAllButLast(t *testing.T, s *Store) {
	t.Helper()
	numbers, _ := listSegments(s.journal)
	if len(numbers) < 2 {
		t.Fatalf("segments %v", numbers)
	}
	for _, n := range numbers[:len(numbers)-1] {
		if err := s.cut(segmentName(s.journal, n), headerSize); err != nil {
			t.Fatal(err)
		}
	}
}

func TestAfterAFailedSyncWhatWaitsToBeWrittenFollowsTheRest(t *testing.T) {
	files := newFaulty()
	o := still()
	o.Files = files
	dir := t.TempDir()
	s := open(t, dir, o)
	log, sink := create(t, s, "s")
	gate := make(chan struct{})
	files.set(func(f *faulty) { f.noSync, f.gate = syscall.EIO, gate })
	log.Append(nil, storetest.Mixed(1, 10), true)
	sink.WaitWritten(t, 10)
	for files.atGate.Load() == 0 { // the sync that will fail
		time.Sleep(time.Millisecond)
	}
	files.set(func(f *faulty) { f.space = 100 })
	log.Append(nil, storetest.Mixed(11, 10), false)
	sink.WaitFailed(t, true)
	makes := files.makes.Load()
	files.set(func(f *faulty) { f.noSync, f.gate = nil, nil }) // only the sync that waits will fail
	close(gate)
	for files.makes.Load() == makes { // until the writer wants another file for it
		time.Sleep(time.Millisecond)
	}
	files.set(func(f *faulty) { f.space = -1 })
	sink.WaitDurable(t, 10)
	sink.WaitWritten(t, 20)
	crash(s)
	loseAllButLast(t, s)
	s = open(t, dir, still())
	defer s.Close()
	storetest.Same(t, readAll(t, s, "s"), storetest.Mixed(1, 20))
}

func TestWritingGoesOnWhileASyncRuns(t *testing.T) {
	files := newFaulty()
	o := still()
	o.Files = files
	s := open(t, t.TempDir(), o)
	defer s.Close()
	log, sink := create(t, s, "s")
	other, otherSink := create(t, s, "other")
	gate := make(chan struct{})
	files.set(func(f *faulty) { f.gate = gate })
	log.Append(nil, storetest.Mixed(1, 1), true)
	sink.WaitWritten(t, 1)
	for seq := session.Seq(1); seq <= 100; seq++ {
		other.Append(nil, storetest.Mixed(seq, 1), true)
		otherSink.WaitWritten(t, seq) // though the disk does not answer
	}
	if _, durable := otherSink.Seen(); durable != 0 {
		t.Errorf("durable %d before any sync ended", durable)
	}
	before := files.syncs.Load()
	files.set(func(f *faulty) { f.gate = nil })
	close(gate)
	sink.WaitDurable(t, 1)
	otherSink.WaitDurable(t, 100)
	if n := files.syncs.Load() - before; n > 2 {
		t.Errorf("%d more syncs for what waited for one", n)
	}
}

func TestRotatingWhileASyncRunsSyncsBothSegments(t *testing.T) {
	files := newFaulty()
	o := still()
	o.Files, o.SegmentBytes = files, 1
	s := open(t, t.TempDir(), o)
	defer s.Close()
	log, sink := create(t, s, "s")
	gate := make(chan struct{})
	files.set(func(f *faulty) { f.gate = gate })
	log.Append(nil, storetest.Mixed(1, 1), true)
	for seq := session.Seq(2); seq <= 5; seq++ {
		log.Append(nil, storetest.Mixed(seq, 1), true)
		sink.WaitWritten(t, seq)
	}
	files.set(func(f *faulty) { f.gate = nil })
	close(gate)
	sink.WaitDurable(t, 5)
	if n := files.syncs.Load(); n < 5 {
		t.Errorf("%d syncs for five segments", n)
	}
	if sink.Failures() > 0 {
		t.Error("a sync failed on the way")
	}
}

// When bbolt does not keep up the agents wait, and what editors decide does not.
func TestBeyondTheBacklogOnlyControlIsWritten(t *testing.T) {
	o := Options{MaxBacklog: 2000, TransferBytes: 500, TransferAfter: time.Millisecond}
	s := open(t, t.TempDir(), o)
	defer s.Close()
	var stuck atomic.Bool
	stuck.Store(true)
	s.moving.Lock()
	s.tree.fault = func() error {
		if stuck.Load() {
			return syscall.ENOSPC
		}
		return nil
	}
	s.moving.Unlock()
	agent, agentSink := create(t, s, "agent")
	editor, editorSink := create(t, s, "editor")
	n := session.Seq(0)
	for agentSink.Err() == nil { // told when the bound is reached
		n++
		agent.Append(nil, storetest.Mixed(n, 1), false)
		agentSink.Wait(t, "written or failed", func(written, _ session.Seq, failed error) bool { return written >= n || failed != nil })
		if n > 1000 {
			t.Fatal("there is no bound")
		}
	}
	n++
	agent.Append(nil, storetest.Mixed(n, 1), false)
	if !errors.Is(agentSink.Err(), syscall.ENOSPC) {
		t.Errorf("failed with %v", agentSink.Err())
	}
	editor.Append(nil, storetest.Mixed(1, 1), true)
	editorSink.WaitDurable(t, 1)
	written, _ := agentSink.Seen()
	if written >= n {
		t.Errorf("all of %d events were written beyond the bound", n)
	}
	agent.Append(nil, storetest.Mixed(n+1, 1), true) // a turn's end takes along what was said before
	agentSink.WaitDurable(t, n+1)

	agent.Append(nil, storetest.Mixed(n+2, 50), false)
	stuck.Store(false)
	agentSink.WaitFailed(t, false)
	agentSink.WaitWritten(t, n+51)
	storetest.Same(t, storetest.ReadAll(t, agent, 1, 1<<20), storetest.Mixed(1, int(n+51)))
}

func TestDeleteEndsWithItsContext(t *testing.T) {
	files := newFaulty()
	o := still()
	o.Files = files
	s := open(t, t.TempDir(), o)
	defer s.Close()
	appendTo(t, s, "s", storetest.Tool(1))
	gate := make(chan struct{})
	files.set(func(f *faulty) { f.gate = gate })
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error)
	go func() { done <- s.Delete(ctx, "s") }()
	cancel()
	if err := <-done; !errors.Is(err, context.Canceled) {
		t.Errorf("Delete: %v", err)
	}
	if _, err := s.Create(session.Meta{ID: "s"}, storetest.NewSink()); !errors.Is(err, session.ErrInUse) {
		t.Errorf("creating one that is being deleted: %v", err)
	}
	files.set(func(f *faulty) { f.gate = nil })
	close(gate)
	if err := s.Delete(context.Background(), "s"); err != nil {
		t.Error(err)
	}
}

// A session that is still read when the daemon ends is told so; it neither
// takes the store with it nor sees less than there is.
func TestWhoReadsWhileTheStoreClosesIsToldSo(t *testing.T) {
	s := open(t, t.TempDir(), still())
	const n = 200
	appendTo(t, s, "s", storetest.Tool(1))
	for i := session.Seq(2); i <= n; i++ {
		appendTo(t, s, "s", storetest.Tool(i))
	}
	if err := s.moveOnce(); err != nil {
		t.Fatal(err)
	}
	log, err := s.Open("s", storetest.OpenSink())
	if err != nil {
		t.Fatal(err)
	}
	read := make(chan struct{})
	var readers sync.WaitGroup
	for range 4 {
		readers.Go(func() {
			for i := 0; ; i++ {
				recs, err := log.Read(1, 1<<20)
				if i == 0 {
					read <- struct{}{}
				}
				switch {
				case errors.Is(err, ErrClosed):
					return
				case err != nil || len(recs) == 0 || recs[len(recs)-1].Last != n:
					t.Errorf("%d records, %v", len(recs), err)
					return
				}
			}
		})
	}
	for range 4 {
		<-read
	}
	if err := s.Close(); err != nil {
		t.Error(err)
	}
	readers.Wait()
	if _, err := s.Open("s", storetest.OpenSink()); !errors.Is(err, ErrClosed) {
		t.Error(err)
	}
	if err := s.Close(); err != nil {
		t.Error("closed twice:", err)
	}
}
