package web

import (
	"bytes"
	"compress/gzip"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"net/url"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/hermesd/hermesd/agentpool/native/llm/credentials"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// local lets through this machine, where the servers of the tests stand.
var local = Guard{Allow: []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8"), netip.MustParsePrefix("::1/128")}}

func parse(t *testing.T, s string) *url.URL {
	t.Helper()
	u, err := ParseURL(s)
	if err != nil {
		t.Fatal(err)
	}
	return u
}

func never(string) bool { return false }

func TestAddressesThatAreNotPublicAreRefused(t *testing.T) {
	for _, a := range []string{
		"127.0.0.1", "127.8.9.1", "::1", "0.0.0.0", "0.1.2.3", "::", "10.0.0.1", "172.16.0.1", "172.31.255.255", "192.168.1.1", "169.254.169.254", "169.254.0.1",
		"100.64.0.1", "100.100.100.200", "168.63.129.16", "192.0.0.192", "192.0.2.1", "198.18.0.1", "198.51.100.1", "203.0.113.9", "224.0.0.1", "239.255.255.250", "240.0.0.1", "255.255.255.255",
		"::ffff:127.0.0.1", "::ffff:10.0.0.1", "::ffff:169.254.169.254", "::127.0.0.1", "fe80::1", "fe80::1%eth0", "fc00::1", "fd00:ec2::254", "fec0::1", "ff02::1",
		"64:ff9b::127.0.0.1", "64:ff9b::a9fe:a9fe", "64:ff9b:1::1", "2002:7f00:1::", "2002:a9fe:a9fe::", "2001:0:1::1", "2001:db8::1", "100::1", "3fff::1",
	} {
		if why := (Guard{}).Refuses(netip.MustParseAddr(a)); why == "" {
			t.Errorf("%s is let through", a)
		}
	}
	for _, a := range []string{"1.1.1.1", "8.8.8.8", "172.32.0.1", "192.169.0.1", "169.253.1.1", "100.128.0.1", "2606:4700::1111", "64:ff9b::1.1.1.1", "2002:101:101::", "::ffff:8.8.8.8", "2a00:1450::1"} {
		if why := (Guard{}).Refuses(netip.MustParseAddr(a)); why != "" {
			t.Errorf("%s is refused as of %s", a, why)
		}
	}
	if why := (Guard{}).Refuses(netip.Addr{}); why == "" {
		t.Error("no address is let through")
	}
	g := Guard{Allow: []netip.Prefix{netip.MustParsePrefix("10.1.0.0/16")}}
	if g.Refuses(netip.MustParseAddr("10.1.2.3")) != "" || g.Refuses(netip.MustParseAddr("::ffff:10.1.2.3")) != "" || g.Refuses(netip.MustParseAddr("10.2.0.1")) == "" || g.Refuses(netip.MustParseAddr("127.0.0.1")) == "" {
		t.Error("what is allowed is not what is let through")
	}
}

// server is a server on this machine that counts what reaches it.
func server(t *testing.T, h http.HandlerFunc) (*httptest.Server, *int) {
	t.Helper()
	n := 0
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { n++; h(w, r) }))
	t.Cleanup(s.Close)
	return s, &n
}

// names is a resolver that knows every name as the address 127.0.0.1: it speaks
// DNS over a pipe.
func names(t *testing.T) *net.Resolver {
	return &net.Resolver{PreferGo: true, Dial: func(context.Context, string, string) (net.Conn, error) {
		ours, theirs := net.Pipe()
		go func() { // ends when the resolver closes its end
			defer theirs.Close()
			buf := make([]byte, 512)
			for {
				// A stream: two bytes of length before each message.
				if _, err := io.ReadFull(theirs, buf[:2]); err != nil {
					return
				}
				n := int(buf[0])<<8 | int(buf[1])
				if _, err := io.ReadFull(theirs, buf[:n]); err != nil {
					return
				}
				q := buf[:n]
				end := 12
				for q[end] != 0 {
					end += int(q[end]) + 1
				}
				kind := q[end+2]
				question := q[12 : end+5]
				answer := append([]byte{q[0], q[1], 0x81, 0x80, 0, 1, 0, 0, 0, 0, 0, 0}, question...)
				if kind == 1 { // A
					answer[7] = 1
					answer = append(answer, 0xc0, 12, 0, 1, 0, 1, 0, 0, 0, 0, 0, 4, 127, 0, 0, 1)
				}
				if _, err := theirs.Write(append([]byte{byte(len(answer) >> 8), byte(len(answer))}, answer...)); err != nil {
					return
				}
			}
		}()
		return ours, nil
	}}
}

func TestNothingReachesAServerThatIsNotAllowed(t *testing.T) {
	s, n := server(t, func(w http.ResponseWriter, r *http.Request) { fmt.Fprint(w, "secret") })
	port := parse(t, s.URL).Port()
	for _, address := range []string{s.URL, "http://localhost:" + port, "http://[::ffff:127.0.0.1]:" + port, "http://0.0.0.0:" + port, "http://[::]:" + port, "http://[::1]:" + port,
		"http://169.254.169.254/latest/meta-data/"} {
		_, err := (&Client{}).Fetch(context.Background(), parse(t, address), never)
		var refused *RefusedError
		if !errors.As(err, &refused) || !strings.Contains(err.Error(), "web.allow_private") {
			t.Errorf("%s: %v", address, err)
		}
	}
	// A name of the public internet that leads here.
	c := &Client{resolver: names(t)}
	_, err := c.Fetch(context.Background(), parse(t, "http://rebound.example:"+port), never)
	var refused *RefusedError
	if !errors.As(err, &refused) || refused.Addr != netip.MustParseAddr("127.0.0.1") {
		t.Errorf("a name that leads here: %v", err)
	}
	if *n != 0 {
		t.Errorf("%d requests reached the server", *n)
	}
	c.Guard = local
	if p, err := c.Fetch(context.Background(), parse(t, "http://rebound.example:"+port), never); err != nil || p.Text != "secret" {
		t.Errorf("allowed: %+v, %v", p, err)
	}
}

func TestProxiesOfTheEnvironmentAreNotUsed(t *testing.T) {
	proxy, n := server(t, func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, "proxy") })
	t.Setenv("HTTP_PROXY", proxy.URL)
	t.Setenv("http_proxy", proxy.URL)
	_, err := (&Client{Guard: local, resolver: names(t)}).Fetch(context.Background(), parse(t, "http://a.example:1/"), never)
	if err == nil || *n != 0 {
		t.Errorf("%v, %d requests went through the proxy", err, *n)
	}
}

func TestEveryHopIsChecked(t *testing.T) {
	inner, n := server(t, func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, "inner") })
	to := ""
	outer, _ := server(t, func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/end" {
			fmt.Fprint(w, "end")
			return
		}
		http.Redirect(w, r, to, http.StatusFound)
	})
	v4 := Guard{Allow: []netip.Prefix{netip.MustParsePrefix("127.0.0.1/32")}}
	c := &Client{Guard: v4, resolver: names(t)}
	port := parse(t, inner.URL).Port()
	for _, x := range []struct {
		to        string
		allowed   bool
		text, err string
		elsewhere string
	}{
		{to: "/end", text: "end"},
		{to: "http://127.0.0.1:" + port + "/x", text: "inner"}, // the same host
		{to: "http://other.example:" + port + "/x", elsewhere: "http://other.example:" + port + "/x"},
		{to: "http://other.example:" + port + "/x", allowed: true, text: "inner"},
		{to: "http://127.0.0.2:" + port + "/", allowed: true, err: "127.0.0.2 is of this machine"},
		{to: "http://169.254.169.254/", allowed: true, err: "169.254.169.254 is of a link-local network"},
		{to: "file:///etc/passwd", err: "only http:// and https://"},
		{to: "http://user:pw@127.0.0.1/", err: "user name or password"},
		{to: "/again", err: "more than 10 redirections"},
	} {
		to = x.to
		p, err := c.Fetch(context.Background(), parse(t, outer.URL+"/a"), func(string) bool { return x.allowed })
		if x.err != "" {
			if err == nil || !strings.Contains(err.Error(), x.err) {
				t.Errorf("%s: %+v, %v, want %q", x.to, p, err, x.err)
			}
			continue
		}
		if err != nil || p.Text != x.text || p.Elsewhere != x.elsewhere {
			t.Errorf("%s: %+v, %v", x.to, p, err)
		}
	}
	if *n != 2 {
		t.Errorf("%d requests reached the inner server, want 2", *n)
	}
}

func TestSites(t *testing.T) {
	for _, c := range []struct {
		a, b string
		want bool
	}{
		{"http://a.example", "https://a.example", true},
		{"https://a.example", "http://a.example", false},
		{"https://example.com", "https://www.example.com", true},
		{"https://docs.example.co.uk", "https://example.co.uk", true},
		{"https://a.github.io", "https://b.github.io", false},
		{"https://a.co.uk", "https://b.co.uk", false},
		{"https://1.2.3.4", "https://9.2.3.4", false},
		{"https://example.com", "https://example.com.evil.com", false},
	} {
		if got := sameSite(parse(t, c.a), parse(t, c.b)); got != c.want {
			t.Errorf("%s → %s: %v", c.a, c.b, got)
		}
	}
}

func TestURLs(t *testing.T) {
	for in, want := range map[string]string{
		" https://Example.COM./a?b#c ": "https://example.com/a?b",
		"http://[::1]:80/":             "http://[::1]:80/",
		"https://bücher.example/":      "https://xn--bcher-kva.example/",
		"https://еxample.com":          "https://xn--xample-2of.com", // the first letter is Cyrillic
	} {
		if u, err := ParseURL(in); err != nil || u.String() != want {
			t.Errorf("%q: %v, %v, want %s", in, u, err, want)
		}
	}
	for in, want := range map[string]string{
		"": "only http", "ftp://a/": "only http", "file:///etc/passwd": "only http", "javascript:alert(1)": "only http", "http://": "no host", "https:///a": "no host",
		"http://a:b@c/": "user name", "http://a b/": "no URL", "http://" + strings.Repeat("a", maxURL): "too long", "http://%zz/": "no URL", "http://a_b..c/": "no name",
	} {
		if u, err := ParseURL(in); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%.40q: %v, %v, want %q", in, u, err, want)
		}
	}
}

const article = `<!DOCTYPE html><html><head><title>The title &amp; more</title><script>evil()</script></head><body>
<nav><a href="/x">Menu</a></nav>
<article><h1>Heading</h1><p>%s with a <a href="/rel">link</a> and <code>code</code>.</p>
<p style="display: none">hidden words</p><p hidden>more hidden</p>
<ul><li>one</li><li>two <b>bold</b></li></ul><pre>a
  b</pre><table><tr><th>k</th><th>v</th></tr><tr><td>1</td><td>2</td></tr></table></article><footer>Footer</footer></body></html>`

func TestPagesBecomeText(t *testing.T) {
	long := strings.Repeat("This is a sentence of an article, with commas, and it goes on for a while. ", 20)
	for _, c := range []struct {
		name, contentType string
		body              string
		want              []string
		never             []string
	}{
		{"article", "text/html; charset=utf-8", fmt.Sprintf(article, long),
			[]string{"goes on for a while. with a link (BASE/rel) and `code`.", "- one\n- two bold", "```\na\n  b\n```", "1 | 2"}, []string{"evil", "hidden", "Footer", "Menu", "<"}},
		{"no article", "text/html", "<title>t</title><p>short</p><form><p>Name</p></form>", []string{"short", "Name"}, []string{"<"}},
		{"empty", "text/html", "", nil, nil},
		{"latin", "text/html; charset=iso-8859-1", "<p>caf\xe9</p>", []string{"café"}, nil},
		{"meta", "text/html", "<meta charset=windows-1252><p>\x93quoted\x94</p>", []string{"“quoted”"}, nil},
		{"json", "application/json", `{"a":"é"}`, []string{`{"a":"é"}`}, nil},
		{"problem", "application/problem+json", `{"a":1}`, []string{`{"a":1}`}, nil},
		{"plain", "text/plain", "a\n  b", []string{"a\n  b"}, nil},
		{"latin plain", "text/plain; charset=latin1", "caf\xe9", []string{"café"}, nil},
		{"broken plain", "text/plain", "a\xffb", []string{"a\uFFFDb"}, nil},
		{"markdown", "text/markdown", "# a", []string{"# a"}, nil},
		{"no type", "", "just text", []string{"just text"}, nil},
	} {
		s, _ := server(t, func(w http.ResponseWriter, _ *http.Request) {
			w.Header()["Content-Type"] = nil
			if c.contentType != "" {
				w.Header().Set("Content-Type", c.contentType)
			}
			io.WriteString(w, c.body)
		})
		p, err := (&Client{Guard: local}).Fetch(context.Background(), parse(t, s.URL), never)
		if err != nil {
			t.Errorf("%s: %v", c.name, err)
			continue
		}
		text := strings.ReplaceAll(p.Text, s.URL, "BASE")
		for _, want := range c.want {
			if !strings.Contains(text, want) {
				t.Errorf("%s: %q lacks %q", c.name, text, want)
			}
		}
		for _, no := range c.never {
			if strings.Contains(text, no) {
				t.Errorf("%s: %q has %q", c.name, text, no)
			}
		}
	}
}

func TestWhatIsNoTextOrTooLargeIsRefused(t *testing.T) {
	var bomb bytes.Buffer
	z := gzip.NewWriter(&bomb)
	z.Write(make([]byte, 1<<20))
	z.Close()
	for _, c := range []struct {
		name string
		h    http.HandlerFunc
		want string
	}{
		{"picture", func(w http.ResponseWriter, _ *http.Request) { w.Header().Set("Content-Type", "image/png") }, "it is of type image/png"},
		{"binary that says it is text", func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", "text/plain")
			w.Write([]byte("a\x00b"))
		}, "it is no text, though it says so"},
		{"binary without a type", func(w http.ResponseWriter, _ *http.Request) {
			w.Header()["Content-Type"] = nil
			w.Write([]byte("\x00\x01\x02\x03"))
		}, "it is no text (it seems to be application/octet-stream)"},
		{"said to be large", func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", "text/plain")
			w.Header().Set("Content-Length", "100000")
			w.Write(make([]byte, 100000))
		}, "it is too large (100000 bytes, the limit is 1000)"},
		{"large", func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", "text/plain")
			for range 100 {
				w.Write(bytes.Repeat([]byte("x"), 100))
				w.(http.Flusher).Flush()
			}
		}, "it is too large (more than 1000 bytes)"},
		{"large when unpacked", func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", "text/plain")
			w.Header().Set("Content-Encoding", "gzip")
			w.Write(bomb.Bytes())
		}, "it is too large"},
	} {
		s, _ := server(t, c.h)
		p, err := (&Client{Guard: local, MaxSize: 1000}).Fetch(context.Background(), parse(t, s.URL), never)
		if err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %+v, %v, want %q", c.name, p, err, c.want)
		}
	}
}

func TestHTMLThatIsNestedWithoutEndIsRefused(t *testing.T) {
	p := Page{Type: "text/html"}
	if err := p.read(bytes.Repeat([]byte("<div>"), 100_000), "text/html", parse(t, "https://a.example")); err == nil || !strings.Contains(err.Error(), "reading its HTML") {
		t.Error(err)
	}
}

func TestASlowServerHasItsTime(t *testing.T) {
	end := make(chan struct{})
	s, _ := server(t, func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "text/plain")
		w.Write([]byte("a"))
		w.(http.Flusher).Flush()
		<-end
	})
	defer close(end)
	_, err := (&Client{Guard: local, Timeout: 50 * time.Millisecond}).Fetch(context.Background(), parse(t, s.URL), never)
	if err == nil || !strings.Contains(err.Error(), "it took longer than 50ms") {
		t.Error(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	time.AfterFunc(20*time.Millisecond, cancel)
	if _, err := (&Client{Guard: local}).Fetch(ctx, parse(t, s.URL), never); !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
}

func TestSearchEngines(t *testing.T) {
	for _, c := range []struct {
		s       Searcher
		request string
		answer  string
	}{
		{Searcher{Provider: "searxng"}, `GET /search?format=json&q=a+%26+b  `, `{"results":[{"title":"T","url":"https://e.example/1","content":"C"},{"title":"no","url":"javascript:x"}]}`},
		{Searcher{Provider: "brave", Key: credentials.NewSecret("k3y")}, `GET /res/v1/web/search?count=5&q=a+%26+b k3y `, `{"web":{"results":[{"title":"<strong>T</strong>","url":"https://e.example/1","description":"C"}]}}`},
		{Searcher{Provider: "tavily", Key: credentials.NewSecret("k3y")}, `POST /search Bearer k3y {"max_results":5,"query":"a \u0026 b"}`, `{"results":[{"title":"T","url":"https://e.example/1","content":"C"}]}`},
	} {
		got := ""
		srv, _ := server(t, func(w http.ResponseWriter, r *http.Request) {
			body, _ := io.ReadAll(r.Body)
			got = fmt.Sprintf("%s %s %s%s %s", r.Method, r.URL, r.Header.Get("X-Subscription-Token"), r.Header.Get("Authorization"), body)
			io.WriteString(w, c.answer)
		})
		c.s.BaseURL = srv.URL + "/"
		hits, err := c.s.Search(context.Background(), "a & b", 5)
		if err != nil || len(hits) != 1 || hits[0] != (Hit{"T", "https://e.example/1", "C"}) {
			t.Errorf("%s: %+v, %v", c.s.Provider, hits, err)
		}
		if got != c.request {
			t.Errorf("%s was asked %q, want %q", c.s.Provider, got, c.request)
		}
		if c.s.Host() != parse(t, srv.URL).Host {
			t.Errorf("%s has the host %s", c.s.Provider, c.s.Host())
		}
	}
}

func TestASearchThatFailsSaysWhyWithoutTheKey(t *testing.T) {
	for status, want := range map[int]string{401: "its key is missing or refused", 429: "asked too often", 500: "answered 500"} {
		srv, _ := server(t, func(w http.ResponseWriter, r *http.Request) {
			w.WriteHeader(status)
			fmt.Fprintf(w, "the key %s is bad", r.Header.Get("X-Subscription-Token"))
		})
		s := Searcher{Provider: "brave", BaseURL: srv.URL, Key: credentials.NewSecret("k3y")}
		_, err := s.Search(context.Background(), "x", 3)
		if err == nil || !strings.Contains(err.Error(), want) || strings.Contains(err.Error(), "k3y") {
			t.Errorf("%d: %v", status, err)
		}
	}
	srv, n := server(t, func(w http.ResponseWriter, r *http.Request) { http.Redirect(w, r, "/else", http.StatusFound) })
	s := Searcher{Provider: "brave", BaseURL: srv.URL, Key: credentials.NewSecret("k3y")}
	if _, err := s.Search(context.Background(), "x", 3); err == nil || *n != 1 {
		t.Errorf("a redirection was followed with the key: %v, %d requests", err, *n)
	}
	for want, s := range map[string]Searcher{"set web.search_url": {Provider: "searxng"}, "set BRAVE_API_KEY": {Provider: "brave"}, "set TAVILY_API_KEY": {Provider: "tavily"}, "is unknown": {Provider: "x"}} {
		if err := s.Check(); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%+v: %v", s, err)
		}
	}
}

func FuzzPage(f *testing.F) {
	f.Add([]byte(fmt.Sprintf(article, "x")), "text/html")
	f.Add([]byte("<table><td><li><pre>"), "text/html; charset=utf-16")
	f.Add([]byte("\xff\xfe<"), "text/plain")
	at := &url.URL{Scheme: "https", Host: "a.example"}
	f.Fuzz(func(t *testing.T, data []byte, contentType string) {
		p := Page{Type: "text/html"}
		if err := p.read(data, contentType, at); err == nil && strings.ToValidUTF8(p.Text, "") != p.Text {
			t.Errorf("%q", p.Text)
		}
	})
}
