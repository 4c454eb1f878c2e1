package acpclient

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/hermesd/hermesd/transport/acp"
)

// told makes entries of one session from update objects.
func told(updates ...string) []Entry {
	var entries []Entry
	for _, u := range updates {
		entries = append(entries, Entry{Kind: Update, Session: "s", Update: acp.UpdateKind([]byte(u)), Raw: json.RawMessage(u)})
	}
	return entries
}

const (
	call      = `{"sessionUpdate":"tool_call","toolCallId":"t","title":"Write","status":"pending"}`
	running   = `{"sessionUpdate":"tool_call_update","toolCallId":"t","status":"in_progress"}`
	completed = `{"sessionUpdate":"tool_call_update","toolCallId":"t","status":"completed"}`
	thought   = `{"sessionUpdate":"agent_thought_chunk","content":{"type":"text","text":"hm"}}`
	image     = `{"sessionUpdate":"agent_message_chunk","messageId":"m","content":{"type":"image","data":"AA==","mimeType":"image/png"}}`
	usage     = `{"sessionUpdate":"usage_update","used":1,"size":2}`
	unknown   = `{"sessionUpdate":"_x","a":1}`
)

func TestStoryJoinsWhatIsOne(t *testing.T) {
	live := StoryOf("s", told(chunk("a"), chunk("b"), usage, call, chunk("c"), running, completed, thought, image, chunk("d"), unknown))
	merged := StoryOf("s", told(chunk("ab"),
		`{"toolCallId":"t","sessionUpdate":"tool_call","status":"completed","title":"Write"}`,
		chunk("c"), thought, image, chunk("d"), unknown))
	if err := live.Same(merged); err != nil {
		t.Error(err)
	}
	if got := live.Says("agent_message_chunk"); got != "abcd" {
		t.Errorf("it says %q", got)
	}
	if len(live.Tools()) != 1 || len(live.Without(acp.ToolCall)) != len(live)-1 {
		t.Error("the tool call is not counted once")
	}
	if other := StoryOf("x", told(call)); other != nil {
		t.Errorf("another session's story: %v", other)
	}
}

func TestStoriesThatDiffer(t *testing.T) {
	base := StoryOf("s", told(chunk("ab"), call, completed, thought))
	for name, other := range map[string]Story{
		"text":    StoryOf("s", told(chunk("ax"), call, completed, thought)),
		"status":  StoryOf("s", told(chunk("ab"), call, thought)),
		"order":   StoryOf("s", told(call, completed, chunk("ab"), thought)),
		"more":    StoryOf("s", told(chunk("ab"), call, completed, thought, unknown)),
		"less":    StoryOf("s", told(chunk("ab"), call, completed)),
		"message": StoryOf("s", told(strings.Replace(chunk("ab"), `"m"`, `"n"`, 1), call, completed, thought)),
	} {
		if base.Same(other) == nil {
			t.Errorf("%s: no difference found", name)
		}
	}
}

func TestBeginningOfAStory(t *testing.T) {
	whole := StoryOf("s", told(chunk("abc"), call, completed, thought))
	for name, tc := range map[string]struct {
		updates []string
		want    bool
	}{
		"nothing":         {nil, true},
		"half a message":  {[]string{chunk("ab")}, true},
		"tool not done":   {[]string{chunk("abc"), call}, true},
		"all":             {[]string{chunk("abc"), call, completed, thought}, true},
		"other text":      {[]string{chunk("x")}, false},
		"short in middle": {[]string{chunk("ab"), call}, false},
		"other order":     {[]string{call}, false},
		"too much":        {[]string{chunk("abc"), call, thought, unknown}, false},
	} {
		if err := StoryOf("s", told(tc.updates...)).BeginningOf(whole); (err == nil) != tc.want {
			t.Errorf("%s: %v", name, err)
		}
	}
}
