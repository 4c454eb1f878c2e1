package session

import "fmt"

// attached is one connection, as the session's goroutine knows it.
type attached struct {
	editor Editor
	left   map[string]func() // called when it leaves, by id of the request that stands before it
}

// Snapshot is what a session is at one point of its published log: what an
// editor that attaches there has to be told besides the events that follow.
type Snapshot struct {
	At        Seq // last event it contains
	Meta      Meta
	Settings  Settings
	Questions []OpenQuestion
	Calls     [][]byte // open tool calls as complete tool_call updates
	Commands  []byte   // available_commands_update, nil if none
	Info      []byte   // session_info_update with the title, nil if none
	Turn      *Running // nil when idle
	Queue     []Queued
	Editors   int // attached connections, this one included
	Agent     AgentState
}

// AgentState says how far a session is with its agent.
type AgentState string

const (
	AgentNone     AgentState = "none"     // not needed so far
	AgentStarting AgentState = "starting" // asked for, or asked to change something
	AgentReady    AgentState = "ready"
)

func (s *Session) agentState() AgentState {
	switch {
	case s.waitsForAgent():
		return AgentStarting
	case s.agent == nil:
		return AgentNone
	}
	return AgentReady
}

// Head is the last event that readers may see. It may be asked from any
// goroutine.
func (s *Session) Head() Seq { return s.tail.headNow() }

// Attach adds an editor to those who may answer and be asked. ready gets the
// snapshot and a cursor that stands at it. An editor that is attached already
// is attached anew.
func (s *Session) Attach(e Editor, ready func(Snapshot, *Cursor), fail func(error)) {
	s.post(func() { s.whenMended(func() { s.attach(e, ready, fail) }, fail) }, fail)
}

// AttachMaker is Attach for the editor that made the session: its cursor stands
// behind the session's first event, so that it sees all that the agent had to
// say since then, as what it could not start.
func (s *Session) AttachMaker(e Editor, ready func(Snapshot, *Cursor), fail func(error)) {
	s.Attach(e, func(snap Snapshot, c *Cursor) {
		// What else there is comes with the events.
		snap = Snapshot{At: 1, Meta: snap.Meta, Settings: snap.Settings, Editors: snap.Editors}
		c.pos = snap.At
		ready(snap, c)
	}, fail)
}

// whenMended runs do when what a crash left open is closed in the log: nobody
// is shown that as running. Who comes and who leaves wait alike, in order.
func (s *Session) whenMended(do func(), fail func(error)) {
	if s.seen.Head >= s.mended {
		do()
		return
	}
	s.waiting = append(s.waiting, waiter{seq: s.mended, do: do, fail: fail})
}

func (s *Session) attach(e Editor, ready func(Snapshot, *Cursor), fail func(error)) {
	if s.decided.Deleted {
		fail(ErrNotFound)
		return
	}
	conn := e.Conn()
	old, now := s.editors[conn], &attached{editor: e}
	if old == nil && s.count(e.CanDecide()) >= s.cfg.MaxEditors {
		fail(&Error{Code: CodeBusy, Message: fmt.Sprintf("%d editors are attached to this session already: close one of them, or raise limits.connections", s.cfg.MaxEditors)})
		return
	}
	if old != nil {
		now.left = old.left // the connection is the same
	}
	s.editors[conn] = now // a close that is under way detaches old, not this one
	for _, q := range s.asked {
		delete(q.abstained, conn) // it is asked again
		delete(q.later, conn)
	}
	s.moved()
	snap := s.snapshot()
	ready(snap, &Cursor{s: s, pos: snap.At})
}

// Detach removes a connection that has gone. It cancels nothing.
func (s *Session) Detach(conn string) {
	s.post(func() { s.whenMended(func() { s.detach(conn) }, nil) }, nil)
}

func (s *Session) detach(conn string) {
	e := s.editors[conn]
	if e == nil {
		return
	}
	for _, left := range e.left {
		left()
	}
	delete(s.editors, conn)
	s.moved()
	for _, q := range s.asked {
		delete(q.shown, conn)
		delete(q.later, conn)
		delete(q.abstained, conn)
		if len(q.shown) == 0 {
			stopLimit(q) // nobody has it before him: it waits again
		} else {
			s.startLimit(q) // it stood still for one who said later
		}
	}
	s.weighAll()
}

// others counts those attached, besides conn, who may do more than look.
func (s *Session) others(conn string) int {
	n := s.count(true)
	if e := s.editors[conn]; e != nil && e.editor.CanDecide() {
		n--
	}
	return n
}

// count counts those attached who may decide, or those who may not.
func (s *Session) count(decide bool) int {
	n := 0
	for _, e := range s.editors {
		if e.editor.CanDecide() == decide {
			n++
		}
	}
	return n
}

// Snapshot gives the present state without attaching.
func (s *Session) Snapshot(got func(Snapshot), fail func(error)) {
	s.post(func() { got(s.snapshot()) }, fail)
}

func (s *Session) snapshot() Snapshot {
	st := &s.seen
	snap := Snapshot{
		At: st.Head, Meta: st.Meta, Settings: st.Settings,
		Questions: append([]OpenQuestion(nil), st.Questions...),
		Calls:     st.Calls.Open(),
		Commands:  st.Commands, Info: st.Info,
		Queue:   append([]Queued(nil), st.Queue...),
		Editors: len(s.editors),
		Agent:   s.agentState(),
	}
	if st.Turn != nil {
		t := *st.Turn
		snap.Turn = &t
	}
	return snap
}
