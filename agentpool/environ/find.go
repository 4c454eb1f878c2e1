package environ

import (
	"fmt"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
)

// Find says where a program is that is started in an environment: its whole path.
// A name with a separator is a path already and has to be a whole one, because
// nobody knows in which folder it will be started. Folders of PATH that are not
// whole paths are no places for programs.
func Find(environ []string, name string) (string, error) {
	if strings.ContainsRune(name, '/') || strings.ContainsRune(name, filepath.Separator) {
		if !filepath.IsAbs(name) {
			return "", fmt.Errorf("%q is a relative path; write the whole one, or the name of a program on PATH", name)
		}
		found, err := exec.LookPath(name)
		if err != nil {
			return "", fmt.Errorf("%s cannot be run: it is not there, or not executable", name)
		}
		return found, nil
	}
	path := pathOf(environ)
	for _, dir := range filepath.SplitList(path) {
		if !filepath.IsAbs(dir) {
			continue
		}
		if found, err := exec.LookPath(filepath.Join(dir, name)); err == nil {
			return found, nil
		}
	}
	return "", fmt.Errorf("no %s on PATH (%s)", name, path)
}

// pathOf is PATH, which Windows writes as it likes.
func pathOf(environ []string) (path string) {
	for _, kv := range environ { // the last one counts
		name, value, _ := strings.Cut(kv, "=")
		if name == "PATH" || runtime.GOOS == "windows" && strings.EqualFold(name, "PATH") {
			path = value
		}
	}
	return path
}
