package tool

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
)

// DeleteFile removes a file, a link or a folder.
type DeleteFile struct{}

const (
	maxTree      = 10_000 // entries of a folder that is removed
	maxTreeShown = 50
)

func (DeleteFile) Name() string        { return "delete_file" }
func (DeleteFile) Description() string { return describe("delete_file") }
func (DeleteFile) Kind() string        { return "delete" }
func (DeleteFile) Schema() json.RawMessage {
	return json.RawMessage(`{"type":"object","properties":{` +
		`"path":{"type":"string","description":"absolute, or relative to the session's folder"},` +
		`"recursive":{"type":"boolean","description":"remove a folder with all that is in it"}},` +
		`"required":["path"],"additionalProperties":false}`)
}

// entry finds the place of a name itself: of a link, not of what it points at.
func (e *Env) entry(path string) (place, error) {
	p, err := e.resolve(path)
	if err != nil {
		return p, err
	}
	dir, err := realPath(filepath.Dir(p.shown))
	if err != nil {
		return p, err
	}
	p.real = filepath.Join(dir, filepath.Base(p.shown))
	p.out = !e.inside(p.real)
	for _, root := range append([]string{e.Cwd}, e.Dirs...) {
		if root, err := realPath(root); err == nil && within(root, p.real) {
			return p, fmt.Errorf("%s is or holds a folder of the session: it stays where it is", p.label)
		}
	}
	return p, nil
}

// thing is what stands at a place, well enough to know it again.
type thing struct {
	info fs.FileInfo
	link string   // of a symbolic link: where it leads
	text *string  // of a text file of moderate size
	tree []string // of a folder: what is in it, with sizes and times
}

// look says what stands at a place, without following a link.
func (e *Env) look(ctx context.Context, p place) (thing, error) {
	info, err := os.Lstat(p.real)
	if err != nil {
		return thing{}, missing(p, err)
	}
	t := thing{info: info}
	switch {
	case info.Mode()&fs.ModeSymlink != 0:
		t.link, err = os.Readlink(p.real)
	case info.IsDir():
		t.tree, err = tree(p.real)
	case info.Mode().IsRegular() && info.Size() <= maxDiff && !binaryFile(p.real):
		if text, terr := e.loadOld(ctx, p); terr == nil {
			t.text = text
		}
	}
	if err != nil {
		return thing{}, fmt.Errorf("looking at %s: %w", p.label, err)
	}
	return t, ctx.Err()
}

// same tells whether it is still the thing that was shown.
func (t thing) same(now thing) bool {
	if t.info.Mode().Type() != now.info.Mode().Type() || !os.SameFile(t.info, now.info) || t.link != now.link || strings.Join(t.tree, "\n") != strings.Join(now.tree, "\n") {
		return false
	}
	if t.text != nil || now.text != nil {
		return t.text != nil && now.text != nil && *t.text == *now.text
	}
	return t.info.IsDir() || t.info.Size() == now.info.Size() && t.info.ModTime().Equal(now.info.ModTime())
}

// tree lists what is in a folder, links not followed.
func tree(dir string) ([]string, error) {
	var all []string
	err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil || path == dir {
			return err
		}
		if len(all) == maxTree {
			return fmt.Errorf("there are more than %d files in it", maxTree)
		}
		info, err := d.Info()
		if err != nil {
			return err
		}
		rel, err := filepath.Rel(dir, path)
		if err != nil {
			return err
		}
		line := rel
		if d.IsDir() {
			line += string(filepath.Separator)
		} else {
			line += fmt.Sprintf("\t%d\t%d", info.Size(), info.ModTime().UnixNano())
		}
		all = append(all, line)
		return nil
	})
	return all, err
}

// describe shows what is removed or moved.
func (t thing) describe(p place) string {
	switch {
	case t.info.Mode()&fs.ModeSymlink != 0:
		return fmt.Sprintf("%s, a link to %s", p.shown, oneLine(t.link, 300))
	case t.info.IsDir() && len(t.tree) == 0:
		return p.shown + ", an empty folder"
	case t.info.IsDir():
		return fmt.Sprintf("%s, a folder with %d things in it", p.shown, len(t.tree))
	}
	return fmt.Sprintf("%s, %s", p.shown, plural(int(t.info.Size()), "byte"))
}

// names are what is in a folder, relative to it.
func (t thing) names() []string {
	all := make([]string, len(t.tree))
	for i, line := range t.tree {
		if !strings.HasSuffix(line, string(filepath.Separator)) {
			line = line[:strings.LastIndexByte(line, '\t')] // the time
			line = line[:strings.LastIndexByte(line, '\t')] // the size
		}
		all[i] = filepath.Clean(line)
	}
	return all
}

// listed shows what is in a folder to people.
func (t thing) listed() string {
	var b strings.Builder
	for i, line := range t.tree {
		if i == maxTreeShown {
			fmt.Fprintf(&b, "… and %d more", len(t.tree)-i)
			break
		}
		name, _, _ := strings.Cut(line, "\t")
		b.WriteString(oneLine(name, 200) + "\n")
	}
	return b.String()
}

// Plan implements Tool.
func (DeleteFile) Plan(ctx context.Context, e *Env, args json.RawMessage) (*Action, error) {
	var in struct {
		Path      string `json:"path"`
		Recursive bool   `json:"recursive"`
	}
	if err := decode(args, &in); err != nil {
		return nil, err
	}
	p, err := e.entry(in.Path)
	if err != nil {
		return nil, err
	}
	was, err := e.look(ctx, p)
	if err != nil {
		return nil, err
	}
	need := change{place: p}.need(e)
	need.Scope = "edits and removals of " + p.label + " in this session"
	a := &Action{Title: "Delete " + oneLine(p.label, 100), Locations: []Location{{Path: p.shown}}, Need: need}
	switch {
	case was.text != nil:
		a.Content = change{place: p, old: was.text}.content()
	case was.info.IsDir() && len(was.tree) > 0:
		if !in.Recursive {
			return nil, fmt.Errorf("%s is a folder with %d things in it: with recursive all of them are removed", p.label, len(was.tree))
		}
		a.Title += " and all that is in it"
		a.Content = []Content{{Text: was.describe(p) + ":\n" + Fence("", was.listed())}}
		if a.Need.Sensitive == "" {
			a.Need.Sensitive = "the folder is removed with all that is in it"
		}
	default:
		a.Content = []Content{{Text: was.describe(p)}}
	}
	a.Run = func(ctx context.Context, _ func([]Content)) (Result, error) {
		if err := e.still(ctx, in.Path, p, was); err != nil {
			return Result{}, err
		}
		remove := os.Remove
		if was.info.IsDir() && in.Recursive {
			remove = os.RemoveAll
		}
		if err := remove(p.real); err != nil {
			return Result{}, fmt.Errorf("deleting %s: %w", p.label, err)
		}
		return Result{Text: p.label + " is deleted.", Raw: map[string]any{"path": p.shown}}, nil
	}
	return a, nil
}

// still checks that a path means the same thing as when it was shown.
func (e *Env) still(ctx context.Context, path string, p place, was thing) error {
	now, err := e.entry(path)
	if err != nil {
		return err
	}
	if now.real != p.real {
		return fmt.Errorf("%s leads to another place than before: nothing was done", p.label)
	}
	is, err := e.look(ctx, now)
	switch {
	case errors.Is(err, errMissing):
		return fmt.Errorf("%s is gone since this was asked: nothing was done", p.label)
	case err != nil:
		return err
	case !was.same(is):
		return fmt.Errorf("%s has changed since this was asked: nothing was done, look again", p.label)
	}
	return nil
}
