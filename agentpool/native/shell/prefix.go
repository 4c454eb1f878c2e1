package shell

import (
	"slices"
	"strings"
)

// This file says which beginnings of commands can be allowed as such.

// scripts are commands whose next word is the name of a task: it belongs to the
// prefix, as tasks have nothing in common.
var scripts = map[string]string{"npm": "run", "pnpm": "run", "yarn": "run"}

// tasks are commands whose words are names of things to do, or values for what
// does them: a word with anything else in it may be a setting, or a command.
var tasks = map[string]bool{"make": true, "just": true, "ninja": true, "rake": true, "cmake": true, "mvn": true, "gradle": true, "dotnet": true}

// PrefixOf is the beginning of a simple command that can be allowed for all that
// begin so, nil if there is none, or if what follows it is not known to be harmless.
func PrefixOf(words []string) []string {
	if len(words) == 0 || slices.ContainsFunc(words, hasPattern) {
		return nil // a pattern may come to be an option
	}
	for _, b := range beginnings[words[0]] {
		p := append([]string{words[0]}, strings.Fields(b.verbs)...)
		if !begins(words, p) {
			continue
		}
		if b.verbs == "" && tasks[words[0]] || scripts[words[0]] != "" && scripts[words[0]] == b.verbs {
			// make TARGET, npm run SCRIPT: a word that is no option and no setting
			if len(words) <= len(p) || !isTask(words[len(p)]) {
				return nil
			}
			p = append(p, words[len(p)])
		}
		if !follows(words[0], b.follow, words[len(p):]) {
			return nil
		}
		return p[:len(p):len(p)]
	}
	return nil
}

// tame tells whether a word that is handed on to a program is none that what
// runs behind it could take for a setting or, as old ones quote badly, for a command.
func tame(name, w string) bool {
	more := ""
	switch {
	case tasks[name]:
		more = "/"
	case scripts[name] != "":
		more = "/@=,"
	default:
		return true
	}
	return !strings.ContainsFunc(w, func(r rune) bool { return !strings.ContainsRune(taskRunes+more, r) })
}

const taskRunes = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_.:+-"

func isTask(w string) bool {
	return w != "" && len(w) < 60 && !strings.HasPrefix(w, "-") && !strings.ContainsFunc(w, func(r rune) bool { return !strings.ContainsRune(taskRunes, r) })
}

func begins(words, prefix []string) bool {
	return len(words) >= len(prefix) && slices.Equal(words[:len(prefix)], prefix)
}

// Covered tells whether each part of a plain command that is not risky is
// allowed: by a prefix, word for word, or exactly.
func (r *Report) Covered(prefixes, exact [][]string) bool {
	if r.Parts == nil || r.Risky != "" || r.Unclear != "" || r.Forbidden != "" {
		return false
	}
	for _, p := range r.Parts {
		ok := slices.ContainsFunc(exact, func(e []string) bool { return slices.Equal(p, e) }) ||
			slices.ContainsFunc(prefixes, func(e []string) bool {
				// A prefix is one that could have been offered for this very part.
				return len(e) > 0 && begins(p, e) && slices.Equal(PrefixOf(p), e)
			})
		if !ok {
			return false
		}
	}
	return true
}
