//go:build unix

package native

import (
	"bytes"
	"encoding/json"
	"image"
	"image/png"
	"path/filepath"
	"strings"
	"testing"

	"github.com/hermesd/hermesd/agentpool/native/llm"
	"github.com/hermesd/hermesd/daemon/session"
)

// A picture reaches the model and the editor, and is still there when the
// session is opened again.
func TestAPictureThatIsReadReachesModelAndEditor(t *testing.T) {
	s := &script{messages: [][]llm.Event{{calling("read_file", `{"path":"p.png"}`)}}}
	w := newWorld(t, Config{LLM: s})
	var b bytes.Buffer
	if err := png.Encode(&b, image.NewGray(image.Rect(0, 0, 1, 1))); err != nil {
		t.Fatal(err)
	}
	put(t, filepath.Join(w.dir, "p.png"), b.String())
	w.prompt("look")
	got := s.requests[1].Messages[2].Parts[0].Result
	if len(got.Images) != 1 || got.Images[0].Kind != "image" || got.Images[0].MimeType != "image/png" {
		t.Fatalf("%+v", got)
	}
	shown, err := json.Marshal(w.last(0)["content"])
	if err != nil || !strings.Contains(string(shown), `"type":"image"`) || !strings.Contains(string(shown), got.Images[0].Data) {
		t.Errorf("the editor sees %s", shown)
	}
	before := shape(w.agent.history.messages)
	w.agent.Close()
	w.open(false, session.Settings{})
	if after := shape(w.agent.history.messages); after != before {
		t.Errorf("opened again the history is\n%s, was\n%s", after, before)
	}
}
