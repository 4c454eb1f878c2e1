package jsonrpc

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
)

func TestCallSendsStringIDAndReturnsRawResult(t *testing.T) {
	w := dial(t, Options{})
	type outcome struct {
		result json.RawMessage
		err    error
	}
	call := func(id string, params any) chan outcome {
		c := make(chan outcome, 1)
		go func() {
			r, err := w.peer.Call(t.Context(), id, "fs/read", params)
			c <- outcome{r, err}
		}()
		return c
	}
	tests := []struct {
		id      string
		params  any
		request string
		answer  string
		result  string
		err     *Error
	}{
		{"s1/7", nil, `{"jsonrpc":"2.0","id":"s1/7","method":"fs/read"}`, `{"id":"s1\/7","result": {"a":"<"} }`, `{"a":"<"}`, nil},
		{"q\"<é", json.RawMessage("{\"a\":\n\"<&>\", \"n\":1e400}"), `{"jsonrpc":"2.0","id":"q\"<é","method":"fs/read","params":{"a": "<&>", "n":1e400}}`, `{"id":"q\"\u003cé","result":null}`, `null`, nil},
		{"3", map[string]string{"x": "<&>"}, `{"jsonrpc":"2.0","id":"3","method":"fs/read","params":{"x":"<&>"}}`, `{"id":"3","error":{"code":-32601,"message":"no","data":[1]}}`, ``, &Error{Code: -32601, Message: "no", Data: json.RawMessage("[1]")}},
		{"4", nil, `{"jsonrpc":"2.0","id":"4","method":"fs/read"}`, `{"id":"4","error":{"message":"odd"}}`, ``, &Error{Code: -32603, Message: "odd", Data: json.RawMessage(`{"message":"odd"}`)}},
		{"5", nil, `{"jsonrpc":"2.0","id":"5","method":"fs/read"}`, `{"id":"5","error":null}`, ``, &Error{Code: -32603, Message: "The answer carries a malformed error", Data: json.RawMessage(`null`)}},
		{"6", nil, `{"jsonrpc":"2.0","id":"6","method":"fs/read"}`, `{"id":"6","error":{"code":5}}`, ``, &Error{Code: 5}},
	}
	for _, tt := range tests {
		c := call(tt.id, tt.params)
		w.want(tt.request)
		w.send(tt.answer + "\n")
		got := wait(t, "the answer", c)
		if string(got.result) != tt.result {
			t.Errorf("%s: result %s", tt.id, got.result)
		}
		e, ok := errors.AsType[*Error](got.err)
		if tt.err == nil && got.err != nil || tt.err != nil && (!ok || e.Code != tt.err.Code || e.Message != tt.err.Message || string(e.Data) != string(tt.err.Data)) {
			t.Errorf("%s: error %#v", tt.id, got.err)
		}
	}
}

func TestCallRefusesWhatItCannotSend(t *testing.T) {
	w := dial(t, Options{})
	if _, err := w.peer.Call(t.Context(), "1", "m", json.RawMessage(`{`)); err == nil {
		t.Error("broken params were sent")
	}
	ended, end := context.WithCancel(t.Context())
	end()
	if _, err := w.peer.Call(ended, "1", "m", nil); err != context.Canceled {
		t.Errorf("context over before: %v", err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	first := make(chan error, 1)
	go func() {
		_, err := w.peer.Call(ctx, "1", "m", nil)
		first <- err
	}()
	w.line()
	if _, err := w.peer.Call(t.Context(), "1", "m", nil); !errors.Is(err, ErrDuplicateID) {
		t.Errorf("same id again: %v", err)
	}
	cancel()
	w.line()
	wait(t, "the first call", first)
}

func TestCancelledCallTellsTheOtherSideAndLateAnswersAreUnclaimed(t *testing.T) {
	var told record
	w := dial(t, told.watch(Options{Admit: echo}))
	ctx, cancel := context.WithCancel(t.Context())
	c := make(chan error, 1)
	go func() {
		_, err := w.peer.Call(ctx, "s<1>", "session/request_permission", nil)
		c <- err
	}()
	w.want(`{"jsonrpc":"2.0","id":"s<1>","method":"session/request_permission"}`)
	cancel()
	w.want(`{"jsonrpc":"2.0","method":"$/cancel_request","params":{"requestId":"s<1>"}}`)
	if err := wait(t, "the call", c); err != context.Canceled {
		t.Errorf("got %v", err)
	}
	w.send(`{"id":"s<1>","result":{"outcome":"cancelled"}}` + "\n" + `{"id":"s<1>","result":2}` + "\n" + `{"id":1,"method":"m"}` + "\n")
	w.want(`{"jsonrpc":"2.0","id":1,"result":null}`) // and no answer to the answers
	if got, want := told.all(), []string{`unclaimed "s<1>" {"outcome":"cancelled"}`, `unclaimed "s<1>" 2`}; !slices.Equal(got, want) {
		t.Errorf("told %q", got)
	}
}

func TestCallEndsWithTheConnection(t *testing.T) {
	for how, end := range map[string]func(w *wire){
		"closed":       func(w *wire) { w.peer.Close(errors.New("closed by the test")) },
		"end of input": func(w *wire) { w.to.Close() },
		"end of input while a request is in flight": func(w *wire) {
			w.send(`{"id":1,"method":"m"}`)
			w.to.Close()
		},
	} {
		t.Run(how, func(t *testing.T) {
			release := make(chan struct{})
			w := dial(t, Options{Admit: func(*Request) Handler {
				return func(context.Context) (any, error) { <-release; return nil, nil }
			}})
			c := make(chan error, 1)
			go func() {
				_, err := w.peer.Call(context.Background(), "1", "m", nil)
				c <- err
			}()
			w.line()
			end(w)
			err := wait(t, "the call", c)
			if err == nil || errors.Is(err, io.EOF) {
				t.Errorf("got %v", err)
			}
			close(release)
			io.Copy(io.Discard, w.from)
			w.peer.Wait()
			if _, again := w.peer.Call(context.Background(), "2", "m", nil); again == nil {
				t.Error("a call after the end was taken")
			}
		})
	}
}

func TestAnswerThatCameBeforeTheEndCounts(t *testing.T) {
	for range 100 {
		w := dial(t, Options{})
		c := make(chan error, 1)
		go func() {
			_, err := w.peer.Call(context.Background(), "1", "m", nil)
			c <- err
		}()
		w.line()
		w.send(`{"id":"1","result":1}` + "\n")
		w.to.Close()
		if err := wait(t, "the call", c); err != nil {
			t.Fatal(err)
		}
	}
}

func TestBothSidesMayUseTheSameIDsAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a, b := Pipe(Options{Admit: echo}, Options{Admit: echo})
		var all sync.WaitGroup
		for i := range 100 {
			for _, p := range []*Peer{a, b} {
				all.Go(func() {
					r, err := p.Call(t.Context(), fmt.Sprint(i), "m", i)
					if err != nil || string(r) != fmt.Sprint(i) {
						t.Errorf("call %d: %s, %v", i, r, err)
					}
				})
			}
		}
		all.Wait()
		a.Close(nil)
		a.Wait()
		b.Wait()
	})
}
