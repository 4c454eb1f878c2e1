//go:build unix

package main

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"github.com/hermesd/hermesd/daemon/daemontest"
	"github.com/hermesd/hermesd/transport"
	"github.com/hermesd/hermesd/transport/link"
	"github.com/hermesd/hermesd/transport/remote"
)

// networkFigures are those of editors on other machines, measured on the loopback.
var networkFigures = []figure{
	{"tls", "request and answer over TLS, compared with the Unix socket", "≤ 1.5 × the socket", measureTLS},
	{"handshake", "TCP dialled → TLS, token, initialize answered", "p50 ≤ 20 ms", measureHandshake},
	{"audience", "200 TLS connections attached to one session, a turn of 2,000 chunks", "all complete; ≤ 80 KB each", measureAudience},
	{"rest", "a daemon that listens on the network and has nothing to do", "≤ 30 MB resident, 0 % CPU", measureRest},
}

// far is a home whose daemon listens on the loopback, and the other machine.
type far struct {
	*daemontest.Home
	daemon  *daemontest.Daemon
	address transport.Address
	book    *remote.Book
	token   string
}

const farConfig = `
[limits]
connections = 300
[agents.hermes]
provider = "offline"
[[listen]]
address = "unix"
[[listen]]
address = "tcp://127.0.0.1:0"
`

func (b *bench) far() (*far, func() error, error) {
	h, err := daemontest.NewHome(b.bin, farConfig)
	if err != nil {
		return nil, nil, err
	}
	f := &far{Home: h, book: remote.NewBook(filepath.Join(h.Dir, "laptop"))}
	if f.daemon, err = h.Serve(b.ctx); err == nil {
		err = f.pair(b.ctx)
	}
	if err != nil {
		return nil, nil, errors.Join(err, h.Close())
	}
	return f, h.Close, nil
}

// pair finds out where the daemon listens and gets a token for it.
func (f *far) pair(ctx context.Context) error {
	out, err := f.Command(ctx, "status", "--json").Output()
	if err != nil {
		return fmt.Errorf("hermesd status: %w", err)
	}
	var s struct{ Listen []string }
	if err := json.Unmarshal(out, &s); err != nil {
		return err
	}
	for _, l := range s.Listen {
		if a, err := transport.ParseAddress(l); err == nil && a.Network == transport.TCP {
			f.address = a
		}
	}
	out, err = f.Command(ctx, "tokens", "create", "bench").Output()
	f.token = strings.TrimSpace(string(out))
	if err != nil || f.address.Port == 0 || f.token == "" {
		return fmt.Errorf("listening at %v: %w", s.Listen, err)
	}
	return nil
}

// wire is a connection to the daemon without a shim.
type wire struct {
	c  net.Conn
	r  *bufio.Reader
	id int
}

// unix and tls connect, say hello and initialize.
func (f *far) unix(ctx context.Context) (*wire, error) {
	c, err := link.Dial(ctx, f.Socket())
	if err != nil {
		return nil, err
	}
	return begin(c, "")
}

func (f *far) tls(ctx context.Context) (*wire, error) {
	c, err := f.book.Dial(ctx, f.address, "")
	if err != nil {
		return nil, err
	}
	return begin(c, f.token)
}

func begin(c net.Conn, token string) (*wire, error) {
	w := &wire{c: c, r: bufio.NewReaderSize(c, 4<<10)}
	hello := link.Hello{Link: link.Number, ID: link.NewID(), Token: token}.Line()
	if _, err := c.Write(append(hello, initialize+"\n"...)); err != nil {
		c.Close()
		return nil, err
	}
	for _, want := range []string{`{"hermes"`, `"id":0,"result"`} {
		line, err := w.r.ReadSlice('\n')
		if err != nil || !bytes.Contains(line, []byte(want)) || bytes.Contains(line, []byte(`"error"`)) {
			c.Close()
			return nil, fmt.Errorf("beginning a connection: %q, %w", line, err)
		}
	}
	return w, nil
}

// call makes a request and reads until its answer.
func (w *wire) call(method string, params any) ([]byte, error) {
	w.id++
	line, err := json.Marshal(map[string]any{"jsonrpc": "2.0", "id": w.id, "method": method, "params": params})
	if err != nil {
		return nil, err
	}
	if _, err := w.c.Write(append(line, '\n')); err != nil {
		return nil, err
	}
	return w.until(fmt.Sprintf(`"id":%d,`, w.id))
}

// until reads until a line has mark in it.
func (w *wire) until(mark string) ([]byte, error) {
	want := []byte(mark)
	for {
		line, err := w.r.ReadSlice('\n')
		found := bytes.Contains(line, want)
		var long []byte
		for errors.Is(err, bufio.ErrBufferFull) {
			long = append(long, line...)
			line, err = w.r.ReadSlice('\n')
			found = found || bytes.Contains(line, want)
		}
		if err != nil {
			return nil, err
		}
		if found {
			if line = append(long, line...); bytes.Contains(line, []byte(`"error":{"code"`)) {
				return nil, fmt.Errorf("answered %s", line)
			}
			return line, nil
		}
	}
}

func measureTLS(b *bench, r *row) (err error) {
	f, end, err := b.far()
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, end()) }()
	near, err := f.unix(b.ctx)
	if err != nil {
		return err
	}
	defer near.c.Close()
	distant, err := f.tls(b.ctx)
	if err != nil {
		return err
	}
	defer distant.c.Close()
	// By turns, a block each: what disturbs the machine disturbs both.
	var overUnix, overTLS samples
	const block = 100
	for round := range b.n(101, 6) {
		for _, side := range []struct {
			w  *wire
			to *samples
		}{{near, &overUnix}, {distant, &overTLS}} {
			for range block {
				began := time.Now()
				if _, err := side.w.call("_hermes/agents/list", obj{}); err != nil {
					return err
				}
				if round > 0 { // the first one warms everything up
					*side.to = append(*side.to, time.Since(began))
				}
			}
		}
	}
	ratio := overTLS.p(50).Seconds() / overUnix.p(50).Seconds()
	r.times(overTLS)
	r.Figures["unix p50"], r.Figures["ratio"] = overUnix.p(50).Seconds(), ratio
	r.verdict(ratio <= 1.5, "%.2f × (p50 %s over TLS, %s over the socket)", ratio, ms(overTLS.p(50)), ms(overUnix.p(50)))
	r.Note = "the smallest request there is, which nothing is stored for: with a prompt the disk hides the difference."
	return nil
}

func measureHandshake(b *bench, r *row) (err error) {
	f, end, err := b.far()
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, end()) }()
	var all samples
	for range b.n(200, 20) {
		began := time.Now()
		w, err := f.tls(b.ctx)
		if err != nil {
			return err
		}
		all = append(all, time.Since(began))
		w.c.Close()
	}
	r.times(all)
	r.verdict(all.p(50) <= 20*time.Millisecond, "p50 %s, p99 %s (%d connections)", ms(all.p(50)), ms(all.p(99)), len(all))
	return nil
}

func measureAudience(b *bench, r *row) (err error) {
	f, end, err := b.far()
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, end()) }()
	asks, err := f.unix(b.ctx)
	if err != nil {
		return err
	}
	defer asks.c.Close()
	made, err := asks.call("session/new", obj{"cwd": f.Work, "mcpServers": []any{}})
	if err != nil {
		return err
	}
	var answer struct{ Result struct{ SessionID string } }
	if err := json.Unmarshal(made, &answer); err != nil {
		return err
	}
	id := answer.Result.SessionID
	if _, err := asks.call("session/prompt", prompt(id, "say x")); err != nil { // warm
		return err
	}
	before, err := memory(f.daemon.Cmd.Process.Pid)
	if err != nil {
		return err
	}
	n := b.n(200, 20)
	var all []*wire
	defer func() {
		for _, w := range all {
			w.c.Close()
		}
	}()
	for range n {
		w, err := f.tls(b.ctx)
		if err != nil {
			return err
		}
		all = append(all, w)
		if _, err := w.call("session/load", obj{"sessionId": id, "cwd": f.Work, "mcpServers": []any{}}); err != nil {
			return err
		}
	}
	attached, err := memory(f.daemon.Cmd.Process.Pid)
	if err != nil {
		return err
	}
	var wg sync.WaitGroup
	failed := make(chan error, n)
	for _, w := range all {
		wg.Go(func() {
			_ = w.c.SetDeadline(time.Now().Add(2 * time.Minute))
			if _, err := w.until(`"state":"idle"`); err != nil {
				failed <- err
			}
		})
	}
	began := time.Now()
	if _, err := asks.call("session/prompt", prompt(id, fmt.Sprintf("stream %d %d", b.n(2000, 200), chunkSize))); err != nil {
		return err
	}
	wg.Wait()
	took := time.Since(began)
	if len(failed) > 0 {
		return fmt.Errorf("%d of %d did not see the turn's end: %w", len(failed), n, <-failed)
	}
	each := (attached - before) / int64(n)
	r.Figures["bytes each"], r.Figures["turn seconds"], r.Figures["connections"] = float64(each), took.Seconds(), float64(n)
	r.verdict(each <= 80<<10, "%d of %d complete in %.1f s; %d KB each when attached", n, n, took.Seconds(), each>>10)
	r.Note = "memory: growth of the daemon's anonymous resident memory, garbage not collected, divided by the connections."
	return nil
}

func measureRest(b *bench, r *row) (err error) {
	f, end, err := b.far()
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, end()) }()
	pid := f.daemon.Cmd.Process.Pid
	before, err := cpu(pid)
	if err != nil {
		return err
	}
	quiet := time.Duration(b.n(10, 2)) * time.Second
	select {
	case <-time.After(quiet): // what is measured is that nothing happens
	case <-b.ctx.Done():
		return b.ctx.Err()
	}
	after, err := cpu(pid)
	if err != nil {
		return err
	}
	resident, err := resident(pid)
	if err != nil {
		return err
	}
	busy := 100 * (after - before).Seconds() / quiet.Seconds()
	r.Figures["resident bytes"], r.Figures["cpu percent"] = float64(resident), busy
	r.verdict(resident <= 30_000_000 && busy < 0.2, "%.1f MB resident, %.1f %% CPU over %v", float64(resident)/1e6, busy, quiet)
	return nil
}

// resident is all resident memory of a process, the program's own pages with it.
func resident(pid int) (int64, error) {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/statm", pid))
	if err != nil {
		return 0, fmt.Errorf("reading the resident memory (Linux only): %w", err)
	}
	var size, pages int64
	if _, err := fmt.Sscan(string(text), &size, &pages); err != nil {
		return 0, fmt.Errorf("reading the resident memory: %w", err)
	}
	return pages * int64(os.Getpagesize()), nil
}
