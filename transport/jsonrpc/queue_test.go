package jsonrpc

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
)

// A gate is a writer that takes one write at a time, when told to.
type gate struct {
	writes chan string // what is written, once it is let through
	open   chan struct{}
	closed chan struct{}
}

func newGate() *gate {
	return &gate{make(chan string, 100), make(chan struct{}), make(chan struct{})}
}

func (g *gate) Write(b []byte) (int, error) {
	select {
	case <-g.open:
		g.writes <- string(b)
		return len(b), nil
	case <-g.closed:
		return 0, io.ErrClosedPipe
	}
}

func (g *gate) Close() error { close(g.closed); return nil }

// gated starts a peer that writes through a gate.
func gated(o Options) (*Peer, *gate) {
	g := newGate()
	in, _ := io.Pipe()
	p := New(in, g, o)
	p.Start()
	return p, g
}

func TestSmallLinesAreWrittenTogetherAndLargeOnesAlone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p, g := gated(Options{})
		line := func(n int, c string) []byte { return []byte(strings.Repeat(c, n-1) + "\n") }
		p.Enqueue(line(10, "a"))
		synctest.Wait() // the writer has taken it
		block := slices.Concat(line(3, "x"), line(4, "y"))
		p.Enqueue(line(20, "b"), block)
		p.Enqueue(line(maxWrite-27, "c"))
		p.Enqueue(line(1, "d"))
		p.Enqueue(line(3*maxWrite, "e"))
		p.Enqueue(line(5, "f"))
		var sizes []int
		for len(sizes) < 5 {
			g.open <- struct{}{}
			sizes = append(sizes, len(<-g.writes))
		}
		if want := []int{10, maxWrite, 1, 3 * maxWrite, 5}; !slices.Equal(sizes, want) {
			t.Errorf("writes of %v, want %v", sizes, want)
		}
		if string(block) != "xx\nyyy\n" {
			t.Errorf("a shared slice was written to: %q", block)
		}
		p.Close(nil)
		p.Wait()
	})
}

func TestLinesFromManyAreWholeAndInOrder(t *testing.T) {
	var last [8]int
	total := 0
	done := make(chan struct{})
	a, b := Pipe(Options{MaxQueue: 1 << 30}, Options{Notify: func(method string, params json.RawMessage, _ uint64) {
		var who, n int
		fmt.Sscanf(string(params), "[%d,%d]", &who, &n)
		if n != last[who]+1 {
			t.Errorf("%d follows %d", n, last[who])
		}
		last[who] = n
		if total++; total == 8000 {
			close(done)
		}
	}})
	closing(t, a, b)
	for who := range 8 {
		go func() {
			for n := range 1000 {
				a.Enqueue(Notification("n", fmt.Appendf(nil, "[%d,%d]", who, n+1)))
			}
		}()
	}
	wait(t, "all lines", done)
}

func TestSlowReaderIsCutOffAtTheLimit(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p, _ := gated(Options{MaxQueue: 1000})
		huge := []byte(strings.Repeat("x", 5000) + "\n")
		if err := p.Enqueue(huge); err != nil {
			t.Errorf("an empty queue did not take a huge line: %v", err)
		}
		if err := p.Enqueue([]byte("x\n")); err != ErrSlowReader {
			t.Errorf("got %v", err)
		}
		<-p.Done()
		if err := p.Wait(); err != ErrSlowReader {
			t.Errorf("closed with %v", err)
		}
		if err := p.Enqueue([]byte("x\n")); err != ErrSlowReader {
			t.Errorf("afterwards: %v", err)
		}

		p, g := gated(Options{MaxQueue: 1000})
		line := []byte(strings.Repeat("x", 99) + "\n")
		for range 10 {
			if err := p.Enqueue(line); err != nil {
				t.Fatal(err)
			}
		}
		synctest.Wait()
		g.open <- struct{}{}
		synctest.Wait()
		if err := p.Enqueue(line); err != nil { // there was room again
			t.Errorf("got %v", err)
		}
		if p.Err() != nil {
			t.Errorf("closed with %v", p.Err())
		}
		p.Close(nil)
		p.Wait()
	})
}

func TestIncompleteLinesAreRefused(t *testing.T) {
	p, _ := gated(Options{})
	for _, lines := range [][][]byte{{[]byte("x")}, {nil}, {[]byte("x\n"), []byte("y")}} {
		if err := p.Enqueue(lines...); err == nil || p.Queued() != 0 {
			t.Errorf("%q: %v, %d bytes queued", lines, err, p.Queued())
		}
	}
	p.Close(nil)
	p.Wait()
}

func TestWrittenIsCalledOnceTheLineIsTaken(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p, g := gated(Options{})
		var told record
		for _, s := range []string{"a", "b", "c"} {
			p.EnqueueNotify([]byte(s+"\n"), func() {
				if q := p.Queued(); q >= 6 {
					t.Errorf("%s: %d bytes still count as queued", s, q)
				}
				told.add(s)
			})
		}
		synctest.Wait()
		if got := told.all(); len(got) != 0 {
			t.Errorf("told %q before anything was written", got)
		}
		for len(told.all()) < 3 {
			select {
			case g.open <- struct{}{}:
			default:
			}
			synctest.Wait()
		}
		if got := told.all(); !slices.Equal(got, []string{"a", "b", "c"}) {
			t.Errorf("told %q", got)
		}
		p.EnqueueNotify([]byte("never\n"), func() { t.Error("told although the peer closed first") })
		synctest.Wait()
		p.Close(nil)
		p.Wait()
		if err := p.EnqueueNotify([]byte("x\n"), func() { t.Error("told by a closed peer") }); err == nil {
			t.Error("a closed peer took a line")
		}
	})
}

func TestRoomAndDrainWaitForTheWriter(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p, g := gated(Options{})
		if err := p.Room(t.Context(), 1); err != nil {
			t.Error(err)
		}
		p.Enqueue([]byte("123456789\n"))
		synctest.Wait()
		p.Enqueue([]byte("123456789\n"))
		var told record
		waiting := func(name string, f func() error) {
			go func() { told.add(fmt.Sprint(name, " ", f())) }()
		}
		ctx, cancel := context.WithCancel(t.Context())
		waiting("room 21", func() error { return p.Room(ctx, 21) })
		synctest.Wait()
		waiting("room 20", func() error { return p.Room(ctx, 20) })
		waiting("drain", func() error { return p.Drain(t.Context()) })
		waiting("impatient", func() error {
			ctx, cancel := context.WithCancel(ctx)
			cancel()
			return p.Drain(ctx)
		})
		synctest.Wait()
		g.open <- struct{}{}
		synctest.Wait()
		g.open <- struct{}{}
		synctest.Wait()
		got := told.all()
		if want := []string{"room 21 <nil>", "impatient context canceled", "room 20 <nil>", "drain <nil>"}; !slices.Equal(got, want) {
			t.Errorf("got %q", got)
		}
		cancel()

		p.Enqueue([]byte("x\n"))
		waiting("closed", func() error { return p.Drain(t.Context()) })
		synctest.Wait()
		reason := errors.New("reason")
		p.Close(reason)
		p.Wait()
		synctest.Wait()
		if got := told.all(); got[len(got)-1] != "closed reason" {
			t.Errorf("got %q", got)
		}
		if err := p.Room(t.Context(), 1<<30); err != reason {
			t.Errorf("room of a closed peer: %v", err)
		}
		if len(p.queue.rooms) != 0 {
			t.Errorf("%d still waiting", len(p.queue.rooms))
		}
	})
}
