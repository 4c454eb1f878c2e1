//go:build unix

// Package interop_test runs the official TypeScript SDK as an editor against
// the real programs. What it does is in interop.mjs.
package interop_test

import (
	"bytes"
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/hermesd/hermesd/daemon/daemontest"
)

func TestOfficialSDKAsAnEditor(t *testing.T) {
	node := needNode(t)
	bin := t.TempDir()
	if err := daemontest.Build(t.Context(), bin, daemontest.RaceFlags()...); err != nil {
		t.Fatal(err)
	}
	home, err := daemontest.NewHome(bin, "")
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if t.Failed() {
			t.Log(home.Log())
		}
		if err := home.Close(); err != nil {
			t.Error(err)
		}
	}()

	ctx, cancel := context.WithTimeout(t.Context(), 4*time.Minute)
	defer cancel()
	// No daemon runs: the first shim starts it.
	cmd := exec.CommandContext(ctx, node, "interop.mjs",
		"--shim", filepath.Join(bin, "hermes-acp-shim"), "--cwd", home.Work)
	cmd.Env = home.Env
	cmd.WaitDelay = 10 * time.Second
	out, err := cmd.CombinedOutput()
	t.Logf("%s", out)
	if err != nil {
		t.Fatalf("the SDK's client: %v", err)
	}
	if n := bytes.Count(out, []byte("\nok ")); n < 10 {
		t.Errorf("only %d steps were run", n)
	}
}

// needNode skips the test unless Node 20 and the SDK are here.
func needNode(t *testing.T) string {
	t.Helper()
	node, err := exec.LookPath("node")
	if err != nil {
		daemontest.Skip(t, "interop with the official SDK (no node)")
	}
	out, err := exec.Command(node, "-p", "process.versions.node").Output()
	if err != nil {
		daemontest.Skip(t, "interop with the official SDK (node: %v)", err)
	}
	version := strings.TrimSpace(string(out))
	major, _, _ := strings.Cut(version, ".")
	if n, _ := strconv.Atoi(major); n < 20 {
		daemontest.Skip(t, "interop with the official SDK (node %s is older than 20)", version)
	}
	for _, name := range []string{"@agentclientprotocol/sdk", "@modelcontextprotocol/server-everything", "@modelcontextprotocol/server-filesystem"} {
		if _, err := os.Stat(filepath.Join("node_modules", filepath.FromSlash(name), "package.json")); err != nil {
			daemontest.Skip(t, "interop with the official SDK (run `npm ci` in scripts/interop: %s is not there)", name)
		}
	}
	return node
}
