package store

import (
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"strings"

	"github.com/hermesd/hermesd/daemon/session"
)

// segment is one as Open finds it.
type segment struct {
	number uint64
	data   []byte
}

// readJournal reads all segments and refuses those of a newer format. It
// changes nothing.
func (s *Store) readJournal() ([]segment, error) {
	numbers, err := listSegments(s.journal)
	if err != nil {
		return nil, err
	}
	segments := make([]segment, 0, len(numbers))
	for _, n := range numbers {
		name := segmentName(s.journal, n)
		data, err := s.files.ReadFile(name)
		if err != nil {
			return nil, err
		}
		if format, ok := readHeader(data); ok && format > segmentFormat {
			return nil, newer(name, format, segmentFormat)
		}
		segments = append(segments, segment{n, data})
	}
	return segments, nil
}

// evidence is what Open knows of the time before it.
type evidence struct {
	fresh    bool   // there was no database
	clean    bool   // it was closed well
	sameBoot bool   // the machine has not been started since
	lost     string // what shows that something written is missing
}

// broken says why what was published may be lost, "" if it cannot be.
func (e evidence) broken() string {
	switch {
	case e.lost != "":
		return e.lost
	case e.fresh:
		return "the store is new"
	case !e.clean && !e.sameBoot:
		return "the machine went down while the store was open"
	}
	return ""
}

// recover brings memory, journal and database to where they were, decides on
// the epoch and readies the writer's first segment.
func (s *Store) recover(segments []segment, st state) error {
	damagedMetas, err := s.tree.metas(s.index)
	if err != nil {
		return err
	}
	if len(damagedMetas) > 0 {
		return s.tree.damaged(fmt.Sprintf("what is known of session %s, and of %d others", damagedMetas[0], len(damagedMetas)-1))
	}
	boot := s.o.boot()
	found := evidence{fresh: st.fresh, clean: st.clean, sameBoot: boot != "" && boot == st.boot}
	if at := identity(s.tree.path); !st.fresh && st.file != "" && at != "" && st.file != at {
		found.lost = "the database was put back from a copy"
	}
	if st.backup {
		// What the journal holds belongs to the database that was here before.
		found.lost = "the database was put back from a backup"
		if segments, err = s.leaveOut(segments); err != nil {
			return err
		}
	}
	if len(s.Damage()) > 0 {
		found.lost = "the database was damaged"
	}

	// A process that died before it could remove them left these.
	for len(segments) > 0 && segments[0].number < st.journal {
		if err := s.files.Remove(segmentName(s.journal, segments[0].number)); err != nil {
			return err
		}
		segments = segments[1:]
	}
	if why := missing(segments, st); why != "" {
		found.lost = why
	}

	r := replay{s: s, gaps: make(map[session.ID]gap)}
	var damaged []segment
	frames := 0
	for i, seg := range segments {
		got := readSegment(seg.data, func(f frame) {
			frames++
			r.frame(f)
		})
		if r.err != nil {
			return r.err
		}
		name := segmentName(s.journal, seg.number)
		powerCut := got.tail && !found.sameBoot && !found.clean // pages that never got to the disk
		switch {
		case got.damaged > 0 && !powerCut:
			damaged = append(damaged, seg)
			found.lost = "the journal is damaged"
			s.o.Log.Error().Str("segment", name).Int("bytes", got.damaged).Msg("part of the journal cannot be read")
		case got.torn || got.damaged > 0:
			s.o.Log.Info().Str("segment", name).Int("bytes", len(seg.data)-got.end).Msg("the end of the journal was not written whole")
			if err := s.cut(name, int64(got.end)); err != nil {
				return err
			}
		}
		if got.closed && i == len(segments)-1 {
			found.clean = true
		}
	}
	if st.clean && frames > 0 {
		found.lost = "the database is older than the journal"
	}
	for id, g := range r.gaps {
		found.lost = "events are missing in the journal"
		line := s.o.Log.Error().Str("session", string(id)).Uint64("first", uint64(g.first)).Uint64("last", uint64(g.last))
		if g.filled {
			line.Msg("events are missing; a note stands in their place")
		} else {
			line.Msg("events are missing; those after them are not used")
		}
		damaged = segments
	}
	r.settle()

	s.mu.Lock()
	s.epoch = st.epoch
	s.mu.Unlock()
	if why := found.broken(); why != "" || st.epoch == "" {
		s.newStart()
		if !st.fresh {
			s.o.Log.Warn().Str("why", why).Msg("what editors were told may be lost; they get a new start")
		}
	}
	return s.begin(segments, damaged, st, boot)
}

// missing says why the segments are not those the database waits for, "" if
// they are.
func missing(segments []segment, st state) string {
	for i := 1; i < len(segments); i++ {
		if segments[i].number != segments[i-1].number+1 {
			return "segments of the journal are missing"
		}
	}
	if st.fresh || st.clean {
		return ""
	}
	if len(segments) == 0 || segments[0].number != st.journal {
		return "the database and the journal are not of one time"
	}
	return ""
}

// begin makes the writer's first segment and says in the database that the
// store is open.
func (s *Store) begin(segments, damaged []segment, st state, boot string) error {
	w := s.writer
	w.number = max(st.journal, 1) - 1
	for _, seg := range segments {
		w.number = max(w.number, seg.number)
		w.old = append(w.old, seg.number)
	}
	w.pos = 1 // what was replayed is written, but perhaps not durable
	if err := w.rotate(); err != nil {
		return err
	}
	s.oldest, s.covered = w.number, w.number
	if len(segments) > 0 {
		s.oldest = segments[0].number
	}
	next := state{epoch: s.Epoch(), boot: boot, file: identity(s.tree.path), journal: s.oldest}
	if err := s.tree.save(next); err != nil {
		return err
	}
	if len(damaged) == 0 {
		if len(s.pending) > 0 || len(s.gone) > 0 {
			poke(s.some)
		}
		return nil
	}
	// Once what can be read of them is safe the damaged segments leave, so that
	// the damage is found only once.
	for _, seg := range damaged {
		if err := s.setAside(seg); err != nil {
			return err
		}
	}
	if err := s.moveOnce(); err != nil {
		return err
	}
	w.old = nil
	return s.files.SyncDir(s.journal)
}

// cut truncates a segment to its whole frames.
func (s *Store) cut(name string, end int64) error {
	if end < headerSize {
		end = 0
	}
	f, err := s.files.OpenWrite(name)
	if err != nil {
		return err
	}
	return errors.Join(f.Truncate(end), f.Sync(), f.Close())
}

// setAside keeps a copy of a damaged segment for whoever wants to look at it.
func (s *Store) setAside(seg segment) error {
	name := strings.TrimSuffix(segmentName(s.journal, seg.number), segmentSuffix) + damagedSuffix
	if err := s.files.Remove(name); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	f, err := s.files.Create(name)
	if err != nil {
		return err
	}
	_, err = f.WriteAt(seg.data, 0)
	err = errors.Join(err, f.Sync(), f.Close())
	if err == nil {
		s.o.Log.Error().Str("file", name).Msg("the damaged segment was set aside")
	}
	return err
}

// leaveOut puts segments aside that do not belong to the database.
func (s *Store) leaveOut(segments []segment) ([]segment, error) {
	for _, seg := range segments {
		name := segmentName(s.journal, seg.number)
		to := strings.TrimSuffix(name, segmentSuffix) + unusedSuffix
		if err := s.files.Rename(name, to); err != nil {
			return nil, err
		}
		s.o.Log.Warn().Str("file", to).Msg("a segment of the journal belongs to another database and is not used")
	}
	return nil, nil
}

// replay applies frames to the store's memory.
type replay struct {
	s    *Store
	gaps map[session.ID]gap // the last one of each session
	err  error
}

// gap are events that are missing in front of some that are there.
type gap struct {
	first, last session.Seq
	filled      bool
}

func (r *replay) frame(f frame) {
	if r.err != nil {
		return
	}
	s := r.s
	switch f.kind {
	case frameDeleted:
		delete(s.logs, f.id)
		delete(r.gaps, f.id)
		s.index.remove(f.id)
		if !slices.Contains(s.gone, f.id) {
			s.gone = append(s.gone, f.id)
		}
	case frameEvents:
		l := s.logs[f.id]
		if l == nil {
			var head session.Seq
			if !slices.Contains(s.gone, f.id) { // else what is in bbolt is of another session
				var err error
				if head, err = s.tree.head(f.id); err != nil {
					r.err = err
					return
				}
			}
			l = &log{store: s, id: f.id, stored: head, written: head, head: head, pos: 1}
			s.logs[f.id] = l
		}
		events := f.events
		if len(events) > 0 {
			first := events[0].Seq
			if first > l.head+1 {
				// Of a session of which nothing else is known these are not the
				// beginning: it was deleted, or is lost.
				_, known := s.index.get(f.id)
				g := gap{l.head + 1, first - 1, known && first-l.head <= maxHole}
				r.gaps[f.id] = g
				if !g.filled {
					return
				}
				l.tail = append(l.tail, holeEvents(g.first, g.last, events[0].Time)...)
				l.head = g.last
			}
			if seen := l.head + 1 - first; seen < session.Seq(len(events)) {
				events = events[seen:]
			} else {
				events = nil
			}
		}
		l.tail = append(l.tail, events...)
		l.head += session.Seq(len(events))
		l.written = l.head
		if f.meta != nil {
			l.meta = f.meta
			s.index.put(f.meta)
		}
	}
}

// settle hands what was replayed to the transfer.
func (r *replay) settle() {
	s := r.s
	for id, l := range s.logs {
		if len(l.tail) > 0 {
			if _, ok := s.index.get(id); !ok { // its Meta was lost
				l.meta = &session.Meta{ID: id}
				s.index.put(l.meta)
			}
		}
		if len(l.tail) == 0 && l.meta == nil {
			delete(s.logs, id)
			continue
		}
		l.pending = true
		s.pending = append(s.pending, l)
		s.backlog.Add(cost(l.tail))
	}
}
