package main

import (
	"bytes"
	"encoding/json"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/hermesd/hermesd/transport/acp"
	"github.com/hermesd/hermesd/transport/acpclient"
)

func TestAnswerGoesToStdoutAndTheRestToStderr(t *testing.T) {
	var out, side bytes.Buffer
	v := newView(&out, &side)
	for _, u := range []string{
		`{"sessionUpdate":"user_message_chunk","content":{"type":"text","text":"do it"}}`,
		`{"sessionUpdate":"agent_thought_chunk","content":{"type":"text","text":"hm"}}`,
		`{"sessionUpdate":"agent_message_chunk","content":{"type":"text","text":"I "}}`,
		`{"sessionUpdate":"agent_message_chunk","content":{"type":"text","text":"do\n"}}`,
		`{"sessionUpdate":"tool_call","toolCallId":"t","title":"Run ls","status":"pending"}`,
		`{"sessionUpdate":"tool_call_update","toolCallId":"t","status":"in_progress"}`,
		`{"sessionUpdate":"tool_call_update","toolCallId":"t","status":"completed","content":[{"type":"content","content":{"type":"text","text":"\u0060\u0060\u0060\n1\n2\n3\n4\n5\n6\n7\n8\n9\n10\n\u0060\u0060\u0060\n"}}]}`,
		`{"sessionUpdate":"tool_call_update","toolCallId":"t","status":"completed"}`,
		`{"sessionUpdate":"tool_call","toolCallId":"u","title":"Evil \u001b[31mtitle","status":"failed"}`,
		`{"sessionUpdate":"agent_message_chunk","content":{"type":"image","data":"","mimeType":"image/png"}}`,
		`{"sessionUpdate":"agent_message_chunk","content":{"type":"text","text":"\u001b]0;x\u0007done"}}`,
		`{"sessionUpdate":"_unknown"}`,
	} {
		v.update(acp.UpdateKind([]byte(u)), json.RawMessage(u))
	}
	v.endMessage()
	if d := cmp.Diff("I do\n[image]]0;xdone\n", out.String()); d != "" {
		t.Errorf("stdout (-want +got)\n%s", d)
	}
	want := `> do it
hm
• Run ls
✓ Run ls
  … 2 lines before
  3
  4
  5
  6
  7
  8
  9
  10
✗ Evil  [31mtitle
`
	if d := cmp.Diff(want, side.String()); d != "" {
		t.Errorf("stderr (-want +got)\n%s", d)
	}
}

func TestDiffLines(t *testing.T) {
	for name, tc := range map[string]struct {
		before, after string
		context       int
		want          string
	}{
		"new file":  {"", "a\nb\n", 2, "+a|+b"},
		"emptied":   {"a\n", "", 2, "-a"},
		"same":      {"a\nb\n", "a\nb\n", 2, ""},
		"middle":    {"a\nb\nc\nd\ne\n", "a\nb\nx\nd\ne\n", 1, " b|-c|+x| d"},
		"two hunks": {"a\nb\nc\nd\ne\nf\ng\n", "A\nb\nc\nd\ne\nf\nG\n", 1, "-a|+A| b|…| f|-g|+G"},
		"moved":     {"a\nb\nc\n", "b\nc\na\n", 0, "-a|…|+a"},
		"no lf":     {"a", "a\nb", 3, " a|+b"},
	} {
		if got := strings.Join(diffLines(tc.before, tc.after, tc.context), "|"); got != tc.want {
			t.Errorf("%s: %q, want %q", name, got, tc.want)
		}
	}
}

// The diff, applied, gives what was said to come out.
func FuzzDiffLines(f *testing.F) {
	f.Add("a\nb\nc\n", "a\nx\nc\n")
	f.Add("", "\n\n")
	f.Fuzz(func(t *testing.T, before, after string) {
		all := diffLines(before, after, 1<<20)
		var a, b []string
		for _, l := range all {
			if l[0] != '+' {
				a = append(a, l[1:])
			}
			if l[0] != '-' {
				b = append(b, l[1:])
			}
		}
		if len(all) == 0 { // nothing has changed
			a, b = splitLines(before), splitLines(after)
			if d := cmp.Diff(a, b); d != "" {
				t.Errorf("a change is not shown: %s", d)
			}
			return
		}
		if d := cmp.Diff(splitLines(before), a) + cmp.Diff(splitLines(after), b); d != "" {
			t.Error(d)
		}
	})
}

func TestHugeTextsAreComparedInBoundedTime(t *testing.T) {
	a, b := strings.Repeat("a\n", 20_000), strings.Repeat("b\n", 20_000)
	if got := len(diffLines(a, b, 0)); got != 40_000 {
		t.Errorf("%d lines", got)
	}
}

func TestChooseOption(t *testing.T) {
	options := []acpclient.Option{{ID: "1", Name: "Once", Kind: "allow_once"}, {ID: "2", Name: "No", Kind: "reject_once"}, {ID: "3", Name: "Never", Kind: "reject_once"}}
	for word, want := range map[string]string{"1": "1", "3": "3", "allow_once": "1", "reject_once": "", "Once": "", "": ""} {
		got, err := chooseOption(options, word)
		if got.ID != want || (err == nil) != (want != "") {
			t.Errorf("%q: %q, %v", word, got.ID, err)
		}
	}
}

func TestAgo(t *testing.T) {
	now := time.Date(2026, 1, 2, 3, 4, 5, 0, time.Local)
	for d, want := range map[time.Duration]string{time.Second: "just now", 90 * time.Second: "1 min ago", 3 * time.Hour: "3 h ago", 100 * time.Hour: "2025-12-28"} {
		if got := ago(now.Add(-d), now); got != want {
			t.Errorf("%v: %q, want %q", d, got, want)
		}
	}
	if ago(time.Time{}, now) != "" {
		t.Error("no time is no text")
	}
}

func TestSpinnerShowsAfterASecondAndIsTakenAway(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		out := newScreen()
		sp := newSpinner(out, true)
		sp.start("working")
		time.Sleep(999 * time.Millisecond)
		synctest.Wait()
		if out.all() != "" {
			t.Errorf("it does not wait: %q", out.all())
		}
		time.Sleep(2 * time.Second)
		synctest.Wait()
		sp.stop()
		if got := out.all(); !strings.Contains(got, "working 1s") || !strings.HasSuffix(got, "working 2s\r\x1b[K") {
			t.Errorf("it wrote %q", got)
		}
		sp.start("again")
		sp.stop()
		before := out.all()
		time.Sleep(time.Minute)
		if out.all() != before {
			t.Error("it goes on after it was stopped")
		}
	})
}

func TestSpinnerIsSilentWithoutATerminal(t *testing.T) {
	var out bytes.Buffer
	sp := newSpinner(&out, false)
	sp.start("working")
	sp.stop()
	if out.Len() != 0 {
		t.Errorf("it wrote %q", out.String())
	}
}
