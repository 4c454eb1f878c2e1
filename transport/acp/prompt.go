package acp

import (
	"encoding/json"
	"fmt"
	"strings"
)

// Prompt is what `session/prompt` asks.
type Prompt struct {
	SessionID string
	// Blocks are the content blocks: the bytes that came, except that halves
	// of surrogate pairs have become U+FFFD. Content is the array of them.
	Blocks  []json.RawMessage
	Content json.RawMessage
	Meta    json.RawMessage
	Raw     json.RawMessage
}

// ImageTypes are the media types an image in a prompt may have: those that the
// models take. Another one would be stored and then fail every later request.
func ImageTypes() []string {
	return []string{"image/png", "image/jpeg", "image/gif", "image/webp"}
}

// ParsePrompt reads the params of `session/prompt`. Text, resource links,
// images and embedded resources are taken; audio is not, as it is not
// advertised. A prompt that says nothing is refused.
func ParsePrompt(params json.RawMessage) (Prompt, error) {
	params = ValidUnicode(params)
	id, err := sessionID(params)
	if err != nil {
		return Prompt{}, err
	}
	p := Prompt{SessionID: id, Meta: meta(params), Raw: params}
	v, ok := Get(params, "prompt")
	if !ok {
		return Prompt{}, bad("prompt", "is missing")
	}
	p.Content = v
	if p.Blocks, ok = Elements(v); !ok {
		return Prompt{}, bad("prompt", "must be an array of content blocks, not %s", shown(v))
	}
	if len(p.Blocks) == 0 {
		return Prompt{}, bad("prompt", "must not be empty")
	}
	blank := true
	for i, b := range p.Blocks {
		says, err := checkBlock(b, fmt.Sprintf("prompt[%d]", i))
		if err != nil {
			return Prompt{}, err
		}
		blank = blank && !says
	}
	if blank {
		return Prompt{}, bad("prompt", "contains nothing but white space")
	}
	return p, nil
}

// checkBlock refuses a content block we cannot take and reports whether it
// says anything.
func checkBlock(b json.RawMessage, path string) (says bool, err error) {
	if b[0] != '{' {
		return false, bad(path, "must be a content block, not %s", shown(b))
	}
	kind, err := requiredString(b, path, "type")
	if err != nil {
		return false, err
	}
	switch kind {
	case "text":
		v, ok := Get(b, "text")
		if !ok {
			return false, bad(path+".text", "is missing")
		}
		inner, ok := inside(v)
		if !ok {
			return false, bad(path+".text", "must be a string, not %s", shown(v))
		}
		return !isBlank(inner), nil
	case "resource_link":
		for _, name := range []string{"name", "uri"} {
			if _, err := requiredString(b, path, name); err != nil {
				return false, err
			}
		}
		if uri, _ := GetString(b, "uri"); uri == "" {
			return false, bad(path+".uri", "must not be empty")
		}
		return true, nil
	case "image":
		return true, checkImage(b, path)
	case "resource":
		return true, checkResource(b, path)
	case "audio":
		return false, bad(path+".type", `"audio" was not advertised by this agent`)
	}
	return false, bad(path+".type", "%s is not a content block we know (text, resource_link, image, resource)", shownText(kind))
}

func checkImage(b json.RawMessage, path string) error {
	mime, err := requiredString(b, path, "mimeType")
	if err != nil {
		return err
	}
	known := false
	for _, t := range ImageTypes() {
		known = known || mime == t
	}
	if !known {
		return bad(path+".mimeType", "%s is not an image type the models take (%s)", shownText(mime), strings.Join(ImageTypes(), ", "))
	}
	return checkBase64(b, path, "data", false)
}

func checkResource(b json.RawMessage, path string) error {
	r, ok := Get(b, "resource")
	path += ".resource"
	if !ok {
		return bad(path, "is missing")
	}
	if r[0] != '{' {
		return bad(path, "must be an object, not %s", shown(r))
	}
	if _, err := requiredString(r, path, "uri"); err != nil {
		return err
	}
	if v, ok := Get(r, "text"); ok && v[0] == '"' {
		return nil
	}
	if _, ok := Get(r, "blob"); ok {
		return checkBase64(r, path, "blob", true)
	}
	if v, ok := Get(r, "text"); ok {
		return bad(path+".text", "must be a string, not %s", shown(v))
	}
	return bad(path, "must have text or blob")
}

func checkBase64(obj json.RawMessage, path, name string, mayBeEmpty bool) error {
	path += "." + name
	v, ok := Get(obj, name)
	if !ok {
		return bad(path, "is missing")
	}
	inner, ok := inside(v)
	if !ok {
		return bad(path, "must be a base64 string, not %s", shown(v))
	}
	if n, ok := base64Length(inner); !ok {
		return bad(path, "is not valid base64 (standard alphabet, with padding, no data: prefix)")
	} else if n == 0 && !mayBeEmpty {
		return bad(path, "must not be empty")
	}
	return nil
}

// base64Length counts the characters of the inside of a JSON string that is
// standard base64 with padding. Images are large: nothing is decoded. An
// encoder may have written "/" as "\/".
func base64Length(inner []byte) (n int, ok bool) {
	pad := 0
	for i := 0; i < len(inner); i++ {
		c := inner[i]
		if c == '\\' {
			if i+1 < len(inner) && inner[i+1] == 'u' {
				// Nobody writes base64 so; but it means what it means.
				return base64Length([]byte(text(inner)))
			}
			if i++; i >= len(inner) || inner[i] != '/' {
				return 0, false
			}
			c = '/'
		}
		switch {
		case c == '=':
			pad++
		case pad > 0:
			return 0, false
		case 'A' <= c && c <= 'Z', 'a' <= c && c <= 'z', '0' <= c && c <= '9', c == '+', c == '/':
		default:
			return 0, false
		}
		n++
	}
	return n, pad <= 2 && n%4 == 0
}

// isBlank reports whether the inside of a JSON string is white space only.
func isBlank(inner []byte) bool {
	for i, c := range inner {
		switch {
		case c == ' ':
		case c == '\\' || c >= 0x80:
			return strings.TrimSpace(text(inner[i:])) == ""
		default:
			return false
		}
	}
	return true
}
