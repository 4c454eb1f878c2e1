package native

import (
	"bytes"
	"encoding/json"
	"strconv"

	"github.com/hermesd/hermesd/agentpool/native/tool"
	"github.com/hermesd/hermesd/transport/acp"
)

// This file writes ACP v1 `update` objects.

// chunkHead is the beginning of a chunk update, up to its text.
func chunkHead(kind, messageID string) []byte {
	b := append([]byte(`{"sessionUpdate":`), strconv.Quote(kind)...)
	b = append(b, `,"messageId":`...)
	b = acp.AppendString(b, messageID)
	return append(b, `,"content":{"type":"text","text":`...)
}

// appendChunk builds a whole chunk update with one allocation for text that
// needs no escapes. It is the path of every word an agent says.
func appendChunk(head []byte, text string) []byte {
	b := make([]byte, 0, len(head)+len(text)+8)
	b = append(b, head...)
	b = acp.AppendString(b, text)
	return append(b, "}}"...)
}

// toolCall is a v1 tool_call or tool_call_update; without SessionUpdate it is
// the ToolCallUpdate object of a question.
type toolCall struct {
	SessionUpdate string          `json:"sessionUpdate,omitempty"`
	ID            string          `json:"toolCallId"`
	Title         string          `json:"title,omitempty"`
	Name          string          `json:"name,omitempty"`
	Kind          string          `json:"kind,omitempty"`
	Status        string          `json:"status,omitempty"`
	Content       []tool.Content  `json:"content,omitempty"`
	Locations     []tool.Location `json:"locations,omitempty"`
	RawInput      json.RawMessage `json:"rawInput,omitempty"`
	RawOutput     any             `json:"rawOutput,omitempty"`
	Meta          any             `json:"_meta,omitempty"`
}

// hermesMeta wraps v as our part of `_meta`.
func hermesMeta(v any) any { return map[string]any{"hermes": v} }

// encode is json.Marshal without the escapes for HTML. What is given to it
// cannot fail.
func encode(v any) []byte {
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(v); err != nil {
		panic("encoding an update: " + err.Error())
	}
	return bytes.TrimRight(b.Bytes(), "\n")
}
