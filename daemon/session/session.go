package session

import (
	"context"
	"encoding/json"
	"fmt"
	"runtime"
	"runtime/debug"
	"sync"
	"sync/atomic"
	"time"
)

// Config are the rules a session keeps.
type Config struct {
	QuestionTimeout time.Duration // a question stood before somebody who can answer; 0: for ever
	DenyDetached    bool          // nobody attached: refuse instead of wait
	CancelGrace     time.Duration // an agent that was cancelled has to end its turn
	OpenTimeout     time.Duration // an agent has to be ready for its first prompt
	IdleAfter       time.Duration // nobody attached and nothing to do: leave memory; 0: never
	TrimAfter       time.Duration // nothing happened: give back the memory of the tail
	MaxQueue        int           // prompts waiting
	MaxEditors      int           // connections attached
	TailBytes       int           // newest events kept in memory for readers that keep up
	MaxUnwritten    int64         // bytes an agent may be ahead of the disk
	// Warn is told what went wrong without stopping anything; may be nil.
	Warn func(id ID, what string, err error)
	// Audit is told of every fact, that is of every event but those that an agent
	// says, on the session's goroutine, when it is decided. It must not block; may
	// be nil.
	Audit func(id ID, e Event)
	// Evict is asked, on a goroutine of its own, to forget a session that has
	// left memory; may be nil.
	Evict func(*Session)
}

// DefaultConfig are the rules that hold when nothing is configured.
func DefaultConfig() Config {
	return Config{
		QuestionTimeout: 60 * time.Second,
		CancelGrace:     30 * time.Second,
		OpenTimeout:     60 * time.Second,
		IdleAfter:       15 * time.Minute,
		TrimAfter:       2 * time.Second,
		MaxQueue:        64,
		MaxEditors:      64,
		TailBytes:       1 << 20,
		MaxUnwritten:    1 << 20,
	}
}

// Session is one live session. Its methods post to the goroutine that owns it
// and return at once; what comes of them is in the log, or told to a callback,
// which runs on that goroutine and must not block.
type Session struct {
	id     ID
	cfg    Config
	store  Store
	agents Agents

	ctx    context.Context // the session's own; ends when it leaves memory
	cancel context.CancelFunc
	inbox  *inbox
	done   chan struct{}
	wg     sync.WaitGroup // turns and agent operations

	log  Log // set before ready is closed
	tail *tail

	// How far the store is (publish.go).
	written, durable atomic.Uint64
	storeErr         atomic.Pointer[storeFailure]
	credit           credit
	openSet          sync.Map // Seq of each question that is open

	// All below belongs to the session's goroutine.

	decided State // after every event appended; facts only, no updates
	seen    State // after every event published
	pending []Event
	launch  []func() // turns to set going at the end of the round
	audit   []Event  // to tell Config.Audit of then
	sync    bool     // pending holds an event that must be durable
	metaNew bool     // the stored Meta is to be replaced
	unpub   []Event
	waiting []waiter // for an event to be published, or for durability

	agent     Agent // nil until first needed
	host      *host
	ops       []op // agent operations; the first one runs if opRuns
	opRuns    bool
	needAgent []func(error)
	environ   []string        // of the connection an agent was needed for last; nil if none sent one
	servers   json.RawMessage // MCP servers as an editor gave them last, see withheld.go
	turn      *turn
	content   map[Seq]Turn // of queued prompts
	editors   map[string]*attached
	asked     []*question // open, in order
	held      []message   // what the agent said before the session existed
	heldBytes int
	behind    int // messages of this round that are not handled yet

	born     bool // Created is in the log
	mended   Seq  // last event of closing what a crash left open, 0 if nothing was
	leaving  bool // no new turns
	deleting bool // because the session is deleted
	ended    error
	deleted  []func(error) // told when the log is gone
	trimTick *time.Timer
	idleTick *time.Timer
	lastMove time.Time
}

type storeFailure struct{ err error }

// waiter runs do once events up to seq are published (or durable).
type waiter struct {
	seq     Seq
	durable bool
	do      func()
	fail    func(error) // told, if not nil, when the session ends before that
}

func newSession(id ID, cfg Config, store Store, agents Agents) *Session {
	ctx, cancel := context.WithCancel(context.Background())
	s := &Session{
		id: id, cfg: cfg, store: store, agents: agents,
		ctx: ctx, cancel: cancel,
		inbox: newInbox(), done: make(chan struct{}),
		tail:    newTail(0),
		editors: make(map[string]*attached),
	}
	s.credit.max = cfg.MaxUnwritten
	return s
}

// Open brings a stored session into memory. It returns at once: what is posted
// meanwhile waits, and fails with the error if the log can't be opened. after,
// if not nil, is waited for first (the same session leaving memory).
func Open(id ID, cfg Config, store Store, agents Agents, after <-chan struct{}) *Session {
	s := newSession(id, cfg, store, agents)
	go func() {
		if after != nil {
			<-after
		}
		err := s.restore()
		s.run(err)
	}()
	return s
}

// Create makes a session and gives it an agent. ready is called on the
// session's goroutine when the session is durable, or with the error that kept
// it from being made; nothing is stored then.
func Create(meta Meta, origin Origin, cfg Config, store Store, agents Agents, ready func(error)) *Session {
	s := newSession(meta.ID, cfg, store, agents)
	spec := Spec{Meta: meta, Fresh: true, Environ: origin.Environ.List()}
	meta.MCPServers = s.keepServers(meta.MCPServers)
	s.decided.Meta, s.seen.Meta = meta, meta
	s.environ = spec.Environ
	go func() {
		log, err := store.Create(meta, sink{s})
		if err != nil {
			ready(err)
			s.run(err)
			return
		}
		s.log = log
		s.openAgent(spec, func(set Settings, err error) {
			if err != nil {
				ready(err)
				s.end(err)
				return
			}
			s.bear(Created{Origin: origin, Meta: meta, Settings: set}, ready)
		})
		s.run(nil)
	}()
	return s
}

// maxHeld is how much an agent may say before its session exists.
const maxHeld = 4 << 20

// bear appends the first event and lets in what the agent has said before.
func (s *Session) bear(c Created, ready func(error)) {
	s.born, s.metaNew = true, true
	s.append(KindCreated, 0, encode(c))
	s.whenPublished(s.head(), func() { ready(nil) })
	held := s.held
	s.held, s.heldBytes = nil, 0
	for _, m := range held {
		s.credit.add(int64(len(m.data)))
		s.handle(m)
	}
}

// ID is the session's id.
func (s *Session) ID() ID { return s.id }

// Done is closed when the session has left memory and its log is closed.
func (s *Session) Done() <-chan struct{} { return s.done }

// post puts act in line. fail is called, with the reason, if the session has
// ended or never came to be; it may run on any goroutine.
func (s *Session) post(act func(), fail func(error)) {
	if !s.inbox.post(message{act: act, fail: fail}) && fail != nil {
		fail(ErrClosed)
	}
}

// run is the session's goroutine.
func (s *Session) run(err error) {
	if err != nil {
		s.end(err)
	} else {
		s.moved()
		s.flush()
	}
	for s.ended == nil {
		s.round(s.inbox.take())
		if len(s.launch) > 0 && s.ended == nil {
			s.setGoing()
			// What the agent says at once is stored, and shown, together with the
			// start of its turn.
			runtime.Gosched()
			s.round(s.inbox.more())
		}
		s.flush()
		s.publish()
		s.setGoing()
		s.tellAudit()
	}
	s.tellAudit()
	s.leave()
}

// round handles what has come in.
func (s *Session) round(q []message) {
	for i := range q {
		s.behind = len(q) - i - 1
		s.handle(q[i])
	}
	s.inbox.done(q)
}

// setGoing sets turns going.
func (s *Session) setGoing() {
	for _, turn := range s.launch {
		s.wg.Go(turn)
	}
	clear(s.launch)
	s.launch = s.launch[:0]
}

func (s *Session) handle(m message) {
	defer func() {
		// A mistake of ours ends this session's life in memory, not everybody's:
		// what is in its log is opened again at the next touch.
		if x := recover(); x != nil {
			err := fmt.Errorf("panic: %v\n%s", x, debug.Stack())
			s.warn("the session leaves memory", err)
			s.end(ErrClosed)
			if m.fail != nil {
				m.fail(ErrClosed)
			}
		}
	}()
	switch {
	case m.act != nil:
		if s.ended != nil {
			if m.fail != nil {
				m.fail(s.ended)
			}
			return
		}
		m.act()
	case m.host != s.host || s.ended != nil || s.decided.Deleted:
		s.credit.release(int64(len(m.data))) // an agent that was given up
	case !s.born:
		// The agent must get on to the answer that makes the session: what it says
		// before costs no credit, and what is too much of it is lost.
		s.credit.release(int64(len(m.data)))
		if s.heldBytes += len(m.data); s.heldBytes <= maxHeld {
			s.held = append(s.held, m)
		}
	default:
		version := uint8(0)
		if m.kind == KindUpdate {
			version = 1
		}
		s.append(m.kind, version, m.data)
	}
}

// tellAudit comes after everything that somebody waits for: it writes.
func (s *Session) tellAudit() {
	for _, e := range s.audit {
		s.cfg.Audit(s.id, e)
	}
	clear(s.audit)
	s.audit = s.audit[:0]
}

// end makes run return after this round.
func (s *Session) end(err error) {
	if s.ended == nil {
		s.ended = err
	}
}

// leave closes everything. Whoever waits is told; the log stays as it is.
func (s *Session) leave() {
	for _, t := range []*time.Timer{s.trimTick, s.idleTick} {
		if t != nil {
			t.Stop()
		}
	}
	s.cancel()
	left, _ := s.inbox.close(false)
	for _, m := range left {
		if m.fail != nil {
			m.fail(s.ended)
		}
	}
	for _, w := range s.waiting {
		if w.fail != nil {
			w.fail(s.ended)
		}
	}
	for _, q := range s.asked {
		q.finish(Answer{Outcome: Interrupted})
	}
	s.credit.close()
	s.tail.end(s.ended)
	s.wg.Wait() // turns and operations see the cancelled context
	if s.agent != nil {
		if err := s.agent.Close(); err != nil {
			s.warn("closing the agent", err)
		}
	}
	if s.log != nil {
		if err := s.log.Close(); err != nil {
			s.warn("closing the log", err)
		}
	}
	if s.decided.Deleted {
		err := s.store.Delete(context.Background(), s.id)
		for _, done := range s.deleted {
			done(err)
		}
	}
	close(s.done)
	if s.cfg.Evict != nil {
		go s.cfg.Evict(s)
	}
}

func (s *Session) warn(what string, err error) {
	if s.cfg.Warn != nil && err != nil {
		s.cfg.Warn(s.id, what, err)
	}
}

// moved notes that something happened and sets the timers for when nothing
// does.
func (s *Session) moved() {
	s.lastMove = time.Now()
	if s.trimTick == nil && s.cfg.TrimAfter > 0 {
		s.trimTick = time.AfterFunc(s.cfg.TrimAfter, func() { s.post(s.rest, nil) })
	}
	if s.idleTick == nil && s.cfg.IdleAfter > 0 {
		s.idleTick = time.AfterFunc(s.cfg.IdleAfter, func() { s.post(s.retire, nil) })
	}
}

// rest gives back the memory of the tail once nothing moves.
func (s *Session) rest() {
	s.trimTick = nil
	if left := s.cfg.TrimAfter - time.Since(s.lastMove); left > 0 {
		s.trimTick = time.AfterFunc(left, func() { s.post(s.rest, nil) })
		return
	}
	if len(s.unpub) == 0 && len(s.pending) == 0 && len(s.waiting) == 0 {
		s.tail.trim(0)
		s.unpub, s.pending, s.waiting, s.launch, s.audit = nil, nil, nil, nil, nil
		s.inbox.rest()
	}
}

// busy says whether the session has anything to stay in memory for.
func (s *Session) busy() bool {
	if b, ok := s.agent.(Busy); ok && b.Busy() {
		return true
	}
	return len(s.editors) > 0 || s.turn != nil || len(s.decided.Queue) > 0 || s.waitsForAgent() ||
		len(s.asked) > 0 || len(s.pending) > 0 || len(s.unpub) > 0 || len(s.waiting) > 0 || !s.born
}

// retire leaves memory if there is nothing to stay for and nobody has posted
// anything.
func (s *Session) retire() {
	s.idleTick = nil
	left := s.cfg.IdleAfter - time.Since(s.lastMove)
	if left <= 0 && !s.busy() && s.behind == 0 {
		if _, empty := s.inbox.close(true); empty {
			s.end(ErrClosed)
			return
		}
	}
	if left <= 0 {
		left = s.cfg.IdleAfter
	}
	s.idleTick = time.AfterFunc(left, func() { s.post(s.retire, nil) })
}

// restore opens the log, folds it, and closes what a crash left open.
func (s *Session) restore() error {
	log, err := s.store.Open(s.id, sink{s})
	if err != nil {
		return err
	}
	s.log = log
	if meta, ok := s.store.Lookup(s.id); ok {
		s.seen.Meta = meta
	}
	head := log.Head()
	s.written.Store(uint64(head))
	s.durable.Store(uint64(head))
	for at := Seq(1); at <= head; {
		recs, err := s.log.Read(at, pageBytes)
		if err != nil {
			return fmt.Errorf("reading the log of session %s: %w", s.id, err)
		}
		if len(recs) == 0 {
			return fmt.Errorf("the log of session %s ends at %d, should reach %d", s.id, at-1, head)
		}
		for _, r := range recs {
			if err := s.seen.Apply(r); err != nil {
				s.warn("reading the log", err)
			}
		}
		at = recs[len(recs)-1].Last + 1
	}
	s.tail.head = head
	s.decided = s.seen
	s.decided.Queue = append([]Queued(nil), s.seen.Queue...)
	s.decided.Questions = append([]OpenQuestion(nil), s.seen.Questions...)
	s.born = true
	if s.seen.Deleted { // the daemon died between the event and the removal
		return ErrNotFound
	}
	s.mend()
	return nil
}
