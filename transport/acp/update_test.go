package acp

import (
	"bytes"
	"encoding/json"
	"strings"
	"testing"
)

func TestUpdateKindInAnyOrderOfMembers(t *testing.T) {
	for _, tc := range []struct{ name, update, want string }{
		{"first", `{"sessionUpdate":"agent_message_chunk","content":{"type":"text","text":"x"}}`, AgentMessageChunk},
		{"last", `{"content":{"type":"text","text":"x","sessionUpdate":"plan"},"sessionUpdate":"tool_call"}`, ToolCall},
		{"pretty", "{\n  \"a\" : [1, {\"b\": \"}\"}],\r\n\t\"sessionUpdate\" : \"notice\"\n}", Notice},
		{"unknown", `{"sessionUpdate":"galaxy_update"}`, "galaxy_update"},
		{"escaped name and value", `{"session\u0055pdate":"pl\u0061n"}`, Plan},
		{"quotes in strings", `{"a":"\\\"sessionUpdate\":\"x\"\\","sessionUpdate":"plan"}`, Plan},
		{"twice, the last counts", `{"sessionUpdate":"plan","sessionUpdate":"notice"}`, Notice},
		{"other case of the name", `{"sessionupdate":"plan"}`, ""},
		{"no string", `{"sessionUpdate":7}`, ""},
		{"no object", `["sessionUpdate","plan"]`, ""},
		{"empty", ``, ""},
		{"cut", `{"sessionUpdate":"pl`, ""},
	} {
		t.Run(tc.name, func(t *testing.T) {
			if got := UpdateKind([]byte(tc.update)); got != tc.want {
				t.Errorf("got %q, want %q", got, tc.want)
			}
		})
	}
}

func TestChunkTextIsWhatStandsBetweenTheQuotes(t *testing.T) {
	for _, tc := range []struct {
		name, update, want string
		ok                 bool
	}{
		{"plain", `{"sessionUpdate":"agent_message_chunk","content":{"type":"text","text":"a\nb"}}`, `a\nb`, true},
		{"text before type, content before kind", `{"content":{"text":"q\"","type":"text"},"sessionUpdate":"user_message_chunk"}`, `q\"`, true},
		{"empty", `{"sessionUpdate":"agent_thought_chunk","content":{"type":"text","text":""}}`, ``, true},
		{"image", `{"sessionUpdate":"agent_message_chunk","content":{"type":"image","text":"a"}}`, ``, false},
		{"no text", `{"sessionUpdate":"agent_message_chunk","content":{"type":"text"}}`, ``, false},
		{"text is no string", `{"sessionUpdate":"agent_message_chunk","content":{"type":"text","text":1}}`, ``, false},
		{"no chunk", `{"sessionUpdate":"compaction_summary_chunk","content":{"type":"text","text":"a"}}`, ``, false},
		{"no content", `{"sessionUpdate":"agent_message_chunk"}`, ``, false},
		{"content null", `{"sessionUpdate":"agent_message_chunk","content":null}`, ``, false},
	} {
		t.Run(tc.name, func(t *testing.T) {
			start, end, ok := ChunkText([]byte(tc.update))
			if ok != tc.ok || tc.update[start:end] != tc.want {
				t.Errorf("got %q %v, want %q %v", tc.update[start:end], ok, tc.want, tc.ok)
			}
		})
	}
}

func TestIdsOfUpdates(t *testing.T) {
	if got := MessageID([]byte(`{"messageId":"m\u0031","x":1}`)); got != "m1" {
		t.Errorf("got %q", got)
	}
	if got := MessageID([]byte(`{"messageId":null}`)); got != "" {
		t.Errorf("got %q", got)
	}
	if got := ToolCallID([]byte(`{"a":{"toolCallId":"no"},"toolCallId":"t"}`)); got != "t" {
		t.Errorf("got %q", got)
	}
}

func TestLookingAtAChunkAllocatesNothing(t *testing.T) {
	update := []byte(`{"sessionUpdate":"agent_message_chunk","content":{"type":"text","text":"hello"},"messageId":"m"}`)
	id := []byte(`"s"`)
	buf := make([]byte, 0, 1024)
	if n := testing.AllocsPerRun(100, func() {
		if UpdateKind(update) != AgentMessageChunk {
			t.Fatal("kind")
		}
		if _, _, ok := ChunkText(update); !ok {
			t.Fatal("text")
		}
		buf = AppendUpdateFrame(buf[:0], id, update)
	}); n != 0 {
		t.Errorf("%v allocations", n)
	}
}

func TestUpdateFrameIsOneLineWithTheUpdatesBytes(t *testing.T) {
	for _, tc := range []struct{ name, id, update, want string }{
		{"verbatim", "s1", `{ "a":1.0, "b":"<&>\u2028 ` + "\u2028" + `"}`,
			`{"jsonrpc":"2.0","method":"session/update","params":{"sessionId":"s1","update":{ "a":1.0, "b":"<&>\u2028 ` + "\u2028" + `"}}}` + "\n"},
		{"pretty printed", "s", "{\r\n  \"a\": 1e2,\n  \"b\": \"x\\n y\"\n}",
			`{"jsonrpc":"2.0","method":"session/update","params":{"sessionId":"s","update":{"a":1e2,"b":"x\n y"}}}` + "\n"},
		{"id needs quoting", "a\"\n\x01<\xff", `{}`,
			`{"jsonrpc":"2.0","method":"session/update","params":{"sessionId":"a\"\n\u0001<` + "\uFFFD" + `","update":{}}}` + "\n"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			got := UpdateFrame(tc.id, []byte(tc.update))
			if string(got) != tc.want {
				t.Errorf("got  %s\nwant %s", got, tc.want)
			}
			if bytes.Count(got, []byte("\n")) != 1 || !json.Valid(got) {
				t.Errorf("not one line of JSON: %q", got)
			}
		})
	}
	if got := UpdateFrame("s", []byte("{\"a\": \n")); bytes.Count(got, []byte("\n")) != 1 {
		t.Errorf("what is not JSON breaks the line: %q", got)
	}
}

func FuzzUpdateKindAndChunkText(f *testing.F) {
	for _, s := range []string{
		`{"sessionUpdate":"agent_message_chunk","content":{"type":"text","text":"a\u0062\\\""}}`,
		`{"content":{"text":"x","type":"text"},"sessionUpdate":"user_message_chunk","sessionUpdate":"plan"}`,
		`{"session\u0055pdate":"notice","a":[{},[],"}",1.5e9,null,true]}`,
		"{\n \"a\" : {} , \"sessionUpdate\":\t\"x\"}", `{`, `[`, `"`, `{"a":}`, `{"a"`, `{"a":"\`, `null`, `{"a":1,}`, `{"":""}`,
	} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		kind := UpdateKind(b)
		start, end, ok := ChunkText(b)
		MessageID(b)
		if !bytes.Contains(b, []byte("\uFFFD")) && strings.ToValidUTF8(string(b), "\uFFFD") != string(b) {
			return // encoding/json rewrites bad bytes, we keep them
		}
		var m map[string]json.RawMessage
		if json.Unmarshal(b, &m) != nil {
			return
		}
		var want string
		if json.Unmarshal(m["sessionUpdate"], &want) != nil || string(m["sessionUpdate"]) == "null" {
			want = ""
		}
		if kind != want {
			t.Errorf("kind %q, want %q", kind, want)
		}
		var c map[string]json.RawMessage
		wantOK := false
		var typ, txt string
		if IsChunk(want) && json.Unmarshal(m["content"], &c) == nil && json.Unmarshal(c["type"], &typ) == nil && typ == "text" {
			wantOK = len(c["text"]) > 0 && c["text"][0] == '"' && json.Unmarshal(c["text"], &txt) == nil
		}
		if ok != wantOK {
			t.Fatalf("ok %v, want %v", ok, wantOK)
		}
		if ok && text(b[start:end]) != txt {
			t.Errorf("text %q, want %q", b[start:end], txt)
		}
	})
}
