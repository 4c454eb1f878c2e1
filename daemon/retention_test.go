package daemon_test

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/hermesd/hermesd/daemon"
	"github.com/hermesd/hermesd/daemon/daemontest"
	"github.com/hermesd/hermesd/daemon/session"
	"github.com/hermesd/hermesd/store"
	"github.com/hermesd/hermesd/transport/acpclient"
)

// weighed is a store in memory that says of each session that it takes a
// thousand bytes.
type weighed struct{ *store.Memory }

func (w weighed) Backup(context.Context, string, bool) error { return nil }
func (w weighed) Used() (int64, error)                       { return int64(1000 * len(w.List())), nil }
func (w weighed) Weigh(session.ID) (int64, error)            { return 1000, nil }

// What is removed by itself: at the start and then every hour, what is too old and
// then what was not used for the longest time, never what is in memory or pinned.
func TestSessionsAreRemovedAsTheRetentionSays(t *testing.T) {
	for _, c := range []struct {
		name string
		keep daemon.Retention
		// Sessions are made a day apart, 1 to 6. 2 is pinned, 6 is in memory.
		left   []int
		later  time.Duration // how long after the start they are looked at again
		after  []int
		unpin  bool // 2, meanwhile
		leaves bool // 6 leaves memory meanwhile
	}{
		{name: "nothing", left: []int{1, 2, 3, 4, 5, 6}, later: 100 * 24 * time.Hour, after: []int{1, 2, 3, 4, 5, 6}},
		{name: "by age", keep: daemon.Retention{MaxAge: 60 * time.Hour}, left: []int{2, 4, 5, 6}, later: 24 * time.Hour, after: []int{2, 5, 6}},
		{name: "by age, after an hour and not before", keep: daemon.Retention{MaxAge: 60*time.Hour + 30*time.Minute}, left: []int{2, 4, 5, 6}, later: 12*time.Hour - time.Second, after: []int{2, 4, 5, 6}},
		{name: "all are old", keep: daemon.Retention{MaxAge: time.Hour}, left: []int{2, 6}, later: 24 * time.Hour, after: []int{2, 6}},
		{name: "no longer pinned, no longer in memory", keep: daemon.Retention{MaxAge: 10 * time.Hour}, left: []int{2, 6}, later: 24 * time.Hour, unpin: true, leaves: true},
		{name: "by size", keep: daemon.Retention{MaxSize: 4000}, left: []int{2, 4, 5, 6}, later: time.Hour, after: []int{2, 4, 5, 6}},
		{name: "by size, more than can be", keep: daemon.Retention{MaxSize: 1}, left: []int{2, 6}, later: time.Hour, after: []int{2, 6}},
		{name: "by both", keep: daemon.Retention{MaxAge: 60 * time.Hour, MaxSize: 3000}, left: []int{2, 5, 6}, later: time.Hour, after: []int{2, 5, 6}},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				st := weighed{store.NewMemory()}
				h := daemontest.NewHouse(t, st, &daemontest.Script{}, func(cfg *daemon.Config) { cfg.Retention = c.keep })
				e := h.Editor(acpclient.Options{})
				cwd := t.TempDir()
				ids := map[string]int{}
				var names []string
				for i := 1; i <= 6; i++ {
					s, err := e.NewSession(within(t), cwd)
					if err != nil {
						t.Fatal(err)
					}
					ids[s.ID] = i
					names = append(names, s.ID)
					pin := func(on bool) {
						if err := e.Call(within(t), "_hermes/sessions/pin", map[string]any{"sessionId": s.ID, "pinned": on}, nil); err != nil {
							t.Fatal(err)
						}
					}
					if i == 2 {
						pin(true)
						pin(true)
					}
					if i < 6 {
						if err := e.CloseSession(within(t), s.ID); err != nil {
							t.Fatal(err)
						}
						time.Sleep(24 * time.Hour)
					}
				}
				left := func() (l []int) {
					for _, m := range st.List() {
						l = append(l, ids[string(m.ID)])
					}
					slices.Sort(l)
					return l
				}
				ctx, cancel := context.WithCancel(t.Context())
				var wg sync.WaitGroup
				wg.Go(func() { h.Daemon.Retain(ctx) })
				synctest.Wait()
				if got := left(); fmt.Sprint(got) != fmt.Sprint(c.left) {
					t.Errorf("at the start %v are left, want %v", got, c.left)
				}
				if c.unpin {
					if err := e.Call(within(t), "_hermes/sessions/pin", map[string]any{"sessionId": names[1], "pinned": false}, nil); err != nil {
						t.Fatal(err)
					}
				}
				if c.leaves {
					if err := e.CloseSession(within(t), names[5]); err != nil {
						t.Fatal(err)
					}
				}
				time.Sleep(c.later)
				synctest.Wait()
				if got := left(); fmt.Sprint(got) != fmt.Sprint(c.after) {
					t.Errorf("later %v are left, want %v", got, c.after)
				}
				cancel()
				wg.Wait()
			})
		})
	}
}
