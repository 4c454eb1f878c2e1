package daemon_test

import (
	"strings"
	"testing"

	"github.com/hermesd/hermesd/transport/acpclient"
)

// What one editor tells the turn of another is shown to all of them, gets into
// the turn, and is answered before the turn's end.
func TestSteeringTheTurnOfAnother(t *testing.T) {
	outside(t, settings{}, func(t *testing.T, p *place) {
		a := p.editor(acpclient.Options{})
		id := p.newSession(a)
		b := p.joined(id, acpclient.Options{})
		long := start(t, a, id, "run echo worked")
		question := awaitQuestion(t, b).ID // the turn waits for it
		if got := stop(t, start(t, b, id, "/queue")); got != "end_turn" {
			t.Errorf("/queue is answered %s", got)
		}
		awaitText(t, b, "No prompt waits.")
		waiting := start(t, b, id, "say queued")
		if got := stop(t, start(t, b, id, "/steer say steered")); got != "end_turn" {
			t.Errorf("/steer is answered %s", got)
		}
		awaitText(t, a, "/steer say steered") // the user's words
		if got := stop(t, start(t, b, id, "/queue drop 1")); got != "end_turn" {
			t.Errorf("/queue drop is answered %s", got)
		}
		if got := stop(t, waiting); got != "cancelled" {
			t.Errorf("the prompt that was taken back is answered %s", got)
		}
		if err := b.Answer(question, "allow_once"); err != nil {
			t.Fatal(err)
		}
		if got := stop(t, long); got != "end_turn" {
			t.Errorf("the turn is answered %s", got)
		}
		c := p.joined(id, acpclient.Options{})
		for name, e := range map[string]*acpclient.Client{"a": a, "b": b, "c": c} {
			story := ""
			for _, entry := range e.Entries() {
				story += string(entry.Raw)
			}
			worked, steered := strings.Index(story, "worked"), strings.LastIndex(story, "steered")
			if worked < 0 || steered < worked {
				t.Errorf("%s does not see what the turn was told after what it was doing", name)
			}
			if strings.Contains(story, `"text":"queued"`) {
				t.Errorf("%s: the prompt that was taken back ran", name)
			}
		}
	})
}
