package link

import (
	"io/fs"
	"os/exec"
	"path/filepath"
)

// scopeCommand returns the beginning of a command line that starts a program in
// a systemd scope of its own, or nil where there is no systemd user session. A
// program in the editor's scope or service would end with it.
func scopeCommand(environ []string, stat func(string) (fs.FileInfo, error)) []string {
	runtime := lookup(environ, "XDG_RUNTIME_DIR")
	if !filepath.IsAbs(runtime) {
		return nil
	}
	if _, err := stat("/run/systemd/system"); err != nil { // as sd_booted(3)
		return nil
	}
	if _, err := stat(filepath.Join(runtime, "systemd", "private")); err != nil {
		return nil
	}
	run, err := exec.LookPath("systemd-run")
	if err != nil {
		return nil
	}
	return []string{run, "--user", "--scope", "--quiet", "--collect",
		"--unit=hermesd-" + NewID()[:8], "--description=hermesd", "--"}
}
