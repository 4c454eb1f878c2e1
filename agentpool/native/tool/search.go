package tool

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/go-git/go-git/v5/plumbing/format/gitignore"
)

// SearchFiles finds lines and file names.
type SearchFiles struct{}

const (
	maxHits          = 200
	maxNames         = 50  // when lines are looked for too
	maxNamesAlone    = 500 // when they are not
	maxHitRunes      = 300
	maxSearchFile    = 4 << 20
	maxSearchTime    = 30 * time.Second
	maxSearched      = 200_000 // files and folders looked at
	maxFolder        = 50_000  // of one folder
	maxFolderDepth   = 200
	maxHitsLocations = 50
)

func (SearchFiles) Name() string        { return "search_files" }
func (SearchFiles) Description() string { return describe("search_files") }
func (SearchFiles) Kind() string        { return "search" }
func (SearchFiles) Schema() json.RawMessage {
	return json.RawMessage(`{"type":"object","properties":{` +
		`"pattern":{"type":"string","description":"regular expression (RE2); may be left out with include, to list files"},` +
		`"path":{"type":"string","description":"file or folder to look in, default the session's folder"},` +
		`"include":{"type":"string","description":"only files that match, as *.go or src/**/*.ts"},` +
		`"what":{"enum":["both","lines","names"],"description":"what is compared, default both"},` +
		`"ignored":{"type":"boolean","description":"look also at what .gitignore leaves out"}},` +
		`"additionalProperties":false}`)
}

// Plan implements Tool.
func (SearchFiles) Plan(_ context.Context, e *Env, args json.RawMessage) (*Action, error) {
	var in struct {
		Pattern string `json:"pattern"`
		Path    string `json:"path"`
		Include string `json:"include"`
		What    string `json:"what"`
		Ignored bool   `json:"ignored"`
	}
	if err := decode(args, &in); err != nil {
		return nil, err
	}
	if in.Pattern == "" && in.Include == "" {
		return nil, errors.New("the pattern is empty")
	}
	re, err := regexp.Compile(in.Pattern)
	if err != nil {
		return nil, fmt.Errorf("the pattern is no regular expression (RE2): %w", err)
	}
	s := search{re: re, names: true, lines: true, all: in.Ignored, limit: searchLimits{maxSearched, maxFolder, maxFolderDepth, maxSearchTime}}
	title := "Search for " + code(in.Pattern, 60)
	switch in.What {
	case "", "both":
	case "lines":
		s.names = false
	case "names":
		s.lines = false
	default:
		return nil, fmt.Errorf("what is %q: it must be both, lines or names", in.What)
	}
	if in.Pattern == "" {
		s.lines, s.names = false, true
		title = "List " + code(in.Include, 60)
	} else if in.Include != "" {
		title += " in " + code(in.Include, 40)
	}
	if in.Include != "" {
		rule := newIgnoreRule(strings.TrimPrefix(in.Include, "!"), nil)
		s.include = &rule
	}
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
		need = Need{Class: Reading, Outside: true, Sensitive: e.private(p), Grants: []string{p.real}, Scope: "searching " + p.label + " in this session"}
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
			s.at = now
			return s.run(ctx)
		},
	}, nil
}

type searchLimits struct {
	entries, folder, depth int
	time                   time.Duration
}

// search walks a tree, in the order of names. It follows no links, so it never
// leaves the place that was judged and never goes in circles, and skips version
// control, what git ignores, binary and huge files.
type search struct {
	at           place
	re           *regexp.Regexp
	names, lines bool
	all          bool // also what is ignored
	include      *ignoreRule
	limit        searchLimits

	start        time.Time
	foundNames   []string
	foundLines   []string
	locations    []Location
	seen         int // files and folders
	files        int // that were read
	skipped      int // that could not be, or were too large
	left         int // folders and files that are ignored
	note         string
	namesTrimmed bool
}

// errFull ends a search whose limit is reached; note says which.
var errFull = errors.New("full")

func (s *search) run(ctx context.Context) (Result, error) {
	info, err := os.Stat(s.at.real)
	if err != nil {
		return Result{}, missing(s.at, err)
	}
	s.start = time.Now()
	switch {
	case info.IsDir():
		var files []ignoreFile
		var top []string
		if !s.all {
			files, top = ignoresAbove(s.at.real)
		}
		err = s.folder(ctx, s.at.real, nil, top, files)
	case info.Mode().IsRegular():
		err = s.file(ctx, s.at.real, nil, info)
	default:
		return Result{}, irregular(s.at, info)
	}
	if err != nil && !errors.Is(err, errFull) {
		return Result{}, err
	}
	return s.result(), nil
}

// folder looks into a folder. path is the way to it from where the search
// began, top the one from where the patterns of ignored things count.
func (s *search) folder(ctx context.Context, dir string, path, top []string, ignores []ignoreFile) error {
	if len(path) > s.limit.depth {
		s.skipped++
		return nil
	}
	if !s.all {
		if f, ok := readIgnore(filepath.Join(dir, ".gitignore"), slices.Clone(top)); ok {
			ignores = append(ignores[:len(ignores):len(ignores)], f)
		}
	}
	entries, err := s.entries(dir)
	if err != nil {
		s.skipped++
	}
	for _, d := range entries {
		if err := ctx.Err(); err != nil {
			return err
		}
		if s.seen++; s.seen > s.limit.entries {
			s.note = fmt.Sprintf("stopped after %d files and folders: look in a smaller folder", s.limit.entries)
			return errFull
		}
		if time.Since(s.start) > s.limit.time {
			s.note = fmt.Sprintf("stopped after %s: look in a smaller folder", s.limit.time)
			return errFull
		}
		name := d.Name()
		here := append(path[:len(path):len(path)], name)
		fromTop := append(top[:len(top):len(top)], name)
		if d.IsDir() && (name == ".git" || name == ".hg" || name == ".svn") {
			continue
		}
		if !s.all && ignored(ignores, fromTop, d.IsDir()) {
			s.left++
			continue
		}
		if s.names && (s.include == nil || s.include.match(here, here[len(here)-1:], nil, d.IsDir()) != gitignore.NoMatch) && s.re.MatchString(strings.Join(here, "/")) {
			s.name(here, d.IsDir())
		}
		switch {
		case d.IsDir():
			err = s.folder(ctx, filepath.Join(dir, name), here, fromTop, ignores)
		case d.Type().IsRegular() && s.lines && (s.include == nil || s.include.match(here, here[len(here)-1:], nil, false) != gitignore.NoMatch):
			info, ierr := d.Info()
			if ierr != nil {
				s.skipped++
				continue
			}
			err = s.file(ctx, filepath.Join(dir, name), here, info)
		case d.Type().IsRegular():
			s.files++
			err = nil
		default:
			err = nil // links, pipes and the like
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// entries lists a folder in the order of names, not more of it than the limit.
func (s *search) entries(dir string) ([]fs.DirEntry, error) {
	f, err := os.Open(dir)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	all, err := f.ReadDir(s.limit.folder + 1)
	if err != nil && !errors.Is(err, io.EOF) {
		return nil, err
	}
	slices.SortFunc(all, func(a, b fs.DirEntry) int { return strings.Compare(a.Name(), b.Name()) })
	if len(all) > s.limit.folder {
		all = all[:s.limit.folder]
		s.note = fmt.Sprintf("of one folder only %d entries were looked at", s.limit.folder)
	}
	return all, nil
}

func (s *search) name(path []string, dir bool) {
	most := maxNames
	if !s.lines {
		most = maxNamesAlone
	}
	if len(s.foundNames) == most {
		s.namesTrimmed = true
		return
	}
	label := filepath.Join(s.at.label, filepath.Join(path...))
	if dir {
		label += string(filepath.Separator)
	} else if len(s.locations) < maxHitsLocations && !s.lines {
		s.locations = append(s.locations, Location{Path: filepath.Join(s.at.shown, filepath.Join(path...))})
	}
	s.foundNames = append(s.foundNames, label)
}

// file looks for lines in a file.
func (s *search) file(ctx context.Context, file string, path []string, info fs.FileInfo) error {
	if info.Size() > maxSearchFile {
		s.skipped++
		return nil
	}
	data, err := readRegular(file)
	if err != nil {
		s.skipped++
		return nil
	}
	if isBinary(data) {
		return nil
	}
	s.files++
	rel := filepath.Join(path...)
	for n := 1; len(data) > 0; n++ {
		var line []byte
		if i := bytes.IndexByte(data, '\n'); i >= 0 {
			line, data = data[:i], data[i+1:]
		} else {
			line, data = data, nil
		}
		if n%10_000 == 0 && ctx.Err() != nil {
			return ctx.Err()
		}
		line = bytes.TrimSuffix(line, []byte("\r"))
		if !s.re.Match(line) {
			continue
		}
		if len(s.foundLines) == maxHits {
			s.note = fmt.Sprintf("only the first %d lines are shown", maxHits)
			return errFull
		}
		if len(s.locations) < maxHitsLocations {
			s.locations = append(s.locations, Location{Path: filepath.Join(s.at.shown, rel), Line: n})
		}
		s.foundLines = append(s.foundLines, fmt.Sprintf("%s:%d:%s", filepath.Join(s.at.label, rel), n, oneLine(string(line), maxHitRunes)))
	}
	return nil
}

func (s *search) result() Result {
	var b strings.Builder
	for _, name := range s.foundNames {
		b.WriteString(name + "\n")
	}
	for _, hit := range s.foundLines {
		b.WriteString(hit + "\n")
	}
	content := ""
	if b.Len() > 0 {
		content = Fence("", b.String()) + "\n"
	}
	sum := fmt.Sprintf("[%s and %s in %s", plural(len(s.foundLines), "line"), plural(len(s.foundNames), "name"), plural(s.files, "file"))
	if s.namesTrimmed {
		sum += fmt.Sprintf("; only the first %d names are shown", len(s.foundNames))
	}
	if s.note != "" {
		sum += "; " + s.note
	}
	if s.skipped > 0 {
		sum += fmt.Sprintf("; %d could not be read or were too large", s.skipped)
	}
	if s.left > 0 {
		sum += fmt.Sprintf("; %d left out by .gitignore", s.left)
	}
	sum += "]"
	return Result{
		Text:      b.String() + sum,
		Content:   []Content{{Text: content + sum}},
		Raw:       map[string]any{"lines": len(s.foundLines), "names": len(s.foundNames), "files": s.files, "truncated": s.note != "" || s.namesTrimmed},
		Locations: s.locations,
	}
}

// plural counts things in words.
func plural(n int, thing string) string {
	if n == 1 {
		return "1 " + thing
	}
	return fmt.Sprintf("%d %ss", n, thing)
}
