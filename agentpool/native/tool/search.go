package tool

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"time"
)

// SearchFiles finds lines and file names.
type SearchFiles struct{}

const (
	maxHits       = 200
	maxNames      = 50
	maxHitRunes   = 300
	maxSearchFile = 4 << 20
	maxSearchTime = 30 * time.Second
)

func (SearchFiles) Name() string        { return "search_files" }
func (SearchFiles) Description() string { return describe("search_files") }
func (SearchFiles) Kind() string        { return "search" }
func (SearchFiles) Schema() json.RawMessage {
	return json.RawMessage(`{"type":"object","properties":{` +
		`"pattern":{"type":"string","description":"regular expression (RE2)"},` +
		`"path":{"type":"string","description":"file or folder to look in, default the session's folder"}},` +
		`"required":["pattern"],"additionalProperties":false}`)
}

// Plan implements Tool.
func (SearchFiles) Plan(_ context.Context, e *Env, args json.RawMessage) (*Action, error) {
	var in struct {
		Pattern string `json:"pattern"`
		Path    string `json:"path"`
	}
	if err := decode(args, &in); err != nil {
		return nil, err
	}
	if in.Pattern == "" {
		return nil, errors.New("the pattern is empty")
	}
	re, err := regexp.Compile(in.Pattern)
	if err != nil {
		return nil, fmt.Errorf("the pattern is no regular expression (RE2): %w", err)
	}
	title := "Search for " + code(in.Pattern, 60)
	if in.Path == "" {
		in.Path = e.Cwd
	}
	p, err := e.resolve(in.Path)
	if err != nil {
		return nil, err
	}
	if p.label != "." {
		title += " in " + oneLine(p.label, 60)
	}
	need := Need{}
	if p.out {
		need = Need{Class: Reading, Outside: true, Sensitive: e.sensitive(p), Grants: []string{p.real}, Scope: "searching " + p.label + " in this session"}
	}
	return &Action{
		Title:     title,
		Locations: []Location{{Path: p.shown}},
		Need:      need,
		Run: func(ctx context.Context, _ func([]Content)) (Result, error) {
			now, err := e.resolve(in.Path)
			if err != nil {
				return Result{}, err
			}
			if now.real != p.real {
				return Result{}, fmt.Errorf("%s leads to another place than before: nothing was read", p.label)
			}
			return search(ctx, now, re)
		},
	}, nil
}

// search walks a tree, in the order of names. It follows no links, so it never
// leaves the place that was judged, and skips .git, binary and huge files.
func search(ctx context.Context, p place, re *regexp.Regexp) (Result, error) {
	info, err := os.Stat(p.real)
	if err != nil {
		return Result{}, missing(p, err)
	}
	if !info.IsDir() && !info.Mode().IsRegular() {
		return Result{}, irregular(p, info)
	}
	start := time.Now()
	errFull := errors.New("full")
	var names, hits []string
	files, skipped := 0, 0
	note := ""
	err = filepath.WalkDir(p.real, func(path string, d fs.DirEntry, err error) error {
		if ctx.Err() != nil {
			return ctx.Err()
		}
		if time.Since(start) > maxSearchTime {
			note = fmt.Sprintf("stopped after %s", maxSearchTime)
			return errFull
		}
		if err != nil {
			skipped++
			if d != nil && d.IsDir() {
				return fs.SkipDir
			}
			return nil
		}
		rel, err := filepath.Rel(p.real, path)
		if err != nil {
			return err
		}
		shown := p.label
		if rel != "." {
			shown = filepath.Join(p.label, rel)
			if re.MatchString(filepath.ToSlash(rel)) && len(names) < maxNames {
				names = append(names, shown)
			}
		}
		if d.IsDir() {
			if d.Name() == ".git" && rel != "." {
				return fs.SkipDir
			}
			return nil
		}
		if !d.Type().IsRegular() {
			return nil
		}
		if info, err := d.Info(); err != nil || info.Size() > maxSearchFile {
			skipped++
			return nil
		}
		data, err := readRegular(path)
		if err != nil {
			skipped++
			return nil
		}
		if isBinary(data) {
			return nil
		}
		files++
		for n := 1; len(data) > 0; n++ {
			var line []byte
			if i := bytes.IndexByte(data, '\n'); i >= 0 {
				line, data = data[:i], data[i+1:]
			} else {
				line, data = data, nil
			}
			line = bytes.TrimSuffix(line, []byte("\r"))
			if !re.Match(line) {
				continue
			}
			if len(hits) == maxHits {
				note = fmt.Sprintf("only the first %d lines are shown", maxHits)
				return errFull
			}
			hits = append(hits, fmt.Sprintf("%s:%d:%s", shown, n, oneLine(string(line), maxHitRunes)))
		}
		return nil
	})
	if err != nil && !errors.Is(err, errFull) {
		return Result{}, err
	}
	var b strings.Builder
	for _, name := range names {
		b.WriteString(name + "\n")
	}
	for _, hit := range hits {
		b.WriteString(hit + "\n")
	}
	content := ""
	if b.Len() > 0 {
		content = Fence("", b.String()) + "\n"
	}
	sum := fmt.Sprintf("[%s and %s in %s", plural(len(hits), "line"), plural(len(names), "name"), plural(files, "file"))
	if note != "" {
		sum += "; " + note
	}
	if skipped > 0 {
		sum += fmt.Sprintf("; %d could not be read or were too large", skipped)
	}
	sum += "]"
	return Result{
		Text:    b.String() + sum,
		Content: []Content{{Text: content + sum}},
		Raw:     map[string]any{"lines": len(hits), "names": len(names), "files": files, "truncated": note != ""},
	}, nil
}

// plural counts things in words.
func plural(n int, thing string) string {
	if n == 1 {
		return "1 " + thing
	}
	return fmt.Sprintf("%d %ss", n, thing)
}
