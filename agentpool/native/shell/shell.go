// Package shell answers: what would a command line do, as far as that can be
// told without running it?
//
// It reads the line as a shell does, with quotes, expansions, functions and
// here-documents, follows variables whose values it can know, looks into what
// is handed on (sudo, sh -c, xargs, find -exec, pipes into a shell, scripts of
// interpreters), and says four things of it: whether it is on the short list of
// what is never run, whether it cannot be told what runs, what it plainly
// writes, and whether it is nothing but simple commands that can be compared with
// what was allowed before, or that only read.
//
// It is a floor against accidents and against a model that was talked into
// something, not a wall: a program that is allowed to run may do anything. So it
// errs to one side: what it does not know is said to be unclear.
//
// Package mvdan.cc/sh/v3 parses: the complete grammar of bash, POSIX sh and mksh,
// fuzzed, maintained, and used by shfmt and others on every day's scripts; a
// grammar of our own would be wrong where it matters.
//
// # Concurrency
//
// Everything here is a function of its arguments. Nothing is started, read or
// changed but what World is asked for.
package shell

import (
	"path"
	"slices"
	"strings"
)

// World is what a command would find.
type World struct {
	Cwd  string // absolute, where it runs
	Home string // absolute; "" if there is none
	// Getenv gives the environment the command gets; nil: nothing is known of it.
	Getenv func(name string) (string, bool)
	// Bash says that sh is bash. Else it may be any shell: what shells read
	// differently is read in both ways, or is unclear.
	Bash bool
	// Real resolves the links of an absolute path as far as it exists; nil: none.
	Real func(path string) string
}

// Report is what there is to say of a command line.
type Report struct {
	// Forbidden is why it is never run, "" if it may be.
	Forbidden string
	// Unclear is why it cannot be told which commands run, so that Forbidden says
	// nothing; "" if it can.
	Unclear string
	// Opaque is why it cannot be told which files it changes, beyond Writes; ""
	// if nothing speaks for more.
	Opaque string
	// Risky is what is dangerous about it, "" if nothing is known to be.
	Risky string
	// Writes are the files it names and plainly changes: absolute, or relative
	// to a folder that is not known, with Unknown in place of what is not known.
	Writes []string
	// Touches are files that it names otherwise in words, also behind options, of
	// commands that are not known to only read. Not all of them are files.
	Touches []string
	// Copies are what it copies, moves or links and what that is called then, in the
	// form of Writes; a folder has all that is in it with it.
	Copies [][2]string
	// Words are all the words of it that name something, expanded, absolute where
	// they can be read as paths.
	Words []string
	// Parts are the words of its simple commands, if it is nothing but simple
	// commands of known words in a row or a pipe; else nil. A pattern in a word
	// is marked, so that it is not the same as that text in quotes.
	Parts [][]string
	// Prefix is the beginning of its only part for which all commands that begin
	// so are much the same, as "go test"; nil if there is none.
	Prefix []string
	// Shell says that a shell of it reads commands from its input.
	Shell bool
	// Reading says that it only reads, and only the files of Reads; the programs
	// it runs for that are Programs.
	Reading  bool
	Reads    []string // absolute
	Programs []string
}

// Unknown stands in a text for a piece that is not known.
const Unknown = "\x00"

const (
	unknown = "\x00" // a piece that is not known
	gap     = "\x01" // where a word is split
	star    = "\x02" // an unquoted *, or anything else that matches several names
	quest   = "\x03" // an unquoted ?
	bracket = "\x04" // an unquoted [
	empty   = "\x05" // an empty text in quotes, which makes a word
	marks   = unknown + gap + star + quest + bracket + empty

	maxSteps = 60_000 // of reading one command line
	maxDepth = 8      // sh -c 'sh -c "…"'
	maxKinds = 32     // values that one word may have
	maxDirs  = 16     // folders a relative path may be meant from
)

// Read reads a command line for a POSIX shell or bash.
func Read(line string, w World) *Report {
	x := newReader(w)
	x.text(line)
	return x.report()
}

// reader reads one command line, and those in it.
type reader struct {
	w    World
	r    *Report
	vars map[string][]string // candidates for the value; absent: as in the environment
	dirs []string            // where relative paths may be meant from
	lost bool                // they may be meant from elsewhere too
	// worked are the folders if the last statement succeeded; nil: those of dirs.
	worked []string
	cond   int // above 0: what is read may run or not, or not at once
	depth  int
	bash   bool // bash runs it
	steps  *int
	plain  bool // Parts is still what all of it is
	parts  []part
	names  map[string]bool // functions of the line
}

// part is one simple command of a plain line.
type part struct {
	words []string
	dir   string // where it runs, "" if that is not sure
	globs bool   // its words contain patterns, or a tilde
}

func newReader(w World) *reader {
	return &reader{w: w, bash: w.Bash, r: &Report{}, vars: map[string][]string{}, dirs: []string{w.Cwd}, steps: new(int), plain: true, names: map[string]bool{}}
}

// within is a reader of a text in the text that x reads.
func (x *reader) within() *reader {
	y := newReader(x.w)
	y.steps, y.depth, y.bash = x.steps, x.depth+1, x.bash
	for k, v := range x.vars {
		y.vars[k] = slices.Clone(v)
	}
	y.dirs, y.lost = slices.Clone(x.dirs), x.lost
	y.names, y.cond = x.names, 1
	return y
}

// nested reads a text that is run as a command line.
func (x *reader) nested(line string) {
	x.mixed()
	y := x.within()
	y.text(line)
	x.take(y.r)
}

// maybe reads a text that may be run as a command line, or may not be one at
// all: only what is never run is taken from it.
func (x *reader) maybe(line string) {
	y := x.within()
	y.text(line)
	x.forbid(y.r.Forbidden)
}

func (x *reader) take(r *Report) {
	x.forbid(r.Forbidden)
	x.unclear(r.Unclear)
	x.opaque(r.Opaque)
	x.risky(r.Risky)
	x.r.Shell = x.r.Shell || r.Shell
	x.r.Writes = append(x.r.Writes, r.Writes...)
	x.r.Touches = append(x.r.Touches, r.Touches...)
	x.r.Copies = append(x.r.Copies, r.Copies...)
	x.r.Words = append(x.r.Words, r.Words...)
}

func first(to *string, why string) {
	if *to == "" {
		*to = why
	}
}

func (x *reader) forbid(why string)  { first(&x.r.Forbidden, why) }
func (x *reader) opaque(why string)  { first(&x.r.Opaque, why) }
func (x *reader) risky(why string)   { first(&x.r.Risky, why) }
func (x *reader) unclear(why string) { first(&x.r.Unclear, why) }

// mixed says that the line is more than simple commands.
func (x *reader) mixed() { x.plain = false }

// step counts, and tells whether there is room for more.
func (x *reader) step() bool {
	if *x.steps++; *x.steps > maxSteps {
		x.unclear("it is too long to be read through")
		return false
	}
	return true
}

func (x *reader) report() *Report {
	r := x.r
	x.step() // it may be a text in the text that was too long
	slices.Sort(r.Writes)
	r.Writes = slices.Compact(r.Writes)
	slices.Sort(r.Touches)
	r.Touches = slices.Compact(r.Touches)
	slices.Sort(r.Words)
	r.Words = slices.Compact(r.Words)
	if r.Unclear != "" {
		first(&r.Opaque, r.Unclear)
	}
	if !x.plain || r.Unclear != "" || r.Forbidden != "" || len(x.parts) == 0 {
		return r
	}
	for _, p := range x.parts {
		r.Parts = append(r.Parts, p.words)
	}
	if len(r.Parts) == 1 && r.Risky == "" {
		r.Prefix = PrefixOf(r.Parts[0])
	}
	r.Reading = r.Risky == "" && r.Opaque == "" && len(r.Writes) == 0
	for _, p := range x.parts {
		reads, ok := p.reading()
		if !ok {
			r.Reading, r.Reads, r.Programs = false, nil, nil
			break
		}
		r.Reads = append(r.Reads, reads...)
		if !builtin[p.words[0]] {
			r.Programs = append(r.Programs, p.words[0])
		}
	}
	if len(r.Reads) == 0 {
		r.Reading = false // it says something, and reads nothing
	}
	if !r.Reading {
		r.Reads, r.Programs = nil, nil
	}
	return r
}

// at returns all that a path may mean: absolute, or beginning with Unknown.
func (x *reader) at(name string) []string {
	name = literal(name)
	if path.IsAbs(name) || windowsPath(name) {
		return []string{path.Clean(name)}
	}
	if strings.HasPrefix(name, unknown) {
		return []string{name}
	}
	var all []string
	for _, d := range x.dirs {
		all = append(all, path.Join(d, name))
	}
	if x.lost {
		all = append(all, unknown+"/"+path.Clean(name))
	}
	return all
}

// windowsPath recognises C:\x and C:/x.
func windowsPath(s string) bool {
	return len(s) >= 3 && s[1] == ':' && (s[2] == '\\' || s[2] == '/') && (s[0]|32 >= 'a' && s[0]|32 <= 'z')
}

// writes notes files that are changed.
func (x *reader) writes(names ...string) {
	for _, n := range names {
		if n == "" || n == "-" || n == "/dev/null" || n == "/dev/stdout" || n == "/dev/stderr" || n == "/dev/tty" {
			continue
		}
		if strings.Contains(n, unknown) || hasPattern(n) {
			x.opaque("it writes to files whose names are not known")
		}
		x.r.Writes = append(x.r.Writes, x.at(n)...)
	}
}

// literal is a word with the marks of patterns turned back into the characters
// they stand for.
func literal(s string) string {
	if !strings.ContainsAny(s, marks) {
		return s
	}
	return strings.NewReplacer(star, "*", quest, "?", bracket, "[", gap, " ", empty, "").Replace(s)
}

func hasPattern(s string) bool { return strings.ContainsAny(s, star+quest+bracket) }
