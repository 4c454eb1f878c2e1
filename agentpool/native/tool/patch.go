package tool

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
)

// Patch replaces pieces of one file or several.
type Patch struct{}

const maxEdits = 100

func (Patch) Name() string        { return "patch" }
func (Patch) Description() string { return describe("patch") }
func (Patch) Kind() string        { return "edit" }
func (Patch) Schema() json.RawMessage {
	const edit = `"path":{"type":"string","description":"absolute, or relative to the session's folder"},` +
		`"old":{"type":"string","description":"the text to replace, as it stands in the file; it must occur once. Empty: the file is made"},` +
		`"new":{"type":"string","description":"the text to put in its place"},` +
		`"all":{"type":"boolean","description":"replace every occurrence"}`
	return json.RawMessage(`{"type":"object","properties":{` + edit + `,` +
		`"edits":{"type":"array","maxItems":100,"description":"several edits at once, in place of path, old and new","items":{"type":"object","properties":{` + edit + `},` +
		`"required":["path","old","new"],"additionalProperties":false}}},` +
		`"additionalProperties":false}`)
}

// edit is one replacement that a model wants.
type edit struct {
	Path string `json:"path"`
	Old  string `json:"old"`
	New  string `json:"new"`
	All  bool   `json:"all"`
}

// Plan implements Tool.
func (Patch) Plan(ctx context.Context, e *Env, args json.RawMessage) (*Action, error) {
	var in struct {
		edit
		Edits []edit `json:"edits"`
	}
	if err := decode(args, &in); err != nil {
		return nil, err
	}
	edits := in.Edits
	switch {
	case len(edits) == 0:
		edits = []edit{in.edit}
	case in.edit != edit{}:
		return nil, errors.New("give either path, old and new, or edits")
	case len(edits) > maxEdits:
		return nil, fmt.Errorf("there are %d edits, the limit is %d", len(edits), maxEdits)
	}
	places := make([]place, len(edits))
	outside := false
	for i, d := range edits {
		p, err := e.resolve(d.Path)
		if err != nil {
			return nil, numberedError(i, len(edits), err)
		}
		places[i] = p
		outside = outside || p.out
	}
	all, notes, err := e.edited(ctx, edits, places)
	if err == nil {
		return e.changing(all, "Edit ", notes), nil
	}
	if !outside {
		return nil, err
	}
	// What an unread file outside the session's folders holds must not be
	// found out by failing edits: this error, too, is given only after the
	// permission.
	a := e.changing(unread(places), "Edit ", nil)
	a.Content = []Content{{Text: "The edit cannot be shown."}}
	a.Run = func(context.Context, func([]Content)) (Result, error) { return Result{}, err }
	return a, nil
}

func numberedError(i, of int, err error) error {
	if of == 1 {
		return err
	}
	return fmt.Errorf("edit %d of %d: %w", i+1, of, err)
}

// unread are changes of which only the places are known.
func unread(places []place) changes {
	var all changes
	for _, p := range places {
		if all.at(p) < 0 {
			all = append(all, change{place: p})
		}
	}
	return all
}

// edited makes one change for each file out of the edits, in their order. The
// notes say what was not quite as the model had written it.
func (e *Env) edited(ctx context.Context, edits []edit, places []place) (all changes, notes []string, err error) {
	for i, d := range edits {
		p := places[i]
		n := all.at(p)
		if n < 0 {
			c := change{place: p}
			if c.old, err = e.loadOld(ctx, p); err != nil {
				return nil, nil, numberedError(i, len(edits), err)
			}
			if c.old == nil && d.Old != "" {
				return nil, nil, numberedError(i, len(edits), fmt.Errorf("%s: %w (%s): write_file makes it", p.label, errMissing, p.shown))
			}
			if c.old != nil {
				c.new = *c.old
			}
			all, n = append(all, c), len(all)
		}
		c := &all[n]
		if d.Old == "" && c.new == "" && d.New != "" { // a new file, or an empty one
			c.new = d.New
		} else {
			r, err := replacePiece(c.new, d.Old, d.New, d.All)
			if err != nil {
				return nil, nil, numberedError(i, len(edits), fmt.Errorf("%s: %w", p.label, err))
			}
			c.new = r.text
			if r.note != "" {
				notes = append(notes, p.label+": "+r.note)
			}
		}
		if len(c.new) > maxFile {
			return nil, nil, numberedError(i, len(edits), fmt.Errorf("%s: the new content is too large (%d bytes, the limit is %d)", p.label, len(c.new), maxFile))
		}
	}
	for _, c := range all {
		if c.old != nil && *c.old == c.new {
			return nil, nil, fmt.Errorf("%s: the edits leave the file as it is", c.label)
		}
	}
	return all, notes, nil
}

// replaced is a text with a piece replaced.
type replaced struct {
	text string
	note string // what differed from what was asked, for the model; "" if nothing
}

// replacePiece replaces the only occurrence of from in text, or all of them. In
// a file whose lines end with CRLF both texts are taken with CRLF, and the file
// keeps them; a missing newline at its end stays missing. A piece that does not
// occur is looked for again line by line, without regard to white space.
func replacePiece(text, from, to string, all bool) (replaced, error) {
	if from == "" {
		return replaced{}, errors.New("the old text is empty: it must be a piece of the file")
	}
	if from == to {
		return replaced{}, errors.New("the old text and the new one are the same")
	}
	n := count(text, from)
	if n == 0 && strings.Contains(text, "\r\n") {
		if f := crlf(from); count(text, f) > 0 {
			from, to = f, crlf(to)
			n = count(text, from)
		}
	}
	switch {
	case n == 0:
		return replaceLines(text, from, to)
	case n > 1 && !all:
		return replaced{}, fmt.Errorf("the old text occurs %d times in the file: give more lines around it, so that it occurs once", n)
	case from == to:
		return replaced{}, errors.New("the old text and the new one are the same")
	}
	if strings.Contains(from, "\n") && strings.Count(text, "\r\n") == strings.Count(text, "\n") && strings.Contains(text, "\r\n") {
		to = crlf(to)
	}
	return replaced{text: strings.ReplaceAll(text, from, to)}, nil
}

// count counts occurrences, also those that overlap: "aa" stands twice in "aaa".
func count(text, part string) int {
	n := 0
	for i := 0; ; {
		j := strings.Index(text[i:], part)
		if j < 0 {
			return n
		}
		n++
		i += j + 1
	}
}

// crlf gives every line the ending CRLF.
func crlf(s string) string {
	return strings.ReplaceAll(strings.ReplaceAll(s, "\r\n", "\n"), "\n", "\r\n")
}
