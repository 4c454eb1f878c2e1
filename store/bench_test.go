package store

import (
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/hermesd/hermesd/daemon/session"
)

// waiting is a Sink that a benchmark waits on without asking often.
type waiting struct {
	written, durable atomic.Uint64
	wake             chan struct{}
}

func newWaiting() *waiting { return &waiting{wake: make(chan struct{}, 1)} }

func (w *waiting) Written(n session.Seq) { w.written.Store(uint64(n)); poke(w.wake) }
func (w *waiting) Durable(n session.Seq) { w.durable.Store(uint64(n)); poke(w.wake) }
func (w *waiting) Failed(error)          {}

// update is a chunk of about 200 bytes.
func update(seq session.Seq, message int) session.Event {
	data := []byte(updateText)
	number := func(at int, n uint64) {
		for ; n > 0; n /= 10 {
			data[at] = byte('0' + n%10)
			at--
		}
	}
	number(updateAt, uint64(seq))
	number(len(data)-3, uint64(message))
	return session.Event{Seq: seq, Time: 1764500000000 + int64(seq), Kind: session.KindUpdate, Version: 1, Data: data}
}

const (
	updateHead = `{"sessionUpdate":"agent_message_chunk","content":{"type":"text","text":"and so the words of a model come, a few at a time, forty or fifty bytes, 00000000`
	updateText = updateHead + `"},"messageId":"msg-00000000000000000000000000000000"}`
	updateAt   = len(updateHead) - 1
)

// BenchmarkStream appends chunks of 200 bytes in groups, as agents that stream
// as fast as they can do, and ends when all of them are in bbolt. cpu/event is
// user and system time of the whole process, making the events included.
func BenchmarkStream(b *testing.B) {
	for _, logs := range []int{1, 8, 50} {
		for _, group := range []int{1, 16} {
			b.Run(fmt.Sprintf("logs=%d/group=%d", logs, group), func(b *testing.B) {
				s := open(b, b.TempDir(), Options{})
				defer s.Close()
				open := make([]session.Log, logs)
				sinks := make([]*waiting, logs)
				for i := range open {
					sinks[i] = newWaiting()
					open[i], _ = s.Create(session.Meta{ID: session.ID(fmt.Sprintf("s%d", i)), Created: time.Now()}, sinks[i])
				}
				events := make([][]session.Event, logs)
				seqs := make([]session.Seq, logs)
				b.ReportAllocs()
				b.ResetTimer()
				cpu := cpuTime()
				for n, i := 0, 0; n < b.N; n, i = n+group, (i+1)%logs {
					events[i] = events[i][:0]
					for range group {
						seqs[i]++
						events[i] = append(events[i], update(seqs[i], int(seqs[i])/500))
					}
					for uint64(seqs[i])-sinks[i].written.Load() > 4000 {
						<-sinks[i].wake
					}
					open[i].Append(nil, events[i], false)
				}
				for i := range open {
					for sinks[i].written.Load() < uint64(seqs[i]) {
						<-sinks[i].wake
					}
				}
				if err := s.moveOnce(); err != nil {
					b.Fatal(err)
				}
				b.ReportMetric(float64(cpuTime()-cpu)/float64(b.N), "cpu-ns/event")
				b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "events/s")
				b.StopTimer()
				st := s.Stats()
				b.ReportMetric(float64(st.Events)/float64(max(st.Groups, 1)), "events/group")
				b.ReportMetric(float64(st.Records)/float64(b.N), "records/event")
			})
		}
	}
}

// BenchmarkDurable is the time from Append of one small event to Durable.
func BenchmarkDurable(b *testing.B) {
	s := open(b, b.TempDir(), Options{})
	defer s.Close()
	sink := newWaiting()
	log, _ := s.Create(session.Meta{ID: "s"}, sink)
	var took []time.Duration
	for i := 0; b.Loop(); i++ {
		start := time.Now()
		log.Append(nil, []session.Event{update(session.Seq(i+1), i)}, true)
		for sink.durable.Load() <= uint64(i) {
			<-sink.wake
		}
		took = append(took, time.Since(start))
	}
	slices.Sort(took)
	b.ReportMetric(float64(took[len(took)/2].Microseconds()), "p50-us")
	b.ReportMetric(float64(took[len(took)*99/100].Microseconds()), "p99-us")
}

// BenchmarkWritten is the time from Append of one small event to Written.
func BenchmarkWritten(b *testing.B) {
	s := open(b, b.TempDir(), Options{})
	defer s.Close()
	sink := newWaiting()
	log, _ := s.Create(session.Meta{ID: "s"}, sink)
	var took []time.Duration
	for i := 0; b.Loop(); i++ {
		start := time.Now()
		log.Append(nil, []session.Event{update(session.Seq(i+1), i)}, false)
		for sink.written.Load() <= uint64(i) {
			<-sink.wake
		}
		took = append(took, time.Since(start))
	}
	slices.Sort(took)
	b.ReportMetric(float64(took[len(took)/2].Nanoseconds())/1000, "p50-us")
	b.ReportMetric(float64(took[len(took)*99/100].Nanoseconds())/1000, "p99-us")
}

// fill makes a store with n sessions of some events and closes it.
func fill(tb testing.TB, dir string, n, events int) {
	s := open(tb, dir, Options{})
	defer s.Close()
	for i := range n {
		sink := newWaiting()
		m := session.Meta{
			ID: session.ID(fmt.Sprintf("0193a5c0-7e1b-7cde-8f00-%012d", i)), Agent: "hermes", Cwd: "/home/somebody/work/project", Title: "make the tests pass again",
			Created: time.Unix(int64(i), 5), Updated: time.Unix(int64(i)*3, 7), MCPServers: []byte(`[{"name":"files","command":"mcp-files","args":["--root","/home/somebody"]}]`), Turns: i,
		}
		log, err := s.Create(m, sink)
		if err != nil {
			tb.Fatal(err)
		}
		all := make([]session.Event, events)
		for k := range all {
			all[k] = update(session.Seq(k+1), k/3)
		}
		log.Append(nil, all, false)
		if i%500 == 499 || i == n-1 {
			for sink.written.Load() < uint64(events) {
				<-sink.wake
			}
		}
		log.Close()
	}
}

// BenchmarkOpen is the start with many sessions stored.
func BenchmarkOpen(b *testing.B) {
	dir := b.TempDir()
	fill(b, dir, 10000, 20)
	for b.Loop() {
		start := time.Now()
		s := open(b, dir, Options{})
		b.ReportMetric(float64(time.Since(start).Microseconds())/1000, "open-ms")
		if n := len(s.List()); n != 10000 {
			b.Fatal(n)
		}
		b.ReportMetric(float64(time.Since(start).Microseconds())/1000, "open+list-ms")
		s.Close()
	}
}

// BenchmarkIdleLog is the memory of a log that is open and quiet.
func BenchmarkIdleLog(b *testing.B) {
	dir := b.TempDir()
	const n = 10000
	fill(b, dir, n, 3)
	s := open(b, dir, Options{})
	defer s.Close()
	list := s.List()
	var logs []session.Log
	heap := func() uint64 {
		var m runtime.MemStats
		runtime.GC()
		runtime.GC()
		runtime.ReadMemStats(&m)
		return m.HeapAlloc
	}
	sink := newWaiting()
	before := heap()
	for _, m := range list {
		log, err := s.Open(m.ID, sink)
		if err != nil {
			b.Fatal(err)
		}
		logs = append(logs, log)
		log.Append(nil, []session.Event{update(4, 0)}, false)
	}
	for s.Stats().Events < n {
		runtime.Gosched()
	}
	if err := s.moveOnce(); err != nil {
		b.Fatal(err)
	}
	after := heap()
	for b.Loop() {
	}
	b.ReportMetric(float64(after-before)/n, "bytes/log")
	for _, log := range logs {
		log.Close()
	}
}

// BenchmarkRead reads a session of 10,000 events from bbolt.
func BenchmarkRead(b *testing.B) {
	for _, kind := range []string{"chunks", "tools"} {
		b.Run(kind, func(b *testing.B) {
			s := open(b, b.TempDir(), Options{})
			defer s.Close()
			sink := newWaiting()
			log, _ := s.Create(session.Meta{ID: "s"}, sink)
			for seq := session.Seq(1); seq <= 10000; seq++ {
				e := update(seq, int(seq)/500)
				if kind == "tools" {
					e.Data = []byte(strings.Replace(string(e.Data), "agent_message_chunk", "tool_call_update", 1))
				}
				log.Append(nil, []session.Event{e}, false)
			}
			for sink.written.Load() < 10000 {
				<-sink.wake
			}
			if err := s.moveOnce(); err != nil {
				b.Fatal(err)
			}
			b.ReportAllocs()
			for b.Loop() {
				for next := session.Seq(1); next <= 10000; {
					page, err := log.Read(next, 256<<10)
					if err != nil || len(page) == 0 {
						b.Fatal(err)
					}
					next = page[len(page)-1].Last + 1
				}
			}
			info, _ := os.Stat(filepath.Join(s.dir, "sessions.db"))
			b.ReportMetric(float64(info.Size())/(1<<20), "MiB-file")
		})
	}
}
