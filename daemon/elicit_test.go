package daemon_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"sync"
	"testing"

	"github.com/hermesd/hermesd/daemon/daemontest"
	"github.com/hermesd/hermesd/daemon/session"
	"github.com/hermesd/hermesd/transport/acpclient"
)

// A form stands before the editor that prompted if that one has said that it
// knows forms, and before nobody else.
func TestAFormGoesToTheEditorThatPrompted(t *testing.T) {
	var said []string
	agent := &daemontest.Script{Turn: func(ctx context.Context, st *daemontest.Stage) (session.TurnResult, error) {
		f, err := st.Elicit(ctx, session.Form{ToolCall: "call_1", Message: "Which?", Schema: json.RawMessage(`{"type":"object","properties":{"answer":{"type":"string","enum":["a","b"]}},"required":["answer"]}`)})
		if errors.Is(err, session.ErrNoEditor) {
			said = append(said, "no editor")
		} else {
			said = append(said, fmt.Sprintf("%s %s %v", f.Outcome, f.Content, err))
		}
		return session.TurnResult{StopReason: "end_turn"}, nil
	}}
	r := newRoom(t, agent, nil)
	var mu sync.Mutex
	asked := map[string]json.RawMessage{}
	forms := func(name string) *acpclient.Client {
		return r.join(acpclient.Options{Name: name, Capabilities: json.RawMessage(`{"elicitation":{"form":{}}}`),
			Request: func(_ context.Context, method string, params json.RawMessage) (any, error) {
				mu.Lock()
				defer mu.Unlock()
				asked[name+" "+method] = params
				return map[string]any{"action": "accept", "content": map[string]string{"answer": "b"}}, nil
			}})
	}
	b := forms("b")
	forms("c")
	if got := stop(t, start(t, b, r.id, "x")); got != "end_turn" || len(said) != 1 || said[0] != `selected {"answer":"b"} <nil>` {
		t.Errorf("%s; the agent heard %q", got, said)
	}
	params, ok := asked["b elicitation/create"]
	if !ok || len(asked) != 1 {
		t.Fatalf("asked %s", asked)
	}
	// An editor without forms is not asked, and no other in its place.
	if got := stop(t, start(t, r.a, r.id, "x")); got != "end_turn" || len(said) != 2 || said[1] != "no editor" || len(asked) != 1 {
		t.Errorf("%s; the agent heard %q; asked %s", got, said, asked)
	}
	line, err := json.Marshal(map[string]any{"jsonrpc": "2.0", "id": "1", "method": "elicitation/create", "params": params})
	if err != nil {
		t.Fatal(err)
	}
	if err := daemontest.NeedSchemas(t).Tap().Received(line); err != nil {
		t.Error(err)
	}
}
