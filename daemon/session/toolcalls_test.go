package session

import (
	"fmt"
	"strings"
	"testing"
)

func openIDs(c *ToolCalls) string {
	var all []string
	for _, o := range c.open {
		all = append(all, o.id)
	}
	return strings.Join(all, " ")
}

func TestToolCallsAreOpenFromTheirBeginningToTheirEnd(t *testing.T) {
	var c ToolCalls
	for _, step := range []struct{ update, open string }{
		{`{"sessionUpdate":"tool_call","toolCallId":"a","title":"A"}`, "a"},
		{`{"sessionUpdate":"tool_call","toolCallId":"b","title":"B","status":"pending"}`, "a b"},
		{`{"sessionUpdate":"agent_message_chunk","toolCallId":"b","status":"failed"}`, "a b"},
		{`{"sessionUpdate":"tool_call_update","toolCallId":"a","status":"in_progress"}`, "a b"},
		{`{"sessionUpdate":"tool_call_update","toolCallId":"nobody","content":[]}`, "a b"},
		{`{"sessionUpdate":"tool_call_update","toolCallId":"c","title":"C","status":"in_progress"}`, "a b c"},
		{`{"sessionUpdate":"tool_call","title":"no id"}`, "a b c"},
		{`{"sessionUpdate":"tool_call_update","toolCallId":"b","status":"failed"}`, "a c"},
		{`{"sessionUpdate":"tool_call_update","toolCallId":"b","content":[]}`, "a c"},
		{`{"sessionUpdate":"tool_call","toolCallId":"d","title":"D","status":"completed"}`, "a c"},
		{`{"sessionUpdate":"tool_call_update","toolCallId":"a","status":"completed"}`, "c"},
	} {
		c.Apply([]byte(step.update))
		if got := openIDs(&c); got != step.open {
			t.Fatalf("after %s: %q is open, want %q", step.update, got, step.open)
		}
	}
	if got := string(c.Open()[0]); got != `{"sessionUpdate":"tool_call","toolCallId":"c","title":"C","status":"in_progress"}` {
		t.Errorf("got %s", got)
	}
	if got := string(c.Get("c")); got != string(c.Open()[0]) || c.Get("a") != nil {
		t.Errorf("got %s", got)
	}
}

func TestACopyOfToolCallsIsIndependent(t *testing.T) {
	var c ToolCalls
	c.Apply([]byte(`{"sessionUpdate":"tool_call","toolCallId":"a","title":"A"}`))
	c.Apply([]byte(`{"sessionUpdate":"tool_call","toolCallId":"b","title":"B"}`))
	c.Apply([]byte(`{"sessionUpdate":"tool_call","toolCallId":"c","title":"C"}`))
	d := c
	c.Apply([]byte(`{"sessionUpdate":"tool_call","toolCallId":"e","title":"E"}`))
	d.Apply([]byte(`{"sessionUpdate":"tool_call","toolCallId":"d","title":"D"}`))
	c.Apply([]byte(`{"sessionUpdate":"tool_call_update","toolCallId":"a","status":"failed"}`))
	d.Apply([]byte(`{"sessionUpdate":"tool_call_update","toolCallId":"b","title":"X"}`))
	if openIDs(&c) != "b c e" || openIDs(&d) != "a b c d" {
		t.Errorf("got %q and %q", openIDs(&c), openIDs(&d))
	}
	if !strings.Contains(string(c.Get("b")), `"B"`) {
		t.Errorf("got %s", c.Get("b"))
	}
}

func TestFailedCallsKeepWhatTheyShowed(t *testing.T) {
	var c ToolCalls
	c.Apply([]byte(`{"sessionUpdate":"tool_call","toolCallId":"a","title":"A","content":[{"type":"diff","path":"/x","newText":"y"}]}`))
	c.Apply([]byte(`{"sessionUpdate":"tool_call","toolCallId":"b","title":"B"}`))
	got := c.Fail("Interrupted", "unknown")
	want := []string{
		`{"sessionUpdate":"tool_call_update","toolCallId":"a","status":"failed","content":[{"type":"diff","path":"/x","newText":"y"},{"type":"content","content":{"type":"text","text":"Interrupted"}}],"_meta":{"hermes":{"state":"unknown"}}}`,
		`{"sessionUpdate":"tool_call_update","toolCallId":"b","status":"failed","content":[{"type":"content","content":{"type":"text","text":"Interrupted"}}],"_meta":{"hermes":{"state":"unknown"}}}`,
	}
	if len(got) != 2 || string(got[0]) != want[0] || string(got[1]) != want[1] {
		t.Errorf("got\n%s", got)
	}
	if openIDs(&c) != "a b" {
		t.Errorf("asking for the updates closed the calls")
	}
	for _, u := range got {
		c.Apply(u)
	}
	if c.Open() != nil {
		t.Errorf("%s is open", openIDs(&c))
	}
}

func TestAnAgentThatNeverEndsACallDoesNotGrowTheTracker(t *testing.T) {
	var c ToolCalls
	for i := range 3 * maxOpenCalls {
		c.Apply(fmt.Appendf(nil, `{"sessionUpdate":"tool_call","toolCallId":"%d","title":"T"}`, i))
	}
	if len(c.open) != maxOpenCalls || c.Get(fmt.Sprint(3*maxOpenCalls-1)) == nil {
		t.Errorf("%d calls are open", len(c.open))
	}
}
