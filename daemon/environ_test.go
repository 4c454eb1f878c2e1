package daemon_test

import (
	"context"
	"strings"
	"testing"

	"github.com/hermesd/hermesd/daemon/daemontest"
	"github.com/hermesd/hermesd/daemon/session"
	"github.com/hermesd/hermesd/store"
	"github.com/hermesd/hermesd/transport/acpclient"
	"github.com/hermesd/hermesd/transport/link"
	"github.com/hermesd/hermesd/transport/tokens"
)

// tellEnviron says in which environment a turn and its agent are.
func tellEnviron(ctx context.Context, st *daemontest.Stage) (session.TurnResult, error) {
	return session.TurnResult{StopReason: "end_turn"}, st.Say(ctx, "turn[%s] agent[%s]", strings.Join(st.Environ, " "), strings.Join(st.Spec.Environ, " "))
}

func TestAnAgentIsInTheEnvironmentOfTheEditorThatNeedsIt(t *testing.T) {
	h := daemontest.NewHouse(t, store.NewMemory(), &daemontest.Script{Turn: tellEnviron}, nil)
	a := h.EditorWithHello(link.Hello{Link: 1, ID: link.NewID(), Env: map[string]string{"WHO": "a", "PATH": "/a"}}, acpclient.Options{})
	b := h.EditorWithHello(link.Hello{Link: 1, ID: link.NewID(), Env: map[string]string{"WHO": "b"}}, acpclient.Options{})
	plain := h.Editor(acpclient.Options{})
	cwd := t.TempDir()
	s, err := a.NewSession(within(t), cwd)
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		e    *acpclient.Client
		want string
	}{{a, "turn[PATH=/a WHO=a] agent[PATH=/a WHO=a]"}, {b, "turn[WHO=b] agent[PATH=/a WHO=a]"}, {plain, "turn[] agent[PATH=/a WHO=a]"}} {
		if c.e != a {
			if _, err := c.e.Load(within(t), s.ID, cwd); err != nil {
				t.Fatal(err)
			}
		}
		if _, err := c.e.Prompt(within(t), s.ID, "who"); err != nil {
			t.Fatal(err)
		}
		if text := c.e.Story(s.ID).Says("agent_message_chunk"); !strings.HasSuffix(text, c.want) {
			t.Errorf("got %s, want %s", text, c.want)
		}
	}
}

func TestTheEnvironmentOfAnotherMachineIsNoneOfThisOne(t *testing.T) {
	w := newWeb(t, &daemontest.Script{Turn: tellEnviron}, nil)
	far := w.load(w.far(link.Hello{Token: w.token("laptop", tokens.Control), Env: map[string]string{"WHO": "far"}}, acpclient.Options{}))
	if _, err := far.Prompt(within(t), w.id, "who"); err != nil {
		t.Fatal(err)
	}
	if text := far.Story(w.id).Says("agent_message_chunk"); strings.Contains(text, "WHO=far") || !strings.Contains(text, "turn[]") {
		t.Errorf("got %s", text)
	}
}
