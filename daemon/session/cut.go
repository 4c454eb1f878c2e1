package session

// Until cuts a joined record to end at seq. A record that ends at or before
// seq comes back as it is.
func (r Record) Until(seq Seq) Record {
	if seq >= r.Last || seq < r.First || r.Ends == nil {
		return r
	}
	keep := int(seq-r.First) + 1
	text, end := r.Ends[keep-1], r.Ends[len(r.Ends)-1]
	cut := r
	cut.Last = seq
	cut.Data = make([]byte, 0, text+len(r.Data)-end)
	cut.Data = append(cut.Data, r.Data[:text]...)
	cut.Data = append(cut.Data, r.Data[end:]...)
	if keep == 1 {
		cut.Text, cut.Ends = 0, nil
		return cut
	}
	cut.Ends = r.Ends[:keep:keep]
	return cut
}

// Events gives back the events a record was joined of. Their times are that of
// the first.
func (r Record) Events() []Event {
	if r.Ends == nil {
		return []Event{{Seq: r.First, Time: r.Time, Kind: r.Kind, Version: r.Version, Data: r.Data}}
	}
	events := make([]Event, 0, len(r.Ends))
	for seq := r.First; seq <= r.Last; seq++ {
		one := r.From(seq).Until(seq)
		events = append(events, Event{Seq: seq, Time: r.Time, Kind: r.Kind, Version: r.Version, Data: one.Data})
	}
	return events
}
