package fakellm_test

import (
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/hermesd/hermesd/agentpool/native/llm"
	"github.com/hermesd/hermesd/agentpool/native/llm/anthropic"
	"github.com/hermesd/hermesd/agentpool/native/llm/credentials"
	"github.com/hermesd/hermesd/agentpool/native/llm/fakellm"
	"github.com/hermesd/hermesd/agentpool/native/llm/openai"
	"github.com/hermesd/hermesd/agentpool/native/llm/wire"
)

// redirecting is a model at a server that sends everybody to url.
func redirecting(t *testing.T, f fakellm.Format, url string) llm.Model {
	front := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		http.Redirect(w, r, url+r.URL.Path, http.StatusTemporaryRedirect)
	}))
	t.Cleanup(front.Close)
	at := wire.Endpoint{Provider: "front", BaseURL: front.URL, Key: credentials.NewSecret(key), Client: client(t)}
	var m llm.Model
	m, err := openai.New(at, openai.Known("front", "x"))
	if f == fakellm.Anthropic {
		m, err = anthropic.New(at, anthropic.Known("front", "x"))
	}
	if err != nil {
		t.Fatal(err)
	}
	return m
}
