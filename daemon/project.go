package daemon

import (
	"context"
	"encoding/json"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/hermesd/hermesd/daemon/session"
	"github.com/hermesd/hermesd/transport/acp"
	"github.com/hermesd/hermesd/transport/jsonrpc"
)

// project writes what one record means to this editor. It returns errPumpDone
// after the last event the connection is to see.
func (a *attachment) project(ctx context.Context, r session.Record) error {
	switch r.Kind {
	case session.KindUpdate:
		a.update(r.Data)
	case session.KindPromptAdmitted:
		var f struct {
			Origin session.Origin `json:"origin"`
		}
		if json.Unmarshal(r.Data, &f) == nil {
			if w := a.take(f.Origin); w != nil {
				w.origin = f.Origin
				a.prompts[r.First] = w
			}
		}
	case session.KindPromptWithdrawn:
		var f session.PromptWithdrawn
		if json.Unmarshal(r.Data, &f) == nil {
			a.answerPrompt(f.Prompt, "cancelled", withdrawn(f), nil, nil)
		}
	case session.KindPromptJoined:
		return a.joined(ctx, r)
	case session.KindTurnStarted:
		return a.turnStarted(ctx, r)
	case session.KindTurnEnded:
		var f session.TurnEnded
		if json.Unmarshal(r.Data, &f) == nil {
			a.info(acp.InfoUpdate("", time.UnixMilli(r.Time), acp.HermesMeta(raw(map[string]any{"turn": endedState(f)}))))
			var err error
			if f.Error != nil {
				err = f.Error
			}
			a.answerPrompt(f.Prompt, f.StopReason, err, f.Usage, f.Meta)
		}
	case session.KindQuestionAsked:
		var f session.QuestionAsked
		if json.Unmarshal(r.Data, &f) == nil {
			a.put(r.First, f)
		}
	case session.KindQuestionAnswered:
		var f session.QuestionAnswered
		if json.Unmarshal(r.Data, &f) == nil {
			a.withdraw(f.Question)
		}
	case session.KindSettingsChanged:
		var f session.SettingsChanged
		if json.Unmarshal(r.Data, &f) == nil {
			a.settings(f)
		}
	case session.KindDetached:
		var f session.Detached
		if json.Unmarshal(r.Data, &f) == nil && f.Origin.Conn == a.e.Conn() {
			if w := a.take(f.Origin); w != nil {
				a.endPrompts()
				a.reply(w, acp.EmptyResult(), nil)
				return errPumpDone
			}
		}
	case session.KindDeleted:
		return session.ErrNotFound // the pump's end says so
	}
	return nil
}

// update writes an agent's update as this editor may see it.
func (a *attachment) update(u []byte) {
	shown, ok := acp.Project(u, a.e.caps())
	if !ok {
		return
	}
	a.info(session.Bounded(shown, min(a.e.d.cfg.Limits.MaxFrame, session.MaxUpdate)))
}

// info writes an update of ours.
func (a *attachment) info(u []byte) {
	// Room first: a reader that keeps up is never cut off for what we write.
	if a.e.peer.Room(a.ctx, a.e.d.cfg.Limits.SoftQueue) == nil {
		a.e.send(acp.UpdateFrame(string(a.session.ID()), u))
	}
}

// turnStarted shows the prompt to everybody but the one who wrote it, and
// everybody that a turn runs.
func (a *attachment) turnStarted(ctx context.Context, r session.Record) error {
	var f session.TurnStarted
	if json.Unmarshal(r.Data, &f) != nil {
		return nil
	}
	if own := a.prompts[f.Prompt]; own != nil {
		a.running(f.Prompt, own.origin)
		return nil
	}
	by, err := a.showPrompt(ctx, f.Prompt)
	if err != nil {
		return err
	}
	a.running(f.Prompt, by)
	return nil
}

// joined shows a prompt that went into the running turn, and answers it.
func (a *attachment) joined(ctx context.Context, r session.Record) error {
	var f session.PromptJoined
	if json.Unmarshal(r.Data, &f) != nil {
		return nil
	}
	own := a.prompts[f.Prompt] != nil
	if !own {
		if _, err := a.showPrompt(ctx, f.Prompt); err != nil {
			return err
		}
	}
	if len(f.Update) > 0 {
		a.update(f.Update)
	}
	if own {
		a.answerPrompt(f.Prompt, "end_turn", nil, nil, acp.HermesMeta(raw(map[string]any{"joined": f.Turn})))
	}
	return nil
}

// showPrompt shows a prompt that another connection wrote, and says who it was.
func (a *attachment) showPrompt(ctx context.Context, seq session.Seq) (by session.Origin, err error) {
	err = a.session.Read(ctx, seq, seq, func(p session.Record) error {
		var prompt session.PromptAdmitted
		if err := json.Unmarshal(p.Data, &prompt); err != nil {
			return err
		}
		by = prompt.Origin
		if by.Conn == a.e.Conn() {
			return nil // answered already: the session was closed and opened again
		}
		for _, u := range session.UserChunks(seq, prompt.Prompt, prompt.Origin) {
			a.update(u)
		}
		return nil
	})
	if err != nil {
		return by, fmt.Errorf("reading prompt %d: %w", seq, err)
	}
	return by, nil
}

// running says that a turn runs.
func (a *attachment) running(prompt session.Seq, by session.Origin) {
	a.info(acp.InfoUpdate("", time.Time{}, acp.HermesMeta(raw(map[string]any{"turn": runningState(prompt, by)}))))
}

func runningState(prompt session.Seq, by session.Origin) map[string]any {
	s := map[string]any{"state": "running", "prompt": prompt}
	if who := by.Who(); who != (session.Who{}) {
		s["origin"] = who
	}
	return s
}

func endedState(f session.TurnEnded) map[string]any {
	s := map[string]any{"state": "idle", "prompt": f.Prompt}
	if f.Error != nil {
		s["error"] = f.Error
	} else {
		s["stopReason"] = f.StopReason
	}
	return s
}

func withdrawn(f session.PromptWithdrawn) error {
	if f.Code == 0 {
		return nil
	}
	return &session.Error{Code: f.Code, Message: f.Reason}
}

// answerPrompt answers a prompt of this connection.
func (a *attachment) answerPrompt(prompt session.Seq, stop string, err error, usage, meta json.RawMessage) {
	w := a.prompts[prompt]
	if w == nil {
		return
	}
	delete(a.prompts, prompt)
	if err != nil {
		a.reply(w, nil, wire(err, a.session.ID()))
		return
	}
	a.reply(w, acp.PromptResult(stop, usage, meta), nil)
}

// tellDeleted says that the session is gone for good.
func (a *attachment) tellDeleted(at time.Time) {
	a.info(acp.InfoUpdate("", at, acp.HermesMeta(raw(map[string]any{"deleted": true}))))
}

// endPrompts answers what this connection still waits for when it leaves the
// session.
func (a *attachment) endPrompts() {
	for p := range a.prompts {
		a.answerPrompt(p, "cancelled", nil, nil, nil)
	}
}

// settings tells of changed modes and options, then answers the one who
// changed them.
func (a *attachment) settings(f session.SettingsChanged) {
	if f.Mode {
		if mode, ok := acp.GetString(f.Settings.Modes, "currentModeId"); ok {
			a.info(acp.ModeUpdate(mode))
		}
	}
	if f.Options && len(f.Settings.Options) > 0 {
		a.info(acp.OptionsUpdate(acp.FilterOptions(f.Settings.Options, a.e.caps())))
	}
	if w := a.take(f.Origin); w != nil {
		a.reply(w, w.result(f.Settings), nil)
	}
}

// catchUp replays the session's history up to its snapshot, answers the load,
// and then tells what is open.
func (a *attachment) catchUp(ctx context.Context, w *waiting, snap session.Snapshot, result any) error {
	rp := session.NewReplay(a.session.ID(), a.e.caps(), a.e.d.cfg.Limits.Replay)
	err := a.session.Read(ctx, 1, snap.At, func(r session.Record) error {
		rp.Add(r)
		return nil
	})
	if err != nil {
		err = fmt.Errorf("reading the history: %w", err)
		a.reply(w, nil, wire(err, a.session.ID()))
		return err
	}
	for _, u := range rp.Finish() {
		a.info(u)
	}
	a.reply(w, result, nil)
	a.tell(snap, false)
	return nil
}

// present answers a resume (or new, or fork) and then tells what is open.
func (a *attachment) present(w *waiting, snap session.Snapshot, result any) error {
	a.reply(w, result, nil)
	a.tell(snap, true)
	return nil
}

// tell writes what is open at a snapshot: after the answer, before what is new.
func (a *attachment) tell(snap session.Snapshot, calls bool) {
	if calls {
		for _, u := range [][]byte{snap.Commands, snap.Info} {
			if u != nil {
				a.update(u)
			}
		}
		for _, c := range snap.Calls {
			a.update(c)
		}
	}
	if snap.Turn != nil {
		a.info(acp.InfoUpdate("", time.Time{}, acp.HermesMeta(raw(map[string]any{"turn": runningState(snap.Turn.Prompt, snap.Turn.Origin)}))))
	}
	for _, q := range snap.Questions {
		a.put(q.Seq, q.QuestionAsked)
	}
}

// questionID is the id of our request for a question: it names session and
// event, so it is never used for another one, in no life of the daemon.
func questionID(id session.ID, q session.Seq) string { return fmt.Sprintf("%s:%d", id, q) }

func parseQuestionID(rawID json.RawMessage) (id string, q session.Seq, ok bool) {
	var s string
	if json.Unmarshal(rawID, &s) != nil {
		return "", 0, false
	}
	id, num, ok := strings.Cut(s, ":")
	if !ok {
		return "", 0, false
	}
	n, err := strconv.ParseUint(num, 10, 64)
	return id, session.Seq(n), err == nil
}

// replied is what the editor answered to a request of ours that nobody waits
// for: a question. It runs on the reader.
func (e *editor) replied(rawID, result json.RawMessage, failure *jsonrpc.Error, line uint64) {
	id, q, ok := parseQuestionID(rawID)
	if !ok {
		return
	}
	a := e.attachment(id)
	if a == nil || !a.answered(q) {
		return // answered or withdrawn before
	}
	r := session.Reply{Result: result}
	defer func() {
		if r.Unable { // nor can it answer what is open in its other sessions
			for _, a := range e.attachments() {
				a.session.Reconsider()
			}
		}
	}()
	if failure != nil {
		if r.Unable = failure.Code == session.CodeNoMethod; r.Unable {
			e.unable.Store(true)
		}
		r.Failed = true
	} else {
		r.Option, r.Selected, r.Later = acp.ParseOutcome(result)
		r.Failed = !r.Selected && !r.Later && !putAway(result)
	}
	a.session.Answer(e.origin(line, rawID), q, r)
}

// putAway says whether the answer is a well-formed "cancelled": the user
// closed the question without deciding.
func putAway(result json.RawMessage) bool {
	outcome, _ := acp.Get(result, "outcome")
	word, _ := acp.GetString(outcome, "outcome")
	return word == "cancelled"
}
