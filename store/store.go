package store

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"
	"time"

	"github.com/rs/zerolog"

	"github.com/hermesd/hermesd/daemon/session"
)

// Options of Open. The zero value is right for everybody but tests.
type Options struct {
	// Log gets what went wrong and was dealt with.
	Log zerolog.Logger
	// Files is the file system under the journal; nil is the real one.
	Files Files
	// SegmentBytes is the length at which a segment of the journal is ended.
	// Default 4 MiB.
	SegmentBytes int64
	// TransferBytes in memory start a transfer to bbolt; less waits for
	// TransferAfter. Defaults 1 MiB and 2 s.
	TransferBytes int64
	TransferAfter time.Duration
	// MaxBacklog bounds what waits in memory for bbolt: beyond it only logs
	// that ask for a sync are written. What waits costs some ten times its size
	// (events, their bytes in bbolt's transaction, the collector's slack), and
	// more of it makes nothing faster. Default 3 MiB.
	MaxBacklog int64

	boot        func() string // bootID
	formats     formats       // ourFormats
	compactGain int64
}

// Store keeps sessions in a folder. It implements session.Store.
type Store struct {
	o       Options
	dir     string
	journal string // the journal's folder
	files   Files
	lock    *os.File
	tree    *tree
	index   *index

	wake   chan struct{} // for the writer: there is something to do
	some   chan struct{} // for the transfer: something is written
	much   chan struct{} // for the transfer: do not wait any longer
	syncs  chan syncJob  // to the syncer
	synced chan error    // its answers

	backlog atomic.Int64 // bytes written and not in bbolt

	// moving is held by who moves, and by who puts another file in the place of
	// the database. It is taken before all other locks but copying.
	moving     sync.Mutex
	treeClosed bool // by Close
	// touched are, while a copy is made, the sessions of which something was moved
	// meanwhile; true if they were deleted.
	touched map[session.ID]bool
	// copying is held while the database is copied, and taken before all other
	// locks.
	copying    sync.Mutex
	compacting atomic.Bool

	// registry guards logs: the sessions in memory. It is taken before log.mu.
	registry sync.Mutex
	logs     map[session.ID]*log

	// mu is taken after log.mu. It guards what the goroutines hand each other.
	mu       sync.Mutex
	dirty    []*log                   // have something for the writer
	deletes  []*deletion              // for the writer
	removing map[session.ID]*deletion // deleted, not durable yet
	pending  []*log                   // have something for the transfer
	gone     []session.ID             // deletions for the transfer
	covered  uint64                   // segment of the last write: those below hold nothing that is not pending or in bbolt
	oldest   uint64                   // first segment that may exist
	moveErr  error                    // of the last transfer
	freed    bool                     // sessions were deleted in bbolt
	closing  bool
	stats    Stats
	epoch    string
	damage   []Damage

	writer     *writer
	writerErr  error // valid when writerDone is closed
	writerDone chan struct{}
	syncerDone chan struct{}
	moverStop  chan struct{}
	moverDone  chan struct{}
	closeOnce  sync.Once
	closeErr   error
}

var (
	_ session.Store = (*Store)(nil)
	_ session.Log   = (*handle)(nil)
)

// Stats are counters since Open, and what there is now.
type Stats struct {
	Sessions     int
	InMemory     int    // sessions open or with something not in bbolt
	Backlog      int64  // bytes in memory that are not in bbolt
	Groups       uint64 // writes to the journal
	Events       uint64 // in them
	Bytes        uint64 // in them
	Syncs        uint64 // of the journal
	Transfers    uint64 // transactions
	Records      uint64 // in them
	TransferTime time.Duration
	Compactions  uint64 // of the database
	Commits      Commits
	Failing      string // why nothing can be written at the moment; "" if it can
}

// Open opens the store in dir, making it if there is none. The folder then
// belongs to this process until Close; if it belongs to another, the error is
// ErrLocked, and if a newer version wrote it, ErrNewer.
func Open(dir string, o Options) (_ *Store, err error) {
	o.defaults()
	s := &Store{
		o: o, dir: dir, journal: journalName(dir), files: o.Files, index: newIndex(),
		wake: make(chan struct{}, 1), some: make(chan struct{}, 1), much: make(chan struct{}, 1),
		syncs: make(chan syncJob, 1), synced: make(chan error, 1),
		logs: make(map[session.ID]*log), removing: make(map[session.ID]*deletion),
		writerDone: make(chan struct{}), syncerDone: make(chan struct{}),
		moverStop: make(chan struct{}), moverDone: make(chan struct{}),
	}
	defer func() {
		if err != nil {
			s.abandon()
			err = fmt.Errorf("opening the session store in %s: %w", dir, err)
		}
	}()
	if err := os.MkdirAll(s.journal, 0o700); err != nil {
		return nil, err
	}
	if s.lock, err = takeLock(filepath.Join(dir, "lock")); err != nil {
		return nil, err
	}
	if err := s.bringUp(); err != nil {
		return nil, err
	}
	go func() {
		defer close(s.writerDone)
		s.writerErr = s.writer.run()
		s.writer.file.Close()
	}()
	go func() {
		defer close(s.syncerDone)
		s.syncer()
	}()
	go func() {
		defer close(s.moverDone)
		s.transfer(s.moverStop)
	}()
	return s, nil
}

func (o *Options) defaults() {
	if o.Files == nil {
		o.Files = osFiles{}
	}
	if o.SegmentBytes <= 0 {
		o.SegmentBytes = 4 << 20
	}
	if o.TransferBytes <= 0 {
		o.TransferBytes = 1 << 20
	}
	if o.TransferAfter <= 0 {
		o.TransferAfter = 2 * time.Second
	}
	if o.MaxBacklog <= 0 {
		o.MaxBacklog = 3 << 20
	}
	if o.boot == nil {
		o.boot = bootID
	}
	if o.formats.newest == 0 {
		o.formats = ourFormats()
	}
	if o.compactGain == 0 {
		o.compactGain = compactGain
	}
}

// bringUp brings memory, journal and database to where they were. A database
// that is damaged is replaced by what can be read of it.
func (s *Store) bringUp() error {
	err := s.tryToBringUp()
	if !errors.Is(err, ErrDamaged) {
		return err
	}
	if s.tree != nil {
		_ = s.tree.close()
	}
	if s.writer != nil && s.writer.file != nil {
		s.writer.file.Close()
	}
	s.tree, s.writer, s.index = nil, nil, newIndex()
	s.pending, s.gone, s.logs = nil, nil, make(map[session.ID]*log)
	s.backlog.Store(0)
	if err := s.salvageClosed(err); err != nil {
		return err
	}
	return s.tryToBringUp()
}

func (s *Store) tryToBringUp() error {
	segments, err := s.readJournal()
	if err != nil {
		return err
	}
	if s.tree, err = openTree(dbName(s.dir), s.o.formats.newest); err != nil {
		return err
	}
	st, err := s.tree.load()
	if err != nil {
		return err
	}
	if err := s.lookThrough(st); err != nil {
		return err
	}
	if st, err = s.migrate(st); err != nil {
		return err
	}
	s.writer = &writer{s: s}
	return s.recover(segments, st)
}

// lookThrough reads the whole database if the machine went down while it was
// open: that is when files get damaged.
func (s *Store) lookThrough(st state) error {
	if boot := s.o.boot(); st.fresh || st.clean || boot != "" && boot == st.boot {
		return nil
	}
	sv, closeFile, err := surveyPath(s.tree.path)
	if err != nil {
		return err
	}
	defer func() { _ = closeFile() }()
	if sv.damaged {
		return s.tree.damaged("the machine went down while it was open, and not all of it can be read")
	}
	return nil
}

// abandon lets go of everything Open took.
func (s *Store) abandon() {
	if s.tree != nil {
		_ = s.tree.close()
	}
	s.release()
}

// release lets go of all but the tree.
func (s *Store) release() {
	if s.writer != nil && s.writer.file != nil {
		s.writer.file.Close()
	}
	if s.lock != nil {
		s.lock.Close()
	}
}

// Epoch is random text, see the package comment.
func (s *Store) Epoch() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.epoch
}

func newEpoch() string { return rand.Text() }

// List returns every session of which something is written. Slices in the
// Metas are shared and must not be written to.
func (s *Store) List() []session.Meta { return s.index.all() }

// Lookup returns what is written of a session's Meta.
func (s *Store) Lookup(id session.ID) (session.Meta, bool) { return s.index.get(id) }

// Create makes an empty log. meta is written with the first Append, unless that
// has a newer one.
func (s *Store) Create(meta session.Meta, sink session.Sink) (session.Log, error) {
	if err := validID(meta.ID); err != nil {
		return nil, fmt.Errorf("creating a session: %w", err)
	}
	s.registry.Lock()
	defer s.registry.Unlock()
	if err := s.unused(meta.ID); err != nil {
		return nil, fmt.Errorf("creating session %s: %w", meta.ID, err)
	}
	l := &log{store: s, id: meta.ID, sink: sink, first: ownMeta(meta)}
	l.open = &handle{l}
	s.logs[meta.ID] = l
	return l.open, nil
}

// unused says why a session of this id cannot be made. registry is held.
func (s *Store) unused(id session.ID) error {
	if s.logs[id] != nil {
		return session.ErrInUse
	}
	if _, ok := s.index.get(id); ok {
		return fmt.Errorf("%w: there is one of this id", session.ErrInUse)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closing {
		return ErrClosed
	}
	if s.removing[id] != nil {
		return fmt.Errorf("%w: one of this id is being deleted", session.ErrInUse)
	}
	return nil
}

// Open opens the log of a session that is stored or still on its way to disk.
func (s *Store) Open(id session.ID, sink session.Sink) (session.Log, error) {
	h, fresh, err := s.openLog(id, sink)
	if err == nil && fresh {
		// The log is ours alone: the others see that it is open.
		var head session.Seq
		err = s.healed(func() (err error) { head, err = s.tree.head(id); return err })
		if err == nil {
			l := h.log
			l.mu.Lock()
			l.stored, l.written, l.head = head, head, head
			l.mu.Unlock()
		} else {
			h.Close()
		}
	}
	if err != nil {
		return nil, fmt.Errorf("opening session %s: %w", id, err)
	}
	return h, nil
}

func (s *Store) openLog(id session.ID, sink session.Sink) (h *handle, fresh bool, err error) {
	s.registry.Lock()
	defer s.registry.Unlock()
	s.mu.Lock()
	closing := s.closing
	s.mu.Unlock()
	if closing {
		return nil, false, ErrClosed
	}
	l := s.logs[id]
	if l == nil {
		if _, ok := s.index.get(id); !ok {
			return nil, false, session.ErrNotFound
		}
		l, fresh = &log{store: s, id: id}, true
		s.logs[id] = l
	}
	l.calls.Lock()
	defer l.calls.Unlock()
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.open != nil {
		return nil, false, session.ErrInUse
	}
	l.open = &handle{l}
	l.sink, l.told = sink, false
	return l.open, fresh, nil
}

// Delete returns ErrInUse while the session's log is open. When ctx ends first
// the deletion goes on.
func (s *Store) Delete(ctx context.Context, id session.ID) error {
	d, err := s.remove(id)
	if err != nil {
		return fmt.Errorf("deleting session %s: %w", id, err)
	}
	if d == nil {
		return nil
	}
	select {
	case <-d.done:
		return nil
	case <-ctx.Done():
		return fmt.Errorf("deleting session %s: %w", id, ctx.Err())
	case <-s.writerDone:
		select {
		case <-d.done:
			return nil
		default:
			return fmt.Errorf("deleting session %s: %w", id, ErrClosed)
		}
	}
}

// remove takes a session out of memory and hands its deletion to the writer;
// nil if there is no such session.
func (s *Store) remove(id session.ID) (*deletion, error) {
	s.registry.Lock()
	defer s.registry.Unlock()
	l := s.logs[id]
	if l != nil {
		l.mu.Lock()
		if l.open != nil {
			l.mu.Unlock()
			return nil, session.ErrInUse
		}
		l.dead = true
		s.backlog.Add(-cost(l.tail[:l.written-l.stored]))
		l.tail, l.next, l.meta = nil, nil, nil
		l.stored, l.written = l.head, l.head
		l.mu.Unlock()
		delete(s.logs, id)
	}
	known := s.index.remove(id) || l != nil
	s.mu.Lock()
	defer s.mu.Unlock()
	if d := s.removing[id]; d != nil {
		return d, nil
	}
	if !known {
		return nil, nil
	}
	if s.closing {
		return nil, ErrClosed
	}
	d := &deletion{id: id, done: make(chan struct{})}
	s.removing[id] = d
	s.deletes = append(s.deletes, d)
	poke(s.wake)
	return d, nil
}

// Stats returns the counters.
func (s *Store) Stats() Stats {
	s.registry.Lock()
	inMemory := len(s.logs)
	s.registry.Unlock()
	s.mu.Lock()
	defer s.mu.Unlock()
	st := s.stats
	st.Sessions, st.InMemory, st.Backlog = s.index.len(), inMemory, s.backlog.Load()
	return st
}

// Close writes and syncs what was appended, moves everything to bbolt and lets
// go of the folder. Logs still open are of no more use: reading what is not in
// memory any more fails with ErrClosed. No Sink is called when it has returned. An error says that something appended may be lost.
func (s *Store) Close() error {
	s.closeOnce.Do(func() { s.closeErr = s.close() })
	return s.closeErr
}

// settle writes what was appended and ends the goroutines.
func (s *Store) settle() {
	s.mu.Lock()
	s.closing = true
	s.mu.Unlock()
	poke(s.wake)
	<-s.writerDone
	close(s.syncs)
	<-s.syncerDone
	close(s.moverStop)
	<-s.moverDone
}

func (s *Store) close() error {
	s.settle()
	err := s.writerErr
	if moveErr := s.moveOnce(); moveErr != nil {
		s.o.Log.Error().Err(moveErr).Msg("the journal could not be moved to the database; the next start does it")
		if err == nil {
			err = s.markClosed()
		}
		s.abandon()
		return wrapClose(err)
	}
	last := s.writer.number
	s.moving.Lock() // nobody puts another file in its place from here on
	defer s.moving.Unlock()
	s.treeClosed = true
	if err == nil {
		err = s.tree.save(state{epoch: s.Epoch(), boot: s.o.boot(), clean: true, file: identity(s.tree.path), journal: last + 1})
		if err == nil {
			for n := s.oldest; n <= last; n++ {
				if err := s.files.Remove(segmentName(s.journal, n)); err != nil {
					s.o.Log.Warn().Err(err).Msg("removing a journal segment failed; the next start does it")
				}
			}
		}
	}
	err = errors.Join(err, s.tree.close()) // it stays, for those who still read: it tells them
	s.release()
	return wrapClose(err)
}

func wrapClose(err error) error {
	if err != nil {
		return fmt.Errorf("closing the session store: %w", err)
	}
	return nil
}

// markClosed says in a segment of its own that the journal ends well.
func (s *Store) markClosed() error {
	number := s.writer.number + 1
	f, err := s.files.Create(segmentName(s.journal, number))
	if err != nil {
		return err
	}
	_, err = f.WriteAt(appendClosed(appendHeader(nil, number)), 0)
	return errors.Join(err, f.Sync(), f.Close(), s.files.SyncDir(s.journal))
}
