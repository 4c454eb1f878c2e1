package tool

import (
	"bytes"
	"encoding/base64"
	"fmt"
	"image"
	_ "image/gif"  // for the size of a picture
	_ "image/jpeg" // the same
	_ "image/png"  // the same
	"io"
	"net/http"
	"os"
)

// maxPicture is the size of a picture that every provider takes: 5 MB of
// base64.
const maxPicture = 3_700_000

// pictureTypes are the pictures that models and editors take.
var pictureTypes = map[string]bool{"image/png": true, "image/jpeg": true, "image/gif": true, "image/webp": true}

// pictureType is the type of a file that is a picture by its first bytes, ""
// if it is none.
func pictureType(path string) string {
	f, err := os.OpenFile(path, os.O_RDONLY|dontWait, 0)
	if err != nil {
		return ""
	}
	defer f.Close()
	if info, err := f.Stat(); err != nil || !info.Mode().IsRegular() {
		return ""
	}
	head := make([]byte, 512)
	n, _ := io.ReadFull(f, head)
	if t := http.DetectContentType(head[:n]); pictureTypes[t] {
		return t
	}
	return ""
}

// readPicture shows a picture to the editor and to the model.
func readPicture(p place, mime string) (Result, error) {
	data, err := readRegular(p.real)
	if err != nil {
		return Result{}, missing(p, err)
	}
	if len(data) > maxPicture {
		return Result{}, fmt.Errorf("%s is a picture of %d bytes, the limit is %d: make it smaller with a command", p.label, len(data), maxPicture)
	}
	text := fmt.Sprintf("%s is a picture (%s, %d bytes", p.label, mime, len(data))
	if c, _, err := image.DecodeConfig(bytes.NewReader(data)); err == nil {
		text += fmt.Sprintf(", %d × %d", c.Width, c.Height)
	}
	text += ")."
	picture := Image{MimeType: mime, Data: base64.StdEncoding.EncodeToString(data)}
	return Result{
		Text:    text,
		Content: []Content{{Image: &picture}, {Text: text}},
		Raw:     map[string]any{"mimeType": mime, "bytes": len(data)},
		Images:  []Image{picture},
	}, nil
}
