package daemontest

import (
	"errors"
	"os"
	"path/filepath"
)

// ModuleRoot is the folder of go.mod at or above the working directory, which
// for a test is the folder of its package.
func ModuleRoot() (string, error) {
	dir, err := os.Getwd()
	if err != nil {
		return "", err
	}
	for {
		if _, err := os.Stat(filepath.Join(dir, "go.mod")); err == nil {
			return dir, nil
		}
		up := filepath.Dir(dir)
		if up == dir {
			return "", errors.New("no go.mod at or above the working directory")
		}
		dir = up
	}
}
