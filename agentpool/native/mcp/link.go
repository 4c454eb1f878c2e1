package mcp

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/url"
	"path/filepath"
	"runtime"
	"strings"
	"sync/atomic"
	"time"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	sdk "github.com/modelcontextprotocol/go-sdk/mcp"
)

// version is what the conversation begins with. Newer servers are asked by
// "initialize" too and not by "server/discover" first, as the SDK would:
// servers are known that end when the first message is another one.
const version = "2025-11-25"

// link is one connection to a server.
type link struct {
	server       *server
	session      *sdk.ClientSession
	ending       func()        // ends the transport at once
	why          func() string // what became of the process; nil if there is none
	cleanup      func()
	life         context.Context // of requests of the server
	end          context.CancelFunc
	done         chan struct{} // closed when the connection has ended
	err          error         // why; read it after done
	listChanged  chan struct{} // capacity 1
	tools        []Tool        // owned by the server's goroutine
	instructions string
	tokens       atomic.Int64 // last progress token
}

// connect dials or starts a server and shakes hands with it.
func (o Options) connect(ctx context.Context, s *server) (*link, error) {
	spec := s.spec
	if spec.Transport == Stdio {
		t := &stdioTransport{spec: spec, opts: o}
		l, err := o.handshake(ctx, s, t, t.abort)
		c := t.conn.Load()
		switch {
		case err == nil:
			l.why = c.why
			return l, nil
		case c == nil: // it was not started
			return nil, err
		}
		c.Close()
		if ctx.Err() == nil && !isAnswer(err) {
			return nil, errors.New(c.why())
		}
		if last := spec.lastWords(c.stderr); last != "" {
			err = fmt.Errorf("%w; the last it said was: %s", err, last)
		}
		return nil, spec.short(err)
	}
	t, err := newRemote(spec)
	if err != nil {
		return nil, err
	}
	l, err := o.handshake(ctx, s, t, t.abort)
	if err != nil {
		t.abort()
		t.client.CloseIdleConnections()
		return nil, spec.short(err)
	}
	l.cleanup = t.client.CloseIdleConnections
	return l, nil
}

// handshake makes a link of a server over a transport. abort ends the
// transport's connection under the SDK. The link is whole before the SDK starts
// to read: a server may send something right behind its first answer.
func (o Options) handshake(ctx context.Context, s *server, t sdk.Transport, abort func()) (*link, error) {
	l := &link{server: s, ending: abort, cleanup: func() {}, done: make(chan struct{}), listChanged: make(chan struct{}, 1)}
	l.life, l.end = context.WithCancel(context.Background())
	client := sdk.NewClient(&sdk.Implementation{Name: "hermesd", Title: "hermesd", Version: o.Version}, &sdk.ClientOptions{
		Logger: slog.New(slog.DiscardHandler), // it would write what is secret
		Capabilities: &sdk.ClientCapabilities{
			//lint:ignore SA1019 servers of the versions in use ask for roots; there is nothing in their place yet
			RootsV2:     &sdk.RootCapabilities{},
			Elicitation: &sdk.ElicitationCapabilities{Form: &sdk.FormElicitationCapabilities{}},
		},
		ElicitationHandler: l.elicit,
		ToolListChangedHandler: func(context.Context, *sdk.ToolListChangedRequest) {
			select {
			case l.listChanged <- struct{}{}:
			default:
			}
		},
		ProgressNotificationHandler: func(_ context.Context, r *sdk.ProgressNotificationClientRequest) { l.progress(r.Params) },
	})
	for _, dir := range append([]string{o.Cwd}, o.Dirs...) {
		//lint:ignore SA1019 as above
		client.AddRoots(&sdk.Root{URI: fileURI(dir), Name: filepath.Base(dir)})
	}
	// Where the SDK does not look at ctx the connection is ended under it.
	stop := context.AfterFunc(ctx, abort)
	session, err := client.Connect(ctx, t, &sdk.ClientSessionOptions{ProtocolVersion: version})
	if !stop() && err == nil {
		session.Close()
		err = ctx.Err()
	}
	if err != nil {
		l.end()
		return nil, err
	}
	l.session = session
	if res := session.InitializeResult(); res != nil {
		l.instructions = cut(strings.TrimSpace(strings.ToValidUTF8(res.Instructions, "\uFFFD")), maxText, "…")
	}
	go func() {
		l.err = session.Wait()
		close(l.done)
	}()
	return l, nil
}

// rejected is the code of the SDK's own error for what did not get to a server.
const rejected = -32005

// isAnswer tells whether the server has answered, with an error.
func isAnswer(err error) bool {
	var e *jsonrpc.Error
	return errors.As(err, &e) && e.Code != rejected
}

// fileURI is the file URI of an absolute path.
func fileURI(path string) string {
	path = filepath.ToSlash(path)
	if runtime.GOOS == "windows" && !strings.HasPrefix(path, "/") {
		path = "/" + path
	}
	return (&url.URL{Scheme: "file", Path: path}).String()
}

// list asks for the tools.
func (l *link) list(ctx context.Context) error {
	if res := l.session.InitializeResult(); res != nil && res.Capabilities != nil && res.Capabilities.Tools == nil {
		l.tools = nil
		return nil
	}
	var all []*sdk.Tool
	for t, err := range l.session.Tools(ctx, nil) {
		if err != nil {
			return fmt.Errorf("listing its tools: %w", err)
		}
		if all = append(all, t); len(all) == maxTools {
			break
		}
	}
	l.tools = readTools(l.server.spec.Name, all)
	return nil
}

// failure says why the connection does not work; err is what is known of it.
func (l *link) failure(err error) error {
	var timeout <-chan time.Time
	if err != nil {
		if isAnswer(err) {
			return l.server.spec.short(err)
		}
		timer := time.NewTimer(exitTime) // its end may be about to be known
		defer timer.Stop()
		timeout = timer.C
	}
	select {
	case <-l.done:
	case <-timeout:
		return l.server.spec.short(err)
	}
	if l.why != nil {
		return errors.New(l.why())
	}
	if l.err != nil && !errors.Is(l.err, io.EOF) {
		return l.server.spec.short(l.err)
	}
	if err != nil && !errors.Is(err, sdk.ErrConnectionClosed) {
		return l.server.spec.short(err)
	}
	return errors.New("the connection has ended")
}

// over tells whether the connection has ended.
func (l *link) over() bool {
	select {
	case <-l.done:
		return true
	default:
		return false
	}
}

// close ends the connection and returns when nothing of it runs.
func (l *link) close() {
	l.end()
	closed := make(chan struct{})
	go func() {
		defer close(closed)
		l.session.Close() // what it has to say is known, or nobody wants to know it
	}()
	// The SDK waits for requests that are under way. They have been told to
	// end, but nothing makes them.
	timer := time.NewTimer(3 * exitTime)
	defer timer.Stop()
	select {
	case <-closed:
	case <-timer.C:
	}
	l.ending()
	<-closed
	<-l.done
	l.cleanup()
}
