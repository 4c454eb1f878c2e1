package daemon_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/rs/zerolog"

	"github.com/hermesd/hermesd/daemon"
	"github.com/hermesd/hermesd/daemon/daemontest"
	"github.com/hermesd/hermesd/daemon/session"
	"github.com/hermesd/hermesd/transport/acp"
	"github.com/hermesd/hermesd/transport/acpclient"
)

// A connection that could not be given a session's history has not got the
// session: no question waits for it, and it keeps nothing in memory.
func TestWhoCannotBeToldTheHistoryIsNotAttached(t *testing.T) {
	for _, c := range []struct {
		name string
		// lose attaches b and has it lose the session to a disk that fails.
		lose func(t *testing.T, r *room, fail func(error))
	}{
		{"at its load", func(t *testing.T, r *room, fail func(error)) {
			stop(t, start(t, r.a, r.id, "say something"))
			time.Sleep(time.Minute) // what was published is not in memory any more
			b := r.Editor(acpclient.Options{})
			fail(errors.New("the disk is broken"))
			if _, err := b.Load(within(t), r.id, r.cwd); err == nil {
				t.Error("a load without a history succeeded")
			}
			fail(nil)
		}},
		{"while it is behind", func(t *testing.T, r *room, fail func(error)) {
			hold := make(chan struct{})
			b := r.Editor(acpclient.Options{Received: func(e acpclient.Entry) {
				if e.Update == acp.AgentMessageChunk {
					<-hold
				}
			}})
			if _, err := b.Load(within(t), r.id, r.cwd); err != nil {
				t.Fatal(err)
			}
			stop(t, start(t, r.a, r.id, "say "+strings.Repeat("x", 100_000)))
			time.Sleep(time.Minute)
			fail(errors.New("the disk is broken"))
			close(hold)
			synctest.Wait()
			fail(nil)
			if _, err := b.Prompt(within(t), r.id, "x"); code(t, err) != -32002 {
				t.Errorf("a prompt of who lost the session: %v", err)
			}
		}},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var o outcomes
				asks := o.agent()
				agent := &daemontest.Script{Turn: func(ctx context.Context, st *daemontest.Stage) (session.TurnResult, error) {
					text, says := strings.CutPrefix(st.Text(), "say ")
					if !says {
						return asks.Turn(ctx, st)
					}
					for range 3 {
						if err := st.Say(ctx, "%s", text); err != nil {
							return session.TurnResult{}, err
						}
						time.Sleep(time.Second) // each is published alone
					}
					return session.TurnResult{StopReason: "end_turn"}, nil
				}}
				sh := newShelf()
				r := newRoomOn(t, sh, agent, func(c *daemon.Config) {
					c.Limits.SoftQueue = 1000
					c.Session.IdleAfter = 5 * time.Minute
					c.Log = zerolog.Nop() // it warns, and should
				})
				c.lose(t, r, func(err error) {
					if sh.broken.Store(&err); err == nil {
						sh.broken.Store(nil)
					}
				})
				p := start(t, r.a, r.id, "ask")
				synctest.Wait()
				if err := r.a.Answer(awaitQuestion(t, r.a).ID, ""); err != nil {
					t.Fatal(err)
				}
				stop(t, p)
				o.are(t, session.Dismissed)
				if err := r.a.CloseSession(within(t), r.id); err != nil {
					t.Fatal(err)
				}
				time.Sleep(time.Hour)
				if _, open := agent.Opened(); open != 0 {
					t.Error("the session stays in memory for nobody")
				}
			})
		})
	}
}
