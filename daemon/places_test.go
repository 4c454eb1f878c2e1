package daemon_test

import (
	"context"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/hermesd/hermesd/daemon"
	"github.com/hermesd/hermesd/daemon/daemontest"
	"github.com/hermesd/hermesd/daemon/session"
	"github.com/hermesd/hermesd/store"
	"github.com/hermesd/hermesd/transport"
	"github.com/hermesd/hermesd/transport/acpclient"
	"github.com/hermesd/hermesd/transport/link"
)

// place is a daemon that runs somewhere, with a store on disk and an agent
// that understands the offline model's words stream, say, sleep and run.
type place struct {
	t    *testing.T
	cwd  string
	dial func() net.Conn
	// spawn gives an editor behind whatever an editor has before it there; nil:
	// nothing.
	spawn func(acpclient.Options) *acpclient.Client
	// crash ends the daemon as a power cut does to everything that was not
	// synced, or, if only is set, as kill -9 does, and starts another one on
	// what is left.
	crash func(only bool)
	// stall holds every write of the store until what it returns is called;
	// in memory only.
	stall func() (free func())
	// memory is what the daemon uses, bound how much of it may stay in use after
	// any amount was streamed, and chunks of 16 KiB are far beyond it.
	memory func(e *acpclient.Client) int64
	bound  int64
	chunks int
}

// settings are what a test may want different in a place.
type settings struct {
	agent   *daemontest.Script // in memory only
	timeout time.Duration      // of questions
	deny    bool
	usual   bool // the store moves events to its database as it always does; no crash
}

// process is the name of the place with real processes.
const process = "process"

// kinds of places, by name; the file for Unix adds real processes.
var kinds = []struct {
	name string
	make func(t *testing.T, s settings) *place
}{
	{"memory", func(t *testing.T, s settings) *place { return inProcess(t, s, false) }},
	{"socket", func(t *testing.T, s settings) *place { return inProcess(t, s, true) }},
}

// everywhere plays body in every kind of place, or, with a scripted agent, in
// those that are in memory.
func everywhere(t *testing.T, s settings, body func(t *testing.T, p *place)) {
	for _, k := range kinds {
		if s.agent == nil || k.name != process {
			t.Run(k.name, func(t *testing.T) { body(t, k.make(t, s)) })
		}
	}
}

// outside plays body with real processes, if there is such a place here.
func outside(t *testing.T, s settings, body func(t *testing.T, p *place)) {
	for _, k := range kinds {
		if k.name == process {
			t.Run(k.name, func(t *testing.T) { body(t, k.make(t, s)) })
		}
	}
}

// editor connects one more editor.
func (p *place) editor(o acpclient.Options) *acpclient.Client {
	p.t.Helper()
	if p.spawn != nil {
		return p.spawn(o)
	}
	return p.plain(o)
}

// plain connects an editor without anything between.
func (p *place) plain(o acpclient.Options) *acpclient.Client {
	p.t.Helper()
	c := p.dial()
	e := acpclient.New(c, c, o)
	p.t.Cleanup(func() { e.Close() })
	p.initialize(e)
	return e
}

func (p *place) initialize(e *acpclient.Client) {
	p.t.Helper()
	if _, err := e.Initialize(within(p.t)); err != nil {
		p.t.Fatal(err)
	}
}

func (p *place) newSession(e *acpclient.Client) string {
	p.t.Helper()
	s, err := e.NewSession(within(p.t), p.cwd)
	if err != nil {
		p.t.Fatal(err)
	}
	return s.ID
}

// joined is an editor that has loaded the session.
func (p *place) joined(id string, o acpclient.Options) *acpclient.Client {
	p.t.Helper()
	e := p.editor(o)
	if _, err := e.Load(within(p.t), id, p.cwd); err != nil {
		p.t.Fatal(err)
	}
	return e
}

// reader is the script's interpreter of the offline model's words.
func reader(runs *counter) *daemontest.Script {
	return &daemontest.Script{Turn: func(ctx context.Context, st *daemontest.Stage) (session.TurnResult, error) {
		for line := range strings.SplitSeq(st.Text(), "\n") {
			if err := read(ctx, st, line, runs); err != nil {
				return session.TurnResult{}, err
			}
		}
		return session.TurnResult{StopReason: "end_turn"}, nil
	}}
}

func read(ctx context.Context, st *daemontest.Stage, line string, runs *counter) error {
	word, rest, _ := strings.Cut(line, " ")
	switch word {
	case "say":
		return st.Say(ctx, "%s\n", rest)
	case "stream":
		n, size, _ := strings.Cut(rest, " ")
		count, _ := strconv.Atoi(n)
		bytes, _ := strconv.Atoi(size)
		for k := range count {
			text := strconv.Itoa(k+1) + strings.Repeat(".", max(0, bytes-len(strconv.Itoa(k+1))))
			if err := st.Say(ctx, "%s", text); err != nil {
				return err
			}
		}
		return nil
	case "sleep":
		d, err := time.ParseDuration(rest)
		if err != nil {
			return err
		}
		select {
		case <-time.After(d):
			return nil
		case <-ctx.Done():
			return ctx.Err()
		}
	case "run":
		a, err := st.Permit(ctx, rest)
		if err != nil {
			return err
		}
		return st.Say(ctx, "%s: %s\n", rest, a.Outcome)
	case "work": // a call that lasts until it is cancelled
		id, err := st.Call(ctx, rest)
		if err != nil {
			return err
		}
		if err := st.Status(ctx, id, "in_progress"); err != nil {
			return err
		}
		if err := st.Barrier(ctx); err != nil {
			return err
		}
		runs.add()
		<-ctx.Done()
		return ctx.Err()
	}
	return fmt.Errorf("no such word: %q", line)
}

type counter struct {
	mu sync.Mutex
	n  int
}

func (c *counter) add() {
	c.mu.Lock()
	c.n++
	c.mu.Unlock()
}

func (c *counter) is() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.n
}

// inProcess makes a place inside the test's process.
func inProcess(t *testing.T, s settings, socket bool) *place {
	t.Helper()
	p := &place{t: t, cwd: t.TempDir(), chunks: 1500, bound: 8 << 20, memory: func(*acpclient.Client) int64 { return heap() }}
	agent := s.agent
	if agent == nil {
		agent = reader(new(counter))
	}
	disk := newDisk(t, "")
	var house *daemontest.House
	open := func() {
		o := store.Options{Files: disk, TransferAfter: time.Hour, TransferBytes: 1 << 30, MaxBacklog: 1 << 30, SegmentBytes: 1 << 30}
		if s.usual {
			o = store.Options{}
		}
		st, err := store.Open(disk.dir, o)
		if err != nil {
			t.Fatal(err)
		}
		disk.opened()
		house = daemontest.NewHouse(t, st, agent, func(c *daemon.Config) {
			if s.timeout != 0 {
				c.Session.QuestionTimeout = s.timeout
			}
			c.Session.DenyDetached = s.deny
		})
		h := house
		t.Cleanup(func() {
			h.Drain()
			if err := st.Close(); err != nil {
				t.Errorf("closing the store: %v", err)
			}
		})
		p.dial = h.Pipe
		if socket {
			p.dial = listen(t, h)
		}
	}
	p.crash = func(only bool) {
		disk = newDisk(t, disk.image(only))
		open()
	}
	open()
	p.stall = disk.stall
	return p
}

// listen serves the house on a real socket.
func listen(t *testing.T, h *daemontest.House) func() net.Conn {
	t.Helper()
	dir, err := os.MkdirTemp("", "hd") // short: a socket's path has to be
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	places := link.Places{Run: dir, Socket: filepath.Join(dir, "s"), Lock: filepath.Join(dir, "lock"), Start: filepath.Join(dir, "start")}
	ctx, cancel := context.WithCancel(context.Background())
	ln, err := transport.Listen(ctx, transport.ListenConfig{Places: places})
	if err != nil {
		cancel()
		t.Fatal(err)
	}
	served := make(chan error, 1)
	go func() { served <- h.Daemon.Serve(ctx, ln) }()
	t.Cleanup(func() {
		cancel()
		if err := <-served; err != nil {
			t.Errorf("serving: %v", err)
		}
	})
	return func() net.Conn {
		c, err := net.Dial("unix", places.Socket)
		if err != nil {
			t.Fatal(err)
		}
		return c
	}
}

// disk is the store's file system, which knows what a crash would leave of the
// journal. The database does not change while nothing is transferred to it.
type disk struct {
	t   *testing.T
	dir string

	mu      sync.Mutex
	written map[string][]byte
	synced  map[string][]byte
	gate    chan struct{} // not nil: writes wait until it is closed
}

// newDisk makes a disk; from is a folder to begin with.
func newDisk(t *testing.T, from string) *disk {
	d := &disk{t: t, dir: from, written: make(map[string][]byte), synced: make(map[string][]byte)}
	if from == "" {
		d.dir = t.TempDir()
	}
	return d
}

// opened keeps the database as it is now.
func (d *disk) opened() {
	b, err := os.ReadFile(filepath.Join(d.dir, "sessions.db"))
	if err != nil {
		d.t.Fatal(err)
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	d.written["sessions.db"], d.synced["sessions.db"] = b, b
}

// image makes a folder with what a crash would leave: what was written, or
// only what was synced.
func (d *disk) image(written bool) string {
	d.t.Helper()
	d.mu.Lock()
	defer d.mu.Unlock()
	dir := d.t.TempDir()
	files := d.synced
	if written {
		files = d.written
	}
	for name, b := range files {
		path := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
			d.t.Fatal(err)
		}
		if err := os.WriteFile(path, b, 0o600); err != nil {
			d.t.Fatal(err)
		}
	}
	return dir
}

// stall makes every write wait until the function it returns is called.
func (d *disk) stall() (free func()) {
	gate := make(chan struct{})
	d.mu.Lock()
	d.gate = gate
	d.mu.Unlock()
	return sync.OnceFunc(func() {
		d.mu.Lock()
		d.gate = nil
		d.mu.Unlock()
		close(gate)
	})
}

func (d *disk) rel(name string) string {
	rel, err := filepath.Rel(d.dir, name)
	if err != nil {
		d.t.Error(err)
	}
	return rel
}

func (d *disk) Create(name string) (store.File, error) {
	f, err := os.OpenFile(name, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return nil, err
	}
	d.mu.Lock()
	d.written[d.rel(name)], d.synced[d.rel(name)] = nil, nil
	d.mu.Unlock()
	return &diskFile{f, d, d.rel(name)}, nil
}

func (d *disk) OpenWrite(name string) (store.File, error) {
	f, err := os.OpenFile(name, os.O_WRONLY, 0)
	if err != nil {
		return nil, err
	}
	b, err := os.ReadFile(name)
	if err != nil {
		return nil, err
	}
	d.mu.Lock()
	d.written[d.rel(name)], d.synced[d.rel(name)] = b, b
	d.mu.Unlock()
	return &diskFile{f, d, d.rel(name)}, nil
}

func (d *disk) ReadFile(name string) ([]byte, error) { return os.ReadFile(name) }

func (d *disk) Rename(from, to string) error {
	d.mu.Lock()
	for _, m := range []map[string][]byte{d.written, d.synced} {
		if b, ok := m[d.rel(from)]; ok {
			m[d.rel(to)] = b
			delete(m, d.rel(from))
		}
	}
	d.mu.Unlock()
	return os.Rename(from, to)
}

func (d *disk) Remove(name string) error {
	d.mu.Lock()
	delete(d.written, d.rel(name))
	delete(d.synced, d.rel(name))
	d.mu.Unlock()
	return os.RemoveAll(name)
}

func (d *disk) SyncDir(string) error { return nil }

type diskFile struct {
	*os.File
	d    *disk
	name string
}

func (f *diskFile) WriteAt(b []byte, off int64) (int, error) {
	f.d.mu.Lock()
	gate := f.d.gate
	f.d.mu.Unlock()
	if gate != nil {
		<-gate
	}
	n, err := f.File.WriteAt(b, off)
	f.d.mu.Lock()
	defer f.d.mu.Unlock()
	was := f.d.written[f.name]
	if need := int(off) + n - len(was); need > 0 {
		was = append(was[:len(was):len(was)], make([]byte, need)...)
	} else {
		was = append([]byte(nil), was...)
	}
	copy(was[off:], b[:n])
	f.d.written[f.name] = was
	return n, err
}

func (f *diskFile) Sync() error {
	f.d.mu.Lock()
	before := f.d.written[f.name]
	f.d.mu.Unlock()
	err := f.File.Sync()
	f.d.mu.Lock()
	defer f.d.mu.Unlock()
	if err == nil && len(before) >= len(f.d.synced[f.name]) {
		f.d.synced[f.name] = before
	}
	return err
}

func (f *diskFile) Truncate(n int64) error {
	f.d.mu.Lock()
	for _, m := range []map[string][]byte{f.d.written, f.d.synced} {
		if int64(len(m[f.name])) > n {
			m[f.name] = m[f.name][:n:n]
		}
	}
	f.d.mu.Unlock()
	return f.File.Truncate(n)
}

// heap is what is in use after a collection.
func heap() int64 {
	runtime.GC()
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc)
}
