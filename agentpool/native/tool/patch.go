package tool

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
)

// Patch replaces one piece of a file.
type Patch struct{}

func (Patch) Name() string        { return "patch" }
func (Patch) Description() string { return describe("patch") }
func (Patch) Kind() string        { return "edit" }
func (Patch) Schema() json.RawMessage {
	return json.RawMessage(`{"type":"object","properties":{` +
		`"path":{"type":"string","description":"absolute, or relative to the session's folder"},` +
		`"old":{"type":"string","description":"the text to replace, exactly as it stands in the file; it must occur once"},` +
		`"new":{"type":"string","description":"the text to put in its place"}},` +
		`"required":["path","old","new"],"additionalProperties":false}`)
}

// Plan implements Tool.
func (Patch) Plan(ctx context.Context, e *Env, args json.RawMessage) (*Action, error) {
	var in struct {
		Path string `json:"path"`
		Old  string `json:"old"`
		New  string `json:"new"`
	}
	if err := decode(args, &in); err != nil {
		return nil, err
	}
	p, err := e.resolve(in.Path)
	if err != nil {
		return nil, err
	}
	c := change{place: p}
	c.old, err = e.loadOld(ctx, p)
	if err == nil && c.old == nil {
		err = fmt.Errorf("%s: %w (%s): write_file makes it", p.label, errMissing, p.shown)
	}
	if err == nil {
		c.new, err = replaceOnce(*c.old, in.Old, in.New)
		if err == nil && len(c.new) > maxFile {
			err = fmt.Errorf("the new content is too large (%d bytes, the limit is %d)", len(c.new), maxFile)
		}
		if err != nil {
			err = fmt.Errorf("%s: %w", p.label, err)
		}
	}
	if err == nil {
		return e.edit(c, "Edit "), nil
	}
	if !p.out {
		return nil, err
	}
	// What an unread file outside the session's folders holds must not be
	// found out by failing edits: this error, too, is given only after the
	// permission.
	return &Action{
		Title:     "Edit " + oneLine(p.label, 100),
		Locations: []Location{{Path: p.shown, Line: 1}},
		Content:   []Content{{Text: "The edit cannot be shown."}},
		Need:      c.need(e),
		Run:       func(context.Context, func([]Content)) (Result, error) { return Result{}, err },
	}, nil
}

// replaceOnce replaces the only occurrence of from in text. In a file whose
// lines end with CRLF both texts are taken with CRLF, and the file keeps them;
// a missing newline at its end stays missing.
func replaceOnce(text, from, to string) (string, error) {
	if from == "" {
		return "", errors.New("the old text is empty: it must be a piece of the file")
	}
	n := count(text, from)
	if n == 0 && strings.Contains(text, "\r\n") {
		from, to = crlf(from), crlf(to)
		n = count(text, from)
	}
	switch {
	case n == 0:
		return "", errors.New("the old text does not occur in the file: read it again, every space counts")
	case n > 1:
		return "", fmt.Errorf("the old text occurs %d times in the file: give more lines around it, so that it occurs once", n)
	case from == to:
		return "", errors.New("the old text and the new one are the same")
	}
	if strings.Contains(from, "\n") && strings.Count(text, "\r\n") == strings.Count(text, "\n") && strings.Contains(text, "\r\n") {
		to = crlf(to)
	}
	return strings.Replace(text, from, to, 1), nil
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
