package daemon_test

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/rs/zerolog"

	"github.com/hermesd/hermesd/daemon"
	"github.com/hermesd/hermesd/daemon/daemontest"
	"github.com/hermesd/hermesd/daemon/session"
	"github.com/hermesd/hermesd/store"
	"github.com/hermesd/hermesd/transport"
	"github.com/hermesd/hermesd/transport/acp"
	"github.com/hermesd/hermesd/transport/acpclient"
	"github.com/hermesd/hermesd/transport/identity"
	"github.com/hermesd/hermesd/transport/jsonrpc"
	"github.com/hermesd/hermesd/transport/link"
	"github.com/hermesd/hermesd/transport/remote"
	"github.com/hermesd/hermesd/transport/tokens"
)

// logged is a log that a test can read.
type logged struct {
	mu   sync.Mutex
	text bytes.Buffer
}

func (l *logged) Write(b []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.Write(b)
}

func (l *logged) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.String()
}

// lines gives the log's lines with this value of "audit".
func (l *logged) audit(what string) (all []map[string]any) {
	for _, line := range strings.Split(l.String(), "\n") {
		var m map[string]any
		if json.Unmarshal([]byte(line), &m) == nil && m["audit"] == what {
			all = append(all, m)
		}
	}
	return all
}

// web is a room whose daemon listens on the loopback, with TLS.
type web struct {
	*room
	log     *logged
	file    *tokens.File
	book    *remote.Book
	address transport.Address
}

func newWeb(t *testing.T, agent *daemontest.Script, adjust func(*daemon.Config)) *web {
	t.Helper()
	w := &web{log: &logged{}}
	w.room = newRoom(t, agent, func(c *daemon.Config) {
		c.Log = zerolog.New(w.log).Level(zerolog.TraceLevel)
		if adjust != nil {
			adjust(c)
		}
	})
	w.listen(t, transport.TCP)
	return w
}

func (w *web) listen(t *testing.T, network string) {
	t.Helper()
	dir := t.TempDir()
	cert, err := identity.LoadOrMake(t.Context(), dir)
	if err != nil {
		t.Fatal(err)
	}
	w.file = tokens.Open(filepath.Join(dir, "tokens.json"))
	w.book = remote.NewBook(t.TempDir())
	ln, err := transport.ListenNetwork(t.Context(), transport.NetworkConfig{
		Address: transport.Address{Network: network, Host: "127.0.0.1"}, Certificate: cert, Tokens: w.file,
	})
	if err != nil {
		t.Fatal(err)
	}
	w.address = ln.Address()
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan struct{})
	go func() {
		defer close(done)
		if err := w.Daemon.Serve(ctx, ln); err != nil {
			t.Error(err)
		}
	}()
	t.Cleanup(func() { cancel(); <-done })
}

func (w *web) token(name string, role tokens.Role) string {
	w.t.Helper()
	secret, _, err := w.file.Create(name, role)
	if err != nil {
		w.t.Fatal(err)
	}
	return secret
}

func (w *web) dial() net.Conn {
	w.t.Helper()
	c, err := w.book.Dial(within(w.t), w.address, "")
	if err != nil {
		w.t.Fatal(err)
	}
	w.t.Cleanup(func() { c.Close() })
	return c
}

// far connects and initializes an editor of another machine.
func (w *web) far(hello link.Hello, o acpclient.Options) *acpclient.Client {
	w.t.Helper()
	if hello.ID == "" {
		hello.ID = link.NewID()
	}
	hello.Link = 1
	e, _, err := acpclient.Greet(within(w.t), w.dial(), hello, o)
	if err != nil {
		w.t.Fatal(err)
	}
	w.t.Cleanup(func() { e.Close() })
	if _, err := e.Initialize(within(w.t)); err != nil {
		w.t.Fatal(err)
	}
	return e
}

func (w *web) load(e *acpclient.Client) *acpclient.Client {
	w.t.Helper()
	if _, err := e.Load(within(w.t), w.id, w.cwd); err != nil {
		w.t.Fatal(err)
	}
	return e
}

// revoke does what the command does, and says how many connections were cut.
func (w *web) revoke(name string) int {
	w.t.Helper()
	if _, err := w.file.Revoke(name); err != nil {
		w.t.Fatal(err)
	}
	var reply struct {
		Closed int `json:"closed"`
	}
	if err := w.a.Call(within(w.t), "_hermes/tokens/changed", map[string]any{}, &reply); err != nil {
		w.t.Fatal(err)
	}
	return reply.Closed
}

// codeOf is the code of an error, 0 if it is none.
func codeOf(err error) int {
	var e *jsonrpc.Error
	if errors.As(err, &e) {
		return e.Code
	}
	return 0
}

func update(kind, part string) func(acpclient.Entry) bool {
	return func(e acpclient.Entry) bool {
		return e.Kind == acpclient.Update && e.Update == kind && strings.Contains(string(e.Raw), part)
	}
}

func TestAnEditorOfAnotherMachineWorksAsOneOfThisMachine(t *testing.T) {
	w := newWeb(t, &daemontest.Script{Turn: func(ctx context.Context, st *daemontest.Stage) (session.TurnResult, error) {
		a, err := st.Permit(ctx, "do it")
		if err != nil {
			return session.TurnResult{}, err
		}
		return session.TurnResult{StopReason: "end_turn"}, st.Say(ctx, "allowed %v", a.Allowed())
	}}, nil)
	far := w.load(w.far(link.Hello{Token: w.token("laptop", tokens.Control)}, acpclient.Options{
		Name: "far", Permission: func(context.Context, acpclient.Question) (string, error) { return "yes", nil },
	}))
	if res, err := far.Prompt(within(t), w.id, "go"); err != nil || res.StopReason != "end_turn" {
		t.Fatalf("%+v, %v", res, err)
	}
	if err := far.SetMode(within(t), w.id, "two"); err != nil {
		t.Fatal(err)
	}
	// The other editor is told who it was.
	e, err := w.a.Await(within(t), 0, update("user_message_chunk", "go"))
	if err != nil {
		t.Fatal(err)
	}
	who, _ := acp.GetPath(e.Raw, "_meta", "hermes", "origin")
	name, _ := acp.GetString(who, "token")
	addr, _ := acp.GetString(who, "remote")
	client, _ := acp.GetString(who, "client")
	if name != "laptop" || !strings.HasPrefix(addr, "127.0.0.1:") || client != "far" {
		t.Errorf("origin %s", who)
	}
	if _, err := w.a.Await(within(t), 0, update("session_info_update", `"origin":{"client":"far","token":"laptop"`)); err != nil {
		t.Errorf("the turn's state does not say who: %v", err)
	}
	// A replay says the same.
	late := w.join(acpclient.Options{})
	if e, err := late.Await(within(t), 0, update("user_message_chunk", "go")); err != nil || !strings.Contains(string(e.Raw), `"token":"laptop"`) {
		t.Errorf("the replay says %s, %v", e.Raw, err)
	}
	// The log says of each decision who it was; once.
	for what, want := range map[string]string{"prompt": "", "answer": "yes", "mode": "two"} {
		lines := w.log.audit(what)
		if len(lines) != 1 || lines[0]["token"] != "laptop" || lines[0]["remote"] != addr || lines[0]["session"] != w.id || lines[0]["client"] != "far" {
			t.Errorf("%s: %v", what, lines)
			continue
		}
		if want != "" && lines[0]["option"] != want && lines[0]["mode"] != want {
			t.Errorf("%s: %v", what, lines[0])
		}
	}
	// So does what a person asks for.
	var shown struct {
		Attached []struct{ Client, Token, Role, Remote string } `json:"attached"`
	}
	if err := w.a.Call(within(t), "_hermes/sessions/show", map[string]any{"sessionId": w.id}, &shown); err != nil {
		t.Fatal(err)
	}
	if !slices.ContainsFunc(shown.Attached, func(c struct{ Client, Token, Role, Remote string }) bool {
		return c.Client == "far" && c.Token == "laptop" && c.Role == "control" && c.Remote == addr
	}) {
		t.Errorf("sessions show: %+v", shown)
	}
	if err := far.Delete(within(t), w.id); err != nil {
		t.Fatal(err)
	}
	if lines := w.log.audit("deleted"); len(lines) != 1 || lines[0]["token"] != "laptop" {
		t.Errorf("delete: %v", lines)
	}
	// Those of this machine are named by user and process.
	if lines := w.log.audit("created"); len(lines) != 1 || lines[0]["pid"] == nil || lines[0]["token"] != nil {
		t.Errorf("created: %v", lines)
	}
}

// What there is to call, and that an observer may not.
var changing = map[string]map[string]any{
	"session/new":                {"cwd": "/", "mcpServers": []any{}},
	"session/prompt":             {"prompt": []any{map[string]any{"type": "text", "text": "x"}}},
	"session/fork":               {"cwd": "/", "mcpServers": []any{}},
	"session/set_mode":           {"modeId": "two"},
	"session/set_config_option":  {"configId": "mode", "value": "two"},
	"session/delete":             {},
	"_hermes/stop":               {},
	"_hermes/permissions/answer": {"id": "x", "optionId": "yes"},
	"_hermes/tokens/changed":     {},
	"_hermes/doctor":             {"commands": []string{"sh"}},
	"_hermes/backup":             {"path": "/tmp/backup"},
	"_hermes/sessions/import":    {"path": "/tmp/session"},
	"_hermes/sessions/pin":       {"pinned": true},
	"_hermes/made/up/tomorrow":   {},
	"session/made_up":            {},
}

func TestAnObserverSeesEverythingAndChangesNothing(t *testing.T) {
	goOn := make(chan struct{})
	w := newWeb(t, &daemontest.Script{Turn: func(ctx context.Context, st *daemontest.Stage) (session.TurnResult, error) {
		if err := st.Say(ctx, "first"); err != nil {
			return session.TurnResult{}, err
		}
		a, err := st.Permit(ctx, "do it")
		if err != nil {
			return session.TurnResult{}, err
		}
		select {
		case <-goOn:
		case <-ctx.Done():
			return session.TurnResult{StopReason: "cancelled"}, nil
		}
		return session.TurnResult{StopReason: "end_turn"}, st.Say(ctx, "allowed %v", a.Allowed())
	}}, func(c *daemon.Config) { c.Stop = func() { t.Error("the daemon was stopped") } })
	wall := w.load(w.far(link.Hello{Token: w.token("wall", tokens.Observe)}, acpclient.Options{Name: "wall"}))
	before := w.head()

	for method := range daemon.Changing {
		if changing[method] == nil {
			t.Errorf("%s is not tried", method)
		}
	}
	for method, params := range changing {
		params["sessionId"] = w.id
		err := wall.Call(within(t), method, params, nil)
		if codeOf(err) != session.CodeForbidden || !strings.Contains(err.Error(), "may only observe") {
			t.Errorf("%s: %v", method, err)
		}
	}
	if now := w.head(); now != before {
		t.Errorf("the log went from %d to %d", before, now)
	}
	for _, method := range []string{"session/list", "_hermes/status", "_hermes/permissions/list", "_hermes/agents/list"} {
		if err := wall.Call(within(t), method, map[string]any{}, nil); err != nil {
			t.Errorf("%s: %v", method, err)
		}
	}
	// Loading with other servers changes nothing either.
	var reply json.RawMessage
	err := wall.Call(within(t), "session/load", map[string]any{"sessionId": w.id, "cwd": w.cwd,
		"mcpServers": []any{map[string]any{"name": "evil", "command": "/bin/evil", "args": []any{}, "env": []any{}}}, "additionalDirectories": []string{"/etc"}}, &reply)
	if err != nil {
		t.Errorf("load: %v", err)
	}
	if now := w.head(); now != before {
		t.Errorf("loading took the log from %d to %d", before, now)
	}

	// A question is not put to it; what it cancels goes on.
	call := start(t, w.a, w.id, "go")
	if _, err := wall.Await(within(t), 0, update("agent_message_chunk", "first")); err != nil {
		t.Fatal(err)
	}
	asked, err := w.a.Await(within(t), 0, func(e acpclient.Entry) bool { return e.Kind == acpclient.Asked })
	if err != nil {
		t.Fatal(err)
	}
	if err := wall.Cancel(w.id); err != nil {
		t.Fatal(err)
	}
	for _, line := range []string{
		// The answer to a question that stands before somebody else, and the
		// cancelling of his request.
		fmt.Sprintf(`{"jsonrpc":"2.0","id":%s,"result":{"outcome":{"outcome":"selected","optionId":"yes"}}}`, asked.ID),
		`{"jsonrpc":"2.0","method":"$/cancel_request","params":{"requestId":2}}`,
		`{"jsonrpc":"2.0","method":"$/cancel_request","params":{"requestId":3}}`,
	} {
		if err := wall.Send([]byte(line + "\n")); err != nil {
			t.Fatal(err)
		}
	}
	if err := wall.Call(within(t), "_hermes/status", map[string]any{}, nil); err != nil { // what came before has been handled
		t.Fatal(err)
	}
	if len(w.a.Questions()) != 1 {
		t.Fatal("the question is gone")
	}
	if err := w.a.Answer(w.a.Questions()[0].ID, "no"); err != nil {
		t.Fatal(err)
	}
	close(goOn)
	if got := stop(t, call); got != "end_turn" {
		t.Errorf("the prompt was answered %s", got)
	}
	if _, err := wall.Await(within(t), 0, update("agent_message_chunk", "allowed false")); err != nil {
		t.Error(err)
	}
	for _, e := range wall.Entries() {
		if e.Kind == acpclient.Asked {
			t.Errorf("it was asked %s", e.Raw)
		}
	}
	if err := wall.CloseSession(within(t), w.id); err != nil {
		t.Errorf("leaving: %v", err)
	}
}

// head is how many events the session has.
func (w *web) head() uint64 {
	w.t.Helper()
	var s struct {
		Events uint64 `json:"events"`
	}
	if err := w.a.Call(within(w.t), "_hermes/sessions/show", map[string]any{"sessionId": w.id}, &s); err != nil {
		w.t.Fatal(err)
	}
	return s.Events
}

// Whoever watches must not change what becomes of a question or a turn.
func TestAnObserverDoesNotCountAsSomebodyWhoIsThere(t *testing.T) {
	asked := make(chan session.Answer, 1)
	w := newWeb(t, &daemontest.Script{Turn: func(ctx context.Context, st *daemontest.Stage) (session.TurnResult, error) {
		a, err := st.Permit(context.WithoutCancel(ctx), "do it")
		asked <- a
		return session.TurnResult{StopReason: "end_turn"}, err
	}}, func(c *daemon.Config) { c.Session.DenyDetached, c.Session.MaxEditors = true, 1 })
	token := w.token("wall", tokens.Observe)
	wall := w.load(w.far(link.Hello{Token: token}, acpclient.Options{}))
	start(t, w.a, w.id, "go")
	if _, err := wall.Await(within(t), 0, update("session_info_update", "running")); err != nil {
		t.Fatal(err)
	}
	w.a.Close()
	select {
	case a := <-asked:
		if a.Outcome != session.NobodyThere {
			t.Errorf("outcome %s", a.Outcome)
		}
	case <-within(t).Done():
		t.Fatal("the question stays open")
	}
}

func TestAnObserverWhoIsAloneDoesNotChangeTheRoots(t *testing.T) {
	w := newWeb(t, &daemontest.Script{}, nil)
	wall := w.far(link.Hello{Token: w.token("wall", tokens.Observe)}, acpclient.Options{})
	if err := w.a.CloseSession(within(t), w.id); err != nil {
		t.Fatal(err)
	}
	before := w.head()
	err := wall.Call(within(t), "session/load", map[string]any{"sessionId": w.id, "cwd": w.cwd,
		"mcpServers": []any{map[string]any{"name": "evil", "command": "/bin/evil", "args": []any{}, "env": []any{}}}}, nil)
	if err != nil {
		t.Fatal(err)
	}
	if now := w.head(); now != before {
		t.Errorf("the log went from %d to %d", before, now)
	}
}

func TestRevokingCutsInMidTurnAndTheTurnGoesOn(t *testing.T) {
	goOn := make(chan struct{})
	w := newWeb(t, &daemontest.Script{Turn: func(ctx context.Context, st *daemontest.Stage) (session.TurnResult, error) {
		if err := st.Say(ctx, "first"); err != nil {
			return session.TurnResult{}, err
		}
		<-goOn
		return session.TurnResult{StopReason: "end_turn"}, st.Say(ctx, "last %v", ctx.Err())
	}}, nil)
	laptop, other := w.token("laptop", tokens.Control), w.token("other", tokens.Control)
	far := w.load(w.far(link.Hello{Token: laptop}, acpclient.Options{}))
	still := w.load(w.far(link.Hello{Token: other}, acpclient.Options{}))
	start(t, far, w.id, "go")
	if _, err := far.Await(within(t), 0, update("agent_message_chunk", "first")); err != nil {
		t.Fatal(err)
	}
	if n := w.revoke("laptop"); n != 1 {
		t.Errorf("%d connections were cut", n)
	}
	select {
	case <-far.Done():
	case <-within(t).Done():
		t.Fatal("the connection lives")
	}
	close(goOn)
	for _, e := range []*acpclient.Client{w.join(acpclient.Options{}), still} {
		if _, err := e.Await(within(t), 0, update("agent_message_chunk", "last <nil>")); err != nil {
			t.Errorf("the turn: %v", err)
		}
	}
	if _, _, err := acpclient.Greet(within(t), w.dial(), link.Hello{Link: 1, ID: "x", Token: laptop}, acpclient.Options{}); err == nil || !strings.Contains(err.Error(), "revoked") {
		t.Errorf("again: %v", err)
	}
}

func TestAReplayedHelloTakesNobodysPlace(t *testing.T) {
	w := newWeb(t, &daemontest.Script{}, nil)
	mine, theirs := w.token("mine", tokens.Control), w.token("theirs", tokens.Observe)
	hello := link.Hello{ID: link.NewID(), Token: mine}
	first := w.load(w.far(hello, acpclient.Options{}))
	// With another token it is another connection.
	hello.Token = theirs
	second := w.load(w.far(hello, acpclient.Options{}))
	// So it is if it takes the id of one on this machine.
	var s struct {
		Connections []struct{ ID, Token string } `json:"connections"`
	}
	if err := w.a.Call(within(t), "_hermes/status", map[string]any{}, &s); err != nil {
		t.Fatal(err)
	}
	for _, c := range s.Connections {
		w.load(w.far(link.Hello{ID: c.ID, Token: theirs}, acpclient.Options{}))
	}
	if _, err := first.Prompt(within(t), w.id, "go"); err != nil {
		t.Errorf("the first one: %v", err)
	}
	if _, err := w.a.Prompt(within(t), w.id, "go"); err != nil {
		t.Errorf("the one of this machine: %v", err)
	}
	if err := second.Call(within(t), "_hermes/status", map[string]any{}, nil); err != nil {
		t.Errorf("the second one: %v", err)
	}
	// With the same token it is a client that has come back: it has the place.
	hello.Token = mine
	third := w.load(w.far(hello, acpclient.Options{}))
	select {
	case <-first.Done():
	case <-within(t).Done():
		t.Fatal("two connections of one id")
	}
	if _, err := third.Prompt(within(t), w.id, "go"); err != nil {
		t.Errorf("the third one: %v", err)
	}
}

func TestFilesAreAskedForOnlyWhereTheyAreShared(t *testing.T) {
	caps := func(more string) json.RawMessage {
		return json.RawMessage(`{"fs":{"readTextFile":true,"writeTextFile":true},"terminal":true` + more + `}`)
	}
	for name, tc := range map[string]struct {
		hello  link.Hello
		caps   json.RawMessage
		shares bool
	}{
		"another machine":            {caps: caps("")},
		"says so in its hello":       {hello: link.Hello{SharesFiles: true}, caps: caps(""), shares: true},
		"says so in initialize":      {caps: caps(`,"_meta":{"hermes":{"sharesFiles":true}}`), shares: true},
		"says no":                    {caps: caps(`,"_meta":{"hermes":{"sharesFiles":false}}`)},
		"shares, cannot serve files": {hello: link.Hello{SharesFiles: true}, caps: json.RawMessage(`{}`)},
	} {
		t.Run(name, func(t *testing.T) {
			got := make(chan error, 2)
			w := newWeb(t, &daemontest.Script{Turn: func(ctx context.Context, st *daemontest.Stage) (session.TurnResult, error) {
				_, err := st.ReadTextFile(ctx, "/x")
				got <- err
				got <- st.WriteTextFile(ctx, "/x", "y")
				return session.TurnResult{StopReason: "end_turn"}, nil
			}}, nil)
			tc.hello.Token = w.token("laptop", tokens.Control)
			far := w.load(w.far(tc.hello, acpclient.Options{Capabilities: tc.caps, Request: func(_ context.Context, method string, _ json.RawMessage) (any, error) {
				return map[string]any{"content": "theirs"}, nil
			}}))
			if _, err := far.Prompt(within(t), w.id, "go"); err != nil {
				t.Fatal(err)
			}
			for range 2 {
				if err := <-got; tc.shares == errors.Is(err, session.ErrNoEditor) {
					t.Errorf("got %v", err)
				}
			}
			for _, e := range far.Entries() {
				if e.Kind == acpclient.Asked && !tc.shares {
					t.Errorf("it was asked %s %s", e.Method, e.Raw)
				}
			}
		})
	}
}

func TestALineOfTheNetworkHasItsOwnLimit(t *testing.T) {
	w := newWeb(t, &daemontest.Script{}, func(c *daemon.Config) { c.Limits.MaxLineNet = 100 << 10 })
	c := w.dial()
	if _, err := c.Write(link.Hello{Link: 1, ID: link.NewID(), Token: w.token("a", tokens.Control)}.Line()); err != nil {
		t.Fatal(err)
	}
	r := bufio.NewReader(c)
	if _, err := r.ReadString('\n'); err != nil {
		t.Fatal(err)
	}
	// 64 MiB and more are skipped, refused and forgotten; the connection lives.
	go func() {
		piece := bytes.Repeat([]byte("x"), 1<<20)
		io.WriteString(c, `{"jsonrpc":"2.0","id":1,"method":"`)
		for range 65 {
			if _, err := c.Write(piece); err != nil {
				return
			}
		}
		io.WriteString(c, `"}`+"\n"+`{"jsonrpc":"2.0","id":1,"method":"`+strings.Repeat("x", 101<<10)+`"}`+"\n"+`{"jsonrpc":"2.0","id":2,"method":"initialize","params":{"protocolVersion":1}}`+"\n")
	}()
	_ = c.SetDeadline(time.Now().Add(30 * time.Second))
	for _, want := range []string{`"id":null`, `"id":null`, `"id":2,"result"`} {
		if line, err := r.ReadString('\n'); err != nil || !strings.Contains(line, want) {
			t.Errorf("got %.200q, %v, want %s", line, err, want)
		}
	}
}

func TestWhoDoesNotShowATokenInTimeIsGone(t *testing.T) {
	w := newWeb(t, &daemontest.Script{}, func(c *daemon.Config) { c.Limits.FirstFrame = 50 * time.Millisecond })
	c, err := net.Dial("tcp", w.address.HostPort())
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	_ = c.SetDeadline(time.Now().Add(20 * time.Second))
	if _, err := io.ReadAll(c); err != nil {
		t.Errorf("it was not closed: %v", err)
	}
	// And with TLS, silent after it; and one byte after the other.
	slow := w.dial()
	go func() {
		for _, b := range []byte(`{"hermes":{"link":1,"id":"` + strings.Repeat("x", 1000)) {
			if _, err := slow.Write([]byte{b}); err != nil {
				return
			}
			time.Sleep(2 * time.Millisecond) // the attack
		}
	}()
	_ = slow.SetReadDeadline(time.Now().Add(20 * time.Second))
	if _, err := io.ReadAll(slow); err != nil && errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("it was not closed: %v", err)
	}
	if err := w.a.Call(within(t), "_hermes/status", map[string]any{}, nil); err != nil {
		t.Error(err)
	}
}

func TestADrainingDaemonWaitsForNoStranger(t *testing.T) {
	w := newWeb(t, &daemontest.Script{}, func(c *daemon.Config) { c.Limits.FirstFrame = time.Hour })
	c, err := net.Dial("tcp", w.address.HostPort())
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	w.dial()
	w.Drain()
}

// Nothing that is shown to the daemon comes out of it again.
func TestSecretsComeOutNowhere(t *testing.T) {
	saw := make(chan string, 10)
	st := store.NewMemory()
	agent := &daemontest.Script{
		Opening: func(_ context.Context, spec session.Spec, _ session.Host) error {
			b, _ := json.Marshal(spec)
			saw <- string(b)
			return nil
		},
	}
	w := &web{log: &logged{}}
	w.room = &room{t: t, cwd: t.TempDir(), House: daemontest.NewHouse(t, st, agent, func(c *daemon.Config) { c.Log = zerolog.New(w.log).Level(zerolog.TraceLevel) })}
	w.a = w.Editor(acpclient.Options{})
	w.listen(t, transport.TCP)
	token := w.token("laptop", tokens.Control)
	invitation, _, err := w.file.Invite("other", tokens.Control, time.Minute)
	if err != nil {
		t.Fatal(err)
	}
	const planted = "PLANTED-IN-THE-ENVIRONMENT"
	far := w.far(link.Hello{Token: token, Env: map[string]string{"SECRET": planted}, Cwd: "/" + planted}, acpclient.Options{})
	s, err := far.NewSession(within(t), w.cwd)
	if err != nil {
		t.Fatal(err)
	}
	w.id = s.ID
	if _, err := far.Prompt(within(t), w.id, "hello"); err != nil {
		t.Fatal(err)
	}
	// Wrong ones and used ones, too.
	code := invitation
	for _, secret := range []string{invitation, invitation, token + "x", "hdt_wrong"} {
		c := w.dial()
		c.Write(link.Hello{Link: 1, ID: "x", Token: secret}.Line())
		b, _ := io.ReadAll(c)
		if bytes.Contains(b, []byte(secret)) {
			t.Errorf("it is repeated: %s", b)
		}
	}
	var all []string
	for _, method := range []string{"_hermes/status", "_hermes/sessions/show", "_hermes/sessions/tail", "session/list"} {
		var reply json.RawMessage
		if err := w.a.Call(within(t), method, map[string]any{"sessionId": w.id}, &reply); err != nil {
			t.Fatal(err)
		}
		all = append(all, method+": "+string(reply))
	}
	all = append(all, "the log: "+w.log.String(), "the agent: "+<-saw)
	for _, e := range far.Entries() {
		all = append(all, "the wire: "+string(e.Raw))
	}
	for _, text := range all {
		for _, secret := range []string{token, code, planted, token[4:], code[4:]} {
			if strings.Contains(text, secret) {
				t.Errorf("%s comes out: %s", secret, text)
			}
		}
	}
	if !strings.Contains(w.log.String(), `"token":"laptop"`) {
		t.Error("the log does not name the token")
	}
}
