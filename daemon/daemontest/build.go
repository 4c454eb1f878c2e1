package daemontest

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
)

// Build compiles hermesd and hermes-acp-shim into dir. Flags go to `go build`;
// RaceFlags gives programs that watch themselves for data races if the caller
// does so too.
func Build(ctx context.Context, dir string, flags ...string) error {
	root, err := ModuleRoot()
	if err != nil {
		return err
	}
	// Without -trimpath: what `go test` has compiled is used again.
	args := append([]string{"build", "-o", dir + string(filepath.Separator)}, flags...)
	cmd := exec.CommandContext(ctx, "go", append(args, "./cmd/hermesd", "./cmd/hermes-acp-shim")...)
	cmd.Dir = root
	cmd.Env = append(os.Environ(), "GOFLAGS=-buildvcs=false")
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("building hermesd and hermes-acp-shim: %w\n%s", err, out)
	}
	return nil
}
