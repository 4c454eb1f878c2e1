package main

import (
	"fmt"
	"slices"
	"time"

	"github.com/hermesd/hermesd/agentpool/native/llm/credentials"
	"github.com/hermesd/hermesd/agentpool/native/tool/web"
	"github.com/hermesd/hermesd/configs"
)

// newWeb makes what the built-in agent reaches the web with. search is nil
// without a search engine.
func newWeb(c configs.Web, keys credentials.Source) (fetch *web.Client, search *web.Searcher, err error) {
	networks, err := c.Networks()
	if err != nil {
		return nil, nil, fmt.Errorf("web.allow_private: %w", err) // found when the file was read
	}
	fetch = &web.Client{Guard: web.Guard{Allow: networks}, Timeout: time.Duration(c.Timeout), MaxSize: int(c.MaxSize)}
	if c.Search == "none" {
		return fetch, nil, nil
	}
	found, err := keys.Search()
	if err != nil && c.Search != "searxng" && c.Search != "auto" { // the models say it where nothing depends on it
		return nil, nil, err
	}
	search = &web.Searcher{Provider: c.Search, BaseURL: c.SearchURL, Timeout: time.Duration(c.Timeout)}
	switch {
	case c.Search != "auto":
	case len(found) > 0:
		// An address beside a key found by itself is that of a SearXNG, and
		// must not be sent the key.
		search.Provider, search.BaseURL = found[0].Provider, ""
	case c.SearchURL != "":
		search.Provider = "searxng"
	default:
		return fetch, nil, nil
	}
	if i := slices.IndexFunc(found, func(f credentials.Credential) bool { return f.Provider == search.Provider }); i >= 0 {
		search.Key = found[i].Key
	}
	if err := search.Check(); err != nil {
		return nil, nil, fmt.Errorf("web.search: %w", err)
	}
	return fetch, search, nil
}
