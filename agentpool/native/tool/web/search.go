package web

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/hermesd/hermesd/agentpool/native/llm/credentials"
)

// Searcher asks one search engine.
type Searcher struct {
	Provider string             // searxng, brave or tavily
	BaseURL  string             // "" is the provider's own; SearXNG has none
	Key      credentials.Secret // of brave and tavily; of a SearXNG that wants one as a bearer token
	Timeout  time.Duration      // 0: 30 s
}

// Hit is one page that was found.
type Hit struct {
	Title   string `json:"title"`
	URL     string `json:"url"`
	Snippet string `json:"snippet,omitempty"`
}

// Providers lists the search engines that can be asked.
func Providers() []string { return []string{"searxng", "brave", "tavily"} }

const maxAnswer = 2 << 20 // bytes of a search engine's answer

// Host is the host that is asked, with its port if it has one.
func (s *Searcher) Host() string {
	u, err := url.Parse(s.base())
	if err != nil {
		return s.Provider
	}
	return u.Host
}

func (s *Searcher) base() string {
	if s.BaseURL != "" {
		return strings.TrimRight(s.BaseURL, "/")
	}
	switch s.Provider {
	case "brave":
		return "https://api.search.brave.com"
	case "tavily":
		return "https://api.tavily.com"
	}
	return ""
}

// Check says what is missing for a search, nil if nothing is.
func (s *Searcher) Check() error {
	switch s.Provider {
	case "searxng":
		if s.BaseURL == "" {
			return fmt.Errorf("searxng needs the address of a server: set web.search_url")
		}
	case "brave", "tavily":
		if s.Key.Empty() {
			return fmt.Errorf("%s needs a key: set %s, or put it into the file of credentials", s.Provider, credentials.Variable(s.Provider))
		}
	default:
		return fmt.Errorf("the search engine %q is unknown: it is one of %s", s.Provider, strings.Join(Providers(), ", "))
	}
	return nil
}

// Search returns up to most pages.
func (s *Searcher) Search(ctx context.Context, query string, most int) ([]Hit, error) {
	if err := s.Check(); err != nil {
		return nil, err
	}
	timeout := s.Timeout
	if timeout <= 0 {
		timeout = defaultTimeout
	}
	ctx, cancel := context.WithTimeoutCause(ctx, timeout, fmt.Errorf("it did not answer within %s", timeout))
	defer cancel()
	req, err := s.request(ctx, query, most)
	if err != nil {
		return nil, fmt.Errorf("searching: %w", err)
	}
	// The server is the user's choice, so it may stand anywhere; it must not
	// send us anywhere else.
	t := &http.Transport{Proxy: http.ProxyFromEnvironment, DisableKeepAlives: true, TLSHandshakeTimeout: 10 * time.Second, MaxResponseHeaderBytes: 256 << 10}
	defer t.CloseIdleConnections()
	res, err := t.RoundTrip(req)
	if err != nil {
		if ctx.Err() != nil {
			err = context.Cause(ctx)
		}
		return nil, fmt.Errorf("searching with %s: %w", s.Provider, err)
	}
	defer res.Body.Close()
	data, err := io.ReadAll(io.LimitReader(res.Body, maxAnswer))
	if err != nil {
		return nil, fmt.Errorf("searching with %s: %w", s.Provider, err)
	}
	if res.StatusCode != http.StatusOK {
		return nil, s.refused(res.StatusCode, data)
	}
	hits, err := s.hits(data)
	if err != nil {
		return nil, fmt.Errorf("reading the answer of %s: %w", s.Provider, err)
	}
	return hits[:min(len(hits), most)], nil
}

// refused is the error of an answer that is none, without the key in it.
func (s *Searcher) refused(status int, body []byte) error {
	text := strings.Join(strings.Fields(strings.ToValidUTF8(string(body[:min(len(body), 300)]), "")), " ")
	text = s.Key.Redact(text)
	advice := ""
	switch {
	case status == http.StatusUnauthorized || status == http.StatusForbidden:
		advice = "; its key is missing or refused"
		if s.Provider == "searxng" {
			advice = "; does the server allow the format json (search.formats in its settings)?"
		}
	case status == http.StatusTooManyRequests:
		advice = "; it was asked too often, try again later"
	}
	return fmt.Errorf("%s answered %d%s: %s", s.Provider, status, advice, text)
}

func (s *Searcher) request(ctx context.Context, query string, most int) (*http.Request, error) {
	method, address, body := http.MethodGet, "", []byte(nil)
	switch s.Provider {
	case "searxng":
		address = s.base() + "/search?" + url.Values{"q": {query}, "format": {"json"}}.Encode()
	case "brave":
		address = s.base() + "/res/v1/web/search?" + url.Values{"q": {query}, "count": {strconv.Itoa(min(most, 20))}}.Encode()
	default:
		method, address = http.MethodPost, s.base()+"/search"
		var err error
		if body, err = json.Marshal(map[string]any{"query": query, "max_results": min(most, 20)}); err != nil {
			return nil, err
		}
	}
	req, err := http.NewRequestWithContext(ctx, method, address, bytes.NewReader(body))
	if err != nil {
		return nil, err
	}
	req.Header.Set("Accept", "application/json")
	req.Header.Set("User-Agent", "hermesd")
	if body != nil {
		req.Header.Set("Content-Type", "application/json")
	}
	switch {
	case s.Key.Empty():
	case s.Provider == "brave":
		req.Header.Set("X-Subscription-Token", s.Key.Reveal())
	default:
		req.Header.Set("Authorization", "Bearer "+s.Key.Reveal())
	}
	return req, nil
}

func (s *Searcher) hits(data []byte) ([]Hit, error) {
	type result struct {
		Title       string `json:"title"`
		URL         string `json:"url"`
		Content     string `json:"content"`     // searxng, tavily
		Description string `json:"description"` // brave
	}
	var in struct {
		Results []result `json:"results"` // searxng, tavily
		Web     struct {
			Results []result `json:"results"` // brave
		} `json:"web"`
	}
	if err := json.Unmarshal(data, &in); err != nil {
		return nil, err
	}
	hits := []Hit{}
	for _, r := range append(in.Results, in.Web.Results...) {
		if u, err := url.Parse(r.URL); err != nil || u.Scheme != "http" && u.Scheme != "https" {
			continue
		}
		hits = append(hits, Hit{Title: plain(r.Title, 200), URL: r.URL, Snippet: plain(r.Content+r.Description, 500)})
	}
	return hits, nil
}

// plain is at most n characters of a text of others, on one line and without
// the tags with which engines mark the words they found.
func plain(s string, n int) string {
	for _, tag := range []string{"<strong>", "</strong>", "<b>", "</b>", "<em>", "</em>"} {
		s = strings.ReplaceAll(s, tag, "")
	}
	s = strings.Join(strings.Fields(strings.ToValidUTF8(s, "\uFFFD")), " ")
	if r := []rune(s); len(r) > n {
		s = string(r[:n-1]) + "…"
	}
	return s
}
