package tool

import (
	"os"
	"path/filepath"
	"strings"

	"github.com/go-git/go-git/v5/plumbing/format/gitignore" // the matching of single patterns; the rest of git is not needed
)

// ignoreFile is one file of patterns of things that git does not look at.
type ignoreFile struct {
	domain []string // the folder it stands in, from the top
	rules  []ignoreRule
}

type ignoreRule struct {
	pattern gitignore.Pattern
	whole   bool // it is of a path, and not of a name at any depth
	deep    bool // it ends with /**, so it is of everything below as well
	roaming bool // it begins with **/
}

const maxIgnoreFile = 1 << 20

// readIgnore reads the patterns of a file; none if it cannot be read.
func readIgnore(path string, domain []string) (f ignoreFile, ok bool) {
	info, err := os.Stat(path)
	if err != nil || !info.Mode().IsRegular() || info.Size() > maxIgnoreFile {
		return f, false
	}
	data, err := readRegular(path)
	if err != nil {
		return f, false
	}
	f.domain = domain
	for line := range strings.SplitSeq(strings.TrimPrefix(string(data), "\uFEFF"), "\n") {
		line = strings.TrimSuffix(line, "\r")
		if strings.TrimSpace(line) == "" || line[0] == '#' {
			continue
		}
		f.rules = append(f.rules, newIgnoreRule(line, domain))
	}
	return f, len(f.rules) > 0
}

func newIgnoreRule(line string, domain []string) ignoreRule {
	// What git and the library write differently.
	line = strings.ReplaceAll(line, "[!", "[^")
	bare := strings.TrimRight(strings.TrimPrefix(line, "!"), " ")
	parts := strings.Split(line, "/")
	for i, part := range parts {
		for part != "**" && part != "!**" && strings.Contains(part, "**") {
			part = strings.ReplaceAll(part, "**", "*")
		}
		parts[i] = part
	}
	return ignoreRule{
		pattern: gitignore.ParsePattern(strings.Join(parts, "/"), domain),
		whole:   strings.Contains(strings.TrimSuffix(bare, "/"), "/"),
		deep:    strings.HasSuffix(bare, "/**"),
		roaming: strings.HasPrefix(bare, "**/"),
	}
}

// match judges a path; own is domain and the path's last name. Unlike the
// library, git takes a pattern for what it names and not for what is below
// that, which an ignored folder hides anyway.
func (r ignoreRule) match(path, own, domain []string, dir bool) gitignore.MatchResult {
	if !r.whole {
		return r.pattern.Match(own, dir)
	}
	if r.roaming {
		for at := len(domain); at < len(path); at++ {
			if m := r.exact(append(domain[:len(domain):len(domain)], path[at:]...), dir); m != gitignore.NoMatch {
				return m
			}
		}
		return gitignore.NoMatch
	}
	return r.exact(path, dir)
}

func (r ignoreRule) exact(path []string, dir bool) gitignore.MatchResult {
	m := r.pattern.Match(path, dir)
	if m != gitignore.NoMatch && !r.deep && r.pattern.Match(path[:len(path)-1], true) != gitignore.NoMatch {
		return gitignore.NoMatch
	}
	return m
}

// ignored tells whether git would not look at a path; files are those above
// it, the ones that count more last.
func ignored(files []ignoreFile, path []string, dir bool) bool {
	for i := len(files) - 1; i >= 0; i-- {
		f := files[i]
		own := append(f.domain[:len(f.domain):len(f.domain)], path[len(path)-1])
		for k := len(f.rules) - 1; k >= 0; k-- {
			if m := f.rules[k].match(path, own, f.domain, dir); m != gitignore.NoMatch {
				return m == gitignore.Exclude
			}
		}
	}
	return false
}

// ignoresAbove reads what is said of a folder above it: .git/info/exclude and
// the .gitignore files from the top of its repository down to its parent. top
// is the path of the folder in the repository; nil if it is in none, or the
// top itself. A folder that is ignored itself is looked into all the same, as
// it was asked for: then nothing of that counts.
func ignoresAbove(dir string) (files []ignoreFile, top []string) {
	root := dir
	for !exists(filepath.Join(root, ".git")) {
		parent := filepath.Dir(root)
		if parent == root {
			return nil, nil
		}
		root = parent
	}
	if f, ok := readIgnore(filepath.Join(gitDir(root), "info", "exclude"), nil); ok {
		files = append(files, f)
	}
	rel, err := filepath.Rel(root, dir)
	if err != nil || rel == "." {
		return files, nil
	}
	top = strings.Split(rel, string(filepath.Separator))
	at := root
	for i, name := range top {
		if f, ok := readIgnore(filepath.Join(at, ".gitignore"), top[:i:i]); ok {
			files = append(files, f)
		}
		if ignored(files, top[:i+1], true) {
			return nil, top
		}
		at = filepath.Join(at, name)
	}
	return files, top
}

// gitDir is where a working tree's repository is: .git, or what the file .git
// of another working tree leads to.
func gitDir(root string) string {
	dir := filepath.Join(root, ".git")
	leads := func(file, prefix string) string {
		info, err := os.Stat(file)
		if err != nil || !info.Mode().IsRegular() || info.Size() > 64<<10 {
			return ""
		}
		data, err := readRegular(file)
		if err != nil {
			return ""
		}
		to, ok := strings.CutPrefix(strings.TrimSpace(string(data)), prefix)
		if !ok {
			return ""
		}
		if to = strings.TrimSpace(to); !filepath.IsAbs(to) {
			to = filepath.Join(filepath.Dir(file), to)
		}
		return to
	}
	if to := leads(dir, "gitdir:"); to != "" {
		dir = to
		if common := leads(filepath.Join(dir, "commondir"), ""); common != "" {
			dir = common
		}
	}
	return dir
}

func exists(path string) bool {
	_, err := os.Lstat(path)
	return err == nil
}
