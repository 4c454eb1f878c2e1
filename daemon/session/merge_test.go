package session

import (
	"bytes"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
)

// chunkEvent is a message chunk whose text is given as it stands in the JSON.
func chunkEvent(seq Seq, id, escaped string) Event {
	data := `{"sessionUpdate":"agent_message_chunk","content":{"type":"text","text":"` + escaped + `"},"messageId":"` + id + `"}`
	return Event{Seq: seq, Time: int64(seq) * 10, Kind: KindUpdate, Version: 1, Data: []byte(data)}
}

// apart undoes joining.
func apart(records []Record) []Event {
	var events []Event
	for _, r := range records {
		for seq := r.First; seq <= r.Last; seq++ {
			cut := r.From(seq)
			if cut.Ends != nil { // leave its first text
				end := cut.Ends[len(cut.Ends)-1]
				cut.Data = slices.Concat(cut.Data[:cut.Ends[0]], cut.Data[end:])
			}
			events = append(events, Event{Seq: seq, Kind: r.Kind, Version: r.Version, Data: cut.Data})
		}
	}
	return events
}

func sameEvents(t *testing.T, got, want []Event) {
	t.Helper()
	if len(got) != len(want) {
		t.Fatalf("%d events, want %d", len(got), len(want))
	}
	for i := range got {
		if got[i].Seq != want[i].Seq || got[i].Kind != want[i].Kind || got[i].Version != want[i].Version || !bytes.Equal(got[i].Data, want[i].Data) {
			t.Fatalf("event %d is %d %s, want %d %s", i, got[i].Seq, got[i].Data, want[i].Seq, want[i].Data)
		}
	}
}

func ranges(records []Record) string {
	var b strings.Builder
	for _, r := range records {
		fmt.Fprintf(&b, "%d-%d ", r.First, r.Last)
	}
	return strings.TrimSpace(b.String())
}

func TestWhatIsJoined(t *testing.T) {
	with := func(e Event, change func(*Event)) Event { change(&e); return e }
	replace := func(e Event, old, new string) Event {
		e.Data = bytes.Replace(e.Data, []byte(old), []byte(new), 1)
		return e
	}
	for _, test := range []struct {
		name   string
		events []Event
		want   string
	}{
		{"one message", []Event{chunkEvent(1, "m", "a"), chunkEvent(2, "m", ""), chunkEvent(3, "m", "b")}, "1-3"},
		{"another message", []Event{chunkEvent(1, "m", "a"), chunkEvent(2, "n", "b"), chunkEvent(3, "n", "c")}, "1-1 2-3"},
		{"thoughts and messages", []Event{chunkEvent(1, "m", "a"), replace(chunkEvent(2, "m", "b"), "agent_message", "agent_thought")}, "1-1 2-2"},
		{"thoughts", []Event{replace(chunkEvent(1, "m", "a"), "agent_message", "agent_thought"), replace(chunkEvent(2, "m", "b"), "agent_message", "agent_thought")}, "1-2"},
		{"a user's words", []Event{replace(chunkEvent(1, "m", "a"), "agent_message", "user_message"), replace(chunkEvent(2, "m", "b"), "agent_message", "user_message")}, "1-2"},
		{"other kinds of update", []Event{replace(chunkEvent(1, "m", "a"), "agent_message_chunk", "plan"), replace(chunkEvent(2, "m", "b"), "agent_message_chunk", "plan")}, "1-1 2-2"},
		{"content that is no text", []Event{replace(chunkEvent(1, "m", "a"), `"type":"text"`, `"type":"image"`), replace(chunkEvent(2, "m", "b"), `"type":"text"`, `"type":"image"`)}, "1-1 2-2"},
		{"another version", []Event{chunkEvent(1, "m", "a"), with(chunkEvent(2, "m", "b"), func(e *Event) { e.Version = 2 })}, "1-1 2-2"},
		{"records of the agent", []Event{with(chunkEvent(1, "m", "a"), func(e *Event) { e.Kind = KindAgentRecord }), with(chunkEvent(2, "m", "b"), func(e *Event) { e.Kind = KindAgentRecord })}, "1-1 2-2"},
		{"a fact between", []Event{chunkEvent(1, "m", "a"), {Seq: 2, Kind: KindTurnEnded, Data: []byte(`{}`)}, chunkEvent(3, "m", "b")}, "1-1 2-2 3-3"},
		{"annotations that differ", []Event{chunkEvent(1, "m", "a"), replace(chunkEvent(2, "m", "b"), `"messageId"`, `"_meta":{"n":2},"messageId"`)}, "1-1 2-2"},
		{"annotations that are the same", []Event{replace(chunkEvent(1, "m", "b"), `"messageId"`, `"_meta":{"n":2},"messageId"`), replace(chunkEvent(2, "m", "b"), `"messageId"`, `"_meta":{"n":2},"messageId"`)}, "1-2"},
		{"other spacing", []Event{chunkEvent(1, "m", "a"), replace(chunkEvent(2, "m", "b"), `,`, `, `)}, "1-1 2-2"},
		{"a member inside what looks like text", []Event{chunkEvent(1, "m", "a"), chunkEvent(2, "m", `b","x":"`)}, "1-1 2-2"},
		{"quotes in the text", []Event{chunkEvent(1, "m", `\"`), chunkEvent(2, "m", `a\\`), chunkEvent(3, "m", `\"\\\"`)}, "1-3"},
		{"text that is not closed", []Event{chunkEvent(1, "m", "a"), chunkEvent(2, "m", `b\`)}, "1-1 2-2"},
		{"half a character each", []Event{chunkEvent(1, "m", `\ud83d`), chunkEvent(2, "m", `\ude00`)}, "1-2"},
		{"nothing", nil, ""},
		{"no JSON", []Event{{Seq: 1, Kind: KindUpdate, Data: []byte("x")}, {Seq: 2, Kind: KindUpdate}}, "1-1 2-2"},
	} {
		t.Run(test.name, func(t *testing.T) {
			joined := JoinEvents(nil, test.events)
			if got := ranges(joined); got != test.want {
				t.Errorf("records %s, want %s", got, test.want)
			}
			sameEvents(t, apart(joined), test.events)
		})
	}
}

func TestAJoinedRecordIsAnUpdateWithAllTheText(t *testing.T) {
	joined := JoinEvents(nil, []Event{chunkEvent(5, "m", `a\ud83d`), chunkEvent(6, "m", `\ude00`), chunkEvent(7, "m", "b")})
	if len(joined) != 1 || joined[0].Time != 50 {
		t.Fatalf("%+v", joined)
	}
	var update struct {
		Content struct{ Text string }
		ID      string `json:"messageId"`
	}
	if err := json.Unmarshal(joined[0].Data, &update); err != nil || update.Content.Text != "a😀b" || update.ID != "m" {
		t.Errorf("%s: %+v %v", joined[0].Data, update, err)
	}
}

func TestJoinedTextIsBounded(t *testing.T) {
	var events []Event
	for seq := Seq(1); seq <= 100; seq++ {
		events = append(events, chunkEvent(seq, "m", strings.Repeat("x", 3000)))
	}
	joined := JoinEvents(nil, events)
	for _, r := range joined {
		if n := r.Ends[len(r.Ends)-1] - r.Text; n > maxJoinedText {
			t.Errorf("%d bytes of text", n)
		}
	}
	if len(joined) != 5 {
		t.Errorf("%d records", len(joined))
	}
	sameEvents(t, apart(joined), events)
	again := JoinRecords(slices.Clone(joined))
	if ranges(again) != ranges(joined) {
		t.Errorf("joining full records gave %s", ranges(again))
	}
}

func TestCutting(t *testing.T) {
	r := JoinEvents(nil, []Event{chunkEvent(4, "m", "a"), chunkEvent(5, "m", ""), chunkEvent(6, "m", "bc"), chunkEvent(7, "m", "d")})[0]
	for seq, text := range map[Seq]string{0: "abcd", 4: "abcd", 5: "bcd", 6: "bcd", 7: "d", 8: "abcd"} {
		cut := r.From(seq)
		if want := chunkEvent(0, "m", text).Data; !bytes.Equal(cut.Data, want) {
			t.Errorf("from %d: %s", seq, cut.Data)
		}
		if want := max(seq, 4); seq <= 7 && (cut.First != want || cut.Last != 7 || (cut.Ends == nil) != (seq == 7)) {
			t.Errorf("from %d: %+v", seq, cut)
		}
		if twice := r.From(5).From(seq); seq > 5 && seq < 8 && !bytes.Equal(twice.Data, cut.Data) {
			t.Errorf("from 5, then from %d: %s", seq, twice.Data)
		}
	}
	one := chunkEvent(3, "m", "a").Record()
	if cut := one.From(3); !bytes.Equal(cut.Data, one.Data) {
		t.Errorf("%+v", cut)
	}
}

// Joining in pieces and then the pieces is joining at once, and cutting gives
// back what went in.
func FuzzJoin(f *testing.F) {
	f.Add("a|b|\\\"|c", uint64(1))
	f.Add(`|||\ud83d|\ude00|"|\`, uint64(7))
	f.Fuzz(func(t *testing.T, texts string, seed uint64) {
		rng := rand.New(rand.NewPCG(seed, 0))
		var events []Event
		for i, text := range strings.Split(texts, "|") {
			id := "m"
			if rng.IntN(6) == 0 {
				id = "n"
			}
			events = append(events, chunkEvent(Seq(i+1), id, text))
		}
		whole := JoinEvents(nil, events)
		sameEvents(t, apart(whole), events)
		var pieces []Record
		for rest := events; len(rest) > 0; {
			n := 1 + rng.IntN(len(rest))
			pieces = append(pieces, JoinEvents(nil, rest[:n])...)
			rest = rest[n:]
		}
		before := apart(pieces)
		pieces = JoinRecords(pieces)
		sameEvents(t, apart(pieces), before)
		if ranges(pieces) != ranges(whole) {
			t.Fatalf("in pieces %s, at once %s", ranges(pieces), ranges(whole))
		}
	})
}
