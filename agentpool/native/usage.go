package native

import (
	"context"
	"encoding/json"

	"github.com/hermesd/hermesd/agentpool/native/llm"
)

// unknownWindow is taken for the window of a model of which nothing is known.
const unknownWindow = 128_000

// meter counts what a session has used. It is owned by the running Prompt.
type meter struct {
	total    llm.Usage // of the session
	context  int       // tokens after the last message; 0: the model says nothing
	bytes    int       // of the history then
	counted  bool      // some model has said something
	cost     float64
	currency string // of cost; "" while no price is known
}

// spent is what one message cost, as it stands in the session's log.
type spent struct {
	llm.Usage
	Cost     float64 `json:"cost,omitempty"`
	Currency string  `json:"currency,omitempty"`
}

// priced says what u cost with a model.
func priced(u llm.Usage, model llm.Info) spent {
	s := spent{Usage: u}
	if p := model.Price; p != nil {
		if s.Cost, s.Currency = p.Cost(u), p.Currency; s.Currency == "" {
			s.Currency = "USD"
		}
	}
	return s
}

// add counts a message. Costs in another currency than the first are left out.
func (m *meter) add(s spent) {
	m.total = m.total.Add(s.Usage)
	m.counted = true
	if s.Currency != "" && (m.currency == "" || m.currency == s.Currency) {
		m.currency = s.Currency
		m.cost += s.Cost
	}
}

// usage is the v1 Usage object, nil if no model has said anything.
func (m *meter) usage() json.RawMessage {
	if !m.counted {
		return nil
	}
	u := m.total
	return encode(struct {
		Total   int `json:"totalTokens"`
		Input   int `json:"inputTokens"`
		Output  int `json:"outputTokens"`
		Thought int `json:"thoughtTokens,omitempty"`
		Read    int `json:"cachedReadTokens,omitempty"`
		Write   int `json:"cachedWriteTokens,omitempty"`
	}{u.Total(), u.Input, u.Output, u.Thought, u.CacheRead, u.CacheWrite})
}

// sayUsage tells how full the model's window is and what the session cost. If
// the model does not count, four bytes are taken for a token.
func (t *turn) sayUsage(ctx context.Context) error {
	window, used := windowOf(t.model.Info()), t.used()
	t.readGauge()
	type cost struct {
		Amount   float64 `json:"amount"`
		Currency string  `json:"currency"`
	}
	u := struct {
		Update string `json:"sessionUpdate"`
		Used   int    `json:"used"`
		Size   int    `json:"size"`
		Cost   *cost  `json:"cost,omitempty"`
	}{"usage_update", min(used, window), window, nil}
	if t.meter.currency != "" {
		u.Cost = &cost{t.meter.cost, t.meter.currency}
	}
	return t.host.Update(ctx, encode(u))
}
