package session

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"fmt"
	"time"
)

// ReadTextFile asks the editor whose prompt is running.
func (h *host) ReadTextFile(ctx context.Context, path string) (string, error) {
	e, id, err := h.prompter(ctx, Editor.CanReadFiles)
	if err != nil {
		return "", err
	}
	limited, cancel := context.WithTimeout(ctx, fileTime)
	defer cancel()
	raw, err := e.Call(limited, id, "fs/read_text_file", map[string]any{"sessionId": h.s.id, "path": path})
	if limited.Err() != nil && ctx.Err() == nil {
		return "", ErrNoEditor // it hangs: the disk is the truth
	}
	if err != nil {
		return "", err
	}
	var res struct {
		Content *string `json:"content"`
	}
	if err := json.Unmarshal(raw, &res); err != nil || res.Content == nil {
		return "", fmt.Errorf("the editor's answer for %s has no content", path)
	}
	return *res.Content, nil
}

// WriteTextFile writes through the editor whose prompt is running.
func (h *host) WriteTextFile(ctx context.Context, path, content string) error {
	e, id, err := h.prompter(ctx, Editor.CanWriteFiles)
	if err != nil {
		return err
	}
	limited, cancel := context.WithTimeout(ctx, fileTime)
	defer cancel()
	_, err = e.Call(limited, id, "fs/write_text_file", map[string]any{"sessionId": h.s.id, "path": path, "content": content})
	if limited.Err() != nil && ctx.Err() == nil {
		return fmt.Errorf("the editor did not say within %s whether it wrote %s: look before you write again", fileTime, path)
	}
	return err
}

// fileTime is how long an editor has to read or write a file.
const fileTime = 15 * time.Second

// prompter finds the editor that prompted, if it is attached and able, and an
// id for a request to it that names session and turn and is never used again,
// also not by a later life of the daemon.
func (h *host) prompter(ctx context.Context, able func(Editor) bool) (Editor, string, error) {
	return h.prompterUntil(ctx, able, nil)
}

// prompterUntil is prompter; the session's goroutine calls left once if the
// editor leaves, until forget is told the id.
func (h *host) prompterUntil(ctx context.Context, able func(Editor) bool, left func()) (Editor, string, error) {
	type found struct {
		e  Editor
		id string
	}
	got := make(chan found, 1)
	h.s.post(func() {
		var f found
		if t := h.s.turn; t != nil && h.s.host == h && ctx.Err() == nil {
			if a := h.s.editors[t.origin.Conn]; a != nil && able(a.editor) {
				f = found{a.editor, fmt.Sprintf("%s:%d:%s", h.s.id, t.prompt, rand.Text())}
				if left != nil {
					if a.left == nil {
						a.left = make(map[string]func())
					}
					a.left[f.id] = left
				}
			}
		}
		got <- f
	}, func(error) { got <- found{} })
	select {
	case f := <-got:
		if f.e == nil {
			return nil, "", ErrNoEditor
		}
		return f.e, f.id, nil
	case <-ctx.Done():
		return nil, "", ctx.Err()
	}
}

// forget takes back the left of prompterUntil.
func (h *host) forget(conn, id string) {
	h.s.post(func() {
		if a := h.s.editors[conn]; a != nil {
			delete(a.left, id)
		}
	}, nil)
}

// Replay gives the published log from its beginning.
func (h *host) Replay(ctx context.Context, yield func(Record) error) error {
	return h.s.Read(ctx, 1, h.s.tail.headNow(), yield)
}

// Read gives the records of published events from one Seq to another. It may
// be called from any goroutine.
func (s *Session) Read(ctx context.Context, from, to Seq, yield func(Record) error) error {
	for from <= to {
		if err := ctx.Err(); err != nil {
			return err
		}
		recs, err := s.read(from, to, pageBytes)
		if err != nil {
			return err
		}
		for _, r := range recs {
			if err := yield(r); err != nil {
				return err
			}
		}
		from = recs[len(recs)-1].Last + 1
	}
	return nil
}
