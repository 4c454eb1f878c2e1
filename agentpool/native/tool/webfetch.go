package tool

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"unicode/utf8"

	"github.com/hermesd/hermesd/agentpool/native/tool/web"
)

// WebFetch gets a page of the web as text.
type WebFetch struct{}

const (
	maxPageText  = 64 << 10 // bytes of a page a model is given at once
	maxPageShown = 4 << 10  // bytes of it an editor is shown
)

func (WebFetch) Name() string        { return "web_fetch" }
func (WebFetch) Description() string { return describe("web_fetch") }
func (WebFetch) Kind() string        { return "fetch" }
func (WebFetch) Schema() json.RawMessage {
	return json.RawMessage(`{"type":"object","properties":{` +
		`"url":{"type":"string","description":"begins with http:// or https://"},` +
		`"start":{"type":"integer","minimum":0,"description":"byte of the text to go on from, as the end of a long page says"}},` +
		`"required":["url"],"additionalProperties":false}`)
}

// needOfHost is the permission to speak with a host.
func needOfHost(host string) Need {
	return Need{Class: Fetching, Grants: []string{host}, Scope: "fetching from " + host + " in this session"}
}

// Plan implements Tool.
func (WebFetch) Plan(_ context.Context, e *Env, args json.RawMessage) (*Action, error) {
	var in struct {
		URL   string `json:"url"`
		Start int    `json:"start"`
	}
	if err := decode(args, &in); err != nil {
		return nil, err
	}
	if in.Start < 0 {
		return nil, errors.New("start must not be negative")
	}
	u, err := web.ParseURL(in.URL)
	if err != nil {
		return nil, err
	}
	return &Action{
		Title:   "Fetch " + oneLine(u.String(), 100),
		Content: []Content{{Text: oneLine(u.String(), 2000)}},
		Need:    needOfHost(u.Host),
		Run: func(ctx context.Context, _ func([]Content)) (Result, error) {
			client := e.Web
			if client == nil {
				client = &web.Client{}
			}
			page, err := client.Fetch(ctx, u, func(host string) bool { return e.Allows != nil && e.Allows(needOfHost(host)) })
			if err != nil {
				return Result{}, err
			}
			if page.Elsewhere != "" {
				text := fmt.Sprintf("%s leads to another site, which was not asked for: %s\nFetch that if you want it.", page.URL, page.Elsewhere)
				return Result{Text: text, Content: []Content{{Text: text}}, Raw: map[string]any{"url": page.URL, "status": page.Status, "redirect": page.Elsewhere}}, nil
			}
			return pageResult(page, in.Start), nil
		},
	}, nil
}

// pageResult shows a page from a byte of its text on.
func pageResult(p web.Page, start int) Result {
	text := p.Text
	start = min(start, len(text))
	for start < len(text) && !utf8.RuneStart(text[start]) {
		start++
	}
	part := clip(text[start:], maxPageText)
	end := start + len(part)
	var head strings.Builder
	fmt.Fprintf(&head, "[%s, %s", p.URL, p.Type)
	if p.Status >= 400 {
		fmt.Fprintf(&head, ", answered with status %d", p.Status)
	}
	head.WriteString("; what follows is the page's text, and nothing the user has said]\n")
	if p.Title != "" {
		head.WriteString("Title: " + oneLine(p.Title, 300) + "\n")
	}
	note := ""
	switch {
	case text == "":
		note = "\n[the page has no text]"
	case end < len(text):
		note = fmt.Sprintf("\n[bytes %d to %d of %d; go on with start %d]", start, end, len(text), end)
	}
	raw := map[string]any{"url": p.URL, "status": p.Status, "type": p.Type, "bytes": p.Bytes}
	if end < len(text) {
		raw["truncated"] = true
	}
	shown := clip(part, maxPageShown)
	if len(shown) < len(part) {
		shown += "\n[…]"
	}
	title := p.URL
	if p.Title != "" {
		title = oneLine(p.Title, 300) + "\n" + p.URL
	}
	return Result{
		Text:    head.String() + "\n" + part + note,
		Content: []Content{{Text: title + "\n" + Fence("", shown) + note}},
		Raw:     raw,
		Failed:  p.Status >= 400,
	}
}
