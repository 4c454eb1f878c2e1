package configs

import (
	"fmt"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestTablesOfTheTools(t *testing.T) {
	got, err := Parse("c.toml", []byte("[tools]\nbackground = 2\n[web]\nallow_private = [\"127.0.0.1\", \"10.1.2.3/8\", \"::1\", \"fd00::/8\"]\nsearch = \"searxng\"\nsearch_url = \"http://localhost:8888\"\n"))
	if err != nil {
		t.Fatal(err)
	}
	want := Default()
	want.Tools.Background = 2
	want.Web.AllowPrivate = []string{"127.0.0.1", "10.1.2.3/8", "::1", "fd00::/8"}
	want.Web.Search, want.Web.SearchURL = "searxng", "http://localhost:8888"
	if d := cmp.Diff(want, got); d != "" {
		t.Errorf("(-want +got)\n%s", d)
	}
	nets, err := got.Web.Networks()
	if err != nil || fmt.Sprint(nets) != "[127.0.0.1/32 10.0.0.0/8 ::1/128 fd00::/8]" {
		t.Errorf("%v, %v", nets, err)
	}
}

func TestMistakesInTheTablesOfTheTools(t *testing.T) {
	for text, want := range map[string]string{
		"[tools]\ncommand_time = \"1ms\"":       "c.toml:2: tools.command_time: 1ms is not allowed; choose 1s or more",
		"[tools]\ncommand_time_max = \"1s\"":    "c.toml:2: tools.command_time_max: 1s is not allowed; choose 2m0s (command_time) or more",
		"[tools]\ncommand_output = \"1MiB\"":    "c.toml:2: tools.command_output: 1MiB is not allowed; choose 1KiB to 256KiB",
		"[tools]\nbackground = 0":               "c.toml:2: tools.background: 0 is not allowed; choose 1 to 1000",
		"[web]\nallow_private = [\"intranet\"]": `c.toml:2: web.allow_private: "intranet" is not allowed; write an address or a network, as in "127.0.0.1", "192.168.0.0/16" or "::1"`,
		"[web]\ntimeout = \"0s\"":               "c.toml:2: web.timeout: 0s is not allowed; choose 1s or more",
		"[web]\nmax_size = \"1GiB\"":            "c.toml:2: web.max_size: 1GiB is not allowed; choose 64KiB to 64MiB",
		"[web]\nsearch = \"bing\"":              `c.toml:2: web.search: "bing" is not allowed; choose one of: auto, none, searxng, brave, tavily`,
		"[web]\nsearch_url = \"localhost\"":     `c.toml:2: web.search_url: "localhost" is not allowed; an address begins with http:// or https://`,
		"[web]\nsearch = \"searxng\"":           "c.toml:2: web.search: searxng needs search_url, the address of a server",
		"[web]\nproxy = \"x\"":                  "c.toml:2: web.proxy: unknown key; known here: allow_private, timeout, max_size, search, search_url",
	} {
		_, err := Parse("c.toml", []byte(text))
		if err == nil || err.Error() != want {
			t.Errorf("%q: %v\nwant %s", text, err, want)
		}
	}
}
