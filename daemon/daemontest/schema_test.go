package daemontest_test

import (
	"strings"
	"testing"

	"github.com/hermesd/hermesd/daemon/daemontest"
)

func TestTapAcceptsWhatTheSchemaAllows(t *testing.T) {
	tap := daemontest.NeedSchemas(t).Tap()
	for _, line := range []string{
		`{"jsonrpc":"2.0","id":0,"method":"initialize","params":{"protocolVersion":1}}`,
		`{"jsonrpc":"2.0","id":"one","method":"session/prompt","params":{}}`,
		`{"jsonrpc":"2.0","id":2,"method":"session/fork","params":{}}`,
		`{"jsonrpc":"2.0","id":3,"method":"_hermes/status"}`,
		`{"jsonrpc":"2.0","id":4,"method":"session/load"}`,
	} {
		tap.Sent([]byte(line))
	}
	for _, line := range []string{
		`{"jsonrpc":"2.0","id":0,"result":{"protocolVersion":1,"agentCapabilities":{"loadSession":true,"sessionCapabilities":{"list":{},"resume":{}}},"authMethods":[]}}`,
		`{"jsonrpc":"2.0","method":"session/update","params":{"sessionId":"s","update":{"sessionUpdate":"agent_message_chunk","messageId":"m","content":{"type":"text","text":"hi"}}}}`,
		`{"jsonrpc":"2.0","method":"session/update","params":{"sessionId":"s","update":{"sessionUpdate":"tool_call","toolCallId":"t","title":"T","kind":"edit","status":"pending","content":[{"type":"diff","path":"/a","newText":"x","_meta":{"free":[1]}}],"locations":[{"path":"/a","line":1}],"rawInput":{"anything":{"goes":1}}}}}`,
		`{"jsonrpc":"2.0","id":"s/5","method":"session/request_permission","params":{"sessionId":"s","toolCall":{"toolCallId":"t"},"options":[{"optionId":"a","name":"Allow","kind":"allow_once"}]}}`,
		`{"jsonrpc":"2.0","method":"$/cancel_request","params":{"requestId":"s/5"}}`,
		`{"jsonrpc":"2.0","id":"s/6","method":"fs/read_text_file","params":{"sessionId":"s","path":"/a"}}`,
		`{"jsonrpc":"2.0","id":"one","result":{"stopReason":"end_turn"}}`,
		`{"jsonrpc":"2.0","id":2,"result":{"sessionId":"new"}}`,
		`{"jsonrpc":"2.0","id":3,"result":{"ours":true}}`,
		`{"jsonrpc":"2.0","id":4,"error":{"code":-32002,"message":"no such session","data":{"sessionId":"x"}}}`,
		`{"jsonrpc":"2.0","id":null,"error":{"code":-32700,"message":"Parse error"}}`,
	} {
		if err := tap.Received([]byte(line)); err != nil {
			t.Errorf("%s\n%v", line, err)
		}
	}
}

func TestTapNamesWhatIsWrong(t *testing.T) {
	schemas := daemontest.NeedSchemas(t)
	sent := `{"jsonrpc":"2.0","id":1,"method":"session/prompt","params":{}}`
	for _, c := range []struct{ line, want string }{
		{`not json`, "not a JSON object"},
		{`[]`, "not a JSON object"},
		{"{\"jsonrpc\":\"2.0\",\"method\":\"a\xff\"}", "not UTF-8"},
		{"{\"jsonrpc\":\"2.0\",\r\"method\":\"_a\"}", "line break"},
		{`{"jsonrpc":"1.0","method":"_a"}`, "jsonrpc is"},
		{`{"jsonrpc":"2.0"}`, "neither a request nor a response"},
		{`{"jsonrpc":"2.0","method":"_a","extra":1}`, `"extra"`},
		{`{"jsonrpc":"2.0","id":null,"method":"_a"}`, "id null"},
		{`{"jsonrpc":"2.0","method":"nope"}`, "not in the schema"},
		{`{"jsonrpc":"2.0","id":1,"result":{"stopReason":"end_turn"},"error":null}`, "one of result and error"},
		{`{"jsonrpc":"2.0","id":1}`, "one of result and error"},
		{`{"jsonrpc":"2.0","id":"1","result":{"stopReason":"end_turn"}}`, "not open"},
		{`{"jsonrpc":"2.0","id":1,"result":{"stopReason":"done"}}`, "PromptResponse"},
		{`{"jsonrpc":"2.0","id":1,"result":{"stopReason":"end_turn","hermes":{}}}`, "$.hermes"},
		{`{"jsonrpc":"2.0","id":1,"error":{"code":"x","message":"m"}}`, "Error"},
		{`{"jsonrpc":"2.0","id":1,"error":{"code":-32603,"message":"two\nlines"}}`, "several lines"},
		{`{"jsonrpc":"2.0","id":9,"error":{"code":-32603,"message":"m"}}`, "not open"},
		{`{"jsonrpc":"2.0","method":"session/update","params":{"sessionId":"s","update":{"sessionUpdate":"galaxy"}}}`, "SessionNotification"},
		{`{"jsonrpc":"2.0","method":"session/update","params":{"sessionId":"s","update":{"sessionUpdate":"agent_message_chunk"}}}`, "content"},
		{`{"jsonrpc":"2.0","method":"session/update","params":{"sessionId":"s","update":{"sessionUpdate":"agent_message_chunk","seq":4,"content":{"type":"text","text":"hi"}}}}`, "$.update.seq"},
		{`{"jsonrpc":"2.0","method":"session/update","params":{"sessionId":"s","update":{"sessionUpdate":"tool_call","toolCallId":"t","title":"T","content":[{"type":"diff","path":"/a","newText":"x","hunks":1}]}}}`, "$.update.content[0].hunks"},
		{`{"jsonrpc":"2.0","id":"q","method":"session/request_permission","params":{"sessionId":"s","toolCall":{"toolCallId":"t"},"options":[{"optionId":"a","name":"Allow","kind":"allow"}]}}`, "RequestPermissionRequest"},
	} {
		tap := schemas.Tap()
		tap.Sent([]byte(sent))
		err := tap.Received([]byte(c.line))
		if err == nil {
			t.Errorf("accepted %s", c.line)
		} else if !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s\n  says: %v\n  want something about %q", c.line, err, c.want)
		}
	}
}

func TestTapSettlesAReusedIdOnceForEachRequest(t *testing.T) {
	tap := daemontest.NeedSchemas(t).Tap()
	answer := []byte(`{"jsonrpc":"2.0","id":6,"result":{"sessions":[]}}`)
	tap.Sent([]byte(`{"jsonrpc":"2.0","id":6,"method":"session/list"}`))
	tap.Sent([]byte(`{"jsonrpc":"2.0","id":6,"method":"session/list"}`))
	for i := range 2 {
		if err := tap.Received(answer); err != nil {
			t.Errorf("answer %d: %v", i+1, err)
		}
	}
	if err := tap.Received(answer); err == nil {
		t.Error("a third answer to two requests was accepted")
	}
}
