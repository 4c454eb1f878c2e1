// Package mcptest answers: what do MCP servers do to their clients? It is a
// server for tests that behaves, and misbehaves, as told: in this process over
// HTTP, or as a child, which is the test's own binary run again.
package mcptest

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"
)

// Variable of the environment that makes a test's binary a server; its value
// is how it behaves, one of the words of Child.
const Variable = "HERMESD_TEST_MCP"

// Child is called first in TestMain. It tells whether this process was a server:
// then it has been one, and the process shall end. The words of Variable:
//
//	good    serve
//	noisy   serve, and print what is no message, before and between
//	mute    read everything, say nothing
//	deaf    read nothing, say nothing, also when asked to end
//	exit    say why on stderr and exit with status 3
//	parent  serve, with a child of its own that outlives its input; its pid is
//	        what the tool "child" gives
//	flaky FILE  exit the first time, serve later; FILE remembers
func Child() bool {
	word, arg, _ := strings.Cut(os.Getenv(Variable), " ")
	switch word {
	case "":
		return false
	case "mute", "deaf":
		if word == "deaf" {
			ignoreSignals()
			select {}
		}
		for in := bufio.NewReader(os.Stdin); ; {
			if _, err := in.ReadByte(); err != nil {
				return true
			}
		}
	case "flaky":
		if _, err := os.Stat(arg); err != nil {
			_ = os.WriteFile(arg, nil, 0o600)
			fmt.Fprintln(os.Stderr, "not yet")
			os.Exit(3)
		}
	case "exit":
		fmt.Fprintln(os.Stderr, "cannot open the database "+os.Getenv("TOKEN"))
		os.Exit(3)
	}
	s := New()
	switch word {
	case "noisy":
		fmt.Fprint(os.Stdout, "\ufeffstarting...\r\n\n{\"level\":\"info\"}\n[1,2]\n{broken\n")
		fmt.Fprint(os.Stderr, strings.Repeat("warning: noise\n", 10_000))
	case "parent":
		child := exec.Command(os.Args[0])
		child.Env = append(os.Environ(), Variable+"=deaf")
		child.Stdout = os.Stdout // and holds this open
		if err := child.Start(); err != nil {
			panic(err)
		}
		text(s.Server, "child", nil, func(context.Context, *mcp.CallToolRequest) (string, error) {
			return fmt.Sprint(child.Process.Pid), nil
		})
	}
	_ = s.Run(context.Background(), &mcp.StdioTransport{})
	return true
}

// Server is a server that serves.
type Server struct {
	*mcp.Server

	quit      chan struct{}
	mu        sync.Mutex
	started   int
	cancelled int
	Listed    chan struct{} // gets a value for each listing of tools, if there is room
}

// Close ends the calls that sleep, and all sessions.
func (s *Server) Close() {
	close(s.quit)
	for session := range s.Sessions() {
		session.Close()
	}
}

// Cancelled is how many calls of "sleep" were cancelled.
func (s *Server) Cancelled() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.cancelled
}

// Image is a picture: a PNG of one pixel.
var image = []byte("\x89PNG\r\n\x1a\n\x00\x00\x00\rIHDR\x00\x00\x00\x01\x00\x00\x00\x01\x08\x06\x00\x00\x00\x1f\x15\xc4\x89\x00\x00\x00\rIDATx\x9cc\xf8\xcf\xc0\xf0\x1f\x00\x05\x00\x01\xff\x89\x99=\x1d\x00\x00\x00\x00IEND\xaeB`\x82")

// Image returns a PNG of one pixel.
func Image() []byte { return slices.Clone(image) }

type arguments struct {
	Text string  `json:"t"`
	N    int     `json:"n"`
	F    float64 `json:"f"`
}

// text adds a tool that answers with a text.
func text(s *mcp.Server, name string, hints *mcp.ToolAnnotations, do func(context.Context, *mcp.CallToolRequest) (string, error)) {
	add(s, &mcp.Tool{Name: name, Description: "The tool " + name + " for tests.", Annotations: hints}, func(ctx context.Context, r *mcp.CallToolRequest) (*mcp.CallToolResult, error) {
		said, err := do(ctx, r)
		if err != nil {
			return nil, err
		}
		return &mcp.CallToolResult{Content: []mcp.Content{&mcp.TextContent{Text: said}}}, nil
	})
}

func add(s *mcp.Server, t *mcp.Tool, do mcp.ToolHandler) {
	if t.InputSchema == nil {
		t.InputSchema = json.RawMessage(`{"$schema":"https://json-schema.org/draft/2020-12/schema","type":"object","properties":{"t":{"type":"string"},"n":{"type":"integer"}}}`)
	}
	s.AddTool(t, do)
}

func args(r *mcp.CallToolRequest) arguments {
	var a arguments
	_ = json.Unmarshal(r.Params.Arguments, &a)
	return a
}

// New returns a server with these tools:
//
//	echo       gives t back; "only reads"
//	remove     gives t back; "destroys"
//	env_dump   the environment and the arguments of the process, and its folder
//	crash      ends the process with status 7
//	sleep      answers after n milliseconds; notes that it began, and says so, and a cancel
//	started, cancelled  how often sleep has
//	steps      n pieces of progress, then "done"; the first at once, then one for each 20 ms
//	ask        asks for a choice, and gives the answer
//	ask_many   asks n times at once with a form of f bytes, and gives the answers' actions, sorted
//	ask_text   asks for a text that is required
//	roots      the roots
//	picture    a picture
//	lies       a picture that is none
//	huge       n bytes of "ä"
//	all        one of each kind of content
//	structured structured content only
//	fail       an error of the tool, with t
//	grow       adds the tool named t
//	shrink     removes the tool named t
//	any.of     has a schema that some providers refuse
func New() *Server {
	s := &Server{Listed: make(chan struct{}, 1), quit: make(chan struct{})}
	s.Server = mcp.NewServer(&mcp.Implementation{Name: "mcptest", Version: "1"}, &mcp.ServerOptions{Instructions: "Use echo for everything."})
	srv := s.Server
	srv.AddReceivingMiddleware(func(next mcp.MethodHandler) mcp.MethodHandler {
		return func(ctx context.Context, method string, r mcp.Request) (mcp.Result, error) {
			if method == "tools/list" {
				select {
				case s.Listed <- struct{}{}:
				default:
				}
			}
			return next(ctx, method, r)
		}
	})
	yes := true
	closed := false
	text(srv, "echo", &mcp.ToolAnnotations{ReadOnlyHint: true, OpenWorldHint: &closed, Title: "Echo"}, func(_ context.Context, r *mcp.CallToolRequest) (string, error) {
		return args(r).Text, nil
	})
	text(srv, "remove", &mcp.ToolAnnotations{DestructiveHint: &yes}, func(_ context.Context, r *mcp.CallToolRequest) (string, error) {
		return args(r).Text, nil
	})
	text(srv, "env_dump", nil, func(context.Context, *mcp.CallToolRequest) (string, error) {
		cwd, err := os.Getwd()
		dump, _ := json.Marshal(map[string]any{"env": os.Environ(), "args": os.Args[1:], "cwd": cwd, "pid": os.Getpid()})
		return string(dump), err
	})
	text(srv, "crash", nil, func(context.Context, *mcp.CallToolRequest) (string, error) {
		fmt.Fprintln(os.Stderr, "panic: out of cheese")
		os.Exit(7)
		return "", nil
	})
	text(srv, "sleep", nil, func(ctx context.Context, r *mcp.CallToolRequest) (string, error) {
		s.mu.Lock()
		s.started++
		s.mu.Unlock()
		_ = r.Session.NotifyProgress(ctx, &mcp.ProgressNotificationParams{ProgressToken: r.Params.GetProgressToken(), Message: "asleep"})
		select {
		case <-time.After(time.Duration(args(r).N) * time.Millisecond):
			return "slept", nil
		case <-s.quit:
			return "", context.Canceled
		case <-ctx.Done():
			s.mu.Lock()
			s.cancelled++
			s.mu.Unlock()
			return "", ctx.Err()
		}
	})
	text(srv, "started", nil, func(context.Context, *mcp.CallToolRequest) (string, error) {
		s.mu.Lock()
		defer s.mu.Unlock()
		return fmt.Sprint(s.started), nil
	})
	text(srv, "cancelled", nil, func(context.Context, *mcp.CallToolRequest) (string, error) { return fmt.Sprint(s.Cancelled()), nil })
	text(srv, "steps", nil, func(ctx context.Context, r *mcp.CallToolRequest) (string, error) {
		n := args(r).N
		for i := range n {
			_ = r.Session.NotifyProgress(ctx, &mcp.ProgressNotificationParams{ProgressToken: r.Params.GetProgressToken(), Progress: float64(i + 1), Total: float64(n), Message: "step"})
			time.Sleep(20 * time.Millisecond)
		}
		return "done", nil
	})
	elicit := func(schema string) func(ctx context.Context, r *mcp.CallToolRequest) (string, error) {
		return func(ctx context.Context, r *mcp.CallToolRequest) (string, error) {
			res, err := r.Session.Elicit(ctx, &mcp.ElicitParams{Message: "Which\ncolour?", RequestedSchema: json.RawMessage(schema)})
			if err != nil {
				return "", err
			}
			content, _ := json.Marshal(res.Content)
			return res.Action + " " + string(content), nil
		}
	}
	text(srv, "ask", nil, elicit(`{"type":"object","properties":{"colour":{"type":"string","enum":["red","green"]},"note":{"type":"string"}},"required":["colour"]}`))
	text(srv, "ask_text", nil, elicit(`{"type":"object","properties":{"name":{"type":"string","title":"Your name"}},"required":["name"]}`))
	text(srv, "ask_many", nil, func(ctx context.Context, r *mcp.CallToolRequest) (string, error) {
		a := args(r)
		actions := make([]string, a.N)
		var asking sync.WaitGroup
		for i := range actions {
			asking.Go(func() {
				schema := map[string]any{"type": "object", "properties": map[string]any{"sure": map[string]any{"type": "boolean", "description": strings.Repeat("x", int(a.F))}}}
				res, err := r.Session.Elicit(ctx, &mcp.ElicitParams{Message: fmt.Sprintf("Question %d?", i), RequestedSchema: schema})
				if actions[i] = fmt.Sprint(err); err == nil {
					actions[i] = res.Action
				}
			})
		}
		asking.Wait()
		slices.Sort(actions)
		return strings.Join(actions, " "), nil
	})
	text(srv, "roots", nil, func(ctx context.Context, r *mcp.CallToolRequest) (string, error) {
		//lint:ignore SA1019 servers of the versions in use do that
		res, err := r.Session.ListRoots(ctx, nil)
		if err != nil {
			return "", err
		}
		var all []string
		for _, root := range res.Roots {
			all = append(all, root.URI)
		}
		return strings.Join(all, " "), nil
	})
	text(srv, "huge", nil, func(_ context.Context, r *mcp.CallToolRequest) (string, error) {
		return strings.Repeat("ä", args(r).N/2), nil
	})
	contents := func(name string, failed bool, structured any, all ...mcp.Content) {
		add(srv, &mcp.Tool{Name: name, Description: "Gives " + name}, func(context.Context, *mcp.CallToolRequest) (*mcp.CallToolResult, error) {
			return &mcp.CallToolResult{Content: all, IsError: failed, StructuredContent: structured}, nil
		})
	}
	contents("picture", false, nil, &mcp.ImageContent{Data: image, MIMEType: "image/png"})
	contents("lies", false, nil, &mcp.ImageContent{Data: []byte("no picture"), MIMEType: "image/png"})
	contents("all", false, nil,
		&mcp.TextContent{Text: `{"a":1}`}, &mcp.AudioContent{Data: []byte("wav"), MIMEType: "audio/wav"},
		&mcp.ResourceLink{URI: "file:///a", Name: "a", Description: "the file a"},
		&mcp.EmbeddedResource{Resource: &mcp.ResourceContents{URI: "file:///b", MIMEType: "text/plain", Text: "inside"}},
		&mcp.EmbeddedResource{Resource: &mcp.ResourceContents{URI: "file:///c", MIMEType: "application/zip", Blob: []byte("zip")}})
	contents("structured", false, map[string]any{"answer": 42}, []mcp.Content{}...)
	contents("fail", true, nil, &mcp.TextContent{Text: "it did not work"})
	text(srv, "grow", nil, func(_ context.Context, r *mcp.CallToolRequest) (string, error) {
		name := args(r).Text
		text(srv, name, nil, func(context.Context, *mcp.CallToolRequest) (string, error) { return "grown", nil })
		return "ok", nil
	})
	text(srv, "shrink", nil, func(_ context.Context, r *mcp.CallToolRequest) (string, error) {
		srv.RemoveTools(args(r).Text)
		return "ok", nil
	})
	add(srv, &mcp.Tool{Name: "any.of", Description: strings.Repeat("long ", 400), InputSchema: json.RawMessage(`{"type":"object","anyOf":[{"required":["t"]},{"required":["n"]}]}`)},
		func(_ context.Context, r *mcp.CallToolRequest) (*mcp.CallToolResult, error) {
			return &mcp.CallToolResult{Content: []mcp.Content{&mcp.TextContent{Text: args(r).Text}}}, nil
		})
	return s
}
