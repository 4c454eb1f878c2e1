package grants

import (
	"os"
	"path/filepath"
)

// Workspace is the folder for which a grant holds that is given in cwd: the root
// of the repository cwd is in, else cwd itself. A repository that is the whole
// home folder, or the whole machine, is no workspace. Links are resolved.
func Workspace(cwd string) string {
	if real, err := filepath.EvalSymlinks(cwd); err == nil {
		cwd = real
	}
	home, err := os.UserHomeDir()
	if err == nil {
		if real, err := filepath.EvalSymlinks(home); err == nil {
			home = real
		}
	}
	for dir := cwd; ; {
		up := filepath.Dir(dir)
		if dir == home || up == dir {
			return cwd
		}
		if _, err := os.Lstat(filepath.Join(dir, ".git")); err == nil {
			return dir
		}
		dir = up
	}
}
