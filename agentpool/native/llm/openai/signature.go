package openai

import (
	"encoding/json"
	"slices"
)

// signature is what a server wants back with a thought: under which name it
// sent the text, or the details in which OpenRouter wraps thoughts of others.
type signature struct {
	Field   string                       `json:"field,omitempty"`
	Details []map[string]json.RawMessage `json:"details,omitempty"`
}

// add takes the details of one chunk. Pieces of one detail are joined.
func (s *signature) add(raw string) {
	var pieces []map[string]json.RawMessage
	if json.Unmarshal([]byte(raw), &pieces) != nil {
		return
	}
	for _, p := range pieces {
		i := slices.IndexFunc(s.Details, func(d map[string]json.RawMessage) bool {
			return string(d["type"]) == string(p["type"]) && string(d["index"]) == string(p["index"])
		})
		if i < 0 || p["index"] == nil {
			s.Details = append(s.Details, p)
			continue
		}
		for name, v := range p {
			var was, more string
			switch name {
			case "text", "summary", "data":
				if json.Unmarshal(v, &more) == nil && json.Unmarshal(s.Details[i][name], &was) == nil {
					s.Details[i][name], _ = json.Marshal(was + more) // strings
					continue
				}
			}
			if string(v) != "null" {
				s.Details[i][name] = v
			}
		}
	}
}

func (s *signature) encode() string {
	if s.Field == "" && len(s.Details) == 0 {
		return ""
	}
	text, err := json.Marshal(s) // map keys are sorted
	if err != nil {
		return ""
	}
	return string(text)
}

func (s *signature) decode(text string) {
	// What is not ours says nothing to us.
	_ = json.Unmarshal([]byte(text), s)
}

func (s *signature) details() []byte {
	text, err := json.Marshal(s.Details)
	if err != nil {
		return []byte("[]")
	}
	return text
}
