//go:build unix

package native

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"syscall"
	"testing"

	"github.com/hermesd/hermesd/daemon/session"
)

// The process of a server has the environment of the connection that the agent
// was opened for. Here it is one that tells it through a pipe and ends.
func TestInWhichEnvironmentServersRun(t *testing.T) {
	for name, c := range map[string]struct {
		sent []string
		want string
	}{
		"the editor's":      {[]string{"PATH=/usr/bin:/bin", "WHO=editor", "OPENAI_API_KEY=" + fakeKey}, "editor,\n"},
		"the login shell's": {nil, "login,\n"},
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			pipe := filepath.Join(dir, "pipe")
			if err := syscall.Mkfifo(pipe, 0o600); err != nil {
				t.Fatal(err)
			}
			servers, err := json.Marshal([]map[string]any{{
				"name": "teller", "command": "/bin/sh", "args": []string{"-c", `echo "$WHO,$OPENAI_API_KEY" >` + pipe}, "env": []any{},
			}})
			if err != nil {
				t.Fatal(err)
			}
			login := func(context.Context) []string {
				return []string{"PATH=/usr/bin:/bin", "WHO=login", "OPENAI_API_KEY=" + fakeKey}
			}
			a, _, err := Open(t.Context(), session.Spec{Meta: session.Meta{ID: "s", Cwd: dir, MCPServers: servers}, Fresh: true, Environ: c.sent}, newHost(t), Config{Environ: login})
			if err != nil {
				t.Fatal(err)
			}
			defer a.Close()
			got, err := os.ReadFile(pipe) // waits for who writes
			if err != nil || string(got) != c.want {
				t.Errorf("got %q, %v", got, err)
			}
			if text := fmt.Sprint(a.env.Environ); text != "[]" {
				t.Errorf("commands have %s before anybody prompted", text)
			}
		})
	}
}
