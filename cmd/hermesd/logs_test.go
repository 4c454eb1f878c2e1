package main

import (
	"bytes"
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

// someLog is what two sessions and three connections had to do with a daemon.
const someLog = `{"conn":"c1","message":"connected"}
{"message":"ready"}
{"session":"sess_1","conn":"c1","message":"attached"}
{"session":"sess_2","conn":"c2","message":"attached"}
{"session":"sess_1","audit":"prompt","conn":"c1","turn":2}
panic: not JSON, sess_1
{"session":"sess_2","audit":"prompt","conn":"c2","turn":2}
{"conn":"c2","message":"a handler panicked"}
{"conn":"c3","message":"disconnected"}
{"session":"sess_1","turn":2,"message":"turn ended"}
{"conn":"c1","message":"disconnected"}
`

// ofFirst are the lines of the first session.
const ofFirst = `{"conn":"c1","message":"connected"}
{"session":"sess_1","conn":"c1","message":"attached"}
{"session":"sess_1","audit":"prompt","conn":"c1","turn":2}
{"session":"sess_1","turn":2,"message":"turn ended"}
{"conn":"c1","message":"disconnected"}
`

func newFilter(session string) *sessionFilter {
	return &sessionFilter{session: session, conns: make(map[string]bool)}
}

func plainWriter(out io.Writer) *lineWriter {
	return &lineWriter{emit: func(line []byte) error { _, err := out.Write(line); return err }}
}

func TestALogIsShownOfOneSession(t *testing.T) {
	lines := strings.SplitAfter(someLog, "\n")
	for cut := range lines { // wherever it was rotated
		dir := t.TempDir()
		path := filepath.Join(dir, "x.log")
		aside := filepath.Join(dir, "x-2026-01-02T03-04-05.000-size.log")
		for name, text := range map[string][]string{aside: lines[:cut], path: lines[cut:]} {
			if err := os.WriteFile(name, []byte(strings.Join(text, "")), 0o600); err != nil {
				t.Fatal(err)
			}
		}
		for _, tc := range []struct {
			session string
			n       int
			want    string
		}{
			{"sess_1", 100, ofFirst},
			{"sess_1", 2, ofFirst[strings.Index(ofFirst, `{"session":"sess_1","turn":2,`):]},
			{"sess_1", 0, ""},
			{"sess_3", 100, ""},
		} {
			var out bytes.Buffer
			if err := filterFiles(t.Context(), path, logsFlags{lines: tc.n}, newFilter(tc.session), plainWriter(&out)); err != nil || out.String() != tc.want {
				t.Errorf("cut at %d, %s, %d lines: %v\n%s", cut, tc.session, tc.n, err, &out)
			}
		}
	}
	if err := filterFiles(t.Context(), filepath.Join(t.TempDir(), "x.log"), logsFlags{}, newFilter("s"), plainWriter(io.Discard)); err == nil || !strings.Contains(err.Error(), "no log yet") {
		t.Error(err)
	}
}

func TestTheManagersLogIsShownOfOneSessionToo(t *testing.T) {
	if runtime.GOOS == "windows" {
		t.Skip("no manager there keeps a log")
	}
	path := filepath.Join(t.TempDir(), "journal")
	if err := os.WriteFile(path, []byte(someLog), 0o600); err != nil {
		t.Fatal(err)
	}
	var out, errOut bytes.Buffer
	a := newApp(strings.NewReader(""), &out, &errOut)
	asked := ""
	at := foundLog{command: func(follow bool, lines int) []string {
		asked += fmt.Sprintln(follow, lines)
		if follow { // what comes later
			return []string{"echo", `{"session":"sess_2","message":"no"}` + "\n" + `{"session":"sess_1","message":"yes"}`}
		}
		return []string{"cat", path}
	}}
	if err := a.filterJournal(t.Context(), at, logsFlags{lines: 1, follow: true}, newFilter("sess_1"), plainWriter(&out)); err != nil {
		t.Fatal(err)
	}
	want := `{"conn":"c1","message":"disconnected"}` + "\n" + `{"session":"sess_1","message":"yes"}` + "\n"
	if out.String() != want || asked != "false 100000\ntrue 0\n" {
		t.Errorf("%s\nasked %s%s", &out, asked, &errOut)
	}
	at.command = func(bool, int) []string { return []string{"false"} }
	if err := a.filterJournal(t.Context(), at, logsFlags{}, newFilter("s"), plainWriter(&out)); err == nil {
		t.Error("a command that fails is no error")
	}
}

// The stderr that a shim has opened is not for a log that grows.
func TestADaemonThatAShimStartedLogsToAFile(t *testing.T) {
	dir := t.TempDir()
	words, err := os.OpenFile(filepath.Join(dir, wordsName), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		t.Fatal(err)
	}
	defer words.Close()
	other, err := os.Create(filepath.Join(dir, "terminal"))
	if err != nil {
		t.Fatal(err)
	}
	defer other.Close()
	o := serveOptions{Places: link.Places{Log: dir}, Config: configs.Default(), Log: words}
	if at := o.logAt(); at != filepath.Join(dir, logName) {
		t.Errorf("started by a shim: %s", at)
	}
	log, done, err := newLog(o)
	if err != nil {
		t.Fatal(err)
	}
	log.Info().Msg("hello")
	if err := done(); err != nil {
		t.Fatal(err)
	}
	if b, err := os.ReadFile(filepath.Join(dir, logName)); err != nil || !bytes.Contains(b, []byte("hello")) {
		t.Errorf("%q, %v", b, err)
	}
	if info, err := words.Stat(); err != nil || info.Size() > 0 {
		t.Errorf("stderr.log has %d bytes, %v", info.Size(), err)
	}
	for what, w := range map[string]io.Writer{"a file": other, "memory": io.Discard} {
		o.Log = w
		if at := o.logAt(); at != logStderr {
			t.Errorf("%s: %s", what, at)
		}
	}
	o.Log, o.Config.Log.File = words, "/configured"
	if at := o.logAt(); at != "/configured" {
		t.Errorf("configured: %s", at)
	}
}
