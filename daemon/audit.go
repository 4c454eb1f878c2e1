package daemon

import (
	"encoding/json"

	"github.com/rs/zerolog"

	"github.com/hermesd/hermesd/daemon/session"
	"github.com/hermesd/hermesd/transport/acp"
)

// audit writes one line for each decision that somebody made on a connection:
// what, where and who; never what a prompt says. Others' lines in the log are for
// finding mistakes, these are for finding out.
func audit(log zerolog.Logger) func(session.ID, session.Event) {
	return func(id session.ID, e session.Event) {
		var f struct {
			Origin   session.Origin  `json:"origin"`
			Outcome  session.Outcome `json:"outcome"`
			Option   string          `json:"option"`
			Question session.Seq     `json:"question"`
			Mode     bool            `json:"mode"`
			Prompt   json.RawMessage `json:"prompt"` // blocks, or of others a number
			Settings struct {
				Modes json.RawMessage `json:"modes"`
			} `json:"settings"`
		}
		if err := json.Unmarshal(e.Data, &f); err != nil || f.Origin.Conn == "" {
			return // nobody's: a time limit, a restart, an agent, a copy
		}
		line := log.Info().Str("session", string(id)).Uint64("event", uint64(e.Seq))
		what := e.Kind.String()
		switch e.Kind {
		case session.KindPromptAdmitted:
			what = "prompt"
			line.Int("bytes", len(f.Prompt))
		case session.KindQuestionAnswered:
			what = "answer"
			line.Uint64("question", uint64(f.Question)).Str("outcome", string(f.Outcome)).Str("option", bounded(f.Option))
		case session.KindSettingsChanged:
			what = "option"
			if f.Mode {
				what = "mode"
				mode, _ := acp.GetString(f.Settings.Modes, "currentModeId")
				line.Str("mode", bounded(mode))
			}
		}
		o := f.Origin
		line.Str("audit", what).Str("conn", short(o.Conn)).Str("client", bounded(o.Client))
		if o.Token != "" {
			line.Str("token", o.Token).Str("remote", o.Remote)
		} else {
			line.Int("uid", o.UID).Int("pid", o.PID)
		}
		line.Msg("decision")
	}
}

// bounded is a word of a peer as it may stand in the log.
func bounded(s string) string {
	if len(s) > 100 {
		return s[:100] + "…"
	}
	return s
}

// short is a connection's id as the log names it.
func short(id string) string { return id[:min(8, len(id))] }
