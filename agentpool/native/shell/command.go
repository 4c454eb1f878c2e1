package shell

import (
	"path"
	"regexp"
	"slices"
	"strings"
)

// This file takes one simple command and finds the commands in it: those that
// it starts, and those in the texts it is given.

// command reads a simple command, its words expanded.
func (x *reader) command(f []string, in *feed) { x.started(f, in, 0) }

// started reads a command that is run level commands deep, as in sudo nice rm.
func (x *reader) started(f []string, in *feed, level int) {
	if len(f) == 0 || !x.step() {
		return
	}
	if level > maxDepth {
		x.unclear("it starts commands that start commands that start commands")
		return
	}
	first := f[0]
	if first == bracket {
		first = "[" // the command test
	}
	if strings.Contains(path.Base(first), unknown) || hasPattern(first) {
		x.unclear("which command runs is only known when it runs")
		// It may be nothing, or something that starts the rest.
		x.soft(f[1:])
		if g := strings.ReplaceAll(first, unknown, ""); g != "" && !hasPattern(g) {
			x.soft(append([]string{g}, f[1:]...))
		}
		return
	}
	name := base(first)
	args := dashed(name, f[1:])
	if x.names[first] {
		x.opaque("it runs a function of its own")
	}
	for _, a := range f[1:] {
		x.noteWord(literal(a))
	}
	if strings.ContainsAny(first, `/\`) && !isSystem(first) {
		x.noteWord(literal(first))
		x.opaque("it runs the program " + literal(first))
	}

	if !looks(name, args) || x.names[first] || strings.ContainsAny(first, `/\`) && !isSystem(first) {
		x.touch(args...)
	}

	x.forbid(x.hardline(name, args))
	x.dangers(name, args)
	x.changes(name, args)
	if !textual[name] {
		x.tails(args)
	}
	x.carried(name, args, in, level)
}

// soft reads words that may be run as a command, for what is never run.
func (x *reader) soft(f []string) {
	if len(f) == 0 {
		return
	}
	y := x.within()
	y.started(f, nil, 1)
	x.forbid(y.r.Forbidden)
}

// never asks for what is never run about words that may be no command.
func (x *reader) never(name string, args []string) {
	y := x.within()
	x.forbid(y.hardline(name, args))
}

// isSystem tells whether a program is named by a path of the system.
func isSystem(p string) bool {
	switch path.Dir(path.Clean(p)) {
	case "/bin", "/usr/bin", "/sbin", "/usr/sbin", "/usr/local/bin", "/opt/homebrew/bin":
		return true
	}
	return false
}

// textual are commands whose words are text or names, not something they run.
var textual = map[string]bool{"echo": true, "printf": true, "grep": true, "egrep": true, "fgrep": true, "rg": true, "ag": true, "ack": true, "git": true, "cat": true, "ls": true,
	"man": true, "which": true, "type": true, "whatis": true, "apropos": true, "test": true, "[": true, "true": true, "false": true, ":": true, "head": true, "tail": true, "gh": true,
	"touch": true, "mkdir": true, "logger": true, "jq": true, "cd": true, "tr": true, "cut": true, "sort": true, "wc": true, "notify-send": true, "hg": true, "svn": true, "say": true}

// tails looks for a command among the words of another one that may start it.
func (x *reader) tails(args []string) {
	for i, a := range args {
		switch b := base(a); {
		case b == "rm", b == "dd", b == "wipefs", b == "shred", b == "mkswap", strings.HasPrefix(b, "mkfs"):
			if i+1 < len(args) {
				x.never(b, args[i+1:])
			}
		}
	}
}

// wrapper is a command that runs the command after it.
type wrapper struct {
	valued string   // its one-letter options that take a value
	long   []string // its long options that take a value in the next word
	skip   int      // words before the command
}

var wrappers = map[string]wrapper{
	"time": {valued: "fo"}, "command": {}, "builtin": {}, "nohup": {}, "setsid": {}, "busybox": {}, "toybox": {}, "noglob": {}, "nocorrect": {}, "caffeinate": {valued: "tw"}, "fakeroot": {valued: "lisbf"},
	"exec": {valued: "a"}, "stdbuf": {valued: "ioe", long: []string{"--input", "--output", "--error"}}, "ionice": {valued: "cnp", long: []string{"--class", "--classdata"}},
	"nice": {valued: "n", long: []string{"--adjustment"}}, "sudo": {valued: "ugpCrtThDRU", long: []string{"--user", "--group", "--prompt", "--chdir", "--chroot", "--host", "--role", "--type", "--close-from", "--command-timeout", "--other-user"}},
	"doas": {valued: "uC"}, "pkexec": {long: []string{"--user"}}, "timeout": {valued: "sk", long: []string{"--signal", "--kill-after"}, skip: 1}, "gtimeout": {valued: "sk", skip: 1},
	"chroot": {long: []string{"--userspec", "--groups"}, skip: 1}, "strace": {valued: "eopsaubEOPSUI"}, "ltrace": {valued: "eopsaunxlAFD"}, "taskset": {valued: "c", skip: 1}, "chrt": {valued: "TPDp", skip: 1},
	"setarch": {skip: 1}, "linux32": {}, "linux64": {}, "unshare": {valued: "SG", long: []string{"--root", "--wd", "--setuid", "--setgid"}}, "nsenter": {valued: "tSGr"}, "systemd-run": {valued: "uptMECGr", long: []string{"--unit", "--property", "--uid", "--gid", "--slice", "--setenv"}},
	"systemd-inhibit": {}, "runuser": {valued: "ugGcs"}, "setpriv": {}, "numactl": {valued: "NmCl"}, "prlimit": {}, "catchsegv": {}, "valgrind": {}, "rlwrap": {valued: "CDfHlmMOsS"}, "unbuffer": {}, "xvfb-run": {valued: "aefnpsw"},
	"dbus-run-session": {}, "firejail": {}, "proot": {valued: "rbwqk"}, "watch": {valued: "nq", long: []string{"--interval"}}, "chpst": {valued: "uUbenmodpfsctlaPrx"}, "ssh-agent": {valued: "aEOPt"}, "parallel": {valued: "jIaSn"}, "entr": {}, "direnv": {skip: 2},
	"hyperfine": {valued: "wrmMpcs"}, "perf": {valued: "eopCF", skip: 1}, "coproc": {}, "sg": {skip: 1}, "torify": {}, "torsocks": {}, "proxychains": {valued: "f"}, "proxychains4": {valued: "f"}, "start-stop-daemon": {}, "winpty": {}, "wsl": {valued: "du"}, "poetry": {}, "pipenv": {}, "uv": {}, "npx": {valued: "p"}, "bunx": {}, "pnpx": {},
}

// chdirs are options of wrappers that name the folder in which the command runs.
var chdirs = map[string][]string{"sudo": {"-D", "--chdir", "-R", "--chroot"}, "unshare": {"--wd", "--root"}, "nsenter": {"--wd", "--root", "-w", "-r"}, "systemd-run": {"--working-directory"}, "start-stop-daemon": {"-d", "--chdir"}, "poetry": {"-C", "--directory", "-P", "--project"}, "uv": {"--directory", "--project"}}

// takesNext tells whether an option takes the next word.
func takesNext(w wrapper, o string) bool {
	if strings.HasPrefix(o, "--") {
		return len(o) > 2 && slices.ContainsFunc(w.long, func(l string) bool { return strings.HasPrefix(l, o) })
	}
	// The last letter of a cluster may.
	return len(o) > 1 && strings.Contains(w.valued, o[len(o)-1:]) && !strings.ContainsAny(o[1:len(o)-1], w.valued)
}

// unwrap takes away a wrapper with its options; what is left is the command.
func unwrap(w wrapper, args []string) []string {
	for len(args) > 0 && (strings.HasPrefix(args[0], "-") || args[0] == "") && args[0] != "-" {
		o := args[0]
		args = args[1:]
		if o == "--" {
			break
		}
		if takesNext(w, o) && len(args) > 0 {
			args = args[1:]
		}
	}
	return args[min(w.skip, len(args)):]
}

var assignment = regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_]*=`)

var shells = map[string]bool{"sh": true, "bash": true, "dash": true, "zsh": true, "ksh": true, "mksh": true, "ash": true, "fish": true, "csh": true, "tcsh": true, "rbash": true, "rzsh": true, "pdksh": true, "yash": true, "osh": true, "elvish": true, "xonsh": true, "nu": true}

// scripted are commands that run a language of their own, by the beginning of
// their names; in what they are told may be commands.
var scripted = []string{"python", "pypy", "node", "bun", "deno", "perl", "ruby", "php", "lua", "tclsh", "wish", "expect", "osascript", "pwsh", "powershell", "awk", "gawk", "mawk", "nawk", "sed", "gsed",
	"rscript", "julia", "groovy", "scala", "elixir", "erl", "ghci", "guile", "emacs", "vim", "vi", "nvim", "ex", "ed", "gdb", "lldb", "sqlite3", "psql", "mysql", "cmd", "jshell", "tsx", "ts-node", "irb", "racket", "sbcl", "swift", "clj", "bb", "m4", "bc", "dc", "xdotool", "tmux", "screen", "at", "batch", "crontab"}

func isScripted(name string) bool {
	for _, s := range scripted {
		rest, ok := strings.CutPrefix(name, s)
		if ok && strings.Trim(rest, "0123456789.wdx-") == "" {
			return true
		}
	}
	return false
}

// carried finds what a command starts.
func (x *reader) carried(name string, args []string, in *feed, level int) {
	switch {
	case shells[name]:
		x.shell(name, args, in)
		return
	case isScripted(name):
		x.script(name, args, in)
		return
	}
	if w, ok := wrappers[name]; ok {
		if name == "command" || name == "builtin" || name == "type" {
			if len(args) > 0 && (args[0] == "-v" || args[0] == "-V") {
				return
			}
		}
		x.mixed()
		inner := unwrap(w, args)
		own := args[:len(args)-len(inner)]
		x.touch(own...)
		for _, dir := range eachValue(name, own, chdirs[name]...) {
			x.cd([]string{dir})
		}
		for len(inner) > 0 && assignment.MatchString(literal(inner[0])) { // sudo A=b cmd
			inner = inner[1:]
		}
		if (name == "sudo" || name == "doas") && slices.ContainsFunc(args, func(a string) bool { return a == "-s" || a == "-i" || a == "--shell" || a == "--login" }) && len(inner) > 0 {
			x.maybe(strings.Join(literals(inner), " "))
		}
		switch name {
		case "watch", "parallel", "hyperfine", "runuser", "unbuffer":
			x.maybe(strings.Join(literals(inner), " "))
			for _, a := range args {
				if strings.Contains(a, " ") {
					x.maybe(literal(a))
				}
			}
			x.opaque("it has " + name + " run a command")
		}
		if len(inner) == 0 && (slices.Contains(args, "-s") || slices.Contains(args, "-i") || slices.Contains(args, "--login")) || name == "chroot" && len(inner) == 0 {
			x.shell("sh", nil, in) // sudo -s
			return
		}
		x.started(inner, in, level+1)
		return
	}
	switch name {
	case "env":
		x.mixed()
		x.env(args, in, level)
	case "eval":
		x.mixed()
		line := strings.Join(args, " ")
		if len(args) > 0 {
			x.evaluated(line, "it evaluates a text that is only known when it runs")
		}
	case ".", "source":
		x.mixed()
		x.opaque("it runs a script")
		x.touch(args[min(1, len(args)):]...)
		for _, a := range args[:min(1, len(args))] {
			switch {
			case strings.Contains(a, unknown):
				x.unclear("it runs the output of another command")
			case strings.HasPrefix(a, "/dev/"):
				x.fed(in, "it runs the output of another command")
			}
		}
	case "trap":
		x.mixed()
		if len(args) > 1 && !strings.HasPrefix(args[0], "-") {
			x.evaluated(args[0], "it traps a signal with a text that is only known when it runs")
		}
	case "alias":
		x.mixed()
		for _, a := range args {
			if n, v, ok := strings.Cut(literal(a), "="); ok {
				x.unclear("it gives the command " + n + " another meaning")
				x.maybe(v)
			}
		}
	case "set":
		x.mixed()
		if i := slices.Index(args, "--"); i >= 0 {
			x.soft(args[i+1:])
		}
	case "read", "mapfile", "readarray", "getopts":
		x.mixed()
		for _, a := range args {
			if !strings.HasPrefix(a, "-") {
				x.vars[literal(a)] = []string{unknown}
			}
		}
	case "printf":
		for i, a := range args {
			if a == "-v" && i+1 < len(args) {
				x.mixed()
				x.vars[literal(args[i+1])] = []string{unknown}
			}
		}
	case "unset":
		x.mixed()
		for _, a := range args {
			x.assign(literal(a), []string{""})
		}
	case "export", "readonly", "declare", "typeset", "local":
		x.mixed()
		for _, a := range args {
			if n, v, ok := strings.Cut(literal(a), "="); ok {
				x.assign(n, []string{v})
			}
		}
	case "shopt", "enable", "hash", "bind", "complete", "compgen":
		x.mixed()
		for _, a := range args {
			x.maybe(literal(a))
		}
	case "cd", "chdir":
		x.cd(args)
	case "pushd", "popd":
		x.mixed()
		x.cd(args)
		x.lost = true
	case "xargs":
		x.mixed()
		x.xargs(args, in, level)
	case "find", "gfind", "fd", "fdfind":
		x.find(name, args, level)
	case "ssh", "mosh", "rsh", "autossh", "sshpass", "kubectl", "docker", "podman", "nerdctl", "lxc", "vagrant", "adb", "flock", "script", "su", "nc", "ncat", "socat", "make", "gmake", "just", "tar", "bsdtar", "gtar", "zip", "rsync", "git", "hg", "npm", "yarn", "pnpm", "go", "cargo", "less", "more", "man", "rg", "sort", "split", "ssh-keygen", "curl", "wget", "openssl", "nmap", "tcpdump", "logrotate", "systemctl", "launchctl", "schtasks", "crond", "run-parts", "run0", "doctl", "gcloud", "aws", "az", "heroku", "fly", "ansible", "pssh", "start":
		x.carrier(name, args, in)
	}
	if in != nil && !filters[name] && name != "xargs" {
		// What comes in may be a script to it.
		for _, t := range in.texts {
			if name != "git" || !slices.Contains(args, "-F") {
				x.maybeCode(t)
			}
		}
	}
}

// filters take what comes in as data.
var filters = map[string]bool{"cat": true, "tee": true, "grep": true, "egrep": true, "fgrep": true, "rg": true, "sort": true, "uniq": true, "wc": true, "head": true, "tail": true, "cut": true, "tr": true, "nl": true,
	"less": true, "more": true, "git": true, "gh": true, "jq": true, "diff": true, "cmp": true, "base64": true, "md5sum": true, "sha256sum": true, "column": true, "fold": true, "rev": true, "tac": true, "dd": true, "read": true, "patch": true, "xxd": true, "od": true, "pbcopy": true, "xclip": true}

func literals(f []string) []string {
	out := make([]string, len(f))
	for i := range f {
		out[i] = literal(f[i])
	}
	return out
}

// evaluated reads a text that a shell is given to run.
func (x *reader) evaluated(text, why string) {
	text = literal(text)
	if strings.Contains(text, unknown) {
		x.unclear(why)
		x.mixed()
		x.maybe(strings.ReplaceAll(text, unknown, ""))
		return
	}
	x.nested(text)
}

// fed says that what comes in is run.
func (x *reader) fed(in *feed, why string) {
	if in == nil {
		return
	}
	if in.texts == nil {
		x.unclear(why)
		return
	}
	for _, t := range in.texts {
		x.evaluated(t, why)
	}
}

// shell reads the call of a shell.
func (x *reader) shell(name string, args []string, in *feed) {
	x.mixed()
	defer func(was bool) { x.bash = was }(x.bash)
	x.bash = name == "bash" || name == "rbash" || name == "sh" && x.w.Bash
	takesText, stdin := false, false
	for len(args) > 0 && len(args[0]) > 1 && (args[0][0] == '-' || args[0][0] == '+') {
		o := args[0]
		args = args[1:]
		if o == "--" {
			break
		}
		if strings.HasPrefix(o, "--") {
			switch long, v, _ := strings.Cut(o, "="); long {
			case "--command", "--init-command":
				takesText = true
				if v != "" {
					args = append([]string{v}, args...)
				}
			case "--rcfile", "--init-file":
				x.opaque("it runs a script")
				args = args[min(1, len(args)):]
			}
			if takesText {
				break
			}
			continue
		}
		takesText = takesText || strings.ContainsAny(o, "cC") && o[0] == '-'
		stdin = stdin || strings.Contains(o, "s")
		if strings.ContainsAny(o[len(o)-1:], "oO") && len(args) > 0 {
			args = args[1:]
		}
		if strings.Contains(o, unknown) {
			x.unclear("a shell is started with options that are not known")
		}
	}
	switch {
	case takesText && len(args) > 0:
		x.evaluated(args[0], "it runs a text that is only known when it runs")
		for _, a := range args[1:] { // $0, $1 …
			x.maybe(literal(a))
		}
	case len(args) == 0 || stdin || args[0] == "-" || strings.HasPrefix(args[0], "/dev/"):
		x.r.Shell = x.r.Shell || in == nil
		x.fed(in, "a shell runs the output of another command")
	case strings.HasPrefix(args[0], unknown):
		x.unclear("a shell runs the output of another command")
	default:
		x.opaque("it runs the script " + literal(args[0]))
		x.touch(args[1:]...)
		x.soft(args) // busybox sh and the like
	}
}

// script reads the call of an interpreter: what is never run may stand in its
// code as a text or as words.
func (x *reader) script(name string, args []string, in *feed) {
	x.mixed()
	isSed := name == "sed" || name == "gsed"
	isAwk := strings.HasSuffix(name, "awk")
	touches := func() {
		for _, a := range args {
			x.touchCode(a)
		}
		if in != nil {
			for _, t := range in.texts {
				x.touchCode(t)
			}
		}
	}
	for _, a := range args {
		x.maybeCode(a)
	}
	if in != nil {
		for _, t := range in.texts {
			x.maybeCode(t)
		}
	}
	switch {
	case isSed:
		x.sed(args)
	case isAwk:
		for _, a := range args {
			if strings.ContainsAny(a, "|>"+unknown) || strings.Contains(a, "system") || strings.HasPrefix(a, "-f") || strings.HasPrefix(a, "@") || strings.HasPrefix(a, "-i") || strings.HasPrefix(a, "-l") {
				x.opaque("it runs a program of " + name)
				touches()
			}
		}
	default:
		x.opaque("it runs code of " + name)
		touches()
	}
}

var (
	sedWrites = regexp.MustCompile(`(?:^|[^A-Za-z])[wW]\s+([^\s;}]+)|/[a-zA-Z0-9]*w\s+([^\s;}]+)`)
	sedRuns   = regexp.MustCompile(`(?:^|[;{}\n]|[0-9$/,!]|\s)\s*e(?:\s|$|;)|[^A-Za-z\\][gpiImM0-9]*e[gpiImM0-9]*$|s(.).*[^\w\s][a-zA-Z0-9]*e[a-zA-Z0-9]*(?:$|[;}\n])`)
)

func (x *reader) sed(args []string) {
	inPlace := slices.ContainsFunc(args, func(a string) bool {
		return strings.HasPrefix(a, "-i") || len(a) > 2 && strings.HasPrefix("--in-place", a) || strings.HasPrefix(a, "--in") || strings.HasPrefix(a, "-") && !strings.HasPrefix(a, "--") && strings.Contains(a, "i")
	})
	// The first word is the script, unless an option brings one.
	script := slices.ContainsFunc(args, func(a string) bool {
		return strings.HasPrefix(a, "-") && !strings.HasPrefix(a, "--") && strings.ContainsAny(a, "ef") || strings.HasPrefix(a, "--expression") || strings.HasPrefix(a, "--file")
	})
	value := false // of an option
	for _, a := range args {
		a = literal(a)
		isValue := value
		value = a == "-e" || a == "-f" || a == "--expression" || a == "--file" || a == "-l" || a == "--line-length"
		if strings.Contains(a, unknown) || strings.HasPrefix(a, "-f") || strings.HasPrefix(a, "--file") {
			x.opaque("it runs a script of sed")
		}
		for i := range a {
			if a[i] == 'w' || a[i] == 'W' { // what stands behind it may be a file
				file, _, _ := strings.Cut(strings.TrimLeft(a[i+1:], " \t"), "\n")
				x.touchFile(file)
				x.touchFile(strings.TrimRight(file, "} \t"))
			}
		}
		if m := sedWrites.FindAllStringSubmatch(a, -1); m != nil {
			for _, w := range m {
				x.writes(w[1] + w[2])
			}
		}
		if sedRuns.MatchString(a) {
			x.risky("it has sed run commands")
			x.opaque("it may have sed run commands")
		}
		if inPlace && script && !isValue && !strings.HasPrefix(a, "-") {
			x.writes(a)
		}
		script = script || !strings.HasPrefix(a, "-")
	}
}

// env reads env [-i] [A=b] COMMAND.
func (x *reader) env(args []string, in *feed, level int) {
	for len(args) > 0 {
		a := args[0]
		switch {
		case a == "-S" || a == "--split-string":
			if len(args) > 1 {
				x.evaluated(strings.Join(args[1:], " "), "it runs a text that is only known when it runs")
			}
			return
		case strings.HasPrefix(a, "--split-string="), strings.HasPrefix(a, "-") && !strings.HasPrefix(a, "--") && strings.Contains(a, "S"):
			_, text, _ := strings.Cut(a, "S")
			if strings.HasPrefix(a, "--") {
				_, text, _ = strings.Cut(a, "=")
			}
			x.evaluated(strings.Join(append([]string{text}, args[1:]...), " "), "it runs a text that is only known when it runs")
			return
		case strings.HasPrefix(a, "-"):
			n := 1
			if takesNext(wrapper{valued: "uC", long: []string{"--unset", "--chdir"}}, a) {
				n = min(2, len(args))
			}
			x.touch(args[:n]...)
			for _, dir := range eachValue("env", args[:n], "-C", "--chdir") {
				x.cd([]string{dir})
				x.lost = true
			}
			args = args[n:]
			continue
		case assignment.MatchString(literal(a)):
			n, v, _ := strings.Cut(literal(a), "=")
			x.assign(n, []string{v})
			if runsValue[n] || strings.HasPrefix(n, "GIT_") || strings.HasPrefix(n, "LD_") {
				x.risky("it sets " + n + ", which decides what other programs run")
				x.maybe(v)
			}
		default:
			x.started(args, in, level+1)
			return
		}
		args = args[1:]
	}
}

// xargs runs a command with what comes in as further words.
func (x *reader) xargs(args []string, in *feed, level int) {
	replace := ""
	for i, a := range args {
		switch {
		case a == "-I" && i+1 < len(args):
			replace = args[i+1]
		case strings.HasPrefix(a, "-I") && len(a) > 2:
			replace = a[2:]
		case strings.HasPrefix(a, "--replace="):
			replace = strings.TrimPrefix(a, "--replace=")
		case a == "-i" || a == "--replace":
			replace = "{}"
		}
		if !strings.HasPrefix(a, "-") && a != replace {
			break
		}
	}
	inner := unwrap(wrapper{valued: "InPLdsEa", long: []string{"--max-args", "--max-procs", "--max-lines", "--delimiter", "--max-chars", "--arg-file"}}, args)
	if len(inner) == 0 {
		return // echo
	}
	more := [][]string{{unknown}}
	if in != nil && in.texts != nil {
		more = nil
		for _, t := range in.texts {
			more = append(more, strings.FieldsFunc(t, func(r rune) bool { return strings.ContainsRune(" \t\n\"'", r) || string(r) == unknown }))
		}
	}
	for _, words := range more {
		f := slices.Clone(inner)
		if replace != "" {
			for i := range f {
				f[i] = strings.ReplaceAll(f[i], replace, strings.Join(words, " "))
			}
		} else {
			f = append(f, words...)
		}
		x.started(f, &feed{}, level+1)
	}
}

// find reads its actions.
func (x *reader) find(name string, args []string, level int) {
	var starts []string
	i := 0
	for ; i < len(args); i++ {
		a := args[i]
		if a == "-H" || a == "-L" || a == "-P" {
			continue
		}
		if strings.HasPrefix(a, "-") || a == "(" || a == "!" {
			break
		}
		starts = append(starts, a)
	}
	if len(starts) == 0 {
		starts = []string{"."}
	}
	for ; i < len(args); i++ {
		switch a := args[i]; a {
		case "-delete":
			x.mixed()
			x.risky("it removes all files it finds")
			x.opaque("it removes files it finds")
			x.writes(starts...)
			for _, s := range starts {
				if why := x.vital(s); why != "" {
					x.forbid("it removes " + why + " and all that is in it")
				}
			}
		case "-exec", "-execdir", "-ok", "-okdir", "-x", "-X", "--exec", "--exec-batch":
			x.mixed()
			end := i + 1
			for end < len(args) && args[end] != ";" && args[end] != "+" {
				end++
			}
			inner := args[i+1 : end]
			for _, s := range starts {
				f := slices.Clone(inner)
				for j := range f {
					f[j] = strings.ReplaceAll(f[j], "{}", s)
				}
				if name == "fd" || name == "fdfind" {
					f = append(f, unknown)
				}
				x.started(f, &feed{}, level+1)
			}
			x.opaque("it runs a command for each file it finds")
			i = end
		case "-fprint", "-fprint0", "-fls", "-fprintf":
			x.mixed()
			if i+1 < len(args) {
				x.writes(args[i+1])
			}
		}
	}
}
