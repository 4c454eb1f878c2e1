package native

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"path/filepath"
	"slices"

	"github.com/hermesd/hermesd/agentpool/native/tool"
	"github.com/hermesd/hermesd/daemon/session"
)

// permit returns nil if the call may run. Otherwise the error says why, in
// words for the model and the user.
func (t *turn) permit(ctx context.Context, c *call) error {
	need := c.action.Need
	if need.Sensitive == "" {
		need.Sensitive = t.again(need)
	}
	m := t.currentMode()
	granted, unread := t.granted(need)
	switch judge(m, need, granted) {
	case allow:
		return nil
	case refuse:
		return errors.New(refusal(m, need))
	}
	answer, err := t.host.Ask(ctx, t.question(c, need, unread))
	switch {
	case ctx.Err() != nil:
		return ctx.Err()
	case err != nil:
		return fmt.Errorf("not done, because the question could not be put: %w", err)
	case need.Class == tool.Switching:
		return t.leavePlan(ctx, c, answer)
	case !answer.Allowed():
		t.remember(need)
		return fmt.Errorf("%s. Now: %s", denial(answer), advice(answer))
	}
	// The mode may have been changed while the question stood.
	if now := t.currentMode(); now != m && judge(now, need, true) == refuse {
		return errors.New(refusal(now, need))
	}
	if need.Sensitive == "" && (answer.Option.ID == allowAlways || answer.Option.ID == allowPrefix) {
		return t.grant(ctx, need, answer.Option.ID == allowPrefix)
	}
	return nil
}

// question is what is asked about a call: the call as it was announced, and
// below it why it is asked, where that is not its class alone.
func (t *turn) question(c *call, need tool.Need, unread error) session.Question {
	u := t.described(c)
	meta := map[string]any{}
	say := func(text string) { u.Content = append(slices.Clip(u.Content), tool.Content{Text: text}) }
	if need.Sensitive != "" {
		meta["sensitive"] = need.Sensitive
		say("Asked in every mode: " + need.Sensitive + ".")
	}
	if need.Command != nil && need.Command.Warning != "" {
		meta["warning"] = need.Command.Warning
		say("Careful: " + need.Command.Warning + ".")
	}
	if unread != nil {
		say("What was allowed before could not be looked up: " + unread.Error() + ".")
	}
	q := session.Question{ToolCall: encode(u), Options: t.options(need)}
	if len(meta) > 0 {
		q.Meta = encode(hermesMeta(meta))
	}
	return q
}

// remember notes the files of an edit that was not allowed, also of one by a
// command: for the rest of the turn it is not to be redone unasked.
func (t *turn) remember(n tool.Need) {
	var files []string
	switch {
	case n.Class == tool.Editing:
		files = n.Grants
	case n.Command != nil:
		files = n.Command.Changes()
	}
	for _, f := range files {
		if t.denied == nil {
			t.denied = map[string]bool{}
		}
		t.denied[f] = true
	}
}

// again returns why a call is asked about in every mode because of an edit that
// was not allowed before in this turn, "" if it is not.
func (t *turn) again(n tool.Need) string {
	for _, file := range slices.Sorted(maps.Keys(t.denied)) {
		why := ""
		switch n.Class {
		case tool.Editing:
			for _, p := range n.Grants {
				if p == file || below(file, p) || below(p, file) {
					why = "it changes " + p
				}
			}
		case tool.Running:
			if n.Command == nil {
				why = "it cannot be told which files it changes"
			} else {
				why = n.Command.MayWrite(file)
			}
		case tool.Calling:
			why = "it cannot be told which files it changes"
		}
		if why != "" {
			return fmt.Sprintf("a change of %s was not allowed in this turn, and %s", file, why)
		}
	}
	return ""
}

// below tells whether path lies in dir. Both are clean.
func below(path, dir string) bool {
	rel, err := filepath.Rel(dir, path)
	return err == nil && rel != "." && filepath.IsLocal(rel)
}
