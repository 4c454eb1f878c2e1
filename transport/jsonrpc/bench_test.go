package jsonrpc

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"runtime"
	"strings"
	"sync"
	"testing"
)

// socketPeers returns two started peers on the ends of a Unix socket.
func socketPeers(b *testing.B, oa, ob Options) (*Peer, *Peer) {
	ca, cb := socketPair(b)
	pa, pb := New(ca, ca, oa), New(cb, cb, ob)
	pa.Start()
	pb.Start()
	closing(b, pa, pb)
	return pa, pb
}

func update(size int) json.RawMessage {
	const frame = `{"sessionId":"sess_0123456789abcdef","update":{"sessionUpdate":"agent_message_chunk","messageId":"m1","content":{"type":"text","text":""}}}`
	at := len(frame) - len(`"}}}`)
	fill := max(size-len(frame)-len(`{"jsonrpc":"2.0","method":"session/update","params":}`)-1, 1)
	return json.RawMessage(frame[:at] + strings.Repeat("some words, ", fill/12+1)[:fill] + frame[at:])
}

// BenchmarkNotifications sends encoded notifications one way through a Unix
// socket to the other peer's Notify. The time is that of both ends.
func BenchmarkNotifications(b *testing.B) {
	for _, size := range []int{300, 4300, 1_100_000} {
		b.Run(fmt.Sprint(size), func(b *testing.B) {
			n, done := 0, make(chan struct{})
			from, _ := socketPeers(b, Options{}, Options{Notify: func(string, json.RawMessage, uint64) {
				if n++; n == b.N {
					close(done)
				}
			}})
			line := Notification("session/update", update(size))
			b.SetBytes(int64(len(line)))
			b.ReportAllocs()
			b.ResetTimer()
			for range b.N {
				if err := from.Room(context.Background(), 1<<20); err != nil {
					b.Fatal(err)
				}
				from.Enqueue(line)
			}
			<-done
		})
	}
}

// BenchmarkBothWays is BenchmarkNotifications in both directions at once; one
// operation is one notification each way.
func BenchmarkBothWays(b *testing.B) {
	var all sync.WaitGroup
	counter := func() Options {
		n := 0
		all.Add(1)
		return Options{Notify: func(string, json.RawMessage, uint64) {
			if n++; n == b.N {
				all.Done()
			}
		}}
	}
	one, two := socketPeers(b, counter(), counter())
	line := Notification("session/update", update(300))
	b.ReportAllocs()
	b.ResetTimer()
	for _, p := range []*Peer{one, two} {
		go func() {
			for range b.N {
				if p.Room(context.Background(), 1<<20) != nil {
					return
				}
				p.Enqueue(line)
			}
		}()
	}
	all.Wait()
}

// BenchmarkFanOut sends one encoded line to eight connections.
func BenchmarkFanOut(b *testing.B) {
	const readers = 8
	var all sync.WaitGroup
	var peers []*Peer
	for range readers {
		n := 0
		all.Add(1)
		p, _ := socketPeers(b, Options{}, Options{Notify: func(string, json.RawMessage, uint64) {
			if n++; n == b.N {
				all.Done()
			}
		}})
		peers = append(peers, p)
	}
	line := Notification("session/update", update(300))
	b.ReportAllocs()
	b.ResetTimer()
	for range b.N {
		for _, p := range peers {
			p.Room(context.Background(), 1<<20)
			p.Enqueue(line)
		}
	}
	all.Wait()
}

// BenchmarkCall is the time from a request to its answer.
func BenchmarkCall(b *testing.B) {
	for _, size := range []int{140, 4300, 1_100_000} {
		b.Run(fmt.Sprint(size), func(b *testing.B) {
			p, _ := socketPeers(b, Options{}, Options{Admit: echo})
			params := update(size)
			b.ReportAllocs()
			b.ResetTimer()
			for i := range b.N {
				if _, err := p.Call(context.Background(), fmt.Sprint(i), "m", params); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

// BenchmarkClassify is the share of the reader's time that checks a line.
func BenchmarkClassify(b *testing.B) {
	for name, params := range map[string]json.RawMessage{
		"text-300":    update(300),
		"text-1M":     update(1_100_000),
		"structure":   json.RawMessage(`[` + strings.Repeat(`{"a":[1,2.5,true,null],"b":"c"},`, 100) + `0]`),
		"cjk":         json.RawMessage(`"` + strings.Repeat("日本語の文字", 100) + `"`),
		"escapes":     json.RawMessage(`"` + strings.Repeat(`line\n\tand \"quote\"`, 100) + `"`),
		"base64-like": json.RawMessage(`"` + strings.Repeat("QUJDREVGR0g", 10000) + `"`),
	} {
		b.Run(name, func(b *testing.B) {
			line := Notification("session/update", params)
			b.SetBytes(int64(len(line)))
			b.ReportAllocs()
			var s scanner
			for b.Loop() {
				if m := s.classify(line); m.kind != notification {
					b.Fatal(m.bad)
				}
			}
		})
	}
}

// BenchmarkIdle reports what a peer costs, without its connection, that has
// heard one thing and then nothing.
func BenchmarkIdle(b *testing.B) {
	const count = 500
	for _, tt := range []struct{ name, line string }{
		{"silent", ""},
		{"initialized", `{"id":0,"method":"initialize","params":{"protocolVersion":1}}` + "\n"},
	} {
		b.Run(tt.name, func(b *testing.B) {
			for range b.N {
				before := memory()
				goroutines := runtime.NumGoroutine()
				peers := make([]*Peer, count)
				for i := range peers {
					in := &once{text: tt.line, end: make(chan struct{})}
					p := New(in, discard{}, Options{Admit: echo})
					p.Start()
					for tt.line != "" {
						p.requests.mu.Lock()
						answered := p.requests.last == 1 && len(p.requests.bySeq) == 0
						p.requests.mu.Unlock()
						if answered && p.Drain(context.Background()) == nil {
							break
						}
						runtime.Gosched()
					}
					peers[i] = p
				}
				b.ReportMetric(float64(memory()-before)/count, "B/peer")
				b.ReportMetric(float64(runtime.NumGoroutine()-goroutines)/count, "goroutines/peer")
				for _, p := range peers {
					p.Close(nil)
					p.Wait()
				}
			}
		})
	}
}

// once is a reader of a text that then waits to be closed.
type once struct {
	text string
	end  chan struct{}
}

func (o *once) Read(b []byte) (int, error) {
	if o.text == "" {
		<-o.end
		return 0, io.ErrClosedPipe
	}
	n := copy(b, o.text)
	o.text = o.text[n:]
	return n, nil
}

func (o *once) Close() error { close(o.end); return nil }

// memory returns the bytes of heap and stacks in use.
func memory() uint64 {
	var m runtime.MemStats
	for range 3 { // pools are emptied in two steps
		runtime.GC()
	}
	runtime.ReadMemStats(&m)
	return m.HeapAlloc + m.StackInuse
}
