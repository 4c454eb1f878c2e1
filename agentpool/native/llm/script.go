package llm

import (
	"encoding/json"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"
)

// Limits of the words of the offline model.
const (
	maxChunks      = 10_000_000
	maxChunk       = 1 << 20
	maxStreamBytes = 1 << 30
	maxSleep       = time.Hour
	maxAnswers     = 20 // lines that are no words of ours, answered one by one
)

// Words lists what the offline model understands, for sentences and help.
const Words = "say, think, read, search, write, edit, run, fetch, plan, propose, ask, call, stream, sleep and fail"

// step is one thing the offline model does.
type step struct {
	word string // one of Words; "" for a line that is none of them; "attached"
	text string // what is said, thought, run, fetched, asked, failed with; the line itself if word is ""
	why  string // of a line that begins with a word and is still none: what is wrong with it

	path     string
	from, to int // range of read, 0: open
	pattern  string
	old, new string        // edit; new is the content of write
	items    []string      // plan
	count    int           // stream
	size     int           // stream
	pause    time.Duration // sleep
	call     mcpCall       // call
	attached *Attachment   // attached
}

// calls tells whether the step is the call of a tool, and of which.
func (s step) calls() (tool string, ok bool) {
	switch s.word {
	case "read":
		return "read_file", true
	case "search":
		return "search_files", true
	case "write":
		return "write_file", true
	case "edit":
		return "patch", true
	case "run":
		return "terminal", true
	case "fetch":
		return "web_fetch", true
	case "plan":
		return "todo", true
	case "propose":
		return "exit_plan", true
	case "ask":
		return "clarify", true
	case "call":
		return "mcp_call", true
	}
	return "", false
}

// parse reads a prompt line by line. It never fails: a line it does not
// understand becomes a step with the word "".
func parse(text string) []step {
	lines := strings.Split(strings.ReplaceAll(text, "\r\n", "\n"), "\n")
	var steps []step
	for len(lines) > 0 {
		line := lines[0]
		lines = lines[1:]
		if strings.TrimSpace(line) == "" {
			continue
		}
		var s step
		s, lines = parseStep(line, lines)
		steps = append(steps, s)
	}
	return steps
}

// parseStep reads one step that begins with line and may go on in rest; it
// returns what is left.
func parseStep(line string, rest []string) (step, []string) {
	word, arg, _ := strings.Cut(strings.TrimLeft(line, " \t"), " ")
	arg = strings.TrimSpace(arg)
	odd := func(why string) (step, []string) {
		return step{text: strings.TrimSpace(line), why: why}, rest
	}
	s := step{word: word, text: arg}
	switch word {
	case "say", "think", "read", "search", "write", "edit", "run", "fetch", "plan", "propose", "ask", "call", "stream", "sleep", "fail":
		if arg == "" {
			return odd(word + " needs something after it")
		}
	default:
		return odd("")
	}
	switch word {
	case "read":
		s.path, s.from, s.to = cutRange(arg)
		if s.to != 0 && s.to < s.from {
			return odd("the range ends before it begins")
		}
	case "search":
		s.pattern, s.path = cutPattern(arg)
		if s.pattern == "" {
			return odd("there is nothing to search for")
		}
	case "write":
		s.path = arg
		var body []string
		body, rest = cutAt(rest, ".")
		if len(body) > 0 {
			s.new = strings.Join(body, "\n") + "\n"
		}
	case "edit":
		s.path = arg
		var old, body []string
		old, rest = cutAt(rest, "---")
		body, rest = cutAt(rest, ".")
		s.old, s.new = strings.Join(old, "\n"), strings.Join(body, "\n")
	case "plan":
		for item := range strings.SplitSeq(arg, ";") {
			if item = strings.TrimSpace(item); item != "" {
				s.items = append(s.items, item)
			}
		}
		if len(s.items) == 0 {
			return odd("a plan needs steps, separated by semicolons")
		}
	case "call":
		var why string
		if s.call, why = cutCall(arg); why != "" {
			return odd(why)
		}
	case "stream":
		fields := strings.Fields(arg)
		var err error
		s.size = 16
		if s.count, err = strconv.Atoi(fields[0]); err == nil && len(fields) == 2 {
			s.size, err = strconv.Atoi(fields[1])
		}
		switch {
		case err != nil || len(fields) > 2 || s.count < 1 || s.size < 1:
			return odd("stream takes a number of chunks and the bytes of one")
		case s.count > maxChunks || s.size > maxChunk || s.count*s.size > maxStreamBytes:
			return odd("stream goes up to 10000000 chunks, 1 MiB each, 1 GiB together")
		}
	case "sleep":
		d, err := time.ParseDuration(arg)
		if seconds, err2 := strconv.ParseUint(arg, 10, 32); err2 == nil {
			d, err = time.Duration(seconds)*time.Second, nil
		}
		switch {
		case err != nil || d < 0:
			return odd("sleep takes a duration, 500ms or 2s")
		case d > maxSleep:
			return odd("sleep goes up to 1h")
		}
		s.pause = d
	}
	return s, rest
}

// cutAt returns the lines before the first line that is stop, and those after
// it. Without such a line everything is before it.
func cutAt(lines []string, stop string) (before, after []string) {
	for i, line := range lines {
		if line == stop {
			return lines[:i], lines[i+1:]
		}
	}
	return lines, nil
}

// mcpCall is the call of a tool of an MCP server.
type mcpCall struct {
	server, tool string
	args         json.RawMessage
}

// cutCall splits "SERVER TOOL [JSON]".
func cutCall(arg string) (c mcpCall, why string) {
	var rest string
	c.server, rest, _ = strings.Cut(arg, " ")
	c.tool, rest, _ = strings.Cut(strings.TrimSpace(rest), " ")
	if c.tool == "" {
		return c, "call takes a server, a tool and its arguments as JSON"
	}
	c.args = json.RawMessage("{}")
	if rest = strings.TrimSpace(rest); rest != "" {
		if !json.Valid([]byte(rest)) {
			return c, "the arguments are no JSON"
		}
		c.args = json.RawMessage(rest)
	}
	return c, ""
}

// cutRange splits "PATH A-B"; A- is open to the end.
func cutRange(arg string) (path string, from, to int) {
	i := strings.LastIndexByte(arg, ' ')
	if i < 0 {
		return arg, 0, 0
	}
	a, b, ok := strings.Cut(arg[i+1:], "-")
	if !ok {
		return arg, 0, 0
	}
	first, err := strconv.ParseUint(a, 10, 31)
	if err != nil {
		return arg, 0, 0
	}
	var last uint64
	if b != "" {
		if last, err = strconv.ParseUint(b, 10, 31); err != nil || last == 0 {
			return arg, 0, 0
		}
	}
	return strings.TrimSpace(arg[:i]), max(1, int(first)), int(last)
}

// cutPattern splits "PATTERN PATH"; a pattern with spaces stands in quotes.
func cutPattern(arg string) (pattern, path string) {
	if q := arg[0]; q == '"' || q == '\'' || q == '`' {
		if i := strings.IndexByte(arg[1:], q); i >= 0 {
			return arg[1 : 1+i], strings.TrimSpace(arg[i+2:])
		}
	}
	pattern, path, _ = strings.Cut(arg, " ")
	return pattern, strings.TrimSpace(path)
}

// steps reads everything of a user's message.
func steps(m Message) []step {
	var all []step
	odd := 0
	for _, p := range m.Parts {
		if p.Attachment != nil {
			all = append(all, step{word: "attached", attached: p.Attachment})
			continue
		}
		for _, s := range parse(p.Text) {
			if s.word == "" {
				if odd++; odd > maxAnswers {
					continue
				}
			}
			all = append(all, s)
		}
	}
	if odd > maxAnswers {
		all = append(all, step{word: "say", text: "And " + strconv.Itoa(odd-maxAnswers) + " more lines that are none of my words."})
	}
	return all
}

// quote shows at most n runes of s on one line, in quotation marks.
func quote(s string, n int) string {
	s = strings.Join(strings.Fields(strings.ToValidUTF8(s, "\uFFFD")), " ")
	if utf8.RuneCountInString(s) > n {
		s = string([]rune(s)[:n]) + "…"
	}
	return "“" + s + "”"
}
