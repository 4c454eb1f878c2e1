package main

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/hermesd/hermesd/configs"
	"github.com/hermesd/hermesd/transport/link"
)

// newDoctor is one for an empty home.
func newDoctor(t *testing.T) *doctor {
	t.Helper()
	dir, err := os.MkdirTemp("", "hd") // short: a socket's path has to fit
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	t.Setenv("HERMESD_HOME", dir)
	places, err := link.Here()
	if err != nil {
		t.Fatal(err)
	}
	var out bytes.Buffer
	return &doctor{a: newApp(strings.NewReader(""), &out, &out), places: places, found: []finding{}}
}

// finding gives the one of an id.
func (d *doctor) finding(t *testing.T, id string) finding {
	t.Helper()
	for _, f := range d.found {
		if f.ID == id {
			return f
		}
	}
	t.Errorf("nothing is said of %s: %+v", id, d.found)
	return finding{}
}

func (d *doctor) expect(t *testing.T, id, level, text, fix string) {
	t.Helper()
	f := d.finding(t, id)
	if f.Level != level || !strings.Contains(f.Text, text) || !strings.Contains(f.Fix, fix) || fix == "" && f.Fix != "" {
		t.Errorf("%+v", f)
	}
}

func TestDoctorComparesTheVersionsOfAllThatAreAttached(t *testing.T) {
	d := newDoctor(t)
	d.status = &daemonStatus{Version: buildVersion(), Connections: []connectionStatus{
		{ID: "0123456789", Client: "Zed", Version: "v0.1.0", PID: 7},
		{ID: "abcdefghij", Client: "Neovim", Version: buildVersion(), PID: 8},
		{ID: "plain00000", Client: "socat", PID: 9},
		{ID: "command000", Client: "hermesd", Version: "v0.0.1", PID: 10},
	}}
	d.lookAtVersions(t.Context())
	d.expect(t, "version-daemon", fine, "same version", "")
	d.expect(t, "version-01234567", note, "Zed (process 7) uses a shim of version v0.1.0", "have the editor start its agent again")
	d.expect(t, "version-abcdefgh", fine, "Neovim", "")
	for _, f := range d.found {
		if strings.Contains(f.Text, "socat") || strings.Contains(f.Text, "process 10") {
			t.Errorf("%+v", f)
		}
	}
	d.found, d.status.Version = nil, "v9"
	d.lookAtVersions(t.Context())
	d.expect(t, "version-daemon", note, "the daemon is hermesd v9", "hermesd stop")
}

func TestDoctorSaysThatADaemonDoesNotServe(t *testing.T) {
	d := newDoctor(t)
	if err := d.places.MakeRun(); err != nil {
		t.Fatal(err)
	}
	lock, err := link.TryLock(d.places.Lock)
	if err != nil {
		t.Fatal(err)
	}
	if err := lock.Sign(4242); err != nil {
		t.Fatal(err)
	}
	d.lookAtDaemon(t.Context())()
	d.expect(t, "daemon", wrong, "process 4242 is the daemon and accepts no connections", "kill 4242")
	d.lookAtStore(t.Context())
	d.expect(t, "store", note, "were not read", "hermesd doctor")
	if err := lock.Close(); err != nil {
		t.Fatal(err)
	}
	// Without one nobody starts a daemon while the sessions are read.
	d.found = nil
	release := d.lookAtDaemon(t.Context())
	d.expect(t, "daemon", fine, "none runs", "")
	if _, err := link.TryLock(d.places.Lock); err == nil {
		t.Error("a daemon can start meanwhile")
	}
	release()
	if lock, err := link.TryLock(d.places.Lock); err != nil {
		t.Error(err)
	} else {
		lock.Close()
	}
}

func TestDoctorTellsWhatTheDaemonKnows(t *testing.T) {
	d := newDoctor(t)
	d.status = &daemonStatus{Log: "/x/hermesd.log", MetricsError: "address already in use", Began: time.Now().Add(-time.Hour)}
	d.status.Disk.Failing = "no space left on device"
	if err := os.WriteFile(d.places.Config, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	d.lookAtAge(*d.status)
	d.lookAtStore(t.Context())
	d.lookAtLog()
	d.lookAtMetrics()
	d.expect(t, "config-age", note, "does not hold yet", "hermesd stop")
	d.expect(t, "store", wrong, "no space left on device", "make room")
	d.expect(t, "log", fine, "/x/hermesd.log", "")
	d.expect(t, "metrics", wrong, "already in use", "[metrics]")
	aside := filepath.Join(d.storeDir(), "journal", "0000000000000001.damaged")
	if err := os.MkdirAll(filepath.Dir(aside), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(aside, []byte("x"), 0o600); err != nil {
		t.Fatal(err)
	}
	d.found = nil
	d.lookAtStore(t.Context())
	d.expect(t, "store-aside", note, aside, "rm "+aside)
}

func TestDoctorKnowsWhoMayComeInOverTheNetwork(t *testing.T) {
	d := newDoctor(t)
	c := configs.Default()
	d.config = &c
	d.lookAtNetwork()
	if len(d.found) > 0 {
		t.Errorf("nothing listens: %+v", d.found)
	}
	c.Listen = append(c.Listen, configs.Listen{Address: "tcp://0.0.0.0:7777"})
	d.lookAtNetwork()
	d.expect(t, "network", note, "there is no token", "hermesd pair")
	path := tokensFile(d.places).Path()
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte("{"), 0o600); err != nil {
		t.Fatal(err)
	}
	d.found = nil
	d.lookAtNetwork()
	d.expect(t, "network", wrong, "nobody can come in", "pair again")
}

func TestFindingsAreForPeopleAndPrograms(t *testing.T) {
	var out, errOut bytes.Buffer
	a := newApp(strings.NewReader(""), &out, &errOut)
	all := []finding{{"a", fine, "well", ""}, {"b", wrong, "not\nwell\x1b[31m", "do 'this'"}, {"c", note, "hm", ""}}
	if err := a.printFindings(all); err != nil {
		t.Fatal(err)
	}
	want := "ok     a: well\nWRONG  b: not\n       well[31m\n       → do 'this'\nnote   c: hm\n"
	if out.String() != want {
		t.Errorf("got %q", out.String())
	}
	if err := a.verdict(all); err == nil || err.Error() != "one thing is wrong" {
		t.Error(err)
	}
	if err := a.verdict(all[:1]); err != nil {
		t.Error(err)
	}
	b, err := json.Marshal(all[1])
	if err != nil || string(b) != `{"id":"b","level":"wrong","text":"not\nwell\u001b[31m","fix":"do 'this'"}` {
		t.Errorf("%s %v", b, err)
	}
	if got := shellWords([]string{"/a/b", "/it's here"}); got[0] != "/a/b" || got[1] != `'/it'\''s here'` {
		t.Error(got)
	}
}
