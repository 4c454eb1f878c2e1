package link

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"sync/atomic"
	"time"
)

// ErrGone: the daemon ended the connection while the editor was still there.
var ErrGone = errors.New("hermesd went away")

// Refused is a daemon's answer to a hello it does not serve. Its text is one
// line for the user.
type Refused struct{ Text string }

func (r *Refused) Error() string { return "hermesd refused the connection: " + r.Text }

const (
	// relayBuffer is the most that is moved at once in one direction. A pipe
	// holds no more.
	relayBuffer = 64 << 10

	// yieldBelow is the size of a read after which the writer gets the processor
	// before the next one. A writer of many small frames then has more of them
	// ready: a third of the processor time for a stream of frames of 200 bytes,
	// and nothing lost with a single one.
	yieldBelow = 4 << 10

	// graceEOF is how long a daemon may take to answer what an editor said
	// before it closed its end. It is over as soon as the daemon closes.
	graceEOF = 2 * time.Second

	// graceGone is how long the last words of an editor that has ended may take
	// to get to the daemon. Nobody is there to read an answer.
	graceGone = 500 * time.Millisecond
)

// Relay joins an editor's pipes with a connection on which the hello has been
// written.
type Relay struct {
	In, Out *os.File
	Conn    net.Conn
	Parent  int // process whose end ends the relay; 0: none
}

// stream is a connection that can be ended in one direction.
type stream interface {
	net.Conn
	CloseWrite() error
}

// Run moves bytes until one side leaves, and closes the connection. It returns
// nil when the editor left: it closed In, Out, or both, or ended. What it wrote
// before that still goes to the daemon, and answers that come at once still go
// to the editor. Run returns [ErrGone] when the daemon left first and [*Refused]
// when it did not serve the hello.
//
// The first line from the daemon, its [Welcome], is not passed on; waiting for
// it holds nothing up in the other direction.
//
// # Concurrency
//
// When Run returns, a goroutine may still be reading In: a blocking file gives no
// way to end that. Where the system is not Linux another one may wait for the
// end of Parent. Both are for a process that exits then.
func (r *Relay) Run() error {
	conn, ok := r.Conn.(stream)
	if !ok {
		return fmt.Errorf("relaying: %T cannot be closed in one direction", r.Conn)
	}
	defer conn.Close()

	var ended atomic.Bool // In has ended; set before the daemon can learn it
	in := make(chan error, 1)
	go func() {
		err := pump(conn, r.In)
		if err == nil {
			ended.Store(true)
			err = conn.CloseWrite()
		}
		in <- err
	}()
	brokenOut := make(chan struct{}) // nil once handled
	out := make(chan error, 1)
	go func() { out <- receive(conn, r.Out, brokenOut) }()
	departed, stop := watch(r.In, r.Out, r.Parent)
	defer stop()

	var limit <-chan time.Time // of what still may happen once the editor leaves
	left := false
	leave := func(grace time.Duration) {
		if left = true; limit == nil || grace < graceEOF {
			limit = time.After(grace)
		}
	}
	for {
		select {
		case err := <-out:
			if refused := (*Refused)(nil); errors.As(err, &refused) {
				return err
			}
			switch {
			case left || ended.Load():
				return nil
			case err == nil:
				return ErrGone
			}
			return fmt.Errorf("%w: %w", ErrGone, err)
		case err := <-in:
			if err == nil {
				leave(graceEOF)
			} else if limit == nil {
				// The daemon does not take what the editor says; reading from it
				// tells why. Should it not, time does.
				limit = time.After(graceEOF)
			}
		case <-brokenOut:
			brokenOut = nil
			leave(graceGone)
		case d := <-departed:
			switch d {
			case hungUp: // what it wrote may still be on its way
				leave(graceEOF)
			case unheard, orphaned:
				leave(graceGone)
			}
		case <-limit:
			if left {
				return nil
			}
			return ErrGone
		}
	}
}

// departure is a way of leaving that reading and writing may not notice.
type departure int

const (
	hungUp   departure = iota // nobody can write to In any more; noticed also while the daemon takes nothing
	unheard                   // nobody reads Out any more; noticed also while there is nothing to write
	orphaned                  // the parent has ended; others may still hold the pipes' other ends
)

// pump copies until src ends (nil) or dst takes no more.
//
// It is not io.Copy: with a socket and a pipe that uses splice(2), which moves
// every small frame as a page of its own and is five times slower than this
// with frames of 200 bytes, and no faster with large ones.
func pump(dst io.Writer, src io.Reader) error {
	buf := make([]byte, relayBuffer)
	for {
		n, err := src.Read(buf)
		if n > 0 {
			if _, err := dst.Write(buf[:n]); err != nil {
				return err
			}
			if n < yieldBelow {
				yield()
			}
		}
		if err != nil {
			// A read error (a terminal that hung up) ends the input as well as
			// its end does.
			return nil
		}
	}
}

// receive reads the welcome and copies the rest to out, until the connection
// ends. When out is closed it closes broken and reads on, so that the daemon can
// finish.
func receive(conn net.Conn, out *os.File, broken chan<- struct{}) error {
	buf := make([]byte, relayBuffer)
	rest, err := readWelcome(conn, buf)
	if err != nil {
		return err
	}
	var dst io.Writer = out
	for n := len(rest); ; {
		if n > 0 {
			if _, err := dst.Write(rest); err != nil {
				close(broken)
				dst = io.Discard
			}
		}
		if err != nil {
			break
		}
		n, err = conn.Read(buf)
		rest = buf[:n]
	}
	if err == io.EOF {
		return nil
	}
	return err
}

// readWelcome reads the daemon's first line into buf and returns what follows
// it there.
func readWelcome(conn net.Conn, buf []byte) (rest []byte, err error) {
	n := 0
	for {
		m, err := conn.Read(buf[n:])
		if i := bytes.IndexByte(buf[n:n+m], '\n'); i >= 0 {
			end := n + i + 1
			w, ok, perr := ParseWelcome(buf[:end])
			switch {
			case perr != nil:
				return nil, perr
			case !ok:
				return nil, errors.New("what listens on its socket is not hermesd")
			case w.Error != "":
				return nil, &Refused{oneLine(w.Error)}
			}
			return buf[end : n+m], nil
		}
		n += m
		switch {
		case err != nil:
			return nil, err
		case match(buf[:n]) == differs || n == len(buf):
			return nil, errors.New("what listens on its socket is not hermesd")
		}
	}
}
