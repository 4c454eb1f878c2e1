package daemon_test

import (
	"context"
	"os"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/rs/zerolog"

	"github.com/hermesd/hermesd/daemon"
	"github.com/hermesd/hermesd/daemon/daemontest"
	"github.com/hermesd/hermesd/daemon/session"
	"github.com/hermesd/hermesd/store"
	"github.com/hermesd/hermesd/transport/acpclient"
)

// filling is a file system that fills up.
type filling struct {
	mu   sync.Mutex
	full bool
}

func (f *filling) set(full bool) {
	f.mu.Lock()
	f.full = full
	f.mu.Unlock()
}

func (f *filling) err() error {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.full {
		return syscall.ENOSPC
	}
	return nil
}

func (f *filling) Create(name string) (store.File, error) {
	if err := f.err(); err != nil {
		return nil, err
	}
	file, err := os.OpenFile(name, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	return fillingFile{file, f}, err
}

func (f *filling) OpenWrite(name string) (store.File, error) {
	file, err := os.OpenFile(name, os.O_WRONLY, 0)
	if err != nil {
		return nil, err
	}
	return fillingFile{file, f}, nil
}

func (f *filling) ReadFile(name string) ([]byte, error) { return os.ReadFile(name) }
func (f *filling) Rename(from, to string) error         { return os.Rename(from, to) }
func (f *filling) SyncDir(string) error                 { return nil }

func (f *filling) Remove(name string) error {
	if err := os.Remove(name); err != nil && !os.IsNotExist(err) {
		return err
	}
	return nil
}

type fillingFile struct {
	*os.File
	f *filling
}

func (w fillingFile) WriteAt(b []byte, at int64) (int, error) {
	if err := w.f.err(); err != nil {
		return 0, err
	}
	return w.File.WriteAt(b, at)
}

// Reserve takes no space: there may be none.
func (w fillingFile) Reserve(int64, int64) error { return syscall.ENOSPC }

// On a full disk a new prompt is refused with the reason, all that is there can
// be read, and when there is space again it goes on by itself.
func TestOnAFullDiskNewPromptsAreRefusedAndEverythingIsReadable(t *testing.T) {
	files := new(filling)
	st, err := store.Open(t.TempDir(), store.Options{Files: files})
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := st.Close(); err != nil {
			t.Error(err)
		}
	}()
	agent := &daemontest.Script{Turn: func(ctx context.Context, st *daemontest.Stage) (session.TurnResult, error) {
		if err := st.Say(ctx, "an answer to %s", st.Text()); err != nil {
			return session.TurnResult{}, err
		}
		return session.TurnResult{StopReason: "end_turn"}, nil
	}}
	r := newRoomOn(t, st, agent, func(c *daemon.Config) {
		c.Log = zerolog.Nop() // it warns, and should
		c.Disk = func() daemon.Disk { return daemon.Disk{Failing: st.Stats().Failing} }
	})
	defer r.Drain()
	if got := stop(t, start(t, r.a, r.id, "before")); got != "end_turn" {
		t.Fatal(got)
	}
	files.set(true)
	under := start(t, r.a, r.id, "under way") // is taken: nobody knows yet
	waitFor(t, "the failure", func() bool { return st.Stats().Failing != "" })
	late, err := r.a.StartPrompt(r.id, "late")
	if err != nil {
		t.Fatal(err)
	}
	_, err = late.Wait(within(t))
	if code(t, err) != session.CodeStoreReadOnly || !strings.Contains(err.Error(), "no space left") || !strings.Contains(err.Error(), "free some space") {
		t.Errorf("a prompt on a full disk: %v", err)
	}
	// Who comes now sees everything that was told.
	b := r.join(acpclient.Options{Name: "b"})
	waitFor(t, "the history", func() bool { return strings.Contains(said(b), "an answer to before") })
	var status struct {
		Disk struct{ Failing string }
	}
	if err := b.Call(within(t), "_hermes/status", nil, &status); err != nil || !strings.Contains(status.Disk.Failing, "no space") {
		t.Errorf("status: %+v, %v", status, err)
	}
	files.set(false)
	if got := stop(t, under); got != "end_turn" {
		t.Errorf("what was under way ended with %s", got)
	}
	waitFor(t, "working again", func() bool { return st.Stats().Failing == "" })
	if got := stop(t, start(t, b, r.id, "after")); got != "end_turn" {
		t.Errorf("after it: %s", got)
	}
	waitFor(t, "the rest", func() bool {
		text := said(b)
		return strings.Contains(text, "an answer to under way") && strings.Contains(text, "an answer to after") && !strings.Contains(text, "late")
	})
}

func waitFor(t *testing.T, what string, ok func() bool) {
	t.Helper()
	for end := time.Now().Add(20 * time.Second); !ok(); time.Sleep(time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("never so: %s", what)
		}
	}
}

// said is all text that an editor was sent.
func said(e *acpclient.Client) string {
	text := ""
	for _, x := range e.Entries() {
		text += textOf(x)
	}
	return text
}
