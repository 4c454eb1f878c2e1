package daemon_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/hermesd/hermesd/daemon"
	"github.com/hermesd/hermesd/daemon/daemontest"
	"github.com/hermesd/hermesd/daemon/session"
	"github.com/hermesd/hermesd/transport/acpclient"
	"github.com/hermesd/hermesd/transport/link"
	"github.com/hermesd/hermesd/transport/tokens"
)

// beginAndWait plays until somebody cancels it.
func beginAndWait(ctx context.Context, st *daemontest.Stage) (session.TurnResult, error) {
	err := st.Say(ctx, "first")
	<-ctx.Done()
	return session.TurnResult{StopReason: "cancelled"}, err
}

// Who has cancelled what stands in the log, once for each.
func TestTheLogSaysWhoCancelled(t *testing.T) {
	w := newWeb(t, &daemontest.Script{Turn: beginAndWait}, nil)
	far := w.load(w.far(link.Hello{Token: w.token("laptop", tokens.Control)}, acpclient.Options{Name: "far"}))
	running := start(t, far, w.id, "go")
	if _, err := far.Await(within(t), 0, update("agent_message_chunk", "first")); err != nil {
		t.Fatal(err)
	}
	queued := start(t, far, w.id, "and then")
	figured(t, w.Daemon, "the queue", func(f daemon.Figures) bool { return f.Turns.Queued == 1 })
	if err := far.Cancel(w.id); err != nil {
		t.Fatal(err)
	}
	stop(t, running)
	stop(t, queued)
	figured(t, w.Daemon, "the log", func(daemon.Figures) bool { return len(w.log.audit("cancel")) >= 2 })
	lines := w.log.audit("cancel")
	if len(lines) != 2 {
		t.Fatalf("%v", lines)
	}
	turns := map[any]bool{}
	for _, l := range lines {
		turns[l["turn"]] = true
		if l["token"] != "laptop" || l["client"] != "far" || l["session"] != w.id || l["remote"] == "" {
			t.Errorf("%v", l)
		}
	}
	if len(turns) != 2 {
		t.Errorf("the turns are %v", turns)
	}
	// A turn that ends by itself, and one that the daemon ends, are nobody's.
	start(t, w.a, w.id, "again")
	figured(t, w.Daemon, "a turn", func(f daemon.Figures) bool { return f.Turns.Running == 1 })
	w.Drain()
	if lines := w.log.audit("cancel"); len(lines) != 2 {
		t.Errorf("after the end: %v", lines)
	}
	for _, word := range []string{`"message":"attached"`, `"message":"detached"`, `"message":"turn ended"`, `"stop":"cancelled"`, `"message":"agent started"`} {
		if !strings.Contains(w.log.String(), word) {
			t.Errorf("the log lacks %s", word)
		}
	}
}

// After the hello, too, one byte after the other holds nothing for long; the turn
// goes on.
func TestALineFromTheNetworkIsCutOffAndTheTurnGoesOn(t *testing.T) {
	w := newWeb(t, &daemontest.Script{Turn: beginAndWait}, func(c *daemon.Config) { c.Limits.LineTime = 100 * time.Millisecond })
	c := w.dial()
	hello := string(link.Hello{Link: 1, ID: link.NewID(), Token: w.token("laptop", tokens.Control)}.Line())
	if _, err := fmt.Fprintf(c, `%s{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":1}}
{"jsonrpc":"2.0","id":2,"method":"session/load","params":{"sessionId":%q,"cwd":%q,"mcpServers":[]}}
{"jsonrpc":"2.0","id":3,"method":"session/prompt","params":{"sessionId":%q,"prompt":[{"type":"text","text":"go"}]}}
`, hello, w.id, w.cwd, w.id); err != nil {
		t.Fatal(err)
	}
	if _, err := w.a.Await(within(t), 0, update("agent_message_chunk", "first")); err != nil {
		t.Fatal(err)
	}
	if _, err := io.WriteString(c, `{"jsonrpc":"2.0","method":"se`); err != nil {
		t.Fatal(err)
	}
	_ = c.SetReadDeadline(time.Now().Add(20 * time.Second))
	if _, err := io.Copy(io.Discard, c); errors.Is(err, os.ErrDeadlineExceeded) {
		t.Fatal("the connection lives")
	}
	figured(t, w.Daemon, "the turn", func(f daemon.Figures) bool { return f.Turns.Running == 1 && len(f.Connections) == 1 })
	if !strings.Contains(w.log.String(), "a line was not complete after 100ms") {
		t.Errorf("the log does not say why: %s", w.log.String())
	}
	// On this machine a line may take as long as it likes: a debugger may stand in it.
	c = w.Pipe()
	defer c.Close()
	half := `{"jsonrpc":"2.0","id":1,"method":"initialize",`
	if _, err := c.Write([]byte(half)); err != nil {
		t.Fatal(err)
	}
	if _, err := c.Write([]byte(`"params":{"protocolVersion":1}}` + "\n" + half)); err != nil {
		t.Fatal(err)
	}
	answered(t, c)
}

// answered waits for a line.
func answered(t *testing.T, c net.Conn) {
	t.Helper()
	_ = c.SetReadDeadline(time.Now().Add(20 * time.Second))
	if _, err := c.Read(make([]byte, 1)); err != nil {
		t.Error(err)
	}
}
