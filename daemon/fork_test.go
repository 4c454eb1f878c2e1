package daemon_test

import (
	"context"
	"encoding/json"
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
	"github.com/hermesd/hermesd/transport/acp"
	"github.com/hermesd/hermesd/transport/acpclient"
)

func roots(id, cwd, dir, server string) map[string]any {
	return map[string]any{
		"sessionId": id, "cwd": cwd, "additionalDirectories": []string{dir},
		"mcpServers": []any{map[string]any{"name": server, "command": "/bin/" + server, "args": []string{}, "env": []any{}}},
	}
}

// A fork has the roots it was asked to have and the title its parent has now,
// whatever the copied log says of roots and titles, and so it is also when it
// is read again.
func TestAForkHasItsOwnRootsAndTheTitleOfNow(t *testing.T) {
	for _, c := range []struct {
		name   string
		parent []string // roots the parent gets before the fork, one after the other
		own    string   // roots of the fork; "": those of its parent
		want   string
	}{
		{"as they were", nil, "mine", "mine"},
		{"the parent's have changed", []string{"first", "second"}, "mine", "mine"},
		{"the parent's, which have changed", []string{"first", "second"}, "", "second"},
		{"back to what the parent had before", []string{"first", "second"}, "first", "first"},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var mu sync.Mutex
				given := map[session.ID]session.Meta{} // what agents were opened with
				agent := &daemontest.Script{
					Opening: func(_ context.Context, spec session.Spec, _ session.Host) error {
						mu.Lock()
						defer mu.Unlock()
						given[spec.Meta.ID] = spec.Meta
						return nil
					},
					// Titles the session after the prompt; "go on" does not end.
					Turn: func(ctx context.Context, st *daemontest.Stage) (session.TurnResult, error) {
						if st.Text() == "quiet" {
							return session.TurnResult{}, nil
						}
						if err := st.Update(ctx, acp.InfoUpdate(st.Text(), time.Time{}, nil)); err != nil {
							return session.TurnResult{}, err
						}
						if st.Text() == "go on" {
							<-ctx.Done()
						}
						return session.TurnResult{}, ctx.Err()
					},
				}
				r := newRoomOn(t, store.NewMemory(), agent, func(c *daemon.Config) { c.Session.IdleAfter = time.Minute })
				call := func(method string, params, result any) {
					t.Helper()
					if err := r.a.Call(within(t), method, params, result); err != nil {
						t.Fatalf("%s: %v", method, err)
					}
				}
				stop(t, start(t, r.a, r.id, "begin"))
				for _, name := range c.parent {
					call("session/load", roots(r.id, r.cwd, "/"+name, name), nil)
					stop(t, start(t, r.a, r.id, "begin"))
				}
				start(t, r.a, r.id, "go on") // the title of now is none of the turns that are copied
				synctest.Wait()
				fork := map[string]any{"sessionId": r.id, "cwd": r.cwd}
				if c.own != "" {
					fork = roots(r.id, r.cwd, "/"+c.own, c.own)
				}
				var s acpclient.Session
				call("session/fork", fork, &s)
				check := func(when string) {
					t.Helper()
					if _, err := r.a.Prompt(within(t), s.ID, "quiet"); err != nil {
						t.Fatal(err)
					}
					mu.Lock()
					m := given[session.ID(s.ID)]
					delete(given, session.ID(s.ID))
					mu.Unlock()
					want := "/" + c.want
					if servers := fmt.Sprint(serverNames(t, m.MCPServers)); !slices.Equal(m.Dirs, []string{want}) || servers != "["+c.want+"]" || m.Title != "go on" {
						t.Errorf("%s: the agent is given %q, servers %s and title %q; should be %s, [%s], go on", when, m.Dirs, servers, m.Title, want, c.want)
					}
					var p page
					call("_hermes/sessions/tail", map[string]any{"sessionId": s.ID, "limitBytes": 1 << 20}, &p)
					dirs, servers := []string(nil), ""
					for _, e := range p.Events {
						if e.Kind == session.KindRootsChanged.String() {
							dirs, servers = e.Data.Dirs, fmt.Sprint(serverNames(t, e.Data.MCPServers))
						}
					}
					if !slices.Equal(dirs, []string{want}) || servers != "["+c.want+"]" {
						t.Errorf("%s: the log ends with roots %q and servers %s", when, dirs, servers)
					}
					all, err := r.a.List(within(t), "")
					if err != nil {
						t.Fatal(err)
					}
					for _, i := range all {
						if i.ID == s.ID && (i.Title != "go on" || !slices.Equal(i.Dirs, []string{want})) {
							t.Errorf("%s: it is listed as %+v", when, i)
						}
					}
				}
				check("at once")
				// Reopened: the agent is told what the log says.
				if err := r.a.CloseSession(within(t), s.ID); err != nil {
					t.Fatal(err)
				}
				time.Sleep(time.Hour)
				call("session/resume", map[string]any{"sessionId": s.ID, "cwd": r.cwd, "additionalDirectories": []string{"/" + c.want}}, nil)
				check("read again")
			})
		})
	}
}

func serverNames(t *testing.T, servers json.RawMessage) (names []string) {
	t.Helper()
	var all []struct{ Name string }
	if err := json.Unmarshal(servers, &all); err != nil && len(servers) > 0 {
		t.Errorf("servers %s: %v", servers, err)
	}
	for _, s := range all {
		names = append(names, s.Name)
	}
	return names
}
