package shell

import (
	"slices"
	"strings"
)

// This file says which files a command may change because it names them and is
// not known to only read. It is the net under the rules of what commands plainly
// change, which know programs and options by name.

// looking are commands that change no file, whatever their words are.
var looking = set(`cat tac head tail wc nl ls dir vdir grep egrep fgrep zgrep rg ag ack stat file cut tr cmp comm diff join paste fold fmt expand rev column od hexdump strings
	md5sum sha1sum sha224sum sha256sum sha384sum sha512sum b2sum cksum sum md5 shasum basename dirname realpath readlink pwd cd chdir pushd popd echo printf true false : test [ which type whatis apropos man
	du df jq more zcat bat id whoami groups uname ps pgrep printenv seq sleep wait jobs exit return shift break continue set unset export readonly declare typeset local read mapfile readarray getopts
	alias unalias trap hash ulimit umask times shellcheck hadolint yamllint actionlint`)

// lookingBut change only what some of their options, or later words, name, which
// changes knows.
var lookingBut = set(`sort shuf uniq tree less`)

// lookingGit are the commands of git that change no file of the working tree that
// they name.
var lookingGit = set(`status log diff show branch blame annotate add stage commit ls-files ls-tree rev-parse describe shortlog tag remote grep merge-base rev-list cat-file count-objects check-ignore check-attr reflog fetch push help version`)

func set(names string) map[string]bool {
	all := map[string]bool{}
	for _, n := range strings.Fields(names) {
		all[n] = true
	}
	return all
}

// looks tells whether what a command names is not changed by it, or is judged
// elsewhere: where a command starts another one, or runs code.
func looks(name string, args []string) bool {
	if _, ok := wrappers[name]; ok || looking[name] || lookingBut[name] || shells[name] || isScripted(name) {
		return true
	}
	switch name {
	case "env", "xargs", "eval", ".", "source":
		return true
	case "find", "gfind", "fd", "fdfind":
		return !slices.ContainsFunc(args, func(a string) bool {
			return strings.HasPrefix(a, "-exec") || strings.HasPrefix(a, "-ok") || strings.HasPrefix(a, "-f") || strings.HasPrefix(a, "--exec") || a == "-delete" || a == "-x" || a == "-X"
		})
	case "git":
		return len(args) > 0 && lookingGit[args[0]]
	}
	return false
}

// touch notes that the files named by words may be changed.
func (x *reader) touch(words ...string) {
	for _, w := range words {
		for _, v := range append(attached(w), w) {
			x.touchFile(v)
			for _, piece := range strings.FieldsFunc(v, func(r rune) bool { return strings.ContainsRune(":,", r) }) {
				if piece != v || strings.HasPrefix(v, "@") {
					x.touchFile(piece)
				}
			}
		}
	}
}

func (x *reader) touchFile(name string) {
	name = strings.TrimPrefix(name, "@") // curl -d @file
	if name == "" || name == unknown || len(name) > 4096 || len(x.r.Touches) > 4096 {
		return
	}
	x.r.Touches = append(x.r.Touches, x.at(name)...)
}

// touchCode notes the files that code of another language names: in texts, and
// as words that can hardly be anything else.
func (x *reader) touchCode(code string) {
	if !strings.ContainsAny(code, " \t\n\"'`(;<>|") {
		x.touch(code)
		return
	}
	words := func(s, more string) []string {
		return strings.FieldsFunc(s, func(r rune) bool { return strings.ContainsRune(" \t\n\"'`;<>|&"+more, r) })
	}
	for _, s := range strs.FindAllString(code, 256) {
		x.touch(words(s, "(){}[]")...)
	}
	for _, w := range words(code, "") {
		if strings.HasPrefix(w, ".") || strings.Contains(w, "/") {
			x.touch(w)
		}
	}
	if !strings.ContainsAny(code, "\n\"'`(;<>|") {
		x.touchFile(code) // a name with blanks in it
	}
}
