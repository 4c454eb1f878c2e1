package shell

import (
	"slices"
	"strings"
)

// This file says which beginnings of commands can be allowed as such.

// prefixes are the commands of which all that begin alike do alike, with the
// words that may follow; nil: the name alone. What is not here can be
// allowed exactly as it stands and not by its beginning: an interpreter, a
// wrapper or a program nobody knows may do anything with its words.
var prefixes = map[string][]string{
	"git":   {"status", "log", "diff", "show", "branch", "blame", "add", "commit", "ls-files", "ls-tree", "rev-parse", "describe", "shortlog", "tag", "remote", "stash list", "stash show", "grep", "merge-base", "rev-list", "cat-file", "count-objects", "check-ignore"},
	"go":    {"build", "test", "vet", "fmt", "doc", "list", "version", "env", "mod tidy", "mod download", "mod verify", "mod graph", "mod why", "work sync"},
	"cargo": {"build", "check", "test", "clippy", "fmt", "doc", "tree", "metadata", "bench", "nextest"},
	"npm":   {"test", "run", "ls", "list", "outdated", "audit", "view", "why", "start"}, "pnpm": {"test", "run", "ls", "list", "outdated", "audit", "why"}, "yarn": {"test", "run", "list", "outdated", "why"},
	"make": {""}, "just": {""}, "ninja": {""}, "cmake": {"--build"}, "bazel": {"build", "test", "query"}, "gradle": {"build", "test", "check"}, "mvn": {"compile", "test", "verify", "package"},
	"dotnet": {"build", "test", "restore", "format"}, "swift": {"build", "test"}, "zig": {"build", "test", "fmt"}, "mix": {"compile", "test", "format"}, "rake": {""}, "bundle": {"check", "list"},
	"pytest": nil, "tox": nil, "nox": nil, "mypy": nil, "ruff": {"check", "format"}, "black": nil, "isort": nil, "flake8": nil, "pylint": nil, "pyright": nil, "uv": {"sync", "lock"},
	"eslint": nil, "prettier": nil, "tsc": nil, "jest": nil, "vitest": nil, "mocha": nil, "biome": {"check", "lint", "format"},
	"gofmt": nil, "goimports": nil, "golangci-lint": {"run"}, "staticcheck": nil, "govulncheck": nil, "rustfmt": nil, "clang-format": nil, "shellcheck": nil, "shfmt": nil, "hadolint": nil, "yamllint": nil, "markdownlint": nil, "rubocop": nil, "phpunit": nil, "phpstan": nil, "ctest": nil,
	"ls": nil, "cat": nil, "head": nil, "tail": nil, "wc": nil, "grep": nil, "egrep": nil, "fgrep": nil, "rg": nil, "file": nil, "stat": nil, "du": nil, "df": nil, "tree": nil, "diff": nil, "cmp": nil, "jq": nil, "cut": nil, "nl": nil, "pwd": nil, "which": nil, "uname": nil, "whoami": nil, "id": nil, "ps": nil, "echo": nil, "mkdir": nil,
	"docker": {"ps", "images", "logs", "inspect", "version", "info"}, "gh": {"pr view", "pr list", "pr diff", "pr status", "pr checks", "issue view", "issue list", "run view", "run list"},
}

// scripts are commands whose next word is the name of a task: it belongs to the
// prefix, as tasks have nothing in common.
var scripts = map[string]string{"npm": "run", "pnpm": "run", "yarn": "run"}

// tasks are commands of which each word is one more thing to do.
var tasks = map[string]bool{"make": true, "just": true, "ninja": true, "rake": true, "mvn": true, "gradle": true, "bazel": true}

func onlyOptions(words []string) bool {
	return !slices.ContainsFunc(words, func(w string) bool { return !strings.HasPrefix(w, "-") })
}

// PrefixOf is the beginning of a simple command that can be allowed for all that
// begin so, nil if there is none.
func PrefixOf(words []string) []string {
	if len(words) == 0 || slices.ContainsFunc(words, hasPattern) {
		return nil // a pattern may come to be an option
	}
	verbs, ok := prefixes[words[0]]
	if !ok {
		return nil
	}
	if verbs == nil {
		return words[:1:1]
	}
	for _, v := range verbs {
		if v == "" { // make TARGET: a word that is no option and no setting
			if len(words) > 1 && isTask(words[1]) && onlyOptions(words[2:]) {
				return words[:2:2]
			}
			continue
		}
		p := append([]string{words[0]}, strings.Fields(v)...)
		if !begins(words, p) || tasks[words[0]] && !onlyOptions(words[len(p):]) {
			continue
		}
		if scripts[words[0]] == v {
			if len(words) <= len(p) || !isTask(words[len(p)]) {
				return nil
			}
			p = append(p, words[len(p)])
		}
		return p
	}
	return nil
}

func isTask(w string) bool {
	return w != "" && !strings.HasPrefix(w, "-") && !strings.ContainsAny(w, "= \t\n/\\'\"") && len(w) < 60
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
