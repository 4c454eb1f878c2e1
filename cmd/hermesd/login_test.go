//go:build unix

package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/hermesd/hermesd/agentpool/native/llm/credentials"
	"github.com/hermesd/hermesd/agentpool/native/llm/fakellm"
	"github.com/hermesd/hermesd/daemon/daemontest"
	"github.com/hermesd/hermesd/daemon/session"
	"github.com/hermesd/hermesd/transport/acpclient"
	"github.com/hermesd/hermesd/transport/jsonrpc"
	"github.com/hermesd/hermesd/transport/link"
)

// A daemon that runs finds what is logged in with, and forgets what is logged out
// of, in sessions that are open. The key is in the file of credentials and nowhere
// else.
func TestADaemonThatRunsFindsTheKeyOfALogin(t *testing.T) {
	const key, other = "sk-good-0123456789", "sk-of-the-editor-0123456789"
	server := fakellm.New(t, fakellm.Anthropic, key, fakellm.Script(
		fakellm.Reply{Calls: []fakellm.Call{{Name: "terminal", Args: `{"command":"env"}`}}}, fakellm.Reply{Texts: []string{"hello"}}))
	server.SetModels(0, "claude-x")
	home, editor, ctx := labHome(t, server, `
[agents.hermes]
provider = "lab"
model = "claude-x"
approval_mode = "session"
[log]
level = "trace"
`, map[string]string{"LAB_KEY": other, "SEEN": "yes"})
	if first := string(editor.Entries()[1].Raw); !strings.Contains(first, `"id":"hermesd-login"`) || !strings.Contains(first, `"type":"terminal"`) || !strings.Contains(first, `"args":["--login"]`) {
		t.Errorf("offered are %s", first)
	}
	code := func(err error) int {
		var e *jsonrpc.Error
		if errors.As(err, &e) {
			return e.Code
		}
		return 0
	}
	s, err := editor.NewSession(ctx, home.Work)
	if err != nil {
		t.Fatal(err)
	}
	wantLogin := func() {
		t.Helper()
		if _, err := editor.Prompt(ctx, s.ID, "hello"); code(err) != session.CodeAuthRequired || !strings.Contains(err.Error(), "hermesd login lab") {
			t.Errorf("%v", err)
		}
		if err := editor.Call(ctx, "authenticate", map[string]any{"methodId": "lab"}, nil); code(err) != session.CodeAuthRequired {
			t.Errorf("%v", err)
		}
	}
	wantLogin()

	login := func(key string) (string, error) {
		cmd := home.Command(ctx, "login", "lab")
		cmd.Stdin = strings.NewReader(key + "\n")
		out, err := cmd.CombinedOutput()
		if bytes.Contains(out, []byte(key)) {
			t.Errorf("the key is shown: %s", out)
		}
		return string(out), err
	}
	if out, err := login("sk-bad-0123456789"); err == nil || !strings.Contains(out, "lab does not take the key: invalid x-api-key; nothing is kept") {
		t.Errorf("%v: %s", err, out)
	}
	if out, err := login(key); err != nil || !strings.Contains(out, "The key of lab works, and is kept in") {
		t.Errorf("%v: %s", err, out)
	}
	if err := editor.Call(ctx, "authenticate", map[string]any{"methodId": "lab"}, nil); err != nil {
		t.Error(err)
	}
	if r, err := editor.Prompt(ctx, s.ID, "hello"); err != nil || r.StopReason != "end_turn" {
		t.Errorf("%+v, %v", r, err)
	}
	requests := server.Requests()
	if told := string(requests[len(requests)-1].Body); !strings.Contains(told, "SEEN=yes") || strings.Contains(told, key) || strings.Contains(told, other) {
		t.Errorf("of its environment a command says: %s", told)
	}

	if err := editor.Call(ctx, "logout", map[string]any{}, nil); err != nil {
		t.Error(err)
	}
	wantLogin()
	if err := editor.Call(ctx, "logout", map[string]any{}, nil); code(err) != session.CodeInvalid {
		t.Errorf("%v", err)
	}
	if _, err := login(key); err != nil {
		t.Error(err)
	}

	// Log, journal, store: everything that is on the disk.
	found := 0
	err = filepath.WalkDir(home.Dir, func(name string, e fs.DirEntry, err error) error {
		if err != nil || !e.Type().IsRegular() {
			return err
		}
		text, err := os.ReadFile(name)
		for _, secret := range []string{key, other} {
			switch has := bytes.Contains(text, []byte(secret)); {
			case has && secret == key && e.Name() == credentials.FileName:
				found++
			case has:
				t.Errorf("%s has the key", name)
			}
		}
		return err
	})
	if err != nil || found != 1 {
		t.Errorf("%v, found in %d files", err, found)
	}
	if strings.Contains(home.Log(), key) || strings.Contains(home.Log(), other) {
		t.Error("the log has the key")
	}
}

// labHome is a daemon that knows the server as "lab", and an editor behind a hello
// with an environment.
func labHome(t *testing.T, server *fakellm.Server, config string, env map[string]string) (*daemontest.Home, *acpclient.Client, context.Context) {
	t.Helper()
	bin := t.TempDir()
	if err := daemontest.Build(t.Context(), bin, daemontest.RaceFlags()...); err != nil {
		t.Fatal(err)
	}
	home, err := daemontest.NewHome(bin, config+fmt.Sprintf("[providers.lab]\nbase_url = %q\nformat = %q\nkey_env = \"LAB_KEY\"\n", server.URL, server.Format))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if t.Failed() {
			t.Log(home.Log())
		}
		if err := home.Close(); err != nil {
			t.Error(err)
		}
	})
	ctx, cancel := context.WithTimeout(context.Background(), 3*time.Minute)
	t.Cleanup(cancel)
	if _, err := home.Serve(ctx); err != nil {
		t.Fatal(err)
	}
	hello := link.Hello{Link: link.Number, ID: link.NewID(), Env: map[string]string{"PATH": os.Getenv("PATH")}}
	maps.Copy(hello.Env, env)
	conn, err := net.Dial("unix", home.Socket())
	if err != nil {
		t.Fatal(err)
	}
	editor, _, err := acpclient.Greet(ctx, conn, hello, acpclient.Options{Capabilities: json.RawMessage(`{"auth":{"terminal":true}}`)})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { editor.Close() })
	if _, err := editor.Initialize(ctx); err != nil {
		t.Fatal(err)
	}
	return home, editor, ctx
}

// What the configuration says of models counts: effort, window, output, prices, and
// how often a model is asked in a turn.
func TestWhatTheConfigurationSaysOfModelsCounts(t *testing.T) {
	server := fakellm.New(t, fakellm.Anthropic, "", fakellm.Script(fakellm.Reply{Calls: []fakellm.Call{{Name: "todo", Args: `{"items":[{"content":"x","status":"pending"}]}`}}}))
	server.SetModels(0, "claude-sonnet-5-5")
	home, editor, ctx := labHome(t, server, `
[agents.hermes]
provider = "lab"
model = "claude-sonnet-5-5"
reasoning_effort = "high"
context_window = 123456
max_output = 4321
max_turn_requests = 3
[agents.hermes.prices."lab/claude-sonnet-5-5"]
input = 1000
output = 1000
currency = "EUR"
`, nil)
	s, err := editor.NewSession(ctx, home.Work)
	if err != nil {
		t.Fatal(err)
	}
	if r, err := editor.Prompt(ctx, s.ID, "go on"); err != nil || r.StopReason != "max_turn_requests" {
		t.Errorf("%+v, %v", r, err)
	}
	requests := server.Requests()
	if len(requests) != 3 {
		t.Errorf("%d requests", len(requests))
	}
	for _, want := range []string{`"effort":"high"`, `"max_tokens":4321`, `"model":"claude-sonnet-5-5"`} {
		if body := string(requests[0].Body); !strings.Contains(body, want) {
			t.Errorf("%s is not in %.300s", want, body)
		}
	}
	var u struct {
		Size int
		Cost struct {
			Amount   float64
			Currency string
		}
	}
	for _, e := range editor.Entries() {
		if e.Update == "usage_update" {
			if err := json.Unmarshal(e.Raw, &u); err != nil {
				t.Error(err)
			}
		}
	}
	if u.Size != 123456 || u.Cost.Currency != "EUR" || u.Cost.Amount <= 0 {
		t.Errorf("%+v", u)
	}
}
