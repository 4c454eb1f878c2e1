package main

import (
	"os"
	"os/exec"
	"strings"
	"testing"
)

func TestTheProgramIsSmall(t *testing.T) {
	info, err := os.Stat(releaseProgram)
	if err != nil {
		t.Fatal(err)
	}
	t.Logf("%d bytes", info.Size())
	if info.Size() > 4<<20 {
		t.Errorf("%d bytes, want at most 4 MB", info.Size())
	}
}

// Standard library only: what starts with every editor starts fast, and nothing
// of others runs between an editor and its daemon.
func TestTheProgramIsMadeOfTheStandardLibrary(t *testing.T) {
	ours := map[string]bool{
		"github.com/hermesd/hermesd/cmd/hermes-acp-shim": true,
		"github.com/hermesd/hermesd/transport/link":      true,
		"github.com/hermesd/hermesd/agentpool/holder":    true,
	}
	for _, goos := range []string{"linux", "darwin", "windows"} {
		cmd := exec.Command("go", "list", "-deps", "-f", "{{if not .Standard}}{{.ImportPath}}{{end}}", ".")
		cmd.Env = append(os.Environ(), "GOOS="+goos, "CGO_ENABLED=0")
		out, err := cmd.Output()
		if err != nil {
			t.Fatal(err)
		}
		for _, path := range strings.Fields(string(out)) {
			if !ours[path] {
				t.Errorf("%s: it contains %s", goos, path)
			}
		}
	}
}
