package web

import (
	"context"
	"errors"
	"fmt"
	"io"
	"mime"
	"net"
	"net/http"
	"net/url"
	"strings"
	"time"

	"golang.org/x/net/html/charset" // what browsers do about character sets
	"golang.org/x/net/idna"
	"golang.org/x/net/publicsuffix"
)

const (
	maxHops = 10
	maxURL  = 8 << 10

	defaultTimeout = 30 * time.Second
	defaultMaxSize = 5 << 20
)

// Client fetches pages. The zero Client is usable.
type Client struct {
	Guard     Guard
	Timeout   time.Duration // of one fetch with all its hops; 0: 30 s
	MaxSize   int           // bytes of a page, unpacked; 0: 5 MiB
	UserAgent string

	// resolve and transport are for tests; nil means the real ones.
	resolver *net.Resolver
	adjust   func(*http.Transport)
}

// Page is what was fetched.
type Page struct {
	URL    string // where it came from in the end
	Status int
	Type   string // media type, without parameters
	Title  string
	Text   string // readable text, UTF-8
	Bytes  int    // of the answer
	// Elsewhere is where the page has moved to, on a site that was not allowed;
	// then nothing else is set but URL and Status.
	Elsewhere string
}

// ParseURL reads an address that may be fetched. Its host is written in ASCII,
// so that letters that look alike do not mislead whoever is asked about it.
func ParseURL(text string) (*url.URL, error) {
	text = strings.TrimSpace(text)
	if len(text) > maxURL {
		return nil, fmt.Errorf("the URL is too long (%d bytes, the limit is %d)", len(text), maxURL)
	}
	u, err := url.Parse(text)
	switch {
	case err != nil:
		return nil, fmt.Errorf("this is no URL: %w", errors.Unwrap(err))
	case u.Scheme != "http" && u.Scheme != "https":
		return nil, errors.New("only http:// and https:// URLs can be fetched")
	case u.Hostname() == "":
		return nil, errors.New("the URL has no host")
	case u.User != nil:
		return nil, errors.New("a URL with a user name or password in it is not fetched")
	}
	host := strings.TrimSuffix(u.Hostname(), ".")
	if !strings.Contains(host, ":") { // no IPv6 address
		if host, err = idna.Lookup.ToASCII(host); err != nil {
			return nil, fmt.Errorf("the host of the URL is no name: %w", err)
		}
		host = strings.ToLower(host)
	}
	if port := u.Port(); port != "" {
		u.Host = net.JoinHostPort(host, port)
	} else if strings.Contains(host, ":") {
		u.Host = "[" + host + "]"
	} else {
		u.Host = host
	}
	u.Fragment, u.RawFragment = "", ""
	return u, nil
}

// sameSite tells whether a redirection stays with whom the user has agreed to.
func sameSite(a, b *url.URL) bool {
	if a.Scheme == "https" && b.Scheme != "https" {
		return false
	}
	if a.Hostname() == b.Hostname() {
		return true
	}
	x, errX := publicsuffix.EffectiveTLDPlusOne(a.Hostname())
	y, errY := publicsuffix.EffectiveTLDPlusOne(b.Hostname())
	return errX == nil && errY == nil && x == y && net.ParseIP(a.Hostname()) == nil && net.ParseIP(b.Hostname()) == nil
}

// Fetch gets a page. It follows redirections within the site of u, and to
// another site if allowed agrees; else the page says where it would have gone.
func (c *Client) Fetch(ctx context.Context, u *url.URL, allowed func(host string) bool) (Page, error) {
	timeout := c.Timeout
	if timeout <= 0 {
		timeout = defaultTimeout
	}
	ctx, cancel := context.WithTimeoutCause(ctx, timeout, fmt.Errorf("it took longer than %s", timeout))
	defer cancel()
	t := &http.Transport{
		DialContext:            c.dialer().DialContext,
		DisableKeepAlives:      true,
		TLSHandshakeTimeout:    10 * time.Second,
		MaxResponseHeaderBytes: 256 << 10,
		// No proxy: it would dial in our place, and nobody could judge where.
	}
	if c.adjust != nil {
		c.adjust(t)
	}
	defer t.CloseIdleConnections()
	for hop := 0; ; hop++ {
		if hop > maxHops {
			return Page{}, fmt.Errorf("fetching %s: more than %d redirections", u, maxHops)
		}
		page, next, err := c.get(ctx, t, u)
		if err != nil {
			if cause := context.Cause(ctx); cause != nil && ctx.Err() != nil {
				err = cause
			}
			return Page{}, fmt.Errorf("fetching %s: %w", u, err)
		}
		if next == nil {
			return page, nil
		}
		if !sameSite(u, next) && !allowed(next.Host) {
			return Page{URL: u.String(), Status: page.Status, Elsewhere: next.String()}, nil
		}
		u = next
	}
}

func (c *Client) dialer() *net.Dialer {
	d := c.Guard.dialer()
	d.Resolver = c.resolver
	return d
}

// get makes one request. It returns a page, or where to go on.
func (c *Client) get(ctx context.Context, t *http.Transport, u *url.URL) (Page, *url.URL, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, u.String(), nil)
	if err != nil {
		return Page{}, nil, err
	}
	agent := c.UserAgent
	if agent == "" {
		agent = "hermesd"
	}
	req.Header.Set("User-Agent", agent)
	req.Header.Set("Accept", "text/html,application/xhtml+xml,text/*;q=0.9,application/json;q=0.9,*/*;q=0.1")
	res, err := t.RoundTrip(req) // no client: redirections are ours, and there are no cookies
	if err != nil {
		return Page{}, nil, err
	}
	defer res.Body.Close()
	switch res.StatusCode {
	case http.StatusMovedPermanently, http.StatusFound, http.StatusSeeOther, http.StatusTemporaryRedirect, http.StatusPermanentRedirect:
		if to := res.Header.Get("Location"); to != "" {
			next, err := u.Parse(to)
			if err == nil {
				next, err = ParseURL(next.String())
			}
			if err != nil {
				return Page{}, nil, fmt.Errorf("it redirects to something else: %w", err)
			}
			return Page{Status: res.StatusCode}, next, nil
		}
	}
	page := Page{URL: u.String(), Status: res.StatusCode}
	most := c.MaxSize
	if most <= 0 {
		most = defaultMaxSize
	}
	page.Type, _, _ = mime.ParseMediaType(res.Header.Get("Content-Type"))
	if page.Type != "" && !isText(page.Type) {
		return Page{}, nil, fmt.Errorf("it is of type %s, and only text is fetched: HTML, JSON, XML and text/*", page.Type)
	}
	if res.ContentLength > int64(most) {
		return Page{}, nil, fmt.Errorf("it is too large (%d bytes, the limit is %d)", res.ContentLength, most)
	}
	data, err := io.ReadAll(io.LimitReader(res.Body, int64(most)+1))
	if err != nil {
		return Page{}, nil, err
	}
	if len(data) > most {
		return Page{}, nil, fmt.Errorf("it is too large (more than %d bytes)", most)
	}
	page.Bytes = len(data)
	if page.Type == "" {
		page.Type, _, _ = mime.ParseMediaType(http.DetectContentType(data))
		if !isText(page.Type) {
			return Page{}, nil, fmt.Errorf("it is no text (it seems to be %s)", page.Type)
		}
	}
	if err := page.read(data, res.Header.Get("Content-Type"), u); err != nil {
		return Page{}, nil, err
	}
	return page, nil, nil
}

// isText tells whether a media type is one of text.
func isText(t string) bool {
	switch t {
	case "application/json", "application/xhtml+xml", "application/xml", "application/javascript", "application/yaml", "application/x-yaml", "application/toml", "application/x-ndjson":
		return true
	}
	return strings.HasPrefix(t, "text/") || strings.HasPrefix(t, "application/") && (strings.HasSuffix(t, "+json") || strings.HasSuffix(t, "+xml") || strings.HasSuffix(t, "+yaml"))
}

func isHTML(t string) bool { return t == "text/html" || t == "application/xhtml+xml" }

// decoded is a text in UTF-8. JSON is UTF-8 by its own rules.
func decoded(data []byte, contentType, mediaType string) (string, error) {
	if mediaType == "application/json" || strings.HasSuffix(mediaType, "+json") {
		return strings.ToValidUTF8(strings.TrimPrefix(string(data), "\uFEFF"), "\uFFFD"), nil
	}
	e, _, certain := charset.DetermineEncoding(data[:min(len(data), 1024)], contentType)
	if !certain && !isHTML(mediaType) {
		return strings.ToValidUTF8(strings.TrimPrefix(string(data), "\uFEFF"), "\uFFFD"), nil
	}
	text, err := e.NewDecoder().Bytes(data)
	if err != nil {
		return "", fmt.Errorf("reading its character set: %w", err)
	}
	return strings.ToValidUTF8(string(text), "\uFFFD"), nil
}
