package native

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/hermesd/hermesd/agentpool/native/grants"
	"github.com/hermesd/hermesd/agentpool/native/tool"
)

// This file remembers "always". What concerns files is remembered for the
// session and stands in its log; what concerns commands, tools of others and
// hosts holds in the workspace and stands in the file of package grants.

// grant is one thing that was allowed: a class and exactly one file, command or
// name.
type grant struct {
	Kind string `json:"kind"` // read, fetch, edit, run, call or prefix
	What string `json:"what"` // resolved path, the command, host or tool
}

// grantsOf returns all that must have been granted for a call of this need.
func grantsOf(n tool.Need) []grant {
	kind := map[tool.Class]string{tool.Reading: "read", tool.Fetching: "fetch", tool.Editing: "edit", tool.Running: "run", tool.Calling: "call"}[n.Class]
	var all []grant
	for _, what := range n.Grants {
		all = append(all, grant{Kind: kind, What: what})
	}
	return all
}

// lasting is what a class is called in the file of grants, "" if it does not
// stand there.
func lasting(n tool.Need) grants.Kind {
	if !n.Lasting {
		return ""
	}
	return map[tool.Class]grants.Kind{tool.Running: grants.Command, tool.Calling: grants.Tool, tool.Fetching: grants.Host}[n.Class]
}

// keeps tells whether an "always" for a call will hold.
func (a *Agent) keeps(n tool.Need) bool {
	if lasting(n) == "" {
		return !n.Lasting
	}
	if a.cfg.Grants == nil {
		return false
	}
	_, err := a.cfg.Grants.In(a.workspace)
	return err == nil
}

// granted tells whether all that a call needs has been granted and is not
// revoked. The error says why that could not be found out.
func (a *Agent) granted(n tool.Need) (bool, error) {
	if len(n.Grants) == 0 {
		return false, nil
	}
	kind := lasting(n)
	if kind == "" {
		for _, g := range grantsOf(n) {
			if !a.grants[g] {
				return false, nil
			}
		}
		return !n.Lasting, nil
	}
	if a.cfg.Grants == nil {
		return false, nil
	}
	given, err := a.cfg.Grants.In(a.workspace)
	if err != nil {
		return false, err
	}
	if n.Command != nil {
		var exact []string
		var prefixes [][]string
		for _, g := range given {
			switch g.Kind {
			case grants.Command:
				exact = append(exact, g.What)
			case grants.Prefix:
				prefixes = append(prefixes, strings.Fields(g.What))
			}
		}
		return n.Command.Covered(exact, prefixes), nil
	}
	have := map[string]bool{}
	for _, g := range given {
		if g.Kind == kind {
			have[g.What] = true
		}
	}
	for _, what := range n.Grants {
		if !have[what] {
			return false, nil
		}
	}
	return true, nil
}

// grant remembers an "always". If it cannot be kept, the user is told; the call
// is allowed all the same.
func (t *turn) grant(ctx context.Context, n tool.Need, prefix bool) error {
	kind := lasting(n)
	if kind == "" {
		for _, g := range grantsOf(n) {
			t.grants[g] = true
			if err := t.host.Record(ctx, encode(record{Grant: &g, Session: t.id})); err != nil {
				return err
			}
		}
		return nil
	}
	what := n.Grants
	if prefix && n.Command != nil {
		kind, what = grants.Prefix, []string{strings.Join(n.Command.Prefix, " ")}
	}
	err := errors.New("there is no place for it")
	if t.cfg.Grants != nil {
		for _, w := range what {
			if _, err = t.cfg.Grants.Give(t.workspace, kind, w, string(t.id)); err != nil {
				break
			}
		}
	}
	if err != nil {
		note := fmt.Sprintf("This was allowed once: that it is always allowed could not be kept (%s).\n\n", err)
		return t.host.Update(ctx, appendChunk(chunkHead("agent_message_chunk", t.messageID()), note))
	}
	return nil
}
