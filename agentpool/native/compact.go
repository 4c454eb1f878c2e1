package native

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/hermesd/hermesd/agentpool/native/llm"
)

// compaction replaces the beginning of a history by a summary of it. The
// session's log keeps everything.
type compaction struct {
	Summary string `json:"summary"`
	Kept    int    `json:"kept,omitempty"` // messages at the end that stay as they are
}

const (
	// compactAt is the part of a model's window, in percent, from which on the
	// conversation is summed up before the model is asked again.
	compactAt = 80

	// worthPercent is the least part of the window that the conversation itself
	// must take for that.
	worthPercent = 20

	// shortResult is how much of a tool's result is left for the model when the
	// conversation does not even fit for being summed up.
	shortResult = 500
)

// windowOf is how many tokens a model holds.
func windowOf(info llm.Info) int {
	if info.Window <= 0 {
		return unknownWindow
	}
	return info.Window
}

// threshold is the number of tokens from which on a conversation is summed up.
func threshold(info llm.Info) int { return windowOf(info) * compactAt / 100 }

// used is how many tokens the next request will hold: what the model counted
// last, and a guess of four bytes a token for what came since.
func (t *turn) used() int {
	if t.meter.context == 0 {
		return (t.history.bytes + t.prefix.size()) / 4
	}
	return t.meter.context + max(0, t.history.bytes-t.meter.bytes)/4
}

// makeRoom sums the conversation up if the next request would be too large. A
// failure is not the end of the turn: the request may fit all the same.
func (t *turn) makeRoom(ctx context.Context) error {
	info := t.model.Info()
	// What tools and instructions take is not won back: the conversation must be
	// worth it.
	if t.noRoom || t.used() < threshold(info) || t.history.bytes/4 < windowOf(info)*worthPercent/100 || !t.compactable() {
		return nil
	}
	err := t.compact(ctx, "")
	if err != nil && ctx.Err() == nil {
		t.noRoom = true
		return nil
	}
	return err
}

// compactable says whether there is anything to sum up but the prompt.
func (t *turn) compactable() bool { return len(t.history.messages)-t.asked() >= 2 }

// asked is the number of messages at the end that wait for an answer as they
// stand. In the middle of a turn there are none: its prompt is summed up too.
func (t *turn) asked() int {
	n := 0
	for n < len(t.history.messages) && t.history.messages[len(t.history.messages)-1-n].Role == llm.RoleUser {
		n++
	}
	return n
}

// compact has the model sum up the conversation and puts the summary in its
// place. Every attached editor is told of its beginning and its end.
func (t *turn) compact(ctx context.Context, focus string) error {
	t.compactions++
	id := fmt.Sprintf("compact_%d_%d", t.seq, t.compactions)
	if err := t.freeze(ctx); err != nil {
		return err
	}
	if err := t.host.Update(ctx, compactionUpdate(id, "in_progress", "", "")); err != nil {
		return err
	}
	c := compaction{Kept: t.asked()}
	text, err := t.summarize(ctx, t.history.messages[:len(t.history.messages)-c.Kept], focus)
	c.Summary = cutText(text)
	if err == nil {
		err = t.host.Record(ctx, encode(record{Compaction: &c, Session: t.id}))
	}
	if err != nil {
		status := "failed"
		if ctx.Err() != nil {
			status = "cancelled"
		}
		pctx, cancel := t.parting(ctx)
		defer cancel()
		_ = t.host.Update(pctx, compactionUpdate(id, status, "", modelError(err, t.model.Info().Name).Error()))
		return err
	}
	t.history.compact(c)
	t.meter.context = 0
	t.told, t.knew = t.prefix.MCP, t.prefix.MCP // what it was told later is summed up too
	if err := t.host.Update(ctx, compactionUpdate(id, "completed", c.Summary, "")); err != nil {
		return err
	}
	return t.host.Update(ctx, provenanceUpdate(t.history.compactions))
}

// summarize asks the model for the summary. The request begins with the bytes
// of those before, which the provider has read already. If it does not fit,
// results of tools are shortened, then the oldest messages are left out.
func (t *turn) summarize(ctx context.Context, past []llm.Message, focus string) (string, error) {
	ask := llm.SummaryInstruction
	if focus != "" {
		ask += "\n\nThe user wants you to take care of this above all: " + focus
	}
	request := llm.Message{Role: llm.RoleUser, Parts: []llm.Part{{Text: ask}}}
	for {
		messages := append(past[:len(past):len(past)], request)
		var text strings.Builder
		var usage llm.Usage
		req := llm.Request{System: t.prefix.System, Tools: t.prefix.Tools, Messages: messages, Effort: t.effort, Session: string(t.id)}
		stop, err := t.model.Stream(ctx, req, func(e llm.Event) error {
			switch e.Kind {
			case llm.EventText:
				if text.Len() <= maxKept {
					text.WriteString(e.Text)
				}
			case llm.EventUsage:
				usage = e.Usage
			}
			return nil
		})
		if usage != (llm.Usage{}) {
			cost := priced(usage, t.model.Info())
			t.meter.add(cost)
			if rerr := t.host.Record(ctx, encode(record{Aside: &cost, Session: t.id})); err == nil {
				err = rerr
			}
		}
		var failed *llm.Error
		if errors.As(err, &failed) && failed.TooLong {
			if shorter, ok := shortened(past); ok {
				past = shorter
				continue
			}
		}
		switch {
		case err != nil:
			return "", err
		case stop == llm.StopRefusal:
			return "", errors.New("the model does not want to sum up the conversation")
		case strings.TrimSpace(text.String()) == "":
			return "", errors.New("the model gave no summary of the conversation")
		}
		return strings.TrimSpace(text.String()), nil
	}
}

// shortened is a conversation that says less: with short results first, then
// without its older half. ok is false if nothing more can be left out.
func shortened(past []llm.Message) (less []llm.Message, ok bool) {
	less = make([]llm.Message, len(past))
	for i, m := range past {
		parts := make([]llm.Part, len(m.Parts))
		for j, p := range m.Parts {
			if r := p.Result; r != nil && (len(r.Text) > 2*shortResult || len(r.Images) > 0) {
				cut := *r
				cut.Images = nil
				if len(cut.Text) > shortResult {
					cut.Text = strings.ToValidUTF8(cut.Text[:shortResult], "") + "\n[cut]"
				}
				p.Result, ok = &cut, true
			}
			if a := p.Attachment; a != nil && len(a.Data)+len(a.Text) > 2*shortResult {
				p, ok = llm.Part{Text: "[an attachment: " + a.Kind + " " + a.URI + "]"}, true
			}
			parts[j] = p
		}
		m.Parts = parts
		less[i] = m
	}
	if ok {
		return less, true
	}
	// A conversation begins with what a user said.
	for i := (len(past) + 1) / 2; i < len(past); i++ {
		if past[i].Role == llm.RoleUser {
			return past[i:], true
		}
	}
	return nil, false
}

// compact puts a summary in the place of all messages but the last.
func (h *history) compact(c compaction) {
	kept := h.messages[len(h.messages)-min(c.Kept, len(h.messages)):]
	text := "The conversation before this was summed up, by you, to make room:\n\n" + c.Summary
	if len(kept) == 0 {
		text += "\n\nGo on from here."
	}
	n, bytes := h.compactions+1, 0
	prompt := h.prompt - (len(h.messages) - len(kept)) + 1 // behind the summary
	if h.prompt == 0 || prompt <= 1 {
		prompt = 0 // it is in the summary
	}
	messages := append([]llm.Message{{Role: llm.RoleUser, Parts: []llm.Part{{Text: text}}}}, kept...)
	for _, m := range messages {
		bytes += size(m)
	}
	*h = history{messages: messages, bytes: bytes, compactions: n, prompt: prompt}
	h.planning = h.lookForPlan() // beside a prompt that was kept
}

// reset forgets everything.
func (h *history) reset() { *h = history{compactions: h.compactions} }

// compactCommand is "/compact".
func compactCommand(ctx context.Context, t *turn, focus string) (string, error) {
	if len(t.history.messages) < 2 {
		return "There is nothing to sum up yet.", nil
	}
	before, n := t.used(), len(t.history.messages)
	if err := t.compact(ctx, focus); err != nil {
		return "", modelError(err, t.model.Info().Name)
	}
	if err := t.sayUsage(ctx); err != nil {
		return "", err
	}
	return fmt.Sprintf("Summed up: %s, about %d tokens, are about %d now.", counted(n, "message"), before, t.used()), nil
}

// compactionUpdate is a compaction_update. A summary stands in a completed one
// only, an error in a failed one only.
func compactionUpdate(id, status, summary, failure string) []byte {
	type text struct {
		Type string `json:"type"`
		Text string `json:"text"`
	}
	u := struct {
		Update  string `json:"sessionUpdate"`
		ID      string `json:"compactionId"`
		Status  string `json:"status"`
		Summary []text `json:"summary,omitempty"`
		Error   string `json:"error,omitempty"`
	}{Update: "compaction_update", ID: id, Status: status}
	switch status {
	case "completed":
		u.Summary = []text{{"text", summary}}
	case "failed":
		u.Error = failure
	}
	return encode(u)
}

// provenanceUpdate tells how often the session's conversation was summed up.
func provenanceUpdate(depth int) []byte {
	return encode(map[string]any{
		"sessionUpdate": "session_info_update",
		"_meta":         hermesMeta(map[string]any{"sessionProvenance": map[string]any{"compactions": depth}}),
	})
}
