package store

import (
	"errors"
	"fmt"
	"io/fs"
	"time"

	"github.com/hermesd/hermesd/daemon/session"
)

const (
	// maxGroup ends a group: what is left goes into the next one.
	maxGroup = 1 << 20
	// keptBuffer is the largest buffer kept from one group to the next.
	keptBuffer = 2 * maxGroup
	// reserveAhead is how much space is taken at a time.
	reserveAhead = 1 << 20

	minRetry = 50 * time.Millisecond
	maxRetry = 5 * time.Second
)

// writer owns the journal's end and the calls of all Sinks. run is its
// goroutine; syncer is the one that syncs for it.
type writer struct {
	s *Store

	number uint64 // of the segment that is written
	file   File
	size   int64    // of the segment: the end of the last whole group
	space  int64    // of the file, where that is more
	old    []uint64 // segments before it with something unsynced
	newDir bool     // a segment was made since the last sync

	buf      []byte // the group on its way to the journal
	group    []part
	deleting []*deletion // in the group
	holding  bool        // buf is to be written
	again    bool        // a sync failed: everything in memory is to be written again

	pos     int64  // bytes written in this life
	synced  int64  // of them, known to be durable
	waiting []want // for the next sync
	syncing []want // for the one that runs; nil if none does
	syncPos int64

	closeLater []File // rotated away while the syncer may use them

	failing error // last told to the Sinks
	cause   error // why writing or syncing failed at the last try
	unsure  bool  // the last sync failed
	retry   time.Time
	backoff time.Duration

	dirtySpare []*log
}

// part is one log's share of a group.
type part struct {
	log   *log
	upTo  session.Seq
	bytes int64
	meta  *session.Meta
	wrote bool // it has a share; else it only asks for a sync
	asked bool
}

// want waits for a sync: a log or a deletion.
type want struct {
	log  *log
	upTo session.Seq
	del  *deletion
}

// deletion is a Delete on its way.
type deletion struct {
	id   session.ID
	done chan struct{} // closed when it is durable
}

// syncJob is a sync: the segments, oldest first, and who is told when it has
// succeeded.
type syncJob struct {
	old    []uint64
	file   File
	newDir bool
	wants  []want // the writer leaves them alone until it has the result
}

// run returns when the store closes and everything is durable, or cannot be
// made so.
func (w *writer) run() error {
	for {
		w.afterSync()
		now := time.Now()
		mayTry := w.cause == nil || !now.Before(w.retry)
		closing, rest := w.collect(mayTry)
		progress := false
		if w.holding && mayTry {
			progress = w.write()
		}
		w.startSync()
		w.report()
		if closing {
			if w.cause != nil && w.syncing == nil {
				return fmt.Errorf("writing the journal: %w", w.cause)
			}
			if !rest && !w.holding && !w.again && len(w.waiting) == 0 && w.syncing == nil && w.cause == nil {
				return nil
			}
		}
		if progress {
			continue // there may be more by now
		}
		w.wait()
	}
}

func (w *writer) wait() {
	if w.cause == nil || (w.syncing != nil && !w.holding) {
		<-w.s.wake
		return
	}
	timer := time.NewTimer(time.Until(w.retry))
	defer timer.Stop()
	select {
	case <-w.s.wake:
	case <-timer.C:
	}
}

// collect makes the next group out of what the logs have, unless there is one
// waiting to be written. rest says that something was left behind.
func (w *writer) collect(mayTry bool) (closing, rest bool) {
	s := w.s
	s.mu.Lock()
	closing = s.closing
	if w.holding || !mayTry {
		rest = len(s.dirty) > 0 || len(s.deletes) > 0
		s.mu.Unlock()
		return closing, rest
	}
	dirty := s.dirty
	s.dirty = w.dirtySpare[:0]
	w.deleting, s.deletes = s.deletes, nil
	s.mu.Unlock()

	w.buf, w.group = w.buf[:0], w.group[:0]
	if w.again {
		w.buf = w.repeat(w.buf)
	}
	// What editors decide goes through even when bbolt cannot keep up with what
	// agents say.
	over := s.backlog.Load() >= s.o.MaxBacklog && !closing
	held := 0
	for _, l := range dirty {
		l.mu.Lock()
		if l.dead {
			l.dirty = false
			l.mu.Unlock()
			continue
		}
		if (over && !l.asked) || len(w.buf) >= maxGroup {
			l.mu.Unlock()
			dirty[held] = l
			held++
			continue
		}
		events := l.tail[l.written-l.stored:]
		p := part{log: l, upTo: l.head, meta: l.next, asked: l.asked, wrote: len(events) > 0 || l.next != nil}
		l.next, l.asked, l.dirty = nil, false, false
		l.mu.Unlock()
		if p.wrote {
			p.bytes = cost(events)
			w.buf = appendEvents(w.buf, l.id, p.meta, events)
		}
		w.group = append(w.group, p)
	}
	if held > 0 {
		s.mu.Lock()
		dirty = append(dirty[:held], s.dirty...)
		s.dirty, dirty = dirty, s.dirty
		s.mu.Unlock()
		rest = true
	}
	clear(dirty[:cap(dirty)])
	w.dirtySpare = dirty
	for _, d := range w.deleting {
		w.buf = appendDeleted(w.buf, d.id)
	}
	w.holding = len(w.buf) > 0 || len(w.group) > 0 || w.again
	return closing, rest
}

// repeat encodes once more everything that is in memory and written: after a
// failed sync nobody knows what of it the disk has. Replaying skips what it
// has seen.
func (w *writer) repeat(buf []byte) []byte {
	s := w.s
	s.mu.Lock()
	gone := append([]session.ID(nil), s.gone...)
	s.mu.Unlock()
	for _, id := range gone {
		buf = appendDeleted(buf, id)
	}
	for _, l := range s.inMemory() {
		l.mu.Lock()
		events, meta := l.tail[:l.written-l.stored], l.meta
		l.mu.Unlock()
		if len(events) > 0 || meta != nil {
			buf = appendEvents(buf, l.id, meta, events)
		}
	}
	return buf
}

// write brings the group to the journal and tells everybody. It returns false
// if that failed; the group then waits for the next try.
func (w *writer) write() bool {
	if w.again || w.file == nil || (len(w.buf) > 0 && w.size >= w.s.o.SegmentBytes) {
		if err := w.rotate(); err != nil {
			w.failed(err)
			return false
		}
		w.again = false
	}
	if len(w.buf) > 0 {
		w.reserve(w.size + int64(len(w.buf)))
		if _, err := w.file.WriteAt(w.buf, w.size); err != nil {
			// What got there would be a torn tail, which is harmless, but it
			// takes space just when there is none.
			w.space = 0
			err = errors.Join(err, w.file.Truncate(w.size))
			w.failed(err)
			return false
		}
	}
	w.size += int64(len(w.buf))
	w.pos += int64(len(w.buf))
	if !w.unsure {
		w.cause, w.backoff = nil, 0
	}
	w.holding = false
	if cap(w.buf) > keptBuffer {
		w.buf = nil
	}
	w.written()
	return true
}

// reserve sees to it that the file has space up to end, if that can be had.
func (w *writer) reserve(end int64) {
	if end <= w.space || w.space < 0 {
		return
	}
	f, ok := w.file.(Reserver)
	if !ok || f.Reserve(w.size, end+reserveAhead) != nil {
		w.space = -1 // not in this segment
		return
	}
	w.space = end + reserveAhead
}

// written tells the logs, the index, the transfer and the Sinks of a group.
func (w *writer) written() {
	s := w.s
	var pending []*log
	var bytes int64
	events := 0
	for i := range w.group {
		p := &w.group[i]
		if !p.wrote {
			continue
		}
		l := p.log
		l.pos = w.pos
		l.mu.Lock()
		events += int(p.upTo - l.written)
		l.written = p.upTo
		if !l.dead {
			bytes += p.bytes
			if p.meta != nil {
				l.meta = p.meta
				s.index.put(p.meta)
			}
			if !l.pending {
				l.pending = true
				pending = append(pending, l)
			}
		}
		l.mu.Unlock()
	}
	for _, d := range w.deleting {
		w.waiting = append(w.waiting, want{del: d})
	}
	backlog := s.backlog.Add(bytes)
	s.mu.Lock()
	s.pending = append(s.pending, pending...)
	for _, d := range w.deleting {
		s.gone = append(s.gone, d.id)
	}
	s.covered = w.number
	s.stats.Groups++
	s.stats.Events += uint64(events)
	s.stats.Bytes += uint64(len(w.buf))
	s.mu.Unlock()
	if len(pending) > 0 || len(w.deleting) > 0 {
		poke(s.some)
	}
	if backlog >= s.o.TransferBytes {
		poke(s.much)
	}
	w.deleting = nil

	for i := range w.group {
		p := &w.group[i]
		if p.wrote {
			p.log.tell(func(sink session.Sink) { sink.Written(p.upTo) })
		}
		if p.asked {
			if p.log.pos <= w.synced {
				p.log.tell(func(sink session.Sink) { sink.Durable(p.upTo) })
			} else {
				w.waiting = append(w.waiting, want{log: p.log, upTo: p.upTo})
			}
		}
	}
	clear(w.group)
	w.group = w.group[:0]
}

// rotate begins the next segment.
func (w *writer) rotate() error {
	number := w.number + 1
	name := segmentName(w.s.journal, number)
	if err := w.s.files.Remove(name); err != nil { // of a try that failed
		return err
	}
	f, err := w.s.files.Create(name)
	if err != nil {
		return err
	}
	if _, err := f.WriteAt(appendHeader(nil, number), 0); err != nil {
		f.Close()
		return errors.Join(err, w.s.files.Remove(name))
	}
	if w.file != nil {
		if w.syncing != nil {
			w.closeLater = append(w.closeLater, w.file)
		} else {
			w.file.Close()
		}
		w.old = append(w.old, w.number) // what is unsynced in it is synced by its name
	}
	w.file, w.number, w.size, w.space, w.newDir = f, number, headerSize, 0, true
	return nil
}

// startSync hands what waits to the syncer, if that is idle.
func (w *writer) startSync() {
	if w.syncing != nil || len(w.waiting) == 0 || w.again || (w.cause != nil && !w.unsure) {
		return
	}
	w.syncing, w.waiting = w.waiting, nil
	w.syncPos = w.pos
	w.s.syncs <- syncJob{old: w.old, file: w.file, newDir: w.newDir, wants: w.syncing}
	w.old, w.newDir = nil, false
}

// afterSync takes the syncer's result, if there is one.
func (w *writer) afterSync() {
	if w.syncing == nil {
		return
	}
	select {
	case err := <-w.s.synced:
		done := w.syncing
		w.syncing = nil
		for _, f := range w.closeLater {
			f.Close()
		}
		w.closeLater = nil
		if err != nil {
			w.waiting = append(done, w.waiting...)
			w.again, w.unsure = true, true
			if w.holding {
				w.buf = append(w.repeat(nil), w.buf...)
			}
			w.failed(err)
			return
		}
		w.synced = w.syncPos
		if w.unsure {
			w.unsure = false
			if !w.holding {
				w.cause, w.backoff = nil, 0
			}
		}
		for _, d := range done {
			if d.del != nil {
				w.s.mu.Lock()
				delete(w.s.removing, d.del.id)
				w.s.mu.Unlock()
				close(d.del.done)
			}
		}
	default:
	}
}

// syncer syncs for the writer until the jobs end. It tells the Sinks itself
// when events are durable: that is what answers wait for, and the writer may be
// busy.
func (s *Store) syncer() {
	for job := range s.syncs {
		began := time.Now()
		err := s.sync(job)
		took := time.Since(began)
		if err == nil {
			for _, d := range job.wants {
				if d.log != nil {
					d.log.tell(func(sink session.Sink) { sink.Durable(d.upTo) })
				}
			}
		}
		s.mu.Lock()
		s.stats.Syncs++
		s.stats.Commits.add(took)
		s.mu.Unlock()
		s.synced <- err
		poke(s.wake)
	}
}

func (s *Store) sync(job syncJob) error {
	for _, number := range job.old {
		f, err := s.files.OpenWrite(segmentName(s.journal, number))
		if errors.Is(err, fs.ErrNotExist) {
			continue // all of it is in bbolt
		}
		if err != nil {
			return err
		}
		if err := errors.Join(f.Sync(), f.Close()); err != nil {
			return err
		}
	}
	if err := job.file.Sync(); err != nil {
		return err
	}
	if job.newDir {
		return s.files.SyncDir(s.journal)
	}
	return nil
}

func (w *writer) failed(err error) {
	w.cause = err
	w.backoff = min(max(2*w.backoff, minRetry), maxRetry)
	w.retry = time.Now().Add(w.backoff)
}

// report tells open logs when writing begins to fail and when it works again.
func (w *writer) report() {
	s := w.s
	now := w.cause
	if now == nil && s.backlog.Load() >= s.o.MaxBacklog {
		now = s.transferError() // writing waits for bbolt, and bbolt fails
	}
	if now == nil && w.failing == nil {
		return
	}
	if (now == nil) != (w.failing == nil) {
		if now != nil {
			s.o.Log.Error().Err(now).Msg("nothing can be stored at the moment; trying again")
		} else {
			s.o.Log.Info().Msg("storing works again")
		}
	}
	w.failing = now
	s.mu.Lock()
	s.stats.Failing = ""
	if now != nil {
		s.stats.Failing = now.Error()
	}
	s.mu.Unlock()
	for _, l := range s.inMemory() {
		l.calls.Lock()
		if l.sink != nil && l.told != (now != nil) {
			l.told = now != nil
			l.sink.Failed(now)
		}
		l.calls.Unlock()
	}
}
