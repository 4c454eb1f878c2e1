package llm

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"
)

// Offline is no language model. It reads a prompt line by line and does what
// the lines say, so that everything around a model runs for real without
// network or key:
//
//	say TEXT            stream TEXT, word by word
//	think TEXT          stream a thought
//	read PATH [A-B]     call read_file
//	search PATTERN [PATH]  call search_files; a PATTERN with spaces stands in quotes
//	write PATH          call write_file; the lines up to a lone "." are the content
//	edit PATH           call patch; lines to "---" are the old text, lines to a lone "." the new
//	run COMMAND         call terminal
//	fetch URL           call web_fetch
//	plan A; B; C        call todo
//	propose TEXT        call exit_plan
//	ask QUESTION        call clarify
//	call SERVER TOOL [JSON]  call mcp_call
//	stream N [BYTES]    N message chunks of BYTES bytes
//	sleep DURATION      wait, cancellable
//	fail TEXT           the model call fails with TEXT
//
// Any other line is answered with one sentence that quotes it. After the
// result of a tool comes one sentence that sums it up. The first answer of a
// conversation begins with a message of its own that says what this is.
//
// It keeps no state: how far a prompt has got is seen from the calls that
// stand in the conversation after it.
type Offline struct{}

const offlineNotice = "I am the offline model: no language model, only a few words (" + Words + "; /help says how they are written).\n\n"

// Info implements Model.
func (Offline) Info() Info { return Info{Provider: "offline", Name: "offline", Window: 200_000} }

// Stream implements Model.
func (Offline) Stream(ctx context.Context, req Request, yield func(Event) error) (Stop, error) {
	// From the end: a long conversation is looked at no longer than a short one.
	prompt := len(req.Messages) - 1
	for prompt >= 0 && req.Messages[prompt].Role != RoleUser {
		prompt--
	}
	if prompt < 0 {
		return StopEnd, nil
	}
	fresh := !slices.ContainsFunc(req.Messages, func(m Message) bool { return m.Role == RoleAssistant }) // nothing was answered yet
	done := 0                                                                                            // calls already made for this prompt
	for _, m := range req.Messages[prompt+1:] {
		for _, p := range m.Parts {
			if p.Call != nil {
				done++
			}
		}
	}

	s := speaker{ctx: ctx, yield: yield}
	if strings.HasPrefix(textOf(req.Messages[prompt]), SummaryInstruction) {
		s.say(outline(req.Messages[:prompt]))
		return StopEnd, s.err
	}
	if fresh {
		s.emit(Event{Kind: EventText, Text: offlineNotice})
		s.emit(Event{Kind: EventBreak})
	}
	for _, p := range req.Messages[len(req.Messages)-1].Parts {
		if p.Result != nil {
			s.say(sumUp(*p.Result))
		}
	}
	for _, st := range steps(req.Messages[prompt]) {
		tool, isCall := st.calls()
		if isCall && !slices.ContainsFunc(req.Tools, func(t ToolSpec) bool { return t.Name == tool }) {
			// Also skipped on the way to where we stopped: it made no call.
			if done == 0 {
				s.say(fmt.Sprintf("I cannot %s %s: there is no tool %s here yet.", st.word, quote(st.text, 120), tool))
			}
			continue
		}
		switch {
		case done > 0:
			if isCall {
				done--
			}
		case isCall:
			s.emit(Event{Kind: EventCall, Call: &ToolCall{Name: tool, Args: st.args()}})
			return StopTools, s.err
		default:
			s.do(st)
		}
		if s.err != nil {
			return StopEnd, s.err
		}
	}
	return StopEnd, s.err
}

// args are the arguments of the tool the step calls.
func (s step) args() json.RawMessage {
	args := map[string]any{}
	switch s.word {
	case "read":
		args["path"] = s.path
		if s.from > 0 {
			args["start"] = s.from
		}
		if s.to > 0 {
			args["end"] = s.to
		}
	case "search":
		args["pattern"] = s.pattern
		if s.path != "" {
			args["path"] = s.path
		}
	case "write":
		args["path"], args["content"] = s.path, s.new
	case "edit":
		args["path"], args["old"], args["new"] = s.path, s.old, s.new
	case "run":
		args["command"] = s.text
	case "fetch":
		args["url"] = s.text
	case "propose":
		args["plan"] = s.text
	case "ask":
		args["question"] = s.text
	case "call":
		args["server"], args["tool"], args["arguments"] = s.call.server, s.call.tool, s.call.args
	case "plan":
		items := make([]map[string]string, len(s.items))
		for i, item := range s.items {
			items[i] = map[string]string{"content": item, "status": "pending"}
		}
		args["items"] = items
	}
	data, err := json.Marshal(args)
	if err != nil {
		panic(err) // strings and numbers only
	}
	return data
}

// speaker streams text and remembers the first error.
type speaker struct {
	ctx   context.Context
	yield func(Event) error
	err   error
	open  bool // the message a reader sees has text
}

func (s *speaker) emit(e Event) {
	if s.err == nil {
		s.err = s.ctx.Err()
	}
	if s.err == nil {
		s.err = s.yield(e)
	}
	s.open = e.Kind == EventText
}

// say streams text word by word as a paragraph of its own.
func (s *speaker) say(text string) {
	if s.open {
		text = "\n\n" + text
	}
	s.words(EventText, text)
}

// words streams text in pieces that begin at a word; together they are text.
func (s *speaker) words(kind EventKind, text string) {
	for text != "" && s.err == nil {
		n := len(text)
		if i := strings.IndexFunc(text, func(r rune) bool { return r != ' ' && r != '\n' }); i >= 0 {
			if j := strings.IndexByte(text[i:], ' '); j >= 0 {
				n = i + j
			}
		}
		s.emit(Event{Kind: kind, Text: text[:n]})
		text = text[n:]
	}
}

// do takes a step that calls no tool.
func (s *speaker) do(st step) {
	switch st.word {
	case "say":
		s.say(st.text)
	case "think":
		s.words(EventThought, st.text)
	case "stream":
		s.emit(Event{Kind: EventBreak})
		s.stream(st.count, st.size)
		s.emit(Event{Kind: EventBreak})
	case "sleep":
		timer := time.NewTimer(st.pause)
		defer timer.Stop()
		select {
		case <-timer.C:
		case <-s.ctx.Done():
			s.err = s.ctx.Err()
		}
	case "fail":
		s.err = &Error{Provider: "offline", Message: st.text, Advice: "The prompt asked for this failure; send another one."}
	case "attached":
		s.say(describe(*st.attached))
	default:
		text := "I do not understand " + quote(st.text, 120)
		if st.why != "" {
			text += " (" + st.why + ")"
		}
		s.say(text + ": without a language model I know only " + Words + ".")
	}
}

// stream sends count chunks of size bytes. Chunk k, from 1, is the number k
// filled up with dots to size-1 bytes, and a space; a chunk too short for that
// is the last digits of k. The chunks are slices of a block that is allocated
// once for many of them.
func (s *speaker) stream(count, size int) {
	perBlock := max(1, min(1024, (64<<10)/size))
	block := make([]byte, 0, perBlock*size)
	for k := 1; k <= count && s.err == nil; {
		block = block[:0]
		first := k
		for ; k <= count && k-first < perBlock; k++ {
			block = appendChunk(block, k, size)
		}
		text := string(block)
		for ; text != "" && s.err == nil; text = text[size:] {
			s.emit(Event{Kind: EventText, Text: text[:size]})
		}
	}
}

func appendChunk(b []byte, k, size int) []byte {
	var buf [20]byte
	digits := strconv.AppendInt(buf[:0], int64(k), 10)
	if len(digits) >= size {
		return append(b, digits[len(digits)-size:]...)
	}
	b = append(b, digits...)
	for range size - len(digits) - 1 {
		b = append(b, '.')
	}
	return append(b, ' ')
}

// describe names an attachment in a sentence. Nothing is fetched.
func describe(a Attachment) string {
	name := a.Name
	if name == "" {
		name = a.URI
	}
	bytes := base64.StdEncoding.DecodedLen(len(a.Data)) - strings.Count(a.Data, "=")
	switch {
	case a.Kind == "image":
		text := fmt.Sprintf("You sent a picture of %d bytes (%s)", bytes, a.MimeType)
		if name != "" {
			text += ", " + quote(name, 200)
		}
		return text + "; I cannot see it."
	case a.Kind == "link":
		text := "You point at " + quote(name, 200)
		if a.URI != name {
			text += " (" + a.URI + ")"
		}
		return text + "; I open it only when you say `read PATH`."
	case a.Data != "":
		return fmt.Sprintf("You sent %s, %d bytes (%s) that are no text.", quote(name, 200), bytes, a.MimeType)
	}
	return fmt.Sprintf("You sent %s, %d bytes of text: %s.", quote(name, 200), len(a.Text), quote(a.Text, 200))
}

// sumUp says in one sentence what came of a call, as a model would.
func sumUp(r ToolResult) string {
	text := strings.TrimSpace(r.Text)
	first, _, more := strings.Cut(text, "\n")
	switch {
	case r.Failed:
		return fmt.Sprintf("%s did not work: %s", r.Name, quote(text, 300))
	case text == "":
		return r.Name + " is done."
	case !more:
		return fmt.Sprintf("%s is done: %s", r.Name, quote(first, 200))
	}
	lines := strings.Count(text, "\n") + 1
	last := text[strings.LastIndexByte(text, '\n')+1:]
	return fmt.Sprintf("%s is done: %d lines, from %s to %s", r.Name, lines, quote(first, 80), quote(last, 80))
}

// textOf is the text of a message.
func textOf(m Message) string {
	var b strings.Builder
	for _, p := range m.Parts {
		b.WriteString(p.Text)
	}
	return b.String()
}

// outline is as much of a summary as can be had without understanding: what the
// user asked for, in order, and how many calls were made for it.
func outline(past []Message) string {
	const most, width = 40, 120
	var lines []string
	calls := 0
	for _, m := range past {
		for _, p := range m.Parts {
			if p.Call != nil {
				calls++
			}
		}
		if m.Role == RoleUser {
			lines = append(lines, "- "+quote(textOf(m), width))
		}
	}
	if n := len(lines) - most; n > 0 {
		lines = append([]string{fmt.Sprintf("- (%d more before these)", n)}, lines[n:]...)
	}
	return fmt.Sprintf("The user said so far:\n%s\n\nCalls of tools made: %d.", strings.Join(lines, "\n"), calls)
}
