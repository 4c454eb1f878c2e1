package session

import (
	"bytes"

	"github.com/hermesd/hermesd/transport/acp"
)

// maxJoinedText bounds the text of a joined record, so that cutting and
// sending one never costs more than a large update does anyway.
const maxJoinedText = 64 << 10

// JoinEvents appends the records of events to dst. Runs of message chunks that
// differ in nothing but their text become one record each; a record of a
// single event shares the event's Data. The events are neighbours, in order.
func JoinEvents(dst []Record, events []Event) []Record {
	for len(events) > 0 {
		n, c := chunkRun(events)
		if n == 1 {
			dst = append(dst, events[0].Record())
		} else {
			dst = append(dst, joinRun(events[:n], c))
		}
		events = events[n:]
	}
	return dst
}

// JoinRecords joins neighbouring records of one log where JoinEvents would
// have joined the events they hold: at the seams between pages, and between
// what was stored at different times. It reuses records for its result and
// writes to no record's Data or Ends.
func JoinRecords(records []Record) []Record {
	out := records[:0]
	for i := 0; i < len(records); {
		n := recordRun(records[i:])
		if n == 1 {
			out = append(out, records[i])
		} else {
			out = append(out, joinRecordRun(records[i:i+n]))
		}
		i += n
	}
	return out
}

// From cuts a joined record so that it starts at seq. A record that starts at
// or after seq, and one that ends before it, comes back as it is. Time stays
// that of the first event joined.
func (r Record) From(seq Seq) Record {
	if seq <= r.First || seq > r.Last || r.Ends == nil {
		return r
	}
	skip := int(seq - r.First)
	gap := r.Ends[skip-1] - r.Text // text of the events before seq
	cut := r
	cut.First = seq
	cut.Data = make([]byte, 0, len(r.Data)-gap)
	cut.Data = append(cut.Data, r.Data[:r.Text]...)
	cut.Data = append(cut.Data, r.Data[r.Ends[skip-1]:]...)
	if seq == r.Last {
		cut.Text, cut.Ends = 0, nil
		return cut
	}
	cut.Ends = make([]int, 0, len(r.Ends)-skip)
	for _, end := range r.Ends[skip:] {
		cut.Ends = append(cut.Ends, end-gap)
	}
	return cut
}

// chunk is a message chunk seen as text in a frame: two chunks whose frames
// are equal can be joined.
type chunk struct {
	data       []byte
	start, end int // text within data, quotes excluded
}

// chunkOf finds the text of a chunk of which nothing is known yet.
func chunkOf(kind Kind, data []byte) (chunk, bool) {
	if kind != KindUpdate {
		return chunk{}, false
	}
	start, end, ok := acp.ChunkText(data)
	return chunk{data, start, end}, ok
}

// like finds the text of data if it is a chunk with c's frame, without parsing
// it: the frame's bytes are the same and what stands between them is the
// inside of one JSON string.
func (c chunk) like(data []byte) (chunk, bool) {
	tail := len(c.data) - c.end
	if len(data) < c.start+tail {
		return chunk{}, false
	}
	d := chunk{data, c.start, len(data) - tail}
	if !bytes.Equal(data[:d.start], c.data[:c.start]) || !bytes.Equal(data[d.end:], c.data[c.end:]) {
		return chunk{}, false
	}
	return d, closedString(data[d.start:d.end])
}

// closedString says whether a quote written after s would end the string and
// no quote inside does.
func closedString(s []byte) bool {
	for from := 0; ; {
		i := bytes.IndexByte(s[from:], '"')
		if i < 0 {
			return !escaped(s, len(s))
		}
		if !escaped(s, from+i) {
			return false
		}
		from += i + 1
	}
}

// escaped says whether an odd number of backslashes stands before s[i].
func escaped(s []byte, i int) bool {
	n := 0
	for i-n > 0 && s[i-n-1] == '\\' {
		n++
	}
	return n%2 == 1
}

// chunkRun says how many of events, from the first on, one record holds. The
// chunk is that of the first; it is valid if more than one is held.
func chunkRun(events []Event) (int, chunk) {
	first := events[0]
	if len(events) == 1 || events[1].Kind != KindUpdate || events[1].Version != first.Version {
		return 1, chunk{}
	}
	c, ok := chunkOf(first.Kind, first.Data)
	if !ok {
		return 1, chunk{}
	}
	n, text := 1, c.end-c.start
	for ; n < len(events); n++ {
		e := &events[n]
		if e.Kind != KindUpdate || e.Version != first.Version {
			break
		}
		d, ok := c.like(e.Data)
		if !ok {
			break
		}
		if text += d.end - d.start; text > maxJoinedText {
			break
		}
	}
	return n, c
}

func joinRun(events []Event, c chunk) Record {
	frame := c.start + len(c.data) - c.end
	size := frame
	for i := range events {
		size += len(events[i].Data) - frame
	}
	first := events[0]
	r := Record{
		First: first.Seq, Last: events[len(events)-1].Seq, Time: first.Time, Kind: first.Kind, Version: first.Version,
		Data: make([]byte, 0, size), Text: c.start, Ends: make([]int, 0, len(events)),
	}
	tail := len(c.data) - c.end
	r.Data = append(r.Data, c.data[:c.start]...)
	for i := range events {
		data := events[i].Data
		r.Data = append(r.Data, data[c.start:len(data)-tail]...)
		r.Ends = append(r.Ends, len(r.Data))
	}
	r.Data = append(r.Data, c.data[c.end:]...)
	return r
}

// chunkOfRecord is chunkOf for a record, joined or not.
func chunkOfRecord(r Record) (chunk, bool) {
	if r.Ends != nil {
		return chunk{r.Data, r.Text, r.Ends[len(r.Ends)-1]}, true
	}
	return chunkOf(r.Kind, r.Data)
}

func recordRun(records []Record) int {
	first := records[0]
	if len(records) == 1 || records[1].Kind != KindUpdate || records[1].Version != first.Version {
		return 1
	}
	c, ok := chunkOfRecord(first)
	if !ok {
		return 1
	}
	n, text := 1, c.end-c.start
	for ; n < len(records); n++ {
		r := records[n]
		if r.Kind != KindUpdate || r.Version != first.Version || r.First != records[n-1].Last+1 {
			break
		}
		d, ok := c.like(r.Data)
		if !ok {
			break
		}
		if text += d.end - d.start; text > maxJoinedText {
			break
		}
	}
	return n
}

func joinRecordRun(records []Record) Record {
	c, _ := chunkOfRecord(records[0])
	first, last := records[0], records[len(records)-1]
	tail := len(c.data) - c.end
	r := first
	r.Last, r.Text = last.Last, c.start
	r.Ends = make([]int, 0, int(last.Last-first.First)+1)
	size := c.start + tail
	for _, p := range records {
		size += len(p.Data) - c.start - tail
	}
	r.Data = append(make([]byte, 0, size), c.data[:c.start]...)
	for _, p := range records {
		shift := len(r.Data) - c.start
		text := p.Data[c.start : len(p.Data)-tail]
		r.Data = append(r.Data, text...)
		if p.Ends == nil {
			r.Ends = append(r.Ends, len(r.Data))
			continue
		}
		for _, end := range p.Ends {
			r.Ends = append(r.Ends, end+shift)
		}
	}
	r.Data = append(r.Data, c.data[c.end:]...)
	return r
}
