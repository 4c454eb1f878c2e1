package native

import (
	"context"
	"encoding/json"
	"sync"
	"testing"

	"github.com/hermesd/hermesd/agentpool/native/llm"
	"github.com/hermesd/hermesd/agentpool/native/mcp"
	"github.com/hermesd/hermesd/daemon/session"
)

// Forms of one call that stand before the user at once are cards of their own,
// each with an id that no other has.
func TestFormsThatAreOpenAtOnceAreCardsOfTheirOwn(t *testing.T) {
	const forms = 9
	w := newWorld(t, Config{})
	var open sync.WaitGroup
	open.Add(forms)
	w.fill = func(context.Context, session.Form) (session.Filled, error) {
		open.Done()
		open.Wait()
		return session.Filled{}, session.ErrNoEditor
	}
	w.answer = choose("choice_1")
	turn := &turn{Agent: w.agent, seq: 1}
	asker := turn.asker(&call{ToolCall: llm.ToolCall{ID: "c"}})
	var asking sync.WaitGroup
	for range forms {
		asking.Go(func() {
			action, content := asker(t.Context(), mcp.Form{Server: "a", Message: "Sure?", Schema: json.RawMessage(`{"properties":{"sure":{"type":"boolean"}}}`)})
			if action != "accept" || content["sure"] != true {
				t.Errorf("%s %v", action, content)
			}
		})
	}
	asking.Wait()
	ids := map[any]bool{}
	for _, c := range w.updates("tool_call") {
		ids[c["toolCallId"]] = true
	}
	if len(ids) != forms {
		t.Errorf("the cards are %v", ids)
	}
	w.noOpenCalls()
}
