//go:build unix

package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/rogpeppe/go-internal/testscript"

	"github.com/hermesd/hermesd/daemon/daemontest"
)

// TestScripts plays testdata/script: the real programs, a home for each script.
// A script that leaves a process behind, or in which a program notices a data
// race, fails.
func TestScripts(t *testing.T) {
	bin := t.TempDir()
	if err := daemontest.Build(t.Context(), bin, daemontest.RaceFlags()...); err != nil {
		t.Fatal(err)
	}
	testscript.Run(t, testscript.Params{
		Dir:                 "testdata/script",
		RequireExplicitExec: true,
		RequireUniqueNames:  true,
		Setup: func(e *testscript.Env) error {
			home, err := daemontest.NewHome(bin, "[agents.hermes]\nprovider = \"offline\"\n")
			if err != nil {
				return err
			}
			e.Defer(func() {
				if err := home.Close(); err != nil {
					t.Errorf("closing the home: %v\n%s", err, home.Log())
				}
			})
			for _, kv := range home.Env {
				name, value, _ := strings.Cut(kv, "=")
				if name == "PATH" {
					value = bin + string(os.PathListSeparator) + value
				}
				e.Setenv(name, value)
			}
			e.Setenv("PROJECT", home.Work)
			e.Setenv("BIN", bin)
			// The race detector waits a second at each exit by default.
			e.Setenv("GORACE", e.Getenv("GORACE")+" atexit_sleep_ms=0")
			// The demo may have to compile the shim.
			for _, args := range [][]string{{"GOCACHE"}, {"GOMODCACHE"}} {
				out, err := exec.Command("go", "env", args[0]).Output()
				if err != nil {
					return err
				}
				e.Setenv(args[0], strings.TrimSpace(string(out)))
			}
			return nil
		},
		Cmds: map[string]func(*testscript.TestScript, bool, []string){
			"await": await, "jsonvar": jsonVar, "exits": exits,
		},
	})
}

// call runs a program in the script's folder and environment.
func call(ts *testscript.TestScript, args []string) (stdout, stderr string, code int) {
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	// The script's PATH, not the test's.
	path := args[0]
	if args[0] == "hermesd" || args[0] == "hermes-acp-shim" {
		path = ts.Getenv("BIN") + "/" + args[0]
	}
	cmd := exec.CommandContext(ctx, path, args[1:]...)
	cmd.Dir = ts.MkAbs(".")
	for _, name := range []string{"PATH", "HOME", "LANG", "HERMESD_HOME", "OLLAMA_HOST", "GORACE", "TMPDIR", "GOMAXPROCS"} {
		if v := ts.Getenv(name); v != "" {
			cmd.Env = append(cmd.Env, name+"="+v)
		}
	}
	var out, errOut bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &errOut
	err := cmd.Run()
	if ctx.Err() != nil {
		ts.Fatalf("%v does not end\n%s%s", args, &out, &errOut)
	}
	if cmd.ProcessState == nil {
		ts.Fatalf("%v: %v", args, err)
	}
	return out.String(), errOut.String(), cmd.ProcessState.ExitCode()
}

// await REGEXP PROGRAM ARGS…: the program is called until its stdout matches.
func await(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) < 2 {
		ts.Fatalf("usage: await REGEXP PROGRAM ARGS…")
	}
	want := regexp.MustCompile("(?m)" + args[0])
	limit := time.Now().Add(30 * time.Second)
	for {
		stdout, stderr, _ := call(ts, args[1:])
		if want.MatchString(stdout) {
			return
		}
		if time.Now().After(limit) {
			ts.Fatalf("%v never says %s:\n%s%s", args[1:], args[0], stdout, stderr)
		}
		time.Sleep(10 * time.Millisecond)
	}
}

// jsonvar NAME PATH PROGRAM ARGS…: sets a variable from the program's JSON. PATH
// is like "0.id".
func jsonVar(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) < 3 {
		ts.Fatalf("usage: jsonvar NAME PATH PROGRAM ARGS…")
	}
	stdout, stderr, code := call(ts, args[2:])
	if code != 0 {
		ts.Fatalf("%v exits %d: %s", args[2:], code, stderr)
	}
	var v any
	if err := json.Unmarshal([]byte(stdout), &v); err != nil {
		ts.Fatalf("%v prints no JSON: %v\n%s", args[2:], err, stdout)
	}
	for _, name := range strings.Split(args[1], ".") {
		switch x := v.(type) {
		case map[string]any:
			v = x[name]
		case []any:
			i, err := strconv.Atoi(name)
			if err != nil || i >= len(x) {
				ts.Fatalf("no element %s of %d in\n%s", name, len(x), stdout)
			}
			v = x[i]
		}
	}
	if v == nil {
		ts.Fatalf("no %s in\n%s", args[1], stdout)
	}
	ts.Setenv(args[0], fmt.Sprint(v))
}

// exits CODE PROGRAM ARGS…: the program exits with this code; what it printed is
// shown.
func exits(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) < 2 {
		ts.Fatalf("usage: exits CODE PROGRAM ARGS…")
	}
	stdout, stderr, code := call(ts, args[1:])
	if strconv.Itoa(code) != args[0] {
		ts.Fatalf("%v exits %d, not %s:\n%s%s", args[1:], code, args[0], stdout, stderr)
	}
	if code != 0 && stderr == "" {
		ts.Fatalf("%v exits %d without a word", args[1:], code)
	}
	ts.Check(os.WriteFile(ts.MkAbs("said"), []byte(stdout+stderr), 0o600))
}
