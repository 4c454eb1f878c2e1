package tool

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
)

// MoveFile gives a file or folder another name or place.
type MoveFile struct{}

func (MoveFile) Name() string        { return "move_file" }
func (MoveFile) Description() string { return describe("move_file") }
func (MoveFile) Kind() string        { return "move" }
func (MoveFile) Schema() json.RawMessage {
	return json.RawMessage(`{"type":"object","properties":{` +
		`"from":{"type":"string","description":"absolute, or relative to the session's folder"},` +
		`"to":{"type":"string","description":"the whole new path; nothing may be there"}},` +
		`"required":["from","to"],"additionalProperties":false}`)
}

// Plan implements Tool.
func (MoveFile) Plan(ctx context.Context, e *Env, args json.RawMessage) (*Action, error) {
	var in struct {
		From string `json:"from"`
		To   string `json:"to"`
	}
	if err := decode(args, &in); err != nil {
		return nil, err
	}
	from, err := e.entry(in.From)
	if err != nil {
		return nil, fmt.Errorf("from: %w", err)
	}
	to, err := e.entry(in.To)
	if err != nil {
		return nil, fmt.Errorf("to: %w", err)
	}
	was, err := e.look(ctx, from)
	if err != nil {
		return nil, err
	}
	if within(to.real, from.real) {
		return nil, fmt.Errorf("%s cannot be moved into itself", from.label)
	}
	if err := e.free(to); err != nil {
		return nil, err
	}
	both := changes{{place: from}, {place: to}}
	need := both.need(e)
	need.Scope = fmt.Sprintf("edits of %s and %s in this session", from.label, to.label)
	if need.Sensitive == "" {
		need.Sensitive = e.sensitiveTree(was.names(), from, to)
	}
	return &Action{
		Title:     fmt.Sprintf("Move %s to %s", oneLine(from.label, 80), oneLine(to.label, 80)),
		Locations: []Location{{Path: from.shown}, {Path: to.shown}},
		Content:   []Content{{Text: was.describe(from) + "\n→ " + to.shown}},
		Need:      need,
		Run: func(ctx context.Context, _ func([]Content)) (Result, error) {
			if err := e.still(ctx, in.From, from, was); err != nil {
				return Result{}, err
			}
			now, err := e.entry(in.To)
			if err != nil {
				return Result{}, err
			}
			if now.real != to.real {
				return Result{}, fmt.Errorf("%s leads to another place than before: nothing was moved", to.label)
			}
			if err := move(from.real, to.real, was.info); err != nil {
				if errors.Is(err, fs.ErrExist) {
					return Result{}, fmt.Errorf("there is something at %s now: nothing was moved", to.label)
				}
				return Result{}, fmt.Errorf("moving %s: %w", from.label, err)
			}
			return Result{
				Text:      fmt.Sprintf("%s is %s now.", from.label, to.label),
				Raw:       map[string]any{"from": from.shown, "to": to.shown},
				Locations: []Location{{Path: to.shown}},
			}, nil
		},
	}, nil
}

// sensitiveTree returns why an edit of anything in a tree, by the names it has in
// one of the places, is asked about in every mode; "" if nothing is.
func (e *Env) sensitiveTree(names []string, places ...place) string {
	for _, p := range places {
		for _, dir := range slices.Concat(e.Protected, systemDirs) {
			if real, err := realPath(dir); err == nil {
				dir = real
			}
			if within(dir, p.real) {
				return dir + " lies in it"
			}
		}
		for _, name := range names {
			path := filepath.Join(p.real, name)
			if why := sensitiveName(path); why != "" {
				return path + " " + why
			}
		}
	}
	return ""
}

// free tells that nothing stands at a place.
func (e *Env) free(p place) error {
	switch info, err := os.Lstat(p.real); {
	case err == nil && info.IsDir():
		return fmt.Errorf("%s is a folder that is there: give the whole new path, with a name in it", p.label)
	case err == nil:
		return fmt.Errorf("%s is there already: delete it first, or take another name", p.label)
	case !errors.Is(err, fs.ErrNotExist):
		return fmt.Errorf("looking at %s: %w", p.label, err)
	}
	return nil
}

// move never replaces what may have come to stand at the new place: an error
// that is fs.ErrExist says so.
func move(from, to string, info fs.FileInfo) error {
	if err := os.MkdirAll(filepath.Dir(to), 0o777); err != nil {
		return err
	}
	if info.Mode().IsRegular() {
		// A second name is only ever made where there is none; a rename would
		// replace.
		err := os.Link(from, to)
		if err == nil {
			return os.Remove(from)
		}
		if errors.Is(err, fs.ErrExist) {
			return err
		}
		// Not every file system has second names, and no two have one together.
	}
	if _, err := os.Lstat(to); err == nil {
		return fs.ErrExist
	}
	err := os.Rename(from, to)
	if err == nil || !isOtherDisk(err) {
		return err
	}
	if !info.Mode().IsRegular() {
		return errors.New("it would go to another disk, and only files can: use a command")
	}
	return copyOver(from, to, info)
}

// copyOver moves a file to another disk: the old one goes when the new one is
// safe.
func copyOver(from, to string, info fs.FileInfo) (err error) {
	in, err := os.Open(from)
	if err != nil {
		return err
	}
	defer in.Close()
	out, err := os.OpenFile(to, os.O_WRONLY|os.O_CREATE|os.O_EXCL, info.Mode().Perm())
	if err != nil {
		return err
	}
	_, err = io.Copy(out, in)
	if err == nil {
		err = out.Sync()
	}
	if cerr := out.Close(); err == nil {
		err = cerr
	}
	if err == nil {
		err = os.Chtimes(to, info.ModTime(), info.ModTime())
	}
	if err != nil {
		os.Remove(to)
		return err
	}
	return os.Remove(from)
}
