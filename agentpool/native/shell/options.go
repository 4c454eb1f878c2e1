package shell

import (
	"slices"
	"strings"
)

// This file reads options in every way in which programs let them be written:
// letters in a cluster, values attached or in the next word, long names cut short,
// one dash or two.

// eachValue gives every text that may be the value of one of the options. An
// option is named "-o", "--output" or, of programs that have long names behind one
// dash, "-out". What could be read in several ways is given in all of them.
func eachValue(name string, args []string, options ...string) (all []string) {
	letters := !oneDash[name]
	for i, a := range args {
		next := func() {
			if i+1 < len(args) {
				all = append(all, args[i+1])
			}
		}
		for _, o := range options {
			switch option, value, attached := strings.Cut(a, "="); {
			case len(a) < 2 || a[0] != '-':
			case len(o) > 2 || !letters: // --output, --outp, -out, --out
				double := strings.HasPrefix(o, "--") && len(option) > 2 && strings.HasPrefix(o, option)
				single := !strings.HasPrefix(o, "--") && (option == o || option == "-"+o)
				if (double || single) && attached {
					all = append(all, value)
				} else if double || single {
					next()
				}
			case a[1] != '-': // -o, -xo, -ofile, -xofile
				for j := 1; j < len(a); j++ {
					if a[j] != o[1] {
						continue
					}
					rest := a[j+1:]
					if rest == "" {
						next()
						continue
					}
					all = append(all, rest, strings.TrimPrefix(rest, "="))
				}
			case option == "-"+o && attached: // --o=file of programs for which dashes are the same
				all = append(all, value)
			case option == "-"+o:
				next()
			}
		}
	}
	return all
}

// attached gives what stands in a word beside the name of an option or of a
// setting: behind "=", and behind every letter that may be one.
func attached(word string) (all []string) {
	name, value, ok := strings.Cut(word, "=")
	for ok {
		all = append(all, value)
		_, value, ok = strings.Cut(value, "=")
	}
	if len(name) < 3 || name[0] != '-' || name[1] == '-' {
		return all
	}
	for i := 2; i < len(word) && isLetter(word[i-1]); i++ {
		all = append(all, word[i:])
	}
	return all
}

func isLetter(c byte) bool {
	return c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= '0' && c <= '9'
}

// oneDash are programs for which one dash and two are the same.
var oneDash = map[string]bool{"go": true, "gofmt": true, "goimports": true, "staticcheck": true, "govulncheck": true, "shfmt": true}

// dashed writes the options of such a program with one dash.
func dashed(name string, args []string) []string {
	if !oneDash[name] {
		return args
	}
	out := slices.Clone(args)
	for i, a := range out {
		if len(a) > 2 && strings.HasPrefix(a, "--") {
			out[i] = a[1:]
		}
	}
	return out
}
