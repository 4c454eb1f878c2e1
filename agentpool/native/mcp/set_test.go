package mcp

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/hermesd/hermesd/agentpool/native/mcp/mcptest"
	"github.com/hermesd/hermesd/agentpool/native/tool"
	sdk "github.com/modelcontextprotocol/go-sdk/mcp"
	"go.uber.org/goleak"
)

func TestMain(m *testing.M) {
	if mcptest.Child() {
		return
	}
	goleak.VerifyTestMain(m)
}

// within is a context for what must not take long.
func within(t *testing.T) context.Context {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	t.Cleanup(cancel)
	return ctx
}

// poll waits until something outside of this process, or of our sight, is so.
func poll(t *testing.T, is func() bool) {
	t.Helper()
	for ctx := within(t); !is(); time.Sleep(5 * time.Millisecond) {
		if ctx.Err() != nil {
			t.Fatal("it has not come to be")
		}
	}
}

func environ(context.Context) []string { return os.Environ() }

// child is a server that is a child process.
func child(name, word string, env ...Pair) Server {
	return Server{Name: name, Transport: Stdio, Command: os.Args[0], Env: append(env, Pair{mcptest.Variable, word})}
}

// said collects what the user is told.
type said struct {
	mu    sync.Mutex
	texts []string
	more  chan struct{}
}

func newSaid() *said { return &said{more: make(chan struct{}, 100)} }

func (s *said) tell(text string) {
	s.mu.Lock()
	s.texts = append(s.texts, text)
	s.mu.Unlock()
	s.more <- struct{}{}
}

func (s *said) all() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.texts)
}

// await waits until the user was told something that contains part.
func (s *said) await(t *testing.T, part string) string {
	t.Helper()
	for ctx := within(t); ; {
		for _, text := range s.all() {
			if strings.Contains(text, part) {
				return text
			}
		}
		select {
		case <-s.more:
		case <-ctx.Done():
			t.Fatalf("nothing with %q was told: %q", part, s.all())
		}
	}
}

func open(t *testing.T, opts Options, servers ...Server) *Set {
	t.Helper()
	if opts.Cwd == "" {
		opts.Cwd = t.TempDir()
	}
	if opts.Environ == nil {
		opts.Environ = environ
	}
	set := Open(servers, opts)
	t.Cleanup(set.Close)
	set.Wait(within(t), time.Minute)
	return set
}

// do calls a tool and returns the text a model is told.
func do(t *testing.T, set *Set, server, name, args string) string {
	t.Helper()
	r, err := try(within(t), set, server, name, args, nil)
	if err != nil {
		t.Fatalf("%s: %v", name, err)
	}
	return r.Text
}

func try(ctx context.Context, set *Set, server, name, args string, asker Asker) (tool.Result, error) {
	a, err := set.plan(server, name, json.RawMessage(args))
	if err != nil {
		return tool.Result{}, err
	}
	return a.Run(WithAsker(ctx, asker), func([]tool.Content) {})
}

// Each way of reaching a server gives the same.
func TestEveryTransportCallsAndAsksAndHasRoots(t *testing.T) {
	for _, transport := range []string{Stdio, HTTP, SSE} {
		t.Run(transport, func(t *testing.T) {
			server := child("x", "good")
			if transport != Stdio {
				server = remoteServer(t, transport, mcptest.New(), nil)
			}
			dir, more := t.TempDir(), t.TempDir()
			set := open(t, Options{Cwd: dir, Dirs: []string{more}}, server)
			if st := set.Status()[0]; st.State != Ready || st.Tools < 15 || st.Instructions != "Use echo for everything." {
				t.Fatalf("%+v", st)
			}
			if got := do(t, set, "x", "echo", `{"t":"hé"}`); got != "hé" {
				t.Errorf("echo %q", got)
			}
			if got, want := do(t, set, "x", "roots", `{}`), fileURI(dir)+" "+fileURI(more); got != want {
				t.Errorf("roots %s, want %s", got, want)
			}
			r, err := try(within(t), set, "x", "ask", `{}`, func(_ context.Context, f Form) (string, map[string]any) {
				if f.Server != "x" || f.Message != "Which\ncolour?" || !strings.Contains(string(f.Schema), `"enum":["red","green"]`) {
					t.Errorf("%+v %s", f, f.Schema)
				}
				return "accept", map[string]any{"colour": "green"}
			})
			if err != nil || r.Text != `accept {"colour":"green"}` {
				t.Errorf("%+v %v", r, err)
			}
			if r, err := try(within(t), set, "x", "ask", `{}`, nil); err != nil || !strings.HasPrefix(r.Text, "cancel ") {
				t.Errorf("without anybody to be asked: %+v %v", r, err)
			}
			if r, err := try(within(t), set, "x", "fail", `{}`, nil); err != nil || !r.Failed || r.Text != "it did not work" {
				t.Errorf("%+v %v", r, err)
			}
		})
	}
}

func remoteServer(t *testing.T, transport string, s *mcptest.Server, wrap func(http.Handler) http.Handler) Server {
	t.Helper()
	var h http.Handler = sdk.NewStreamableHTTPHandler(func(*http.Request) *sdk.Server { return s.Server }, nil)
	if transport == SSE {
		h = sdk.NewSSEHandler(func(*http.Request) *sdk.Server { return s.Server }, nil)
	}
	if wrap != nil {
		h = wrap(h)
	}
	hs := httptest.NewServer(h)
	t.Cleanup(func() {
		hs.CloseClientConnections()
		s.Close()
		hs.Close()
	})
	return Server{Name: "x", Transport: transport, URL: hs.URL}
}

func TestProcessesGetTheirEnvironmentArgumentsAndFolder(t *testing.T) {
	dir := t.TempDir()
	server := child("x", "good", Pair{"TOKEN", "t=1 2"}, Pair{"EMPTY", ""})
	server.Args = []string{"--a", "b c"}
	set := open(t, Options{Cwd: dir, Environ: func(context.Context) []string { return []string{"PATH=/nowhere", "TOKEN=other"} }}, server)
	var got struct {
		Env, Args []string
		Cwd       string
	}
	if err := json.Unmarshal([]byte(do(t, set, "x", "env_dump", "{}")), &got); err != nil {
		t.Fatal(err)
	}
	if want := []string{"PATH=/nowhere", "TOKEN=t=1 2", "EMPTY=", mcptest.Variable + "=good"}; !sameSet(got.Env, want) {
		t.Errorf("environment %q, want %q", got.Env, want)
	}
	real, _ := filepath.EvalSymlinks(dir)
	if !slices.Equal(got.Args, server.Args) || got.Cwd != dir && got.Cwd != real {
		t.Errorf("%q in %s", got.Args, got.Cwd)
	}
}

func sameSet(a, b []string) bool {
	return slices.Equal(slices.Sorted(slices.Values(a)), slices.Sorted(slices.Values(b)))
}

func TestHeadersAreSentToTheServersHostOnly(t *testing.T) {
	var mu sync.Mutex
	seen := map[string]int{}
	away := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		mu.Lock()
		defer mu.Unlock()
		t.Errorf("another host was asked, with %q", r.Header)
	}))
	defer away.Close()
	for _, transport := range []string{HTTP, SSE} {
		server := remoteServer(t, transport, mcptest.New(), func(h http.Handler) http.Handler {
			return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				mu.Lock()
				seen[r.Method+" "+r.Header.Get("Authorization")]++
				mu.Unlock()
				h.ServeHTTP(w, r)
			})
		})
		server.Headers = []Pair{{"Authorization", "Bearer secret1"}}
		set := open(t, Options{}, server)
		if got := do(t, set, "x", "echo", `{"t":"a"}`); got != "a" {
			t.Error(got)
		}
		set.Close()
		told := newSaid()
		open(t, Options{Tell: told.tell}, Server{Name: "r", Transport: transport, Headers: server.Headers,
			URL: redirecting(t, away.URL)})
		if text := told.await(t, "“r” does not work"); !strings.Contains(text, "another host") {
			t.Error(text)
		}
	}
	mu.Lock()
	defer mu.Unlock()
	for k := range seen {
		if !strings.HasSuffix(k, " Bearer secret1") {
			t.Errorf("a request without the header: %s", k)
		}
	}
	if seen["POST Bearer secret1"] == 0 || seen["GET Bearer secret1"] == 0 || seen["DELETE Bearer secret1"] == 0 {
		t.Errorf("%v", seen)
	}
}

// The older way lets a server name the address that is written to. Wherever
// that is, the headers are for the server alone.
func TestHeadersDoNotFollowTheEndpointOfAnSSEServer(t *testing.T) {
	asked := make(chan http.Header, 10)
	away := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		asked <- r.Header
		http.Error(w, "no", http.StatusForbidden)
	}))
	defer away.Close()
	here := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "text/event-stream")
		fmt.Fprintf(w, "event: endpoint\ndata: %s/messages\n\n", away.URL)
		w.(http.Flusher).Flush()
		<-r.Context().Done()
	}))
	defer here.Close()
	told := newSaid()
	set := open(t, Options{Tell: told.tell}, Server{Name: "x", Transport: SSE, URL: here.URL, Headers: []Pair{{"X-Key", "secret1"}}})
	defer set.Close()
	told.await(t, "Forbidden")
	if h := <-asked; h.Get("X-Key") != "" {
		t.Errorf("another host got %q", h)
	}
}

func redirecting(t *testing.T, to string) string {
	t.Helper()
	s := httptest.NewServer(http.RedirectHandler(to, http.StatusTemporaryRedirect))
	t.Cleanup(s.Close)
	return s.URL
}

// What fails is told by name and reason, keeps nobody else from working, and
// no secret is told with it.
func TestFailuresAreToldByNameAndReasonWithoutSecrets(t *testing.T) {
	told := newSaid()
	unauthorized := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		http.Error(w, "no", http.StatusUnauthorized)
	}))
	defer unauthorized.Close()
	gone := httptest.NewServer(nil)
	gone.Close()
	set := open(t, Options{StartTime: 20 * time.Second, Tell: told.tell},
		child("exits", "exit", Pair{"TOKEN", "hunter22"}),
		child("good", "good"),
		Server{Name: "absent", Transport: Stdio, Command: "/no/such/program"},
		Server{Name: "unknown", Transport: Stdio, Command: "no-such-program-anywhere"},
		Server{Name: "folder", Transport: Stdio, Command: t.TempDir()},
		Server{Name: "refused", Transport: HTTP, URL: unauthorized.URL + "/mcp?key=hunter22", Headers: []Pair{{"X-Key", "hunter22"}}},
		Server{Name: "nobody", Transport: SSE, URL: gone.URL + "/hunter22hunter22?key=hunter22"},
	)
	for part, reason := range map[string]string{
		"“exits”":   "exit status 3; the last it said was: cannot open the database …",
		"“absent”":  "there is no such program",
		"“unknown”": "no program \"no-such-program-anywhere\" on the PATH",
		"“folder”":  "not a program",
		"“refused”": "Unauthorized",
		"“nobody”":  "refused",
	} {
		if text := told.await(t, part); !strings.Contains(text, reason) || !strings.Contains(text, "does not work") {
			t.Errorf("told %q, want the reason %q", text, reason)
		}
	}
	if got := do(t, set, "good", "echo", `{"t":"a"}`); got != "a" {
		t.Error(got)
	}
	_, err := try(within(t), set, "exits", "echo", "{}", nil)
	if err == nil || !strings.Contains(err.Error(), "“exits” does not work: it ended with exit status 3") {
		t.Error(err)
	}
	everything := fmt.Sprint(told.all(), set.Status(), err)
	if strings.Contains(everything, "hunter22") {
		t.Errorf("a secret is told: %s", everything)
	}
	if n := len(told.all()); n != 6 {
		t.Errorf("told %d times: %q", n, told.all())
	}
}

// A secret may be longer than what is told, and than what is kept.
func TestNothingOfALongSecretIsTold(t *testing.T) {
	for _, n := range []int{400, 3 * stderrKept} {
		var token strings.Builder
		for i := 0; token.Len() < n; i++ {
			fmt.Fprint(&token, "tok", i)
		}
		told := newSaid()
		set := open(t, Options{Tell: told.tell}, child("exits", "exit", Pair{"TOKEN", token.String()}))
		text := told.await(t, "“exits”")
		if strings.Contains(text+fmt.Sprint(set.Status()), "tok") || !strings.Contains(text, "the last it said was: ") {
			t.Errorf("of a secret of %d bytes: %s", n, text)
		}
	}
}

func TestALateServerKeepsNobodyWaiting(t *testing.T) {
	began := time.Now()
	set := Open([]Server{child("mute", "mute"), child("good", "good")}, Options{Cwd: t.TempDir(), Environ: environ})
	defer set.Close()
	for ctx := within(t); set.server("good").snapshot().state != Ready; {
		set.server("good").mu.Lock()
		moved := set.server("good").moved
		set.server("good").mu.Unlock()
		select {
		case <-moved:
		case <-ctx.Done():
			t.Fatal("not ready")
		}
	}
	if st := set.Status(); st[1].State != Starting || len(set.Tools()) == 0 {
		t.Errorf("%+v", st)
	}
	ctx, cancel := context.WithCancel(within(t))
	cancel()
	set.Wait(ctx, time.Hour) // cancellable
	if _, err := try(ctx, set, "mute", "echo", "{}", nil); err != context.Canceled {
		t.Errorf("a call of a server that is starting, cancelled: %v", err)
	}
	set.Close()
	if d := time.Since(began); d > time.Minute {
		t.Errorf("it took %v", d)
	}
}

func TestAServerThatIsNotReadyInTimeIsEnded(t *testing.T) {
	told := newSaid()
	open(t, Options{StartTime: time.Second, Tell: told.tell}, child("mute", "mute"))
	if text := told.await(t, "“mute”"); !strings.Contains(text, "not ready within 1s") {
		t.Error(text)
	}
}

func TestNoiseOnStdoutAndStderrDoesNoHarm(t *testing.T) {
	set := open(t, Options{}, child("x", "noisy"))
	if got := do(t, set, "x", "echo", `{"t":"a"}`); got != "a" {
		t.Error(got)
	}
}

func TestACrashFailsTheCallAndTheServerIsStartedAgain(t *testing.T) {
	told := newSaid()
	set := open(t, Options{Tell: told.tell}, child("x", "good"))
	first := pid(t, set)
	_, err := try(within(t), set, "x", "crash", "{}", nil)
	if err == nil || !strings.Contains(err.Error(), "“x” failed in the call: it ended with exit status 7; the last it said was: panic: out of cheese; what the call did is unknown") {
		t.Errorf("%v", err)
	}
	if got := do(t, set, "x", "echo", `{"t":"again"}`); got != "again" {
		t.Error(got)
	}
	if second := pid(t, set); second == first {
		t.Error("it is the same process")
	}
	told.await(t, "“x” works again")
	if texts := told.all(); len(texts) != 2 || !strings.Contains(texts[0], "exit status 7") {
		t.Errorf("%q", texts)
	}
}

func pid(t *testing.T, set *Set) int {
	t.Helper()
	var got struct{ Pid int }
	if err := json.Unmarshal([]byte(do(t, set, "x", "env_dump", "{}")), &got); err != nil {
		t.Fatal(err)
	}
	return got.Pid
}

func TestAServerThatFailsAtFirstIsTriedAgain(t *testing.T) {
	told := newSaid()
	set := open(t, Options{Tell: told.tell}, child("x", "flaky "+filepath.Join(t.TempDir(), "f")))
	told.await(t, "exit status 3; the last it said was: not yet")
	told.await(t, "“x” works again")
	if got := do(t, set, "x", "echo", `{"t":"a"}`); got != "a" {
		t.Error(got)
	}
}

func TestACancelledCallIsCancelledAtTheServerWhichLivesOn(t *testing.T) {
	for _, transport := range []string{Stdio, HTTP, SSE} {
		t.Run(transport, func(t *testing.T) {
			server := child("x", "good")
			if transport != Stdio {
				server = remoteServer(t, transport, mcptest.New(), nil)
			}
			set := open(t, Options{}, server)
			before := pid(t, set)
			ctx, cancel := context.WithCancel(within(t))
			errs := make(chan error, 1)
			go func() {
				_, err := try(ctx, set, "x", "sleep", `{"n":600000}`, nil)
				errs <- err
			}()
			poll(t, func() bool { return do(t, set, "x", "started", "{}") == "1" })
			cancel()
			if err := <-errs; err != context.Canceled {
				t.Error(err)
			}
			poll(t, func() bool { return do(t, set, "x", "cancelled", "{}") == "1" })
			if after := pid(t, set); after != before {
				t.Error("it is another process")
			}
		})
	}
}

func TestACallThatShowsNoSignOfLifeIsGivenUp(t *testing.T) {
	server := child("x", "good")
	server.Timeout = time.Second
	set := open(t, Options{}, server)
	_, err := try(within(t), set, "x", "sleep", `{"n":600000}`, nil)
	if err == nil || !strings.Contains(err.Error(), "did not answer the call within 1s") {
		t.Error(err)
	}
	if got := do(t, set, "x", "steps", `{"n":100}`); got != "done" { // two seconds of progress
		t.Errorf("%q", got)
	}
}

func TestProgressIsShown(t *testing.T) {
	set := open(t, Options{}, child("x", "good"))
	a, err := set.plan("x", "steps", json.RawMessage(`{"n":30}`))
	if err != nil {
		t.Fatal(err)
	}
	var shown []string
	if _, err := a.Run(within(t), func(c []tool.Content) { shown = append(shown, c[len(c)-1].Text) }); err != nil {
		t.Fatal(err)
	}
	if len(shown) < 2 || len(shown) > 15 || !strings.HasPrefix(shown[0], "Progress: ") || !strings.HasSuffix(shown[0], " of 30: step") {
		t.Errorf("%q", shown)
	}
}

func TestAChangedListOfToolsIsRead(t *testing.T) {
	for _, transport := range []string{Stdio, HTTP, SSE} {
		t.Run(transport, func(t *testing.T) {
			server := child("x", "good")
			if transport != Stdio {
				server = remoteServer(t, transport, mcptest.New(), nil)
			}
			set := open(t, Options{}, server)
			has := func(name string) bool {
				return slices.ContainsFunc(set.Tools(), func(t Tool) bool { return t.Name == name })
			}
			do(t, set, "x", "grow", `{"t":"fresh"}`)
			poll(t, func() bool { return has("fresh") })
			if got := do(t, set, "x", "fresh", "{}"); got != "grown" {
				t.Error(got)
			}
			do(t, set, "x", "shrink", `{"t":"echo"}`)
			poll(t, func() bool { return !has("echo") })
			if _, err := try(within(t), set, "x", "echo", "{}", nil); err == nil || !strings.Contains(err.Error(), `has no tool "echo"`) {
				t.Error(err)
			}
		})
	}
}

// With the session everything of its servers goes, also what they started and
// what does not want to.
func TestCloseLeavesNoProcess(t *testing.T) {
	set := open(t, Options{}, child("parent", "parent"), child("x", "good"))
	grandchild, err := strconv.Atoi(do(t, set, "parent", "child", "{}"))
	if err != nil {
		t.Fatal(err)
	}
	own := pid(t, set)
	if !alive(grandchild) || !alive(own) {
		t.Fatal("they do not run")
	}
	deaf := Open([]Server{child("deaf", "deaf")}, Options{Cwd: t.TempDir(), Environ: environ})
	deaf.Close()
	set.Close()
	set.Close()
	poll(t, func() bool { return !alive(grandchild) && !alive(own) })
	if _, err := try(within(t), set, "x", "echo", "{}", nil); err == nil {
		t.Error("a call after the end")
	}
}

// A server that goes away in the middle of a call, without a word, is noticed
// before the call's time is over.
func TestALostHTTPConnectionFailsTheCall(t *testing.T) {
	s := mcptest.New()
	hs := httptest.NewServer(sdk.NewStreamableHTTPHandler(func(*http.Request) *sdk.Server { return s.Server }, nil))
	defer hs.Close()
	defer s.Close()
	set := open(t, Options{}, Server{Name: "x", Transport: HTTP, URL: hs.URL})
	errs := make(chan error, 1)
	go func() {
		_, err := try(within(t), set, "x", "sleep", `{"n":600000}`, nil)
		errs <- err
	}()
	poll(t, func() bool { return do(t, set, "x", "started", "{}") == "1" })
	hs.CloseClientConnections()
	if err := <-errs; err == nil || !strings.Contains(err.Error(), "what the call did is unknown") {
		t.Error(err)
	}
}
