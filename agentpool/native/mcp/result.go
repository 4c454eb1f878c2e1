package mcp

import (
	"encoding/base64"
	"encoding/json"
	"fmt"
	"net/http"
	"strings"

	"github.com/hermesd/hermesd/agentpool/native/tool"
	sdk "github.com/modelcontextprotocol/go-sdk/mcp"
)

// Limits of what is taken of one result.
const (
	DefaultResultLimit = 96 << 10 // bytes of text
	maxImages          = 8
	maxImage           = 3 << 20 // bytes before base64; providers refuse 5 MB behind it
	maxBlob            = 8 << 20 // of everything shown to an editor and not to a model
)

// seen are the pictures that every provider takes.
var seen = map[string]bool{"image/png": true, "image/jpeg": true, "image/gif": true, "image/webp": true}

// Result makes of a server's answer what the model is told and what an editor
// shows. Both get the same text, at most limit bytes of it.
func Result(res *sdk.CallToolResult, limit int) tool.Result {
	if limit <= 0 {
		limit = DefaultResultLimit
	}
	r := &result{limit: limit, blobs: maxBlob, out: tool.Result{Failed: res.IsError, Content: []tool.Content{}}}
	said := false // the answer has text
	for _, c := range res.Content {
		switch c := c.(type) {
		case *sdk.TextContent:
			said = said || strings.TrimSpace(c.Text) != ""
			r.text(c.Text, "")
		case *sdk.ImageContent:
			r.image(c.Data, c.MIMEType)
		case *sdk.AudioContent:
			r.block("audio", map[string]any{"type": "audio", "data": c.Data, "mimeType": c.MIMEType}, len(c.Data), c.MIMEType)
		case *sdk.ResourceLink:
			r.link(c)
		case *sdk.EmbeddedResource:
			r.resource(c.Resource)
		default:
			r.note("(something of a kind that hermesd does not know was left out)")
		}
	}
	if res.StructuredContent != nil {
		structured := encode(res.StructuredContent)
		if len(structured) <= limit {
			r.out.Raw = map[string]any{"structuredContent": structured}
		}
		if !said { // else the text says the same, so the protocol
			r.text(string(structured), "json")
		}
	}
	if r.left > 0 {
		r.note(fmt.Sprintf("[the result is cut: %d more bytes were left out]", r.left))
	}
	r.out.Text = strings.TrimRight(r.model.String(), "\n")
	return r.out
}

// result is one being made.
type result struct {
	out   tool.Result
	model strings.Builder
	limit int // bytes of text that may still come
	blobs int // bytes that an editor may still be shown
	left  int // bytes of text left out
}

// text takes a text of the server. Something that is plainly JSON is shown as
// such.
func (r *result) text(s, lang string) {
	s = strings.ToValidUTF8(s, "\uFFFD")
	kept := cut(s, r.limit, "")
	r.limit -= len(kept)
	r.left += len(s) - len(kept)
	if kept == "" {
		return
	}
	r.say(kept)
	if lang == "" && len(kept) == len(s) && (s[0] == '{' || s[0] == '[') && json.Valid([]byte(s)) {
		lang = "json"
	}
	if lang != "" {
		kept = tool.Fence(lang, kept)
	}
	r.out.Content = append(r.out.Content, tool.Content{Text: kept})
}

// note says something of our own, to both.
func (r *result) note(s string) {
	r.say(s)
	r.out.Content = append(r.out.Content, tool.Content{Text: s})
}

func (r *result) say(s string) {
	r.model.WriteString(s)
	if !strings.HasSuffix(s, "\n") {
		r.model.WriteByte('\n')
	}
}

// block shows something to the editor, and tells the model that it is there.
func (r *result) block(what string, block any, size int, mime string) {
	if size > r.blobs {
		r.note(fmt.Sprintf("(%s of %d bytes, %s, was too large and left out)", what, size, clean(mime, 80)))
		return
	}
	r.blobs -= size
	r.say(fmt.Sprintf("(%s of %d bytes, %s; the user is shown it)", what, size, clean(mime, 80)))
	r.out.Content = append(r.out.Content, tool.Content{Block: encode(block)})
}

// image takes a picture: for the editor as it is, for a model if it can be
// sure to be taken. A provider that refuses one would refuse every later
// request too, so it is looked at what it really is.
func (r *result) image(data []byte, mime string) {
	encoded := base64.StdEncoding.EncodeToString(data)
	is := http.DetectContentType(data)
	if seen[is] {
		mime = is
	}
	r.block("an image", map[string]any{"type": "image", "data": encoded, "mimeType": mime}, len(data), mime)
	if seen[is] && len(data) <= maxImage && len(r.out.Images) < maxImages {
		r.out.Images = append(r.out.Images, tool.Image{MimeType: is, Data: encoded})
	}
}

func (r *result) link(c *sdk.ResourceLink) {
	name := c.Title
	if name == "" {
		name = c.Name
	}
	r.say(fmt.Sprintf("(resource %s: %s %s)", clean(c.URI, 500), clean(name, 200), clean(c.Description, 500)))
	link := map[string]any{"type": "resource_link", "uri": c.URI, "name": c.Name}
	for key, v := range map[string]string{"title": c.Title, "description": c.Description, "mimeType": c.MIMEType} {
		if v != "" {
			link[key] = cut(v, 2000, "…")
		}
	}
	if c.Size != nil {
		link["size"] = *c.Size
	}
	r.out.Content = append(r.out.Content, tool.Content{Block: encode(link)})
}

func (r *result) resource(c *sdk.ResourceContents) {
	switch {
	case c == nil:
	case c.Blob != nil && seen[http.DetectContentType(c.Blob)]:
		r.say("resource " + clean(c.URI, 500) + ":")
		r.image(c.Blob, http.DetectContentType(c.Blob))
	case c.Blob != nil:
		r.block("resource "+clean(c.URI, 500), map[string]any{"type": "resource", "resource": map[string]any{
			"uri": c.URI, "mimeType": c.MIMEType, "blob": c.Blob,
		}}, len(c.Blob), c.MIMEType)
	default:
		text := strings.ToValidUTF8(c.Text, "\uFFFD")
		kept := cut(text, r.limit, "")
		r.limit -= len(kept)
		r.left += len(text) - len(kept)
		r.say("resource " + clean(c.URI, 500) + ":\n" + kept)
		res := map[string]any{"uri": c.URI, "text": kept}
		if c.MIMEType != "" {
			res["mimeType"] = c.MIMEType
		}
		r.out.Content = append(r.out.Content, tool.Content{Block: encode(map[string]any{"type": "resource", "resource": res})})
	}
}
