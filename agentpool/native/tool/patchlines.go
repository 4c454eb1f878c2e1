package tool

import (
	"errors"
	"fmt"
	"strings"
)

// This file finds a piece of a file by its lines, when it does not stand there
// as a model wrote it: models lose spaces at line ends, count tabs as spaces
// and indent from where they begin.

// span is one line of a text, without its ending.
type span struct{ start, end, next int }

// spans cuts a text into lines. A last line without a newline is one too.
func spans(text string) []span {
	var all []span
	for at := 0; at < len(text); {
		end, next := len(text), len(text)
		if i := strings.IndexByte(text[at:], '\n'); i >= 0 {
			end, next = at+i, at+i+1
			if end > at && text[end-1] == '\r' {
				end--
			}
		}
		all = append(all, span{at, end, next})
		at = next
	}
	return all
}

// blanks are the ways to look at a line, strictest first.
var blanks = [...]struct {
	what string
	see  func(string) string
}{
	{"white space at the ends of lines", func(s string) string { return strings.TrimRight(s, " \t") }},
	{"indentation", strings.TrimSpace},
	{"white space", func(s string) string { return strings.Join(strings.Fields(s), " ") }},
}

// replaceLines replaces whole lines that are those of from but for white space.
// They must be found exactly once. The new lines are indented as the file is.
func replaceLines(text, from, to string) (replaced, error) {
	missing := errors.New("the old text does not occur in the file: read it again, every space counts")
	if strings.TrimSpace(from) == "" {
		return replaced{}, missing
	}
	lines := spans(text)
	var old []string
	for _, s := range spans(from) {
		old = append(old, from[s.start:s.end])
	}
	for i, b := range blanks {
		want := make([]string, len(old))
		for k, line := range old {
			want[k] = b.see(line)
		}
		var found []int
		seen := make([]string, len(lines))
		for k, s := range lines {
			seen[k] = b.see(text[s.start:s.end])
		}
		for k := 0; k+len(want) <= len(seen); k++ {
			same := true
			for j := range want {
				if seen[k+j] != want[j] {
					same = false
					break
				}
			}
			if same {
				found = append(found, k)
			}
		}
		switch {
		case len(found) == 0:
			continue
		case len(found) > 1:
			return replaced{}, fmt.Errorf("the old text does not occur in the file as it is written, and without regard to %s it occurs %d times: read the file again", b.what, len(found))
		}
		return putLines(text, lines[found[0]:found[0]+len(old)], old, to, i > 0, found[0]+1, b.what)
	}
	return replaced{}, missing
}

// putLines writes the lines of to in place of those at.
func putLines(text string, at []span, old []string, to string, indent bool, line int, what string) (replaced, error) {
	eol := "\n"
	for _, s := range at {
		if s.next-s.end == 2 {
			eol = "\r\n"
		}
	}
	var lines []string
	for _, s := range spans(to) {
		lines = append(lines, to[s.start:s.end])
	}
	if indent {
		have := make([]string, len(at))
		for i, s := range at {
			have[i] = text[s.start:s.end]
		}
		lines = reindent(lines, old, have)
	}
	first, last := at[0], at[len(at)-1]
	end := last.end
	if len(lines) == 0 {
		end = last.next
	}
	piece := strings.Join(lines, eol)
	r := replaced{text: text[:first.start] + piece + text[end:]}
	if r.text == text {
		return replaced{}, errors.New("the old text and the new one are the same but for white space")
	}
	r.note = fmt.Sprintf("the old text was found at line %d only without regard to %s. In its place stands now:\n%s", line, what, clip(piece, 2000))
	return r, nil
}

// reindent gives lines, which go with old, the indentation of have, which is
// what old looks like in the file.
func reindent(lines, old, have []string) []string {
	type pair struct {
		line      int
		old, have string
	}
	var pairs []pair
	for i := range old {
		if strings.TrimSpace(old[i]) != "" && strings.TrimSpace(have[i]) != "" {
			pairs = append(pairs, pair{i, indentOf(old[i]), indentOf(have[i])})
		}
	}
	out := make([]string, len(lines))
	for i, line := range lines {
		out[i] = line
		if strings.TrimSpace(line) == "" {
			continue
		}
		own := indentOf(line)
		// The deepest indentation of old that this line has too; of several such
		// the one that stands where this line does, or last before it.
		best := -1
		for k, p := range pairs {
			if !strings.HasPrefix(own, p.old) {
				continue
			}
			if best < 0 || len(p.old) > len(pairs[best].old) || len(p.old) == len(pairs[best].old) && p.line <= i {
				best = k
			}
		}
		switch {
		case best >= 0:
			out[i] = pairs[best].have + line[len(pairs[best].old):]
		case len(pairs) > 0 && strings.HasSuffix(pairs[0].have, pairs[0].old): // less than any of old
			out[i] = strings.TrimSuffix(pairs[0].have, pairs[0].old) + line
		}
	}
	return out
}

func indentOf(line string) string { return line[:len(line)-len(strings.TrimLeft(line, " \t"))] }
