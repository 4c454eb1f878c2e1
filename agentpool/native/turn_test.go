package native

import (
	"strings"
	"testing"
)

func TestSayIsStreamedAfterANotice(t *testing.T) {
	w := newWorld(t, Config{})
	w.prompt("say hello world")
	if got := w.said(); !strings.HasSuffix(got, "\n\nhello world") || !strings.Contains(got, "offline") {
		t.Errorf("said %q", got)
	}
	w.prompt("say again")
	if got := w.said(); strings.Count(got, "I am the offline model") != 1 || !strings.HasSuffix(got, "again") {
		t.Errorf("said %q", got)
	}
}
