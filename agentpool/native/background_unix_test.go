//go:build unix

package native

import (
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/hermesd/hermesd/agentpool/native/llm"
)

// A command in the background is there in the next turn, keeps the session in
// memory, and ends with the agent.
func TestABackgroundCommandLivesBetweenTurnsAndEndsWithTheAgent(t *testing.T) {
	s := &script{messages: [][]llm.Event{
		{calling("terminal", `{"command":"echo $$ > pid; sleep 300","background":true}`)}, nil,
		{calling("process", `{"action":"list"}`)},
	}}
	w := newWorld(t, Config{LLM: s, ApprovalMode: "session"})
	w.prompt("start")
	w.prompt("look")
	last := s.requests[len(s.requests)-1].Messages
	if got := last[len(last)-1].Parts[0].Result.Text; !strings.Contains(got, ": running for ") || !w.agent.Busy() {
		t.Errorf("the next turn sees %q; busy %v", got, w.agent.Busy())
	}
	data, err := os.ReadFile(filepath.Join(w.dir, "pid"))
	if err != nil {
		t.Fatal(err)
	}
	pid, _ := strconv.Atoi(strings.TrimSpace(string(data)))
	w.agent.Close()
	stat, _ := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/stat")
	if err := syscall.Kill(pid, 0); err == nil && !strings.Contains(string(stat), ") Z ") || w.agent.Busy() {
		t.Errorf("process %d lives on after Close; busy %v", pid, w.agent.Busy())
	}
}

func TestEditorsAreToldThatABackgroundCommandIsOver(t *testing.T) {
	s := &script{messages: [][]llm.Event{{calling("terminal", `{"command":"exit 4","background":true}`)}}}
	w := newWorld(t, Config{LLM: s, ApprovalMode: "session"})
	w.prompt("start")
	for deadline := time.Now().Add(10 * time.Second); ; time.Sleep(5 * time.Millisecond) {
		for _, u := range w.updates("session_info_update") {
			if meta, ok := u["_meta"].(map[string]any); ok {
				end := meta["hermes"].(map[string]any)["process"].(map[string]any)
				if end["command"] != "exit 4" || end["state"] != "exit status 4" || len(u) != 2 {
					t.Errorf("%v", u)
				}
				return
			}
		}
		if time.Now().After(deadline) {
			t.Fatal("nobody was told")
		}
	}
}
