package wire

import (
	"encoding/base64"
	"fmt"
	"strings"

	"github.com/hermesd/hermesd/agentpool/native/llm"
)

// Describe tells a model in text of an attachment that is no picture.
func Describe(a llm.Attachment) string {
	var b strings.Builder
	attribute := func(name, value string) {
		if value != "" {
			fmt.Fprintf(&b, " %s=%q", name, value)
		}
	}
	switch {
	case a.Kind == "link":
		b.WriteString("<resource_link")
		attribute("name", a.Name)
		attribute("uri", a.URI)
		attribute("type", a.MimeType)
		b.WriteString("/>")
	case a.Data != "":
		b.WriteString("<resource")
		attribute("uri", a.URI)
		attribute("type", a.MimeType)
		fmt.Fprintf(&b, ">(%d bytes that are no text and cannot be shown)</resource>", base64.StdEncoding.DecodedLen(len(a.Data))-strings.Count(a.Data, "="))
	default:
		b.WriteString("<resource")
		attribute("uri", a.URI)
		attribute("type", a.MimeType)
		b.WriteString(">\n" + a.Text)
		if !strings.HasSuffix(a.Text, "\n") {
			b.WriteString("\n")
		}
		b.WriteString("</resource>")
	}
	return b.String()
}
