package session

import (
	"encoding/json"
	"fmt"
	"strconv"

	"github.com/hermesd/hermesd/transport/acp"
)

const (
	// DefaultReplayBudget bounds the bytes of one replay.
	DefaultReplayBudget = 8 << 20
	// MaxReplayText bounds the text of one message chunk of a replay.
	MaxReplayText = 1 << 20
	// MaxUpdate bounds one update towards an editor: the libraries of editors
	// die of lines above 32 MiB.
	MaxUpdate = 30<<20 - 4<<10

	shortenAbove = 4 << 10 // what is smaller is not worth a marker
	keepText     = 2 << 10 // of a text that is shortened
	markerSize   = 256     // about what a marker adds
)

// Replay turns a session's log into the history an editor of ACP v1 is shown
// when it loads the session: merged, in the order of the first mention, and
// not larger than a budget.
//
//   - The chunks of one message are joined, and cut only where a frame would
//     get too long.
//   - A prompt is shown where its turn started; one that never started is not.
//   - A tool call is shown once, where it began, as it is at the end.
//   - A plan is shown where it was last changed; notices are not shown.
//   - Commands, title and usage are shown as they are at the end, last. Mode
//     and options are not: they stand in the answer to the load.
//   - Questions are not shown. A turn that was interrupted says so.
//   - What we do not know stays in its place, byte for byte.
//
// Over the budget the oldest tool outputs are shortened first, then the oldest
// messages, then the oldest entries are left out; the newest quarter of the
// budget is touched last. What is missing is said in its place. The result
// depends on the events alone, not on how records join them. Memory is about
// twice the budget and one record.
//
// A Replay is used by one goroutine.
type Replay struct {
	kept   string // says where to find what is left out
	caps   acp.ClientCaps
	budget int

	prompts map[Seq]json.RawMessage // PromptAdmitted, not yet started
	items   []*entry
	calls   map[string]*entry
	plans   map[string]*entry
	total   int // sum of the sizes of items

	commands, info, usage []byte

	droppedEntries, droppedBytes int
}

// NewReplay begins the replay of one session for an editor with these
// capabilities. A budget of 0 or less is DefaultReplayBudget.
func NewReplay(id ID, caps acp.ClientCaps, budget int) *Replay {
	if budget <= 0 {
		budget = DefaultReplayBudget
	}
	return &Replay{
		kept: fmt.Sprintf("%s: hermesd sessions export %s", keptInLog, id), caps: caps, budget: budget,
		prompts: make(map[Seq]json.RawMessage),
		calls:   make(map[string]*entry),
		plans:   make(map[string]*entry),
	}
}

const keptInLog = "left out here; the session's log keeps them"

// entry is one thing of the history.
type entry struct {
	what what
	// chunk and text belong to messages of text: chunk is the first update
	// that said something of it, text what all of them said, still escaped.
	chunk chunk
	text  []byte
	whole bool // nothing may be joined to it
	// data is the update of everything else.
	data []byte
	// left counts bytes that were taken out; of tool calls, by member.
	left    int
	leftOf  [len(bulky)]int
	size    int
	dropped bool
}

type what uint8

const (
	aText  what = iota // message of text
	aBlock             // message that is no text
	aCall
	aPlan
	another
)

// bulky are the members of a tool call that are taken out to shorten it.
var bulky = [...]string{"content", "rawOutput", "rawInput"}

// UserMessageID is the messageId under which editors see a prompt.
func UserMessageID(prompt Seq) string { return "user_" + strconv.FormatUint(uint64(prompt), 10) }

// UserChunks gives the updates that show a prompt to those who did not send
// it, and say who did. Blocks of empty text are left out.
func UserChunks(prompt Seq, blocks json.RawMessage, by Origin) [][]byte {
	meta := by.Who().meta()
	all, _ := acp.Elements(blocks)
	id := UserMessageID(prompt)
	var updates [][]byte
	for _, b := range all {
		if t, ok := acp.GetString(b, "text"); ok && t == "" {
			if kind, _ := acp.GetString(b, "type"); kind == "text" {
				continue
			}
		}
		updates = append(updates, acp.UserChunk(id, b, meta))
	}
	return updates
}

// Add takes the next record of the log. Its Data is kept and not written to.
func (r *Replay) Add(rec Record) {
	switch rec.Kind {
	case KindUpdate:
		if rec.Version <= 1 {
			r.update(rec.Data)
		}
	case KindPromptAdmitted:
		// Not decoded as a whole: the rest of it is not wanted.
		if _, ok := acp.Get(rec.Data, "prompt"); ok {
			r.prompts[rec.First] = rec.Data
		}
	case KindPromptWithdrawn:
		if f, err := decode[PromptWithdrawn](rec.Data); err == nil {
			delete(r.prompts, f.Prompt)
		}
	case KindTurnStarted:
		if f, err := decode[TurnStarted](rec.Data); err == nil {
			r.prompt(f.Prompt)
		}
	case KindPromptJoined:
		if f, err := decode[PromptJoined](rec.Data); err == nil {
			r.prompt(f.Prompt)
			if len(f.Update) > 0 {
				r.update(f.Update)
			}
		}
	case KindTurnEnded:
		f, err := decode[TurnEnded](rec.Data)
		if err != nil || f.Error == nil || f.Error.Code != CodeInterrupted {
			return
		}
		var hermes acp.Builder
		hermes.String("kind", "interrupted").Int("turn", int64(f.Prompt))
		r.message(acp.AgentText(fmt.Sprintf("hermes_%d", rec.First), "["+f.Error.Message+"]", acp.HermesMeta(hermes.JSON())), true)
	}
}

// prompt shows a prompt where it left the queue.
func (r *Replay) prompt(p Seq) {
	var by Origin
	blocks, _ := acp.Get(r.prompts[p], "prompt")
	if o, ok := acp.Get(r.prompts[p], "origin"); ok {
		by, _ = decode[Origin](o) // who it was is not known then
	}
	for _, u := range UserChunks(p, blocks, by) {
		r.message(u, true)
	}
	delete(r.prompts, p)
}

func (r *Replay) update(u []byte) {
	// The next chunk of the message that is being said is by far the most
	// frequent; it is recognised without being parsed.
	if last := r.last(); last != nil && last.what == aText && !last.whole {
		if c, ok := last.chunk.like(u); ok {
			r.grow(last, u[c.start:c.end])
			return
		}
	}
	kind := acp.UpdateKind(u)
	if !acp.Filter(kind, r.caps) {
		if note, ok := acp.Instead(u); ok {
			r.message(note, true)
		}
		return
	}
	switch kind {
	case acp.UserMessageChunk, acp.AgentMessageChunk, acp.AgentThoughtChunk:
		r.message(u, false)
	case acp.ToolCall, acp.ToolCallUpdate:
		r.call(u)
	case acp.Plan:
		r.plan("", u)
	case acp.PlanUpdate:
		plan, _ := acp.Get(u, "plan")
		id, _ := acp.GetString(plan, "planId")
		r.plan("id "+id, u)
	case acp.PlanRemoved:
		id, _ := acp.GetString(u, "planId")
		r.unplan("id " + id)
	case acp.AvailableCommands:
		r.commands = u
	case acp.SessionInfo:
		r.info = overlayMeta(r.info, u)
	case acp.Usage:
		r.usage = u
	case acp.Notice, acp.CurrentMode, acp.ConfigOption:
	default:
		r.push(&entry{what: another, data: u})
	}
}

// message takes a message chunk. whole says that nothing may be joined to it,
// as its end is known.
func (r *Replay) message(u []byte, whole bool) {
	c, ok := chunkOf(KindUpdate, u)
	if !ok {
		r.push(&entry{what: aBlock, data: u})
		return
	}
	last := r.last()
	if !whole && last != nil && last.what == aText && !last.whole {
		if joined, ok := sameMessage(last.chunk, c); ok {
			last.chunk = joined
			r.grow(last, u[c.start:c.end])
			return
		}
	}
	e := &entry{what: aText, chunk: c.bare(), whole: whole}
	r.push(e)
	r.grow(e, u[c.start:c.end])
}

// bare is the chunk without its text, and without holding on to it.
func (c chunk) bare() chunk {
	data := make([]byte, 0, c.start+len(c.data)-c.end)
	data = append(append(data, c.data[:c.start]...), c.data[c.end:]...)
	return chunk{data, c.start, c.start}
}

// sameMessage reports whether two chunks belong to one message although their
// bytes around the text differ: they may do so in `_meta` only. The result is
// the first chunk with both `_meta`.
func sameMessage(a, b chunk) (chunk, bool) {
	a = a.bare()
	if string(withoutMeta(a.data)) != string(withoutMeta(b.bare().data)) {
		return chunk{}, false
	}
	was, _ := acp.Get(a.data, "_meta")
	is, ok := acp.Get(b.data, "_meta")
	if !ok {
		return a, true
	}
	joined := acp.Set(a.data, "_meta", acp.Overlay(was, is))
	start, end, ok := acp.ChunkText(joined)
	return chunk{joined, start, end}, ok
}

// withoutMeta is obj without `_meta`, written so that it can be compared.
func withoutMeta(obj []byte) []byte { return acp.Overlay(acp.Delete(obj, "_meta"), nil) }

// grow adds text to a message. A message that would not fit by itself is
// shortened while it is said.
func (r *Replay) grow(e *entry, text []byte) {
	if e.left > 0 {
		e.left += len(text)
	} else {
		e.text = append(e.text, text...)
	}
	r.resize(e)
	if len(e.text) > r.budget {
		r.shorten(e)
	}
}

func (r *Replay) call(u []byte) {
	id := acp.ToolCallID(u)
	if id == "" {
		r.push(&entry{what: another, data: u})
		return
	}
	e := r.calls[id]
	if e == nil {
		e = &entry{what: aCall, data: acp.MergeToolCall(nil, u)}
		r.calls[id] = e
		r.push(e)
		return
	}
	if e.dropped {
		if acp.ToolCallFinal(u) {
			delete(r.calls, id)
		}
		return
	}
	for i, name := range bulky {
		if v, ok := acp.Get(u, name); ok && string(v) != "null" {
			e.leftOf[i] = 0 // what was taken out has been replaced
		}
	}
	e.data = acp.MergeToolCall(e.data, u)
	r.resize(e)
	r.fit()
}

func (r *Replay) plan(key string, u []byte) {
	r.unplan(key)
	e := &entry{what: aPlan, data: u}
	r.plans[key] = e
	r.push(e)
}

func (r *Replay) unplan(key string) {
	if e := r.plans[key]; e != nil {
		r.drop(e)
		delete(r.plans, key)
	}
}

func (r *Replay) last() *entry {
	for n := len(r.items); n > 0; n-- {
		if e := r.items[n-1]; !e.dropped {
			return e
		}
		r.items = r.items[:n-1]
	}
	return nil
}

func (r *Replay) push(e *entry) {
	// Here and where a tool call changes, never while a message grows: so the
	// result does not depend on how a log joined its chunks.
	r.fit()
	r.items = append(r.items, e)
	r.resize(e)
}

func (r *Replay) resize(e *entry) {
	size := len(e.data)
	if e.what == aText {
		size = len(e.chunk.data) + len(e.text)
	}
	if e.left > 0 || e.leftOut() > 0 {
		size += markerSize
	}
	r.total += size - e.size
	e.size = size
}

// leftOut is how many bytes of a tool call were taken out.
func (e *entry) leftOut() (n int) {
	for _, left := range e.leftOf {
		n += left
	}
	return n
}

func (r *Replay) drop(e *entry) {
	r.total -= e.size
	*e = entry{what: e.what, dropped: true}
}

// fit brings the replay below its budget. It goes a step lower, so that it
// does not begin again with the next entry.
func (r *Replay) fit() {
	if r.total <= r.budget {
		return
	}
	live := r.items[:0]
	for _, e := range r.items {
		if !e.dropped {
			live = append(live, e)
		}
	}
	clear(r.items[len(live):])
	r.items = live

	newest := len(r.items)
	for sum := 0; newest > 0; newest-- {
		if sum += r.items[newest-1].size; sum > r.budget/4 {
			break
		}
	}
	for _, until := range []int{newest, len(r.items)} {
		for _, stage := range []func(*entry){r.shortenCall, r.shortenMessage, r.leaveOut} {
			for _, e := range r.items[:until] {
				if r.total <= r.budget/8*7 {
					return
				}
				stage(e)
			}
		}
	}
}

func (r *Replay) shortenCall(e *entry) {
	if e.what == aCall {
		r.shorten(e)
	}
}

func (r *Replay) shortenMessage(e *entry) {
	if e.what == aText || e.what == aBlock {
		r.shorten(e)
	}
}

func (r *Replay) leaveOut(e *entry) {
	if e.dropped {
		return
	}
	r.droppedEntries++
	r.droppedBytes += e.size + e.left + e.leftOut()
	if e.what == aCall {
		// A call that is over is not heard of again; of another one later
		// updates must not look like a new call.
		if acp.ToolCallFinal(e.data) {
			delete(r.calls, acp.ToolCallID(e.data))
		}
	}
	r.drop(e)
}

func (r *Replay) shorten(e *entry) {
	switch e.what {
	case aText:
		if len(e.text) <= shortenAbove {
			return
		}
		n := acp.CutText(e.text, keepText)
		e.left = len(e.text) - n
		e.text = append([]byte(nil), e.text[:n]...)
	case aBlock:
		content, ok := acp.Get(e.data, "content")
		if !ok || len(content) <= shortenAbove {
			return
		}
		e.left = len(content)
		e.data = acp.Set(e.data, "content", acp.TextBlock(blockMarker(content, r.kept)))
	case aCall:
		for i, name := range bulky {
			if v, ok := acp.Get(e.data, name); ok && len(v) > shortenAbove {
				e.leftOf[i] += len(v)
				e.data = acp.Delete(e.data, name)
			}
		}
	}
	r.resize(e)
}

func blockMarker(content []byte, kept string) string {
	kind, _ := acp.GetString(content, "type")
	if mime, ok := acp.GetString(content, "mimeType"); ok && len(mime) < 100 {
		kind = mime
	}
	if uri, ok := acp.GetString(content, "uri"); ok && len(uri) < 500 {
		kind += " " + uri
	} else if resource, ok := acp.Get(content, "resource"); ok {
		if uri, ok := acp.GetString(resource, "uri"); ok && len(uri) < 500 {
			kind += " " + uri
		}
	}
	return fmt.Sprintf("[%s: %d bytes %s]", kind, len(content), kept)
}

// Finish gives the history as `update` objects, in order. The Replay is not
// used after it, except for OpenCalls.
func (r *Replay) Finish() [][]byte {
	r.fit()
	var updates [][]byte
	if r.droppedEntries > 0 {
		var hermes acp.Builder
		hermes.String("kind", "left_out").Int("entries", int64(r.droppedEntries)).Int("bytes", int64(r.droppedBytes))
		updates = append(updates, acp.AgentText("hermes_left_out", fmt.Sprintf(
			"[%d earlier entries, %d bytes, %s]", r.droppedEntries, r.droppedBytes, r.kept),
			acp.HermesMeta(hermes.JSON())))
	}
	for _, e := range r.items {
		if !e.dropped {
			updates = e.frames(updates, r.kept)
		}
	}
	for _, u := range [][]byte{r.commands, r.info, r.usage} {
		if u != nil {
			updates = append(updates, u)
		}
	}
	for i, u := range updates {
		updates[i] = Bounded(u, MaxUpdate)
	}
	return updates
}

// OpenCalls gives the tool calls of the replay that are not final, in the
// order they began, as complete `tool_call` updates.
func (r *Replay) OpenCalls() [][]byte {
	var calls [][]byte
	for _, e := range r.items {
		if e.what == aCall && !e.dropped && !acp.ToolCallFinal(e.data) {
			calls = e.frames(calls, r.kept)
		}
	}
	return calls
}

// frames appends the updates that show e.
func (e *entry) frames(updates [][]byte, kept string) [][]byte {
	switch e.what {
	case aText:
		head, tail := e.chunk.data[:e.chunk.start], e.chunk.data[e.chunk.end:]
		text := e.text
		if e.left > 0 {
			note := acp.String(fmt.Sprintf("\n\n[%d bytes of this message %s]", e.left, kept))
			text = append(text[:len(text):len(text)], note[1:len(note)-1]...)
		}
		for first := true; first || len(text) > 0; first = false {
			n := acp.CutText(text, MaxReplayText)
			u := make([]byte, 0, len(head)+n+len(tail))
			updates = append(updates, append(append(append(u, head...), text[:n]...), tail...))
			text = text[n:]
		}
		return updates
	case aCall:
		return append(updates, titled(e.shortened(withoutTerminals(e.data), kept)))
	}
	return append(updates, e.data)
}

// titled gives a call the title that v1 requires, if it has none.
func titled(call []byte) []byte {
	if _, ok := acp.GetString(call, "title"); ok {
		return call
	}
	title, ok := acp.GetString(call, "name")
	if !ok {
		title = "Tool call"
	}
	return acp.Set(call, "title", acp.String(title))
}

// shortened says in a call what was taken out of it.
func (e *entry) shortened(call []byte, kept string) []byte {
	left := e.leftOut()
	if left == 0 {
		return call
	}
	note := acp.TextContent(fmt.Sprintf("[%d bytes of this tool call %s]", left, kept))
	content, _ := acp.Get(call, "content")
	call = acp.Set(call, "content", addContent(content, note))
	var leftOut acp.Builder
	return addHermes(call, leftOut.Int("leftOut", int64(left)).JSON())
}

// addHermes adds members to `_meta.hermes` of an object.
func addHermes(obj, members []byte) []byte {
	meta, _ := acp.Get(obj, "_meta")
	hermes, _ := acp.Get(meta, "hermes")
	return acp.Set(obj, "_meta", acp.Set(meta, "hermes", acp.Overlay(hermes, members)))
}

// overlayMeta overlays an update on an earlier one, `_meta` by its keys.
func overlayMeta(was, is []byte) []byte {
	if was == nil {
		return is
	}
	all := acp.Overlay(was, is)
	a, okA := acp.Get(was, "_meta")
	b, okB := acp.Get(is, "_meta")
	if okA && okB {
		all = acp.Set(all, "_meta", acp.Overlay(a, b))
	}
	return all
}

// Bounded gives update itself if it has at most max bytes; else it is shortened
// as in a replay, and if that is not enough, only what it is remains of it.
func Bounded(update []byte, max int) []byte {
	if len(update) <= max {
		return update
	}
	r := Replay{budget: max, kept: keptInLog}
	e := entry{what: another, data: update}
	kind := acp.UpdateKind(update)
	switch {
	case acp.IsChunk(kind):
		e.what = aBlock
		if c, ok := chunkOf(KindUpdate, update); ok {
			e.what, e.chunk, e.text = aText, c, update[c.start:c.end]
		}
	case kind == acp.ToolCall || kind == acp.ToolCallUpdate:
		e.what = aCall
	}
	if e.what == aText {
		e.chunk = e.chunk.bare()
	}
	r.shorten(&e)
	var short []byte
	if e.what == aCall {
		short = e.shortened(e.data, r.kept)
	} else {
		short = e.frames(nil, r.kept)[0]
	}
	if len(short) <= max && e.what != another {
		return short
	}
	note := fmt.Sprintf("[an update of %d bytes is left out: it is larger than an editor takes; the session's log keeps it]", len(update))
	if e.what != aCall {
		return acp.AgentText("", note, nil)
	}
	var o acp.Builder
	o.String("sessionUpdate", kind).String("toolCallId", acp.ToolCallID(update))
	if kind == acp.ToolCall {
		o.String("title", "Tool call")
	}
	if status, ok := acp.GetString(update, "status"); ok && len(status) < 100 {
		o.String("status", status)
	}
	if short = o.Raw("content", acp.TextContent(note)).JSON(); len(short) <= max {
		return short
	}
	return acp.AgentText("", note, nil)
}
