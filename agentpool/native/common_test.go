package native

import (
	"fmt"
	"testing"

	"github.com/hermesd/hermesd/agentpool/native/llm"
	"github.com/hermesd/hermesd/daemon/session"
)

func specs(n int) []llm.ToolSpec {
	return []llm.ToolSpec{{Name: fmt.Sprint("t", n), Description: "d", Schema: []byte(`{}`)}}
}

func TestSessionsShareWhatTheyBeginWith(t *testing.T) {
	var c Common
	a, b, other := &prefix{System: "s", Tools: specs(1)}, &prefix{System: "s", Tools: specs(1)}, &prefix{System: "s", Tools: specs(2)}
	for _, p := range []*prefix{a, b, other} {
		c.share(p)
	}
	if &a.Tools[0] != &b.Tools[0] {
		t.Error("two of the same tools")
	}
	if &other.Tools[0] == &a.Tools[0] || other.Tools[0].Name != "t2" {
		t.Error("other tools are taken for the same")
	}
	for n := range 3 * maxCommon {
		p := &prefix{System: fmt.Sprint(n), Tools: specs(n + 10)}
		c.share(p)
		if p.System != fmt.Sprint(n) || p.Tools[0].Name != fmt.Sprint("t", n+10) {
			t.Fatalf("prefix %d became another", n)
		}
		c.share(&prefix{System: "s", Tools: specs(1)}) // what is in use is not forgotten
	}
	if len(c.systems) > maxCommon || len(c.tools) > maxCommon {
		t.Errorf("%d and %d are remembered", len(c.systems), len(c.tools))
	}
	again := &prefix{System: "s", Tools: specs(1)}
	if c.share(again); &again.Tools[0] != &a.Tools[0] {
		t.Error("what is in use was forgotten")
	}
	(*Common)(nil).share(again) // without one nothing is shared
}

// What is packed is what comes out again, whoever packed before.
func TestAPackedPrefixIsTheSame(t *testing.T) {
	c := new(Common)
	for _, c := range []*Common{nil, c, c, c} {
		for _, p := range []*prefix{
			{System: "s", Tools: specs(1)}, {System: "other", Tools: specs(1)}, {System: "s", Tools: specs(2)},
			{System: "s", Tools: specs(2), MCP: map[string]toldTool{"x": {Server: "a", Tool: "b"}}}, {System: "none"},
		} {
			c.share(p)
			got, err := unpack(c.pack(p))
			if err != nil || string(encode(got)) != string(encode(p)) {
				t.Errorf("%s became %s, %v", encode(p), encode(got), err)
			}
		}
	}
	for _, bad := range [][]byte{nil, {1, 2, 3}, []byte("text")} {
		if _, err := unpack(bad); err == nil {
			t.Errorf("%q is a prefix", bad)
		}
	}
}

// A session that is opened again shares too.
func TestAnOpenedSessionShares(t *testing.T) {
	w := newWorld(t, Config{Common: new(Common)})
	w.prompt("say x")
	first := &w.agent.prefix.Tools[0]
	w.agent.Close()
	w.open(false, session.Settings{})
	if &w.agent.prefix.Tools[0] != first {
		t.Error("it has tools of its own")
	}
}
