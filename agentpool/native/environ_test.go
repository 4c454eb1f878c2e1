package native

import (
	"context"
	"strings"
	"testing"

	"github.com/hermesd/hermesd/daemon/session"
)

func TestInWhichEnvironmentCommandsRun(t *testing.T) {
	t.Setenv("ENVIRON_TEST", "daemon")
	login := func(context.Context) []string {
		return []string{"ENVIRON_TEST=login", "OPENAI_API_KEY=" + fakeKey, "HERMESD_HOME=/h"}
	}
	for name, c := range map[string]struct {
		sent  []string
		login func(context.Context) []string
		want  string
	}{
		"the editor's":           {[]string{"ENVIRON_TEST=editor", "ANTHROPIC_API_KEY=" + fakeKey}, login, "editor"},
		"the login shell's":      {nil, login, "login"},
		"the daemon's":           {nil, nil, "daemon"},
		"an editor with nothing": {[]string{"OPENAI_API_KEY=" + fakeKey}, login, ""},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, Config{Environ: c.login})
			w.turnIn(c.sent)
			got := w.agent.env.Environ
			if got == nil { // as a command has it
				got = w.agent.env.FindEnviron()
			}
			value := ""
			for _, kv := range got {
				if strings.Contains(kv, fakeKey) || strings.HasPrefix(kv, "HERMESD_") {
					t.Errorf("a command gets %s", kv)
				}
				if v, ok := strings.CutPrefix(kv, "ENVIRON_TEST="); ok {
					value = v
				}
			}
			if value != c.want {
				t.Errorf("got %q, want %q", value, c.want)
			}
		})
	}
}

// turnIn runs a turn for a connection with this environment.
func (w *world) turnIn(environ []string) {
	w.t.Helper()
	in := w.admit(textBlock("say hello"))
	in.Environ = environ
	r, err := w.agent.Prompt(context.Background(), in)
	if err != nil || r.StopReason != "end_turn" {
		w.t.Fatalf("%+v, %v", r, err)
	}
	w.append(session.KindTurnEnded, encode(session.TurnEnded{Prompt: in.Seq, StopReason: r.StopReason}))
}
