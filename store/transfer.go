package store

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/hermesd/hermesd/daemon/session"
)

// transfer moves what is written from memory to bbolt, now and then, until stop
// is closed.
//
// It also sees to it that the file does not stay much larger than what is in it:
// after its start, and whenever sessions were deleted.
func (s *Store) transfer(stop <-chan struct{}) {
	ctx, cancel := context.WithCancel(context.Background())
	var compacting sync.WaitGroup
	defer compacting.Wait()
	defer cancel()
	compact := func() {
		compacting.Go(func() { s.compactIfWasteful(ctx) })
	}
	compact()
	timer := time.NewTimer(time.Hour)
	defer timer.Stop()
	wait := func(d time.Duration, hurry <-chan struct{}) bool {
		timer.Reset(d)
		select {
		case <-timer.C:
		case <-hurry:
		case <-stop:
			return false
		}
		return true
	}
	for {
		select {
		case <-s.some:
		case <-stop:
			return
		}
		if !wait(s.o.TransferAfter, s.much) {
			return
		}
		backoff := minRetry
		for {
			err := s.moveOnce()
			if s.setTransferError(err) {
				s.o.Log.Error().Err(err).Msg("moving the journal to the database fails; trying again")
			}
			poke(s.wake) // there is room, or a reason to tell
			if err == nil {
				if s.gaveSpace() {
					compact()
				}
				break
			}
			if !wait(backoff, nil) {
				return
			}
			backoff = min(2*backoff, maxRetry)
		}
	}
}

// share is what one log gives to a move.
type share struct {
	log    *log
	events []session.Event
	meta   *session.Meta
}

// errHealed: the database was damaged, and another one is in its place.
var errHealed = errors.New("the database was damaged and has been replaced")

// moveOnce moves everything that is written by now, and removes the segments
// that are not needed any more. On an error nothing was moved.
func (s *Store) moveOnce() error {
	s.moving.Lock()
	defer s.moving.Unlock()
	return s.moveAll()
}

// moveAll is moveOnce with moving held.
func (s *Store) moveAll() error {
	err := s.tryToMove()
	if errors.Is(err, errHealed) {
		err = s.tryToMove()
	}
	return err
}

func (s *Store) tryToMove() error {
	s.mu.Lock()
	// In this order: what lies in segments below covered was pending before.
	covered, oldest := s.covered, s.oldest
	pending, gone := s.pending, s.gone
	s.pending, s.gone = nil, nil
	s.mu.Unlock()
	if len(pending) == 0 && len(gone) == 0 && oldest == covered {
		return nil
	}

	m := move{deletes: gone, journal: covered}
	shares := make([]share, 0, len(pending))
	for _, l := range pending {
		l.mu.Lock()
		l.pending = false
		sh := share{l, l.tail[:l.written-l.stored], l.meta}
		dead := l.dead
		l.mu.Unlock()
		if dead {
			continue
		}
		shares = append(shares, sh)
		m.puts = append(m.puts, put{l.id, sh.meta, session.JoinEvents(nil, sh.events)})
	}
	start := time.Now()
	if err := s.tree.apply(m); err != nil {
		for _, sh := range shares {
			sh.log.mu.Lock()
			if !sh.log.pending && !sh.log.dead {
				sh.log.pending = true
				s.mu.Lock()
				s.pending = append(s.pending, sh.log)
				s.mu.Unlock()
			}
			sh.log.mu.Unlock()
		}
		s.mu.Lock()
		s.gone = append(gone, s.gone...)
		s.mu.Unlock()
		if errors.Is(err, ErrDamaged) {
			if herr := s.healMoving(err, s.treeLife()); herr != nil {
				return herr
			}
			return errHealed
		}
		return err
	}

	if s.touched != nil {
		for _, p := range m.puts {
			if !s.touched[p.id] {
				s.touched[p.id] = false
			}
		}
		for _, id := range m.deletes {
			s.touched[id] = true
		}
	}
	var bytes int64
	records := 0
	s.registry.Lock()
	for i, sh := range shares {
		records += len(m.puts[i].records)
		l := sh.log
		l.mu.Lock()
		if !l.dead {
			bytes += cost(sh.events)
			if n := len(sh.events); n > 0 {
				l.drop(sh.events[n-1].Seq)
			}
			if l.meta == sh.meta {
				l.meta = nil
			}
			s.forget(l)
		}
		l.mu.Unlock()
	}
	s.registry.Unlock()
	s.backlog.Add(-bytes)

	s.mu.Lock()
	s.freed = s.freed || len(m.deletes) > 0
	s.stats.Transfers++
	s.stats.Records += uint64(records)
	s.stats.TransferTime += time.Since(start)
	s.mu.Unlock()
	for ; oldest < covered; oldest++ {
		if err := s.files.Remove(segmentName(s.journal, oldest)); err != nil {
			// It is not needed any more; the next move tries again.
			s.o.Log.Warn().Err(err).Msg("removing a journal segment failed")
			break
		}
	}
	s.mu.Lock()
	s.oldest = oldest
	s.mu.Unlock()
	return nil
}

// gaveSpace says whether something was deleted since it was asked last.
func (s *Store) gaveSpace() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	freed := s.freed
	s.freed = false
	return freed
}

func (s *Store) transferError() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.moveErr
}

// setTransferError reports whether it is news that transfers fail.
func (s *Store) setTransferError(err error) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	before := s.moveErr
	s.moveErr = err
	return err != nil && (before == nil || before.Error() != err.Error())
}
