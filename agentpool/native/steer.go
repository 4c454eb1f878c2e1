package native

import (
	"context"
	"encoding/json"
	"slices"

	"github.com/hermesd/hermesd/agentpool/native/llm"
	"github.com/hermesd/hermesd/daemon/session"
)

// steering is what users add to the turn that runs. It waits for the next safe
// point: behind the results of a message's calls, or where the model has
// nothing more to do. It is guarded by Agent.mu.
type steering struct {
	open  bool // the turn still gets to a safe point
	given []steer
}

// steer is one prompt that was taken into a turn.
type steer struct {
	prompt session.Seq
	msg    llm.Message
}

// Join implements session.Joiner: commands are answered in mid-turn, and what
// "/steer" says is given to the model at the next safe point. Everything else
// waits for its turn.
func (a *Agent) Join(p session.Turn, queued []session.Turn) (session.Joined, bool) {
	msg, err := readPrompt(p.Blocks)
	if err != nil {
		return session.Joined{}, false // its turn says why
	}
	c, arg, ok := slashCommand(msg)
	if !ok {
		return session.Joined{}, false
	}
	reply := func(text string) []byte {
		return appendChunk(chunkHead("agent_message_chunk", commandMessageID(p.Seq)), text)
	}
	switch {
	case c.steers:
		rest, ok := withoutCommand(msg, arg)
		if !ok {
			return session.Joined{Update: reply(steerUsage)}, true
		}
		a.mu.Lock()
		defer a.mu.Unlock()
		if !a.steering.open {
			return session.Joined{}, false
		}
		a.steering.given = append(a.steering.given, steer{p.Seq, rest})
		return session.Joined{Update: reply("Taken into the running turn: it counts from the next step on.")}, true
	case c.queues:
		text, drop, mine := queueCommand(arg, queued)
		if !mine {
			return session.Joined{}, false
		}
		return session.Joined{Update: reply(text), Withdraw: drop}, true
	case c.atOnce != nil:
		return session.Joined{Update: reply(c.atOnce(a, arg))}, true
	case c.beside != nil:
		return session.Joined{Later: func(ctx context.Context) []byte { return reply(c.beside(ctx, a, arg)) }}, true
	}
	return session.Joined{}, false
}

// takeSteering puts what was given since the last safe point into the history.
// With last it also says, if there is nothing, that the turn gets to no other
// safe point; then more is false.
func (t *turn) takeSteering(ctx context.Context, last bool) (more bool, err error) {
	t.mu.Lock()
	given := t.steering.given
	t.steering.given = nil
	if last && len(given) == 0 {
		t.steering.open = false
	}
	t.mu.Unlock()
	for _, s := range given {
		if rerr := t.steered(ctx, s); err == nil {
			err = rerr
		}
	}
	return len(given) > 0, err
}

// endSteering keeps for the next turn what this one did not get to.
func (t *turn) endSteering(ctx context.Context) {
	t.mu.Lock()
	given := t.steering.given
	t.steering = steering{}
	t.mu.Unlock()
	for _, s := range given {
		_ = t.steered(ctx, s) // the log has the prompt all the same
	}
}

func (t *turn) steered(ctx context.Context, s steer) error {
	t.history.add(s.msg)
	ctx, cancel := t.parting(ctx)
	defer cancel()
	return t.host.Record(ctx, encode(record{Joined: s.prompt, Session: t.id}))
}

// joined are prompts of a log that went into a turn and have not come to their
// place in the history yet.
type joined map[session.Seq]llm.Message

func (j joined) add(p session.Seq, prompt json.RawMessage) {
	var blocks []json.RawMessage
	if json.Unmarshal(prompt, &blocks) != nil {
		return
	}
	msg, err := readPrompt(blocks)
	if err != nil {
		return
	}
	if c, arg, ok := slashCommand(msg); ok && c.steers {
		if rest, ok := withoutCommand(msg, arg); ok {
			j[p] = rest
		}
	}
}

// take gives the message of a prompt, once.
func (j joined) take(p session.Seq) (llm.Message, bool) {
	m, ok := j[p]
	delete(j, p)
	return m, ok
}

// rest gives what is left, in order.
func (j joined) rest() []llm.Message {
	var seqs []session.Seq
	for p := range j {
		seqs = append(seqs, p)
	}
	slices.Sort(seqs)
	var all []llm.Message
	for _, p := range seqs {
		m, _ := j.take(p)
		all = append(all, m)
	}
	return all
}
