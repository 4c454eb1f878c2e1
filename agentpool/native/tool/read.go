package tool

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"unicode/utf8"
)

// ReadFile shows the lines of a text file.
type ReadFile struct{}

const (
	maxReadLines = 2000
	maxReadBytes = 256 << 10
)

func (ReadFile) Name() string        { return "read_file" }
func (ReadFile) Description() string { return describe("read_file") }
func (ReadFile) Kind() string        { return "read" }
func (ReadFile) Schema() json.RawMessage {
	return json.RawMessage(`{"type":"object","properties":{` +
		`"path":{"type":"string","description":"absolute, or relative to the session's folder"},` +
		`"start":{"type":"integer","minimum":1,"description":"first line"},` +
		`"end":{"type":"integer","minimum":1,"description":"last line"}},` +
		`"required":["path"],"additionalProperties":false}`)
}

// Plan implements Tool.
func (ReadFile) Plan(_ context.Context, e *Env, args json.RawMessage) (*Action, error) {
	var in struct {
		Path  string `json:"path"`
		Start int    `json:"start"`
		End   int    `json:"end"`
	}
	if err := decode(args, &in); err != nil {
		return nil, err
	}
	if in.Start < 0 || in.End < 0 || in.End > 0 && in.End < in.Start {
		return nil, errors.New("the range of lines must be start ≤ end, from 1")
	}
	p, err := e.resolve(in.Path)
	if err != nil {
		return nil, err
	}
	title := "Read " + oneLine(p.label, 100)
	switch {
	case in.End > 0:
		title += fmt.Sprintf(" (%d-%d)", max(1, in.Start), in.End)
	case in.Start > 0:
		title += fmt.Sprintf(" (from %d)", in.Start)
	}
	need := Need{}
	if p.out {
		need = Need{Class: Reading, Outside: true, Sensitive: e.private(p), Grants: []string{p.real}, Scope: "reading " + p.label + " in this session"}
	}
	return &Action{
		Title:     title,
		Locations: []Location{{Path: p.shown, Line: max(1, in.Start)}},
		Need:      need,
		Run: func(ctx context.Context, _ func([]Content)) (Result, error) {
			now, err := e.resolve(in.Path)
			if err != nil {
				return Result{}, err
			}
			if now.real != p.real {
				return Result{}, fmt.Errorf("%s leads to another file than before: nothing was read", p.label)
			}
			if mime := pictureType(now.real); mime != "" {
				return readPicture(now, mime)
			}
			text, err := e.readText(ctx, now)
			if err != nil {
				return Result{}, err
			}
			return numbered(text, max(1, in.Start), in.End), nil
		},
	}, nil
}

// numbered shows the lines from start to end (0: all) with their numbers, as
// much as the limits allow, and says what it left out.
func numbered(text string, start, end int) Result {
	var b strings.Builder
	line, shown, cut := 0, 0, false
	for rest := text; rest != ""; {
		var s string
		if i := strings.IndexByte(rest, '\n'); i >= 0 {
			s, rest = rest[:i], rest[i+1:]
		} else {
			s, rest = rest, ""
		}
		line++
		if line < start || end > 0 && line > end || cut {
			continue
		}
		s = strings.ToValidUTF8(strings.TrimSuffix(s, "\r"), "\uFFFD")
		if shown == maxReadLines || b.Len()+len(s) > maxReadBytes && shown > 0 {
			cut = true
			continue
		}
		if len(s) > maxReadBytes {
			s = clip(s, maxReadBytes) + "… [the line goes on]"
		}
		b.WriteString(strconv.Itoa(line))
		b.WriteByte('\t')
		b.WriteString(s)
		b.WriteByte('\n')
		shown++
	}
	if shown > 0 {
		end = start + shown - 1
	}
	var note string
	switch {
	case line == 0:
		note = "[the file is empty]\n"
	case shown == 0:
		note = fmt.Sprintf("[the file has %d lines]\n", line)
	case cut:
		note = fmt.Sprintf("[lines %d to %d of %d are shown, read on from %d]\n", start, end, line, end+1)
	}
	raw := map[string]any{"lines": line, "shown": shown}
	if cut {
		raw["truncated"] = true
	}
	content := note
	if shown > 0 {
		content = Fence("", b.String())
		if note != "" {
			content += "\n" + note
		}
	}
	b.WriteString(note)
	return Result{Text: b.String(), Content: []Content{{Text: strings.TrimRight(content, "\n")}}, Raw: raw}
}

// clip cuts valid UTF-8 to at most n bytes, at the end of a character.
func clip(s string, n int) string {
	if len(s) <= n {
		return s
	}
	for n > 0 && !utf8.RuneStart(s[n]) {
		n--
	}
	return s[:n]
}
