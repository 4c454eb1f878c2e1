package external

import (
	"encoding/json"

	"github.com/hermesd/hermesd/daemon/session"
	"github.com/hermesd/hermesd/transport/acp"
)

// hear takes a notification of the program, in the reader. It waits while too
// much is unwritten.
func (l *life) hear(method string, params json.RawMessage, _ uint64) {
	switch method {
	case "session/update":
		if id, _ := acp.GetString(params, "sessionId"); l.id() != "" && id != l.id() {
			return // of a session that is not ours: programs have had others before
		}
		if u, ok := acp.Get(params, "update"); ok {
			l.update(u)
		}
	case "$/cancel_request":
		if id, ok := acp.Get(params, "requestId"); ok {
			l.peer.CancelRequest(id)
		}
	}
}

// update takes one of the program's updates. What is none is left out, and so is
// what only hermesd itself may say.
func (l *life) update(u []byte) {
	if said, ok := acp.GetString(u, "sessionUpdate"); !ok || said == "" {
		l.a.cfg.Log.Debug().Str("agent", l.a.cfg.Name).Str("session", string(l.a.meta.ID)).Msg("an update of the agent has no kind")
		return
	}
	if meta, ok := acp.Get(u, "_meta"); ok {
		if _, ours := acp.Get(meta, "hermes"); ours {
			u = acp.Set(u, "_meta", acp.Delete(meta, "hermes"))
		}
	}
	switch kind := acp.UpdateKind(u); kind {
	case acp.CurrentMode:
		if mode, ok := acp.GetString(u, "currentModeId"); ok && l.a.modeIs(mode) {
			l.changed()
		}
		return
	case acp.ConfigOption:
		if options, ok := acp.Get(u, "configOptions"); ok {
			l.a.optionsAre(options)
			l.changed()
		}
		return
	default:
		if l.mute.Load() && kind != acp.AvailableCommands {
			return // the log has it
		}
	}
	for _, x := range l.order.repair(u) {
		_ = l.a.host.Update(l.ctx, x) // else the life or the session has ended
	}
}

// changed tells the session that the program has changed its settings by itself.
func (l *life) changed() { _ = l.a.host.Changed(l.ctx, l.a.Settings()) }

// turnBegins: messages are named after the turn they belong to.
func (l *life) turnBegins(turn session.Seq) { l.order.begins(turn) }

// failCalls ends the calls that the program has left open by ending.
func (l *life) failCalls() {
	meta := acp.HermesMeta(json.RawMessage(`{"state":"unknown"}`))
	for _, id := range l.order.open() {
		_ = l.a.host.Update(l.a.ctx, acp.ToolCallFailed(id, "The agent ended while this ran. What it did is unknown: look before you repeat it.", meta))
	}
}
