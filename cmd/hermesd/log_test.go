package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"github.com/hermesd/hermesd/configs"
	"github.com/hermesd/hermesd/transport/link"
)

func TestTheLogFileIsPrivateAndRotated(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "log", "hermesd.log")
	config := configs.Default()
	config.Log.File, config.Log.MaxSize, config.Log.Keep = path, 1*configs.MiB, 2
	var stderr bytes.Buffer
	log, done, err := newLog(serveOptions{Config: config, Log: &stderr})
	if err != nil {
		t.Fatal(err)
	}
	if info, err := os.Stat(filepath.Dir(path)); err != nil || runtime.GOOS != "windows" && info.Mode().Perm() != 0o700 {
		t.Errorf("the folder: %v, %v", info.Mode(), err)
	}
	filler := strings.Repeat("x", 64<<10)
	for i := range 60 { // nearly four files
		log.Info().Int("i", i).Msg(filler)
	}
	if err := done(); err != nil {
		t.Fatal(err)
	}
	if stderr.Len() > 0 {
		t.Errorf("stderr has %q", stderr.String()[:80])
	}
	files, _ := filepath.Glob(filepath.Join(dir, "log", "*"))
	if len(files) != 3 {
		t.Errorf("the files are %v", files)
	}
	for _, f := range files {
		info, err := os.Stat(f)
		if err != nil || info.Size() > 1<<20 || runtime.GOOS != "windows" && info.Mode().Perm() != 0o600 {
			t.Errorf("%s: %v, %d bytes, %v", f, info.Mode(), info.Size(), err)
		}
	}
	b, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	lines := strings.Split(strings.TrimSpace(string(b)), "\n")
	var last struct{ I int }
	if err := json.Unmarshal([]byte(lines[len(lines)-1]), &last); err != nil || last.I != 59 {
		t.Errorf("the last line is %d, %v", last.I, err)
	}
}

func TestAnOldLogFileIsClosedToOthers(t *testing.T) {
	if runtime.GOOS == "windows" {
		t.Skip("access lists, not modes")
	}
	path := filepath.Join(t.TempDir(), "hermesd.log")
	if err := os.WriteFile(path, []byte("old\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	w, err := openLogFile(path, configs.Default().Log)
	if err != nil {
		t.Fatal(err)
	}
	defer w.Close()
	if _, err := io.WriteString(w, "new\n"); err != nil {
		t.Fatal(err)
	}
	b, _ := os.ReadFile(path)
	if info, err := os.Stat(path); err != nil || info.Mode().Perm() != 0o600 || string(b) != "old\nnew\n" {
		t.Errorf("%v, %v, %q", info.Mode(), err, b)
	}
	if _, err := openLogFile(t.TempDir(), configs.Default().Log); err == nil {
		t.Error("a folder is taken for a log")
	}
}

func TestWhereAServiceLogs(t *testing.T) {
	p := link.Places{Log: "/l"}
	want := "" // systemd has a journal
	if runtime.GOOS != "linux" {
		want = filepath.Join("/l", logName)
	}
	if got := logPath(configs.Log{}, p, true); got != want {
		t.Errorf("a service: %q", got)
	}
	if got := logPath(configs.Log{}, p, false); got != "" {
		t.Errorf("by hand: %q", got)
	}
	if got := logPath(configs.Log{File: "/x"}, p, true); got != "/x" {
		t.Errorf("as configured: %q", got)
	}
}

func TestTheEndOfALog(t *testing.T) {
	dir := t.TempDir()
	var many strings.Builder
	for i := range 20_000 { // several blocks
		fmt.Fprintf(&many, "line %d\n", i)
	}
	for name, c := range map[string]struct {
		text string
		n    int
		want string
	}{
		"empty":             {"", 3, ""},
		"fewer":             {"a\nb\n", 3, "a\nb\n"},
		"exactly":           {"a\nb\nc\n", 3, "a\nb\nc\n"},
		"more":              {"a\nb\nc\nd\n", 3, "b\nc\nd\n"},
		"without a newline": {"a\nb\nc", 2, "b\nc"},
		"empty lines":       {"a\n\n\n", 2, "\n\n"},
		"far back":          {many.String(), 10_000, many.String()[strings.Index(many.String(), "line 10000\n"):]},
	} {
		path := filepath.Join(dir, "log")
		if err := os.WriteFile(path, []byte(c.text), 0o600); err != nil {
			t.Fatal(err)
		}
		var out strings.Builder
		if err := tailFile(t.Context(), &out, path, c.n, false); err != nil || out.String() != c.want {
			t.Errorf("%s: %d bytes, want %d, %v", name, out.Len(), len(c.want), err)
		}
	}
	if err := tailFile(t.Context(), io.Discard, filepath.Join(dir, "none"), 1, false); err == nil || !strings.Contains(err.Error(), "there is no log yet") {
		t.Errorf("got %v", err)
	}
}

func TestALogIsFollowedThroughItsRotation(t *testing.T) {
	path := filepath.Join(t.TempDir(), "log")
	r, w := io.Pipe()
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error)
	go func() { done <- tailFile(ctx, w, path, 10, true) }() // the file is not there yet
	expect := func(want string) {
		t.Helper()
		b := make([]byte, len(want))
		if _, err := io.ReadFull(r, b); err != nil || string(b) != want {
			t.Fatalf("got %q, %v", b, err)
		}
	}
	f, err := os.OpenFile(path, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		t.Fatal(err)
	}
	fmt.Fprint(f, "one\n")
	expect("one\n")
	fmt.Fprint(f, "two\n")
	f.Close()
	if err := os.Rename(path, path+".1"); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte("three\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	expect("two\nthree\n")
	cancel()
	if err := <-done; err != nil {
		t.Error(err)
	}
}
