//go:build unix

package interop_test

import (
	"context"
	"encoding/json"
	"net"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/hermesd/hermesd/agentpool/native/mcp"
	"github.com/hermesd/hermesd/agentpool/native/tool"
	"github.com/hermesd/hermesd/daemon/daemontest"
)

// serversEnv names the folder of the npm packages of MCP servers.
const serversEnv = "MCP_SERVERS_DIR"

// realServer is the program of a server that others have written.
func realServer(t *testing.T, name string) (node, script string) {
	t.Helper()
	node = needNode(t)
	dir := os.Getenv(serversEnv)
	if dir == "" {
		here, err := os.Getwd()
		if err != nil {
			t.Fatal(err)
		}
		dir = filepath.Join(here, "node_modules", "@modelcontextprotocol")
	}
	script = filepath.Join(dir, "server-"+name, "dist", "index.js")
	if _, err := os.Stat(script); err != nil {
		daemontest.Skip(t, "MCP servers of others (run `npm ci` in scripts/interop, or set %s)", serversEnv)
	}
	return node, script
}

// over starts a server that is reached over HTTP and returns its URL. It listens
// on a socket in a folder of its own, and a proxy brings it to an address that
// the system chooses.
func over(t *testing.T, transport, path string) string {
	t.Helper()
	node, script := realServer(t, "everything")
	dir, err := os.MkdirTemp("", "hdmcp") // t.TempDir's paths may be too long for a socket
	if err != nil {
		t.Fatal(err)
	}
	socket := filepath.Join(dir, "s")
	cmd := exec.Command(node, script, transport)
	cmd.Env = append(os.Environ(), "PORT="+socket)
	var said strings.Builder
	cmd.Stderr = &said
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	proxy := httputil.NewSingleHostReverseProxy(&url.URL{Scheme: "http", Host: "localhost"})
	proxy.FlushInterval = -1
	transports := &http.Transport{DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
		return (&net.Dialer{}).DialContext(ctx, "unix", socket)
	}}
	proxy.Transport = transports
	front := httptest.NewServer(proxy)
	t.Cleanup(func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
		front.CloseClientConnections()
		front.Close()
		transports.CloseIdleConnections()
		os.RemoveAll(dir)
		if t.Failed() {
			t.Log(said.String())
		}
	})
	for end := time.Now().Add(time.Minute); ; time.Sleep(10 * time.Millisecond) {
		if c, err := net.Dial("unix", socket); err == nil {
			c.Close()
			return front.URL + path
		}
		if time.Now().After(end) {
			t.Fatal("the server does not listen")
		}
	}
}

// use calls a tool as the agent does.
func use(t *testing.T, set *mcp.Set, server, name, args string, asker mcp.Asker) (r tool.Result, shown []tool.Content) {
	t.Helper()
	a, err := set.Tool(server, name).Plan(t.Context(), nil, json.RawMessage(args))
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	r, err = a.Run(mcp.WithAsker(ctx, asker), func(c []tool.Content) { shown = append(shown, c...) })
	if err != nil {
		t.Fatalf("%s %s: %v", name, args, err)
	}
	return r, shown
}

func servers(t *testing.T, dir string, all ...mcp.Server) *mcp.Set {
	t.Helper()
	set := mcp.Open(all, mcp.Options{Version: "test", Cwd: dir, Environ: func(context.Context) []string { return os.Environ() }})
	t.Cleanup(set.Close)
	set.Wait(t.Context(), time.Minute)
	for _, s := range set.Status() {
		if s.State != mcp.Ready || s.Tools < 10 {
			t.Fatalf("%s: %s %s, %d tools", s.Name, s.State, s.Reason, s.Tools)
		}
	}
	return set
}

func TestServerEverything(t *testing.T) {
	for transport, server := range map[string]func(t *testing.T) mcp.Server{
		"stdio": func(t *testing.T) mcp.Server {
			node, script := realServer(t, "everything")
			return mcp.Server{Name: "e", Transport: mcp.Stdio, Command: node, Args: []string{script, "stdio"}}
		},
		"streamable HTTP": func(t *testing.T) mcp.Server {
			return mcp.Server{Name: "e", Transport: mcp.HTTP, URL: over(t, "streamableHttp", "/mcp")}
		},
		"SSE": func(t *testing.T) mcp.Server {
			return mcp.Server{Name: "e", Transport: mcp.SSE, URL: over(t, "sse", "/sse")}
		},
	} {
		t.Run(transport, func(t *testing.T) {
			dir := t.TempDir()
			set := servers(t, dir, server(t))
			if r, _ := use(t, set, "e", "get-sum", `{"a":2,"b":40}`, nil); r.Text != "The sum of 2 and 40 is 42." {
				t.Errorf("%q", r.Text)
			}
			if r, _ := use(t, set, "e", "get-tiny-image", `{}`, nil); len(r.Images) != 1 || r.Images[0].MimeType != "image/png" {
				t.Errorf("%d images: %s", len(r.Images), r.Text)
			}
			if r, _ := use(t, set, "e", "get-roots-list", `{}`, nil); !strings.Contains(r.Text, "file://"+dir) {
				t.Errorf("%s", r.Text)
			}
			if r, _ := use(t, set, "e", "get-structured-content", `{"location":"Chicago"}`, nil); !strings.Contains(r.Text, "temperature") || r.Raw == nil {
				t.Errorf("%+v", r)
			}
			if r, _ := use(t, set, "e", "get-resource-reference", `{"resourceType":"Text","resourceId":1}`, nil); !strings.Contains(r.Text, "resource demo://resource/dynamic/text/1:") {
				t.Errorf("%s", r.Text)
			}
			if r, _ := use(t, set, "e", "get-resource-links", `{"count":2}`, nil); strings.Count(r.Text, "(resource demo://") != 2 {
				t.Errorf("%s", r.Text)
			}
			if r, _ := use(t, set, "e", "get-sum", `{"a":"x"}`, nil); !r.Failed {
				t.Errorf("%+v", r)
			}
			if _, shown := use(t, set, "e", "trigger-long-running-operation", `{"duration":1,"steps":4}`, nil); len(shown) == 0 || !strings.HasPrefix(shown[len(shown)-1].Text, "Progress: ") {
				t.Errorf("no progress: %+v", shown)
			}
			var asked mcp.Form
			r, _ := use(t, set, "e", "trigger-elicitation-request", `{}`, func(_ context.Context, f mcp.Form) (string, map[string]any) {
				asked = f
				return "decline", nil
			})
			if !strings.Contains(string(asked.Schema), `"properties"`) || !strings.Contains(r.Text, "declined") {
				t.Errorf("asked %s, then %s", asked.Schema, r.Text)
			}
		})
	}
}

func TestServerFilesystem(t *testing.T) {
	node, script := realServer(t, "filesystem")
	dir, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	set := servers(t, dir, mcp.Server{Name: "f", Transport: mcp.Stdio, Command: node, Args: []string{script, dir}})
	path := filepath.Join(dir, "a.txt")
	quoted, _ := json.Marshal(path)
	use(t, set, "f", "write_file", `{"path":`+string(quoted)+`,"content":"héllo\n"}`, nil)
	if data, err := os.ReadFile(path); err != nil || string(data) != "héllo\n" {
		t.Errorf("%q, %v", data, err)
	}
	if r, _ := use(t, set, "f", "read_text_file", `{"path":`+string(quoted)+`}`, nil); r.Text != "héllo" {
		t.Errorf("%q", r.Text)
	}
	if r, _ := use(t, set, "f", "read_text_file", `{"path":"/etc/passwd"}`, nil); !r.Failed {
		t.Errorf("outside of its folder: %+v", r)
	}
	// The root of the session is where it may work.
	if r, _ := use(t, set, "f", "list_allowed_directories", `{}`, nil); !strings.Contains(r.Text, dir) {
		t.Errorf("%s", r.Text)
	}
	class := func(name string) tool.Class {
		a, err := set.Tool("f", name).Plan(t.Context(), nil, json.RawMessage(`{}`))
		if err != nil {
			t.Fatal(err)
		}
		return a.Need.Class
	}
	// It says of the first that it only reads; who knows.
	if class("read_text_file") != tool.Calling || class("write_file") != tool.Calling {
		t.Errorf("%v %v", class("read_text_file"), class("write_file"))
	}
}
