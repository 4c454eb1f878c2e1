package process

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
)

// Find finds a program as this environment has it. A path with a separator is
// taken from the folder cwd; folders of PATH that are not absolute do not count:
// the folder of a project is no place for programs.
func Find(command, cwd string, environ []string) (string, error) {
	if filepath.IsAbs(command) {
		return command, nil
	}
	if strings.ContainsRune(command, '/') || strings.ContainsRune(command, filepath.Separator) {
		return filepath.Join(cwd, command), nil
	}
	path, given := "", false
	for _, kv := range environ { // the last one counts
		name, value, _ := strings.Cut(kv, "=")
		if name == "PATH" || runtime.GOOS == "windows" && strings.EqualFold(name, "PATH") {
			path, given = value, true
		}
	}
	if !given {
		path = os.Getenv("PATH")
	}
	for _, dir := range filepath.SplitList(path) {
		if !filepath.IsAbs(dir) {
			continue
		}
		if found, err := exec.LookPath(filepath.Join(dir, command)); err == nil {
			return found, nil
		}
	}
	return "", fmt.Errorf("there is no program %q: %w", command, exec.ErrNotFound)
}

// StartError says why a program did not start, without repeating its path.
func StartError(err error) error {
	var pe *os.PathError
	switch {
	case errors.Is(err, os.ErrNotExist):
		return errors.New("there is no such program, or no such folder to run it in")
	case errors.Is(err, os.ErrPermission):
		return errors.New("it is not a program that may be run")
	case errors.As(err, &pe):
		return pe.Err
	}
	return err
}
