package session

import (
	"bytes"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/hermesd/hermesd/transport/acp"
)

// past writes the log of a session that is to be replayed.
type past struct{ events []Event }

func (p *past) add(k Kind, version uint8, data []byte) Seq {
	seq := Seq(len(p.events) + 1)
	p.events = append(p.events, Event{Seq: seq, Time: int64(seq) * 1000, Kind: k, Version: version, Data: data})
	return seq
}

func (p *past) say(update string) Seq { return p.add(KindUpdate, 1, []byte(update)) }

func (p *past) chunk(kind, id, text string) Seq {
	var o acp.Builder
	o.String("sessionUpdate", kind).Raw("content", acp.TextBlock(text))
	if id != "" {
		o.String("messageId", id)
	}
	return p.say(string(o.JSON()))
}

func (p *past) admit(blocks string) Seq {
	return p.add(KindPromptAdmitted, 0, encode(PromptAdmitted{Prompt: json.RawMessage(blocks)}))
}

func (p *past) start(prompt Seq) Seq {
	return p.add(KindTurnStarted, 0, encode(TurnStarted{Prompt: prompt}))
}

func (p *past) end(prompt Seq) Seq {
	return p.add(KindTurnEnded, 0, encode(TurnEnded{Prompt: prompt, StopReason: "end_turn"}))
}

func (p *past) records() []Record {
	var all []Record
	for _, e := range p.events {
		all = append(all, e.Record())
	}
	return all
}

func replayed(records []Record, caps acp.ClientCaps, budget int) []string {
	r := NewReplay("s1", caps, budget)
	for _, rec := range records {
		r.Add(rec)
	}
	var lines []string
	for _, u := range r.Finish() {
		lines = append(lines, string(u))
	}
	return lines
}

func wantReplay(t *testing.T, got []string, want ...string) {
	t.Helper()
	if strings.Join(got, "\n") != strings.Join(want, "\n") {
		t.Errorf("got\n\t%s\nwant\n\t%s", strings.Join(got, "\n\t"), strings.Join(want, "\n\t"))
	}
}

func TestReplayShowsTheStoryOnceAndInOrder(t *testing.T) {
	var p past
	p.add(KindCreated, 0, encode(Created{}))
	p.say(`{"sessionUpdate":"available_commands_update","availableCommands":[]}`)
	first := p.admit(`[{"type":"text","text":"change a to b"},{"type":"text","text":""},{"type":"resource_link","name":"a","uri":"file:///a"}]`)
	p.start(first)
	p.say(`{"sessionUpdate":"plan","entries":[1]}`)
	p.chunk("agent_message_chunk", "m1", "I lo")
	p.chunk("agent_message_chunk", "m1", "ok. ")
	p.say(`{"sessionUpdate":"usage_update","used":1,"size":2}`)
	p.chunk("agent_message_chunk", "m1", "\"Now\".")
	p.say(`{"sessionUpdate":"tool_call","toolCallId":"t1","title":"Read a","kind":"read","status":"pending","future":{"x":null}}`)
	p.say(`{"sessionUpdate":"tool_call","toolCallId":"t2","title":"Edit a","kind":"edit","status":"pending"}`)
	p.say(`{"sessionUpdate":"tool_call_update","toolCallId":"t1","status":"completed","content":[{"type":"content","content":{"type":"text","text":"a"}}],"locations":[{"path":"/a","line":2}]}`)
	p.add(KindQuestionAsked, 0, encode(QuestionAsked{ToolCall: json.RawMessage(`{}`), Options: json.RawMessage(`[]`)}))
	second := p.admit(`[{"type":"text","text":"and?"}]`)
	never := p.admit(`[{"type":"text","text":"never"}]`)
	p.add(KindPromptWithdrawn, 0, encode(PromptWithdrawn{Prompt: never}))
	p.say(`{"sessionUpdate":"tool_call_update","toolCallId":"t2","status":"completed","content":[{"type":"diff","path":"/a","oldText":"a","newText":"b"}]}`)
	p.say(`{"sessionUpdate":"notice","severity":"info","title":"n"}`)
	p.say(`{"sessionUpdate":"plan","entries":[2]}`)
	p.say(`{"sessionUpdate":"current_mode_update","currentModeId":"x"}`)
	p.say(`{"sessionUpdate":"config_option_update","configOptions":[]}`)
	p.say(`{ "sessionUpdate":"galaxy_update","level":3.0 }`)
	p.chunk("agent_message_chunk", "m2", "Done.")
	p.end(first)
	p.start(second)
	p.chunk("agent_thought_chunk", "h", "hm")
	p.chunk("agent_message_chunk", "m3", "Second.")
	p.say(`{"sessionUpdate":"session_info_update","title":"T","_meta":{"a":1}}`)
	p.say(`{"sessionUpdate":"session_info_update","updatedAt":"2026","_meta":{"b":2}}`)
	p.say(`{"sessionUpdate":"usage_update","used":3,"size":4}`)
	p.add(KindAgentRecord, 0, []byte(`secret`))
	p.add(KindUpdate, 2, []byte(`{"sessionUpdate":"state_update","state":"idle"}`))
	p.end(second)
	p.admit(`[{"type":"text","text":"still queued"}]`)

	want := []string{
		`{"sessionUpdate":"user_message_chunk","content":{"type":"text","text":"change a to b"},"messageId":"user_3"}`,
		`{"sessionUpdate":"user_message_chunk","content":{"type":"resource_link","name":"a","uri":"file:///a"},"messageId":"user_3"}`,
		`{"sessionUpdate":"agent_message_chunk","content":{"type":"text","text":"I look. \"Now\"."},"messageId":"m1"}`,
		`{"sessionUpdate":"tool_call","toolCallId":"t1","title":"Read a","kind":"read","status":"completed","future":{"x":null},"content":[{"type":"content","content":{"type":"text","text":"a"}}],"locations":[{"path":"/a","line":2}]}`,
		`{"sessionUpdate":"tool_call","toolCallId":"t2","title":"Edit a","kind":"edit","status":"completed","content":[{"type":"diff","path":"/a","oldText":"a","newText":"b"}]}`,
		`{"sessionUpdate":"plan","entries":[2]}`,
		`{ "sessionUpdate":"galaxy_update","level":3.0 }`,
		`{"sessionUpdate":"agent_message_chunk","content":{"type":"text","text":"Done."},"messageId":"m2"}`,
		fmt.Sprintf(`{"sessionUpdate":"user_message_chunk","content":{"type":"text","text":"and?"},"messageId":"user_%d"}`, second),
		`{"sessionUpdate":"agent_thought_chunk","content":{"type":"text","text":"hm"},"messageId":"h"}`,
		`{"sessionUpdate":"agent_message_chunk","content":{"type":"text","text":"Second."},"messageId":"m3"}`,
		`{"sessionUpdate":"available_commands_update","availableCommands":[]}`,
		`{"sessionUpdate":"session_info_update","title":"T","_meta":{"a":1,"b":2},"updatedAt":"2026"}`,
		`{"sessionUpdate":"usage_update","used":3,"size":4}`,
	}
	wantReplay(t, replayed(p.records(), acp.ClientCaps{Notices: true}, 0), want...)
	wantReplay(t, replayed(JoinEvents(nil, p.events), acp.ClientCaps{}, 0), want...)
}

func TestReplayJoinsChunksOfOneMessageOnly(t *testing.T) {
	const a, u = "agent_message_chunk", "user_message_chunk"
	m := func(kind, id, text string) string {
		var o acp.Builder
		o.String("sessionUpdate", kind).Raw("content", acp.TextBlock(text))
		if id != "" {
			o.String("messageId", id)
		}
		return string(o.JSON())
	}
	for _, tc := range []struct {
		name     string
		say      []string
		wantSaid []string
	}{
		{"another id", []string{m(a, "1", "x"), m(a, "2", "y")}, []string{m(a, "1", "x"), m(a, "2", "y")}},
		{"another kind", []string{m(a, "1", "x"), m(u, "1", "y")}, []string{m(a, "1", "x"), m(u, "1", "y")}},
		{"no id", []string{m(a, "", "x"), m(a, "", "y")}, []string{m(a, "", "xy")}},
		{"one with id, one without", []string{m(a, "", "x"), m(a, "1", "y")}, []string{m(a, "", "x"), m(a, "1", "y")}},
		{"a tool call between", []string{m(a, "1", "x"), `{"sessionUpdate":"tool_call","toolCallId":"t","title":"T"}`, m(a, "1", "y")},
			[]string{m(a, "1", "x"), `{"sessionUpdate":"tool_call","toolCallId":"t","title":"T"}`, m(a, "1", "y")}},
		{"an update of an earlier call between", []string{`{"sessionUpdate":"tool_call","toolCallId":"t","title":"T"}`, m(a, "1", "x"), `{"sessionUpdate":"tool_call_update","toolCallId":"t","status":"failed"}`, m(a, "1", "y")},
			[]string{`{"sessionUpdate":"tool_call","toolCallId":"t","title":"T","status":"failed"}`, m(a, "1", "xy")}},
		{"a plan that moves on between", []string{m(a, "1", "x"), `{"sessionUpdate":"plan","entries":[1]}`, m(a, "1", "y"), `{"sessionUpdate":"plan","entries":[2]}`},
			[]string{m(a, "1", "x"), m(a, "1", "y"), `{"sessionUpdate":"plan","entries":[2]}`}},
		{"an image between", []string{m(a, "1", "x"), `{"sessionUpdate":"agent_message_chunk","content":{"type":"image","data":"AAAA","mimeType":"image/png"},"messageId":"1"}`, m(a, "1", "y")},
			[]string{m(a, "1", "x"), `{"sessionUpdate":"agent_message_chunk","content":{"type":"image","data":"AAAA","mimeType":"image/png"},"messageId":"1"}`, m(a, "1", "y")}},
		{"_meta differs", []string{`{"sessionUpdate":"agent_message_chunk","_meta":{"n":1,"k":[]},"content":{"type":"text","text":"x"}}`, `{"sessionUpdate":"agent_message_chunk","_meta":{"n":2},"content":{"type":"text","text":"y"}}`, `{"sessionUpdate":"agent_message_chunk","content":{"type":"text","text":"z"}}`},
			[]string{`{"sessionUpdate":"agent_message_chunk","_meta":{"n":2,"k":[]},"content":{"type":"text","text":"xyz"}}`}},
		{"annotations differ", []string{`{"sessionUpdate":"agent_message_chunk","content":{"type":"text","text":"x","annotations":{"priority":1}}}`, m(a, "", "y")},
			[]string{`{"sessionUpdate":"agent_message_chunk","content":{"type":"text","text":"x","annotations":{"priority":1}}}`, m(a, "", "y")}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			var p past
			for _, s := range tc.say {
				p.say(s)
			}
			wantReplay(t, replayed(p.records(), acp.ClientCaps{}, 0), tc.wantSaid...)
		})
	}
}

func TestReplayDoesNotJoinThePromptWithWhatTheAgentSaysOfTheUser(t *testing.T) {
	var p past
	q := p.admit(`[{"type":"text","text":"a"},{"type":"text","text":"b"}]`)
	p.start(q)
	p.chunk("user_message_chunk", "user_1", "c")
	wantReplay(t, replayed(p.records(), acp.ClientCaps{}, 0),
		`{"sessionUpdate":"user_message_chunk","content":{"type":"text","text":"a"},"messageId":"user_1"}`,
		`{"sessionUpdate":"user_message_chunk","content":{"type":"text","text":"b"},"messageId":"user_1"}`,
		`{"sessionUpdate":"user_message_chunk","content":{"type":"text","text":"c"},"messageId":"user_1"}`)
}

func TestReplayOfCalls(t *testing.T) {
	for _, tc := range []struct {
		name      string
		say, want []string
	}{
		{"an update without a call becomes one", []string{`{"sessionUpdate":"tool_call_update","toolCallId":"t","status":"completed"}`},
			[]string{`{"sessionUpdate":"tool_call","toolCallId":"t","status":"completed","title":"Tool call"}`}},
		{"its name is its title then", []string{`{"sessionUpdate":"tool_call_update","toolCallId":"t","name":"shell"}`},
			[]string{`{"sessionUpdate":"tool_call","toolCallId":"t","name":"shell","title":"shell"}`}},
		{"a call without id stays as it is", []string{`{"sessionUpdate":"tool_call","title":"T"}`}, []string{`{"sessionUpdate":"tool_call","title":"T"}`}},
		{"a call that is announced again is one call", []string{`{"sessionUpdate":"tool_call","toolCallId":"t","title":"A","status":"pending"}`, `{"sessionUpdate":"tool_call","toolCallId":"t","title":"B"}`},
			[]string{`{"sessionUpdate":"tool_call","toolCallId":"t","title":"B","status":"pending"}`}},
		{"terminals are gone", []string{`{"sessionUpdate":"tool_call","toolCallId":"t","title":"A","content":[{"type":"terminal","terminalId":"x"},{"type":"content","content":{"type":"text","text":"out"}}]}`},
			[]string{`{"sessionUpdate":"tool_call","toolCallId":"t","title":"A","content":[{"type":"content","content":{"type":"text","text":"out"}}]}`}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			var p past
			for _, s := range tc.say {
				p.say(s)
			}
			wantReplay(t, replayed(p.records(), acp.ClientCaps{}, 0), tc.want...)
		})
	}
}

func TestReplayKeepsGatedKindsFromThoseWhoDidNotAsk(t *testing.T) {
	var p past
	compaction := `{"sessionUpdate":"compaction_update","compactionId":"c","status":"completed"}`
	plan := `{"sessionUpdate":"plan_update","plan":{"type":"items","planId":"p","entries":[]}}`
	p.say(compaction)
	p.say(plan)
	p.say(`{"sessionUpdate":"plan_update","plan":{"type":"items","planId":"gone","entries":[]}}`)
	p.say(`{"sessionUpdate":"plan_removed","planId":"gone"}`)
	p.say(`{"sessionUpdate":"subagent_update","sessionId":"x"}`)
	told, _ := acp.Instead([]byte(compaction))
	note := string(told)
	wantReplay(t, replayed(p.records(), acp.ClientCaps{}, 0), note)
	wantReplay(t, replayed(p.records(), acp.ClientCaps{Compaction: true}, 0), compaction)
	wantReplay(t, replayed(p.records(), acp.ClientCaps{Plan: true}, 0), note, plan)
	wantReplay(t, replayed(p.records(), acp.ClientCaps{Subagents: true}, 0), note, `{"sessionUpdate":"subagent_update","sessionId":"x"}`)
}

func TestReplaySaysThatATurnWasInterrupted(t *testing.T) {
	var p past
	for _, code := range []int{CodeInternal, CodeInterrupted} {
		q := p.admit(`[{"type":"text","text":"go"}]`)
		p.start(q)
		p.chunk("agent_message_chunk", "m", "half")
		p.add(KindTurnEnded, 0, encode(TurnEnded{Prompt: q, Error: &Error{Code: code, Message: "interrupted: look"}}))
	}
	got := replayed(p.records(), acp.ClientCaps{}, 0)
	wantReplay(t, got,
		`{"sessionUpdate":"user_message_chunk","content":{"type":"text","text":"go"},"messageId":"user_1"}`,
		`{"sessionUpdate":"agent_message_chunk","content":{"type":"text","text":"half"},"messageId":"m"}`,
		`{"sessionUpdate":"user_message_chunk","content":{"type":"text","text":"go"},"messageId":"user_5"}`,
		`{"sessionUpdate":"agent_message_chunk","content":{"type":"text","text":"half"},"messageId":"m"}`,
		`{"sessionUpdate":"agent_message_chunk","content":{"type":"text","text":"[interrupted: look]"},"messageId":"hermes_8","_meta":{"hermes":{"kind":"interrupted","turn":5}}}`)
}

func TestReplayCutsLongMessagesBetweenCharacters(t *testing.T) {
	var p past
	const piece = `é😀\"`
	whole := ""
	for range 40 {
		text := strings.Repeat(piece, 10_000)
		p.say(`{"sessionUpdate":"agent_message_chunk","content":{"type":"text","text":"` + text + `\ud83d\ude00"},"messageId":"m"}`)
		whole += text + `\ud83d\ude00`
	}
	got := ""
	frames := replayed(p.records(), acp.ClientCaps{}, 0)
	for _, u := range frames {
		start, end, ok := acp.ChunkText([]byte(u))
		if !ok || end-start > MaxReplayText || acp.MessageID([]byte(u)) != "m" {
			t.Fatalf("frame of %d bytes of text, ok %v", end-start, ok)
		}
		if !json.Valid([]byte(u)) || !utf8.ValidString(u) || string(acp.ValidUnicode([]byte(u))) != u {
			t.Fatal("a character was split")
		}
		got += u[start:end]
	}
	if got != whole {
		t.Errorf("the text is not the same: %d bytes, want %d", len(got), len(whole))
	}
	if len(frames) != 4 {
		t.Errorf("%d frames", len(frames))
	}
}

func size(lines []string) (n int) {
	for _, l := range lines {
		n += len(l)
	}
	return n
}

// bulk gives a log with outputs, messages and blocks that are too large.
func bulk(turns, bytes int) *past {
	var p past
	for i := range turns {
		q := p.admit(fmt.Sprintf(`[{"type":"text","text":"prompt %d"}]`, i))
		p.start(q)
		p.chunk("agent_message_chunk", fmt.Sprint("m", i), strings.Repeat("t", bytes))
		p.say(fmt.Sprintf(`{"sessionUpdate":"tool_call","toolCallId":"t%d","title":"T%d","status":"pending","rawInput":{"path":"/p"}}`, i, i))
		out := strings.Repeat("z", bytes)
		p.say(fmt.Sprintf(`{"sessionUpdate":"tool_call_update","toolCallId":"t%d","status":"completed","content":[{"type":"content","content":{"type":"text","text":"%s"}}],"rawOutput":"%s"}`, i, out, out))
		p.end(q)
	}
	return &p
}

func TestReplayOverBudgetShortensOldestOutputsFirst(t *testing.T) {
	p := bulk(10, 10_000) // 300 kB, of which 200 kB are outputs
	got := replayed(p.records(), acp.ClientCaps{}, 200_000)
	if n := size(got); n > 200_000 {
		t.Errorf("%d bytes", n)
	}
	if len(got) != 30 {
		t.Fatalf("%d updates, want all 30", len(got))
	}
	left := len(acp.TextContent(strings.Repeat("z", 10_000))) + 10_002
	shortened := 0
	for i := 0; i < 30; i += 3 {
		if !strings.Contains(got[i+1], strings.Repeat("t", 10_000)) {
			t.Errorf("message %d is shortened although outputs are left", i/3)
		}
		call := got[i+2]
		if strings.Contains(call, "bytes of this tool call left out here") {
			if shortened != i/3 {
				t.Errorf("call %d is shortened before an older one", i/3)
			}
			shortened++
			if !strings.Contains(call, fmt.Sprintf(`"[%d bytes of this tool call left out here; the session's log keeps them: hermesd sessions export s1]"`, left)) ||
				!strings.Contains(call, fmt.Sprintf(`"_meta":{"hermes":{"leftOut":%d}}`, left)) || !strings.Contains(call, `"status":"completed"`) ||
				!strings.Contains(call, `"rawInput":{"path":"/p"}`) || strings.Contains(call, "zzz") {
				t.Errorf("got %s", call)
			}
		}
	}
	if shortened == 0 || shortened > 7 {
		t.Errorf("%d calls are shortened", shortened)
	}
}

func TestReplayFarOverBudgetKeepsTheNewest(t *testing.T) {
	p := bulk(2000, 6_000) // 36 MB
	const budget = 1 << 20
	got := replayed(p.records(), acp.ClientCaps{}, budget)
	if n := size(got); n > budget {
		t.Errorf("%d bytes", n)
	}
	if !strings.Contains(got[0], "earlier entries") || !strings.Contains(got[0], `"kind":"left_out"`) {
		t.Errorf("the first line does not say that something is missing: %s", got[0])
	}
	last := got[len(got)-3:]
	for i, want := range []string{"prompt 1999", strings.Repeat("t", 6000), strings.Repeat("z", 6000)} {
		if !strings.Contains(last[i], want) {
			t.Errorf("the newest turn is not whole: %.200s", last[i])
		}
	}
	if n := size(got); n < budget/2 {
		t.Errorf("only %d bytes of %d are used", n, budget)
	}
}

func TestReplayShortensMessagesWhenOutputsAreNotEnough(t *testing.T) {
	var p past
	for i := range 40 {
		p.chunk("agent_message_chunk", fmt.Sprint(i), strings.Repeat("é", 5_000))
	}
	image := `{"type":"image","mimeType":"image/png","data":"` + strings.Repeat("A", 100_000) + `"}`
	q := p.admit("[" + image + "]")
	p.start(q)
	for i := range 20 {
		p.chunk("agent_message_chunk", fmt.Sprint("n", i), strings.Repeat("y", 5_000))
	}
	got := replayed(p.records(), acp.ClientCaps{}, 200_000)
	if len(got) != 61 {
		t.Fatalf("%d updates", len(got))
	}
	if start, end, _ := acp.ChunkText([]byte(got[0])); !strings.HasPrefix(got[0][start:end], strings.Repeat("é", 1024)+`\n\n[7952 bytes of this message left out here`) {
		t.Errorf("got %s", got[0])
	}
	if !strings.Contains(got[40], fmt.Sprintf(`"[image/png: %d bytes left out here; the session's log keeps them: hermesd sessions export s1]"`, len(image))) {
		t.Errorf("got %s", got[40])
	}
	if got[60] != replayed(p.records()[len(p.events)-1:], acp.ClientCaps{}, 0)[0] {
		t.Errorf("the newest message is not whole")
	}
	for _, u := range got {
		if !json.Valid([]byte(u)) {
			t.Errorf("not JSON: %s", u)
		}
	}
}

func TestReplayOfOneHugeMessageIsBounded(t *testing.T) {
	var p past
	for range 400 {
		p.chunk("agent_message_chunk", "m", strings.Repeat("x", 50_000))
	}
	r := NewReplay("s1", acp.ClientCaps{}, 1<<20)
	for _, rec := range p.records() {
		r.Add(rec)
		if held := cap(r.last().text); held > 2<<20 {
			t.Fatalf("%d bytes of it are held", held)
		}
	}
	got := r.Finish()
	if len(got) != 1 || !strings.Contains(string(got[0]), `[19997952 bytes of this message left out`) {
		t.Errorf("got %d updates, %.300s", len(got), got[0])
	}
}

func TestReplayTouchesTheNewestLast(t *testing.T) {
	var p past
	for i := range 40 {
		p.chunk("agent_message_chunk", fmt.Sprint(i), strings.Repeat("m", 10_000))
	}
	call := fmt.Sprintf(`{"sessionUpdate":"tool_call","toolCallId":"t","title":"T","rawOutput":"%s"}`, strings.Repeat("z", 20_000))
	p.say(call)
	got := replayed(p.records(), acp.ClientCaps{}, 200_000)
	if got[len(got)-1] != call {
		t.Errorf("the output that was just made is shortened although older messages could be")
	}
	if !strings.Contains(got[0], "left out here") || size(got) > 200_000 {
		t.Errorf("%d bytes, %.100s", size(got), got[0])
	}
}

func TestReplaySaysOfACallOnlyWhatIsStillMissing(t *testing.T) {
	var p past
	p.say(fmt.Sprintf(`{"sessionUpdate":"tool_call","toolCallId":"t","title":"T","content":%s}`, acp.TextContent(strings.Repeat("z", 50_000))))
	for i := range 10 {
		p.chunk("agent_message_chunk", fmt.Sprint(i), strings.Repeat("m", 3_000))
	}
	if got := replayed(p.records(), acp.ClientCaps{}, 40_000); !strings.Contains(got[0], "left out here") {
		t.Fatalf("the call is not shortened: %.200s", got[0])
	}
	p.say(`{"sessionUpdate":"tool_call_update","toolCallId":"t","content":[],"status":"completed"}`)
	if got := replayed(p.records(), acp.ClientCaps{}, 40_000)[0]; got != `{"sessionUpdate":"tool_call","toolCallId":"t","title":"T","content":[],"status":"completed"}` {
		t.Errorf("got %s", got)
	}
}

func TestReplayDoesNotBringBackACallThatWasLeftOut(t *testing.T) {
	var p past
	p.say(`{"sessionUpdate":"tool_call","toolCallId":"t","title":"T"}`)
	for i := range 100 {
		p.chunk("agent_message_chunk", fmt.Sprint(i), strings.Repeat("m", 3_000))
	}
	p.say(`{"sessionUpdate":"tool_call_update","toolCallId":"t","rawOutput":"late"}`)
	p.say(`{"sessionUpdate":"tool_call_update","toolCallId":"t","status":"completed"}`)
	r := NewReplay("s", acp.ClientCaps{}, 40_000)
	for _, rec := range p.records() {
		r.Add(rec)
	}
	for _, u := range r.Finish() {
		if acp.UpdateKind(u) == acp.ToolCall {
			t.Errorf("got %s", u)
		}
	}
	if len(r.calls) != 0 {
		t.Errorf("%d calls are still held", len(r.calls))
	}
	wantTotal(t, r)
}

// wantTotal checks the count of bytes against the entries.
func wantTotal(t *testing.T, r *Replay) {
	t.Helper()
	sum := 0
	for _, e := range r.items {
		if !e.dropped {
			sum += e.size
		}
	}
	if sum != r.total {
		t.Errorf("the total is %d, the entries have %d", r.total, sum)
	}
}

func TestReplayHoldsNoPromptThatWasShown(t *testing.T) {
	p := bulk(10, 10)
	q := p.admit(`[]`)
	p.add(KindPromptWithdrawn, 0, encode(PromptWithdrawn{Prompt: q}))
	r := NewReplay("s", acp.ClientCaps{}, 0)
	for _, rec := range p.records() {
		r.Add(rec)
	}
	if len(r.prompts) != 0 {
		t.Errorf("%d prompts are held", len(r.prompts))
	}
}

func TestReplayKeepsItsMemoryWithinTheBudget(t *testing.T) {
	const budget = 256 << 10
	r := NewReplay("s", acp.ClientCaps{}, budget)
	most := 0
	for i := range 50_000 {
		seq := Seq(i + 1)
		var u string
		switch i % 5 {
		case 0:
			u = fmt.Sprintf(`{"sessionUpdate":"tool_call","toolCallId":"t%d","title":"T"}`, i)
		case 1: // half of the calls never end
			if i%2 == 0 {
				u = fmt.Sprintf(`{"sessionUpdate":"tool_call_update","toolCallId":"t%d","status":"completed"}`, i-1)
			} else {
				u = `{"sessionUpdate":"plan","entries":[]}`
			}
		case 2:
			u = `{"sessionUpdate":"galaxy_update"}`
		default:
			u = fmt.Sprintf(`{"sessionUpdate":"agent_message_chunk","content":{"type":"text","text":"abcdefgh"},"messageId":"%d"}`, i)
		}
		r.Add(Record{First: seq, Last: seq, Kind: KindUpdate, Version: 1, Data: []byte(u)})
		held := 0
		if i%100 == 0 {
			for _, e := range r.items {
				held += len(e.data) + len(e.chunk.data) + cap(e.text)
			}
			most = max(most, held)
		}
	}
	if most > 2*budget {
		t.Errorf("%d bytes were held for a budget of %d", most, budget)
	}
	if len(r.items) > 10_000 {
		t.Errorf("%d entries are held", len(r.items))
	}
	wantTotal(t, r)
}

func TestReplayOfMessagesAloneKeepsWithinTheBudget(t *testing.T) {
	r := NewReplay("s", acp.ClientCaps{}, 64<<10)
	for i := range 5_000 {
		u := fmt.Sprintf(`{"sessionUpdate":"agent_message_chunk","content":{"type":"text","text":"abcdefgh"},"messageId":"%d"}`, i)
		r.Add(Record{First: Seq(i + 1), Last: Seq(i + 1), Kind: KindUpdate, Version: 1, Data: []byte(u)})
		if r.total > 65<<10 {
			t.Fatalf("%d bytes are held after %d messages", r.total, i+1)
		}
	}
}

// TestReplayDependsOnEventsNotOnRecords replays random logs joined in random
// ways, as they are read from memory, from one page or from many.
func TestReplayDependsOnEventsNotOnRecords(t *testing.T) {
	for seed := range uint64(60) {
		rnd := rand.New(rand.NewPCG(seed, 1))
		p := randomPast(rnd, 300)
		budget := []int{0, 10_000, 30_000, 80_000}[rnd.IntN(4)]
		want := replayed(p.records(), acp.ClientCaps{}, budget)
		again := replayed(p.records(), acp.ClientCaps{}, budget)
		if strings.Join(want, "\n") != strings.Join(again, "\n") {
			t.Fatalf("seed %d: two replays differ", seed)
		}
		for range 3 {
			var records []Record
			for rest := p.events; len(rest) > 0; {
				n := 1 + rnd.IntN(len(rest))
				records = JoinEvents(records, rest[:n])
				rest = rest[n:]
			}
			if rnd.IntN(2) == 0 {
				records = JoinRecords(records)
			}
			if got := replayed(records, acp.ClientCaps{}, budget); strings.Join(got, "\n") != strings.Join(want, "\n") {
				t.Fatalf("seed %d, budget %d: joined in another way the replay differs:\n%.3000s\nwant\n%.3000s", seed, budget, strings.Join(got, "\n"), strings.Join(want, "\n"))
			}
		}
	}
}

func TestReplayNeverWritesToTheLog(t *testing.T) {
	for seed := range uint64(20) {
		p := randomPast(rand.New(rand.NewPCG(seed, 2)), 200)
		records := JoinEvents(nil, p.events)
		var before [][]byte
		for _, r := range records {
			before = append(before, bytes.Clone(r.Data))
		}
		replayed(records, acp.ClientCaps{}, 10_000)
		for i, r := range records {
			if !bytes.Equal(r.Data, before[i]) {
				t.Fatalf("seed %d: record %d was written to", seed, r.First)
			}
		}
	}
}

func randomPast(rnd *rand.Rand, n int) *past {
	var p past
	var queue []Seq
	text := func() string {
		n := 40
		if rnd.IntN(12) == 0 {
			n = 2000 // worth shortening
		}
		return strings.Repeat("aé\n\"", rnd.IntN(n))
	}
	for range n {
		switch rnd.IntN(12) {
		case 0:
			queue = append(queue, p.admit(fmt.Sprintf(`[{"type":"text","text":%s}]`, acp.String(text()))))
		case 1:
			if len(queue) > 0 {
				p.start(queue[0])
				queue = queue[1:]
			}
		case 2:
			p.say(fmt.Sprintf(`{"sessionUpdate":"tool_call","toolCallId":"t%d","title":"T","rawInput":%s}`, rnd.IntN(30), acp.String(text())))
		case 3:
			p.say(fmt.Sprintf(`{"sessionUpdate":"tool_call_update","toolCallId":"t%d","status":"completed","content":%s}`, rnd.IntN(30), acp.TextContent(text())))
		case 4:
			p.say(fmt.Sprintf(`{"sessionUpdate":"plan","entries":[%d]}`, rnd.IntN(9)))
		case 5:
			p.say(fmt.Sprintf(`{"sessionUpdate":"galaxy_update","x":%s}`, acp.String(text())))
		case 6:
			p.say(`{"sessionUpdate":"usage_update","used":1,"size":2}`)
		default:
			kind := []string{"agent_message_chunk", "agent_thought_chunk"}[rnd.IntN(2)]
			id := fmt.Sprint(rnd.IntN(2))
			for range 1 + rnd.IntN(8) {
				p.chunk(kind, id, text())
			}
		}
	}
	return &p
}

func TestOpenCallsOfAReplay(t *testing.T) {
	var p past
	p.say(`{"sessionUpdate":"tool_call","toolCallId":"a","title":"A"}`)
	p.say(`{"sessionUpdate":"tool_call","toolCallId":"b","title":"B","status":"in_progress"}`)
	p.say(`{"sessionUpdate":"tool_call_update","toolCallId":"a","status":"failed"}`)
	p.say(`{"sessionUpdate":"tool_call_update","toolCallId":"b","rawOutput":"half"}`)
	r := NewReplay("s", acp.ClientCaps{}, 0)
	for _, rec := range p.records() {
		r.Add(rec)
	}
	r.Finish()
	open := r.OpenCalls()
	if len(open) != 1 || string(open[0]) != `{"sessionUpdate":"tool_call","toolCallId":"b","title":"B","status":"in_progress","rawOutput":"half"}` {
		t.Errorf("got %s", open)
	}
}

func TestBoundedUpdates(t *testing.T) {
	big := strings.Repeat("x", 50_000)
	for _, tc := range []struct{ name, update, want string }{
		{"small", `{ "sessionUpdate":"galaxy" }`, `{ "sessionUpdate":"galaxy" }`},
		{"text", `{"sessionUpdate":"agent_message_chunk","content":{"type":"text","text":"` + big + `"},"messageId":"m"}`,
			`{"sessionUpdate":"agent_message_chunk","content":{"type":"text","text":"` + big[:2048] + `\n\n[47952 bytes of this message left out here; the session's log keeps them]"},"messageId":"m"}`},
		{"image", `{"sessionUpdate":"agent_message_chunk","content":{"type":"image","mimeType":"image/png","data":"` + big + `"}}`,
			`{"sessionUpdate":"agent_message_chunk","content":{"type":"text","text":"[image/png: 50049 bytes left out here; the session's log keeps them]"}}`},
		{"call update", `{"sessionUpdate":"tool_call_update","toolCallId":"t","status":"completed","rawOutput":"` + big + `"}`,
			`{"sessionUpdate":"tool_call_update","toolCallId":"t","status":"completed","content":[{"type":"content","content":{"type":"text","text":"[50002 bytes of this tool call left out here; the session's log keeps them]"}}],"_meta":{"hermes":{"leftOut":50002}}}`},
		{"call with a huge title", `{"sessionUpdate":"tool_call","toolCallId":"t","title":"` + big + `","status":"pending"}`,
			`{"sessionUpdate":"tool_call","toolCallId":"t","title":"Tool call","status":"pending","content":[{"type":"content","content":{"type":"text","text":"[an update of 50076 bytes is left out: it is larger than an editor takes; the session's log keeps it]"}}]}`},
		{"call with a huge id", `{"sessionUpdate":"tool_call","toolCallId":"` + big + `","title":"T"}`,
			`{"sessionUpdate":"agent_message_chunk","content":{"type":"text","text":"[an update of 50057 bytes is left out: it is larger than an editor takes; the session's log keeps it]"}}`},
		{"unknown", `{"sessionUpdate":"galaxy","x":"` + big + `"}`,
			`{"sessionUpdate":"agent_message_chunk","content":{"type":"text","text":"[an update of 50033 bytes is left out: it is larger than an editor takes; the session's log keeps it]"}}`},
	} {
		t.Run(tc.name, func(t *testing.T) {
			if got := string(Bounded([]byte(tc.update), 10_000)); got != tc.want {
				t.Errorf("got  %.300s\nwant %.300s", got, tc.want)
			}
		})
	}
}

func TestReplayOfTheUsualChunkAllocatesLittle(t *testing.T) {
	r := NewReplay("s", acp.ClientCaps{}, 0)
	rec := Record{First: 1, Last: 1, Kind: KindUpdate, Version: 1, Data: []byte(`{"sessionUpdate":"agent_message_chunk","content":{"type":"text","text":"word "},"messageId":"m"}`)}
	r.Add(rec)
	if n := testing.AllocsPerRun(1000, func() { r.Add(rec) }); n > 1 {
		t.Errorf("%v allocations for each chunk", n)
	}
}

func FuzzReplay(f *testing.F) {
	f.Add([]byte("{\"sessionUpdate\":\"tool_call\",\"toolCallId\":\"t\",\"title\":\"x\"}\n{\"sessionUpdate\":\"tool_call_update\",\"toolCallId\":\"t\",\"content\":[{\"type\":\"terminal\"}]}"), 1000)
	f.Add([]byte("{\"sessionUpdate\":\"agent_message_chunk\",\"content\":{\"type\":\"text\",\"text\":\"\\ud83d\"}}\n{\"sessionUpdate\":\"agent_message_chunk\",\"content\":{\"type\":\"text\",\"text\":\"\\ude00\"},\"_meta\":{}}"), 10)
	f.Add([]byte("{\"sessionUpdate\":\"plan_update\",\"plan\":[]}\n{\"sessionUpdate\":\"session_info_update\",\"_meta\":3}\n{\n\"\n{}"), 0)
	f.Fuzz(func(t *testing.T, log []byte, budget int) {
		var p past
		q := p.admit(`[{"type":"text","text":"hi"}]`)
		valid := true
		for line := range bytes.SplitSeq(log, []byte("\n")) {
			valid = valid && json.Valid(line)
			p.say(string(line))
		}
		p.start(q)
		r := NewReplay("s", acp.ClientCaps{Plan: true}, budget)
		for _, rec := range JoinEvents(nil, p.events) {
			r.Add(rec)
		}
		for _, u := range r.Finish() {
			if valid && !json.Valid(u) {
				t.Errorf("not JSON: %q", u)
			}
		}
		r.OpenCalls()
	})
}
