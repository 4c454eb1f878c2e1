//go:build unix

package environ

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestAProgramIsFoundWhereItsEnvironmentHasIt(t *testing.T) {
	dir := t.TempDir()
	program := filepath.Join(dir, "bin", "agent")
	plain := filepath.Join(dir, "bin", "plain")
	if err := os.MkdirAll(filepath.Join(dir, "bin", "folder"), 0o700); err != nil {
		t.Fatal(err)
	}
	for path, mode := range map[string]os.FileMode{program: 0o700, plain: 0o600} {
		if err := os.WriteFile(path, []byte("#!/bin/sh\n"), mode); err != nil {
			t.Fatal(err)
		}
	}
	t.Chdir(dir)
	path := "PATH=/nowhere:" + filepath.Join(dir, "bin")
	for _, tc := range []struct {
		environ []string
		name    string
		want    string // path, or a part of the error
	}{
		{[]string{path}, "agent", program},
		{[]string{"PATH=/nowhere", path}, "agent", program},
		{[]string{path, "PATH=/nowhere"}, "agent", "no agent on PATH (/nowhere)"},
		{nil, "agent", "no agent on PATH ()"},
		{[]string{"PATH=bin::."}, "agent", "no agent on PATH"},
		{[]string{path}, "plain", "no plain on PATH"},
		{[]string{path}, "folder", "no folder on PATH"},
		{[]string{path}, program, program},
		{[]string{path}, plain, "cannot be run"},
		{[]string{path}, "bin/agent", "relative path"},
		{[]string{path}, "./agent", "relative path"},
	} {
		got, err := Find(tc.environ, tc.name)
		if err != nil {
			got = err.Error()
		}
		if got != tc.want && (err == nil || !strings.Contains(got, tc.want)) {
			t.Errorf("%s in %v: %s", tc.name, tc.environ, got)
		}
	}
}
