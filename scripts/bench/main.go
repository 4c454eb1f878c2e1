//go:build unix

// Bench measures hermesd: real processes, built as released, in a home of their
// own on the disk of the temp folder. It prints a table, or JSON with --json.
//
//	go run ./scripts/bench [--json] [--quick] [--only NAME,…] [--list]
//
// A figure that is a comparison is measured against its counterpart in the same
// run, by turns. It exits 0 also when a figure is out of reach: whoever asks
// for figures reads them. It exits 1 when something could not be measured that
// should have been.
package main

import (
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"syscall"
	"text/tabwriter"
	"time"

	"github.com/hermesd/hermesd/daemon/daemontest"
)

// row is one line of the result.
type row struct {
	Name    string             `json:"name"`
	What    string             `json:"what"`
	Reach   string             `json:"reach"`
	Figures map[string]float64 `json:"figures,omitempty"` // seconds, bytes, per second, ratios
	Text    string             `json:"measured"`
	Note    string             `json:"note,omitempty"`
	OK      *bool              `json:"ok,omitempty"` // absent: not measured
	Took    float64            `json:"tookSeconds"`
}

// figure is one thing that is measured.
type figure struct {
	name, what, reach string
	measure           func(*bench, *row) error
}

var figures = []figure{
	{"attach", "shim started → initialize answered, daemon running", "p50 ≤ 10 ms", measureAttach},
	{"start", "shim started with no daemon → initialize answered", "p50 ≤ 150 ms", measureStart},
	{"prompt", "prompt of one chunk through shim and daemon, durable", "p50 ≤ 0.6 ms, p99 ≤ 3 ms", measurePrompt},
	{"chunks", "200-byte chunks from agent to one editor, durable; to 8", "≥ 100,000/s; 8 editors: daemon's CPU ≤ 2 × one", measureChunks},
	{"stalled", "one stalled editor among two, the same chunks", "the other ≥ 0.9 × alone; daemon grows ≤ 32 MB", measureStalled},
	{"load", "session/load of 10,000 events, live", "≤ 100 ms, frames merged", measureLoad},
	{"idle", "1,000 idle sessions held live", "≤ 50 KB each", measureIdle},
	{"ready", "ready with 10,000 sessions stored", "≤ 200 ms", measureReady},
	{"relay", "shim relaying 200-byte frames, compared with socat", "≥ 0.8 × socat", measureRelay},
}

// bench is what every figure needs.
type bench struct {
	ctx   context.Context
	bin   string
	quick bool
	say   func(format string, args ...any)
}

// n is full, or less with --quick.
func (b *bench) n(full, quick int) int {
	if b.quick {
		return quick
	}
	return full
}

func main() {
	if err := run(); err != nil {
		fmt.Fprintln(os.Stderr, "bench:", err)
		os.Exit(1)
	}
}

func run() error {
	asJSON := flag.Bool("json", false, "print JSON")
	quick := flag.Bool("quick", false, "fewer rounds and smaller numbers: shows that it works, not how fast")
	only := flag.String("only", "", "measure only these, by name, separated by commas")
	list := flag.Bool("list", false, "list what is measured")
	flag.Parse()
	figures := slices.Concat(figures, modelFigures, networkFigures)
	if flag.NArg() > 0 {
		return fmt.Errorf("unexpected argument %q", flag.Arg(0))
	}
	if *list {
		for _, f := range figures {
			fmt.Printf("%-8s %s (%s)\n", f.name, f.what, f.reach)
		}
		return nil
	}
	chosen := figures
	if *only != "" {
		chosen = nil
		for name := range strings.SplitSeq(*only, ",") {
			i := slices.IndexFunc(figures, func(f figure) bool { return f.name == name })
			if i < 0 {
				return fmt.Errorf("nothing is called %q; --list tells what is", name)
			}
			chosen = append(chosen, figures[i])
		}
	}

	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	bin, err := os.MkdirTemp("", "hdbench")
	if err != nil {
		return err
	}
	defer os.RemoveAll(bin)
	progress := func(format string, args ...any) { fmt.Fprintf(os.Stderr, format+"\n", args...) }
	progress("building hermesd and hermes-acp-shim")
	// As the README has them installed.
	if err := os.Setenv("CGO_ENABLED", "0"); err != nil {
		return err
	}
	if err := daemontest.Build(ctx, bin, "-ldflags=-s -w"); err != nil {
		return err
	}
	b := &bench{ctx: ctx, bin: bin, quick: *quick, say: progress}
	machine := describe(bin)
	progress("%s", machine)

	var rows []row
	failed := 0
	for _, f := range chosen {
		if ctx.Err() != nil {
			break
		}
		progress("measuring %s: %s", f.name, f.what)
		r := row{Name: f.name, What: f.what, Reach: f.reach, Figures: make(map[string]float64)}
		began := time.Now()
		if err := f.measure(b, &r); err != nil {
			r.Text, r.OK = "failed: "+oneLine(err.Error()), nil
			failed++
		}
		r.Took = time.Since(began).Seconds()
		rows = append(rows, r)
	}
	if *asJSON {
		out := json.NewEncoder(os.Stdout)
		out.SetIndent("", "  ")
		out.SetEscapeHTML(false)
		if err := out.Encode(map[string]any{"machine": machine, "quick": *quick, "rows": rows}); err != nil {
			return err
		}
	} else {
		table(rows)
	}
	if failed > 0 {
		return fmt.Errorf("%d of %d figures could not be measured", failed, len(rows))
	}
	return ctx.Err()
}

func table(rows []row) {
	w := tabwriter.NewWriter(os.Stdout, 0, 0, 2, ' ', 0)
	fmt.Fprintln(w, "name\tmeasured\treach\tok?")
	for _, r := range rows {
		verdict := "-"
		if r.OK != nil {
			verdict = map[bool]string{true: "yes", false: "NO"}[*r.OK]
		}
		fmt.Fprintf(w, "%s\t%s\t%s\t%s\n", r.Name, r.Text, r.Reach, verdict)
	}
	_ = w.Flush()
	for _, r := range rows {
		if r.Note != "" {
			fmt.Printf("\n%s: %s\n", r.Name, r.Note)
		}
	}
}

// describe tells where the figures come from: they mean nothing without.
func describe(dir string) string {
	cpu := runtime.GOARCH
	if text, err := os.ReadFile("/proc/cpuinfo"); err == nil {
		if _, after, ok := strings.Cut(string(text), "model name"); ok {
			line, _, _ := strings.Cut(after, "\n")
			cpu = strings.TrimSpace(strings.TrimLeft(line, "\t :"))
		}
	}
	load := ""
	if text, err := os.ReadFile("/proc/loadavg"); err == nil {
		load = ", load " + strings.Fields(string(text))[0]
	}
	return fmt.Sprintf("%d × %s, %s/%s, %s, fsync of 4 KB in %s: p50 %v%s",
		runtime.NumCPU(), cpu, runtime.GOOS, runtime.GOARCH, runtime.Version(), filepath.Dir(dir), fsyncTime(dir), load)
}

// fsyncTime is what one durable write costs here, which bounds what depends on it.
func fsyncTime(dir string) time.Duration {
	f, err := os.CreateTemp(dir, "sync")
	if err != nil {
		return 0
	}
	defer os.Remove(f.Name())
	defer f.Close()
	block := make([]byte, 4096)
	var all samples
	for range 200 {
		began := time.Now()
		if _, err := f.Write(block); err != nil {
			return 0
		}
		if err := f.Sync(); err != nil {
			return 0
		}
		all = append(all, time.Since(began))
	}
	return all.p(50).Round(time.Microsecond)
}

func oneLine(s string) string {
	s = strings.Join(strings.Fields(s), " ")
	if len(s) > 300 {
		s = s[:300] + "…"
	}
	return s
}

// samples are durations of one kind.
type samples []time.Duration

// p is a percentile: the smallest sample that at least n per cent do not exceed.
func (s samples) p(n float64) time.Duration {
	if len(s) == 0 {
		return 0
	}
	sorted := slices.Clone(s)
	slices.Sort(sorted)
	i := int(float64(len(sorted))*n/100+0.999999) - 1
	return sorted[min(max(i, 0), len(sorted)-1)]
}

func ms(d time.Duration) string { return fmt.Sprintf("%.2f ms", d.Seconds()*1000) }

// verdict sets the row's figures and whether it is in reach.
func (r *row) verdict(ok bool, format string, args ...any) {
	r.OK = &ok
	r.Text = fmt.Sprintf(format, args...)
}

func (r *row) times(s samples) {
	r.Figures["p50"], r.Figures["p90"], r.Figures["p99"] = s.p(50).Seconds(), s.p(90).Seconds(), s.p(99).Seconds()
	r.Figures["min"], r.Figures["max"], r.Figures["count"] = s.p(0).Seconds(), s.p(100).Seconds(), float64(len(s))
}
