package acp

import "encoding/json"

// ClientCaps is what an editor said at initialize that it can do. What it did
// not say, or said with a wrong type, is false.
type ClientCaps struct {
	FSRead          bool // fs.readTextFile
	FSWrite         bool // fs.writeTextFile
	Terminal        bool // terminal
	AuthTerminal    bool // auth.terminal
	ConfigBoolean   bool // session.configOptions.boolean
	Notices         bool // session.notices
	Compaction      bool // session.compaction
	Plan            bool // plan: plan_update with ids
	ElicitationForm bool // elicitation.form
	ElicitationURL  bool // elicitation.url
	Subagents       bool // subagents
	SharesFiles     bool // _meta.hermes.sharesFiles: its files are those of the daemon's machine
}

// ParseClientCaps reads `clientCapabilities`. It never fails: a malformed
// optional member counts as absent, and absent means no.
func ParseClientCaps(caps json.RawMessage) ClientCaps {
	flag := func(names ...string) bool {
		v, ok := GetPath(caps, names...)
		return ok && string(v) == "true"
	}
	marker := func(names ...string) bool {
		v, ok := GetPath(caps, names...)
		return ok && v[0] == '{'
	}
	return ClientCaps{
		FSRead:          flag("fs", "readTextFile"),
		FSWrite:         flag("fs", "writeTextFile"),
		Terminal:        flag("terminal"),
		AuthTerminal:    flag("auth", "terminal"),
		ConfigBoolean:   marker("session", "configOptions", "boolean"),
		Notices:         marker("session", "notices"),
		Compaction:      marker("session", "compaction"),
		Plan:            marker("plan"),
		ElicitationForm: marker("elicitation", "form"),
		ElicitationURL:  marker("elicitation", "url"),
		Subagents:       marker("subagents"),
		SharesFiles:     flag("_meta", "hermes", "sharesFiles"),
	}
}

// Filter says whether an update of this kind may be sent to an editor with
// these capabilities.
func Filter(kind string, caps ClientCaps) bool {
	switch Gate(kind) {
	case "":
		return true
	case "session.notices":
		return caps.Notices
	case "session.compaction":
		return caps.Compaction
	case "plan":
		return caps.Plan
	case "subagents":
		return caps.Subagents
	}
	return false
}

// FilterOptions leaves out the config options that an editor with these
// capabilities must not see; the rest keeps its bytes. options is returned
// itself if all may stay.
func FilterOptions(options json.RawMessage, caps ClientCaps) json.RawMessage {
	if caps.ConfigBoolean {
		return options
	}
	all, ok := Elements(options)
	if !ok {
		return options
	}
	kept := make([]json.RawMessage, 0, len(all))
	for _, o := range all {
		if t, _ := GetString(o, "type"); t != "boolean" {
			kept = append(kept, o)
		}
	}
	if len(kept) == len(all) {
		return options
	}
	return List(kept...)
}

// Project gives an update as an editor with these capabilities may see it:
// update itself where nothing has to be taken out. ok is false if it may not
// see it at all.
func Project(update []byte, caps ClientCaps) (projected []byte, ok bool) {
	kind := UpdateKind(update)
	if !Filter(kind, caps) {
		return Instead(update)
	}
	if kind == ConfigOption && !caps.ConfigBoolean {
		if options, has := Get(update, "configOptions"); has {
			if kept := FilterOptions(options, caps); len(kept) != len(options) {
				return Set(update, "configOptions", kept), true
			}
		}
	}
	return update, true
}

// Instead is the message that tells an editor what an update it does not take
// would have; ok is false if there is nothing to tell.
func Instead(update []byte) (message []byte, ok bool) {
	if UpdateKind(update) != CompactionUpdate {
		return nil, false
	}
	id, _ := GetString(update, "compactionId")
	if status, _ := GetString(update, "status"); status != "completed" || id == "" {
		return nil, false
	}
	return AgentText(id+"_note", "[The conversation was summed up to make room for more.]", nil), true
}
