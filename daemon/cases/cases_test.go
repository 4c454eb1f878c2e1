//go:build unix

package cases

import (
	"context"
	"fmt"
	"os"
	"slices"
	"testing"
	"time"

	"github.com/hermesd/hermesd/agentpool/native/mcp/mcptest"
	"github.com/hermesd/hermesd/daemon/daemontest"
)

// bin is where the programs under test are. It is set once, before any test.
var bin string

func TestMain(m *testing.M) {
	if mcptest.Child() {
		return
	}
	code := func() int {
		dir, err := os.MkdirTemp("", "hdbin")
		if err != nil {
			fmt.Fprintln(os.Stderr, err)
			return 1
		}
		defer os.RemoveAll(dir)
		ctx, cancel := context.WithTimeout(context.Background(), 8*time.Minute)
		defer cancel()
		if err := daemontest.Build(ctx, dir, daemontest.RaceFlags()...); err != nil {
			fmt.Fprintln(os.Stderr, err)
			return 1
		}
		bin = dir
		return m.Run()
	}()
	os.Exit(code)
}

// played are the cases that are played, each by a function that drives it and
// checks every line of its expectations.
var played = map[string]func(*run){
	"C02": c02, "C03": c03, "C05": c05, "C06": c06, "C07": c07, "C09": c09, "C10": c10, "C12": c12,
	"C13": c13, "C15": c15, "C16": c16, "C17": c17, "C18": c18, "C19": c19, "C21": c21, "C22": c22,
	"C23": c23, "C24": c24, "C26": c26, "C27": c27, "C28": c28, "C29": c29, "C30": c30, "C31": c31, "C33": c33,
	"C34": c34, "C35": c35, "C36": c36, "C38": c38, "C39": c39, "C41": c41, "C42": c42, "C43": c43,
	"C44": c44, "C45": c45, "C47": c47, "C49": c49, "C52": c52, "C53": c53, "C54": c54, "C56": c56, "C59": c59,
	"C60": c60, "C62": c62,
}

// configs are the config.toml of the cases that need one.
var configs = map[string]string{
	"C30": "[permissions]\ntimeout = \"2s\"\n",
}

func TestCases(t *testing.T) {
	cases := readCases(t)
	schemas := schemasIfThere(t)
	ids := make([]string, 0, len(cases))
	for id := range cases {
		ids = append(ids, id)
	}
	slices.Sort(ids)
	for _, id := range ids {
		play := played[id]
		if play == nil {
			continue // TestEveryCaseIsPlayedOrPending
		}
		t.Run(id, func(t *testing.T) {
			t.Parallel()
			r := start(t, cases[id], schemas, configs[id])
			play(r)
			if n := len(r.steps); n > 0 && !t.Failed() {
				t.Errorf("%d steps of the case were not played: %.200s", n, r.steps[0])
			}
		})
	}
}

// schemasIfThere loads the official schemas. Without them the cases are played
// all the same; TestEveryLineIsValidated says so by name.
func schemasIfThere(t *testing.T) *daemontest.Schemas {
	t.Helper()
	dir, err := daemontest.SchemaDir()
	if err != nil {
		return nil
	}
	s, err := daemontest.LoadSchemas(dir)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func TestEveryLineIsValidated(t *testing.T) {
	daemontest.NeedSchemas(t)
}

func TestEveryCaseIsPlayedOrPending(t *testing.T) {
	cases := readCases(t)
	if len(cases) != 50 {
		t.Errorf("there are %d cases, want 50", len(cases))
	}
	for id, c := range cases {
		_, isPlayed := played[id]
		why, isPending := pending[id]
		switch {
		case isPlayed && isPending:
			t.Errorf("%s is played and pending", id)
		case !isPlayed && !isPending:
			t.Errorf("%s is neither played nor pending: %s", id, c.Symptom)
		case isPending && why == "":
			t.Errorf("%s is pending without a reason", id)
		}
		if len(c.Input) == 0 || len(c.Expect) == 0 {
			t.Errorf("%s has no input or no expectation", id)
		}
	}
	for id := range pending {
		if _, ok := cases[id]; !ok {
			t.Errorf("%s is pending and not in the file", id)
		}
	}
	for id := range remaining {
		if played[id] == nil {
			t.Errorf("%s is to be completed later and not played now", id)
		}
	}
	for id := range played {
		if _, ok := cases[id]; !ok {
			t.Errorf("%s is played and not in the file", id)
		}
	}
}
