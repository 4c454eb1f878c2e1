// Package metrics answers: how is the daemon doing, for a program that asks every
// few seconds? It serves the daemon's figures in the text format of Prometheus.
//
// VictoriaMetrics/metrics was chosen for that: it has no dependencies to speak
// of, writes what is gathered at the moment, and knows the figures of the Go
// runtime and the process under the names that dashboards expect. The official
// client brings protobuf and a registry along.
//
// # Concurrency
//
// Nothing is kept between two questions. Each is answered in the goroutine of
// net/http that got it; Serve ends them all.
package metrics

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"net"
	"net/http"
	"net/netip"
	"slices"
	"strconv"
	"strings"
	"time"

	vm "github.com/VictoriaMetrics/metrics"

	"github.com/hermesd/hermesd/daemon"
)

// Source gathers the figures.
type Source func(context.Context) daemon.Figures

// Write writes figures and those of the Go runtime and the process.
func Write(w io.Writer, version string, f daemon.Figures) {
	p := &page{w: w}
	p.gauge("hermesd_info", "Always 1; its label says which version runs.", sample{labels: labels("version", version), value: 1})
	p.gauge("hermesd_uptime_seconds", "Time since the daemon began.", sample{value: f.Uptime.Seconds()})

	p.counter("hermesd_turns_started_total", "Turns that began.", sample{value: float64(f.Turns.Started)})
	p.counter("hermesd_turns_ended_total", "Turns that ended, by how.", byName("reason", f.Turns.Ended, "cancelled", "end_turn", "error", "interrupted", "max_tokens", "max_turn_requests", "other", "refusal")...)
	p.gauge("hermesd_turns_running", "Turns that run now.", sample{value: float64(f.Turns.Running)})
	p.gauge("hermesd_prompts_queued", "Prompts that wait for their turn.", sample{value: float64(f.Turns.Queued)})

	p.counter("hermesd_questions_asked_total", "Questions agents asked.", sample{value: float64(f.Questions.Asked)})
	p.counter("hermesd_questions_closed_total", "Questions that are open no longer, by outcome.", byName("outcome", f.Questions.Closed, "selected")...)
	p.gauge("hermesd_questions_open", "Questions that wait for an answer.", sample{value: float64(f.Questions.Open)})
	p.gauge("hermesd_question_oldest_seconds", "How long the oldest of them has waited; 0 without any.", sample{value: f.Questions.Oldest.Seconds()})

	p.counter("hermesd_received_bytes_total", "Bytes from connections.", sample{value: float64(f.In)})
	p.counter("hermesd_sent_bytes_total", "Bytes to connections.", sample{value: float64(f.Out)})
	p.counter("hermesd_connections_refused_total", "Connections from the network that were not let in.", sample{value: float64(f.Refused)})
	p.gauge("hermesd_connections", "Connections there are.", sample{value: float64(len(f.Connections))})
	p.gauge("hermesd_editor_behind_events", "Events that a connection has not been given yet.", each(f.Connections, func(c daemon.ConnectionFigures) float64 { return float64(c.Behind) })...)
	p.gauge("hermesd_editor_queued_bytes", "Bytes that a connection has not taken yet.", each(f.Connections, func(c daemon.ConnectionFigures) float64 { return float64(c.Queued) })...)

	p.gauge("hermesd_sessions", "Sessions in memory, by state.", byName("state", f.Sessions)...)
	p.gauge("hermesd_sessions_stored", "Sessions there are.", sample{value: float64(f.Stored)})
	var agents []sample
	for _, name := range slices.Sorted(maps.Keys(f.Agents)) {
		for _, state := range slices.Sorted(maps.Keys(f.Agents[name])) {
			agents = append(agents, sample{labels: labels("agent", name, "state", state), value: float64(f.Agents[name][state])})
		}
	}
	p.gauge("hermesd_agents", "Agents of sessions in memory, by state.", agents...)

	p.gauge("hermesd_store_bytes", "What the store takes on the disk.",
		sample{labels: labels("part", "database"), value: float64(f.Disk.DatabaseBytes)}, sample{labels: labels("part", "journal"), value: float64(f.Disk.JournalBytes)})
	p.gauge("hermesd_store_backlog_bytes", "What is in the journal and in memory and not in the database yet.", sample{value: float64(f.Disk.BacklogBytes)})
	failing := 0.0
	if f.Disk.Failing != "" {
		failing = 1
	}
	p.gauge("hermesd_store_failing", "1 while nothing can be written.", sample{value: failing})
	p.counter("hermesd_store_events_total", "Events that were written.", sample{value: float64(f.Disk.Events)})
	p.histogram("hermesd_commit_seconds", "How long syncs of the journal took.", f.Disk.Bounds, f.Disk.Counts, f.Disk.Sum)
	vm.WriteProcessMetrics(w)
}

// sample is one value of a metric.
type sample struct {
	labels string // as they are written, "" without any
	value  float64
}

// page writes metrics with their help and type.
type page struct{ w io.Writer }

func (p *page) head(name, kind, help string) {
	fmt.Fprintf(p.w, "# HELP %s %s\n# TYPE %s %s\n", name, help, name, kind)
}

func (p *page) gauge(name, help string, all ...sample) {
	p.head(name, "gauge", help)
	for _, s := range all {
		vm.WriteGaugeFloat64(p.w, name+s.labels, s.value)
	}
}

func (p *page) counter(name, help string, all ...sample) {
	p.head(name, "counter", help)
	for _, s := range all {
		vm.WriteCounterFloat64(p.w, name+s.labels, s.value)
	}
}

func (p *page) histogram(name, help string, bounds []time.Duration, counts []uint64, sum time.Duration) {
	p.head(name, "histogram", help)
	var n uint64
	for i, c := range counts {
		n += c
		le := "+Inf"
		if i < len(bounds) {
			le = strconv.FormatFloat(bounds[i].Seconds(), 'g', -1, 64)
		}
		vm.WriteCounterUint64(p.w, name+"_bucket"+labels("le", le), n)
	}
	vm.WriteCounterFloat64(p.w, name+"_sum", sum.Seconds())
	vm.WriteCounterUint64(p.w, name+"_count", n)
}

// byName gives a sample for each name; those of always are there also with 0, so
// that a rate of them can be formed from the beginning.
func byName[N uint64 | int](label string, values map[string]N, always ...string) []sample {
	names := slices.Concat(slices.Collect(maps.Keys(values)), always)
	slices.Sort(names)
	var all []sample
	for _, name := range slices.Compact(names) {
		all = append(all, sample{labels: labels(label, name), value: float64(values[name])})
	}
	return all
}

func each(conns []daemon.ConnectionFigures, value func(daemon.ConnectionFigures) float64) []sample {
	all := make([]sample, len(conns))
	for i, c := range conns {
		all[i] = sample{labels: labels("conn", c.ID, "client", c.Client, "network", c.Network, "token", c.Token), value: value(c)}
	}
	return all
}

// labels writes pairs of name and value.
func labels(pairs ...string) string {
	var b strings.Builder
	for i := 0; i < len(pairs); i += 2 {
		sep := byte(',')
		if i == 0 {
			sep = '{'
		}
		b.WriteByte(sep)
		b.WriteString(pairs[i] + `="` + escape(pairs[i+1]) + `"`)
	}
	b.WriteByte('}')
	return b.String()
}

// escape makes text of others a label's value.
func escape(s string) string {
	return strings.NewReplacer(`\`, `\\`, `"`, `\"`, "\n", `\n`).Replace(strings.ToValidUTF8(s, "\ufffd"))
}

// Handler answers GET /metrics. If it is for this machine only, a question that
// was meant for a host of another name is refused: a web page in a browser here
// can have its own name resolved to this machine.
func Handler(version string, source Source, hereOnly bool) http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /metrics", func(w http.ResponseWriter, r *http.Request) {
		if hereOnly && !named(r.Host) {
			http.Error(w, "this is for programs of this machine", http.StatusForbidden)
			return
		}
		var b bytes.Buffer
		Write(&b, version, source(r.Context()))
		w.Header().Set("Content-Type", "text/plain; version=0.0.4; charset=utf-8")
		_, _ = w.Write(b.Bytes()) // who does not wait for it does not get it
	})
	return mux
}

// named says whether a host's name is one of this machine to itself.
func named(host string) bool {
	if h, _, err := net.SplitHostPort(host); err == nil {
		host = h
	}
	if host == "localhost" {
		return true
	}
	ip, err := netip.ParseAddr(strings.Trim(host, "[]"))
	return err == nil && ip.IsLoopback()
}

// Serve answers on ln until ctx ends, and closes it. Who asks at that moment is
// cut off.
func Serve(ctx context.Context, ln net.Listener, h http.Handler) error {
	s := &http.Server{
		Handler: h, ReadHeaderTimeout: 5 * time.Second, ReadTimeout: 10 * time.Second, WriteTimeout: 30 * time.Second, IdleTimeout: 2 * time.Minute,
		MaxHeaderBytes: 16 << 10,
	}
	stop := context.AfterFunc(ctx, func() { _ = s.Close() })
	defer stop()
	err := s.Serve(ln)
	if errors.Is(err, http.ErrServerClosed) || ctx.Err() != nil {
		return nil
	}
	return fmt.Errorf("serving metrics: %w", err)
}
