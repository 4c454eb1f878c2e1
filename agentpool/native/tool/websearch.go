package tool

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	"github.com/hermesd/hermesd/agentpool/native/tool/web"
)

// WebSearch asks the search engine that is configured. A session without one
// does not have this tool.
type WebSearch struct{ Engine *web.Searcher }

const (
	maxQuery    = 400 // bytes
	defaultHits = 8
	maxWebHits  = 20
)

func (WebSearch) Name() string        { return "web_search" }
func (WebSearch) Description() string { return describe("web_search") }
func (WebSearch) Kind() string        { return "fetch" }
func (WebSearch) Schema() json.RawMessage {
	return json.RawMessage(`{"type":"object","properties":{` +
		`"query":{"type":"string"},` +
		`"count":{"type":"integer","minimum":1,"maximum":20,"description":"pages wanted, default 8"}},` +
		`"required":["query"],"additionalProperties":false}`)
}

// Plan implements Tool.
func (w WebSearch) Plan(_ context.Context, _ *Env, args json.RawMessage) (*Action, error) {
	var in struct {
		Query string `json:"query"`
		Count int    `json:"count"`
	}
	if err := decode(args, &in); err != nil {
		return nil, err
	}
	in.Query = strings.TrimSpace(in.Query)
	switch {
	case in.Query == "":
		return nil, errors.New("the query is empty")
	case len(in.Query) > maxQuery:
		return nil, fmt.Errorf("the query is too long (%d bytes, the limit is %d)", len(in.Query), maxQuery)
	case in.Count < 0 || in.Count > maxWebHits:
		return nil, fmt.Errorf("count must be 1 to %d", maxWebHits)
	}
	need := needOfHost(w.Engine.Host())
	need.Scope = "web searches with " + w.Engine.Provider + " (" + w.Engine.Host() + ") in this session"
	return &Action{
		Title:   "Search the web for " + code(in.Query, 80),
		Content: []Content{{Text: "With " + w.Engine.Provider + " (" + w.Engine.Host() + "): " + oneLine(in.Query, maxQuery)}},
		Need:    need,
		Run: func(ctx context.Context, _ func([]Content)) (Result, error) {
			hits, err := w.Engine.Search(ctx, in.Query, orDefault(in.Count, defaultHits))
			if err != nil {
				return Result{}, err
			}
			if len(hits) == 0 {
				text := "Nothing was found."
				return Result{Text: text, Content: []Content{{Text: text}}, Raw: map[string]any{"results": hits}}, nil
			}
			var text, shown strings.Builder
			for i, h := range hits {
				fmt.Fprintf(&text, "%d. %s\n   %s\n", i+1, h.Title, h.URL)
				fmt.Fprintf(&shown, "%d. %s\n   <%s>\n", i+1, h.Title, h.URL)
				if h.Snippet != "" {
					fmt.Fprintf(&text, "   %s\n", h.Snippet)
				}
			}
			return Result{Text: text.String(), Content: []Content{{Text: shown.String()}}, Raw: map[string]any{"results": hits}}, nil
		},
	}, nil
}
