//go:build unix

package native

import (
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"net/url"
	"strings"
	"testing"

	"github.com/hermesd/hermesd/agentpool/native/llm"
	"github.com/hermesd/hermesd/agentpool/native/llm/credentials"
	"github.com/hermesd/hermesd/agentpool/native/tool/web"
)

// localWeb fetches from this machine.
func localWeb() *web.Client {
	return &web.Client{Guard: web.Guard{Allow: []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8")}}}
}

func serve(t *testing.T, h http.HandlerFunc) (address, host string) {
	t.Helper()
	s := httptest.NewServer(h)
	t.Cleanup(s.Close)
	u, err := url.Parse(s.URL)
	if err != nil {
		t.Fatal(err)
	}
	return s.URL, u.Host
}

func TestTheOfflineModelFetchesAndEachHostIsAskedFor(t *testing.T) {
	address, host := serve(t, func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "text/plain")
		fmt.Fprint(w, "page ", r.URL.Path)
	})
	second, _ := serve(t, func(w http.ResponseWriter, r *http.Request) { fmt.Fprint(w, "second") })
	w := newWorld(t, Config{Web: localWeb()})
	w.answer = choose(allowAlways)
	w.prompt("fetch " + address + "/a\nfetch " + address + "/b")
	if len(w.asked) != 1 {
		t.Fatalf("asked %d times for one host", len(w.asked))
	}
	if card := string(w.asked[0].ToolCall); !strings.Contains(card, `"kind":"fetch"`) || !strings.Contains(card, "Fetch "+address+"/a") {
		t.Errorf("the card shows %s", card)
	}
	if always := w.asked[0].Options[1]; always.Name != "Always allow fetching from "+host+" in this session" {
		t.Errorf("always is offered as %q", always.Name)
	}
	for i, path := range []string{"/a", "/b"} {
		if end := w.last(i); end["status"] != "completed" || !strings.Contains(fmt.Sprint(end["content"]), "page "+path) {
			t.Errorf("%v", end)
		}
	}
	w.answer = choose(rejectOnce)
	w.prompt("fetch " + second)
	if end := w.last(2); len(w.asked) != 2 || end["status"] != "failed" || strings.Contains(fmt.Sprint(end), "second") {
		t.Errorf("asked %d times: %v", len(w.asked), end)
	}
}

func TestNothingPrivateIsFetchedThoughTheUserAgrees(t *testing.T) {
	n := 0
	address, _ := serve(t, func(http.ResponseWriter, *http.Request) { n++ })
	w := newWorld(t, Config{ApprovalMode: "session"})
	w.prompt("fetch " + address)
	if end := w.last(0); end["status"] != "failed" || !strings.Contains(fmt.Sprint(end), "web.allow_private") || n > 0 {
		t.Errorf("%d requests: %v", n, end)
	}
}

// A redirection to another site is followed only where that is not asked about.
func TestARedirectionToAnotherSiteIsAMatterOfPermission(t *testing.T) {
	for _, c := range []struct{ policy, want string }{{"session", "arrived"}, {"ask", "leads to another site"}} {
		target, _ := serve(t, func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, "arrived") })
		target = strings.Replace(target, "127.0.0.1", "127.0.0.2", 1)
		if conn, err := net.Dial("tcp", strings.TrimPrefix(target, "http://")); err == nil {
			conn.Close()
		} else {
			target = strings.Replace(target, "127.0.0.2", "localhost", 1) // systems with one loopback address
		}
		address, _ := serve(t, func(w http.ResponseWriter, r *http.Request) { http.Redirect(w, r, target, http.StatusFound) })
		w := newWorld(t, Config{ApprovalMode: c.policy, Web: &web.Client{Guard: web.Guard{Allow: []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8"), netip.MustParsePrefix("::1/128")}}}})
		w.answer = choose(allowOnce)
		w.prompt("fetch " + address)
		if end := w.last(0); !strings.Contains(fmt.Sprint(end["content"]), c.want) {
			t.Errorf("%s: %v", c.policy, end)
		}
	}
}

func TestWebSearchIsOfferedWhereThereIsAnEngine(t *testing.T) {
	offered := func(c Config) bool {
		s := &script{}
		c.LLM = s
		w := newWorld(t, c)
		w.prompt("go")
		for _, spec := range s.requests[0].Tools {
			if spec.Name == "web_search" {
				return true
			}
		}
		return false
	}
	if offered(Config{}) || offered(Config{Search: &web.Searcher{Provider: "brave"}}) {
		t.Error("offered without an engine, or without its key")
	}
	address, host := serve(t, func(w http.ResponseWriter, r *http.Request) {
		fmt.Fprint(w, `{"web":{"results":[{"title":"Found","url":"https://e.example/","description":"it"}]}}`)
	})
	engine := &web.Searcher{Provider: "brave", BaseURL: address, Key: credentials.NewSecret("k3y")}
	if !offered(Config{Search: engine}) {
		t.Error("not offered")
	}
	s := &script{messages: [][]llm.Event{{calling("web_search", `{"query":"x"}`)}}}
	w := newWorld(t, Config{Search: engine, LLM: s})
	w.answer = choose(allowOnce)
	w.prompt("go")
	if got := s.requests[1].Messages[2].Parts[0].Result.Text; got != "1. Found\n   https://e.example/\n   it\n" {
		t.Errorf("%q", got)
	}
	if name := w.asked[0].Options[1].Name; name != "Always allow web searches with brave ("+host+") in this session" {
		t.Errorf("%q", name)
	}
	for _, r := range w.log {
		if strings.Contains(string(r.Data), "k3y") {
			t.Errorf("the key stands in the log: %s", r.Data)
		}
	}
}
