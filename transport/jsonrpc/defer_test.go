package jsonrpc

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"sync"
	"testing"
)

// deferring hands every request to later instead of giving it a handler.
func deferring(cancelled func(*Request)) (Options, chan *Request) {
	later := make(chan *Request, 1000)
	return Options{Admit: func(r *Request) Handler {
		r.Defer(func() { cancelled(r) })
		later <- r
		return nil
	}}, later
}

func TestADeferredRequestIsAnsweredInOrderWithWhatIsEnqueued(t *testing.T) {
	o, later := deferring(func(*Request) {})
	w := dial(t, o)
	w.send(`{"id":1,"method":"a"}` + "\n" + `{"id":"two","method":"b"}` + "\n")
	one, two := wait(t, "the request", later), wait(t, "the request", later)
	_ = w.peer.Enqueue([]byte("\"before\"\n"))
	w.peer.Answer(two, map[string]int{"n": 2}, nil)
	select {
	case <-two.Sent():
	default:
		t.Error("Answer has returned, the response is not on the queue")
	}
	_ = w.peer.Enqueue([]byte("\"between\"\n"))
	w.peer.Answer(one, nil, &Error{Code: 5, Message: "no"})
	w.peer.Answer(one, "again", nil) // only the first counts
	_ = w.peer.Enqueue([]byte("\"after\"\n"))
	w.want(`"before"`, `{"jsonrpc":"2.0","id":"two","result":{"n":2}}`, `"between"`, `{"jsonrpc":"2.0","id":1,"error":{"code":5,"message":"no"}}`, `"after"`)
}

func TestADeferredRequestCountsAsInFlight(t *testing.T) {
	o, later := deferring(func(*Request) {})
	o.MaxInFlight = 1
	w := dial(t, o)
	w.send(`{"id":1,"method":"a"}` + "\n" + `{"id":1,"method":"a"}` + "\n" + `{"id":2,"method":"a"}` + "\n")
	w.want(`{"jsonrpc":"2.0","id":1,"error":{"code":-32600,"message":"Invalid request: a request with this id is in flight"}}`,
		`{"jsonrpc":"2.0","id":2,"error":{"code":-33100,"message":"too many requests in flight (1): wait for answers before you send more"}}`)
	w.peer.Answer(wait(t, "the request", later), "x", nil)
	w.want(`{"jsonrpc":"2.0","id":1,"result":"x"}`)
	w.send(`{"id":1,"method":"a"}` + "\n")
	w.peer.Answer(wait(t, "the request", later), "y", nil)
	w.want(`{"jsonrpc":"2.0","id":1,"result":"y"}`)
}

func TestCancelRequestTellsWhoDeferred(t *testing.T) {
	var w *wire
	o, later := deferring(func(r *Request) { w.peer.Answer(r, nil, context.Canceled) })
	w = dial(t, o)
	w.send(`{"id":7,"method":"a"}` + "\n")
	r := wait(t, "the request", later)
	if !w.peer.CancelRequest(json.RawMessage("7")) {
		t.Error("it is not in flight")
	}
	w.want(`{"jsonrpc":"2.0","id":7,"error":{"code":-32800,"message":"Request cancelled"}}`)
	w.peer.Answer(r, "late", nil)
	if w.peer.CancelRequest(json.RawMessage("7")) {
		t.Error("it is still in flight")
	}
	_ = w.peer.Enqueue([]byte("\"end\"\n"))
	w.want(`"end"`)
}

// A cancel that comes while Admit runs is not lost.
func TestACancelDuringAdmitIsKept(t *testing.T) {
	for _, deferred := range []bool{true, false} {
		t.Run(fmt.Sprintf("deferred %v", deferred), func(t *testing.T) {
			var p *Peer
			in, out := io.Pipe()
			p = New(in, discard{}, Options{Admit: func(r *Request) Handler {
				p.CancelRequest(r.ID)
				if deferred {
					r.Defer(func() { p.Answer(r, nil, context.Canceled) })
					return nil
				}
				return func(ctx context.Context) (any, error) { return nil, ctx.Err() }
			}})
			p.Start()
			_, _ = out.Write([]byte(`{"id":1,"method":"a"}` + "\n"))
			_ = out.Close()
			// The peer ends by itself once nothing is in flight.
			if err := p.Wait(); !errors.Is(err, io.EOF) {
				t.Error(err)
			}
		})
	}
}

// Neither an answer that never comes nor one that comes too late keeps a peer
// from ending.
func TestClosingEndsDeferredRequests(t *testing.T) {
	for range 100 {
		o, later := deferring(func(*Request) {})
		in, out := io.Pipe()
		p := New(in, discard{}, o)
		p.Start()
		var all sync.WaitGroup
		all.Go(func() {
			for i := range 3 {
				if _, err := fmt.Fprintf(out, "{\"id\":%d,\"method\":\"a\"}\n", i); err != nil {
					return
				}
			}
		})
		r := wait(t, "the request", later)
		all.Go(func() { p.Answer(r, "x", nil) })
		all.Go(func() { p.Close(nil) })
		_ = p.Wait()
		all.Wait()
		wait(t, "Sent", r.Sent())
		p.Answer(r, "y", nil)
	}
}

// At the end of the input a deferred request is still waited for.
func TestADeferredRequestOutlivesTheInput(t *testing.T) {
	o, later := deferring(func(*Request) {})
	w := dial(t, o)
	w.send(`{"id":1,"method":"a"}` + "\n")
	r := wait(t, "the request", later)
	_ = w.to.Close()
	wait(t, "the end of the input", w.peer.EOF())
	w.peer.Answer(r, "x", nil)
	w.want(`{"jsonrpc":"2.0","id":1,"result":"x"}`)
	if err := w.peer.Wait(); !errors.Is(err, io.EOF) {
		t.Error(err)
	}
}

// Whoever defers may know the answer at once.
func TestADeferredRequestIsAnsweredWhileItIsAdmitted(t *testing.T) {
	var w *wire
	w = dial(t, Options{Admit: func(r *Request) Handler {
		r.Defer(nil)
		w.peer.Answer(r, r.Method, nil)
		return nil
	}})
	w.send(`{"id":1,"method":"a"}` + "\n" + `{"id":1,"method":"b"}` + "\n")
	w.want(`{"jsonrpc":"2.0","id":1,"result":"a"}`, `{"jsonrpc":"2.0","id":1,"result":"b"}`)
	_ = w.to.Close()
	if err := w.peer.Wait(); !errors.Is(err, io.EOF) {
		t.Error(err)
	}
}
