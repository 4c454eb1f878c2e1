package daemon_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"
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

// A prompt may be larger than what may wait for an editor: who reads it, be it
// slowly, is not taken for one who does not.
func TestALargePromptCutsNobodyOffWhoReads(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const scale = 16 // smaller than it is by default, for speed
		r := newRoom(t, &daemontest.Script{}, func(c *daemon.Config) {
			c.Limits.SoftQueue /= scale
			c.Limits.HardQueue /= scale
			c.Limits.MaxFrame /= scale
		})
		hold := make(chan struct{})
		b := r.Editor(acpclient.Options{Received: func(e acpclient.Entry) {
			if e.Kind == acpclient.Update {
				<-hold // at the first update: the others have to wait
			}
		}})
		if _, err := b.Load(within(t), r.id, r.cwd); err != nil {
			t.Fatal(err)
		}
		// A queue that is empty would take one block of any size, so there is
		// something in it before the first large one.
		const small, large = 1 << 19 / scale, 17 << 20 / scale
		blocks, size := []any{}, 0
		for _, n := range []int{small, small / 2, large, large, large} {
			blocks = append(blocks, map[string]any{"type": "text", "text": strings.Repeat("x", n)})
			size += n
		}
		call, err := r.a.Start("session/prompt", map[string]any{"sessionId": r.id, "prompt": blocks})
		if err != nil {
			t.Fatal(err)
		}
		if got := stop(t, call); got != "end_turn" {
			t.Errorf("the prompt was answered %s", got)
		}
		synctest.Wait() // what is to wait for b does
		close(hold)
		awaitIdle(t, b, 1)
		roundTrip(t, b)
		if n := len(b.Story(r.id).Says(acp.UserMessageChunk)); n != size {
			t.Errorf("the observer was told %d bytes of the prompt, which has %d", n, size)
		}
	})
}

// A plain client has its time to say something, and half a line is nothing.
func TestAPlainClientThatNeverFinishesItsFirstLineIsCutOff(t *testing.T) {
	for said, cut := range map[string]bool{"": true, `{"j`: true, "\n": false, `{"jsonrpc":"2.0","method":"x"}` + "\n" + `{"j`: false} {
		t.Run(fmt.Sprintf("%q", said), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				h := daemontest.NewHouse(t, store.NewMemory(), &daemontest.Script{}, nil)
				c := h.Pipe()
				defer c.Close()
				if _, err := io.WriteString(c, said); err != nil {
					t.Fatal(err)
				}
				lives := func() bool { // a space changes nothing in what it has said
					synctest.Wait()
					_, err := io.WriteString(c, " ")
					return err == nil
				}
				limit := daemon.DefaultLimits().FirstFrame
				time.Sleep(limit - time.Second)
				if !lives() {
					t.Error("it is cut off before its time")
				}
				time.Sleep(2 * time.Second)
				if lives() == cut {
					t.Errorf("it is cut off: %v, should be: %v", !cut, cut)
				}
			})
		})
	}
}

// Who never reads is not waited for when the daemon stops, however much time
// there is.
func TestAnEditorThatNeverReadsDoesNotHoldTheDrain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		agent := &daemontest.Script{Turn: func(ctx context.Context, st *daemontest.Stage) (session.TurnResult, error) {
			return session.TurnResult{}, errors.Join(st.Say(ctx, "%01000d", 1), st.Update(ctx, acp.InfoUpdate("a title", time.Time{}, nil)), st.Say(ctx, "2"))
		}}
		r := newRoom(t, agent, func(c *daemon.Config) { c.Limits.SoftQueue = 100 })
		stop(t, start(t, r.a, r.id, "x"))
		leave := daemon.DefaultLimits().Leave
		c := r.Pipe()
		defer c.Close()
		params, err := json.Marshal(map[string]any{"sessionId": r.id, "cwd": r.cwd, "mcpServers": []any{}})
		if err != nil {
			t.Fatal(err)
		}
		for _, line := range []string{
			`{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":1}}`,
			`{"jsonrpc":"2.0","id":2,"method":"session/load","params":` + string(params) + `}`,
		} {
			if _, err := io.WriteString(c, line+"\n"); err != nil {
				t.Fatal(err)
			}
		}
		synctest.Wait() // its answers wait, and the replay for room behind them
		ctx, cancel := context.WithTimeout(t.Context(), time.Hour)
		defer cancel()
		began := time.Now()
		if err := r.Daemon.Drain(ctx); err != nil {
			t.Errorf("drain: %v", err)
		}
		if took := time.Since(began); took > 4*leave {
			t.Errorf("one that does not read held the stop for %s", took)
		}
		if _, err := c.Read(make([]byte, 1)); err == nil {
			t.Error("the connection is still there")
		}
	})
}
