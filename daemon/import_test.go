package daemon_test

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/hermesd/hermesd/daemon"
	"github.com/hermesd/hermesd/daemon/daemontest"
	"github.com/hermesd/hermesd/daemon/session"
	"github.com/hermesd/hermesd/store"
	"github.com/hermesd/hermesd/transport/acpclient"
	"github.com/hermesd/hermesd/transport/link"
	"github.com/hermesd/hermesd/transport/tokens"
)

// exported gives a session as lines.
func exported(t *testing.T, e *acpclient.Client, id string) [][]byte {
	t.Helper()
	var shown struct{ Meta session.Meta }
	if err := e.Call(within(t), "_hermes/sessions/show", map[string]any{"sessionId": id}, &shown); err != nil {
		t.Fatal(err)
	}
	lines := [][]byte{raw(t, session.Header{Format: session.PortableFormat, Meta: shown.Meta})}
	for after := session.Seq(0); ; {
		var page struct {
			Lines      [][]byte
			Head, Next session.Seq
		}
		if err := e.Call(within(t), "_hermes/sessions/tail", map[string]any{"sessionId": id, "from": after, "limitBytes": 200, "exact": true}, &page); err != nil {
			t.Fatal(err)
		}
		for _, l := range page.Lines {
			lines = append(lines, bytes.TrimSuffix(l, []byte("\n")))
		}
		if after = page.Next; after >= page.Head {
			return append(lines, raw(t, session.Footer{End: &after}))
		}
	}
}

func TestAnImportedSessionIsTheSameAndPermitsNothing(t *testing.T) {
	r := newRoomOn(t, store.NewMemory(), sayer(), nil)
	stop(t, start(t, r.a, r.id, "say <one> & another"))
	lines := exported(t, r.a, r.id)
	file := filepath.Join(t.TempDir(), "session.jsonl")
	write := func(lines ...[]byte) {
		t.Helper()
		if err := os.WriteFile(file, append(bytes.Join(lines, []byte("\n")), '\n'), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	imp := func() (id string, err error) {
		var got struct{ ID, Imported string }
		err = r.a.Call(within(t), "_hermes/sessions/import", map[string]any{"path": file}, &got)
		if err == nil && got.Imported != r.id {
			t.Errorf("imported as %q", got.Imported)
		}
		return got.ID, err
	}
	write(lines...)
	id, err := imp()
	if err != nil || id == r.id {
		t.Fatal(id, err)
	}
	events := func(lines [][]byte) (all []session.Event) {
		for _, l := range lines[1 : len(lines)-1] {
			rec, err := session.ParseLine(l)
			if err != nil {
				t.Fatalf("%s: %v", l, err)
			}
			all = append(all, rec.Events()...)
		}
		return all
	}
	want, got := events(lines), events(exported(t, r.a, id))
	if len(got) != len(want)+2 { // settings and roots
		t.Errorf("%d events became %d", len(want), len(got))
	}
	for i, w := range want {
		g := got[i]
		if g.Seq != w.Seq || g.Kind != w.Kind || g.Version != w.Version || g.Kind == session.KindUpdate && !bytes.Equal(g.Data, w.Data) {
			t.Errorf("%+v became %+v", w, g)
		}
		if g.Kind == session.KindPromptAdmitted && (bytes.Contains(g.Data, []byte(`"conn"`)) || !bytes.Contains(w.Data, []byte(`"conn"`))) {
			t.Errorf("it says which connection asked: %s", g.Data)
		}
	}
	b := r.Editor(acpclient.Options{})
	if _, err := b.Load(within(t), id, r.cwd); err != nil {
		t.Fatal(err)
	}
	waitFor(t, "its history", func() bool { return strings.Contains(said(b), "<one>") })
	if got := stop(t, start(t, b, id, "say more")); got != "end_turn" {
		t.Error(got)
	}

	// What cannot be right is refused with its line, and leaves nothing.
	before, _ := r.a.List(within(t), "")
	for name, tc := range map[string]struct {
		lines [][]byte
		want  string
	}{
		"nothing":         {[][]byte{}, ":2: "},
		"no header":       {lines[1:], ":1: this is no session"},
		"header only":     {lines[:1], ":2: the file ends here"},
		"no end":          {lines[:3], ":4: the file ends here"},
		"wrong end":       {append(lines[:3:3], []byte(`{"end":7}`)), ":4: the session should have 7 events"},
		"a gap":           {append(lines[:2:2], lines[3:]...), ":3: event"},
		"twice":           {append(lines[:3:3], lines[2:]...), ":4: event"},
		"no beginning":    {append(lines[:1:1], lines[2:]...), ":2: "},
		"behind the end":  {append(lines[:len(lines):len(lines)], []byte("{}")), "behind the end"},
		"no JSON":         {append(lines[:2:2], []byte("{"), lines[3]), ":3: "},
		"no cwd":          {append([][]byte{[]byte(`{"hermesSession":1,"meta":{"id":"x"}}`)}, lines[1:]...), ":1: meta.cwd"},
		"a fact of words": {append(lines[:2:2], []byte(`{"seq":2,"last":2,"ms":1,"kind":"turn_started","data":{"prompt":"x"}}`)), ":3: "},
		"nobody's prompt": {append(lines[:2:2], []byte(`{"seq":2,"last":2,"ms":1,"kind":"prompt_admitted","data":{"origin":7}}`)), ":3: "},
		"deleted":         {append(lines[:2:2], []byte(`{"seq":2,"last":2,"ms":1,"kind":"deleted","data":{"origin":{}}}`)), ":3: the session was deleted"},
	} {
		write(tc.lines...)
		if _, err := imp(); code(t, err) != session.CodeParams || !strings.Contains(err.Error(), tc.want) {
			t.Errorf("%s: %v", name, err)
		}
	}
	after, _ := r.a.List(within(t), "")
	if fmt.Sprint(after) != fmt.Sprint(before) {
		t.Errorf("left behind: %v", after)
	}

	// Its own id is free again.
	write(lines...)
	if err := r.a.Delete(within(t), r.id); err != nil {
		t.Fatal(err)
	}
	if id, err := imp(); err != nil || id != r.id {
		t.Error(id, err)
	}
}

// The files of backups and imports are the daemon's: who controls it from
// another machine does not name them.
func TestFilesAreNotNamedFromAnotherMachine(t *testing.T) {
	w := newWeb(t, sayer(), nil)
	far := w.far(link.Hello{Token: w.token("laptop", tokens.Control)}, acpclient.Options{Name: "laptop"})
	for method, path := range map[string]string{"_hermes/backup": filepath.Join(t.TempDir(), "b"), "_hermes/sessions/import": "/etc/passwd"} {
		err := far.Call(within(t), method, map[string]any{"path": path}, nil)
		if codeOf(err) != session.CodeForbidden || !strings.Contains(err.Error(), "daemon's machine") {
			t.Errorf("%s: %v", method, err)
		}
		if _, err := os.Stat(path); method == "_hermes/backup" && err == nil {
			t.Error("there is a file")
		}
	}
	if err := far.Call(within(t), "_hermes/sessions/pin", map[string]any{"sessionId": w.id, "pinned": true}, nil); err != nil {
		t.Errorf("pin: %v", err)
	}
}

// FuzzImport reads any file. Whatever is in it, there is a session that can be
// opened, or an error with a line and nothing left behind.
func FuzzImport(f *testing.F) {
	head := `{"hermesSession":1,"meta":{"id":"s","cwd":"/"}}` + "\n"
	made := `{"seq":1,"last":1,"ms":1,"kind":"created","data":{"origin":{},"meta":{"id":"s"},"settings":{}}}` + "\n"
	f.Add([]byte(head + made + `{"end":1}` + "\n"))
	f.Add([]byte(head + made + `{"seq":2,"last":2,"ms":2,"kind":"turn_ended","data":{"prompt":1}}` + "\n" + `{"end":2}`))
	f.Add([]byte(head + made))
	f.Add([]byte("\n\n{"))
	f.Fuzz(func(t *testing.T, data []byte) {
		st := store.NewMemory()
		defer st.Close()
		d := daemon.New(daemon.Config{Session: session.DefaultConfig(), Limits: daemon.DefaultLimits()}, st, sayer())
		id, line, err := d.ImportForTest(bytes.NewReader(data))
		if err != nil {
			if line < 1 || len(st.List()) > 0 {
				t.Fatalf("line %d, %d sessions left, %v", line, len(st.List()), err)
			}
			return
		}
		log, err := st.Open(id, discard{})
		if err != nil {
			t.Fatal(err)
		}
		defer log.Close()
		var state session.State
		for at := session.Seq(1); at <= log.Head(); {
			page, err := log.Read(at, 1<<20)
			if err != nil || len(page) == 0 {
				t.Fatalf("reading at %d of %d: %v", at, log.Head(), err)
			}
			for _, rec := range page {
				if err := state.Apply(rec); err != nil {
					t.Fatal(err)
				}
				at = rec.Last + 1
			}
		}
		if len(state.Meta.MCPServers) > 0 || len(state.Meta.Dirs) > 0 || len(state.Settings.Modes) > 0 {
			t.Fatalf("it brings %+v, %+v", state.Meta, state.Settings)
		}
	})
}

type discard struct{}

func (discard) Written(session.Seq) {}
func (discard) Durable(session.Seq) {}
func (discard) Failed(error)        {}

// sayer is an agent that says what it is asked to.
func sayer() *daemontest.Script {
	return &daemontest.Script{Turn: func(ctx context.Context, st *daemontest.Stage) (session.TurnResult, error) {
		if text, ok := strings.CutPrefix(st.Text(), "say "); ok {
			for _, word := range strings.Fields(text) {
				if err := st.Say(ctx, "%s ", word); err != nil {
					return session.TurnResult{}, err
				}
			}
		}
		return session.TurnResult{StopReason: "end_turn"}, nil
	}}
}
