package jsonrpc

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"sync"

	"github.com/creachadair/jrpc2"
)

// Options say what a peer does with what comes in, and its limits. The
// callbacks may be nil; what they would have been told is then ignored, and
// requests are answered "Method not found".
type Options struct {
	// MaxLine is the limit for one inbound line in bytes, without its line
	// break. A longer one is skipped. 0 is 64 MiB.
	MaxLine int
	// MaxQueue is the limit for bytes waiting to be written. Enqueueing
	// beyond it closes the peer with ErrSlowReader, except that an empty queue
	// takes whatever it is given. 0 is 16 MiB.
	MaxQueue int
	// MaxInFlight is the limit for requests that have not been answered. More
	// are refused at once with -33100. 0 is 256.
	MaxInFlight int
	// AnswerGarbage answers a line that is no message with an error whose id
	// is null. It is for the side of editors: agents print what they like.
	AnswerGarbage bool

	// Notify is told of a notification. It runs in the reader goroutine and
	// must not block; params are raw, nil if absent, and the callee's to keep.
	Notify func(method string, params json.RawMessage, line uint64)
	// Admit is told of a request, in the same goroutine and order as Notify,
	// and must not block either. The Handler it returns is then run in a
	// goroutine of its own; nil answers -32601, unless it has called
	// [Request.Defer].
	Admit func(r *Request) Handler
	// Unclaimed is told of a response to an id that no Call waits for, in the
	// same goroutine and order. The id is verbatim and can be "null" (the
	// other side complains of a line it could not read). Exactly one of result
	// and err is set; line counts as with Notify.
	Unclaimed func(id, result json.RawMessage, err *Error, line uint64)
	// Garbage is told of a line that is no message, for the log, in the same
	// goroutine. The line is valid during the call only; it is nil, with
	// ErrLineTooLong, if it was too long.
	Garbage func(line []byte, err error)
	// Panicked is told of a handler's panic, for the log, in the handler's
	// goroutine.
	Panicked func(method string, value any, stack []byte)
}

// A Peer is one end of a connection. See the package comment for what runs
// where. All methods may be called from everywhere, also from callbacks and
// handlers, except Wait, Room and Drain, which wait.
type Peer struct {
	o Options
	r io.Reader
	w io.WriteCloser

	queue    queue
	calls    calls
	requests requests

	// ctx is the parent of the handlers' contexts and lives until done.
	ctx    context.Context
	cancel context.CancelFunc
	done   chan struct{}
	eof    chan struct{}

	mu      sync.Mutex // guards starting against closing
	started bool
	running sync.WaitGroup // reader, writer, and what closes r and w; added to while the peer is not closed

	// The rest belongs to the reader goroutine.
	lines  *lineReader
	scan   scanner
	server *jrpc2.Server // nil until the first request
	feed   chan []byte   // to the server
	method string        // of the line before: the next is likely the same
}

// New returns a peer that reads r and writes w, and starts nothing. When the
// peer closes it closes w, and r too if that is an io.Closer.
func New(r io.Reader, w io.WriteCloser, o Options) *Peer {
	if o.MaxLine <= 0 {
		o.MaxLine = 64 << 20
	}
	if o.MaxQueue <= 0 {
		o.MaxQueue = 16 << 20
	}
	if o.MaxInFlight <= 0 {
		o.MaxInFlight = 256
	}
	p := &Peer{o: o, r: r, w: w, done: make(chan struct{}), eof: make(chan struct{})}
	p.ctx, p.cancel = context.WithCancel(context.Background())
	p.queue.max, p.queue.holds = o.MaxQueue, 1 // the reader's
	p.queue.spawn = func() { p.running.Go(p.write) }
	p.requests.max = o.MaxInFlight
	return p
}

// Start begins reading and writing. It does nothing on a peer that has been
// started or closed.
func (p *Peer) Start() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.started || p.queue.reason() != nil {
		return
	}
	p.started = true
	p.running.Go(p.read)
	p.queue.start()
}

// Enqueue puts lines on the queue, together and in order. Each slice is a
// complete line, or several, with the line break at its end; it is kept until
// it is written, not written to, and may be given to any number of peers.
// Enqueue never waits. Its error is the reason why the peer closed.
func (p *Peer) Enqueue(lines ...[]byte) error {
	if len(lines) == 1 {
		return p.put(item{line: lines[0]})
	}
	items := make([]item, len(lines))
	for i, l := range lines {
		items[i].line = l
	}
	return p.put(items...)
}

// EnqueueNotify is Enqueue for one line, after which written is called, in the
// writer goroutine, once the operating system has taken the line. It is not
// called if the peer closes first. It must not block.
func (p *Peer) EnqueueNotify(line []byte, written func()) error {
	return p.put(item{line, written})
}

func (p *Peer) put(items ...item) error {
	overflow, err := p.queue.put(items...)
	if overflow {
		// Closing the connection may take a moment, and the caller may not wait.
		p.shut(err, func(hangUp func()) { go hangUp() })
	}
	return err
}

// send enqueues an answer of our own. If the peer is closed there is nobody to
// answer.
func (p *Peer) send(line []byte) { _ = p.Enqueue(line) }

// Queued returns how many bytes have been enqueued and not yet written.
func (p *Peer) Queued() int {
	p.queue.mu.Lock()
	defer p.queue.mu.Unlock()
	return p.queue.size
}

// Room waits until Queued is less than n. It is how a producer that has a
// source to wait on keeps to the pace of its reader. If the peer closes it
// returns the reason.
func (p *Peer) Room(ctx context.Context, n int) error { return p.queue.wait(ctx, n) }

// Drain waits until everything that is enqueued has been written. If the peer
// closes before, it returns the reason.
func (p *Peer) Drain(ctx context.Context) error { return p.queue.wait(ctx, 1) }

// EOF returns a channel that is closed when the input has ended, after the
// last line was dealt with. The other side can still be written to.
func (p *Peer) EOF() <-chan struct{} { return p.eof }

// Close ends the peer now: what is queued is dropped, r and w are closed, the
// contexts of handlers are cancelled. The first reason counts; nil stands for
// ErrClosed. If r is no io.Closer, and closing w does not end its reads, the
// reader ends with the next line.
func (p *Peer) Close(err error) {
	p.shut(err, func(hangUp func()) { hangUp() })
}

// shut closes the peer for the reason err unless it is closed already. do is
// to call hangUp, here or in a goroutine, which Wait then waits for.
func (p *Peer) shut(err error, do func(hangUp func())) {
	if err == nil {
		err = ErrClosed
	}
	p.mu.Lock() // so that Start sees either all of it or nothing
	first := p.queue.close(err)
	p.mu.Unlock()
	if !first {
		return
	}
	p.running.Add(1)
	p.cancel()
	p.requests.close()
	close(p.done)
	do(p.hangUp)
}

// hangUp closes the connection. That frees a reader and a writer that wait on
// it. An error has no addressee any more.
func (p *Peer) hangUp() {
	defer p.running.Done()
	_ = p.w.Close()
	if c, ok := p.r.(io.Closer); ok {
		_ = c.Close()
	}
}

// Done returns a channel that is closed when the peer is closed.
func (p *Peer) Done() <-chan struct{} { return p.done }

// Err returns why the peer was closed, or nil while it is not. The reason is
// io.EOF if it ended by itself: the input has ended, all requests have been
// answered, and all that was enqueued is written.
func (p *Peer) Err() error { return p.queue.reason() }

// Wait waits until the peer is closed and all its goroutines have ended, those
// of handlers included, and returns Err.
func (p *Peer) Wait() error {
	<-p.done
	p.running.Wait()
	return p.Err()
}

// write is the writer goroutine.
func (p *Peer) write() {
	if err := p.queue.write(p.w); err != nil {
		p.Close(err)
	}
}

// read is the reader goroutine. It ends when the input does, and after it the
// handlers and the server.
func (p *Peer) read() {
	err := p.readLines()
	if err != io.EOF {
		p.Close(fmt.Errorf("reading: %w", err))
	}
	close(p.eof)
	p.queue.release()
	if p.server != nil {
		// The server drops what it has not begun when its input ends.
		p.requests.running.Wait()
		close(p.feed)
		_ = p.server.Wait() // the end of the feed is no news
	}
}

func (p *Peer) readLines() error {
	p.lines = newLineReader(p.r, p.o.MaxLine)
	for {
		select {
		case <-p.done: // what is still in the buffer does not count
			return ErrClosed
		default:
		}
		line, own, err := p.lines.next()
		if errors.Is(err, ErrLineTooLong) {
			p.garbage(nil, err, invalid("a line is longer than %d bytes", p.o.MaxLine), false)
			continue
		}
		if err != nil {
			return err
		}
		switch m := p.scan.classify(line); m.kind {
		case notification:
			if p.o.Notify != nil {
				p.o.Notify(p.methodName(m.method), keep(m.params, own), p.lines.n)
			}
		case request:
			p.admit(m, own)
		case response:
			p.settle(m, own)
		case garbage:
			p.garbage(bytes.TrimRight(line, "\r"), m.bad, m.bad, m.mute)
		}
	}
}

func (p *Peer) garbage(line []byte, err error, e *Error, mute bool) {
	if p.o.Garbage != nil {
		p.o.Garbage(line, err)
	}
	if p.o.AnswerGarbage && !mute {
		p.send(errorLine(json.RawMessage("null"), e))
	}
}

// methodName turns a name into a string, mostly without making one.
func (p *Peer) methodName(b []byte) string {
	const worthKeeping = 256
	if len(b) > worthKeeping {
		return string(b)
	}
	if string(b) != p.method {
		p.method = string(b)
	}
	return p.method
}

// keep returns b in memory that may be kept.
func keep(b json.RawMessage, own bool) json.RawMessage {
	if own {
		return b
	}
	return bytes.Clone(b)
}
