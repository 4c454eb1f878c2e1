package jsonrpc

import (
	"bufio"
	"context"
	"encoding/json"
	"io"
	"net"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"
)

// deadline bounds every wait of a test. It is never waited for when all is well.
const deadline = 30 * time.Second

// A wire is the other side of a peer, without any cleverness: it writes bytes
// and reads lines.
type wire struct {
	t    testing.TB
	to   *io.PipeWriter // the peer's input
	from *bufio.Reader  // the peer's output
	out  *io.PipeReader
	peer *Peer
}

// dial starts a peer and returns what is at the other end of it.
func dial(t testing.TB, o Options) *wire {
	t.Helper()
	in, to := io.Pipe()
	out, from := io.Pipe()
	w := &wire{t: t, to: to, out: out, from: bufio.NewReader(out), peer: New(in, from, o)}
	w.peer.Start()
	closing(t, w.peer)
	return w
}

// closing closes the peers at the end of the test and waits for all of them.
func closing(t testing.TB, peers ...*Peer) {
	t.Cleanup(func() {
		for _, p := range peers {
			p.Close(nil)
		}
		for _, p := range peers {
			p.Wait()
		}
	})
}

// send writes text as it is.
func (w *wire) send(text string) {
	w.t.Helper()
	if _, err := io.WriteString(w.to, text); err != nil {
		w.t.Fatalf("sending %.80q: %v", text, err)
	}
}

// line returns the next line the peer sends, without its LF.
func (w *wire) line() string {
	w.t.Helper()
	timer := time.AfterFunc(deadline, func() { w.out.CloseWithError(context.DeadlineExceeded) })
	defer timer.Stop()
	s, err := w.from.ReadString('\n')
	if err != nil {
		w.t.Fatalf("waiting for a line: %v (%q)", err, s)
	}
	return s[:len(s)-1]
}

// want checks the next lines, in order.
func (w *wire) want(lines ...string) {
	w.t.Helper()
	for _, want := range lines {
		if got := w.line(); got != want {
			w.t.Fatalf("got  %s\nwant %s", got, want)
		}
	}
}

// rest ends the peer's input and returns what it still sends until it closes.
func (w *wire) rest() []string {
	w.t.Helper()
	w.to.Close()
	timer := time.AfterFunc(deadline, func() { w.out.CloseWithError(context.DeadlineExceeded) })
	defer timer.Stop()
	b, err := io.ReadAll(w.from)
	if err != nil {
		w.t.Fatalf("waiting for the end: %v (%q)", err, b)
	}
	if len(b) == 0 {
		return nil
	}
	return strings.Split(strings.TrimSuffix(string(b), "\n"), "\n")
}

// wait waits for a channel to be closed.
func wait[T any](t testing.TB, what string, c <-chan T) T {
	t.Helper()
	select {
	case v := <-c:
		return v
	case <-time.After(deadline):
		t.Fatalf("timed out waiting for %s", what)
		panic("unreachable")
	}
}

// echo admits every request and answers it with its params, or with null.
func echo(r *Request) Handler {
	return func(context.Context) (any, error) { return r.Params, nil }
}

// A record of what the callbacks were told, in order.
type record struct {
	mu   sync.Mutex
	said []string
}

func (r *record) add(s string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.said = append(r.said, s)
}

func (r *record) all() []string {
	r.mu.Lock()
	defer r.mu.Unlock()
	return append([]string(nil), r.said...)
}

// watch makes o note everything it is told.
func (r *record) watch(o Options) Options {
	o.Notify = func(method string, params json.RawMessage, line uint64) {
		r.add("notify " + method + " " + string(params))
	}
	o.Unclaimed = func(id, result json.RawMessage, err *Error, _ uint64) {
		if err != nil {
			r.add("unclaimed " + string(id) + " error " + err.Error())
			return
		}
		r.add("unclaimed " + string(id) + " " + string(result))
	}
	o.Garbage = func(line []byte, err error) { r.add("garbage " + string(line) + ": " + err.Error()) }
	return o
}

// socketPair returns the two ends of a Unix socket.
func socketPair(t testing.TB) (a, b net.Conn) {
	t.Helper()
	l, err := net.Listen("unix", filepath.Join(t.TempDir(), "s"))
	if err != nil {
		t.Skipf("no unix sockets here: %v", err)
	}
	defer l.Close()
	accepted := make(chan net.Conn, 1)
	go func() {
		c, _ := l.Accept()
		accepted <- c
	}()
	if b, err = net.Dial("unix", l.Addr().String()); err != nil {
		t.Fatal(err)
	}
	return <-accepted, b
}
