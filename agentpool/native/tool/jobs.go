package tool

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"math"
	"os"
	"os/exec"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/hermesd/hermesd/agentpool/native/shell"
)

// Jobs are the commands that a session has in the background. They live on
// between its turns and end with it: Close ends them all. Of one that ends by
// itself, what has left its process group lives on; of one that is ended only
// what cannot be found, as process.SignalMarked says.
//
// Safe for concurrent use. A goroutine for each job watches it until it has
// ended; Close waits for them.
type Jobs struct {
	life string // part of the ids, so that one of an earlier life of the session finds nothing
	max  int
	// ended is told of a job that has ended by itself; it may be nil and must
	// not block.
	ended func(JobEnd)

	work sync.WaitGroup

	mu     sync.Mutex
	closed bool
	count  int
	all    []*job // those that run, and the last that did
}

// JobEnd says how a command in the background ended.
type JobEnd struct {
	ID      string `json:"id"`
	Command string `json:"command"`
	State   string `json:"state"`
}

const (
	defaultMaxJobs = 16
	endedJobs      = 16 // that are remembered
	startWatch     = 300 * time.Millisecond
	maxInput       = 64 << 10
	inputTime      = 5 * time.Second
)

// NewJobs returns a session without jobs, which may have up to most at a time
// (0: 16). ended is told of each that ends by itself; nil: nobody.
func NewJobs(most int, ended func(JobEnd)) *Jobs {
	return &Jobs{life: strings.ToLower(rand.Text()[:4]), max: orDefault(most, defaultMaxJobs), ended: ended}
}

// Running is how many jobs run.
func (j *Jobs) Running() int {
	if j == nil {
		return 0
	}
	j.mu.Lock()
	defer j.mu.Unlock()
	n := 0
	for _, b := range j.all {
		if !b.over() {
			n++
		}
	}
	return n
}

// Close ends all jobs and returns when nothing of them runs that can be found. A
// second call does no harm.
func (j *Jobs) Close() {
	if j == nil {
		return
	}
	j.mu.Lock()
	j.closed = true
	all := slices.Clone(j.all)
	j.mu.Unlock()
	for _, b := range all {
		b.stop("ended with the session")
	}
	j.work.Wait()
}

// job is one command in the background.
type job struct {
	id      string
	command string
	started time.Time
	grace   time.Duration
	p       *running
	done    chan struct{} // closed when its group is gone

	mu       sync.Mutex
	stopping chan struct{} // closed when it shall end; then why says so
	why      string
	state    string // how it ended, once done is closed
	ended    time.Time
	read     int64         // bytes of output that were shown
	writing  chan struct{} // capacity 1: held while something is written to its input
	eof      bool          // its input was closed
	given    shell.Input   // all that was written to it
	writes   int           // how often something was
}

// input is what was written to the job, and how often.
func (b *job) input() (shell.Input, int) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.given, b.writes
}

func (b *job) over() bool {
	select {
	case <-b.done:
		return true
	default:
		return false
	}
}

// stop has the job end. The first reason counts.
func (b *job) stop(why string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.why == "" {
		b.why = why
		close(b.stopping)
	}
}

// start starts a job; limit 0 lets it run as long as the session does.
func (j *Jobs) start(e *Env, command string, limit time.Duration) (*job, error) {
	j.mu.Lock()
	defer j.mu.Unlock()
	if j.closed {
		return nil, errors.New("the session is closed: no command can be started")
	}
	running := 0
	for _, b := range j.all {
		if !b.over() {
			running++
		}
	}
	if running >= j.max {
		return nil, fmt.Errorf("%s in the background already, the limit is %d: end one of them with process", plural(running, "command"), j.max)
	}
	p, err := e.start(command, true)
	if err != nil {
		return nil, err
	}
	j.count++
	b := &job{
		id: fmt.Sprintf("%s-%d", j.life, j.count), command: command, started: time.Now(), grace: orDefault(e.Grace, defaultGrace), p: p,
		done: make(chan struct{}), stopping: make(chan struct{}), writing: make(chan struct{}, 1),
	}
	j.all = append(j.all, b)
	for old := len(j.all) - running - 1 - endedJobs; old > 0; old-- {
		i := slices.IndexFunc(j.all, (*job).over)
		if i < 0 {
			break
		}
		j.all = slices.Delete(j.all, i, i+1)
	}
	j.work.Go(func() { j.watch(b, limit) }) // ends with the job, which Close ends
	return b, nil
}

func (j *Jobs) watch(b *job, limit time.Duration) {
	var up <-chan time.Time
	if limit > 0 {
		timer := time.NewTimer(limit)
		defer timer.Stop()
		up = timer.C
	}
	select {
	case <-b.p.exited:
	case <-up:
		b.stop(fmt.Sprintf("ended after its time limit of %s", limit))
	case <-b.stopping:
	}
	b.mu.Lock()
	ended := b.why != ""
	b.mu.Unlock()
	b.p.finish(b.grace, ended)
	b.writing <- struct{}{} // for good: whoever wrote has ended, and nobody writes any more
	b.mu.Lock()
	b.state, b.ended = exitState(b.p.exit), time.Now()
	told := b.why == ""
	if b.why != "" {
		b.state = b.why + "; " + b.state
	}
	end := JobEnd{ID: b.id, Command: oneLine(b.command, 200), State: b.state}
	b.mu.Unlock()
	close(b.done)
	if told && j.ended != nil {
		j.ended(end)
	}
}

// exitState says how a command ended.
func exitState(exit error) string {
	var ee *exec.ExitError
	switch {
	case exit == nil:
		return "exit status 0"
	case errors.As(exit, &ee):
		if name := signalName(ee.ProcessState); name != "" {
			return "ended by " + name
		}
		return fmt.Sprintf("exit status %d", ee.ExitCode())
	}
	return exit.Error()
}

// find returns a job by its id.
func (j *Jobs) find(id string) (*job, error) {
	j.mu.Lock()
	defer j.mu.Unlock()
	var ids []string
	for _, b := range j.all {
		if b.id == id {
			return b, nil
		}
		ids = append(ids, b.id)
	}
	if len(ids) == 0 {
		return nil, fmt.Errorf("there is no background command %q, and no other: they end with the session and with hermesd", id)
	}
	return nil, fmt.Errorf("there is no background command %q: there is %s", id, strings.Join(ids, ", "))
}

// status is a line about the job.
func (b *job) status() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.over() {
		return fmt.Sprintf("%s after %s", b.state, b.ended.Sub(b.started).Round(time.Millisecond))
	}
	return fmt.Sprintf("running for %s", time.Since(b.started).Round(time.Second))
}

// news is the output that was not shown yet; all is all that is kept of it.
// While nothing has come and the job runs, it waits.
func (b *job) news(ctx context.Context, all bool, wait time.Duration) (text, note string) {
	if wait > 0 {
		timer := time.NewTimer(wait)
		defer timer.Stop()
		tick := time.NewTicker(50 * time.Millisecond)
		defer tick.Stop()
		b.mu.Lock()
		read := b.read
		b.mu.Unlock()
		for waiting := true; waiting && b.p.out.written() == read; {
			select {
			case <-tick.C:
			case <-b.done:
				waiting = false
			case <-timer.C:
				waiting = false
			case <-ctx.Done():
				return "", ""
			}
		}
	}
	over := b.over()
	b.mu.Lock()
	defer b.mu.Unlock()
	from := b.read
	if all {
		from = 0
	}
	text, lost, upTo := b.p.out.since(from, over)
	b.read = upTo
	if lost > 0 {
		note = fmt.Sprintf("[%d bytes before this are not shown]\n", lost)
	}
	return text, note
}

// write gives the job input and says when it has been taken. What is not taken
// in time stays with the job: it is written when it reads again. The input was
// judged when something had been written judged times; it is not written if
// that is not so any more.
func (b *job) write(ctx context.Context, text string, eof bool, judged int) error {
	if b.over() {
		return fmt.Errorf("%s is over (%s): it reads nothing any more", b.id, b.status())
	}
	timer := time.NewTimer(inputTime)
	defer timer.Stop()
	busy := fmt.Errorf("%s does not read its input: nothing of this was written", b.id)
	select {
	case b.writing <- struct{}{}:
	case <-timer.C:
		return busy
	case <-b.done:
		return fmt.Errorf("%s has ended (%s)", b.id, b.status())
	case <-ctx.Done():
		return ctx.Err()
	}
	if b.eof {
		<-b.writing
		return fmt.Errorf("the input of %s is closed already", b.id)
	}
	b.mu.Lock()
	current := b.writes == judged
	if current {
		b.eof = eof
		b.given, b.writes = b.given.Add(text), b.writes+1
	}
	b.mu.Unlock()
	if !current {
		<-b.writing
		return fmt.Errorf("something else was written to %s since this was looked at: nothing was written, try again", b.id)
	}
	said := make(chan error, 1)
	go func() { // ends when the input is taken or closed, which finish does
		_, err := b.p.stdin.WriteString(text)
		if eof && err == nil {
			err = b.p.stdin.Close()
		}
		<-b.writing
		said <- err
	}()
	select {
	case err := <-said:
		if errors.Is(err, os.ErrClosed) || err != nil && b.over() {
			return fmt.Errorf("%s has ended (%s)", b.id, b.status())
		}
		if err != nil {
			return fmt.Errorf("writing to %s: %w", b.id, err)
		}
		return nil
	case <-timer.C:
		return fmt.Errorf("%s has not read all of this within %s: the rest waits until it does", b.id, inputTime)
	case <-ctx.Done():
		return ctx.Err()
	}
}

// seconds turns an argument into a time of at most most.
func seconds(n float64, most time.Duration) time.Duration {
	if math.IsNaN(n) || n <= 0 {
		return 0
	}
	if n >= most.Seconds() {
		return most
	}
	return time.Duration(n * float64(time.Second))
}
