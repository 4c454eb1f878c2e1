package daemon

import (
	"context"
	"maps"
	"sort"
	"sync"
	"sync/atomic"
	"time"

	"github.com/hermesd/hermesd/daemon/session"
)

// Figures are what can be counted of a daemon: since it began, or at one moment.
// They are gathered when somebody asks; what runs is counted once for each turn
// or write, not for each line.
type Figures struct {
	Uptime time.Duration
	Turns  struct {
		Started uint64            // since the daemon began
		Ended   map[string]uint64 // the same, by how: a stop reason of the protocol, "error", "interrupted", "other"
		Running int
		Queued  int // prompts that wait for their turn
	}
	Questions struct {
		Asked  uint64            // since the daemon began
		Closed map[string]uint64 // the same, by outcome
		Open   int
		Oldest time.Duration // of those that are open; 0 if none is
	}
	In, Out     uint64 // bytes from and to connections, those that have ended included
	Refused     uint64 // connections that were not let in
	Connections []ConnectionFigures
	Sessions    map[string]int            // in memory, by state: idle, running, waiting
	Stored      int                       // sessions there are
	Agents      map[string]map[string]int // of sessions in memory, by name and state: starting, idle, busy, waiting
	Disk        Disk
}

// ConnectionFigures are those of one connection.
type ConnectionFigures struct {
	ID      string // as the log names it
	Client  string // name it gave itself
	Network string
	Token   string // over the network: its name
	Behind  uint64 // events of its sessions that it has not been given
	Queued  int    // bytes that it has not taken
	In, Out uint64 // bytes
}

// Disk is what a daemon is told of its store.
type Disk struct {
	DatabaseBytes, JournalBytes int64
	BacklogBytes                int64  // in memory and in the journal, not in the database
	Events                      uint64 // written since the daemon began
	Failing                     string // why nothing can be written; "" if it can
	Damage                      []Damage

	// How long syncs of the journal took: Counts[i] of them no longer than
	// Bounds[i], the last one longer than any.
	Bounds  []time.Duration
	Counts  []uint64
	Sum     time.Duration
	Slowest time.Duration
}

// Damage is what a damaged database has cost since the daemon began.
type Damage struct {
	At       time.Time        `json:"at"`
	File     string           `json:"file"` // where the damaged file is kept
	Sessions []DamagedSession `json:"sessions"`
}

// DamagedSession is one of which something could not be read any more.
type DamagedSession struct {
	ID   session.ID `json:"id"`
	Lost uint64     `json:"lost"` // events known to be missing; the end may be, too
}

// Commits is how many syncs there were.
func (d Disk) Commits() (n uint64) {
	for _, c := range d.Counts {
		n += c
	}
	return n
}

// counts is what is counted as it happens.
type counts struct {
	in, out, refused atomic.Uint64

	mu             sync.Mutex
	started, asked uint64
	ended, closed  map[string]uint64
}

func newCounts() *counts {
	return &counts{ended: make(map[string]uint64), closed: make(map[string]uint64)}
}

func (c *counts) fact(e session.Event, f fact) {
	c.mu.Lock()
	defer c.mu.Unlock()
	switch e.Kind {
	case session.KindTurnStarted:
		c.started++
	case session.KindTurnEnded:
		c.ended[stopWord(f.ended())]++
	case session.KindQuestionAsked:
		c.asked++
	case session.KindQuestionAnswered:
		c.closed[string(f.Outcome)]++
	}
}

// stopWord keeps what agents make up out of names that are kept for ever.
func stopWord(s string) string {
	switch s {
	case "end_turn", "max_tokens", "max_turn_requests", "refusal", "cancelled", "error", "interrupted":
		return s
	}
	return "other"
}

// Figures gathers them. Sessions that do not answer in time are left out.
func (d *Daemon) Figures(ctx context.Context) Figures {
	return d.figures(d.snapshots(ctx), d.connected(), time.Now())
}

func (d *Daemon) figures(snaps []session.Snapshot, conns []*editor, now time.Time) Figures {
	f := Figures{
		Uptime: now.Sub(d.started), In: d.counts.in.Load(), Out: d.counts.out.Load(), Refused: d.counts.refused.Load(),
		Stored: len(d.store.List()), Sessions: map[string]int{"idle": 0, "running": 0, "waiting": 0}, Agents: make(map[string]map[string]int),
	}
	c := d.counts
	c.mu.Lock()
	f.Turns.Started, f.Questions.Asked = c.started, c.asked
	f.Turns.Ended, f.Questions.Closed = maps.Clone(c.ended), maps.Clone(c.closed)
	c.mu.Unlock()
	for _, a := range d.cfg.Agents() {
		f.Agents[a.Name] = map[string]int{"starting": 0, "idle": 0, "busy": 0, "waiting": 0}
	}
	for _, s := range snaps {
		f.Sessions[stateOf(s)]++
		f.Turns.Queued += len(s.Queue)
		if s.Turn != nil {
			f.Turns.Running++
		}
		for _, q := range s.Questions {
			f.Questions.Open++
			f.Questions.Oldest = max(f.Questions.Oldest, sinceMilli(q.Time, now))
		}
		if states := f.Agents[s.Meta.Agent]; states != nil {
			if word := agentWord(s); word != "" {
				states[word]++
			}
		}
	}
	for _, e := range conns {
		f.Connections = append(f.Connections, e.figures())
	}
	sort.Slice(f.Connections, func(i, j int) bool { return f.Connections[i].ID < f.Connections[j].ID })
	if d.cfg.Disk != nil {
		f.Disk = d.cfg.Disk()
	}
	return f
}

func agentWord(s session.Snapshot) string {
	switch {
	case s.Agent == session.AgentStarting:
		return "starting"
	case s.Agent == session.AgentNone:
		return ""
	case len(s.Questions) > 0:
		return "waiting"
	case s.Turn != nil:
		return "busy"
	}
	return "idle"
}

func (e *editor) figures() ConnectionFigures {
	f := ConnectionFigures{
		ID: short(e.hello.ID), Network: e.conn.Principal.Network, Token: e.conn.Principal.Token,
		Queued: e.peer.Queued(), In: e.in.Load(), Out: e.out.Load(),
	}
	f.Client, f.Behind = e.clientName(), e.behind()
	return f
}

// behind is how many events of its sessions the connection has not been given.
func (e *editor) behind() (n uint64) {
	for _, a := range e.attachments() {
		passed := a.passed.Load()
		if head := uint64(a.session.Head()); passed > 0 && head > passed {
			n += head - passed
		}
	}
	return n
}

// inbound and outbound count the bytes of a connection, once for each read and
// write.

type inbound struct {
	r interface{ Read([]byte) (int, error) }
	e *editor
}

func (c inbound) Read(b []byte) (int, error) {
	n, err := c.r.Read(b)
	c.e.in.Add(uint64(n))
	c.e.d.counts.in.Add(uint64(n))
	return n, err
}

type outbound struct{ e *editor }

func (c outbound) Write(b []byte) (int, error) {
	n, err := c.e.conn.Write(b)
	c.e.out.Add(uint64(n))
	c.e.d.counts.out.Add(uint64(n))
	return n, err
}

func (c outbound) Close() error { return c.e.conn.Close() }

// inWords is what status says of the figures.
func (f Figures) inWords() map[string]any {
	ms := func(d time.Duration) float64 { return float64(d.Microseconds()) / 1000 }
	commits := f.Disk.Commits()
	mean := time.Duration(0)
	if commits > 0 {
		mean = f.Disk.Sum / time.Duration(commits)
	}
	disk := map[string]any{
		"databaseBytes": f.Disk.DatabaseBytes, "journalBytes": f.Disk.JournalBytes, "backlogBytes": f.Disk.BacklogBytes, "events": f.Disk.Events,
		"commits": commits, "commitMeanMs": ms(mean), "commitSlowestMs": ms(f.Disk.Slowest),
	}
	if f.Disk.Failing != "" {
		disk["failing"] = f.Disk.Failing
	}
	if len(f.Disk.Damage) > 0 {
		disk["damage"] = f.Disk.Damage
	}
	// Only those there are: a word of a state says that something is in it.
	agents := make(map[string]map[string]int)
	for name, states := range f.Agents {
		agents[name] = maps.Clone(states)
		maps.DeleteFunc(agents[name], func(_ string, n int) bool { return n == 0 })
	}
	return map[string]any{
		"turns":     map[string]any{"started": f.Turns.Started, "active": f.Turns.Running, "queued": f.Turns.Queued, "ended": f.Turns.Ended},
		"questions": map[string]any{"asked": f.Questions.Asked, "open": f.Questions.Open, "oldestSeconds": f.Questions.Oldest.Seconds(), "closed": f.Questions.Closed},
		"traffic":   map[string]any{"inBytes": f.In, "outBytes": f.Out, "refused": f.Refused},
		"disk":      disk, "agentStates": agents,
	}
}
