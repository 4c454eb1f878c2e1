package main

import (
	"strings"
	"testing"

	"github.com/hermesd/hermesd/agentpool/native/llm/credentials"
	"github.com/hermesd/hermesd/configs"
)

func TestTheSearchEngineIsWhatIsConfigured(t *testing.T) {
	for _, c := range []struct {
		search, url string
		env         map[string]string
		want, err   string // engine and host
	}{
		{search: "auto"},
		{search: "none", env: map[string]string{"BRAVE_API_KEY": "k"}},
		{search: "auto", env: map[string]string{"TAVILY_API_KEY": "k"}, want: "tavily api.tavily.com"},
		{search: "auto", env: map[string]string{"TAVILY_API_KEY": "k", "BRAVE_API_KEY": "k"}, want: "brave api.search.brave.com"},
		{search: "tavily", env: map[string]string{"TAVILY_API_KEY": "k", "BRAVE_API_KEY": "k"}, want: "tavily api.tavily.com"},
		{search: "auto", url: "http://localhost:8888", want: "searxng localhost:8888"},
		{search: "auto", url: "http://localhost:8888", env: map[string]string{"BRAVE_API_KEY": "k"}, want: "brave api.search.brave.com"},
		{search: "brave", url: "https://proxy.example", env: map[string]string{"BRAVE_API_KEY": "k"}, want: "brave proxy.example"},
		{search: "brave", err: "set BRAVE_API_KEY"},
		{search: "searxng", url: "http://localhost:8888", want: "searxng localhost:8888"},
	} {
		w := configs.Default().Web
		w.Search, w.SearchURL = c.search, c.url
		_, s, err := newWeb(w, credentials.Source{Env: func(name string) string { return c.env[name] }})
		got := ""
		if s != nil {
			got = s.Provider + " " + s.Host()
		}
		if got != c.want || (err == nil) != (c.err == "") || err != nil && !strings.Contains(err.Error(), c.err) {
			t.Errorf("%+v: %q, %v", c, got, err)
		}
	}
}
