//go:build unix

package main

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	"github.com/hermesd/hermesd/daemon/daemontest"
)

// attachOnce starts a shim and takes the time until initialize is answered.
func attachOnce(h *daemontest.Home) (time.Duration, error) {
	e, began, err := open(h)
	if err != nil {
		return 0, err
	}
	defer e.close()
	if err := e.write(initialize); err != nil {
		return 0, err
	}
	if _, err := e.answer(0); err != nil {
		return 0, err
	}
	return time.Since(began), nil
}

func measureAttach(b *bench, r *row) (err error) {
	h, _, end, err := b.home()
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, end()) }()
	var all samples
	for range b.n(200, 20) {
		d, err := attachOnce(h)
		if err != nil {
			return err
		}
		all = append(all, d)
	}
	r.times(all)
	r.verdict(all.p(50) <= 10*time.Millisecond, "p50 %s, p99 %s (%d shims)", ms(all.p(50)), ms(all.p(99)), len(all))
	return nil
}

func measureStart(b *bench, r *row) error {
	var all samples
	for range b.n(20, 3) {
		h, err := daemontest.NewHome(b.bin, "")
		if err != nil {
			return err
		}
		d, err := attachOnce(h)
		if err = errors.Join(err, h.Close()); err != nil {
			return err
		}
		all = append(all, d)
	}
	r.times(all)
	r.verdict(all.p(50) <= 150*time.Millisecond, "p50 %s, max %s (%d empty homes)", ms(all.p(50)), ms(all.p(100)), len(all))
	return nil
}

func measurePrompt(b *bench, r *row) (err error) {
	h, _, end, err := b.home()
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, end()) }()
	e, err := ready(h)
	if err != nil {
		return err
	}
	defer e.close()
	s, err := e.session(h.Work)
	if err != nil {
		return err
	}
	var all samples
	for i := range b.n(3000, 200) + 50 {
		began := time.Now()
		if err := e.prompt(s, "say x"); err != nil {
			return err
		}
		if i >= 50 { // the first turns warm everything up
			all = append(all, time.Since(began))
		}
	}
	r.times(all)
	r.verdict(all.p(50) <= 600*time.Microsecond && all.p(99) <= 3*time.Millisecond,
		"p50 %s, p99 %s (%d prompts)", ms(all.p(50)), ms(all.p(99)), len(all))
	r.Note = "one prompt after the other on one connection; an answer is sent only after the turn's end is synced to disk."
	return nil
}

// chunkSize is the bytes of a chunk in the figures about streams.
const chunkSize = 200

// crowd is a session with editors that follow it.
type crowd struct {
	h       *daemontest.Home
	d       *daemontest.Daemon
	session string
	asks    *editor
	others  []*editor
}

// gather opens a session with n editors in all.
func gather(h *daemontest.Home, d *daemontest.Daemon, n int) (*crowd, error) {
	c := &crowd{h: h, d: d}
	var err error
	if c.asks, err = ready(h); err != nil {
		return nil, err
	}
	if c.session, err = c.asks.session(h.Work); err != nil {
		return nil, err
	}
	for range n - 1 {
		e, err := ready(h)
		if err != nil {
			return nil, err
		}
		if err := e.load(c.session, h.Work); err != nil {
			return nil, err
		}
		c.others = append(c.others, e)
	}
	return c, nil
}

func (c *crowd) leave() {
	c.asks.close()
	for _, e := range c.others {
		e.close()
	}
}

// streamed is one turn of chunks: how long until the editor that asked had its
// answer, what the daemon used until every editor had everything, and how many
// frames the one that asked got.
type streamed struct {
	took   time.Duration
	cpu    time.Duration
	frames int
}

func (c *crowd) stream(chunks int) (streamed, error) {
	var s streamed
	before, err := cpu(c.d.Cmd.Process.Pid)
	if err != nil {
		return s, err
	}
	var behind []<-chan error
	for _, e := range c.others {
		behind = append(behind, e.follow(`"state":"idle"`)) // how others see a turn's end
	}
	frames := c.asks.frames
	began := time.Now()
	if err := c.asks.prompt(c.session, fmt.Sprintf("stream %d %d", chunks, chunkSize)); err != nil {
		return s, err
	}
	s.took = time.Since(began)
	s.frames = c.asks.frames - frames
	for _, done := range behind {
		if err := <-done; err != nil {
			return s, err
		}
	}
	after, err := cpu(c.d.Cmd.Process.Pid)
	s.cpu = after - before
	return s, err
}

func measureChunks(b *bench, r *row) (err error) {
	h, d, end, err := b.home()
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, end()) }()
	chunks := b.n(200_000, 20_000)
	one, err := gather(h, d, 1)
	if err != nil {
		return err
	}
	defer one.leave()
	eight, err := gather(h, d, 8)
	if err != nil {
		return err
	}
	defer eight.leave()
	var rates, cpu1, cpu8, ratios, frames []float64
	for i := range b.n(5, 2) + 1 {
		x, err := one.stream(chunks)
		if err != nil {
			return err
		}
		y, err := eight.stream(chunks)
		if err != nil {
			return err
		}
		if i == 0 {
			continue // warms up
		}
		rates = append(rates, float64(chunks)/x.took.Seconds())
		cpu1 = append(cpu1, x.cpu.Seconds())
		cpu8 = append(cpu8, y.cpu.Seconds())
		ratios = append(ratios, y.cpu.Seconds()/x.cpu.Seconds())
		frames = append(frames, float64(x.frames))
	}
	r.Figures["chunksPerSecond"], r.Figures["cpuOne"], r.Figures["cpuEight"], r.Figures["ratio"] = median(rates), median(cpu1), median(cpu8), median(ratios)
	r.Figures["frames"] = median(frames)
	r.verdict(median(rates) >= 100_000 && median(ratios) <= 2, "%.0f/s; CPU %.2f s for one, %.2f s for 8 editors: %.2f ×",
		median(rates), median(cpu1), median(cpu8), median(ratios))
	r.Note = fmt.Sprintf("%d chunks of %d bytes a turn, until the answer; medians of %d turns each, by turns. The one editor got them in %.0f frames (an editor that falls behind gets neighbours joined).",
		chunks, chunkSize, len(rates), median(frames))
	return nil
}

func measureStalled(b *bench, r *row) (err error) {
	h, d, end, err := b.home()
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, end()) }()
	chunks := b.n(200_000, 20_000)
	alone, err := gather(h, d, 1)
	if err != nil {
		return err
	}
	defer alone.leave()
	pair, err := gather(h, d, 2)
	if err != nil {
		return err
	}
	defer pair.leave()
	stalled := pair.others[0] // it is there, and never reads again
	defer stalled.close()
	pair.others = nil
	pid := d.Cmd.Process.Pid
	if _, err := alone.stream(chunks); err != nil { // warms up: what the daemon needs for one reader is not the stalled one's
		return err
	}
	if _, err := collected(alone.asks); err != nil {
		return err
	}
	before, err := memory(pid)
	if err != nil {
		return err
	}
	var ratios []float64
	var most, mostAlone int64
	for range b.n(5, 2) {
		stop := watch(pid)
		x, err := alone.stream(chunks)
		mostAlone = max(mostAlone, stop())
		if err != nil {
			return err
		}
		stop = watch(pid)
		y, err := pair.stream(chunks)
		most = max(most, stop())
		if err != nil {
			return err
		}
		ratios = append(ratios, x.took.Seconds()/y.took.Seconds())
	}
	grown := float64(max(most-before, 0)) / 1e6
	grownAlone := float64(max(mostAlone-before, 0)) / 1e6
	r.Figures["ratio"], r.Figures["grownBytes"], r.Figures["grownAloneBytes"] = median(ratios), grown*1e6, grownAlone*1e6
	r.verdict(median(ratios) >= 0.9 && grown <= 32, "%.2f × its speed alone; the daemon grew by %.0f MB (alone by %.0f MB)", median(ratios), grown, grownAlone)
	r.Note = fmt.Sprintf("%d chunks of %d bytes a turn; medians of %d turns each, by turns. Growth: the most resident memory (without mapped files) seen in a turn, over that after a first turn and a garbage collection.",
		chunks, chunkSize, len(ratios))
	return nil
}

func measureLoad(b *bench, r *row) (err error) {
	h, _, end, err := b.home()
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, end()) }()
	e, err := ready(h)
	if err != nil {
		return err
	}
	defer e.close()
	s, err := e.session(h.Work)
	if err != nil {
		return err
	}
	if _, err := e.call("session/set_mode", obj{"sessionId": s, "modeId": "dont_ask"}); err != nil {
		return err
	}
	if err := writeLines(h.Work); err != nil {
		return err
	}
	want := b.n(10_000, 1_000)
	events, turns := 0, 0
	for ; events < want; turns++ {
		if err := e.prompt(s, "think about it\nread f.txt\nsay It is a file of forty lines that are all the same.\nrun echo done\nstream 60 80\nplan look; think; write"); err != nil {
			return err
		}
		if events, err = eventsOf(e, s); err != nil {
			return err
		}
	}
	live := e.frames
	var all samples
	frames, size := 0, int64(0)
	for range b.n(30, 5) {
		other, err := ready(h)
		if err != nil {
			return err
		}
		other.frames, other.bytes = 0, 0
		began := time.Now()
		if err := other.load(s, h.Work); err != nil {
			return err
		}
		all = append(all, time.Since(began))
		frames, size = other.frames, other.bytes
		other.close()
	}
	r.times(all)
	r.Figures["events"], r.Figures["frames"], r.Figures["liveFrames"], r.Figures["bytes"] = float64(events), float64(frames), float64(live), float64(size)
	r.verdict(all.p(50) <= 100*time.Millisecond && frames < live/2, "p50 %s, max %s; %d events in %d frames, %.1f MB",
		ms(all.p(50)), ms(all.p(100)), events, frames, float64(size)/1e6)
	r.Note = fmt.Sprintf("made by %d turns, each with a thought, a file read, a command run, a plan, and 60 chunks; the session was live, loaded by %d new editors one after the other; the editor that made it got %d frames.",
		turns, len(all), live)
	return nil
}

// writeLines writes the file that agents are made to read.
func writeLines(dir string) error {
	return os.WriteFile(filepath.Join(dir, "f.txt"), []byte(strings.Repeat("a line of some length\n", 40)), 0o644)
}

// eventsOf asks how many events a live session has.
func eventsOf(e *editor, session string) (int, error) {
	st, err := status(e)
	if err != nil {
		return 0, err
	}
	for _, s := range st.Sessions {
		if s.ID == session {
			return s.Events, nil
		}
	}
	return 0, errors.New("the session is not in _hermes/status")
}

type statusReply struct {
	Memory struct {
		HeapBytes int64 `json:"heapBytes"`
		RSSBytes  int64 `json:"rssBytes"`
	} `json:"memory"`
	Goroutines int `json:"goroutines"`
	Sessions   []struct {
		ID     string `json:"id"`
		Events int    `json:"events"`
	} `json:"sessions"`
}

func status(e *editor) (st statusReply, err error) {
	result, err := e.call("_hermes/status", obj{})
	if err != nil {
		return st, fmt.Errorf("_hermes/status: %w", err)
	}
	return st, json.Unmarshal(result, &st)
}

// collected is status after a garbage collection.
func collected(e *editor) (st statusReply, err error) {
	result, err := e.call("_hermes/status", obj{"collect": true})
	if err != nil {
		return st, fmt.Errorf("_hermes/status: %w", err)
	}
	return st, json.Unmarshal(result, &st)
}

func measureIdle(b *bench, r *row) (err error) {
	h, d, end, err := b.home()
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, end()) }()
	e, err := ready(h)
	if err != nil {
		return err
	}
	defer e.close()
	// Each has been prompted once, and is held live by the editor that has it open.
	fill := func(n int) error {
		for range n {
			s, err := e.session(h.Work)
			if err != nil {
				return err
			}
			if err := e.prompt(s, "say x"); err != nil {
				return err
			}
		}
		return nil
	}
	n := b.n(1000, 200)
	if err := fill(20); err != nil { // what is paid once
		return err
	}
	// Idle is a session that has had a while to give back what its last turn took.
	settle := func() (heap, rss int64, goroutines int, err error) {
		var st statusReply
		for was := int64(-1); ; was = st.Memory.HeapBytes {
			if st, err = collected(e); err != nil {
				return 0, 0, 0, err
			}
			if was >= 0 && was-st.Memory.HeapBytes < was/200 {
				break
			}
			select {
			case <-time.After(4 * time.Second): // sessions take two
			case <-b.ctx.Done():
				return 0, 0, 0, b.ctx.Err()
			}
		}
		rss, err = memory(d.Cmd.Process.Pid)
		return st.Memory.HeapBytes, rss, st.Goroutines, err
	}
	heap0, rss0, go0, err := settle()
	if err != nil {
		return err
	}
	if err := fill(n); err != nil {
		return err
	}
	heap1, rss1, go1, err := settle()
	if err != nil {
		return err
	}
	st, err := status(e)
	if err != nil {
		return err
	}
	live := len(st.Sessions)
	heap, rss := float64(heap1-heap0)/float64(n), float64(rss1-rss0)/float64(n)
	r.Figures["heapBytes"], r.Figures["rssBytes"], r.Figures["goroutines"] = heap, rss, float64(go1-go0)/float64(n)
	r.verdict(rss <= 50e3 && live >= n, "%.1f KB resident, %.1f KB heap, %.1f goroutines each (%d live)", rss/1e3, heap/1e3, float64(go1-go0)/float64(n), live)
	r.Note = "each was prompted once; one editor has them all open. Resident memory without mapped files, before and after, each time after a garbage collection, when nothing more is given back."
	return nil
}

func measureReady(b *bench, r *row) (err error) {
	h, d, end, err := b.home()
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, end()) }()
	n := b.n(10_000, 500)
	b.say("making %d sessions through the daemon", n)
	e, err := ready(h)
	if err != nil {
		return err
	}
	for i := range n {
		s, err := e.session(h.Work)
		if err != nil {
			return err
		}
		if err := e.prompt(s, "say session "+fmt.Sprint(i)); err != nil {
			return err
		}
		if _, err := e.call("session/close", obj{"sessionId": s}); err != nil {
			return err
		}
	}
	e.close()
	var all samples
	for range b.n(10, 3) {
		if err := h.Stop(b.ctx); err != nil {
			return err
		}
		<-d.Done()
		if d, err = h.Serve(b.ctx); err != nil {
			return err
		}
		all = append(all, d.Ready)
	}
	// After a crash what the journal still holds is replayed.
	d.Kill()
	crashed, err := h.Serve(b.ctx)
	if err != nil {
		return err
	}
	r.times(all)
	r.Figures["afterCrash"] = crashed.Ready.Seconds()
	r.verdict(all.p(50) <= 200*time.Millisecond, "p50 %s, max %s; after kill -9 %s", ms(all.p(50)), ms(all.p(100)), ms(crashed.Ready))
	r.Note = fmt.Sprintf("`hermesd serve` started → it says ready; %d sessions, each with one turn.", n)
	return nil
}

// measureRelay moves frames from a listener on a unix socket to a reader of
// the relay's stdout: the shim's place between daemon and editor.
func measureRelay(b *bench, r *row) error {
	socat, err := exec.LookPath("socat")
	if err != nil {
		r.Text = "not measured: socat is not installed"
		return nil
	}
	dir, err := os.MkdirTemp("", "hdr")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	path := filepath.Join(dir, "s")
	l, err := net.Listen("unix", path)
	if err != nil {
		return err
	}
	defer l.Close()
	total := int64(b.n(400<<20, 20<<20))
	shim := func() *exec.Cmd {
		cmd := exec.Command(filepath.Join(b.bin, "hermes-acp-shim"), "--no-start", "--socket", path)
		cmd.Env = []string{"HERMESD_HOME=" + dir, "PATH=" + os.Getenv("PATH"), "HOME=" + dir}
		return cmd
	}
	other := func() *exec.Cmd { return exec.Command(socat, "-u", "UNIX-CONNECT:"+path, "STDOUT") }
	var text []string
	ok := true
	for _, way := range []struct {
		name  string
		block int // bytes of one write of the sender
	}{{"one frame a write", chunkSize}, {"written in blocks", 320 * chunkSize}} {
		var ratios, rates []float64
		amount := total
		if way.block == chunkSize {
			amount /= 8
		}
		for i := range b.n(7, 3) + 1 {
			ours, err := relay(l, shim(), true, way.block, amount)
			if err != nil {
				return err
			}
			theirs, err := relay(l, other(), false, way.block, amount)
			if err != nil {
				return err
			}
			if i > 0 {
				ratios = append(ratios, theirs.Seconds()/ours.Seconds())
				rates = append(rates, float64(amount)/chunkSize/ours.Seconds())
			}
		}
		key := map[string]string{"one frame a write": "single", "written in blocks": "blocks"}[way.name]
		r.Figures[key+"Ratio"], r.Figures[key+"PerSecond"] = median(ratios), median(rates)
		text = append(text, fmt.Sprintf("%.2f × (%.1f million frames/s, %s)", median(ratios), median(rates)/1e6, way.name))
		ok = ok && median(ratios) >= 0.8
	}
	r.verdict(ok, "%s", strings.Join(text, "; "))
	r.Note = "from a listening unix socket through the relay to the reader of its stdout, medians by turns; `socat -u UNIX-CONNECT:… STDOUT`."
	return nil
}

// relay times the way of amount bytes, from the first byte sent to the last
// received. A shim begins with a hello and wants a welcome.
func relay(l net.Listener, cmd *exec.Cmd, hello bool, block int, amount int64) (time.Duration, error) {
	in, err := cmd.StdinPipe()
	if err != nil {
		return 0, err
	}
	out, outW, err := os.Pipe()
	if err != nil {
		return 0, err
	}
	defer out.Close()
	cmd.Stdout = outW
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	err = cmd.Start()
	outW.Close()
	if err != nil {
		return 0, err
	}
	conn, err := l.Accept()
	if err != nil {
		return 0, err
	}
	defer conn.Close()
	if hello {
		if _, err := bufio.NewReaderSize(conn, 1<<20).ReadSlice('\n'); err != nil {
			return 0, fmt.Errorf("reading the hello: %w", err)
		}
		if _, err := conn.Write([]byte(`{"hermes":{"link":1,"version":"bench"}}` + "\n")); err != nil {
			return 0, err
		}
	}
	frame := append(bytes.Repeat([]byte("x"), chunkSize-1), '\n')
	data := bytes.Repeat(frame, block/chunkSize)
	sent := make(chan error, 1)
	began := time.Now()
	go func() {
		for left := amount; left > 0; left -= int64(len(data)) {
			if _, err := conn.Write(data); err != nil {
				sent <- err
				return
			}
		}
		sent <- nil
	}()
	buf := make([]byte, 256<<10)
	for got := int64(0); got < amount; {
		n, err := out.Read(buf)
		got += int64(n)
		if err != nil {
			return 0, fmt.Errorf("%s: %w after %d of %d bytes; it said %q", filepath.Base(cmd.Path), err, got, amount, &stderr)
		}
	}
	took := time.Since(began)
	if err := <-sent; err != nil {
		return 0, err
	}
	_ = in.Close()
	_ = conn.Close()
	_ = cmd.Wait()
	return took, nil
}

func median(all []float64) float64 {
	if len(all) == 0 {
		return 0
	}
	sorted := append([]float64(nil), all...)
	for i := range sorted { // few
		for j := i; j > 0 && sorted[j] < sorted[j-1]; j-- {
			sorted[j], sorted[j-1] = sorted[j-1], sorted[j]
		}
	}
	if n := len(sorted); n%2 == 0 {
		return (sorted[n/2-1] + sorted[n/2]) / 2
	}
	return sorted[len(sorted)/2]
}
