package store

import (
	"encoding/binary"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/hermesd/hermesd/daemon/session"
)

// Damage says what a damaged database has cost. It was found by this process.
type Damage struct {
	At   time.Time
	Why  string // what showed it
	File string // where the damaged file is kept
	// Hurt are the sessions of which something is lost, in order.
	Hurt []Hurt
}

// Hurt is a session of which something could not be read any more.
type Hurt struct {
	Session session.ID
	// Lost is how many events are missing and are known to be; the end of a
	// session may be missing without anybody knowing.
	Lost uint64
	// Ends is the last event that there is.
	Ends session.Seq
}

// salvage builds a database of everything that can be read of the damaged one,
// beside it. Who calls it has the store to himself, or holds moving.
//
// heads says how far sessions got at least; of those in skip nothing is kept.
// known is what memory has of sessions, which is as good as what the file says,
// or better.
func (s *Store) salvage(why error, heads map[session.ID]session.Seq, skip []session.ID, known *index) (d *Damage, err error) {
	defer func() {
		if err != nil {
			err = fmt.Errorf("%w; saving what can be read failed, the file is as it was: %w", why, err)
		}
	}()
	path := dbName(s.dir)
	sv, closeFile, err := surveyPath(path)
	if err != nil {
		return nil, err
	}
	defer func() { _ = closeFile() }()
	if v := sv.state[string(keyFormat)]; len(v) == 4 {
		if f := binary.LittleEndian.Uint32(v); f > s.o.formats.newest {
			return nil, newer(path, f, s.o.formats.newest)
		}
	}
	b, err := newBuilder(path + buildSuffix)
	if err != nil {
		return nil, err
	}
	d = &Damage{At: time.Now(), Why: why.Error()}
	if err := s.saveSessions(sv, b, d, heads, skip, known); err != nil {
		return nil, errors.Join(err, b.abandon())
	}
	// Without an epoch the next Open gives it one, should this process die here.
	st := state{boot: string(sv.state[string(keyBoot)]), format: s.o.formats.newest}
	if v := sv.state[string(keyFormat)]; len(v) == 4 {
		st.format = binary.LittleEndian.Uint32(v) // the steps from there are still to come
	}
	if v := sv.state[string(keyJournal)]; len(v) == 8 {
		st.journal = binary.LittleEndian.Uint64(v)
	}
	return d, b.finish(st)
}

func (s *Store) saveSessions(sv *survey, b *builder, d *Damage, heads map[session.ID]session.Seq, skip []session.ID, known *index) error {
	for id := range heads {
		if sv.sessions[id] == nil {
			sv.sessions[id] = new(remains)
		}
	}
	for _, id := range slices.Sorted(maps.Keys(sv.sessions)) {
		if slices.Contains(skip, id) {
			continue
		}
		meta := sv.metaOf(id)
		if m, ok := known.get(id); ok {
			meta = &m
		}
		h := Hurt{Session: id}
		var err error
		h.Lost, err = sv.read(id, heads[id], func(r session.Record) error {
			h.Ends = r.Last
			return b.record(id, r)
		})
		if err != nil {
			return err
		}
		if h.Lost > 0 || !sv.sessions[id].whole {
			d.Hurt = append(d.Hurt, h)
		}
		if err := b.meta(meta); err != nil {
			return err
		}
	}
	return nil
}

// damaged notes what was lost and tells the log. Editors get a new start: the
// caller sees to it.
func (s *Store) damaged(d *Damage) {
	s.mu.Lock()
	s.damage = append(s.damage, *d)
	s.mu.Unlock()
	s.o.Log.Error().Str("why", d.Why).Str("file", d.File).Int("hurt", len(d.Hurt)).
		Msg("the database was damaged: what can be read of it was saved, the damaged file was set aside")
	for _, h := range d.Hurt {
		s.o.Log.Error().Str("session", string(h.Session)).Uint64("lost", h.Lost).Uint64("ends", uint64(h.Ends)).Msg("part of a session could not be read")
	}
}

// Damage is what was found damaged since Open, and by it, oldest first.
func (s *Store) Damage() []Damage {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.damage)
}

// salvageClosed saves what can be read while nobody has the database open.
func (s *Store) salvageClosed(why error) error {
	d, err := s.salvage(why, nil, nil, newIndex())
	if err != nil {
		return err
	}
	path := dbName(s.dir)
	d.File = asideName(path)
	if err := replaceFile(path, d.File); err != nil {
		return fmt.Errorf("%w; putting what was saved in its place: %w", why, err)
	}
	s.damaged(d)
	return nil
}

// heal saves what can be read of a database that turns out to be damaged while
// it is used. life is that of the tree in which the damage was seen: if there is
// another one by now, somebody else has done it.
func (s *Store) heal(why error, life int) error {
	s.moving.Lock()
	defer s.moving.Unlock()
	return s.healMoving(why, life)
}

// healMoving is heal with moving held.
func (s *Store) healMoving(why error, life int) error {
	if s.treeLife() != life {
		return nil
	}
	if s.treeClosed {
		return ErrClosed
	}
	heads := make(map[session.ID]session.Seq)
	for _, l := range s.inMemory() {
		l.mu.Lock()
		if l.stored > 0 && !l.dead {
			heads[l.id] = l.stored
		}
		l.mu.Unlock()
	}
	s.mu.Lock()
	skip := slices.Clone(s.gone)
	oldest := s.oldest
	s.mu.Unlock()
	d, err := s.salvage(why, heads, skip, s.index)
	if err != nil {
		return err
	}
	d.File = asideName(s.tree.path)
	if err := s.tree.replace(d.File); err != nil {
		return fmt.Errorf("%w; putting what was saved in its place: %w", why, err)
	}
	s.newStart()
	s.damaged(d)
	return s.tree.save(state{epoch: s.Epoch(), boot: s.o.boot(), file: identity(s.tree.path), journal: oldest})
}

// treeLife says which file is open.
func (s *Store) treeLife() int {
	s.tree.mu.RLock()
	defer s.tree.mu.RUnlock()
	return s.tree.life
}

// newStart makes another epoch.
func (s *Store) newStart() {
	s.mu.Lock()
	s.epoch = newEpoch()
	s.mu.Unlock()
}

// healed runs a read, and again if the database was damaged and what can be read
// of it was saved.
func (s *Store) healed(read func() error) error {
	life := s.treeLife()
	err := read()
	if !errors.Is(err, ErrDamaged) {
		return err
	}
	if herr := s.heal(err, life); herr != nil {
		s.o.Log.Error().Err(herr).Msg("the database is damaged, and what can be read of it could not be saved")
		return herr
	}
	return read()
}
