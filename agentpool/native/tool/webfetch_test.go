package tool

import (
	"strings"
	"testing"

	"github.com/hermesd/hermesd/agentpool/native/llm/credentials"
	"github.com/hermesd/hermesd/agentpool/native/tool/web"
)

func TestALongPageComesInParts(t *testing.T) {
	p := web.Page{URL: "https://a.example/", Type: "text/plain", Status: 200, Text: strings.Repeat("é", maxPageText)} // two bytes each
	var whole strings.Builder
	for start := 0; start < len(p.Text); {
		r := pageResult(p, start)
		_, text, _ := strings.Cut(r.Text, "\n\n")
		part, _, _ := strings.Cut(text, "\n[bytes ")
		if part == "" || len(part) > maxPageText {
			t.Fatalf("a part of %d bytes from %d", len(part), start)
		}
		whole.WriteString(part)
		start += len(part)
		if more := r.Raw.(m)["truncated"] == true; more != (start < len(p.Text)) {
			t.Errorf("truncated %v at %d", more, start)
		}
	}
	if whole.String() != p.Text {
		t.Error("the parts are not the page")
	}
	if r := pageResult(p, 1); !strings.Contains(r.Text, "\n\né") {
		t.Error("a part begins inside a character")
	}
	if r := pageResult(p, 1<<30); !strings.HasSuffix(r.Text, "\n\n") {
		t.Errorf("behind the end: %q", r.Text)
	}
	if r := pageResult(web.Page{URL: "https://a.example/", Type: "text/html", Status: 404, Text: "not here"}, 0); !r.Failed || !strings.Contains(r.Text, "answered with status 404") || !strings.Contains(r.Text, "not here") {
		t.Errorf("%+v", r)
	}
}

func TestWebArgumentsAreChecked(t *testing.T) {
	e := &Env{Cwd: t.TempDir()}
	for _, c := range []struct {
		tool Tool
		args m
		want string
	}{
		{WebFetch{}, m{}, "only http"},
		{WebFetch{}, m{"url": "http://a.example", "start": -1}, "must not be negative"},
		{WebSearch{}, m{"query": " "}, "the query is empty"},
		{WebSearch{}, m{"query": "x", "count": 21}, "count must be 1 to 20"},
		{WebSearch{}, m{"query": strings.Repeat("x", 401)}, "too long"},
	} {
		_, err := plan(t, c.tool, e, c.args)
		wantError(t, err, c.want)
	}
	a, err := plan(t, WebFetch{}, e, m{"url": "https://EXAMPLE.com:8443/a"})
	if err != nil || a.Need.Class != Fetching || a.Need.Grants[0] != "example.com:8443" {
		t.Errorf("%+v, %v", a, err)
	}
	a, err = plan(t, WebSearch{Engine: &web.Searcher{Provider: "brave", Key: credentials.NewSecret("k")}}, e, m{"query": "x"})
	if err != nil || a.Need.Class != Fetching || a.Need.Grants[0] != "api.search.brave.com" {
		t.Errorf("%+v, %v", a, err)
	}
}
