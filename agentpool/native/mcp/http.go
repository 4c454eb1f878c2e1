package mcp

import (
	"bytes"
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

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"
)

// remoteTransport connects to a server over HTTP: by "streamable HTTP", or by
// the older way with one stream of events.
type remoteTransport struct {
	spec   Server
	client *http.Client
	life   context.Context // of a stream of events
	end    context.CancelFunc

	mu   sync.Mutex
	conn sdk.Connection
}

func newRemote(spec Server) (*remoteTransport, error) {
	u, err := url.Parse(spec.URL)
	if err != nil || u.Host == "" {
		return nil, errors.New("its URL is none")
	}
	t := &remoteTransport{spec: spec, client: &http.Client{
		Transport: &remote{spec: spec, host: u.Host, scheme: u.Scheme, next: &http.Transport{
			Proxy:                 http.ProxyFromEnvironment,
			DialContext:           (&net.Dialer{Timeout: 15 * time.Second}).DialContext,
			ForceAttemptHTTP2:     true,
			IdleConnTimeout:       90 * time.Second,
			TLSHandshakeTimeout:   15 * time.Second,
			ExpectContinueTimeout: time.Second,
		}},
		CheckRedirect: func(req *http.Request, via []*http.Request) error {
			// Headers, and what is asked, go where they were meant to.
			if req.URL.Host != via[0].URL.Host || req.URL.Scheme != via[0].URL.Scheme {
				return fmt.Errorf("it points to another host, %s: give that one's URL", req.URL.Host)
			}
			if len(via) >= 5 {
				return errors.New("it redirects without end")
			}
			return nil
		},
	}}
	t.life, t.end = context.WithCancel(context.Background())
	return t, nil
}

// Connect implements sdk.Transport.
func (t *remoteTransport) Connect(ctx context.Context) (sdk.Connection, error) {
	var inner sdk.Transport = &sdk.StreamableClientTransport{Endpoint: t.spec.URL, HTTPClient: t.client, MaxEventSize: maxMessage}
	if t.spec.Transport == SSE {
		inner = &sdk.SSEClientTransport{Endpoint: t.spec.URL, HTTPClient: t.client, MaxEventSize: maxMessage}
		ctx = t.life // its stream would end with ctx; until there is one, abort ends it
	}
	conn, err := inner.Connect(ctx)
	t.mu.Lock()
	t.conn = conn
	t.mu.Unlock()
	return conn, err
}

// abort closes the connection under the SDK, which would wait for a server
// that does not answer.
func (t *remoteTransport) abort() {
	t.end()
	t.mu.Lock()
	conn := t.conn
	t.mu.Unlock()
	if conn != nil {
		_ = conn.Close()
	}
}

// remote adds the server's headers to requests, and watches the streams of
// calls.
type remote struct {
	spec         Server
	host, scheme string
	next         *http.Transport
}

func (r *remote) CloseIdleConnections() { r.next.CloseIdleConnections() }

func (r *remote) RoundTrip(req *http.Request) (*http.Response, error) {
	ctx := req.Context()
	// The endpoint that a server names for an old connection may be anywhere.
	if req.URL.Host == r.host && req.URL.Scheme == r.scheme {
		req = req.Clone(ctx)
		for _, h := range r.spec.Headers {
			if strings.EqualFold(h.Name, "Host") {
				req.Host = h.Value
				continue
			}
			req.Header.Set(h.Name, h.Value)
		}
	}
	if req.Method == http.MethodDelete { // a farewell; its answer says nothing
		limited, cancel := context.WithTimeout(ctx, exitTime)
		defer cancel()
		req = req.WithContext(limited)
	}
	res, err := r.next.RoundTrip(req)
	if err != nil {
		return nil, err
	}
	if res.StatusCode >= 400 {
		return res, nil
	}
	if w, ok := ctx.Value(watchKey{}).(*watch); ok && strings.HasPrefix(res.Header.Get("Content-Type"), "text/event-stream") {
		res.Body = &watchedStream{ReadCloser: res.Body, watch: w, bol: true}
	}
	return res, nil
}

// watch tells a call that the stream its answer was to come on has ended for
// good: the SDK resumes a stream that has event ids, and of another one it
// would wait for an answer that cannot come.
type watch struct {
	once sync.Once
	lost chan struct{}
}

type watchKey struct{}

func watched(ctx context.Context) (context.Context, *watch) {
	w := &watch{lost: make(chan struct{})}
	return context.WithValue(ctx, watchKey{}, w), w
}

type watchedStream struct {
	io.ReadCloser
	watch *watch
	bol   bool   // at the beginning of a line
	head  []byte // of the line
	ids   bool   // there are event ids
}

func (s *watchedStream) Read(p []byte) (int, error) {
	n, err := s.ReadCloser.Read(p)
	if !s.ids {
		s.scan(p[:n])
	}
	if err != nil && !s.ids {
		s.watch.once.Do(func() { close(s.watch.lost) })
	}
	return n, err
}

// scan looks for lines that begin with "id:".
func (s *watchedStream) scan(p []byte) {
	for len(p) > 0 {
		if !s.bol {
			i := bytes.IndexByte(p, '\n')
			if i < 0 {
				return
			}
			p = p[i+1:]
			s.bol, s.head = true, s.head[:0]
			continue
		}
		s.head = append(s.head, p[0])
		if p[0] == '\n' {
			s.head = s.head[:0]
		} else if len(s.head) == 3 {
			s.ids = s.ids || string(s.head) == "id:"
			s.bol = false
		}
		p = p[1:]
	}
}
