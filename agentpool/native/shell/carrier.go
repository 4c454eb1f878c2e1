package shell

import (
	"regexp"
	"slices"
	"strings"
)

// This file knows the programs that run what is in their options and arguments.

// runners are options of programs whose values are commands, by the beginning of
// what stands before the value.
var runners = map[string][]string{
	"tar": {"--to-command", "--checkpoint-action", "--use-compress-program", "-I", "--rsh-command", "--info-script", "--new-volume-script", "-F"},
	"zip": {"-TT", "--unzip-command"}, "rsync": {"-e", "--rsh", "--rsync-path"}, "ssh": {"-o"}, "sort": {"--compress-program"}, "split": {"--filter"},
	"rg": {"--pre", "--hostname-bin"}, "man": {"-P", "--pager", "-H", "--html"}, "nc": {"-e", "-c", "--exec", "--sh-exec"}, "ncat": {"-e", "-c", "--exec", "--sh-exec"},
	"flock": {"-c", "--command"}, "su": {"-c", "--command", "--session-command"}, "script": {"-c", "--command"}, "tcpdump": {"-z"}, "npm": {"-c", "--call", "--script-shell"},
	"go": {"-exec", "-toolexec", "-vettool", "--exec", "--toolexec"}, "less": {"+"}, "more": {"+"}, "cargo": {"--config"}, "openssl": {"-engine"}, "nmap": {"--script"}, "logrotate": {}, "make": {"SHELL=", "--eval", "-E"},
}

// carrier reads a program that may run something else.
func (x *reader) carrier(name string, args []string, in *feed) {
	switch name {
	case "bsdtar", "gtar":
		name = "tar"
	case "gmake":
		name = "make"
	}
	for i, a := range args {
		for _, o := range runners[name] {
			rest, ok := strings.CutPrefix(a, o)
			if !ok {
				continue
			}
			value := strings.TrimPrefix(rest, "=")
			if rest == "" && i+1 < len(args) {
				value = args[i+1]
			}
			if name == "go" && (value == "" || strings.HasPrefix(o, "-exec") && strings.HasPrefix(a, "-execd")) {
				continue
			}
			x.runs(name, strings.TrimPrefix(value, "exec="))
		}
	}
	switch name {
	case "ssh", "mosh", "rsh", "autossh", "sshpass", "kubectl", "docker", "podman", "nerdctl", "lxc", "vagrant", "adb", "run0", "start", "ansible", "pssh", "gcloud", "heroku", "fly", "doctl":
		// The rest may be a command, from any word on.
		x.opaque("it runs something elsewhere with " + name)
		for i := range args[:min(len(args), 32)] {
			if !strings.HasPrefix(args[i], "-") {
				x.maybe(strings.Join(literals(args[i:]), " "))
			}
		}
	case "flock":
		for i := range args[:min(len(args), 32)] {
			if i > 0 && !strings.HasPrefix(args[i], "-") {
				x.soft(args[i:])
			}
		}
		x.opaque("it has flock run a command")
	case "su", "script":
		x.opaque("it has " + name + " run a command")
		if name == "su" {
			x.fed(in, "a shell runs the output of another command")
		}
	case "socat":
		x.opaque("it has socat run a command")
		for _, a := range args {
			up := strings.ToUpper(a)
			if i := strings.Index(up, "EXEC:"); i >= 0 {
				x.maybe(literal(a[i+5:]))
			}
			if i := strings.Index(up, "SYSTEM:"); i >= 0 {
				x.maybe(literal(a[i+7:]))
			}
		}
	case "make", "just":
		x.opaque("it runs what its file says")
		for _, a := range args {
			if _, v, ok := strings.Cut(a, "="); ok {
				x.maybe(literal(v))
			}
		}
	case "npm", "yarn", "pnpm":
		if len(args) > 0 && !slices.Contains([]string{"ls", "list", "view", "outdated", "audit", "why", "-v", "--version", "help"}, args[0]) {
			x.opaque("it runs scripts with " + name)
		}
	case "go":
		if len(args) > 0 && (args[0] == "run" || args[0] == "generate" || args[0] == "tool") {
			x.opaque("it runs a program with go")
		}
	case "cargo":
		if len(args) > 0 && (args[0] == "run" || args[0] == "r" || args[0] == "script") {
			x.opaque("it runs a program with cargo")
		}
	case "git", "hg":
		x.git(args)
	case "schtasks", "systemctl", "launchctl", "crond", "run-parts":
		x.opaque("it has " + name + " run something")
	}
}

// runs reads the value of an option that is a command.
func (x *reader) runs(name, value string) {
	x.mixed()
	x.risky("it has " + name + " run another command")
	x.opaque("it has " + name + " run another command")
	if strings.Contains(value, unknown) {
		x.unclear("it has " + name + " run a command that is only known when it runs")
	}
	x.maybe(literal(value))
	if _, v, ok := strings.Cut(literal(value), "="); ok {
		x.maybe(v)
	}
}

// git reads the many ways in which git runs other programs.
func (x *reader) git(args []string) {
	for i := 0; i < len(args); i++ {
		a := args[i]
		next := ""
		if i+1 < len(args) {
			next = args[i+1]
		}
		switch {
		case a == "-c" || a == "--config-env" || strings.HasPrefix(a, "--config-env="):
			// Most of git's configuration can name a program.
			if i > 0 && !strings.HasPrefix(args[0], "-") && a == "-c" {
				break // git commit -c
			}
			x.mixed()
			x.risky("it changes git's configuration for this command")
			x.opaque("it changes git's configuration for this command")
			_, v, _ := strings.Cut(literal(next), "=")
			x.maybe(strings.TrimPrefix(v, "!"))
			if strings.Contains(next, unknown) {
				x.unclear("it runs git with a configuration that is not known")
			}
			i++
		case a == "-C" || a == "--git-dir" || a == "--work-tree" || a == "--exec-path" || strings.HasPrefix(a, "--git-dir=") || strings.HasPrefix(a, "--work-tree=") || strings.HasPrefix(a, "--exec-path="):
			x.mixed()
			x.risky("it runs git in another repository, or with other programs")
		case a == "-u" && (args[0] == "clone" || args[0] == "ls-remote"), strings.HasPrefix(a, "--upload-pack"), strings.HasPrefix(a, "--receive-pack"), a == "--exec" || strings.HasPrefix(a, "--exec="),
			a == "-x" && slices.Contains(args, "rebase"), a == "--extcmd" || strings.HasPrefix(a, "--extcmd="), strings.HasPrefix(a, "-O") && slices.Contains(args, "grep"), strings.HasPrefix(a, "--open-files-in-pager"),
			strings.HasPrefix(a, "--to-cmd"), strings.HasPrefix(a, "--cc-cmd"), strings.HasPrefix(a, "--smtp-server"):
			v := next
			if _, w, ok := strings.Cut(a, "="); ok {
				v = w
			} else if w, ok := strings.CutPrefix(a, "-O"); ok {
				v = w
			}
			x.runs("git", v)
		case strings.HasPrefix(a, "ext::") || strings.HasPrefix(a, "fd::"):
			x.runs("git", strings.TrimPrefix(a, "ext::"))
		case a == "--ext-diff" || a == "--textconv":
			x.risky("it has git run what its configuration names")
		case a == "--output" || strings.HasPrefix(a, "--output="):
			x.mixed()
			v := next
			if _, w, ok := strings.Cut(a, "="); ok {
				v = w
			}
			x.writes(v)
			x.risky("it has git write a file")
		}
	}
	sub := slices.IndexFunc(args, func(a string) bool { return !strings.HasPrefix(a, "-") })
	if sub < 0 {
		return
	}
	verb, rest := args[sub], args[sub+1:]
	switch verb {
	case "config":
		x.mixed()
		values := 0
		for _, a := range rest {
			if !strings.HasPrefix(a, "-") {
				values++
			}
			x.maybe(strings.TrimPrefix(literal(a), "!"))
		}
		if values > 1 || slices.ContainsFunc(rest, func(a string) bool {
			return strings.HasPrefix(a, "--unset") || strings.HasPrefix(a, "--add") || a == "--edit" || a == "-e" || strings.HasPrefix(a, "--re") || strings.HasPrefix(a, "--rename")
		}) {
			x.risky("it changes git's configuration, which names programs")
			switch {
			case slices.Contains(rest, "--global"):
				x.writes(x.w.Home + "/.gitconfig")
			case slices.Contains(rest, "--system"):
				x.writes("/etc/gitconfig")
			default:
				x.writes(".git/config")
			}
		}
	case "submodule":
		if slices.Contains(rest, "foreach") {
			x.runs("git", strings.Join(rest, " "))
			for i := range rest[:min(len(rest), 32)] {
				x.maybe(strings.Join(literals(rest[i:]), " "))
			}
		}
	case "bisect":
		if len(rest) > 1 && rest[0] == "run" {
			x.runs("git", strings.Join(rest[1:], " "))
		}
	case "filter-branch", "difftool", "mergetool", "daemon", "instaweb", "send-email", "web--browse":
		x.mixed()
		x.risky("it has git run other commands")
		for _, a := range rest {
			x.maybe(literal(a))
		}
	case "checkout", "restore", "reset", "stash", "merge", "rebase", "pull", "apply", "am", "cherry-pick", "revert", "switch", "clean", "rm", "mv", "checkout-index", "read-tree", "worktree":
		x.opaque("it has git change files")
	}
}

var (
	strs      = regexp.MustCompile("\"(?:[^\"\\\\]|\\\\.)*\"|'(?:[^'\\\\]|\\\\.)*'|`[^`]*`")
	flat      = strings.NewReplacer(`"`, " ", "'", " ", "`", " ", ",", " ", "[", " ", "]", " ", "(", " ", ")", " ", "{", " ", "}", " ", ";", " ", "|", " ", "&", " ", "\n", " ", "\t", " ", "=", " ")
	removes   = regexp.MustCompile(`(?i)(rmtree|remove_tree|rm_rf|rm_r|rmSync|rimraf|removeSync|RemoveAll|remove_dir_all|rmdirSync)\s*\(?\s*\(?\s*["'](/|~|/\*|/etc|/usr|/home|C:\\+)["']`)
	toFile    = regexp.MustCompile(`>\s*("[^"]*"|[^\s&|<>()]+)`)
	toDevice  = regexp.MustCompile(`>\|?\s*(/dev/\S+)`)
	forks     = regexp.MustCompile(`fork\s+while\s+fork|while\s*(\(?\s*(1|True|true)\s*\)?)?\s*[:{]?\s*\(?(os\.)?fork\b|loop\s*\{\s*fork|fork\(\)\s*while`)
	sqlDrops  = regexp.MustCompile(`(?i)\b(drop\s+(table|database|schema)|truncate\s+table|delete\s+from\s+\S+\s*(;|$|["']))`)
	shutsDown = regexp.MustCompile(`(?i)to\s+(shut\s+down|restart)\b|org\.freedesktop\.login1\.Manager\.(PowerOff|Reboot|Halt)`)
)

// maybeCode reads code of another language: commands in its strings, and words
// that are one when what separates them is taken away.
func (x *reader) maybeCode(code string) {
	code = literal(strings.ReplaceAll(code, unknown, ""))
	if len(code) < 4 || !x.step() {
		return
	}
	if forks.MatchString(code) {
		x.forbid("it is a fork bomb")
	}
	if m := removes.FindStringSubmatch(code); m != nil {
		x.forbid("it removes " + m[2] + " and all that is in it")
	}
	if shutsDown.MatchString(code) {
		x.forbid("it stops the machine")
	}
	if sqlDrops.MatchString(code) {
		x.risky("it removes data from a database")
	}
	for i, s := range strs.FindAllString(code, 64) {
		if i == 64 {
			break
		}
		inner := s[1 : len(s)-1]
		if strings.ContainsAny(inner, "\\") {
			inner = strings.NewReplacer(`\"`, `"`, `\'`, `'`, `\\`, `\`, `\n`, "\n").Replace(inner)
		}
		x.maybe(inner)
	}
	x.maybeSimple(code)
}

// maybeSimple looks for commands at every word of a text.
func (x *reader) maybeSimple(text string) {
	words := strings.Fields(flat.Replace(text))
	for i, w := range words {
		switch b := base(strings.TrimLeft(w, ":!")); {
		case b == "rm", b == "dd", b == "wipefs", b == "shred", b == "remove-item", b == "ri", b == "del", b == "rd", strings.HasPrefix(b, "mkfs"):
			x.never(b, words[i+1:min(len(words), i+8)])
		}
		if !x.step() {
			return
		}
	}
}

// scanText judges a text that could not be parsed, piece by piece.
func scanText(line string) string {
	x := newReader(World{Cwd: "/nowhere"})
	line = strings.ReplaceAll(line, "\\\n", "")
	for _, text := range []string{line, strings.NewReplacer(`\`, "", `"`, "", "'", "").Replace(line)} {
		for _, piece := range strings.FieldsFunc(text, func(r rune) bool { return strings.ContainsRune(";&|\n(){}`$<>\"'", r) }) {
			f := strings.Fields(piece)
			for len(f) > 0 {
				w, ok := wrappers[base(f[0])]
				if !ok && f[0] != "env" && !assignment.MatchString(f[0]) && !keyword[f[0]] {
					break
				}
				f = unwrap(w, f[1:])
			}
			if len(f) > 0 {
				x.forbid(x.hardline(base(f[0]), f[1:]))
			}
		}
		x.maybeSimple(text)
		for _, m := range toDevice.FindAllStringSubmatch(text, -1) {
			x.forbid(overwrites(m[1]))
		}
	}
	s := strings.Join(strings.Fields(line), "")
	for i := strings.Index(s, "(){"); i >= 0; {
		j := i
		for j > 0 && strings.IndexByte(";&|{}()", s[j-1]) < 0 {
			j--
		}
		if name := s[j:i]; name != "" && strings.HasPrefix(s[i+3:], name+"|"+name+"&") {
			x.forbid("it is a fork bomb")
		}
		k := strings.Index(s[i+3:], "(){")
		if k < 0 {
			break
		}
		i += 3 + k
	}
	return x.r.Forbidden
}

// keyword is what stands before a command in a shell's grammar.
var keyword = map[string]bool{"{": true, "}": true, "!": true, "if": true, "then": true, "else": true, "elif": true, "do": true, "while": true, "until": true, "in": true, "function": true}

// Scan reads a command line that is none of a POSIX shell, as one of cmd.exe: it
// finds what is never run and what is plainly written, by its words.
func Scan(line string) *Report {
	x := newReader(World{})
	x.forbid(scanText(line))
	x.forbid(scanText(strings.ReplaceAll(line, "^", "")))
	for _, piece := range strings.FieldsFunc(line, func(r rune) bool { return strings.ContainsRune("&|\n()", r) }) {
		f := strings.Fields(piece)
		for i := range f {
			f[i] = strings.Trim(f[i], `"`)
		}
		if len(f) > 0 {
			x.dangers(base(f[0]), f[1:])
			x.changes(base(f[0]), f[1:])
		}
	}
	for _, m := range toFile.FindAllStringSubmatch(line, -1) {
		x.writes(strings.Trim(m[1], `"`))
	}
	x.opaque("it is a command of cmd.exe")
	x.mixed()
	return x.report()
}
