package daemon

import (
	"encoding/json"
	"time"

	"github.com/rs/zerolog"

	"github.com/hermesd/hermesd/daemon/session"
	"github.com/hermesd/hermesd/transport/acp"
)

// fact counts and logs a fact of a session. It runs on the session's goroutine,
// after everything that somebody waits for.
func (d *Daemon) fact(id session.ID, e session.Event) {
	f := readFact(e)
	d.counts.fact(e, f)
	log := d.cfg.Log.With().Str("session", string(id)).Logger()
	f.narrate(log, e)
	f.audit(log, e)
}

// fact is what counts and log lines need of any fact.
type fact struct {
	Origin   session.Origin  `json:"origin"`
	By       session.Origin  `json:"by"` // who cancelled
	Outcome  session.Outcome `json:"outcome"`
	Option   string          `json:"option"`
	Question session.Seq     `json:"question"`
	Mode     bool            `json:"mode"`
	Prompt   json.RawMessage `json:"prompt"` // blocks, or of others the number of a prompt
	Stop     string          `json:"stopReason"`
	Error    *session.Error  `json:"error"`
	Agent    string          `json:"agent"`
	Version  string          `json:"version"`
	Reason   string          `json:"reason"`
	Settings struct {
		Modes json.RawMessage `json:"modes"`
	} `json:"settings"`
}

// readFact: what cannot be read stays empty. The facts are our own.
func readFact(e session.Event) (f fact) {
	if json.Unmarshal(e.Data, &f) != nil {
		return fact{}
	}
	return f
}

// turn is the number of the prompt that a fact is about, which names its turn.
func (f fact) turn(e session.Event) (n uint64) {
	if e.Kind == session.KindPromptAdmitted {
		return uint64(e.Seq)
	}
	if json.Unmarshal(f.Prompt, &n) != nil {
		return 0
	}
	return n
}

// narrate writes what becomes of a session, for finding mistakes.
func (f fact) narrate(log zerolog.Logger, e session.Event) {
	switch e.Kind {
	case session.KindTurnStarted:
		log.Debug().Uint64("turn", f.turn(e)).Msg("turn started")
	case session.KindTurnEnded:
		line := log.Info()
		if f.Error != nil {
			// Not its text: that may quote what was said in the session.
			line = log.Warn().Int("code", f.Error.Code)
		}
		line.Uint64("turn", f.turn(e)).Str("stop", bounded(f.ended())).Msg("turn ended")
	case session.KindQuestionAsked:
		log.Debug().Uint64("turn", f.turn(e)).Uint64("question", uint64(e.Seq)).Msg("question asked")
	case session.KindQuestionAnswered:
		if f.Origin.Conn == "" {
			log.Info().Uint64("question", uint64(f.Question)).Str("outcome", string(f.Outcome)).Msg("question closed by nobody's answer")
		}
	case session.KindAgentStarted:
		log.Info().Str("agent", f.Agent).Str("version", bounded(f.Version)).Msg("agent started")
	case session.KindAgentDied:
		log.Warn().Str("agent", f.Agent).Str("reason", bounded(f.Reason)).Msg("agent ended without being asked to")
	}
}

// ended says in a word how a turn ended.
func (f fact) ended() string {
	switch {
	case f.Error == nil:
		return f.Stop
	case f.Error.Code == session.CodeInterrupted:
		return "interrupted"
	}
	return "error"
}

// audit writes one line for each decision that somebody made on a connection:
// what, where and who; never what a prompt says. Others' lines in the log are for
// finding mistakes, these are for finding out.
func (f fact) audit(log zerolog.Logger, e session.Event) {
	o := f.Origin
	if e.Kind == session.KindTurnEnded || e.Kind == session.KindPromptWithdrawn {
		o = f.By
	}
	if o.Conn == "" {
		return // nobody's: a time limit, a restart, an agent, a copy
	}
	line := log.Info().Uint64("event", uint64(e.Seq))
	what := e.Kind.String()
	switch e.Kind {
	case session.KindPromptAdmitted:
		what = "prompt"
		line.Uint64("turn", f.turn(e)).Int("bytes", len(f.Prompt))
	case session.KindTurnEnded, session.KindPromptWithdrawn:
		what = "cancel"
		line.Uint64("turn", f.turn(e))
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
	case session.KindDetached:
		what = "close"
	}
	line.Str("audit", what).Str("conn", short(o.Conn)).Str("client", bounded(o.Client))
	if o.Token != "" {
		line.Str("token", o.Token).Str("remote", o.Remote)
	} else {
		line.Int("uid", o.UID).Int("pid", o.PID)
	}
	line.Msg("decision")
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

// sinceMilli is how long ago a time in Unix milliseconds is, never less than 0.
func sinceMilli(ms int64, now time.Time) time.Duration {
	return max(0, now.Sub(time.UnixMilli(ms)))
}
