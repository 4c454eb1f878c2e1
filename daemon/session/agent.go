package session

import (
	"context"
	"encoding/json"
	"fmt"

	"github.com/hermesd/hermesd/transport/acp"
)

// op is something the agent is asked besides prompts. Operations run one after
// the other, in the order they arrived; a prompt that arrived later waits.
type op struct {
	run  func(ctx context.Context) // off the session's goroutine
	done func()                    // on it
	fail func(error)
}

// guarded runs the operation; a panic of ours in an agent is an error of it.
func (o op) guarded(ctx context.Context) (err error) {
	defer func() {
		if x := recover(); x != nil {
			err = fmt.Errorf("the agent panicked: %v", x)
		}
	}()
	o.run(ctx)
	return nil
}

// do puts an operation in line.
func (s *Session) do(o op) {
	s.ops = append(s.ops, o)
	s.runOp()
}

func (s *Session) runOp() {
	if s.opRuns || len(s.ops) == 0 {
		return
	}
	s.opRuns = true
	o := s.ops[0]
	s.wg.Go(func() {
		if err := o.guarded(s.ctx); err != nil {
			o.done = func() { o.fail(err) }
		}
		s.post(func() {
			s.opRuns = false
			s.ops = s.ops[1:]
			o.done()
			s.runOp()
			s.startNext()
		}, o.fail)
	})
}

// withAgent runs then, on the session's goroutine, when the session has an
// agent or cannot get one. Callers are served in order.
func (s *Session) withAgent(then func(error)) {
	if s.agent != nil {
		then(nil)
		return
	}
	s.needAgent = append(s.needAgent, then)
	if len(s.needAgent) > 1 {
		return
	}
	s.openAgent(s.spec(), func(_ Settings, err error) {
		for len(s.needAgent) > 0 {
			next := s.needAgent[0]
			s.needAgent = s.needAgent[1:]
			next(err)
		}
	})
}

// servedFor notes for whom an agent that is opened next would be: an environment
// that somebody sent, last.
func (s *Session) servedFor(environ []string) {
	if environ != nil {
		s.environ = environ
	}
}

func (s *Session) spec() Spec {
	m := s.decided.Meta
	m.MCPServers = s.serversOf(m)
	return Spec{Meta: m, Settings: s.decided.Settings, Environ: s.environ}
}

// openAgent gets the session an agent, then calls then on the session's
// goroutine.
func (s *Session) openAgent(spec Spec, then func(Settings, error)) {
	h := &host{s: s}
	s.host = h
	var a Agent
	var set Settings
	var err error
	s.do(op{
		run: func(ctx context.Context) {
			defer func() {
				if x := recover(); x != nil {
					err = fmt.Errorf("the agent panicked: %v", x)
				}
			}()
			limited, cancel := context.WithTimeout(ctx, s.cfg.OpenTimeout)
			defer cancel()
			a, set, err = s.agents.Open(limited, spec, h)
		},
		done: func() {
			if err == nil && s.host != h {
				go a.Close()
				err = ErrClosed
			}
			if err == nil {
				s.agent = a
			}
			then(set, err)
			if err == nil && s.born {
				s.append(KindAgentStarted, 0, encode(AgentStarted{Agent: spec.Meta.Agent}))
			}
		},
		fail: func(e error) {
			if a != nil {
				a.Close()
			}
		},
	})
}

// giveUpAgent closes the agent without waiting for it; the next need opens
// another one. What the old one still says is dropped.
func (s *Session) giveUpAgent(why string) {
	if a := s.agent; a != nil {
		s.append(KindAgentDied, 0, encode(AgentDied{Agent: s.decided.Meta.Agent, Reason: why}))
		go func() {
			if err := a.Close(); err != nil {
				s.warn("closing an agent that was given up", err)
			}
		}()
	}
	s.agent, s.host = nil, nil
}

// Set changes a mode or an option. The SettingsChanged event answers it; fail
// is called instead when the agent refuses.
func (s *Session) Set(o Origin, change Change, fail func(error)) {
	s.post(func() {
		if s.decided.Deleted {
			fail(ErrNotFound)
			return
		}
		s.servedFor(o.Environ.List())
		s.withAgent(func(err error) {
			if err != nil {
				fail(err)
				return
			}
			a := s.agent
			var now Settings
			s.do(op{
				run: func(ctx context.Context) { now, err = s.set(ctx, a, change) },
				done: func() {
					if err != nil {
						fail(err)
						return
					}
					if s.decided.Deleted {
						fail(ErrNotFound)
						return
					}
					s.changed(o, now)
				},
				fail: fail,
			})
		})
	}, fail)
}

// set asks the agent for a change, for a limited time: prompts wait for it.
func (s *Session) set(ctx context.Context, a Agent, change Change) (Settings, error) {
	ctx, cancel := context.WithTimeout(ctx, s.cfg.OpenTimeout)
	defer cancel()
	return a.Set(ctx, change)
}

// changed appends new settings, saying what differs.
func (s *Session) changed(o Origin, now Settings) {
	old := s.decided.Settings
	s.append(KindSettingsChanged, 0, encode(SettingsChanged{
		Origin: o, Settings: now,
		Mode:    string(old.Modes) != string(now.Modes),
		Options: string(old.Options) != string(now.Options),
	}))
}

// SetRoots replaces additional directories and MCP servers, unless somebody
// else is attached or a turn runs: then the session keeps its own. told says,
// on the session's goroutine, whether they were kept.
func (s *Session) SetRoots(o Origin, dirs []string, mcp json.RawMessage, told func(kept bool)) {
	s.post(func() {
		m := s.decided.Meta
		written := acp.WithholdSecrets(mcp)
		same := fmt.Sprint(m.Dirs) == fmt.Sprint(dirs) && sameJSON(m.MCPServers, written)
		switch {
		case s.decided.Deleted || same && !s.otherSecrets(mcp, written):
			told(false)
		case s.turn != nil || s.others(o.Conn) > 0 || s.waitsForAgent():
			if same && s.servers == nil { // nobody has given them so far
				s.keepServers(mcp)
			}
			told(!same)
		default:
			if s.keepServers(mcp); !same {
				s.append(KindRootsChanged, 0, encode(RootsChanged{Origin: o, Dirs: dirs, MCPServers: written}))
			}
			if a := s.agent; a != nil { // the next turn opens one with the new roots
				s.agent, s.host = nil, nil
				s.wg.Go(func() {
					if err := a.Close(); err != nil {
						s.warn("closing an agent for new roots", err)
					}
				})
			}
			told(false)
		}
	}, func(error) { told(false) })
}

func sameJSON(a, b json.RawMessage) bool {
	norm := func(x json.RawMessage) string {
		if len(x) == 0 || string(x) == "null" {
			return "[]"
		}
		return string(x)
	}
	return norm(a) == norm(b)
}

// waitsForAgent says whether something that arrived earlier still has to be
// done before a prompt may run.
func (s *Session) waitsForAgent() bool { return len(s.ops) > 0 || len(s.needAgent) > 0 }
