//go:build unix

package native

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/hermesd/hermesd/agentpool/native/grants"
	"github.com/hermesd/hermesd/agentpool/native/llm"
	"github.com/hermesd/hermesd/agentpool/native/mcp"
	"github.com/hermesd/hermesd/daemon/session"
)

// A tool that says it only reads (echo does) is held to all that holds for one
// that says nothing: by a server that is not trusted, and also if the user has
// always allowed it.
func TestAToolThatSaysItOnlyReadsIsHeldToEveryRule(t *testing.T) {
	for _, trusted := range []bool{false, true} {
		t.Run(fmt.Sprintf("trusted %v", trusted), func(t *testing.T) {
			s := &script{}
			server := childServer("a", "good")
			server.Trusted = trusted
			w := newWorld(t, Config{LLM: s, MCP: MCPConfig{Wait: time.Minute, Servers: []mcp.Server{server}}})
			if _, err := w.cfg.Grants.Give(grants.Workspace(w.dir), grants.Tool, "a/echo", "s"); err != nil {
				t.Fatal(err)
			}
			file := filepath.Join(w.dir, "a")
			set := func(m string) {
				t.Helper()
				if _, err := w.agent.Set(context.Background(), session.Change{Mode: m}); err != nil {
					t.Fatal(err)
				}
			}
			calls := 0
			do := func(all ...llm.Event) {
				t.Helper()
				s.messages = [][]llm.Event{all}
				w.mu.Lock()
				w.asked, w.orders = nil, nil
				w.mu.Unlock()
				w.prompt("go")
				calls += len(all)
			}
			echo := calling("mcp__a__echo", `{"t":"x"}`)

			do(echo)
			if end := w.last(calls - 1); len(w.asked) != 0 || end["status"] != "completed" {
				t.Errorf("asked %d times: %v", len(w.asked), end)
			}
			w.mu.Lock()
			orders := slices.Clone(w.orders)
			w.mu.Unlock()
			if barrier := slices.Contains(orders, "barrier"); barrier == trusted {
				t.Errorf("what happened: %q", orders)
			}

			set("plan")
			do(echo)
			end := w.last(calls - 1)
			if refused := end["status"] == "failed" && strings.Contains(fmt.Sprint(end["rawOutput"]), "plan mode"); refused == trusted {
				t.Errorf("in plan mode: %v", end)
			}

			set("default")
			w.answer = choose(rejectOnce)
			do(calling("write_file", string(encode(map[string]string{"path": file, "content": "x"}))), echo)
			if _, err := os.Stat(file); err == nil {
				t.Error("it was written")
			}
			if want := map[bool]int{false: 2, true: 1}[trusted]; len(w.asked) != want {
				t.Errorf("after an edit that was not allowed, asked %d times, want %d", len(w.asked), want)
			}
		})
	}
}
