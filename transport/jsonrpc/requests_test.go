package jsonrpc

import (
	"sync"
	"testing"
)

// Whoever waits for Sent is never left behind, wherever between the end of the
// handler and the response on the queue the peer closes.
func TestSentIsClosedWheneverThePeerCloses(t *testing.T) {
	for _, order := range []struct {
		name  string
		steps []string
	}{
		{"before the request", []string{"close", "add", "remove", "sent"}},
		{"while it runs", []string{"add", "close", "remove", "sent"}},
		{"between its id and its response", []string{"add", "remove", "close", "sent"}},
		{"after its response", []string{"add", "remove", "sent", "close"}},
	} {
		t.Run(order.name, func(t *testing.T) {
			table := requests{max: 1}
			in := &inbound{Request: &Request{sent: make(chan struct{})}, key: "1"}
			for _, step := range order.steps {
				switch step {
				case "add":
					if e := table.add(in); e != nil {
						t.Fatal(e)
					}
				case "remove":
					table.remove(in)
				case "sent":
					in.markSent()
				case "close":
					table.close()
				}
			}
			select {
			case <-in.Sent():
			default:
				t.Error("Sent stays open")
			}
		})
	}
}

func TestSentIsClosedOnceByManyAtTheSameTime(t *testing.T) {
	for range 200 {
		table := requests{max: 1}
		in := &inbound{Request: &Request{sent: make(chan struct{})}, key: "1"}
		if e := table.add(in); e != nil {
			t.Fatal(e)
		}
		var all sync.WaitGroup
		all.Go(table.close)
		all.Go(func() { table.remove(in); in.markSent() })
		all.Wait()
		<-in.Sent()
	}
}
