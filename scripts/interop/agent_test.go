//go:build unix

package interop_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/hermesd/hermesd/daemon/daemontest"
	"github.com/hermesd/hermesd/transport/acpclient"
	"github.com/hermesd/hermesd/transport/jsonrpc"
)

// An agent of the official SDK is the agent of a session: its question is
// answered by another editor than the one that prompted, it is cancelled, it
// dies and is taken up again, and it ends with the daemon.
func TestOfficialSDKAsAnAgent(t *testing.T) {
	node := needNode(t)
	script, err := filepath.Abs("agent.mjs")
	if err != nil {
		t.Fatal(err)
	}
	bin := t.TempDir()
	if err := daemontest.Build(t.Context(), bin, daemontest.RaceFlags()...); err != nil {
		t.Fatal(err)
	}
	home, err := daemontest.NewHome(bin, fmt.Sprintf("[agents.sdk]\ncommand = [%q, %q]\n", node, script))
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if t.Failed() {
			t.Log(home.Log())
		}
		if err := home.Close(); err != nil { // also when a process is left
			t.Error(err)
		}
	}()
	ctx, cancel := context.WithTimeout(t.Context(), 3*time.Minute)
	defer cancel()
	editor := func() *acpclient.Client {
		cmd := exec.Command(filepath.Join(bin, "hermes-acp-shim"), "--agent", "sdk")
		cmd.Dir, cmd.Env = home.Work, home.Env
		shim, err := acpclient.Spawn(cmd, acpclient.Options{})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = shim.Close() })
		if _, err := shim.Initialize(ctx); err != nil {
			t.Fatal(err, shim.Stderr())
		}
		return shim.Client
	}
	sees := func(e *acpclient.Client, what string) {
		t.Helper()
		if _, err := e.Await(ctx, 0, func(x acpclient.Entry) bool {
			return x.Kind == acpclient.Update && strings.Contains(string(x.Raw), what)
		}); err != nil {
			t.Fatalf("waiting for %s: %v", what, err)
		}
	}

	note := filepath.Join(home.Work, "note.txt")
	if err := os.WriteFile(note, []byte("from the disk"), 0o600); err != nil {
		t.Fatal(err)
	}
	a := editor()
	s, err := a.NewSession(ctx, home.Work)
	if err != nil {
		t.Fatal(err)
	}
	b := editor()
	if _, err := b.Load(ctx, s.ID, home.Work); err != nil {
		t.Fatal(err)
	}
	turn, err := a.StartPrompt(s.ID, note)
	if err != nil {
		t.Fatal(err)
	}
	sees(b, "hello ")
	for len(b.Questions()) == 0 {
		if _, err := b.Await(ctx, 0, func(acpclient.Entry) bool { return len(b.Questions()) > 0 }); err != nil {
			t.Fatal("waiting for the question: ", err)
		}
	}
	if err := b.Answer(b.Questions()[0].ID, "yes"); err != nil {
		t.Fatal(err)
	}
	if _, err := turn.Wait(ctx); err != nil {
		t.Fatal(err)
	}
	for _, e := range []*acpclient.Client{a, b} {
		sees(e, `"text":"yes"`)
		sees(e, "from the disk")
	}

	if turn, err = a.StartPrompt(s.ID, "wait"); err != nil {
		t.Fatal(err)
	}
	sees(b, "waiting")
	if err := a.Notify("session/cancel", map[string]string{"sessionId": s.ID}); err != nil {
		t.Fatal(err)
	}
	if raw, err := turn.Wait(ctx); err != nil || !strings.Contains(string(raw), "cancelled") {
		t.Errorf("cancelled as %s, %v", raw, err)
	}

	_, err = a.Prompt(ctx, s.ID, "die")
	var failed *jsonrpc.Error
	if !errors.As(err, &failed) || !strings.Contains(failed.Message, "exit status 5") {
		t.Errorf("of an agent that dies: %v", err)
	}
	if turn, err = b.StartPrompt(s.ID, "wait"); err != nil { // it is started again
		t.Fatal(err)
	}
	if _, err := a.Await(ctx, a.Len(), func(x acpclient.Entry) bool { return strings.Contains(string(x.Raw), "waiting") }); err != nil {
		t.Fatal("after the agent has died: ", err)
	}
	if err := home.Stop(ctx); err != nil { // in the middle of a turn
		t.Fatal(err)
	}
	if raw, err := turn.Wait(ctx); err == nil && !strings.Contains(string(raw), "cancelled") {
		t.Errorf("ended by the daemon's stop as %s", raw)
	}
}
