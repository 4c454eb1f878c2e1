package native

import (
	"fmt"
	"strings"

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

// judge applies the rules, strongest first: what is forbidden is refused, and
// what changes something while planning; what is sensitive is asked, what was
// granted is allowed, then the mode decides.
func judge(m mode, n tool.Need, granted bool) verdict {
	switch {
	case n.Forbidden != "":
		return refuse
	case n.Class == tool.Free:
		return allow
	case n.Class == tool.Switching:
		if m != modePlan {
			return allow // and it says that there is nothing to leave
		}
		return ask
	case m == modePlan && n.Class.Changes():
		return refuse
	case n.Sensitive != "":
		return ask
	case granted, m == modeDontAsk:
		return allow
	case m == modeAcceptEdits && n.Class == tool.Editing && !n.Outside:
		return allow
	}
	return ask
}

// refusal tells the model why a call was refused unasked, and what to do.
func refusal(m mode, n tool.Need) string {
	if n.Forbidden != "" {
		return fmt.Sprintf("refused by hermesd in every mode: %s. Do not try to reach the same in another way: tell the user what you wanted to do", n.Forbidden)
	}
	return "not done: the session is in plan mode, in which nothing is changed, no command is run that may change something, and nothing is called that may. " +
		"Read, search and think; when the plan is ready, call exit_plan with it, which asks the user whether to begin"
}

// Ids of the options of a question.
const (
	allowOnce   = "allow_once"
	allowAlways = "allow_always" // exactly this
	allowPrefix = "allow_prefix" // commands that begin like this one
	rejectOnce  = "reject_once"
)

// options are what a user may answer. "Always" is there only where it will hold:
// not for what is asked in every mode, and not if it could not be kept. Of two
// options of the same kind the narrower one stands first, for clients that choose
// by kind.
func (t *turn) options(n tool.Need) []session.Option {
	if n.Class == tool.Switching {
		return []session.Option{
			{ID: string(modeAcceptEdits), Name: "Yes, and accept edits", Kind: "allow_always"},
			{ID: string(modeDefault), Name: "Yes, and ask for each edit", Kind: "allow_once"},
			{ID: string(modePlan), Name: "No, keep planning", Kind: "reject_once"},
		}
	}
	all := []session.Option{{ID: allowOnce, Name: "Allow once", Kind: "allow_once"}}
	if n.Sensitive == "" && len(n.Grants) > 0 && t.keeps(n) {
		meta, name := map[string]any{"grants": grantsOf(n), "scope": "session"}, "Always allow "+n.Scope
		if n.Lasting {
			name += " in this workspace"
			meta["scope"], meta["workspace"] = "workspace", t.workspace
		}
		all = append(all, session.Option{ID: allowAlways, Name: name, Kind: "allow_always", Meta: encode(hermesMeta(meta))})
		if n.Command != nil && n.Command.Prefix != nil {
			prefix := strings.Join(n.Command.Prefix, " ")
			meta := map[string]any{"grants": []grant{{Kind: "prefix", What: prefix}}, "scope": "workspace", "workspace": t.workspace}
			all = append(all, session.Option{ID: allowPrefix, Name: "Always allow commands that begin with “" + prefix + "” in this workspace", Kind: "allow_always", Meta: encode(hermesMeta(meta))})
		}
	}
	return append(all, session.Option{ID: rejectOnce, Name: "Reject", Kind: "reject_once"})
}

// denial says why a call was not allowed. Only a choice of the user is called
// one.
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

// advice tells the model what to do after a denial: who said no is not to be got
// round, and who was not there is not to be asked again at once.
func advice(a session.Answer) string {
	switch a.Outcome {
	case session.Selected, session.NotOffered:
		return "do not try to reach the same in another way; change the approach, or stop and ask the user what to do instead"
	case session.Cancelled:
		return "stop"
	}
	return "do not try again at once or in another way; go on with what needs no permission, or end the turn and say what is missing"
}
