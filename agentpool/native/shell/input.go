package shell

import (
	"strings"

	"mvdan.cc/sh/v3/syntax"
)

// maxInput is how much of what was written to a shell is looked through.
const maxInput = 256 << 10

// Input is what was written to a shell that reads commands, so that what is
// written next is judged with it: a line may come in pieces, a command over
// several lines, and what a word means is decided before. The zero value is of a
// shell that has just been started.
type Input struct {
	done string // whole commands
	open string // the beginning of one
	much bool   // there was more than is looked through
}

// Open tells whether the last line is without its end, if text is added.
func (in Input) Open(text string) bool {
	text = in.open + text
	return text != "" && !strings.HasSuffix(text, "\n")
}

// Read judges what is written next: what it does together with what is open, where
// what was written before leads.
func (in Input) Read(text string, w World) *Report {
	x := newReader(w)
	x.text(in.done)
	before := x.r
	x.r, x.parts = &Report{}, nil
	*x.steps = 0
	x.unclear(before.Unclear) // of what follows it as well
	if in.much {
		x.unclear("more was written to it than is looked through")
	}
	x.text(in.open + text)
	if strings.Contains(in.open, "\n") {
		// What is open may never be closed, or have been no command at all.
		y := x.within()
		y.text(text)
		y.r.Unclear = ""
		x.take(y.r)
	}
	x.mixed()
	return x.report()
}

// Text is what was written, as far as it is looked through.
func (in Input) Text() string { return in.done + in.open }

// Add is the input with a text that was written.
func (in Input) Add(text string) Input {
	in.open += text
	if len(in.done)+len(in.open) > maxInput {
		return Input{open: in.open[len(in.open)-min(len(in.open), maxInput/4):], much: true}
	}
	if end := strings.LastIndexByte(in.open, '\n') + 1; finished(in.open[:end]) {
		in.done, in.open = in.done+in.open[:end], in.open[end:]
	}
	return in
}

// finished tells whether a shell that has read these lines waits for no more.
func finished(lines string) bool {
	l := strings.TrimSuffix(lines, "\n")
	if (len(l)-len(strings.TrimRight(l, `\`)))%2 == 1 {
		return false
	}
	for _, as := range []syntax.LangVariant{syntax.LangBash, syntax.LangPOSIX} {
		if _, err := parse(lines, as); err != nil && syntax.IsIncomplete(err) {
			return false
		}
	}
	return true
}
