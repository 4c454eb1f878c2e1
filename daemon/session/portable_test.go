package session

import (
	"bytes"
	"fmt"
	"strings"
	"testing"
)

// portable are records of all shapes.
func portable() []Record {
	chunk := func(text string) []byte {
		return fmt.Appendf(nil, `{"sessionUpdate":"agent_message_chunk","content":{"type":"text","text":"%s"},"messageId":"m"}`, text)
	}
	var events []Event
	for i, text := range []string{"a", `<b> & "c"`[:3], `ä\n`, `\u00e4 `, "", `\\`} {
		events = append(events, Event{Seq: Seq(i + 1), Time: 1764500000123, Kind: KindUpdate, Version: 1, Data: chunk(text)})
	}
	records := JoinEvents(nil, events)
	next := records[len(records)-1].Last + 1
	for _, e := range []Event{
		{Kind: KindUpdate, Version: 2, Data: []byte(`{ "sessionUpdate" : "x", "html": "<&>\u2028" }`)},
		{Kind: KindUpdate, Version: 1, Data: []byte("{\"a\":\n1}")},
		{Kind: KindAgentRecord, Data: []byte{0, 0xFF, '\n'}},
		{Kind: KindAgentRecord, Data: []byte(`"text"`)},
		{Kind: KindAgentRecord},
		{Kind: KindTurnStarted, Data: []byte(`{"prompt":3}`)},
		{Kind: KindPinned, Data: []byte(`{"origin":{},"pinned":true}`)},
	} {
		e.Seq, e.Time = next, -5
		next++
		records = append(records, e.Record())
	}
	return records
}

func TestARecordTravelsByteForByte(t *testing.T) {
	records := portable()
	if len(records) > 8 {
		t.Fatalf("%d records: nothing was joined", len(records))
	}
	for _, r := range records {
		line := AppendLine(nil, r)
		if bytes.Count(line, []byte("\n")) != 1 || line[len(line)-1] != '\n' {
			t.Errorf("%q is not one line", line)
		}
		got, err := ParseLine(line)
		if err != nil {
			t.Errorf("%s: %v", line, err)
			continue
		}
		same := got.First == r.First && got.Last == r.Last && got.Time == r.Time && got.Kind == r.Kind && got.Version == r.Version &&
			bytes.Equal(got.Data, r.Data) && got.Text == r.Text && fmt.Sprint(got.Ends) == fmt.Sprint(r.Ends)
		if !same {
			t.Errorf("%+v became %+v", r, got)
		}
	}
}

func TestLinesThatAreNoRecordsAreRefused(t *testing.T) {
	joined := string(AppendLine(nil, portable()[0]))
	for line, want := range map[string]string{
		``:   "EOF",
		`[]`: "cannot unmarshal",
		`{}`: "kind",
		`{"seq":1,"last":1,"ms":1,"kind":"nothing","data":{}}`:                              "not known",
		`{"seq":1,"last":1,"kind":"created","data":{}}`:                                     "ms is missing",
		`{"seq":0,"last":0,"ms":1,"kind":"created","data":{}}`:                              "no record",
		`{"seq":5,"last":4,"ms":1,"kind":"created","data":{}}`:                              "no record",
		`{"seq":1,"last":1,"ms":1,"kind":"created"}`:                                        "data or raw",
		`{"seq":1,"last":1,"ms":1,"kind":"created","data":{},"raw":""}`:                     "data or raw",
		`{"seq":1,"last":1,"ms":1,"kind":"created","data":7}`:                               "no JSON object",
		`{"seq":1,"last":1,"ms":1,"kind":"created","raw":"!"}`:                              "raw",
		`{"seq":1,"last":1,"ms":1,"kind":"created","data":{}} {}`:                           "behind",
		`{"seq":1,"last":1,"ms":1,"kind":"created","data":{},"x":1}`:                        "unknown field",
		`{"seq":1,"last":1,"ms":1,"kind":"update","data":{}}`:                               "no version",
		`{"seq":1,"last":1,"ms":1,"kind":"created","version":1,"data":{}}`:                  "only updates",
		`{"seq":1,"last":2,"ms":1,"kind":"update","version":1,"data":{}}`:                   "ends",
		`{"seq":1,"last":1,"ms":1,"kind":"update","version":1,"data":{},"text":3}`:          "text without ends",
		`{"seq":1,"last":2,"ms":1,"kind":"created","data":{},"ends":[1,2]}`:                 "only message chunks",
		strings.Replace(joined, `"ends":[`, `"ends":[1,`, 1):                                "ends",
		strings.Replace(joined, `"text":`, `"text":1`, 1):                                   "data",
		strings.Replace(joined, `"last":`, `"last":1`, 1):                                   "ends for events",
		`{"seq":1,"last":18446744073709551615,"ms":1,"kind":"update","data":{},"ends":[1]}`: "no record",
	} {
		if _, err := ParseLine([]byte(line)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %q", line, err, want)
		}
	}
	for line, want := range map[string]string{
		`x`:                                     "invalid",
		`{"meta":{"id":"s"}}`:                   "no session",
		`{"hermesSession":2,"meta":{"id":"s"}}`: "newer",
		`{"hermesSession":1,"meta":{}}`:         "no id",
	} {
		if _, err := ParseHeader([]byte(line)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %q", line, err, want)
		}
	}
}

func FuzzPortableLine(f *testing.F) {
	for _, r := range portable() {
		f.Add(AppendLine(nil, r))
	}
	f.Add([]byte(`{"end":7}`))
	f.Add([]byte(`{"seq":1,"last":3,"ms":1,"kind":"update","version":1,"text":5,"ends":[5,5,5],"data":{}}`))
	f.Fuzz(func(t *testing.T, line []byte) {
		_, _ = ParseHeader(line)
		_, _ = ParseFooter(line)
		r, err := ParseLine(line)
		if err != nil {
			return
		}
		events := r.Events()
		if len(events) == 0 || events[0].Seq != r.First || events[len(events)-1].Seq != r.Last {
			t.Fatalf("events %+v of %+v", events, r)
		}
		again, err := ParseLine(AppendLine(nil, r))
		if err != nil || !bytes.Equal(again.Data, r.Data) || fmt.Sprint(again.Ends) != fmt.Sprint(r.Ends) || again.Time != r.Time {
			t.Fatalf("%+v became %+v, %v", r, again, err)
		}
		var st State
		_ = st.Apply(r)
	})
}
