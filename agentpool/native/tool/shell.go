package tool

import (
	"path"
	"regexp"
	"slices"
	"strings"
)

// This file judges a command by its text, for two short lists: what is never
// run, and what is asked about in every mode. It is a floor against accidents,
// not a wall: whoever allows commands allows programs to do anything.

// simple is one command of a command line: its words without quotes, and the
// files it writes to by ">".
type simple struct {
	words  []string
	writes []string
}

const maxNesting = 4 // sh -c 'sh -c "…"'

// splitShell cuts a command line into simple commands, as far as that can be
// done without running it. Expansions stay as they are written.
func splitShell(line string) []simple {
	var all []simple
	var cur simple
	var word strings.Builder
	inWord, redirect := false, false
	flush := func() {
		if inWord {
			if redirect {
				cur.writes = append(cur.writes, word.String())
			} else {
				cur.words = append(cur.words, word.String())
			}
			redirect = false
		}
		word.Reset()
		inWord = false
	}
	end := func() {
		flush()
		redirect = false
		if len(cur.words) > 0 || len(cur.writes) > 0 {
			all = append(all, cur)
		}
		cur = simple{}
	}
	line = strings.ReplaceAll(line, "\\\n", "")
	for i := 0; i < len(line); i++ {
		c := line[i]
		switch c {
		case '\\':
			if i++; i < len(line) {
				word.WriteByte(line[i])
				inWord = true
			}
		case '\'':
			inWord = true
			for i++; i < len(line) && line[i] != '\''; i++ {
				word.WriteByte(line[i])
			}
		case '"':
			inWord = true
			for i++; i < len(line) && line[i] != '"'; i++ {
				if line[i] == '\\' && i+1 < len(line) && strings.IndexByte("\"\\$`", line[i+1]) >= 0 {
					i++
				}
				word.WriteByte(line[i])
			}
			// What is substituted inside of quotes is run all the same.
			for _, s := range substitutions(word.String()) {
				all = append(all, splitShell(s)...)
			}
		case ' ', '\t':
			flush()
		case '#':
			if inWord {
				word.WriteByte(c)
				break
			}
			for i < len(line) && line[i] != '\n' {
				i++
			}
			end()
		case '$':
			if i+1 < len(line) && line[i+1] == '(' {
				end()
				i++
				break
			}
			if i+1 < len(line) && line[i+1] == '{' {
				j := strings.IndexByte(line[i:], '}')
				if j > 0 {
					word.WriteString(line[i : i+j+1])
					inWord = true
					i += j
					break
				}
			}
			word.WriteByte(c)
			inWord = true
		case '>':
			if inWord && strings.Trim(word.String(), "0123456789") == "" {
				word.Reset() // 2>file
				inWord = false
			}
			flush()
			if i+1 < len(line) && (line[i+1] == '>' || line[i+1] == '|') {
				i++
			} else if i+1 < len(line) && line[i+1] == '&' {
				i++
			}
			redirect = true
		case '<':
			flush()
		case ';', '|', '\n', '(', ')', '`':
			end()
		case '&':
			if i+1 < len(line) && line[i+1] == '>' {
				break // &>file: the next turn takes the redirection
			}
			end()
		default:
			word.WriteByte(c)
			inWord = true
		}
	}
	end()
	for i := range all {
		all[i].words = unwrap(all[i].words)
	}
	return all
}

// substitutions returns the commands in $(…) and `…` of a quoted word.
func substitutions(s string) []string {
	var all []string
	for {
		i := strings.Index(s, "$(")
		j := strings.IndexByte(s, '`')
		switch {
		case i >= 0 && (j < 0 || i < j):
			rest := s[i+2:]
			k := strings.LastIndexByte(rest, ')')
			if k < 0 {
				return append(all, rest)
			}
			return append(all, rest[:k])
		case j >= 0:
			body, rest, _ := strings.Cut(s[j+1:], "`")
			all = append(all, body)
			s = rest
		default:
			return all
		}
	}
}

// assignment matches FOO=bar before a command.
var assignment = regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_]*=`)

// wrapper is a command that runs the command after it.
type wrapper struct {
	valued string // its one-letter options that take a value
	skip   int    // words before the command
}

var wrappers = map[string]wrapper{
	"{": {}, "}": {}, "!": {}, "if": {}, "then": {}, "else": {}, "elif": {}, "do": {}, "while": {}, "until": {},
	"time": {}, "command": {}, "builtin": {}, "nohup": {}, "setsid": {}, "busybox": {},
	"exec": {valued: "a"}, "stdbuf": {valued: "ioe"}, "ionice": {valued: "cnp"}, "nice": {valued: "n"},
	"sudo": {valued: "ugpCrtThDRU"}, "doas": {valued: "uC"}, "env": {valued: "uC"}, "xargs": {valued: "InPLdsEa"},
	"timeout": {valued: "sk", skip: 1}, "chroot": {skip: 1},
}

// unwrap takes away what stands before the command proper: keywords,
// assignments, sudo, env, nice and the like with their options.
func unwrap(words []string) []string {
	for len(words) > 0 {
		if assignment.MatchString(words[0]) {
			words = words[1:]
			continue
		}
		w, ok := wrappers[path.Base(words[0])]
		if !ok {
			break
		}
		words = words[1:]
		for len(words) > 0 && strings.HasPrefix(words[0], "-") {
			option := words[0]
			words = words[1:]
			if len(option) == 2 && strings.Contains(w.valued, option[1:]) && len(words) > 0 {
				words = words[1:]
			}
		}
		words = words[min(w.skip, len(words)):]
	}
	return words
}

// forbidden returns why a command is never run, "" if it may be.
func forbidden(command string) string { return forbiddenAt(command, 0) }

func forbiddenAt(command string, depth int) string {
	if isForkBomb(command) {
		return "it is a fork bomb"
	}
	for _, c := range splitShell(command) {
		for _, file := range c.writes {
			if isBlockDevice(file) {
				return "it overwrites the device " + file
			}
		}
		if len(c.words) == 0 {
			continue
		}
		name, args := strings.ToLower(path.Base(c.words[0])), c.words[1:]
		name = strings.TrimSuffix(name, ".exe")
		switch name {
		case "sh", "bash", "dash", "zsh", "ksh", "fish", "su":
			for i, a := range args {
				if strings.HasPrefix(a, "-") && !strings.HasPrefix(a, "--") && strings.HasSuffix(a, "c") && i+1 < len(args) && depth < maxNesting {
					if why := forbiddenAt(args[i+1], depth+1); why != "" {
						return why
					}
				}
			}
		case "eval":
			if depth < maxNesting {
				if why := forbiddenAt(strings.Join(args, " "), depth+1); why != "" {
					return why
				}
			}
		case "rm":
			if isRecursive(args) {
				for _, a := range args {
					if isVital(a) {
						return "it removes " + a + " and all that is in it"
					}
				}
			}
			if slices.Contains(args, "--no-preserve-root") {
				return "it removes the root folder"
			}
		case "dd":
			for _, a := range args {
				if file, ok := strings.CutPrefix(a, "of="); ok && isBlockDevice(file) {
					return "it overwrites the device " + file
				}
			}
		case "tee", "cp", "shred", "wipefs", "blkdiscard", "sgdisk":
			for _, a := range args {
				if isBlockDevice(a) && (name != "cp" || a == args[len(args)-1]) {
					return "it overwrites the device " + a
				}
			}
		case "shutdown", "poweroff", "halt", "reboot":
			return "it stops the machine"
		case "systemctl":
			for _, a := range args {
				if slices.Contains([]string{"poweroff", "reboot", "halt", "kexec", "hibernate", "suspend"}, a) {
					return "it stops the machine"
				}
			}
		case "init", "telinit":
			if len(args) > 0 && (args[0] == "0" || args[0] == "6") {
				return "it stops the machine"
			}
		case "kill":
			if len(args) > 1 && args[len(args)-1] == "-1" {
				return "it ends every process"
			}
		case "format", "format.com":
			if len(args) > 0 && len(args[0]) == 2 && args[0][1] == ':' {
				return "it formats " + args[0]
			}
		case "newfs", "mkswap", "diskpart":
			return "it formats a disk"
		case "find":
			if len(args) > 0 && isVital(args[0]) && slices.Contains(args, "-delete") {
				return "it removes " + args[0] + " and all that is in it"
			}
		}
		if name == "mkfs" || strings.HasPrefix(name, "mkfs.") {
			return "it formats a disk"
		}
	}
	return ""
}

// isForkBomb finds X(){ X|X& };X with any name X.
func isForkBomb(command string) bool {
	s := strings.Join(strings.Fields(command), "")
	for i := strings.Index(s, "(){"); i >= 0; {
		j := i
		for j > 0 && strings.IndexByte(";&|{}()", s[j-1]) < 0 {
			j--
		}
		name := s[j:i]
		if name != "" && strings.HasPrefix(s[i+3:], name+"|"+name+"&") {
			return true
		}
		k := strings.Index(s[i+3:], "(){")
		if k < 0 {
			break
		}
		i += 3 + k
	}
	return false
}

func isRecursive(args []string) bool {
	for _, a := range args {
		if a == "--recursive" || strings.HasPrefix(a, "-") && !strings.HasPrefix(a, "--") && strings.ContainsAny(a, "rR") {
			return true
		}
	}
	return false
}

// isVital tells whether a recursive removal of the path would ruin a machine
// or a home.
func isVital(arg string) bool {
	if arg == "" || strings.HasPrefix(arg, "-") {
		return false
	}
	arg = strings.TrimSuffix(arg, "*")
	if arg == "" {
		return false
	}
	p := path.Clean(strings.ReplaceAll(arg, "${HOME}", "$HOME"))
	switch p {
	case "/", "~", "$HOME", "/bin", "/boot", "/dev", "/etc", "/home", "/lib", "/lib32", "/lib64", "/opt", "/proc", "/root", "/sbin", "/srv", "/sys", "/usr",
		"/var", "/Applications", "/Library", "/System", "/Users", "/private", "/Volumes", "C:", "c:", `C:\`, `c:\`:
		return true
	}
	return false
}

var blockDevice = regexp.MustCompile(`^/dev/(sd[a-z]|hd[a-z]|vd[a-z]|xvd[a-z]|nvme[0-9]|mmcblk[0-9]|r?disk[0-9]|dm-[0-9]|md[0-9]|loop[0-9]|mapper/.)`)

func isBlockDevice(file string) bool { return blockDevice.MatchString(path.Clean(file)) }

// writers are commands that change the files they name.
var writers = map[string]bool{
	"tee": true, "cp": true, "mv": true, "install": true, "ln": true, "rm": true, "truncate": true, "chmod": true, "chown": true,
	"dd": true, "touch": true, "unlink": true, "rsync": true, "patch": true,
}

// touches returns why a command is asked about in every mode: it plainly
// changes a sensitive file. "" if it does not.
func (e *Env) touches(command string) string { return e.touchesAt(command, 0) }

func (e *Env) touchesAt(command string, depth int) string {
	for _, c := range splitShell(command) {
		files := c.writes
		if len(c.words) > 0 {
			name, args := path.Base(c.words[0]), c.words[1:]
			inPlace := slices.Contains([]string{"sed", "perl", "ruby"}, name) && slices.ContainsFunc(args, func(a string) bool {
				return strings.HasPrefix(a, "-i") || strings.HasPrefix(a, "--in-place") || a == "-pi"
			})
			if writers[name] || inPlace {
				for _, a := range args {
					files = append(files, strings.TrimPrefix(a, "of="))
				}
			}
			if slices.Contains([]string{"sh", "bash", "dash", "zsh", "ksh"}, name) && depth < maxNesting {
				for i, a := range args {
					if strings.HasPrefix(a, "-") && strings.HasSuffix(a, "c") && i+1 < len(args) {
						if why := e.touchesAt(args[i+1], depth+1); why != "" {
							return why
						}
					}
				}
			}
		}
		for _, file := range files {
			if file == "" || strings.HasPrefix(file, "-") || strings.HasPrefix(file, "/dev/") {
				continue
			}
			if p, err := e.resolve(file); err == nil {
				if why := e.sensitive(p); why != "" {
					return why
				}
			}
		}
	}
	return ""
}
