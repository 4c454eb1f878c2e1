// Package wire answers: what is the same for every model that is asked over
// HTTP? Where it is and with which key, how long its silence is borne, what
// its errors mean to a user, and how JSON is written without surprises.
package wire

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"strings"
	"sync"
	"time"

	"github.com/hermesd/hermesd/agentpool/native/llm/credentials"
)

// Endpoint is where a provider is reached.
type Endpoint struct {
	Provider string // as errors name it
	BaseURL  string // "" is the provider's own
	Key      credentials.Secret
	Bearer   bool         // the key is an OAuth token
	Client   *http.Client // of NewClient
}

// Base is the URL below which the API's methods are, ending in "/". version is
// the path that the methods begin with, as "v1"; keep says whether it belongs
// to the base. A base URL is taken with it and without.
func (e Endpoint) Base(own, version string, keep bool) (string, error) {
	text := e.BaseURL
	if text == "" {
		text = own
	}
	u, err := url.Parse(text)
	if err != nil || u.Host == "" || u.Scheme != "http" && u.Scheme != "https" {
		return "", fmt.Errorf("base_url %q is no address: write it as in http://127.0.0.1:11434/v1", text)
	}
	u.RawQuery, u.Fragment = "", ""
	path := strings.Trim(u.Path, "/")
	switch {
	case keep && path == "":
		path = version
	case !keep:
		path = strings.Trim(strings.TrimSuffix(path, version), "/")
	}
	u.Path = "/"
	if path != "" {
		u.Path = "/" + path + "/"
	}
	return u.String(), nil
}

// Idle is how long a server may send nothing at all before it is given up. A
// local server may load a model for minutes before its first byte.
const Idle = 10 * time.Minute

var (
	errSilent   = errors.New("nothing came for too long")
	errRedirect = errors.New("the server points to another host")
)

// NewClient returns an HTTP client for models. A response of which nothing
// comes for the time idle fails. A redirection to another host is not followed:
// keys and prompts go where they were meant to. Its connections are closed by
// CloseIdleConnections once no request runs.
func NewClient(idle time.Duration) *http.Client {
	return &http.Client{
		Transport: &watched{idle: idle, next: &http.Transport{
			Proxy:                 http.ProxyFromEnvironment,
			DialContext:           (&net.Dialer{Timeout: 15 * time.Second}).DialContext,
			ForceAttemptHTTP2:     true,
			MaxIdleConnsPerHost:   8,
			IdleConnTimeout:       90 * time.Second,
			TLSHandshakeTimeout:   15 * time.Second,
			ExpectContinueTimeout: time.Second,
		}},
		CheckRedirect: func(req *http.Request, via []*http.Request) error {
			if req.URL.Host != via[0].URL.Host || req.URL.Scheme != via[0].URL.Scheme {
				return errRedirect
			}
			if len(via) >= 5 {
				return errors.New("the server redirects without end")
			}
			return nil
		},
	}
}

// watched gives up a request when nothing comes for the time idle.
type watched struct {
	idle time.Duration
	next *http.Transport
}

func (w *watched) CloseIdleConnections() { w.next.CloseIdleConnections() }

func (w *watched) RoundTrip(req *http.Request) (*http.Response, error) {
	ctx, cancel := context.WithCancelCause(req.Context())
	timer := time.AfterFunc(w.idle, func() { cancel(errSilent) })
	end := func() {
		timer.Stop()
		cancel(nil)
	}
	res, err := w.next.RoundTrip(req.WithContext(ctx))
	if err != nil {
		if errors.Is(context.Cause(ctx), errSilent) {
			err = errSilent
		}
		end()
		return nil, err
	}
	res.Body = &watchedBody{ReadCloser: res.Body, ctx: ctx, timer: timer, idle: w.idle, end: sync.OnceFunc(end)}
	return res, nil
}

type watchedBody struct {
	io.ReadCloser
	ctx   context.Context
	timer *time.Timer
	idle  time.Duration
	end   func()
}

func (b *watchedBody) Read(p []byte) (int, error) {
	n, err := b.ReadCloser.Read(p)
	if err != nil {
		if err != io.EOF && errors.Is(context.Cause(b.ctx), errSilent) {
			err = errSilent
		}
		b.timer.Stop()
		return n, err
	}
	b.timer.Reset(b.idle)
	return n, nil
}

func (b *watchedBody) Close() error {
	err := b.ReadCloser.Close()
	b.end()
	return err
}
