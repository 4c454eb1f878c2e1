package tool

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
)

// WriteFile makes a file or replaces its whole content.
type WriteFile struct{}

func (WriteFile) Name() string        { return "write_file" }
func (WriteFile) Description() string { return describe("write_file") }
func (WriteFile) Kind() string        { return "edit" }
func (WriteFile) Schema() json.RawMessage {
	return json.RawMessage(`{"type":"object","properties":{` +
		`"path":{"type":"string","description":"absolute, or relative to the session's folder"},` +
		`"content":{"type":"string","description":"the whole new content"}},` +
		`"required":["path","content"],"additionalProperties":false}`)
}

// Plan implements Tool.
func (WriteFile) Plan(ctx context.Context, e *Env, args json.RawMessage) (*Action, error) {
	var in struct {
		Path    string  `json:"path"`
		Content *string `json:"content"`
	}
	if err := decode(args, &in); err != nil {
		return nil, err
	}
	if in.Content == nil {
		return nil, errors.New("the argument content is missing; for an empty file it is \"\"")
	}
	if len(*in.Content) > maxFile {
		return nil, fmt.Errorf("the content is too large (%d bytes, the limit is %d)", len(*in.Content), maxFile)
	}
	p, err := e.resolve(in.Path)
	if err != nil {
		return nil, err
	}
	old, err := e.loadOld(ctx, p)
	if err != nil {
		return nil, err
	}
	return e.changing(changes{{place: p, old: old, new: *in.Content}}, "Write ", nil), nil
}

// line is the first line that differs, from 1.
func (c change) line() int {
	if c.old == nil {
		return 1
	}
	line := 1
	for i := range min(len(*c.old), len(c.new)) {
		if (*c.old)[i] != c.new[i] {
			break
		}
		if c.new[i] == '\n' {
			line++
		}
	}
	return line
}
