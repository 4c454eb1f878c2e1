package native

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"unicode/utf8"
)

const (
	projectFile    = "AGENTS.md"
	maxProjectFile = 20_000 // bytes of one file that the model is told
	maxChain       = 60_000 // bytes of all of them
	maxChainFiles  = 16
)

// projectWords is what the project's AGENTS.md files say to agents: those of the
// session's folder and of the folders above it, up to the root of the
// repository, the outermost first. Without a repository only the folder's own
// counts: what lies above it was not written for it. A link counts only if it
// leads to a Markdown file among them: the model, and who runs it, would be told
// what else it leads to without anybody being asked.
func projectWords(cwd string) string {
	dirs := []string{cwd}
	for dir := cwd; ; {
		if _, err := os.Lstat(filepath.Join(dir, ".git")); err == nil {
			break
		}
		up := filepath.Dir(dir)
		if up == dir {
			dirs = dirs[:1]
			break
		}
		dir = up
		dirs = append(dirs, dir)
	}
	var texts []string // innermost first: it counts most when there is too much
	left := maxChain
	root, err := filepath.EvalSymlinks(dirs[len(dirs)-1])
	if err != nil {
		return ""
	}
	for _, dir := range dirs[:min(len(dirs), maxChainFiles)] {
		path := filepath.Join(dir, projectFile)
		real, err := filepath.EvalSymlinks(path)
		if err != nil {
			continue
		}
		if rel, err := filepath.Rel(root, real); err != nil || !filepath.IsLocal(rel) || !strings.EqualFold(filepath.Ext(real), ".md") {
			continue
		}
		text, ok := readProjectFile(real, min(left, maxProjectFile))
		if !ok {
			continue
		}
		left -= len(text)
		texts = append(texts, fmt.Sprintf("<instructions file=%q>\n%s\n</instructions>\n", path, text))
	}
	if len(texts) == 0 {
		return ""
	}
	slices.Reverse(texts)
	return "\nThe project says to agents, the more special last:\n" + strings.Join(texts, "")
}

// readProjectFile reads at most max bytes of a regular file of text.
func readProjectFile(path string, max int) (string, bool) {
	info, err := os.Stat(path)
	if err != nil || !info.Mode().IsRegular() || max <= 0 {
		return "", false
	}
	f, err := os.Open(path)
	if err != nil {
		return "", false
	}
	defer f.Close()
	buf := make([]byte, max+1)
	n := 0
	for n < len(buf) {
		m, err := f.Read(buf[n:])
		n += m
		if err != nil {
			break
		}
	}
	rest := ""
	if n > max {
		for n = max; n > 0 && !utf8.RuneStart(buf[n]); n-- {
		}
		rest = "\n[the rest of the file is not shown: read it if you need it]"
	}
	text := strings.TrimSpace(strings.ToValidUTF8(string(buf[:n]), "\uFFFD"))
	return text + rest, text != ""
}
