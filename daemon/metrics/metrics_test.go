package metrics

import (
	"bytes"
	"context"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"regexp"
	"runtime"
	"strconv"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/hermesd/hermesd/daemon"
	"github.com/hermesd/hermesd/transport/link"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func sampleFigures() daemon.Figures {
	f := daemon.Figures{
		Uptime: 90 * time.Second, In: 10, Out: 20, Refused: 3, Stored: 5, Sessions: map[string]int{"idle": 1, "running": 2, "waiting": 0},
		Agents:      map[string]map[string]int{"hermes": {"idle": 1, "busy": 2}},
		Connections: []daemon.ConnectionFigures{{ID: "01234567", Client: "Zed \"x\"\\\n\xff", Network: "unix", Behind: 7, Queued: 1024}},
		Disk: daemon.Disk{
			DatabaseBytes: 100, JournalBytes: 200, BacklogBytes: 30, Events: 40, Failing: "full",
			Bounds: []time.Duration{time.Millisecond, 10 * time.Millisecond}, Counts: []uint64{5, 3, 1}, Sum: 1500 * time.Millisecond,
		},
	}
	f.Turns.Started, f.Turns.Ended, f.Turns.Running, f.Turns.Queued = 9, map[string]uint64{"end_turn": 6}, 2, 1
	f.Questions.Asked, f.Questions.Closed, f.Questions.Open, f.Questions.Oldest = 4, map[string]uint64{"selected": 3, "timed_out": 1}, 1, 61*time.Second
	return f
}

func TestTheFormatIsThatOfPrometheus(t *testing.T) {
	var b bytes.Buffer
	Write(&b, "v1", sampleFigures())
	text := b.String()
	for _, want := range []string{
		`hermesd_info{version="v1"} 1`,
		"hermesd_uptime_seconds 90",
		"# TYPE hermesd_turns_ended_total counter",
		`hermesd_turns_ended_total{reason="end_turn"} 6`,
		`hermesd_turns_ended_total{reason="cancelled"} 0`,
		"hermesd_turns_started_total 9",
		"hermesd_turns_running 2",
		"hermesd_prompts_queued 1",
		"hermesd_questions_open 1",
		"hermesd_question_oldest_seconds 61",
		`hermesd_questions_closed_total{outcome="timed_out"} 1`,
		"hermesd_received_bytes_total 10",
		"hermesd_sent_bytes_total 20",
		"hermesd_connections_refused_total 3",
		`hermesd_editor_behind_events{conn="01234567",client="Zed \"x\"\\\n` + "\ufffd" + `",network="unix",token=""} 7`,
		`hermesd_editor_queued_bytes{conn="01234567",client="Zed \"x\"\\\n` + "\ufffd" + `",network="unix",token=""} 1024`,
		`hermesd_sessions{state="running"} 2`,
		"hermesd_sessions_stored 5",
		`hermesd_agents{agent="hermes",state="busy"} 2`,
		`hermesd_store_bytes{part="journal"} 200`,
		"hermesd_store_backlog_bytes 30",
		"hermesd_store_failing 1",
		"hermesd_store_events_total 40",
		"# TYPE hermesd_commit_seconds histogram",
		`hermesd_commit_seconds_bucket{le="0.001"} 5`,
		`hermesd_commit_seconds_bucket{le="0.01"} 8`,
		`hermesd_commit_seconds_bucket{le="+Inf"} 9`,
		"hermesd_commit_seconds_sum 1.5",
		"hermesd_commit_seconds_count 9",
		"go_goroutines ",
	} {
		if !strings.Contains("\n"+text, "\n"+want) {
			t.Errorf("it lacks %s", want)
		}
	}
	// Each line is a comment or a sample; each name of ours has one type and one help.
	sampled := regexp.MustCompile(`^([a-z_]+)(\{([a-z]+="(\\[\\n"]|[^\\"\n])*",?)*\})? (\S+)$`)
	typed := map[string]int{}
	for line := range strings.Lines(text) {
		line = strings.TrimSuffix(line, "\n")
		if name, ok := strings.CutPrefix(line, "# TYPE "); ok {
			typed[strings.Fields(name)[0]]++
			continue
		}
		if strings.HasPrefix(line, "#") || strings.HasPrefix(line, "go_") || strings.HasPrefix(line, "process_") {
			continue
		}
		m := sampled.FindStringSubmatch(line)
		if m == nil {
			t.Errorf("not a sample: %s", line)
			continue
		}
		if _, err := strconv.ParseFloat(m[5], 64); err != nil {
			t.Errorf("%s: %v", line, err)
		}
		family := m[1]
		for _, end := range []string{"_bucket", "_sum", "_count"} {
			if strings.HasPrefix(family, "hermesd_commit_seconds") {
				family = strings.TrimSuffix(family, end)
			}
		}
		if typed[family] != 1 {
			t.Errorf("%s has %d types", family, typed[family])
		}
	}
}

func TestOnlyWhoMeansThisMachineIsAnswered(t *testing.T) {
	source := func(context.Context) daemon.Figures { return sampleFigures() }
	for host, here := range map[string]bool{
		"localhost": true, "localhost:9464": true, "127.0.0.1:9464": true, "[::1]:9464": true, "::1": true, "127.3.2.1": true,
		"evil.example": false, "evil.example:9464": false, "192.168.0.7:9464": false, "localhost.evil.example": false, "": false,
	} {
		for _, hereOnly := range []bool{true, false} {
			r := httptest.NewRequest("GET", "/metrics", nil)
			r.Host = host
			w := httptest.NewRecorder()
			Handler("v1", source, hereOnly).ServeHTTP(w, r)
			want := http.StatusOK
			if hereOnly && !here {
				want = http.StatusForbidden
			}
			if w.Code != want || want == http.StatusForbidden && strings.Contains(w.Body.String(), "hermesd_") {
				t.Errorf("%q (only here: %v): %d", host, hereOnly, w.Code)
			}
		}
	}
	for _, bad := range []string{"POST /metrics", "GET /", "GET /debug/pprof/", "DELETE /metrics"} {
		method, path, _ := strings.Cut(bad, " ")
		r := httptest.NewRequest(method, path, nil)
		r.Host = "localhost"
		w := httptest.NewRecorder()
		Handler("v1", source, true).ServeHTTP(w, r)
		if w.Code < 400 {
			t.Errorf("%s: %d", bad, w.Code)
		}
	}
}

func places(t *testing.T) link.Places {
	t.Helper()
	dir, err := os.MkdirTemp("", "hm") // short: a socket's path has to fit
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	return link.Places{Run: dir, Socket: filepath.Join(dir, "hermesd.sock"), Lock: filepath.Join(dir, "hermesd.lock")}
}

func TestItIsServedOverTCPAndOverASocket(t *testing.T) {
	p := places(t)
	socket := filepath.Join(p.Run, "metrics.sock")
	for network, address := range map[string]string{"tcp": "127.0.0.1:0", "unix": socket} {
		t.Run(network, func(t *testing.T) {
			ln, err := Listen(t.Context(), network, address, p)
			if err != nil {
				t.Fatal(err)
			}
			at := ln.Addr().String()
			ctx, cancel := context.WithCancel(t.Context())
			done := make(chan error, 1)
			go func() {
				done <- Serve(ctx, ln, Handler("v1", func(context.Context) daemon.Figures { return sampleFigures() }, network == "tcp"))
			}()
			if network == "unix" && runtime.GOOS != "windows" {
				if info, err := os.Stat(socket); err != nil || info.Mode().Perm() != 0o600 {
					t.Errorf("the socket: %v, %v", info, err)
				}
			}
			transport := &http.Transport{DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
				var d net.Dialer
				return d.DialContext(ctx, network, at)
			}}
			defer transport.CloseIdleConnections()
			res, err := (&http.Client{Transport: transport}).Get("http://localhost/metrics")
			if err != nil {
				t.Fatal(err)
			}
			b, err := io.ReadAll(res.Body)
			res.Body.Close()
			if err != nil || res.StatusCode != 200 || !bytes.Contains(b, []byte("hermesd_turns_running 2")) || !strings.HasPrefix(res.Header.Get("Content-Type"), "text/plain; version=0.0.4") {
				t.Errorf("%d %v %v", res.StatusCode, res.Header, err)
			}
			if _, err := Listen(t.Context(), network, at, p); err == nil || !strings.Contains(err.Error(), "[metrics]") {
				t.Errorf("a second time: %v", err)
			}
			cancel()
			if err := <-done; err != nil {
				t.Error(err)
			}
			if _, err := os.Stat(socket); network == "unix" && err == nil {
				t.Error("the socket is still there")
			}
		})
	}
	if _, err := Listen(t.Context(), "unix", p.Socket, p); err == nil || !strings.Contains(err.Error(), "own socket") {
		t.Errorf("the daemon's: %v", err)
	}
}
