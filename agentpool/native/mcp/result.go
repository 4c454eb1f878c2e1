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

// Limits of what is taken of one result. Everything that is told or shown counts,
// also links, names and notes.
const (
	DefaultResultLimit = 96 << 10 // bytes that a model is told
	maxBlob            = 12 << 20 // bytes shown to an editor beside that, as they are encoded
	maxParts           = 500      // pieces of content
	maxImages          = 8        // that a model sees
	maxImage           = 3 << 20  // bytes before base64; providers refuse 5 MB behind it
	maxURI             = 2000     // bytes; half of one would be another one
	maxField           = 2000     // bytes of a name or a description
)

// seen are the pictures that every provider takes.
var seen = map[string]bool{"image/png": true, "image/jpeg": true, "image/gif": true, "image/webp": true}

// Result makes of a server's answer what the model is told and what an editor
// shows. Both get the same text, at most limit bytes of it and a line that says
// how much was left out.
func Result(res *sdk.CallToolResult, limit int) tool.Result {
	if limit <= 0 {
		limit = DefaultResultLimit
	}
	r := &result{limit: limit, shown: maxBlob + limit, parts: maxParts, out: tool.Result{Failed: res.IsError, Content: []tool.Content{}}}
	said := false // the answer has text
	for _, c := range res.Content {
		if _, text := c.(*sdk.TextContent); !text && r.parts == 0 {
			r.skipped++
			continue
		}
		switch c := c.(type) {
		case *sdk.TextContent:
			said = said || strings.TrimSpace(c.Text) != ""
			r.text("", c.Text, "", nil)
		case *sdk.ImageContent:
			r.image("", c.Data, c.MIMEType)
		case *sdk.AudioContent:
			r.block("audio", map[string]any{"type": "audio", "data": c.Data, "mimeType": field(c.MIMEType)}, len(c.Data), c.MIMEType)
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
		if len(structured) <= limit && len(structured) <= r.shown {
			r.shown -= len(structured)
			r.out.Raw = map[string]any{"structuredContent": structured}
		}
		if !said { // else the text says the same, so the protocol
			r.text("", string(structured), "json", nil)
		}
	}
	var cut []string
	if r.left > 0 {
		cut = append(cut, fmt.Sprintf("%d more bytes", r.left))
	}
	if r.skipped > 0 {
		cut = append(cut, fmt.Sprintf("%d more parts", r.skipped))
	}
	if len(cut) > 0 {
		r.add("[the result is cut: "+strings.Join(cut, " and ")+" were left out]", nil)
	}
	r.out.Text = strings.TrimRight(r.model.String(), "\n")
	return r.out
}

// result is one being made.
type result struct {
	out     tool.Result
	model   strings.Builder
	limit   int // bytes that a model may still be told
	shown   int // bytes that an editor may still be shown
	parts   int // how many pieces there may still be
	left    int // bytes of text left out
	skipped int // pieces left out
}

// part adds a piece, if there is room for all of it: what the model is told, and
// what the editor is shown; nil: the same.
func (r *result) part(said string, block json.RawMessage) bool {
	if r.parts == 0 || len(said) > r.limit {
		r.skipped++
		return false
	}
	content := tool.Content{Text: said}
	if block != nil {
		content = tool.Content{Block: block}
	}
	size := sizeOf(content)
	if size > r.shown {
		r.skipped++
		return false
	}
	r.parts--
	r.limit -= len(said)
	r.shown -= size
	r.add(said, &content)
	return true
}

// add adds without a look at the limits.
func (r *result) add(said string, content *tool.Content) {
	r.model.WriteString(said)
	if !strings.HasSuffix(said, "\n") {
		r.model.WriteByte('\n')
	}
	if content == nil {
		content = &tool.Content{Text: said}
	}
	r.out.Content = append(r.out.Content, *content)
}

// text takes a text of the server, or as much of it as there is room for. head
// stands before it for the model; block makes of what is taken what an editor is
// shown, nil: the text. Something that is plainly JSON is shown as such.
func (r *result) text(head, s, lang string, block func(string) any) {
	s = strings.ToValidUTF8(s, "\uFFFD")
	if s == "" && head == "" {
		return
	}
	if r.parts == 0 || len(head) > r.limit {
		if r.left += len(s); head != "" {
			r.skipped++
		}
		return
	}
	kept := cut(s, r.limit-len(head), "")
	content := r.content(kept, len(kept) == len(s), lang, block)
	size := sizeOf(content)
	if size > r.shown { // of what it is full of, a byte becomes six when it is encoded
		around := sizeOf(r.content("", false, "", block))
		kept = cut(kept, max(0, r.shown-around)/6, "")
		content = r.content(kept, false, "", block)
		size = sizeOf(content)
	}
	r.left += len(s) - len(kept)
	if kept == "" && s != "" || size > r.shown {
		return
	}
	r.parts--
	r.limit -= len(head) + len(kept)
	r.shown -= size
	r.add(head+kept, &content)
}

// content is what an editor is shown of a text; whole: it is not cut.
func (r *result) content(s string, whole bool, lang string, block func(string) any) tool.Content {
	if block != nil {
		return tool.Content{Block: encode(block(s))}
	}
	if lang == "" && whole && s != "" && (s[0] == '{' || s[0] == '[') && json.Valid([]byte(s)) {
		lang = "json"
	}
	if lang != "" {
		s = tool.Fence(lang, s)
	}
	return tool.Content{Text: s}
}

// note says something of our own, to both.
func (r *result) note(s string) { r.part(s, nil) }

// block shows something to the editor, and tells the model that it is there.
func (r *result) block(what string, block any, size int, mime string) (shown bool) {
	mime = clean(mime, 80)
	if size <= r.shown {
		if encoded := encode(block); len(encoded) <= r.shown {
			return r.part(fmt.Sprintf("(%s of %d bytes, %s; the user is shown it)", what, size, mime), encoded)
		}
	}
	r.note(fmt.Sprintf("(%s of %d bytes, %s, was too large and left out)", what, size, mime))
	return false
}

// image takes a picture: for the editor as it is, for a model if it can be
// sure to be taken. A provider that refuses one would refuse every later
// request too, so it is looked at what it really is.
func (r *result) image(head string, data []byte, mime string) {
	is := http.DetectContentType(data)
	if seen[is] {
		mime = is
	}
	encoded := ""
	if len(data) <= r.shown {
		encoded = base64.StdEncoding.EncodeToString(data)
	}
	shown := r.block(head+"an image", map[string]any{"type": "image", "data": encoded, "mimeType": field(mime)}, len(data), mime)
	if shown && seen[is] && len(data) <= maxImage && len(r.out.Images) < maxImages {
		r.out.Images = append(r.out.Images, tool.Image{MimeType: is, Data: encoded})
	}
}

func (r *result) link(c *sdk.ResourceLink) {
	if r.noURI(c.URI) {
		return
	}
	name := c.Title
	if name == "" {
		name = c.Name
	}
	link := map[string]any{"type": "resource_link", "uri": c.URI, "name": field(c.Name)}
	for key, v := range map[string]string{"title": c.Title, "description": c.Description, "mimeType": c.MIMEType} {
		if v != "" {
			link[key] = field(v)
		}
	}
	if c.Size != nil {
		link["size"] = *c.Size
	}
	r.part(fmt.Sprintf("(resource %s: %s %s)", clean(c.URI, 500), clean(name, 200), clean(c.Description, 500)), encode(link))
}

func (r *result) resource(c *sdk.ResourceContents) {
	if c == nil || r.noURI(c.URI) {
		return
	}
	name := "resource " + clean(c.URI, 500)
	switch is := http.DetectContentType(c.Blob); {
	case c.Blob != nil && seen[is]:
		r.image(name+": ", c.Blob, is)
	case c.Blob != nil:
		r.block(name, map[string]any{"type": "resource", "resource": map[string]any{
			"uri": c.URI, "mimeType": field(c.MIMEType), "blob": c.Blob,
		}}, len(c.Blob), c.MIMEType)
	default:
		r.text(name+":\n", c.Text, "", func(kept string) any {
			res := map[string]any{"uri": c.URI, "text": kept}
			if c.MIMEType != "" {
				res["mimeType"] = field(c.MIMEType)
			}
			return map[string]any{"type": "resource", "resource": res}
		})
	}
}

// noURI leaves out what has a URI that is none for anybody.
func (r *result) noURI(uri string) bool {
	if len(uri) <= maxURI {
		return false
	}
	r.note(fmt.Sprintf("(a resource whose URI has %d bytes was left out)", len(uri)))
	return true
}

// sizeOf is how long a content is when it is encoded.
func sizeOf(c tool.Content) int {
	if c.Block != nil {
		return len(c.Block) + len(`{"type":"content","content":},`)
	}
	return len(encode(c)) + len(",")
}

// field is a short text of a block.
func field(s string) string { return cut(strings.ToValidUTF8(s, "\uFFFD"), maxField, "…") }
