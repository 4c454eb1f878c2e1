package jsonrpc

import (
	"context"
	"encoding/json"
	"fmt"
	"testing"
)

// closing closes both peers at the end of the test and waits for them.
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

func TestUpdatesComeBeforeTheResponseAndInOrder(t *testing.T) {
	const turns, updates = 500, 20
	var server *Peer
	server, client := Pipe(Options{
		Admit: func(r *Request) Handler {
			return func(context.Context) (any, error) {
				for i := range updates {
					server.Enqueue(Notification("session/update", fmt.Appendf(nil, "%d", i)))
				}
				return map[string]string{"stopReason": "end_turn"}, nil
			}
		},
	}, Options{})
	client.Close(nil)
	closing(t, server, client)

	seen := 0
	a, b := Pipe(server.o, Options{
		Notify: func(method string, params json.RawMessage, _ uint64) {
			if want := fmt.Sprint(seen % updates); string(params) != want {
				t.Errorf("update %s, want %s", params, want)
			}
			seen++
		},
	})
	server = a
	closing(t, a, b)
	for k := range turns {
		if _, err := b.Call(context.Background(), fmt.Sprint(k), "session/prompt", nil); err != nil {
			t.Fatal(err)
		}
		if seen != updates*(k+1) {
			t.Fatalf("turn %d answered after %d updates", k, seen)
		}
	}
}
