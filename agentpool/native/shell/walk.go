package shell

import (
	"path"
	"reflect"
	"slices"
	"strings"
	"unicode"

	"mvdan.cc/sh/v3/syntax"
)

// This file goes through the statements of a line in the order in which they
// run, and hands every simple command, with its words expanded, to command.

// feed is what a command reads from its standard input.
type feed struct {
	texts []string // what it may be; nil: not known
}

// text reads one line: what is run by sh -c.
func (x *reader) text(line string) {
	if x.depth > maxDepth {
		x.unclear("it runs shells in shells in shells")
		x.forbid(scanText(line))
		return
	}
	if *x.steps += len(line) / 8; !x.step() {
		x.forbid(scanText(line[:min(len(line), 64<<10)]))
		return
	}
	if strings.ContainsAny(line, marks) {
		x.unclear("it contains pieces that are not known, or control characters")
		line = strings.NewReplacer(unknown, "", gap, " ", star, "*", quest, "?", bracket, "[", empty, "").Replace(line)
	}
	if strings.Contains(line, "\r") {
		// The parser takes CRLF for a newline, also behind a backslash; a shell does not.
		x.unclear("it contains carriage returns")
		x.forbid(scanText(line))
		line = strings.ReplaceAll(line, "\r", "_")
	}
	if strings.ContainsFunc(line, unseen) {
		x.risky("it contains characters that cannot be seen or look like others")
	}
	// What stands before a mistake has run when a shell gets to it.
	stmts, err := parse(line, syntax.LangBash)
	if err != nil {
		x.unclear("it cannot be parsed")
		x.forbid(scanText(line))
	}
	if !x.bash {
		x.posix(line, stmts)
	}
	x.list(stmts)
}

// posix reads a line as a shell that is not bash does, where that is something
// else.
func (x *reader) posix(line string, asBash []*syntax.Stmt) {
	stmts, err := parse(line, syntax.LangPOSIX)
	if err != nil {
		x.unclear("it is written for bash, and sh may not be that")
	}
	for _, s := range asBash {
		syntax.Walk(s, func(n syntax.Node) bool {
			switch n := n.(type) {
			case *syntax.ArithmCmd, *syntax.TestClause, *syntax.LetClause:
				x.unclear("it has a condition or sum of bash, which other shells take for commands and files")
			case *syntax.ArithmExp:
				if n.Bracket {
					x.unclear("it has a sum of bash, which other shells take for words and files")
				}
			}
			return true
		})
	}
	if slices.Equal(shape(stmts), shape(asBash)) {
		return
	}
	x.mixed()
	y := x.within()
	y.depth--
	y.list(stmts)
	x.take(y.r)
}

// nodeAt is a node of a tree of statements, by its kind and place.
type nodeAt struct {
	kind     reflect.Type
	from, to uint
}

// shape is what there is of statements, and where.
func shape(stmts []*syntax.Stmt) (all []nodeAt) {
	for _, s := range stmts {
		syntax.Walk(s, func(n syntax.Node) bool {
			if n != nil {
				all = append(all, nodeAt{reflect.TypeOf(n), n.Pos().Offset(), n.End().Offset()})
			}
			return true
		})
	}
	return all
}

// list reads the statements of a line.
func (x *reader) list(stmts []*syntax.Stmt) {
	if forkBomb(stmts) {
		x.forbid("it is a fork bomb")
	}
	x.declare(stmts)
	x.stmts(stmts)
}

// unseen are characters that a reader of the line would not notice: of no width,
// turning the direction, or blanks that do not separate words.
func unseen(r rune) bool {
	return r > 127 && (unicode.Is(unicode.Cf, r) || unicode.Is(unicode.Zs, r) || unicode.Is(unicode.Bidi_Control, r)) || r == '\r' || r == 0x7f || r < ' ' && r != '\n' && r != '\t'
}

// parse returns the statements of a line, with an error those before it.
func parse(line string, as syntax.LangVariant) (stmts []*syntax.Stmt, err error) {
	p := syntax.NewParser(syntax.Variant(as))
	// Not left early: the parser yields once more after some of its errors.
	for s, serr := range p.StmtsSeq(strings.NewReader(line)) {
		switch {
		case err != nil:
		case serr != nil:
			err = serr
		default:
			stmts = append(stmts, s)
		}
	}
	return stmts, err
}

// declare learns the names of functions, which may be used before.
func (x *reader) declare(stmts []*syntax.Stmt) {
	for _, s := range stmts {
		syntax.Walk(s, func(n syntax.Node) bool {
			if f, ok := n.(*syntax.FuncDecl); ok && f.Name != nil {
				x.names[f.Name.Value] = true
			}
			return true
		})
	}
}

func (x *reader) stmts(list []*syntax.Stmt) {
	for _, s := range list {
		x.stmt(s, nil)
	}
}

// apart reads statements that run in a shell of their own.
func (x *reader) apart(list []*syntax.Stmt) {
	x.mixed()
	x.aside(func() { x.stmts(list) })
}

// aside reads something that cannot change where the rest runs.
func (x *reader) aside(do func()) {
	dirs, lost := slices.Clone(x.dirs), x.lost
	x.maybeRuns(do)
	x.dirs, x.lost = dirs, lost
}

// maybeRuns reads something that may run or not.
func (x *reader) maybeRuns(do func()) {
	x.cond++
	do()
	x.cond--
}

func (x *reader) stmt(s *syntax.Stmt, in *feed) {
	if s == nil || !x.step() {
		return
	}
	if s.Negated || s.Background || s.Coprocess || s.Disown {
		x.mixed()
	}
	for _, r := range s.Redirs {
		if f := x.redirect(r); f != nil {
			in = f
		}
	}
	run := func() {
		x.worked = nil
		x.cmd(s.Cmd, in)
		if x.worked == nil {
			x.worked = x.dirs
		}
	}
	if s.Background || s.Coprocess || s.Disown {
		x.aside(run)
		return
	}
	run()
}

func (x *reader) cmd(c syntax.Command, in *feed) {
	switch c := c.(type) {
	case nil:
		x.mixed() // a redirection alone, which makes a file
	case *syntax.CallExpr:
		x.call(c, in)
	case *syntax.BinaryCmd:
		x.binary(c, in)
	case *syntax.Block:
		x.mixed()
		for _, s := range c.Stmts {
			x.stmt(s, in)
		}
	case *syntax.Subshell:
		x.mixed()
		dirs, lost := slices.Clone(x.dirs), x.lost
		for _, s := range c.Stmts {
			x.stmt(s, in)
		}
		x.dirs, x.lost = dirs, lost
	case *syntax.IfClause:
		x.mixed()
		for i := c; i != nil; i = i.Else {
			x.stmts(i.Cond)
			x.maybeRuns(func() { x.stmts(i.Then) })
		}
	case *syntax.WhileClause:
		x.mixed()
		x.maybeRuns(func() {
			for range 2 {
				x.stmts(c.Cond)
				for _, s := range c.Do {
					x.stmt(s, in)
				}
			}
		})
	case *syntax.ForClause:
		x.mixed()
		x.maybeRuns(func() { x.loop(c) })
	case *syntax.CaseClause:
		x.mixed()
		x.value(c.Word, whole)
		x.maybeRuns(func() {
			for _, item := range c.Items {
				for _, p := range item.Patterns {
					x.value(p, whole)
				}
				x.stmts(item.Stmts)
			}
		})
	case *syntax.FuncDecl:
		x.mixed()
		// It runs when it is called, wherever that is; that it is once read here
		// and once where it may be called is more than enough.
		x.aside(func() { x.stmt(c.Body, &feed{}) })
	case *syntax.DeclClause:
		x.mixed()
		for _, a := range c.Args {
			if a.Name != nil && !a.Naked {
				x.variable(a)
				continue
			}
			for _, v := range x.value(a.Value, whole) {
				if strings.Contains(v, unknown) {
					x.unclear("a variable gets a name that is not known")
				}
				if name, value, ok := strings.Cut(v, "="); ok {
					x.assign(name, []string{value})
				}
			}
		}
	case *syntax.TimeClause:
		x.mixed()
		x.stmt(c.Stmt, in)
	case *syntax.CoprocClause:
		x.mixed()
		x.aside(func() { x.stmt(c.Stmt, &feed{}) })
	case *syntax.ArithmCmd, *syntax.LetClause, *syntax.TestClause:
		x.mixed()
		x.arithmetic(c)
	default:
		x.mixed()
		x.unclear("it has a statement of an unknown kind")
	}
	switch c.(type) {
	case *syntax.CallExpr, *syntax.BinaryCmd:
	default:
		x.worked = nil // where it works is not followed
	}
}

func (x *reader) loop(c *syntax.ForClause) {
	switch l := c.Loop.(type) {
	case *syntax.WordIter:
		values := []string{unknown}
		if l.InPos.IsValid() {
			values = nil
			for _, f := range x.fields(l.Items) {
				values = append(values, f...)
			}
		}
		if len(values) > maxKinds || c.Select || len(values) == 0 {
			values = []string{unknown}
		}
		x.vars[l.Name.Value] = values
	case *syntax.CStyleLoop:
		for _, e := range []syntax.ArithmExpr{l.Init, l.Cond, l.Post} {
			if e != nil {
				x.arithmetic(e)
			}
		}
	}
	for range 2 {
		x.stmts(c.Do)
	}
}

// arithmetic looks for commands and assignments in an expression.
func (x *reader) arithmetic(n syntax.Node) {
	syntax.Walk(n, func(n syntax.Node) bool {
		switch n := n.(type) {
		case *syntax.CmdSubst:
			x.apart(n.Stmts)
			return false
		case *syntax.ProcSubst:
			x.apart(n.Stmts)
			return false
		case *syntax.BinaryArithm:
			if w, ok := n.X.(*syntax.Word); ok && syntax.ValidName(w.Lit()) && strings.HasSuffix(n.Op.String(), "=") {
				x.vars[w.Lit()] = []string{unknown}
			}
		case *syntax.UnaryArithm:
			if w, ok := n.X.(*syntax.Word); ok && syntax.ValidName(w.Lit()) {
				x.vars[w.Lit()] = []string{unknown}
			}
		case *syntax.ParamExp:
			if e := n.Exp; e != nil && n.Param != nil && (e.Op == syntax.AssignUnset || e.Op == syntax.AssignUnsetOrNull) {
				x.parameter(n, whole)
				return false
			}
		}
		return x.step()
	})
}

// inside reads the commands in an expansion whose value is not known.
func (x *reader) inside(n syntax.Node) { x.arithmetic(n) }

func (x *reader) binary(c *syntax.BinaryCmd, in *feed) {
	switch c.Op {
	case syntax.AndStmt:
		// What follows a cd by && runs only where that went.
		x.stmt(c.X, in)
		before, lost := x.dirs, x.lost
		x.dirs = slices.Clone(x.worked)
		x.maybeRuns(func() { x.stmt(c.Y, in) })
		worked := x.worked
		x.join(before, lost)
		x.worked = worked
	case syntax.OrStmt:
		x.stmt(c.X, in)
		x.maybeRuns(func() { x.stmt(c.Y, in) })
		x.worked = nil
	default: // a pipe
		x.aside(func() { x.stmt(c.X, in) })
		f := &feed{texts: x.output([]*syntax.Stmt{c.X})}
		x.aside(func() { x.stmt(c.Y, f) })
	}
}

// join adds folders that are possible too.
func (x *reader) join(dirs []string, lost bool) {
	x.lost = x.lost || lost
	all := slices.Clone(x.dirs)
	for _, d := range dirs {
		if !slices.Contains(all, d) {
			all = append(all, d)
		}
	}
	if len(all) > maxDirs {
		all, x.lost = all[:maxDirs], true
	}
	x.dirs = all
}

// cd follows a change of folder, which may fail.
func (x *reader) cd(args []string) {
	var to string
	for len(args) > 0 && (args[0] == "-L" || args[0] == "-P" || args[0] == "-e" || args[0] == "--") {
		args = args[1:]
	}
	switch {
	case len(args) == 0:
		to = x.w.Home
	case args[0] == "-" || strings.Contains(args[0], unknown) || hasPattern(args[0]):
		x.lost = true
		return
	default:
		to = args[0]
	}
	if to == "" {
		return
	}
	var all []string
	for _, d := range x.at(to) {
		if strings.HasPrefix(d, unknown) {
			x.lost = true
			continue
		}
		all = append(all, d)
		if x.w.Real != nil {
			if r := x.w.Real(d); r != "" && r != d {
				all = append(all, r)
			}
		}
	}
	x.join(all, false)
	if len(all) > 0 {
		x.worked = all
	}
}

// redirect reads a redirection. What comes in is returned.
func (x *reader) redirect(r *syntax.Redirect) *feed {
	switch r.Op {
	case syntax.Hdoc, syntax.DashHdoc:
		x.mixed()
		return &feed{texts: x.value(r.Hdoc, quoted)}
	case syntax.WordHdoc:
		x.mixed()
		return &feed{texts: x.value(r.Word, whole)}
	}
	for _, v := range x.value(r.Word, bare) {
		if hasPattern(v) && r.Op != syntax.RdrIn && isBlockDevice(v) {
			x.forbid("it overwrites a device")
		}
		v = literal(v)
		switch r.Op {
		case syntax.DplIn, syntax.DplOut:
			if strings.Trim(v, "0123456789-") == "" {
				continue
			}
			if r.Op == syntax.DplIn {
				x.mixed()
				continue
			}
			x.writeTo(v)
		case syntax.RdrIn:
			if v != "/dev/null" {
				x.mixed()
				x.noteWord(v)
			}
		default:
			x.writeTo(v)
		}
	}
	if r.N != nil && strings.Trim(r.N.Value, "0123456789") != "" {
		x.mixed()
	}
	if r.Op == syntax.RdrIn || r.Op == syntax.RdrInOut || r.Op == syntax.DplIn {
		return &feed{}
	}
	return nil
}

// writeTo is a redirection into a file.
func (x *reader) writeTo(v string) {
	if v == "/dev/null" {
		return
	}
	x.mixed()
	for _, p := range x.at(v) {
		x.forbid(overwrites(p))
		if strings.HasPrefix(p, "/dev/"+unknown) {
			x.unclear("it writes to a device that is not known")
		}
	}
	x.writes(v)
}

// variable reads an assignment.
func (x *reader) variable(a *syntax.Assign) {
	name := a.Name.Value
	if a.Array != nil || a.Index != nil {
		x.inside(a)
		x.vars[name] = []string{unknown}
		return
	}
	values := x.value(a.Value, whole)
	if a.Append {
		var all []string
		for _, v := range x.lookup(name) {
			for _, w := range values {
				all = append(all, v+w)
			}
		}
		values = all
	}
	for i := range values {
		values[i] = literal(values[i])
	}
	x.assign(name, values)
	if runsValue[name] || strings.HasPrefix(name, "GIT_") || strings.HasPrefix(name, "LD_") || strings.HasPrefix(name, "DYLD_") {
		x.risky("it sets " + name + ", which decides what other programs run")
		x.opaque("it sets " + name)
		for _, v := range values {
			x.maybe(v)
		}
	}
}

// runsValue are variables whose values other programs run or are led by.
var runsValue = map[string]bool{"PATH": true, "BASH_ENV": true, "ENV": true, "PROMPT_COMMAND": true, "PS4": true, "PAGER": true, "MANPAGER": true, "EDITOR": true, "VISUAL": true,
	"BROWSER": true, "SHELL": true, "IFS": true, "PYTHONSTARTUP": true, "PYTHONPATH": true, "PERL5OPT": true, "PERL5LIB": true, "RUBYOPT": true, "RUBYLIB": true, "NODE_OPTIONS": true,
	"NODE_PATH": true, "JAVA_TOOL_OPTIONS": true, "LESSOPEN": true, "LESSCLOSE": true, "HOME": true, "MAKEFLAGS": true, "GOFLAGS": true, "RUSTC_WRAPPER": true, "SSH_ASKPASS": true, "SUDO_ASKPASS": true}

// call reads a simple command.
func (x *reader) call(c *syntax.CallExpr, in *feed) {
	if len(c.Assigns) > 0 {
		x.mixed()
	}
	if len(c.Args) == 0 {
		for _, a := range c.Assigns {
			x.variable(a)
		}
		return
	}
	// Assignments before a command are for the command: they stay possible.
	x.maybeRuns(func() {
		for _, a := range c.Assigns {
			x.variable(a)
		}
	})
	dir := ""
	if len(x.dirs) == 1 && !x.lost {
		dir = x.dirs[0]
	}
	x.parts = append(x.parts, part{dir: dir})
	ways := x.fields(c.Args)
	me := len(x.parts) - 1
	if len(ways) != 1 || len(ways[0]) == 0 {
		x.mixed()
	} else if me >= 0 && me < len(x.parts) {
		for _, f := range ways[0] {
			if strings.Contains(f, unknown) {
				x.mixed()
			}
			x.parts[me].words = append(x.parts[me].words, f)
		}
	}
	for _, f := range ways {
		x.command(f, in)
	}
}

// noteWord remembers a word that may name a file.
func (x *reader) noteWord(w string) {
	if len(w) > 4096 || len(x.r.Words) > 4096 {
		return
	}
	x.r.Words = append(x.r.Words, x.at(w)...)
	for _, v := range attached(w) {
		if v != "" {
			x.r.Words = append(x.r.Words, x.at(v)...)
		}
	}
}

// forkBomb finds a function that calls itself twice, in the background or in a
// pipe.
func forkBomb(stmts []*syntax.Stmt) bool {
	found := false
	for _, s := range stmts {
		syntax.Walk(s, func(n syntax.Node) bool {
			f, ok := n.(*syntax.FuncDecl)
			if !ok || f.Name == nil || f.Body == nil {
				return !found
			}
			calls, spreads := 0, false
			syntax.Walk(f.Body, func(n syntax.Node) bool {
				switch n := n.(type) {
				case *syntax.CallExpr:
					if len(n.Args) > 0 && n.Args[0].Lit() == f.Name.Value {
						calls++
					}
				case *syntax.Stmt:
					spreads = spreads || n.Background
				case *syntax.BinaryCmd:
					spreads = spreads || n.Op == syntax.Pipe || n.Op == syntax.PipeAll
				}
				return true
			})
			found = found || calls > 1 && spreads
			return !found
		})
	}
	return found
}

// base is the name of a command without its folder, in lower case as on systems
// that do not tell case apart, without what Windows adds.
func base(name string) string {
	name = strings.ReplaceAll(literal(name), `\`, "/")
	name = strings.ToLower(path.Base(name))
	for _, ext := range []string{".exe", ".cmd", ".bat", ".com"} {
		name = strings.TrimSuffix(name, ext)
	}
	return name
}
