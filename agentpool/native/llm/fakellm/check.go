package fakellm

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
)

// check says why a real server would refuse the request, "" if it would not.
func (s *Server) check(r *http.Request, body []byte) string {
	if !json.Valid(body) {
		return "the body is no JSON"
	}
	if r.Header.Get("Content-Type") != "application/json" {
		return "content type " + r.Header.Get("Content-Type")
	}
	var q struct {
		Model    string            `json:"model"`
		Stream   bool              `json:"stream"`
		Messages []json.RawMessage `json:"messages"`
		Tools    []json.RawMessage `json:"tools"`
	}
	if err := json.Unmarshal(body, &q); err != nil {
		return err.Error()
	}
	switch {
	case q.Model == "":
		return "no model"
	case !q.Stream:
		return "not streamed"
	case len(q.Messages) == 0:
		return "no messages"
	}
	if s.Format == Anthropic {
		return checkAnthropic(r, body, q.Messages)
	}
	return checkOpenAI(body, q.Messages)
}

func checkAnthropic(r *http.Request, body []byte, messages []json.RawMessage) string {
	var q struct {
		MaxTokens int `json:"max_tokens"`
		Thinking  struct {
			Type   string `json:"type"`
			Budget int    `json:"budget_tokens"`
		} `json:"thinking"`
		Tools []struct {
			Schema map[string]any `json:"input_schema"`
		} `json:"tools"`
	}
	if err := json.Unmarshal(body, &q); err != nil {
		return err.Error()
	}
	switch {
	case r.Header.Get("Anthropic-Version") == "":
		return "no anthropic-version"
	case q.MaxTokens < 1:
		return "max_tokens: field required"
	case q.Thinking.Type == "enabled" && (q.Thinking.Budget < 1024 || q.Thinking.Budget >= q.MaxTokens):
		return "thinking.budget_tokens"
	case strings.Count(string(body), `"cache_control":{`) > 4:
		return "a maximum of 4 blocks with cache_control may be provided"
	}
	for i, t := range q.Tools {
		if t.Schema["type"] != "object" {
			return fmt.Sprintf("tools.%d.input_schema", i)
		}
	}
	open := map[string]bool{} // calls without a result
	for i, raw := range messages {
		var m struct {
			Role    string `json:"role"`
			Content []struct {
				Type      string          `json:"type"`
				Text      string          `json:"text"`
				ID        string          `json:"id"`
				ToolUseID string          `json:"tool_use_id"`
				Input     json.RawMessage `json:"input"`
				Signature string          `json:"signature"`
				Data      string          `json:"data"`
				Content   []struct {
					Type string `json:"type"`
					Text string `json:"text"`
				} `json:"content"`
				Source struct {
					Type, Data string
					MediaType  string `json:"media_type"`
				} `json:"source"`
			} `json:"content"`
		}
		if err := json.Unmarshal(raw, &m); err != nil {
			return fmt.Sprintf("messages.%d: %v", i, err)
		}
		if m.Role != "user" && m.Role != "assistant" || len(m.Content) == 0 || i == 0 && m.Role != "user" {
			return fmt.Sprintf("messages.%d: role %q with %d blocks", i, m.Role, len(m.Content))
		}
		answered := map[string]bool{}
		for j, c := range m.Content {
			bad := ""
			switch c.Type {
			case "text":
				if strings.TrimSpace(c.Text) == "" {
					bad = "text content blocks must be non-empty"
				}
			case "thinking":
				if c.Signature == "" || m.Role != "assistant" {
					bad = "signature: field required"
				}
			case "redacted_thinking":
				if c.Data == "" || m.Role != "assistant" {
					bad = "data: field required"
				}
			case "tool_use":
				if !strings.HasPrefix(string(c.Input), "{") || c.ID == "" || m.Role != "assistant" {
					bad = "tool_use.input: should be an object"
				}
			case "tool_result":
				if !open[c.ToolUseID] || m.Role != "user" {
					bad = "unexpected tool_use_id found in tool_result blocks: " + c.ToolUseID
				}
				answered[c.ToolUseID] = true
			case "image", "document":
				if c.Source.Data == "" || c.Source.MediaType == "" {
					bad = "source"
				}
			default:
				bad = "unknown type " + c.Type
			}
			if bad != "" {
				return fmt.Sprintf("messages.%d.content.%d: %s", i, j, bad)
			}
		}
		for id := range open {
			if !answered[id] {
				return fmt.Sprintf("messages.%d: tool_use ids were found without tool_result blocks immediately after: %s", i, id)
			}
		}
		open = map[string]bool{}
		for _, c := range m.Content {
			if c.Type == "tool_use" {
				open[c.ID] = true
			}
		}
	}
	if len(open) > 0 {
		return "tool_use without tool_result at the end"
	}
	return ""
}

func checkOpenAI(body []byte, messages []json.RawMessage) string {
	open := map[string]bool{}
	for i, raw := range messages {
		var m struct {
			Role    string          `json:"role"`
			Content json.RawMessage `json:"content"`
			CallID  string          `json:"tool_call_id"`
			Calls   []struct {
				ID       string `json:"id"`
				Type     string `json:"type"`
				Function struct{ Name, Arguments string }
			} `json:"tool_calls"`
		}
		if err := json.Unmarshal(raw, &m); err != nil {
			return fmt.Sprintf("messages[%d]: %v", i, err)
		}
		empty := len(m.Content) == 0 || string(m.Content) == "null" || string(m.Content) == `""` || string(m.Content) == "[]"
		bad := ""
		switch m.Role {
		case "system", "user":
			if empty {
				bad = "no content"
			}
		case "assistant":
			if empty && len(m.Calls) == 0 {
				bad = "neither content nor tool_calls"
			}
		case "tool":
			if !open[m.CallID] {
				bad = "messages with role 'tool' must be a response to a preceding message with 'tool_calls'"
			}
			delete(open, m.CallID)
		default:
			bad = "role " + m.Role
		}
		if m.Role != "tool" && len(open) > 0 {
			bad = "an assistant message with 'tool_calls' must be followed by tool messages responding to each 'tool_call_id'"
		}
		for _, c := range m.Calls {
			if c.ID == "" || c.Type != "function" || c.Function.Name == "" || !json.Valid([]byte(c.Function.Arguments)) {
				bad = "a tool call is incomplete"
			}
			open[c.ID] = true
		}
		if bad != "" {
			return fmt.Sprintf("messages[%d]: %s", i, bad)
		}
	}
	if len(open) > 0 {
		return "a tool call without a result at the end"
	}
	return ""
}
