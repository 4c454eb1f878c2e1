//go:build unix

package cases

// pending are the cases that cannot be played yet, with what they wait for.
// Whoever builds that takes them off the list.
var pending = map[string]string{
	"C01": "external agents: noise on the stdout of an agent process",
	"C14": "external agents: unknown updates, options and _meta passed through from one",
	"C20": "external agents: one that speaks of a session before session/new is answered",
	"C46": "external agents: one that cannot be started for want of a PATH",
	"C48": "external agents: one that dies or falls silent in mid-turn",
	"C57": "external agents: terminals hosted for one, output cut to a limit",
}

// remaining says of cases that are played what of them waits for a later part.
var remaining = map[string]string{
	"C02": "the same tolerance towards external agents",
	"C07": "external agents: a character cut by their write boundaries",
	"C12": "external agents: two sessions on one process",
	"C13": "external agents: their extension requests and notifications",
	"C16": "external agents: one that answers another version",
	"C17": "external agents: what they are told at initialize",
	"C18": "external agents: terminal/* served for them",
	"C19": "external agents: an update after their own answer",
	"C26": "external agents: exactly one session/cancel reaches them",
	"C27": "language models: each tool call has one result in the next request; holders: a command ends with the daemon that was killed",
	"C28": "external agents: one lives on after a cancel",
	"C29": "external agents: an option they did not offer is never sent to them",
	"C34": "external agents: a session that is gone there",
	"C41": "language models: the file's lines in what the model is sent",
	"C42": "language models: an image the provider refuses is not sent again",
	"C45": "external agents and Windows: command lines, URIs and paths of Windows",
	"C47": "language models: a key that is missing or bad, and external agents that need a login",
	"C49": "external agents: a process tree behind a wrapper",
	"C59": "language models: the option `model`",
	"C60": "language models: what the second request holds",
}
