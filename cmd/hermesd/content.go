package main

import (
	"encoding/json"
	"strings"

	"github.com/hermesd/hermesd/transport/acp"
)

// toolContent is one item of a tool call's content: a change of a file if path
// is set, else text.
type toolContent struct {
	path, oldText, newText string
	text                   string
}

// toolContents reads the content of a tool call; what it does not know it skips.
func toolContents(call json.RawMessage) []toolContent {
	list, _ := acp.Get(call, "content")
	items, _ := acp.Elements(list)
	var all []toolContent
	for _, item := range items {
		switch kind, _ := acp.GetString(item, "type"); kind {
		case "diff":
			var c toolContent
			c.path, _ = acp.GetString(item, "path")
			c.oldText, _ = acp.GetString(item, "oldText")
			c.newText, _ = acp.GetString(item, "newText")
			all = append(all, c)
		case "content":
			if value, ok := acp.GetPath(item, "content", "text"); ok {
				var c toolContent
				_ = json.Unmarshal(value, &c.text) // empty if it is no string
				all = append(all, c)
			}
		}
	}
	return all
}

// planText writes a plan one entry a line.
func planText(update json.RawMessage) string {
	var p struct {
		Entries []struct {
			Content string `json:"content"`
			Status  string `json:"status"`
		} `json:"entries"`
	}
	if json.Unmarshal(update, &p) != nil {
		return ""
	}
	var b strings.Builder
	for _, e := range p.Entries {
		mark := "[ ]"
		switch e.Status {
		case "completed":
			mark = "[x]"
		case "in_progress":
			mark = "[>]"
		}
		b.WriteString("- " + mark + " " + oneLine(e.Content) + "\n")
	}
	return b.String()
}

// maxDiffCells bounds the table that compares two texts; beyond it everything
// between the common beginning and end counts as replaced.
const maxDiffCells = 4 << 20

// diffLines compares two texts line by line. The result has lines that begin
// with "-", "+" or " " (context, as many around each change as asked for), and
// "…" where unchanged lines are left out.
func diffLines(before, after string, context int) []string {
	a, b := splitLines(before), splitLines(after)
	head := 0
	for head < len(a) && head < len(b) && a[head] == b[head] {
		head++
	}
	tail := 0
	for tail < len(a)-head && tail < len(b)-head && a[len(a)-1-tail] == b[len(b)-1-tail] {
		tail++
	}
	var all []string
	for _, l := range a[:head] {
		all = append(all, " "+l)
	}
	all = append(all, replaced(a[head:len(a)-tail], b[head:len(b)-tail])...)
	for _, l := range a[len(a)-tail:] {
		all = append(all, " "+l)
	}

	// Keep what is near a change.
	keep := make([]bool, len(all))
	for i, l := range all {
		if l[0] != ' ' {
			for j := max(0, i-context); j <= min(len(all)-1, i+context); j++ {
				keep[j] = true
			}
		}
	}
	var out []string
	for i, l := range all {
		switch {
		case keep[i]:
			out = append(out, l)
		case i > 0 && keep[i-1] && i < len(all)-1:
			out = append(out, "…")
		}
	}
	if n := len(out); n > 0 && out[n-1] == "…" {
		out = out[:n-1]
	}
	return out
}

// replaced compares two runs of lines by their longest common subsequence.
func replaced(a, b []string) []string {
	var out []string
	if len(a)*len(b) > maxDiffCells {
		for _, l := range a {
			out = append(out, "-"+l)
		}
		for _, l := range b {
			out = append(out, "+"+l)
		}
		return out
	}
	// common[i][j] is the length of the longest common subsequence of a[i:] and b[j:].
	width := len(b) + 1
	common := make([]int32, (len(a)+1)*width)
	for i := len(a) - 1; i >= 0; i-- {
		for j := len(b) - 1; j >= 0; j-- {
			if a[i] == b[j] {
				common[i*width+j] = common[(i+1)*width+j+1] + 1
			} else {
				common[i*width+j] = max(common[(i+1)*width+j], common[i*width+j+1])
			}
		}
	}
	i, j := 0, 0
	for i < len(a) || j < len(b) {
		switch {
		case i < len(a) && j < len(b) && a[i] == b[j]:
			out = append(out, " "+a[i])
			i, j = i+1, j+1
		case j == len(b) || i < len(a) && common[(i+1)*width+j] >= common[i*width+j+1]:
			out = append(out, "-"+a[i])
			i++
		default:
			out = append(out, "+"+b[j])
			j++
		}
	}
	return out
}

func splitLines(s string) []string {
	if s == "" {
		return nil
	}
	return strings.Split(strings.TrimSuffix(s, "\n"), "\n")
}
