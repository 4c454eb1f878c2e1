// Package fakellm answers: how are models tested without one? A Server speaks
// the real wire format of Anthropic Messages or of OpenAI Chat Completions,
// streamed, and says what a test wants it to say. It keeps what it was asked,
// refuses what the real servers refuse (calls without results, empty texts, no
// key), and counts tokens as they do: what a request has in common with the
// beginning of the one before was read from the cache.
//
// It is for tests only.
package fakellm

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"sync"
	"testing"
	"time"
)

// Format is a wire format.
type Format string

const (
	Anthropic Format = "anthropic"
	OpenAI    Format = "openai"
)

// Reply is what the server does with one request.
type Reply struct {
	Thoughts []string // pieces of one thought
	Redacted string   // Anthropic: a thought of which only this is given
	Texts    []string // pieces of the answer
	Calls    []Call   // in parallel
	Refusal  string   // OpenAI: in the place of the answer
	Stop     string   // in the format's words; "" is what fits

	// What goes wrong.
	Status     int    // of an error without a stream
	Type       string // of the error, in the format's words
	Message    string
	RetryAfter string // the header
	Fail       bool   // Type and Message come inside the stream, after the texts
	Cut        bool   // the connection is cut after the texts
	CutCall    bool   // the arguments of the last call end in the middle
	Hang       bool   // nothing more comes until the client leaves
	Raw        string // the whole answer, as it is
	RawType    string // its content type
}

// Call is one call of a tool.
type Call struct{ Name, Args string }

// Request is what the server was asked.
type Request struct {
	Path   string
	Header http.Header
	Body   []byte
}

// Server is a fake server. It ends with its test.
type Server struct {
	URL    string // without a path
	Format Format

	t     testing.TB
	key   string
	reply func(n int, body []byte) Reply

	mu       sync.Mutex
	requests []Request
	models   []string // of GET /v1/models: raw objects
	listed   int
	slow     time.Duration
	calls    int           // made so far, for their ids
	hung     chan struct{} // gets a token each time a request hangs
	last     []byte        // the body before
}

// New starts a server that wants key, "" for none, and answers the n-th request
// for a message, from 0, with reply(n, body).
func New(t testing.TB, format Format, key string, reply func(n int, body []byte) Reply) *Server {
	s := &Server{Format: format, t: t, key: key, reply: reply, hung: make(chan struct{}, 64)}
	mux := http.NewServeMux()
	mux.HandleFunc("GET /v1/models", s.list)
	path := "POST /v1/messages"
	if format == OpenAI {
		path = "POST /v1/chat/completions"
	}
	mux.HandleFunc(path, s.message)
	h := httptest.NewServer(mux)
	t.Cleanup(h.Close)
	s.URL = h.URL
	return s
}

// Script answers with one reply after the other, and the last one for ever.
func Script(replies ...Reply) func(int, []byte) Reply {
	return func(n int, _ []byte) Reply { return replies[min(n, len(replies)-1)] }
}

// Requests returns what was asked for so far, lists of models left out.
func (s *Server) Requests() []Request {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.requests)
}

// Hung gets a value each time a reply hangs.
func (s *Server) Hung() <-chan struct{} { return s.hung }

// SetModels sets what GET /v1/models answers: ids, or raw JSON objects; slow
// is how long it takes over it.
func (s *Server) SetModels(slow time.Duration, models ...string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.models, s.slow = models, slow
}

// Listed is how often the models were asked for.
func (s *Server) Listed() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.listed
}

func (s *Server) authorised(r *http.Request) bool {
	if s.key == "" {
		return true
	}
	return r.Header.Get("Authorization") == "Bearer "+s.key || s.Format == Anthropic && r.Header.Get("X-Api-Key") == s.key
}

func (s *Server) list(w http.ResponseWriter, r *http.Request) {
	s.mu.Lock()
	s.listed++
	models, slow := s.models, s.slow
	s.mu.Unlock()
	if !s.authorised(r) {
		s.fail(w, Reply{Status: 401, Type: s.authType(), Message: "invalid x-api-key"})
		return
	}
	select {
	case <-time.After(slow):
	case <-r.Context().Done():
		return
	}
	var data []json.RawMessage
	for _, m := range models {
		if m[0] != '{' {
			m = fmt.Sprintf(`{"id":%q,"object":"model","type":"model","created":1,"owned_by":"fake"}`, m)
		}
		data = append(data, json.RawMessage(m))
	}
	w.Header().Set("Content-Type", "application/json")
	_ = json.NewEncoder(w).Encode(map[string]any{"object": "list", "data": data, "has_more": false})
}

func (s *Server) authType() string {
	if s.Format == Anthropic {
		return "authentication_error"
	}
	return "invalid_api_key"
}

func (s *Server) message(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return
	}
	if !s.authorised(r) {
		s.fail(w, Reply{Status: 401, Type: s.authType(), Message: "invalid x-api-key"})
		return
	}
	s.mu.Lock()
	n := len(s.requests)
	s.requests = append(s.requests, Request{r.URL.Path, r.Header.Clone(), body})
	s.mu.Unlock()
	if why := s.check(r, body); why != "" {
		s.t.Errorf("request %d is not valid: %s\n%s", n, why, body)
		s.fail(w, Reply{Status: 400, Type: "invalid_request_error", Message: why})
		return
	}
	p := s.reply(n, body)
	switch {
	case p.Raw != "" || p.RawType != "":
		w.Header().Set("Content-Type", p.RawType)
		if p.Status != 0 {
			w.WriteHeader(p.Status)
		}
		_, _ = io.WriteString(w, p.Raw)
		return
	case p.Status != 0:
		s.fail(w, p)
		return
	}
	w.Header().Set("Content-Type", "text/event-stream")
	st := &stream{w: w, r: r, s: s, p: p, model: model(body)}
	st.cached, st.fresh = s.count(body)
	if s.Format == Anthropic {
		st.anthropic()
	} else {
		st.openai()
	}
}

func model(body []byte) string {
	var b struct{ Model string }
	_ = json.Unmarshal(body, &b)
	return b.Model
}

// count splits the tokens of a request, four bytes each, into those that the
// cache had and the others. A cache begins anew with a request that does not
// begin as the one before.
func (s *Server) count(body []byte) (cached, fresh int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	n := 0
	for n < len(body) && n < len(s.last) && body[n] == s.last[n] {
		n++
	}
	if s.Format == Anthropic && !bytes.Contains(body, []byte(`"cache_control"`)) {
		n = 0
	}
	s.last = body
	return n / 4, len(body)/4 - n/4
}

// fail answers with an error that is no stream.
func (s *Server) fail(w http.ResponseWriter, p Reply) {
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("Request-Id", "req_fake")
	if p.RetryAfter != "" {
		w.Header().Set("Retry-After", p.RetryAfter)
	}
	w.WriteHeader(p.Status)
	_, _ = w.Write(s.errorBody(p))
}

func (s *Server) errorBody(p Reply) []byte {
	inner := map[string]any{"type": p.Type, "message": p.Message}
	outer := map[string]any{"error": inner}
	if s.Format == Anthropic {
		outer["type"] = "error"
	} else {
		inner["code"], inner["param"], inner["type"] = p.Type, nil, "error"
	}
	body, err := json.Marshal(outer)
	if err != nil {
		s.t.Error(err)
	}
	return body
}

// stream is one answer.
type stream struct {
	w             http.ResponseWriter
	r             *http.Request
	s             *Server
	p             Reply
	model         string
	cached, fresh int
	tokens        int
}

func (st *stream) flush() {
	if f, ok := st.w.(http.Flusher); ok {
		f.Flush()
	}
}

func (st *stream) send(event string, v any) {
	data, err := json.Marshal(v)
	if err != nil {
		st.s.t.Error(err)
	}
	if event != "" {
		_, _ = fmt.Fprintf(st.w, "event: %s\n", event)
	}
	_, _ = fmt.Fprintf(st.w, "data: %s\n\n", data)
	st.flush()
}

// trouble does what is to go wrong in mid-stream; true ends the answer.
func (st *stream) trouble() bool {
	if st.p.Hang {
		st.s.hung <- struct{}{}
		<-st.r.Context().Done()
		return true
	}
	if st.p.Cut {
		st.flush()
		panic(http.ErrAbortHandler)
	}
	return false
}

func (st *stream) callID() string {
	st.s.mu.Lock()
	defer st.s.mu.Unlock()
	st.s.calls++
	if st.s.Format == Anthropic {
		return fmt.Sprintf("toolu_%04d", st.s.calls)
	}
	return fmt.Sprintf("call_%04d", st.s.calls)
}

// pieces cuts a text in three.
func pieces(s string) []string {
	n := len(s) / 3
	if n == 0 {
		return []string{s}
	}
	r := []rune(s)
	n = len(r) / 3
	return []string{string(r[:n]), string(r[n : 2*n]), string(r[2*n:])}
}

// args are the arguments of the i-th call as they are streamed.
func (st *stream) args(i int) []string {
	all := pieces(st.p.Calls[i].Args)
	if st.p.CutCall && i == len(st.p.Calls)-1 {
		all = all[:len(all)-1]
	}
	return all
}
