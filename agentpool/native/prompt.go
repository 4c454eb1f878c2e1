package native

import (
	"encoding/base64"
	"encoding/json"
	"fmt"
	"strings"

	"github.com/hermesd/hermesd/agentpool/native/llm"
	"github.com/hermesd/hermesd/daemon/session"
)

// imageTypes are the pictures every provider takes.
var imageTypes = map[string]bool{"image/png": true, "image/jpeg": true, "image/gif": true, "image/webp": true}

// readPrompt turns content blocks into a user's message. Nothing a block
// points at is opened. A block that no model could take is an *session.Error
// with -32602, before anything of it is remembered; so is a prompt without
// content.
func readPrompt(blocks []json.RawMessage) (llm.Message, error) {
	msg := llm.Message{Role: llm.RoleUser}
	for i, raw := range blocks {
		part, err := readBlock(raw)
		if err != nil {
			return msg, &session.Error{Code: session.CodeParams, Message: fmt.Sprintf("block %d of the prompt: %s", i+1, err)}
		}
		if part.Attachment == nil && strings.TrimSpace(part.Text) == "" {
			continue // no provider takes an empty text
		}
		msg.Parts = append(msg.Parts, part)
	}
	if len(msg.Parts) == 0 {
		return msg, &session.Error{Code: session.CodeParams, Message: "the prompt is empty: send some text or attach something"}
	}
	return msg, nil
}

func readBlock(raw json.RawMessage) (llm.Part, error) {
	var b struct {
		Type     string `json:"type"`
		Text     string `json:"text"`
		Name     string `json:"name"`
		URI      string `json:"uri"`
		MimeType string `json:"mimeType"`
		Data     string `json:"data"`
		Resource *struct {
			URI      string  `json:"uri"`
			MimeType string  `json:"mimeType"`
			Text     *string `json:"text"`
			Blob     *string `json:"blob"`
		} `json:"resource"`
	}
	if err := json.Unmarshal(raw, &b); err != nil {
		return llm.Part{}, fmt.Errorf("it is no content block: %w", err)
	}
	attach := func(a llm.Attachment) (llm.Part, error) { return llm.Part{Attachment: &a}, nil }
	switch b.Type {
	case "text":
		return llm.Part{Text: b.Text}, nil
	case "resource_link":
		if b.URI == "" {
			return llm.Part{}, fmt.Errorf("the resource_link has no uri")
		}
		return attach(llm.Attachment{Kind: "link", Name: b.Name, URI: b.URI, MimeType: b.MimeType})
	case "resource":
		r := b.Resource
		switch {
		case r == nil || r.Text == nil && r.Blob == nil:
			return llm.Part{}, fmt.Errorf("the resource has neither text nor blob")
		case r.Text != nil:
			return attach(llm.Attachment{Kind: "resource", URI: r.URI, MimeType: r.MimeType, Text: *r.Text})
		}
		if err := checkBase64(*r.Blob); err != nil {
			return llm.Part{}, fmt.Errorf("the blob of the resource is %w", err)
		}
		return attach(llm.Attachment{Kind: "resource", URI: r.URI, MimeType: r.MimeType, Data: *r.Blob})
	case "image":
		if !imageTypes[strings.ToLower(b.MimeType)] {
			return llm.Part{}, fmt.Errorf("pictures of type %q are not taken: send PNG, JPEG, GIF or WebP", b.MimeType)
		}
		if b.Data == "" {
			return llm.Part{}, fmt.Errorf("the image has no data")
		}
		if err := checkBase64(b.Data); err != nil {
			return llm.Part{}, fmt.Errorf("the data of the image is %w", err)
		}
		return attach(llm.Attachment{Kind: "image", URI: b.URI, MimeType: b.MimeType, Data: b.Data})
	case "":
		return llm.Part{}, fmt.Errorf("it has no type")
	}
	return llm.Part{}, fmt.Errorf("blocks of type %q are not taken: send text, resource_link, resource or image", b.Type)
}

func checkBase64(s string) error {
	if _, err := base64.StdEncoding.DecodeString(s); err != nil {
		return fmt.Errorf("no base64: %w", err)
	}
	return nil
}

// title makes a session's title of its first prompt: one line of at most 80
// characters.
func title(msg llm.Message) string {
	text := ""
	for _, p := range msg.Parts {
		if text = strings.TrimSpace(p.Text); text != "" {
			break
		}
		if a := p.Attachment; a != nil && text == "" {
			if text = a.Name; text == "" {
				text = a.URI
			}
			if text == "" {
				text = a.Kind
			}
			break
		}
	}
	line, _, _ := strings.Cut(text, "\n")
	line = strings.Join(strings.Fields(strings.ToValidUTF8(line, "\uFFFD")), " ")
	if runes := []rune(line); len(runes) > 80 {
		line = string(runes[:79]) + "…"
	}
	return line
}
