package daemon_test

import (
	"bufio"
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/hermesd/hermesd/daemon"
	"github.com/hermesd/hermesd/daemon/daemontest"
	"github.com/hermesd/hermesd/daemon/session"
	"github.com/hermesd/hermesd/transport/acpclient"
)

// figured asks for figures until they are as wanted.
func figured(t *testing.T, d *daemon.Daemon, what string, ok func(daemon.Figures) bool) daemon.Figures {
	t.Helper()
	ctx := within(t)
	for {
		f := d.Figures(ctx)
		if ok(f) {
			return f
		}
		if ctx.Err() != nil {
			t.Fatalf("%s: %+v", what, f)
		}
		time.Sleep(time.Millisecond)
	}
}

func TestWhatADaemonCounts(t *testing.T) {
	r := newRoom(t, &daemontest.Script{Turn: func(ctx context.Context, st *daemontest.Stage) (session.TurnResult, error) {
		switch text := st.Text(); {
		case strings.Contains(text, "ask"):
			_, err := st.Permit(ctx, "do it")
			return session.TurnResult{StopReason: "made up by the agent"}, err
		case strings.Contains(text, "fail"):
			return session.TurnResult{}, &session.Error{Code: session.CodeInternal, Message: "no"}
		case strings.Contains(text, "wait"):
			<-ctx.Done()
		}
		return session.TurnResult{StopReason: "end_turn"}, nil
	}}, func(c *daemon.Config) {
		c.Disk = func() daemon.Disk { return daemon.Disk{DatabaseBytes: 7, Counts: []uint64{1, 2}} }
	})
	before := r.Daemon.Figures(within(t))
	if before.Turns.Started != 0 || before.Sessions["idle"] != 1 || before.Disk.DatabaseBytes != 7 || before.Disk.Commits() != 3 || before.In == 0 || before.Out == 0 {
		t.Errorf("at the beginning: %+v", before)
	}
	prompt := func(text string) {
		if _, err := r.a.Prompt(within(t), r.id, text); err != nil && text != "fail" {
			t.Fatal(err)
		}
	}
	prompt("go")
	prompt("fail")
	call := start(t, r.a, r.id, "ask")
	start(t, r.a, r.id, "wait")
	f := figured(t, r.Daemon, "a question and a queue", func(f daemon.Figures) bool {
		return f.Questions.Open == 1 && f.Turns.Queued == 1 && f.Questions.Oldest > 0
	})
	if f.Turns.Running != 1 || f.Sessions["waiting"] != 1 || f.Agents["script"]["waiting"] != 1 {
		t.Errorf("with a question: %+v", f)
	}
	asked, err := r.a.Await(within(t), 0, func(e acpclient.Entry) bool { return e.Kind == acpclient.Asked })
	if err != nil {
		t.Fatal(err)
	}
	if err := r.a.Answer(asked.ID, "yes"); err != nil {
		t.Fatal(err)
	}
	stop(t, call)
	f = figured(t, r.Daemon, "a running turn", func(f daemon.Figures) bool { return f.Turns.Running == 1 && f.Questions.Open == 0 })
	if f.Agents["script"]["busy"] != 1 || f.Sessions["running"] != 1 {
		t.Errorf("in a turn: %+v", f)
	}
	if err := r.a.Cancel(r.id); err != nil {
		t.Fatal(err)
	}
	f = figured(t, r.Daemon, "the end", func(f daemon.Figures) bool { return f.Turns.Ended["cancelled"] == 1 })
	if f.Turns.Started != 4 || f.Turns.Ended["end_turn"] != 1 || f.Turns.Ended["error"] != 1 || f.Turns.Ended["other"] != 1 || f.Questions.Asked != 1 || f.Questions.Closed["selected"] != 1 {
		t.Errorf("in the end: %+v", f)
	}
	if len(f.Turns.Ended) != 4 {
		t.Errorf("an agent makes names: %v", f.Turns.Ended)
	}
	if f.In <= before.In || f.Out <= before.Out {
		t.Errorf("bytes: %d → %d, %d → %d", before.In, f.In, before.Out, f.Out)
	}
}

func TestWhoDoesNotReadIsSeenToLag(t *testing.T) {
	r := newRoom(t, &daemontest.Script{Turn: func(ctx context.Context, st *daemontest.Stage) (session.TurnResult, error) {
		for range 500 {
			if err := st.Say(ctx, "%s", strings.Repeat("x", 2000)); err != nil {
				return session.TurnResult{}, err
			}
		}
		return session.TurnResult{StopReason: "end_turn"}, nil
	}}, func(c *daemon.Config) { c.Limits.SoftQueue = 64 << 10 })
	tired := r.Pipe()
	defer tired.Close()
	go fmt.Fprintf(tired, `{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":1,"clientInfo":{"name":"tired","version":"1"}}}
{"jsonrpc":"2.0","id":2,"method":"session/load","params":{"sessionId":%q,"cwd":%q,"mcpServers":[]}}
`, r.id, r.cwd)
	lines := bufio.NewReader(tired)
	for {
		line, err := lines.ReadString('\n')
		if err != nil {
			t.Fatal(err)
		}
		if strings.Contains(line, `"id":2`) {
			break // from here on it reads nothing
		}
	}
	start(t, r.a, r.id, "go")
	figured(t, r.Daemon, "the lag", func(f daemon.Figures) bool {
		for _, c := range f.Connections {
			if c.Client == "tired" {
				return c.Behind > 100 && c.Queued > 0 && c.In > 0 && c.Out > 0
			}
		}
		return false
	})
	for _, c := range r.Daemon.Figures(within(t)).Connections {
		if c.Client != "tired" && c.Behind > 0 {
			figured(t, r.Daemon, "the one who reads", func(f daemon.Figures) bool {
				for _, c := range f.Connections {
					if c.Client != "tired" && c.Behind > 0 {
						return false
					}
				}
				return true
			})
		}
	}
}
