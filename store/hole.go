package store

import (
	"fmt"

	"github.com/hermesd/hermesd/daemon/session"
	"github.com/hermesd/hermesd/transport/acp"
)

// What could not be read of a session is a hole. Its events are replaced by
// others of the same numbers: a message that says so in the first, nothing in
// the rest. So what comes after the hole is kept, in its place, and nobody
// who reads the session takes it for whole.

// maxHole is the longest hole, in events, that is filled: a number beyond it is
// damaged itself, and the session ends there.
const maxHole = 1 << 20

// holeRecord is how many events of a hole one record holds.
const holeRecord = 4096

// holeUpdate is what stands in the place of event seq of a hole that begins at
// first.
func holeUpdate(seq, first, last session.Seq) []byte {
	text := ""
	switch {
	case seq != first:
	case first == last:
		text = fmt.Sprintf("\n\n[Event %d of this session could not be read from the disk any more: it is lost.]\n\n", first)
	default:
		text = fmt.Sprintf("\n\n[Events %d to %d of this session could not be read from the disk any more: they are lost.]\n\n", first, last)
	}
	var o acp.Builder
	o.String("kind", "lost").Int("first", int64(first)).Int("last", int64(last))
	return acp.AgentText(fmt.Sprintf("hermes_lost_%d", first), text, acp.HermesMeta(o.JSON()))
}

// holeEvents are the events of a hole.
func holeEvents(first, last session.Seq, time int64) []session.Event {
	events := make([]session.Event, 0, last-first+1)
	empty := holeUpdate(first+1, first, last)
	for seq := first; seq <= last; seq++ {
		e := session.Event{Seq: seq, Time: time, Kind: session.KindUpdate, Version: 1, Data: empty}
		if seq == first {
			e.Data = holeUpdate(first, first, last)
		}
		events = append(events, e)
	}
	return events
}

// holeRecords gives the records of a hole.
func holeRecords(first, last session.Seq, time int64, each func(session.Record) error) error {
	for from := first; from <= last; from += holeRecord {
		to := min(last, from+holeRecord-1)
		r := session.Record{First: from, Last: to, Time: time, Kind: session.KindUpdate, Version: 1, Data: holeUpdate(from, first, last)}
		if to > from {
			start, end, ok := acp.ChunkText(r.Data)
			if !ok {
				panic("store: the note of a hole is no message")
			}
			r.Text = start
			for range to - from + 1 {
				r.Ends = append(r.Ends, end)
			}
		}
		if err := each(r); err != nil {
			return err
		}
	}
	return nil
}
