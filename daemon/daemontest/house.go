package daemontest

import (
	"context"
	"net"
	"os"
	"testing"
	"time"

	"github.com/rs/zerolog"

	"github.com/hermesd/hermesd/daemon"
	"github.com/hermesd/hermesd/daemon/session"
	"github.com/hermesd/hermesd/transport"
	"github.com/hermesd/hermesd/transport/acpclient"
	"github.com/hermesd/hermesd/transport/link"
)

// House is a daemon inside the test's process, with a store and agents of the
// test's choice and editors that are connected by pipes in memory.
type House struct {
	Daemon *daemon.Daemon
	t      testing.TB
}

// NewHouse makes a daemon; adjust may change its config before. It is drained
// when the test ends.
func NewHouse(t testing.TB, store session.Store, agents session.Agents, adjust func(*daemon.Config)) *House {
	t.Helper()
	cfg := daemon.Config{
		Version: "test", Session: session.DefaultConfig(), Limits: daemon.DefaultLimits(),
		Log: zerolog.New(zerolog.NewTestWriter(t)).Level(zerolog.WarnLevel),
		Agents: func() []daemon.AgentInfo {
			return []daemon.AgentInfo{{Name: agents.Default(), Type: "script", Default: true}}
		},
	}
	if adjust != nil {
		adjust(&cfg)
	}
	h := &House{Daemon: daemon.New(cfg, store, agents), t: t}
	t.Cleanup(h.Drain)
	return h
}

// Drain ends the daemon in good order.
func (h *House) Drain() {
	ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
	defer cancel()
	if err := h.Daemon.Drain(ctx); err != nil {
		h.t.Errorf("drain: %v", err)
	}
}

// Pipe gives the editor's end of a new connection.
func (h *House) Pipe() net.Conn {
	theirs, ours := net.Pipe()
	go h.Daemon.ServeConn(&transport.Conn{Conn: ours, Principal: transport.Principal{UID: os.Getuid(), PID: os.Getpid(), Network: "pipe", Remote: "test"}})
	return theirs
}

// Editor connects and initializes a new editor, as a plain ACP client. It is
// closed when the test ends.
func (h *House) Editor(o acpclient.Options) *acpclient.Client {
	h.t.Helper()
	c := h.Pipe()
	e := acpclient.New(c, c, o)
	h.t.Cleanup(func() { e.Close() })
	h.initialize(e)
	return e
}

// EditorWithHello is Editor behind a shim's hello.
func (h *House) EditorWithHello(hello link.Hello, o acpclient.Options) *acpclient.Client {
	h.t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	e, _, err := acpclient.Greet(ctx, h.Pipe(), hello, o)
	if err != nil {
		h.t.Fatalf("greeting the daemon: %v", err)
	}
	h.t.Cleanup(func() { e.Close() })
	h.initialize(e)
	return e
}

func (h *House) initialize(e *acpclient.Client) {
	h.t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	if _, err := e.Initialize(ctx); err != nil {
		h.t.Fatalf("initialize: %v", err)
	}
}
