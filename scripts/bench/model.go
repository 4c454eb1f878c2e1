//go:build unix

package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/hermesd/hermesd/daemon/daemontest"
)

// modelFigures are those of the built-in agent with a language model. Its server is
// in this process, so that both ends of a way have one clock.
var modelFigures = []figure{
	{"token", "chunk from the model's socket to the editor, one every 2 ms", "p50 ≤ 0.5 ms", measureToken},
	{"request", "prompt → the first request is at the model's server", "p50 ≤ 5 ms, with 200 turns behind it too", measureRequest},
	{"history", "a session with 200 turns in memory, beyond the size of its history", "≤ 2 MB", measureHistory},
}

// modelServer speaks OpenAI's Chat Completions format.
type modelServer struct {
	url string
	srv *http.Server

	mu      sync.Mutex
	arrived time.Time // of the last request: its head was there
	body    int       // its bytes
	sent    []time.Time
	// answer writes one answer; send sends a chunk's text, and notes when.
	answer func(n int, body []byte, send func(text string)) (call string)
	n      int
}

func newModelServer() (*modelServer, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	s := &modelServer{url: "http://" + l.Addr().String() + "/v1"}
	mux := http.NewServeMux()
	mux.HandleFunc("GET /v1/models", func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		_, _ = io.WriteString(w, `{"object":"list","data":[{"id":"bench-model","object":"model","created":1,"owned_by":"bench"}]}`)
	})
	mux.HandleFunc("POST /v1/chat/completions", s.complete)
	s.srv = &http.Server{Handler: mux}
	go func() { _ = s.srv.Serve(l) }() // ends with close
	return s, nil
}

func (s *modelServer) close() { _ = s.srv.Close() }

func (s *modelServer) complete(w http.ResponseWriter, r *http.Request) {
	now := time.Now()
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return
	}
	s.mu.Lock()
	s.arrived, s.body = now, len(body)
	n, answer := s.n, s.answer
	s.n++
	s.mu.Unlock()
	w.Header().Set("Content-Type", "text/event-stream")
	flush := w.(http.Flusher).Flush
	event := func(delta, finish string) {
		_, _ = fmt.Fprintf(w, `data: {"id":"c","object":"chat.completion.chunk","created":1,"model":"bench-model","choices":[{"index":0,"delta":%s,"finish_reason":%s}]}`+"\n\n", delta, finish)
		flush()
	}
	call := answer(n, body, func(text string) {
		delta, _ := json.Marshal(map[string]string{"content": text})
		s.mu.Lock()
		s.sent = append(s.sent, time.Now())
		s.mu.Unlock()
		event(string(delta), "null")
	})
	reason := `"stop"`
	if call != "" {
		event(call, "null")
		reason = `"tool_calls"`
	}
	event("{}", reason)
	_, _ = io.WriteString(w, `data: {"id":"c","object":"chat.completion.chunk","created":1,"model":"bench-model","choices":[],"usage":{"prompt_tokens":`+strconv.Itoa(len(body)/4)+
		`,"completion_tokens":10,"total_tokens":`+strconv.Itoa(len(body)/4+10)+"}}\n\ndata: [DONE]\n\n")
}

// modelHome is a daemon whose agent has the server's model.
func (b *bench) modelHome(s *modelServer) (*daemontest.Home, *daemontest.Daemon, error) {
	h, err := daemontest.NewHome(b.bin, fmt.Sprintf("[agents.hermes]\nprovider = \"bench\"\nmodel = \"bench-model\"\ncontext_window = 100000000\napproval_mode = \"session\"\n[providers.bench]\nbase_url = %q\n", s.url))
	if err != nil {
		return nil, nil, err
	}
	d, err := h.Serve(b.ctx)
	if err != nil {
		return nil, nil, errors.Join(err, h.Close())
	}
	return h, d, nil
}

// tokenSpace is the time between two chunks: five hundred a second, more than
// models say.
const tokenSpace = 2 * time.Millisecond

func measureToken(b *bench, r *row) (err error) {
	s, err := newModelServer()
	if err != nil {
		return err
	}
	defer s.close()
	h, _, err := b.modelHome(s)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, h.Close()) }()
	e, err := ready(h)
	if err != nil {
		return err
	}
	defer e.close()
	id, err := e.session(h.Work)
	if err != nil {
		return err
	}
	chunks := b.n(1000, 100)
	s.answer = func(_ int, _ []byte, send func(string)) string {
		tick := time.NewTicker(tokenSpace)
		defer tick.Stop()
		for i := range chunks {
			<-tick.C
			send(fmt.Sprintf("token-%06d ", i))
		}
		return ""
	}
	var all samples
	joined := 0
	for round := range b.n(4, 1) + 1 {
		s.mu.Lock()
		s.sent = nil
		s.mu.Unlock()
		request, err := e.send("session/prompt", prompt(id, "talk"))
		if err != nil {
			return err
		}
		read := make([]time.Time, chunks)
		end := []byte(`"id":` + strconv.Itoa(request) + `,`)
		for {
			line, err := e.line()
			now := time.Now()
			if err != nil {
				return err
			}
			if bytes.Contains(line[:min(len(line), 64)], end) && !bytes.Contains(line[:min(len(line), 64)], []byte(`"method"`)) {
				if !bytes.Contains(line, []byte(`"end_turn"`)) {
					return fmt.Errorf("the turn ended with %s", line)
				}
				break
			}
			n := 0
			for rest := line; ; n++ {
				_, after, ok := bytes.Cut(rest, []byte("token-"))
				if !ok {
					break
				}
				i, err := strconv.Atoi(string(after[:6]))
				if err != nil {
					return err
				}
				read[i], rest = now, after
			}
			joined += max(0, n-1)
		}
		if round == 0 {
			continue // warms up
		}
		s.mu.Lock()
		for i, sent := range s.sent {
			if read[i].IsZero() {
				s.mu.Unlock()
				return fmt.Errorf("chunk %d never came", i)
			}
			all = append(all, read[i].Sub(sent))
		}
		s.mu.Unlock()
	}
	r.times(all)
	r.Figures["joined"] = float64(joined)
	r.verdict(all.p(50) <= 500*time.Microsecond, "p50 %s, p99 %s (%d chunks)", ms(all.p(50)), ms(all.p(99)), len(all))
	r.Note = fmt.Sprintf("from before the server's write to after the editor's read: HTTP stream, agent, log (written, not synced), shim. %d chunks came joined with the one before.", joined)
	return nil
}

// turns is how many turns a long history has.
const turns = 200

// long makes a history: each turn reads a file and answers.
func (s *modelServer) long(_ int, body []byte, send func(string)) string {
	if last := bytes.LastIndex(body, []byte(`"role":"`)); bytes.HasPrefix(body[last:], []byte(`"role":"tool"`)) {
		send("It is a file of forty lines that are all the same. " + strings.Repeat("There is not much more to say of it. ", 20))
		return ""
	}
	s.mu.Lock()
	n := s.n
	s.mu.Unlock()
	return fmt.Sprintf(`{"tool_calls":[{"index":0,"id":"call-%d","type":"function","function":{"name":"read_file","arguments":"{\"path\":\"f.txt\"}"}}]}`, n)
}

func measureRequest(b *bench, r *row) (err error) {
	s, err := newModelServer()
	if err != nil {
		return err
	}
	defer s.close()
	h, _, err := b.modelHome(s)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, h.Close()) }()
	e, err := ready(h)
	if err != nil {
		return err
	}
	defer e.close()
	measure := func(id string) (samples, error) {
		s.answer = func(_ int, _ []byte, send func(string)) string { send("ok"); return "" }
		var all samples
		for i := range b.n(300, 30) + 5 {
			began := time.Now()
			if err := e.prompt(id, "say ok"); err != nil {
				return nil, err
			}
			s.mu.Lock()
			took := s.arrived.Sub(began)
			s.mu.Unlock()
			if i >= 5 {
				all = append(all, took)
			}
		}
		return all, nil
	}
	id, err := e.session(h.Work)
	if err != nil {
		return err
	}
	fresh, err := measure(id)
	if err != nil {
		return err
	}
	if id, err = s.longSession(h, e, b.n(turns, 20)); err != nil {
		return err
	}
	long, err := measure(id)
	if err != nil {
		return err
	}
	r.times(fresh)
	r.Figures["longP50"], r.Figures["longP99"], r.Figures["longBytes"] = long.p(50).Seconds(), long.p(99).Seconds(), float64(s.body)
	r.verdict(fresh.p(50) <= 5*time.Millisecond && long.p(50) <= 5*time.Millisecond, "p50 %s, p99 %s; with %d turns behind it (%.1f MB) p50 %s, p99 %s",
		ms(fresh.p(50)), ms(fresh.p(99)), b.n(turns, 20), float64(s.body)/1e6, ms(long.p(50)), ms(long.p(99)))
	r.Note = "from before the prompt is written to the shim until the request is at the server, which has its head; the turn's start is on the disk by then, as nothing leaves before."
	return nil
}

// longSession makes a session with a long history.
func (s *modelServer) longSession(h *daemontest.Home, e *editor, turns int) (string, error) {
	if err := writeLines(h.Work); err != nil {
		return "", err
	}
	s.answer = s.long
	id, err := e.session(h.Work)
	if err != nil {
		return "", err
	}
	for i := range turns {
		if err := e.prompt(id, fmt.Sprintf("Turn %d: what is in f.txt? %s", i, strings.Repeat("Tell me all about it. ", 10))); err != nil {
			return "", err
		}
	}
	return id, nil
}

func measureHistory(b *bench, r *row) (err error) {
	s, err := newModelServer()
	if err != nil {
		return err
	}
	defer s.close()
	h, d, err := b.modelHome(s)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, h.Close()) }()
	e, err := ready(h)
	if err != nil {
		return err
	}
	defer e.close()
	n := b.n(turns, 20)
	if _, err := s.longSession(h, e, n); err != nil { // what is paid once
		return err
	}
	settle := func() (heap, rss int64, err error) {
		st, err := collected(e)
		if err != nil {
			return 0, 0, err
		}
		rss, err = memory(d.Cmd.Process.Pid)
		return st.Memory.HeapBytes, rss, err
	}
	heap0, rss0, err := settle()
	if err != nil {
		return err
	}
	sessions := b.n(5, 2)
	for range sessions {
		if _, err := s.longSession(h, e, n); err != nil {
			return err
		}
	}
	heap1, rss1, err := settle()
	if err != nil {
		return err
	}
	own := float64(s.body)
	heap, rss := float64(heap1-heap0)/float64(sessions), float64(rss1-rss0)/float64(sessions)
	r.Figures["heapBytes"], r.Figures["rssBytes"], r.Figures["historyBytes"] = heap, rss, own
	r.verdict(max(heap, rss)-own <= 2e6, "%.2f MB resident, %.2f MB heap each, its history %.2f MB", rss/1e6, heap/1e6, own/1e6)
	r.Note = fmt.Sprintf("%d sessions of %d turns, each with a file read, open in one editor; after a garbage collection. The history's own size is that of the last request's body.", sessions, n)
	return nil
}
