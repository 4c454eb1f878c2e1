package jsonrpc

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"runtime"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

func TestUpdatesComeBeforeTheResponseAndInOrder(t *testing.T) {
	const turns, updates = 500, 20
	var agent *Peer
	seen := 0
	agent, editor := Pipe(Options{
		Admit: func(r *Request) Handler {
			return func(context.Context) (any, error) {
				for i := range updates {
					if err := agent.Enqueue(Notification("session/update", fmt.Append(nil, i))); err != nil {
						t.Error(err)
					}
				}
				return map[string]string{"stopReason": "end_turn"}, nil
			}
		},
	}, Options{
		Notify: func(_ string, params json.RawMessage, _ uint64) {
			if want := fmt.Sprint(seen % updates); string(params) != want {
				t.Errorf("update %s, want %s", params, want)
			}
			seen++ // read after Call has returned, which comes after
		},
	})
	closing(t, agent, editor)
	for k := range turns {
		if _, err := editor.Call(t.Context(), fmt.Sprint(k), "session/prompt", nil); err != nil {
			t.Fatal(err)
		}
		if seen != updates*(k+1) {
			t.Fatalf("turn %d was answered after %d updates", k, seen)
		}
	}
}

func TestRequestsAndNotificationsAreAdmittedInTheOrderOfTheLines(t *testing.T) {
	var told record
	o := told.watch(Options{MaxInFlight: 1000})
	o.Admit = func(r *Request) Handler {
		told.add("admit " + string(r.ID))
		return echo(r)
	}
	w := dial(t, o)
	var text strings.Builder
	var want []string
	for i := range 1000 {
		fmt.Fprintf(&text, `{"id":%d,"method":"session/prompt"}`+"\n"+`{"method":"session/cancel","params":%d}`+"\n"+`{"id":"p%d","result":%d}`+"\n", i, i, i, i)
		want = append(want, fmt.Sprintf("admit %d", i), fmt.Sprintf("notify session/cancel %d", i), fmt.Sprintf(`unclaimed "p%d" %d`, i, i))
	}
	go func() {
		io.WriteString(w.to, text.String())
		w.to.Close()
	}()
	for range 1000 {
		w.line()
	}
	wait(t, "the end of the input", w.peer.EOF())
	if got := told.all(); !slices.Equal(got, want) {
		t.Errorf("got %q", got)
	}
}

func TestWhatIsEnqueuedAfterSentIsWrittenAfterTheResponse(t *testing.T) {
	var w *wire
	reqs := make(chan *Request, 1)
	w = dial(t, Options{Admit: func(r *Request) Handler {
		reqs <- r
		if r.Method == "unknown" {
			return nil
		}
		return echo(r)
	}})
	for i, method := range slices.Repeat([]string{"m", "unknown"}, 200) {
		go w.send(fmt.Sprintf(`{"id":%d,"method":%q}`+"\n", i, method))
		r := wait(t, "the request", reqs)
		wait(t, "the response", r.Sent())
		w.peer.Enqueue(Notification("after", nil))
		if s := w.line(); !strings.HasPrefix(s, fmt.Sprintf(`{"jsonrpc":"2.0","id":%d,`, i)) {
			t.Fatalf("got %s first", s)
		}
		w.want(`{"jsonrpc":"2.0","method":"after"}`)
	}
}

// The id is free before the response can be seen, and the response is on the
// queue before Sent says so. Holding the queue's lock stops the handler's
// goroutine between the two.
func TestIDIsFreedThenTheResponseQueuedThenSentClosed(t *testing.T) {
	reqs := make(chan *Request, 1)
	release := make(chan struct{})
	w := dial(t, Options{Admit: func(r *Request) Handler {
		reqs <- r
		return func(context.Context) (any, error) { <-release; return nil, nil }
	}})
	w.send(`{"id":1,"method":"m"}` + "\n")
	r := wait(t, "the request", reqs)
	p := w.peer
	p.queue.mu.Lock()
	close(release)
	free := func() bool {
		p.requests.mu.Lock()
		defer p.requests.mu.Unlock()
		return len(p.requests.bySeq) == 0
	}
	for end := time.Now().Add(deadline); !free() && time.Now().Before(end); {
		runtime.Gosched()
	}
	freed, sent := free(), false
	for range 1000 { // a wrong order may need a moment to show
		runtime.Gosched()
	}
	select {
	case <-r.Sent():
		sent = true
	default:
	}
	p.queue.mu.Unlock()
	if !freed || sent {
		t.Errorf("before the response was queued: id free: %v, sent: %v", freed, sent)
	}
	wait(t, "the response", r.Sent())
	w.want(`{"jsonrpc":"2.0","id":1,"result":null}`)
}

func TestSentIsClosedWhenThePeerCloses(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var r *Request
		release := make(chan struct{})
		a, b := Pipe(Options{Admit: func(q *Request) Handler {
			r = q
			return func(ctx context.Context) (any, error) { <-release; return nil, nil }
		}}, Options{})
		b.Enqueue(RequestLine("1", "m", nil))
		synctest.Wait()
		select {
		case <-r.Sent():
			t.Error("sent before there is a response")
		default:
		}
		a.Close(nil)
		<-r.Sent()
		close(release)
		b.Close(nil)
		a.Wait()
		b.Wait()
	})
}

func TestResultsReachTheWireVerbatim(t *testing.T) {
	for result, want := range map[string]string{
		`{"html":"<a href='x'>&amp;</a>","n":12345678901234567890.10,"u":"\u003c"}`: "",
		` { "b" : 1 , "a" : 2, "a" : 3 } `:                                          "",
		"{\n  \"pretty\": \"a\\nb\",\r\n\t\"x\": [1,\n2]\n}":                        "{   \"pretty\": \"a\\nb\",  \t\"x\": [1, 2] }",
		"":     "null",
		"null": "",
		"true": "",
	} {
		if want == "" {
			want = result
		}
		w := dial(t, Options{Admit: func(*Request) Handler {
			return func(context.Context) (any, error) { return json.RawMessage(result), nil }
		}})
		w.send(`{"id":1,"method":"m"}` + "\n")
		w.want(`{"jsonrpc":"2.0","id":1,"result":` + want + `}`)
	}
}

type panics struct{}

func (panics) MarshalJSON() ([]byte, error) { panic("in MarshalJSON") }

func TestAnswersOfHandlers(t *testing.T) {
	const failed = `"error":{"code":-32603,"message":"Internal error`
	tests := []struct {
		rule    string
		handler Handler // nil: not admitted
		want    string
	}{
		{"nil is null", func(context.Context) (any, error) { return nil, nil }, `"result":null}`},
		{"values are encoded without escapes for HTML", func(context.Context) (any, error) {
			return map[string]any{"a": "<&>", "raw": json.RawMessage(`{"b":"<", "n":1e400}`)}, nil
		}, `"result":{"a":"<&>","raw":{"b":"<","n":1e400}}}`},
		{"an unknown method", nil, `"error":{"code":-32601,"message":"Method not found: x/\"y\""}}`},
		{"an error as it is", func(context.Context) (any, error) {
			return nil, &Error{Code: -32002, Message: "no <such> session", Data: json.RawMessage(`{"sessionId":"a<b"}`)}
		}, `"error":{"code":-32002,"message":"no <such> session","data":{"sessionId":"a<b"}}}`},
		{"an error out of a wrapping one", func(context.Context) (any, error) {
			return nil, fmt.Errorf("loading: %w", &Error{Code: 7, Message: ""})
		}, `"error":{"code":7,"message":""}}`},
		{"broken data is left out", func(context.Context) (any, error) {
			return nil, &Error{Code: 7, Message: "m", Data: json.RawMessage(`{`)}
		}, `"error":{"code":7,"message":"m"}}`},
		{"any other error is internal", func(context.Context) (any, error) { return nil, errors.New("disk \"full\"\n") }, failed + `: disk \"full\"\n"}}`},
		{"a cancelled context", func(context.Context) (any, error) { return nil, fmt.Errorf("x: %w", context.Canceled) }, `"error":{"code":-32800,"message":"Request cancelled"}}`},
		{"a deadline is not a cancel", func(context.Context) (any, error) { return nil, context.DeadlineExceeded }, failed + `: context deadline exceeded"}}`},
		{"a panic", func(context.Context) (any, error) { panic("secret") }, failed + `"}}`},
		{"a panic of an encoder", func(context.Context) (any, error) { return panics{}, nil }, failed + `"}}`},
		{"no encoding", func(context.Context) (any, error) { return make(chan int), nil }, failed + `: encoding the result: json: unsupported type: chan int"}}`},
		{"broken raw JSON", func(context.Context) (any, error) { return json.RawMessage(`{"a":`), nil }, failed + `: encoding the result: unexpected end of JSON at byte 5 of raw JSON"}}`},
	}
	for _, tt := range tests {
		t.Run(tt.rule, func(t *testing.T) {
			panicked := ""
			w := dial(t, Options{
				Admit: func(*Request) Handler { return tt.handler },
				Panicked: func(method string, v any, stack []byte) {
					panicked = fmt.Sprint(method, " ", v, " ", strings.Contains(string(stack), "TestAnswersOfHandlers") || strings.Contains(string(stack), "MarshalJSON"))
				},
			})
			for range 2 { // the id is free again
				w.send(`{"id":1,"method":"x/\"y\""}` + "\n")
				w.want(`{"jsonrpc":"2.0","id":1,` + tt.want)
			}
			if isPanic := strings.HasPrefix(tt.rule, "a panic"); isPanic != strings.HasSuffix(panicked, " true") {
				t.Errorf("panic reported: %q", panicked)
			}
		})
	}
}

func TestUnknownMethodWithALongNameIsAnsweredShortly(t *testing.T) {
	w := dial(t, Options{})
	w.send(`{"id":1,"method":"` + strings.Repeat("é", 50_000) + `"}` + "\n")
	if s := w.line(); len(s) > 400 || !strings.Contains(s, "ééé…") {
		t.Errorf("%d bytes: %.500s", len(s), s)
	}
}

func TestDuplicateIDInFlightIsRefusedAndTheFirstUnharmed(t *testing.T) {
	release := make(chan struct{})
	admitted := 0
	w := dial(t, Options{Admit: func(r *Request) Handler {
		admitted++
		return func(context.Context) (any, error) { <-release; return r.Params, nil }
	}})
	w.send(`{"id":6,"method":"m","params":1}` + "\n" + `{"id":6,"method":"m","params":2}` + "\n")
	w.want(`{"jsonrpc":"2.0","id":6,"error":{"code":-32600,"message":"Invalid request: a request with this id is in flight"}}`)
	w.send(`{"id":"a","method":"m","params":3}` + "\n" + `{"id":"\u0061","method":"m","params":4}` + "\n")
	w.want(`{"jsonrpc":"2.0","id":"\u0061","error":{"code":-32600,"message":"Invalid request: a request with this id is in flight"}}`)
	close(release)
	got := []string{w.line(), w.line()}
	slices.Sort(got)
	if want := []string{`{"jsonrpc":"2.0","id":"a","result":3}`, `{"jsonrpc":"2.0","id":6,"result":1}`}; !slices.Equal(got, want) {
		t.Errorf("got %q", got)
	}
	w.send(`{"id":6,"method":"m","params":5}` + "\n") // answered, so free
	w.want(`{"jsonrpc":"2.0","id":6,"result":5}`)
	if admitted != 3 {
		t.Errorf("%d requests admitted", admitted)
	}
}

func TestTooManyRequestsAreRefusedAndReadingGoesOn(t *testing.T) {
	release := make(chan struct{})
	var told record
	o := told.watch(Options{MaxInFlight: 3})
	o.Admit = func(r *Request) Handler {
		return func(context.Context) (any, error) { <-release; return r.Params, nil }
	}
	w := dial(t, o)
	w.send(`{"id":1,"method":"m"}` + "\n" + `{"id":2,"method":"m"}` + "\n" + `{"id":null,"method":"m"}` + "\n" + `{"id":4,"method":"m"}` + "\n" + `{"method":"cancel"}` + "\n" + `{"id":5,"method":"m"}` + "\n")
	for _, id := range []string{"4", "5"} {
		w.want(`{"jsonrpc":"2.0","id":` + id + `,"error":{"code":-33100,"message":"too many requests in flight (3): wait for answers before you send more"}}`)
	}
	if got := told.all(); !slices.Equal(got, []string{"notify cancel "}) {
		t.Errorf("told %q", got)
	}
	close(release)
	for range 3 {
		w.line()
	}
	w.send(`{"id":4,"method":"m"}` + "\n")
	w.want(`{"jsonrpc":"2.0","id":4,"result":null}`)
}

func TestCancelRequestCancelsOneHandler(t *testing.T) {
	started := make(chan string)
	w := dial(t, Options{Admit: func(r *Request) Handler {
		return func(ctx context.Context) (any, error) {
			started <- string(r.ID)
			<-ctx.Done()
			if r.Method == "soft" {
				return "partial", nil
			}
			return nil, ctx.Err()
		}
	}})
	for _, id := range []string{`7`, `"7"`, `"a\/b"`} {
		w.send(`{"id":` + id + `,"method":"m"}` + "\n")
		wait(t, "the handler", started)
	}
	for _, id := range []string{`7.0`, `8`, `null`, ``, `"x"`, `"`, `"\"`} {
		if w.peer.CancelRequest(json.RawMessage(id)) {
			t.Errorf("%s: cancelled something", id)
		}
	}
	for id, as := range map[string]string{`7`: " 7 ", `"7"`: `"7"`, `"a\/b"`: `"a/b"`} {
		if !w.peer.CancelRequest(json.RawMessage(as)) {
			t.Errorf("%s is not in flight", id)
		}
		w.want(`{"jsonrpc":"2.0","id":` + id + `,"error":{"code":-32800,"message":"Request cancelled"}}`)
		if w.peer.CancelRequest(json.RawMessage(as)) {
			t.Errorf("%s is still in flight", id)
		}
	}
	w.send(`{"id":7,"method":"soft"}` + "\n")
	wait(t, "the handler", started)
	w.peer.CancelRequest(json.RawMessage("7"))
	w.want(`{"jsonrpc":"2.0","id":7,"result":"partial"}`)
}

func TestEveryAdmittedHandlerRunsOnce(t *testing.T) {
	for _, how := range []string{"cancelled", "closed"} {
		t.Run(how, func(t *testing.T) {
			var p *Peer
			runs := make(chan string, 400)
			in, to := io.Pipe()
			n := 0
			p = New(in, discard{}, Options{Admit: func(r *Request) Handler {
				n++
				p.CancelRequest(r.ID)
				if how == "closed" && n == 100 {
					p.Close(nil)
				}
				return func(ctx context.Context) (any, error) {
					runs <- string(r.ID)
					<-ctx.Done()
					return nil, ctx.Err()
				}
			}})
			p.Start()
			for i := range 200 {
				fmt.Fprintf(to, `{"id":%d,"method":"m"}`+"\n", i)
			}
			to.Close()
			p.Wait()
			close(runs)
			seen := map[string]int{}
			for id := range runs {
				seen[id]++
			}
			if len(seen) != n {
				t.Errorf("%d admitted, %d run", n, len(seen))
			}
			for id, k := range seen {
				if k != 1 {
					t.Errorf("%s ran %d times", id, k)
				}
			}
		})
	}
}

type discard struct{}

func (discard) Write(b []byte) (int, error) { return len(b), nil }
func (discard) Close() error                { return nil }

func TestEndOfInputLeavesRequestsInFlightAlone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		release := make(chan struct{})
		var ctx context.Context
		w := dial(t, Options{Admit: func(r *Request) Handler {
			return func(c context.Context) (any, error) {
				ctx = c
				<-release
				return "done", c.Err()
			}
		}})
		w.send(`{"id":1,"method":"m"}`)
		w.to.Close()
		<-w.peer.EOF()
		synctest.Wait()
		if ctx.Err() != nil || w.peer.Err() != nil {
			t.Errorf("after the input's end: handler %v, peer %v", ctx.Err(), w.peer.Err())
		}
		w.peer.Enqueue(Notification("late", nil))
		close(release)
		w.want(`{"jsonrpc":"2.0","method":"late"}`, `{"jsonrpc":"2.0","id":1,"result":"done"}`)
		if err := w.peer.Wait(); err != io.EOF {
			t.Errorf("ended with %v", err)
		}
		if ctx.Err() == nil {
			t.Error("the handler's context outlives the peer")
		}
	})
}

func TestCloseCancelsHandlersAndWaitWaitsForThem(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ended := false
		release := make(chan struct{})
		a, b := Pipe(Options{Admit: func(r *Request) Handler {
			return func(ctx context.Context) (any, error) {
				<-ctx.Done()
				<-release
				ended = true
				return nil, ctx.Err()
			}
		}}, Options{})
		b.Enqueue(RequestLine("1", "m", nil))
		synctest.Wait()
		reason := errors.New("reason")
		a.Close(reason)
		a.Close(errors.New("another"))
		<-a.Done()
		waited := make(chan struct{})
		go func() {
			defer close(waited)
			if err := a.Wait(); err != reason || !ended {
				t.Errorf("waited for %v, handler ended: %v", err, ended)
			}
		}()
		synctest.Wait()
		select {
		case <-waited:
			t.Error("Wait did not wait for the handler")
		default:
		}
		close(release)
		<-waited
		if err := a.Enqueue([]byte("x\n")); err != reason {
			t.Errorf("Enqueue after Close: %v", err)
		}
		if err := b.Wait(); err != io.EOF {
			t.Errorf("the other side ended with %v", err)
		}
	})
}

func TestNothingIsToldAfterClose(t *testing.T) {
	var told record
	var p *Peer
	in, to := io.Pipe()
	p = New(in, discard{}, Options{Notify: func(method string, _ json.RawMessage, _ uint64) {
		told.add(method)
		if method == "b" {
			p.Close(nil)
		}
	}})
	p.Start()
	io.WriteString(to, `{"method":"a"}`+"\n"+`{"method":"b"}`+"\n"+`{"method":"c"}`+"\n")
	p.Wait()
	if got := told.all(); !slices.Equal(got, []string{"a", "b"}) {
		t.Errorf("told %q", got)
	}
}

func TestAnsweredRequestsLeaveNothingBehind(t *testing.T) {
	var ctx context.Context
	w := dial(t, Options{Admit: func(*Request) Handler {
		return func(c context.Context) (any, error) { ctx = c; return nil, nil }
	}})
	for _, method := range []string{"a", "b"} {
		w.send(`{"id":1,"method":"` + method + `"}` + "\n")
		w.line()
		wait(t, "the end of the handler's context", ctx.Done())
	}
	w.rest()
	w.peer.Wait()
	if n := len(w.peer.requests.bySeq) + len(w.peer.requests.byKey) + len(w.peer.calls.pending); n != 0 {
		t.Errorf("%d entries left", n)
	}
}

func TestCloseBeforeStart(t *testing.T) {
	in, _ := io.Pipe()
	p := New(in, discard{}, Options{})
	p.Enqueue([]byte("x\n"))
	p.Close(nil)
	p.Start()
	if err := p.Wait(); err != ErrClosed {
		t.Errorf("got %v", err)
	}
}

func TestReadErrorCloses(t *testing.T) {
	w := dial(t, Options{})
	boom := errors.New("boom")
	w.to.CloseWithError(boom)
	if err := w.peer.Wait(); !errors.Is(err, boom) {
		t.Errorf("got %v", err)
	}
}

func TestWriteErrorCloses(t *testing.T) {
	w := dial(t, Options{})
	boom := errors.New("boom")
	w.out.CloseWithError(boom)
	w.peer.Enqueue([]byte("x\n"))
	if err := w.peer.Wait(); !errors.Is(err, boom) {
		t.Errorf("got %v", err)
	}
}

// Two peers must not complain at each other for ever.
func TestGarbageDoesNotBounce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var ta, tb record
		a, b := Pipe(ta.watch(Options{AnswerGarbage: true}), tb.watch(Options{AnswerGarbage: true}))
		a.Enqueue([]byte("garbage\n[]\n"))
		synctest.Wait()
		if na, nb := len(ta.all()), len(tb.all()); na != 2 || nb != 2 {
			t.Errorf("told %d and %d times", na, nb)
		}
		a.Close(nil)
		a.Wait()
		b.Wait()
	})
}
