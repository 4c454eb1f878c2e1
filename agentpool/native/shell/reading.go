package shell

import (
	"strings"
)

// This file recognises commands that only read. It knows them by name, each of
// their options by letter, and takes nothing else.

// readers are programs that print what is in the files they name. The letters
// are options without a value; a letter before ":" takes one, which is a number.
// lead is the number of words before the files.
var readers = map[string]struct {
	flags, numbers string
	long           []string
	lead           int
	data           bool // its words are data, not files
}{
	"cat": {flags: "AbeEnstTuv"}, "head": {flags: "qv", numbers: "nc"}, "tail": {flags: "qv", numbers: "nc"}, "wc": {flags: "clLmw"}, "nl": {}, "tac": {},
	"ls":    {flags: "aAbBcdfFghilmnNopqQrsStuUvxXZ1", long: []string{"--all", "--almost-all", "--human-readable", "--color=never", "--color=auto", "--group-directories-first"}},
	"grep":  {flags: "cEFGhHilLnoqsvwxyr", numbers: "ABCm", lead: 1, long: []string{"--count", "--ignore-case", "--line-number", "--recursive", "--files-with-matches", "--color=never", "--word-regexp"}},
	"egrep": {flags: "chHilLnoqsvwxyr", numbers: "ABCm", lead: 1}, "fgrep": {flags: "chHilLnoqsvwxyr", numbers: "ABCm", lead: 1},
	"stat": {flags: "t"}, "cut": {}, "cmp": {flags: "bls"}, "md5sum": {}, "sha1sum": {}, "sha256sum": {}, "basename": {data: true}, "dirname": {data: true}, "realpath": {flags: "em"},
	"pwd": {data: true}, "echo": {flags: "n", data: true}, "true": {data: true}, "false": {data: true}, "whoami": {data: true}, "uname": {flags: "amnrsv", data: true},
}

// builtin are commands that are the shell's own, so that no program is started.
var builtin = map[string]bool{"pwd": true, "echo": true, "true": true, "false": true, "cd": true}

// reading tells whether a part only reads, and what.
func (p part) reading() (files []string, ok bool) {
	if p.globs || p.dir == "" || len(p.words) == 0 {
		return nil, false
	}
	if p.words[0] == "cd" {
		if len(p.words) != 2 || p.words[1] == "" || p.words[1][0] == '-' {
			return nil, false
		}
		return (&reader{dirs: []string{p.dir}}).at(p.words[1]), true
	}
	spec, ok := readers[p.words[0]]
	if !ok {
		return nil, false
	}
	lead := spec.lead
	ended := false
	for i := 1; i < len(p.words); i++ {
		w := p.words[i]
		switch {
		case strings.Contains(w, unknown):
			return nil, false
		case !ended && w == "--":
			ended = true
		case !ended && strings.HasPrefix(w, "--"):
			found := false
			for _, l := range spec.long {
				found = found || l == w
			}
			if !found && !(spec.data && p.words[0] == "echo") {
				return nil, false
			}
		case !ended && len(w) > 1 && w[0] == '-':
			if p.words[0] == "echo" {
				continue
			}
			if strings.Trim(w[1:], "0123456789") == "" && strings.Contains(spec.numbers, "n") {
				continue // head -5
			}
			letters := w[1:]
			for len(letters) > 0 && strings.Contains(spec.flags, letters[:1]) {
				letters = letters[1:]
			}
			switch {
			case letters == "":
			case strings.Contains(spec.numbers, letters[:1]) && spec.numbers != "":
				value := letters[1:]
				if value == "" {
					if i++; i >= len(p.words) {
						return nil, false
					}
					value = p.words[i]
				}
				if value = strings.TrimPrefix(value, "+"); value == "" || strings.Trim(value, "0123456789") != "" {
					return nil, false
				}
			default:
				return nil, false
			}
		case spec.data:
		case w == "-" || w == "":
			return nil, false
		case lead > 0:
			lead--
		default:
			all := (&reader{dirs: []string{p.dir}}).at(w)
			files = append(files, all...)
		}
	}
	if spec.lead > 0 && lead > 0 {
		return nil, false
	}
	if !spec.data && len(files) == 0 {
		files = []string{p.dir} // ls; of a filter it is harmless
	}
	return files, true
}
