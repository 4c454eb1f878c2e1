package native

import (
	"fmt"

	"github.com/hermesd/hermesd/agentpool/native/tool"
	"github.com/hermesd/hermesd/daemon/session"
)

// verdict is what the rules say of a call before anybody is asked.
type verdict uint8

const (
	allow verdict = iota
	ask
	refuse
)

// judge applies the rules, strongest first: what is forbidden is refused, what
// is sensitive is asked, what was granted is allowed, then the mode decides.
func judge(m mode, n tool.Need, granted bool) verdict {
	switch {
	case n.Forbidden != "":
		return refuse
	case n.Class == tool.Free:
		return allow
	case n.Sensitive != "":
		return ask
	case granted, m == modeDontAsk:
		return allow
	case m == modeAcceptEdits && n.Class == tool.Editing && !n.Outside:
		return allow
	}
	return ask
}

// grant is what "always" remembers: one class and exactly one file, command or
// name, in one session.
type grant struct {
	Kind string `json:"kind"` // read, fetch, edit, run or call
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

// granted tells whether all that a call needs has been granted.
func granted(grants map[grant]bool, n tool.Need) bool {
	for _, g := range grantsOf(n) {
		if !grants[g] {
			return false
		}
	}
	return len(n.Grants) > 0
}

// Ids of the options of a question.
const (
	allowOnce   = "allow_once"
	allowAlways = "allow_always"
	rejectOnce  = "reject_once"
)

// options are what a user may answer. What is sensitive is never granted for
// good.
func options(n tool.Need) []session.Option {
	all := []session.Option{{ID: allowOnce, Name: "Allow once", Kind: "allow_once"}}
	if n.Sensitive == "" && len(n.Grants) > 0 {
		all = append(all, session.Option{ID: allowAlways, Name: "Always allow " + n.Scope, Kind: "allow_always", Meta: encode(hermesMeta(map[string]any{"grants": grantsOf(n), "scope": "session"}))})
	}
	return append(all, session.Option{ID: rejectOnce, Name: "Reject", Kind: "reject_once"})
}

// denial tells the model, and the user, why a call was not allowed. Only a
// choice of the user is called one.
func denial(a session.Answer) string {
	switch a.Outcome {
	case session.Selected:
		return "refused by the user"
	case session.NotOffered:
		return "not done: the answer named a choice that was not offered, which counts as no"
	case session.Cancelled:
		return "not done: the turn was cancelled while the question was open"
	case session.TimedOut:
		return "not done: nobody answered the question in time; this is no refusal"
	case session.NobodyThere:
		return "not done: nobody was there to be asked; this is no refusal"
	case session.Dismissed:
		return "not done: the question was put away without an answer; this is no refusal"
	case session.NobodyCould:
		return "not done: no attached editor can answer questions; this is no refusal"
	case session.Interrupted:
		return "not done: hermesd was interrupted while the question was open; this is no refusal"
	}
	return fmt.Sprintf("not done: the question ended without an answer (%s)", a.Outcome)
}
