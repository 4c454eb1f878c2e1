package tool

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"

	"github.com/hermesd/hermesd/agentpool/native/shell"
)

// Command is what the rules of approval know of a shell command.
type Command struct {
	// Text is the command as it is run.
	Text string
	// Prefix is the beginning that an "always" may cover beside the command
	// itself; nil if there is none.
	Prefix []string
	// Warning is what is dangerous about it, "" if nothing is known to be.
	Warning string

	report  *shell.Report
	reads   bool     // only files inside the session's folders
	outside bool     // it names something outside of them
	writes  []string // the files it names and changes, links resolved
}

// command judges a command line.
func (e *Env) command(line string) *Command {
	c := &Command{Text: line}
	if runtime.GOOS == "windows" {
		c.report = shell.Scan(line)
	} else {
		environ := e.environ()
		c.report = shell.Read(line, e.world(environ))
		c.reads = c.report.Reading && e.readsInside(c.report, environ)
	}
	r := c.report
	c.Warning = r.Risky
	for _, w := range slices.Concat(r.Words, r.Writes) {
		p, err := e.resolve(w)
		if err != nil || p.out {
			c.outside = true
		}
	}
	for _, w := range r.Writes {
		if p, err := e.resolve(w); err == nil {
			c.writes = append(c.writes, p.real, p.shown)
		}
	}
	if !c.outside {
		c.Prefix = r.Prefix
	}
	return c
}

// world is what a command finds.
func (e *Env) world(environ []string) shell.World {
	getenv := func(name string) (string, bool) {
		for i := len(environ) - 1; i >= 0; i-- {
			if k, v, _ := strings.Cut(environ[i], "="); k == name {
				return v, true
			}
		}
		return "", false
	}
	home, _ := getenv("HOME")
	return shell.World{Cwd: filepath.ToSlash(e.Cwd), Home: home, Getenv: getenv, Bash: shIsBash(), Real: func(p string) string {
		real, err := realPath(p)
		if err != nil {
			return ""
		}
		return real
	}}
}

// shIsBash tells whether the shell that runs commands is known to be bash: on macOS
// sh is what that link says.
func shIsBash() bool {
	for _, file := range []string{"/private/var/select/sh", "/bin/sh"} {
		if real, err := filepath.EvalSymlinks(file); err == nil {
			return filepath.Base(real) == "bash"
		}
	}
	return false
}

// readsInside tells whether what a reading command reads lies in the session's
// folders, and its programs outside of them, where the session cannot have put
// others in their place.
func (e *Env) readsInside(r *shell.Report, environ []string) bool {
	for _, f := range r.Reads {
		if p, err := e.resolve(f); err != nil || p.out {
			return false
		}
	}
	path := ""
	for _, kv := range environ {
		if v, ok := strings.CutPrefix(kv, "PATH="); ok {
			path = v
		}
	}
	for _, program := range r.Programs {
		found := false
		for _, dir := range filepath.SplitList(path) {
			file := filepath.Join(dir, program)
			if !filepath.IsAbs(file) {
				return false
			}
			if _, err := exec.LookPath(file); err != nil {
				continue
			}
			real, err := realPath(file)
			if err != nil || e.inside(real) || e.inside(file) {
				return false
			}
			found = true
			break
		}
		if !found {
			return false
		}
	}
	return true
}

// need is the permission a command needs.
func (e *Env) need(c *Command) Need {
	n := Need{Class: Running, Command: c, Lasting: true, Grants: []string{c.Text}, Scope: "exactly “" + oneLine(c.Text, 80) + "”"}
	r := c.report
	switch {
	case r.Forbidden != "":
		n.Forbidden = r.Forbidden
	case c.reads:
		n.Class = Free
	case r.Unclear != "":
		n.Sensitive = "it cannot be told what it does: " + r.Unclear
	default:
		n.Sensitive = e.spoils(r)
	}
	return n
}

// spoils returns the sensitive file a command plainly changes, with the reason;
// "" if there is none.
func (e *Env) spoils(r *shell.Report) string {
	for _, w := range e.matching(r.Writes) {
		if strings.Contains(w, shell.Unknown) {
			w = strings.ReplaceAll(w, shell.Unknown, "?")
			if why := sensitiveName(w); why != "" {
				return w + " " + why
			}
			continue
		}
		if strings.HasPrefix(w, "/dev/") {
			continue
		}
		p, err := e.resolve(w)
		if err != nil {
			continue
		}
		if why := e.sensitive(p); why != "" {
			return why
		}
	}
	for _, c := range r.Copies {
		if why := e.carries(c[0], c[1]); why != "" {
			return why
		}
	}
	for _, w := range e.matching(r.Touches) {
		if why := e.exposed(w); why != "" {
			return why + ", and it cannot be told that the command only reads it"
		}
	}
	return ""
}

// matching adds to words the files that those match which may be patterns: if
// there is a bound to that.
func (e *Env) matching(words []string) []string {
	all := slices.Clip(words)
	for _, w := range words {
		n := strings.Count(w, "*") + strings.Count(w, "?") + strings.Count(w, "[")
		if n == 0 || n > 4 || strings.Contains(w, shell.Unknown) || len(all) > maxTree { // it could take long
			continue
		}
		found, err := filepath.Glob(w)
		if err != nil || len(found) > maxTree {
			continue
		}
		for _, f := range found {
			if !hides(w, f) {
				all = append(all, f)
			}
		}
	}
	return all
}

// hides tells whether a shell leaves out a match of a pattern: a name that begins
// with a dot is matched only by a dot.
func hides(pattern, match string) bool {
	names := strings.Split(filepath.ToSlash(match), "/")
	for i, p := range strings.Split(filepath.ToSlash(pattern), "/") {
		if i < len(names) && strings.HasPrefix(names[i], ".") && !strings.HasPrefix(p, ".") {
			return true
		}
	}
	return false
}

// carries returns why a folder that is copied, moved or linked brings something
// sensitive to where it comes, or takes it away; "" if it does not.
func (e *Env) carries(from, to string) string {
	if strings.Contains(from+to, shell.Unknown) {
		return ""
	}
	if strings.ContainsAny(from, "*?[") && filepath.Base(to) != filepath.Base(from) {
		for _, f := range e.matching([]string{from})[1:] {
			t := filepath.Join(to, filepath.Base(f))
			if why := sensitiveName(t); why != "" {
				return t + " " + why
			}
			if why := e.carries(f, t); why != "" {
				return why
			}
		}
	}
	f, ferr := e.resolve(from)
	t, terr := e.resolve(to)
	if ferr != nil || terr != nil {
		return ""
	}
	if info, err := os.Stat(f.real); err != nil || !info.IsDir() {
		return ""
	}
	entries, err := tree(f.real)
	if err != nil {
		return fmt.Sprintf("it cannot be told what is in %s: %s", f.real, err)
	}
	return e.sensitiveTree(thing{tree: entries}.names(), f, t)
}

// exposed returns why a file that a command names must not be changed unasked, ""
// if it may be. What is named is often read, or is no file at all: so folders of
// the system that hold programs do not count, nor does a folder that only has the
// name of a sensitive file, nor the one the session is in.
func (e *Env) exposed(word string) string {
	if strings.Contains(word, shell.Unknown) {
		word = strings.ReplaceAll(word, shell.Unknown, "?")
		if why := sensitiveName(word); why != "" {
			return word + " " + why
		}
		return ""
	}
	p, err := e.resolve(word)
	if err != nil {
		return ""
	}
	if rel, err := filepath.Rel(e.Cwd, p.shown); err == nil && filepath.IsLocal(rel) && p.shown == p.real && sensitiveName(e.Cwd) != "" {
		if sensitiveName(rel) == "" && !e.protects(p) {
			return ""
		}
	}
	if info, err := os.Stat(p.real); err == nil && info.IsDir() && sensitiveName(filepath.Join(p.real, "x")) == "" && sensitiveName(filepath.Join(p.shown, "x")) == "" && !e.protects(p) {
		return ""
	}
	if why := e.private(p); why != "" {
		return why
	}
	for _, dir := range []string{"/etc", "/boot", "/proc", "/sys", "/var/spool/cron", "/private/etc"} {
		if p.out && (within(p.real, dir) || within(p.shown, dir)) {
			return p.real + " belongs to the system"
		}
	}
	return ""
}

// Covered tells whether what was allowed before covers the command: commands
// word for word, or beginnings of commands. A command in several parts is
// covered if each part is.
func (c *Command) Covered(commands []string, prefixes [][]string) bool {
	if slices.Contains(commands, c.Text) {
		return true
	}
	if c.outside {
		return false
	}
	if len(c.report.Parts) == 1 {
		return c.report.Covered(prefixes, nil)
	}
	var exact [][]string
	for _, text := range commands {
		if r := shell.Read(text, shell.World{Cwd: "/"}); len(r.Parts) == 1 {
			exact = append(exact, r.Parts[0])
		}
	}
	return c.report.Covered(prefixes, exact)
}

// Changes returns the files the command names and plainly changes, links
// resolved.
func (c *Command) Changes() []string { return c.writes }

// MayWrite returns why the command may change a file, which is named by its
// resolved path; "" if nothing speaks for it.
func (c *Command) MayWrite(file string) string {
	r := c.report
	if c.reads {
		return ""
	}
	for _, w := range c.writes {
		if within(file, w) {
			return "it changes " + w
		}
	}
	if name := filepath.Base(file); strings.Contains(bare(c.Text), name) {
		return "it names " + name
	}
	for _, w := range r.Words {
		if real, err := realPath(w); err == nil && real == file {
			return "it names " + w
		}
	}
	if r.Opaque != "" {
		return fmt.Sprintf("it cannot be told which files it changes: %s", r.Opaque)
	}
	return ""
}

// bare is a command without what its words may be taken apart with.
func bare(line string) string {
	return strings.NewReplacer("\\\n", "", `\`, "", `"`, "", "'", "", "$", "").Replace(line)
}
