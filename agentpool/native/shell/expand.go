package shell

import (
	"slices"
	"strings"

	"mvdan.cc/sh/v3/expand"
	"mvdan.cc/sh/v3/syntax"
)

// This file says what words come to. A value is a text with marks in it (see
// Unknown, gap, star); where it may be one of several, all are followed.

// fields are the words of a command after expansion. Of words that may have
// several values there are several of them.
func (x *reader) fields(words []*syntax.Word) [][]string {
	all := [][]string{nil}
	for _, w := range words {
		for _, w := range x.braces(w) {
			var next [][]string
			values := x.value(w, bare)
			if len(values) == 1 && len(all) == 1 { // as nearly always
				next = [][]string{append(all[0], splitAt(values[0])...)}
				values = nil
			}
			for _, v := range values {
				split := splitAt(v)
				for _, f := range all {
					next = append(next, append(slices.Clip(slices.Clone(f)), split...))
				}
			}
			if len(next) > 2*maxKinds {
				// Too many ways: what the word is, is not known.
				next = nil
				for _, f := range all {
					next = append(next, append(slices.Clone(f), unknown))
				}
			}
			all = next
			if !x.step() {
				return all[:1]
			}
		}
	}
	return all
}

// splitAt cuts the value of a word into words.
func splitAt(v string) []string {
	all := strings.FieldsFunc(v, func(r rune) bool { return string(r) == gap })
	for i := range all {
		all[i] = strings.ReplaceAll(all[i], empty, "")
	}
	return all
}

// braces expands {a,b}, as bash does and dash does not.
func (x *reader) braces(w *syntax.Word) []*syntax.Word {
	c := *w
	c.Parts = slices.Clone(w.Parts)
	if !syntax.SplitBraces(&c) {
		return []*syntax.Word{w}
	}
	x.mixed()
	var all []*syntax.Word
	for b, err := range expand.BracesSeq(nil, &c) {
		if err != nil || len(all) == 256 {
			x.unclear("it has too many words in braces")
			break
		}
		all = append(all, b)
	}
	return all
}

// how says what becomes of a piece of a word.
type how uint8

const (
	bare   how = iota // it is split and its patterns are matched
	whole             // neither, as behind "=" or of a case
	quoted            // and a backslash is one, but before few characters: in double quotes, in a here-document
)

// value returns all values a word may have.
func (x *reader) value(w *syntax.Word, h how) []string {
	if w == nil {
		return []string{""}
	}
	all := x.pieces(w.Parts, h)
	if len(w.Parts) == 0 {
		return all
	}
	lit, ok := w.Parts[0].(*syntax.Lit)
	if !ok || !strings.HasPrefix(lit.Value, "~") {
		return all
	}
	x.unsure()
	for i, v := range all {
		user, rest, _ := strings.Cut(strings.TrimPrefix(v, "~"), "/")
		home := unknown
		switch {
		case user == "":
			home = x.w.Home
		case user == "+":
			home = x.w.Cwd
		case user == "root":
			home = "/root"
		case !strings.ContainsAny(user, marks+"-"):
			home = "/home/" + user
		}
		if strings.Contains(v, "/") {
			home += "/" + rest
		}
		all[i] = home
	}
	return all
}

// unsure says that words of the part that is read are not all literal.
func (x *reader) unsure() {
	if n := len(x.parts); n > 0 {
		x.parts[n-1].globs = true
	}
}

// pieces joins what the parts of a word may be.
func (x *reader) pieces(parts []syntax.WordPart, h how) []string {
	all := []string{""}
	for _, p := range parts {
		var next []string
		for _, v := range x.piece(p, h) {
			for _, before := range all {
				next = append(next, before+v)
			}
		}
		if len(next) > maxKinds {
			next = []string{unknown}
		}
		all = next
	}
	return all
}

func (x *reader) piece(p syntax.WordPart, h how) []string {
	if !x.step() {
		return []string{unknown}
	}
	switch p := p.(type) {
	case *syntax.Lit:
		return []string{x.lit(p.Value, h)}
	case *syntax.SglQuoted:
		if p.Value == "" && h == bare {
			return []string{empty}
		}
		if !p.Dollar {
			return []string{clean(p.Value)}
		}
		x.mixed() // an old shell takes it for a dollar and a text
		s, _, err := expand.Format(nil, p.Value, nil)
		if err != nil {
			return []string{unknown}
		}
		return []string{clean(s)}
	case *syntax.DblQuoted:
		all := x.pieces(p.Parts, quoted)
		for i := range all {
			if all[i] == "" && h == bare {
				all[i] = empty
			}
		}
		return all
	case *syntax.ParamExp:
		x.mixed()
		return x.parameter(p, h)
	case *syntax.CmdSubst:
		x.mixed()
		return x.substitution(p, h)
	case *syntax.ArithmExp:
		x.mixed()
		x.arithmetic(p)
		return []string{unknown}
	case *syntax.ProcSubst:
		x.mixed()
		x.apart(p.Stmts)
		return []string{unknown}
	case *syntax.ExtGlob:
		x.unsure()
		return []string{star}
	}
	x.mixed()
	return []string{unknown}
}

// clean replaces what we use as marks.
func clean(s string) string {
	if strings.ContainsAny(s, marks) {
		return unknown
	}
	return s
}

// lit is text that stands in the line without quotes, or in double ones.
func (x *reader) lit(s string, h how) string {
	if !strings.ContainsAny(s, "\\*?[") {
		return clean(s)
	}
	var b strings.Builder
	for i := 0; i < len(s); i++ {
		c := s[i]
		switch {
		case c == '\\' && i+1 < len(s):
			i++
			if s[i] == '\n' {
				continue
			}
			if h == quoted && !strings.ContainsRune("$`\"\\", rune(s[i])) {
				b.WriteByte('\\')
			}
			b.WriteByte(s[i])
		case h != bare:
			b.WriteByte(c)
		case c == '*':
			x.unsure()
			b.WriteString(star)
		case c == '?':
			x.unsure()
			b.WriteString(quest)
		case c == '[':
			x.unsure()
			b.WriteString(bracket)
		default:
			b.WriteByte(c)
		}
	}
	return b.String()
}

// parameter is what ${…} may be.
func (x *reader) parameter(p *syntax.ParamExp, h how) []string {
	if p.Param == nil || p.Excl || p.Length || p.Width || p.IsSet || p.NestedParam != nil || p.Index != nil || p.Slice != nil || p.Repl != nil || p.Names != 0 || p.Flags != nil || len(p.Modifiers) > 0 {
		x.inside(p)
		return []string{unknown}
	}
	values := x.lookup(p.Param.Value)
	if e := p.Exp; e != nil {
		word := []string{""}
		if e.Word != nil {
			word = x.value(e.Word, whole)
		}
		switch e.Op {
		case syntax.DefaultUnset, syntax.DefaultUnsetOrNull, syntax.AssignUnset, syntax.AssignUnsetOrNull:
			// The word counts where the value may be missing, or empty.
			missing := slices.Contains(values, unknown) || slices.Contains(values, "")
			if e.Op == syntax.DefaultUnset || e.Op == syntax.AssignUnset {
				if !x.isSet(p.Param.Value) {
					values = append(slices.DeleteFunc(slices.Clone(values), func(s string) bool { return s == "" }), word...)
				}
			} else if missing {
				values = append(slices.DeleteFunc(slices.Clone(values), func(s string) bool { return s == "" }), word...)
			}
			if e.Op == syntax.AssignUnset || e.Op == syntax.AssignUnsetOrNull {
				x.assign(p.Param.Value, values)
			}
		case syntax.AlternateUnset, syntax.AlternateUnsetOrNull:
			values = append([]string{""}, word...)
		case syntax.ErrorUnset, syntax.ErrorUnsetOrNull:
			values = slices.DeleteFunc(slices.Clone(values), func(s string) bool { return s == "" })
			if len(values) == 0 {
				values = []string{unknown}
			}
		default:
			values = []string{unknown}
		}
	}
	if h != bare {
		return values
	}
	seps := x.lookup("IFS")
	var all []string
	for _, v := range values {
		for _, ifs := range seps {
			all = append(all, splitBy(v, ifs))
		}
	}
	return all
}

// splitBy marks where an unquoted value is split, and its patterns.
func splitBy(v, ifs string) string {
	if strings.Contains(ifs, unknown) {
		return unknown
	}
	var b strings.Builder
	for _, r := range v {
		switch {
		case strings.ContainsRune(ifs, r):
			b.WriteString(gap)
		case r == '*':
			b.WriteString(star)
		case r == '?':
			b.WriteString(quest)
		case r == '[':
			b.WriteString(bracket)
		default:
			b.WriteRune(r)
		}
	}
	return b.String()
}

// lookup returns the values a parameter may have.
func (x *reader) lookup(name string) []string {
	if v, ok := x.vars[name]; ok {
		return v
	}
	switch {
	case name == "IFS":
		return []string{" \t\n"}
	case name == "HOME" && x.w.Home != "":
		return []string{x.w.Home}
	case name == "PWD":
		if x.lost {
			return append(slices.Clone(x.dirs), unknown)
		}
		return slices.Clone(x.dirs)
	case name == "" || strings.ContainsRune("@*#?-$!0123456789", rune(name[0])), x.w.Getenv == nil, dynamic[name]:
		return []string{unknown}
	}
	v, _ := x.w.Getenv(name)
	return []string{clean(v)}
}

// isSet tells whether a parameter has a value for sure.
func (x *reader) isSet(name string) bool {
	if v, ok := x.vars[name]; ok {
		return !slices.Contains(v, unknown)
	}
	if x.w.Getenv == nil || name == "" {
		return false
	}
	_, ok := x.w.Getenv(name)
	return ok
}

// dynamic are parameters that a shell sets by itself.
var dynamic = map[string]bool{"_": true, "RANDOM": true, "SECONDS": true, "LINENO": true, "OLDPWD": true, "PPID": true, "OPTARG": true, "OPTIND": true, "REPLY": true,
	"BASH": true, "BASH_COMMAND": true, "BASHPID": true, "EUID": true, "UID": true, "HOSTNAME": true, "HOSTTYPE": true, "MACHTYPE": true, "OSTYPE": true, "FUNCNAME": true,
	"BASH_VERSION": true, "SRANDOM": true, "EPOCHSECONDS": true, "SHLVL": true, "SHELLOPTS": true, "DIRSTACK": true, "PIPESTATUS": true, "BASHOPTS": true}

// assign gives a variable a value: for sure, or as one more that it may have.
func (x *reader) assign(name string, values []string) {
	if x.cond > 0 {
		before, ok := x.vars[name]
		if !ok {
			before = x.lookup(name)
			if len(before) == 1 && before[0] == "" {
				// Whoever assigns it here may have done so before it is used.
				before = []string{unknown}
			}
		}
		values = append(slices.Clone(before), values...)
	}
	values = slices.Clone(values)
	slices.Sort(values)
	values = slices.Compact(values)
	if len(values) > maxKinds/2 {
		values = []string{unknown}
	}
	x.vars[name] = values
}

// substitution reads the commands of $(…) and returns what they may print.
func (x *reader) substitution(p *syntax.CmdSubst, h how) []string {
	out := x.output(p.Stmts)
	x.apart(p.Stmts)
	if out == nil || len(out) != 1 || strings.Contains(out[0], unknown) {
		return []string{unknown}
	}
	v := strings.TrimRight(out[0], "\n")
	if h != bare {
		return []string{v}
	}
	return []string{splitBy(v, " \t\n")}
}

// output is what simple commands print that print their arguments; nil if that
// is not known.
func (x *reader) output(stmts []*syntax.Stmt) []string {
	if len(stmts) != 1 {
		return nil
	}
	s := stmts[0]
	call, ok := s.Cmd.(*syntax.CallExpr)
	if !ok || len(call.Args) == 0 || s.Negated || s.Background {
		return nil
	}
	heredoc := ""
	for _, r := range s.Redirs {
		switch {
		case r.Hdoc != nil && len(s.Redirs) == 1:
			heredoc = strings.Join(x.value(r.Hdoc, quoted), "")
		case r.Op == syntax.WordHdoc && len(s.Redirs) == 1:
			heredoc = strings.Join(x.value(r.Word, whole), "") + "\n"
		default:
			return nil
		}
	}
	var all []string
	for _, f := range x.fields(call.Args) {
		if len(f) == 0 {
			return nil
		}
		f = slices.Clone(f)
		for i := range f {
			f[i] = literal(f[i])
		}
		switch base(f[0]) {
		case "echo":
			f = f[1:]
			escapes := false
			for len(f) > 0 && (f[0] == "-n" || f[0] == "-e" || f[0] == "-ne" || f[0] == "-en" || f[0] == "-E") {
				escapes = escapes || strings.Contains(f[0], "e")
				f = f[1:]
			}
			text := strings.Join(f, " ")
			if strings.Contains(text, "\\") { // dash takes escapes always
				if t, _, err := expand.Format(nil, text, nil); err == nil {
					text = clean(t)
				}
			}
			all = append(all, text+"\n")
		case "printf":
			if len(f) < 2 || strings.Contains(strings.Join(f, ""), unknown) {
				return nil
			}
			if f[1] == "--" && len(f) > 2 {
				f = f[1:]
			}
			args := f[2:]
			text := ""
			for first := true; first || len(args) > 0; first = false {
				t, n, err := expand.Format(nil, f[1], append([]string{}, args...))
				if err != nil {
					return nil
				}
				text += t
				if n == 0 {
					break
				}
				args = args[min(n, len(args)):]
			}
			all = append(all, clean(text))
		case "cat":
			if heredoc == "" || len(f) > 1 && f[1] != "-" {
				return nil
			}
			all = append(all, heredoc)
		default:
			return nil
		}
	}
	return all
}
