package native

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"strings"
	"testing"

	"github.com/hermesd/hermesd/agentpool/native/llm"
	"github.com/hermesd/hermesd/agentpool/native/tool"
	"github.com/hermesd/hermesd/daemon/session"
)

func TestApprovalMatrix(t *testing.T) {
	type row struct {
		need    tool.Need
		granted bool
		want    [4]verdict // default, accept_edits, plan, dont_ask
	}
	for name, r := range map[string]row{
		"read inside":             {tool.Need{}, false, [4]verdict{allow, allow, allow, allow}},
		"read outside":            {tool.Need{Class: tool.Reading, Outside: true}, false, [4]verdict{ask, ask, ask, allow}},
		"read outside, granted":   {tool.Need{Class: tool.Reading, Outside: true}, true, [4]verdict{allow, allow, allow, allow}},
		"read outside, sensitive": {tool.Need{Class: tool.Reading, Outside: true, Sensitive: "x"}, false, [4]verdict{ask, ask, ask, ask}},
		"fetch":                   {tool.Need{Class: tool.Fetching}, false, [4]verdict{ask, ask, ask, allow}},
		"fetch, granted":          {tool.Need{Class: tool.Fetching}, true, [4]verdict{allow, allow, allow, allow}},
		"edit inside":             {tool.Need{Class: tool.Editing}, false, [4]verdict{ask, allow, refuse, allow}},
		"edit inside, granted":    {tool.Need{Class: tool.Editing}, true, [4]verdict{allow, allow, refuse, allow}},
		"edit outside":            {tool.Need{Class: tool.Editing, Outside: true}, false, [4]verdict{ask, ask, refuse, allow}},
		"edit sensitive":          {tool.Need{Class: tool.Editing, Sensitive: "x"}, false, [4]verdict{ask, ask, refuse, ask}},
		"edit sensitive, granted": {tool.Need{Class: tool.Editing, Sensitive: "x"}, true, [4]verdict{ask, ask, refuse, ask}},
		"run":                     {tool.Need{Class: tool.Running}, false, [4]verdict{ask, ask, refuse, allow}},
		"run, granted":            {tool.Need{Class: tool.Running}, true, [4]verdict{allow, allow, refuse, allow}},
		"run sensitive":           {tool.Need{Class: tool.Running, Sensitive: "x"}, true, [4]verdict{ask, ask, refuse, ask}},
		"run forbidden":           {tool.Need{Class: tool.Running, Forbidden: "x"}, true, [4]verdict{refuse, refuse, refuse, refuse}},
		"call":                    {tool.Need{Class: tool.Calling}, false, [4]verdict{ask, ask, refuse, allow}},
		"call, granted":           {tool.Need{Class: tool.Calling}, true, [4]verdict{allow, allow, refuse, allow}},
		"exit_plan":               {tool.Need{Class: tool.Switching}, false, [4]verdict{allow, allow, ask, allow}},
	} {
		for i, m := range []mode{modeDefault, modeAcceptEdits, modePlan, modeDontAsk} {
			if got := judge(m, r.need, r.granted); got != r.want[i] {
				t.Errorf("%s in %s: %d, want %d", name, m, got, r.want[i])
			}
		}
	}
}

func TestModeAndOptionAreOneState(t *testing.T) {
	w := newWorld(t, Config{ApprovalMode: "workspace_session"})
	check := func(s session.Settings, want mode) {
		t.Helper()
		var state modeState
		var options []configOption
		if err := errors.Join(json.Unmarshal(s.Modes, &state), json.Unmarshal(s.Options, &options)); err != nil {
			t.Fatal(err)
		}
		if state.Current != string(want) || options[0].ID != "mode" || options[0].Category != "mode" || options[0].Current != string(want) || len(state.Available) != 4 || w.agent.currentMode() != want {
			t.Errorf("%s %s, want %s", s.Modes, s.Options, want)
		}
		if options[1].Category != "model" || options[1].Current != "offline" || len(options[1].Options) != 1 {
			t.Errorf("%s", s.Options)
		}
	}
	set := func(c session.Change) session.Settings {
		t.Helper()
		s, err := w.agent.Set(context.Background(), c)
		if err != nil {
			t.Fatal(err)
		}
		return s
	}
	w.agent.Close()
	check(w.open(true, session.Settings{}), modeAcceptEdits)
	check(set(session.Change{Mode: "dont_ask"}), modeDontAsk)
	check(set(session.Change{Option: "mode", Value: json.RawMessage(`"default"`)}), modeDefault)
	last := set(session.Change{Option: "model", Value: json.RawMessage(`"offline"`)})
	check(last, modeDefault)
	for _, c := range []session.Change{{Mode: "yolo"}, {Option: "mode", Value: json.RawMessage(`"x"`)}, {Option: "model", Value: json.RawMessage(`"gpt"`)},
		{Option: "speed", Value: json.RawMessage(`"x"`)}, {Option: "mode", Value: json.RawMessage(`true`)}, {Option: "mode"}, {}} {
		_, err := w.agent.Set(context.Background(), c)
		var e *session.Error
		if !errors.As(err, &e) || e.Code != session.CodeParams {
			t.Errorf("%+v: %v", c, err)
		}
	}
	check(set(session.Change{Mode: "default"}), modeDefault)
	w.agent.Close()
	check(w.open(false, last), modeDefault) // what was set wins over the configuration
	w.agent.Close()
	check(w.open(false, session.Settings{Modes: json.RawMessage(`{"currentModeId":"gone"}`)}), modeAcceptEdits)
}

func TestAModeSetWhileTheTurnRunsCountsAtOnce(t *testing.T) {
	w := newWorld(t, Config{})
	w.answer = func(ctx context.Context, q session.Question) (session.Answer, error) {
		if _, err := w.agent.Set(ctx, session.Change{Mode: "dont_ask"}); err != nil {
			t.Error(err)
		}
		return choose(allowOnce)(ctx, q)
	}
	w.prompt("run echo a\nrun echo b\nwrite a\n.")
	if len(w.asked) != 1 {
		t.Errorf("asked %d times", len(w.asked))
	}
}

func TestConfigurationIsChecked(t *testing.T) {
	for part, c := range map[string]Config{
		"approval_mode": {ApprovalMode: "yolo"}, "provider": {Provider: "acme"}, "model": {Model: "gpt"},
	} {
		if err := c.Validate(); err == nil || !strings.Contains(err.Error(), part) {
			t.Errorf("%+v: %v", c, err)
		}
		if _, _, err := Open(context.Background(), session.Spec{Fresh: true}, newHost(t), c); err == nil {
			t.Errorf("%+v opens", c)
		}
	}
	for _, c := range []Config{{}, {Provider: "auto"}, {Provider: "offline", Model: "offline"}, {ApprovalMode: "session"}} {
		if err := c.Validate(); err != nil {
			t.Error(err)
		}
	}
}

func TestPromptBlocksAreReadOrRefused(t *testing.T) {
	png := base64.StdEncoding.EncodeToString([]byte("\x89PNG"))
	for block, want := range map[string]string{
		`{"type":"text","text":"a"}`:                                                                           `[{"text":"a"}]`,
		`{"type":"resource_link","name":"f","uri":"file:///f#L2"}`:                                             `[{"attachment":{"kind":"link","name":"f","uri":"file:///f#L2"}}]`,
		`{"type":"resource","resource":{"uri":"file:///u.go","mimeType":"text/x-go","text":"package u"}}`:      `[{"attachment":{"kind":"resource","uri":"file:///u.go","mimeType":"text/x-go","text":"package u"}}]`,
		`{"type":"resource","resource":{"uri":"file:///e","text":""}}`:                                         `[{"attachment":{"kind":"resource","uri":"file:///e"}}]`,
		`{"type":"resource","resource":{"uri":"mem://b","blob":"AAEC","mimeType":"application/octet-stream"}}`: `[{"attachment":{"kind":"resource","uri":"mem://b","mimeType":"application/octet-stream","data":"AAEC"}}]`,
		`{"type":"image","mimeType":"image/PNG","data":"` + png + `","_meta":{"x":1}}`:                         `[{"attachment":{"kind":"image","mimeType":"image/PNG","data":"` + png + `"}}]`,
		`{"type":"text","text":""}`:                                                                            "the prompt is empty",
		`{"type":"text","text":" \n"}`:                                                                         "the prompt is empty",
		`{"type":"hologram","x":1}`:                                                                            `"hologram"`,
		`{"type":"audio","mimeType":"audio/wav","data":"AAAA"}`:                                                `"audio"`,
		`{"type":"image","mimeType":"image/avif","data":"AAAA"}`:                                               `"image/avif"`,
		`{"type":"image","mimeType":"image/png","data":"%%%"}`:                                                 "no base64",
		`{"type":"image","mimeType":"image/png","data":""}`:                                                    "no data",
		`{"type":"resource","resource":{"uri":"x","blob":"?"}}`:                                                "no base64",
		`{"type":"resource","resource":{"uri":"x"}}`:                                                           "neither text nor blob",
		`{"type":"resource"}`:                                                                                  "neither text nor blob",
		`{"type":"resource_link","name":"x"}`:                                                                  "no uri",
		`{}`:                                                                                                   "no type",
		`{"type":"text","text":1}`:                                                                             "no content block",
		`[]`:                                                                                                   "no content block",
	} {
		msg, err := readPrompt([]json.RawMessage{json.RawMessage(block)})
		if strings.HasPrefix(want, "[") {
			if got := string(encode(msg.Parts)); err != nil || got != want {
				t.Errorf("%s: %s, %v", block, got, err)
			}
			continue
		}
		var e *session.Error
		if !errors.As(err, &e) || e.Code != session.CodeParams || !strings.Contains(e.Message, want) {
			t.Errorf("%s: %v, want %q", block, err, want)
		}
	}
	if _, err := readPrompt(nil); err == nil {
		t.Error("a prompt of nothing is taken")
	}
}

func TestARefusedPromptIsNotRemembered(t *testing.T) {
	w := newWorld(t, Config{})
	w.prompt("say a")
	n := len(w.agent.history.messages)
	for _, block := range []string{`{"type":"text","text":""}`, `{"type":"image","mimeType":"image/avif","data":"AAAA"}`} {
		if _, err := w.run(context.Background(), block); err == nil {
			t.Error("taken: ", block)
		}
	}
	if len(w.agent.history.messages) != n {
		t.Error("it is remembered")
	}
	if _, err := w.run(context.Background(), textBlock(""), `{"type":"image","mimeType":"image/png","data":"iVBORw0KGgo="}`); err != nil || !strings.Contains(w.said(), "picture of 8 bytes") {
		t.Error(err, w.said())
	}
	w.prompt("say alive")
	live := w.agent.history.messages
	w.agent.Close()
	w.open(false, session.Settings{})
	if shape(live) != shape(w.agent.history.messages) {
		t.Errorf("%s\nwas %s", shape(w.agent.history.messages), shape(live))
	}
}

func TestTitleIsOneShortLine(t *testing.T) {
	for text, want := range map[string]string{
		"  a  b \nc": "a b", strings.Repeat("é", 100): strings.Repeat("é", 79) + "…", strings.Repeat("x", 80): strings.Repeat("x", 80), "\n\n x": "x",
	} {
		if got := title(llm.Message{Parts: []llm.Part{{Text: text}}}); got != want {
			t.Errorf("%q: %q", text, got)
		}
	}
	if got := title(llm.Message{Parts: []llm.Part{{Attachment: &llm.Attachment{Kind: "link", Name: "f.go", URI: "file:///f.go"}}}}); got != "f.go" {
		t.Error(got)
	}
}

func TestACrashInTheMiddleOfACallLeavesAHistoryThatIsValid(t *testing.T) {
	w := newWorld(t, Config{})
	w.answer = choose(allowOnce)
	w.prompt("run echo a")
	w.prompt("say b")
	whole := w.log
	w.agent.Close()
	for n := range whole {
		w.log = whole[:n+1]
		past := memory{session: "s", grants: map[grant]bool{}, prompts: map[session.Seq]json.RawMessage{}}
		for _, r := range w.log {
			if err := past.replay(r); err != nil {
				t.Fatal(err)
			}
		}
		past.history.settle()
		checkHistory(t, past.history.messages)
	}
	// The call was recorded and its result was not.
	for n, r := range whole {
		if r.Kind == session.KindAgentRecord && strings.Contains(string(r.Data), `"call"`) {
			w.log = append([]session.Record(nil), whole[:n+1]...)
			break
		}
	}
	w.open(false, session.Settings{})
	w.prompt("say go on")
	m := w.agent.history.messages
	if r := m[2].Parts[0].Result; r == nil || !r.Failed || !strings.Contains(r.Text, "unknown") {
		t.Errorf("%s", shape(m))
	}
	// The log has the call without a result for good: it reads the same again.
	w.agent.Close()
	w.open(false, session.Settings{})
	if shape(m) != shape(w.agent.history.messages) {
		t.Errorf("%s\nwas %s", shape(w.agent.history.messages), shape(m))
	}
}

func TestStrangeRecordsArePassedOver(t *testing.T) {
	past := memory{grants: map[grant]bool{}, prompts: map[session.Seq]json.RawMessage{}}
	for k := session.Kind(0); k < 20; k++ {
		for _, data := range []string{"", "null", "[]", `{"message":1}`, `{"prompt":{}}`, `{"message":{"role":"assistant","parts":[]}}`} {
			if err := past.replay(session.Record{First: 1, Last: 1, Kind: k, Data: []byte(data)}); err != nil {
				t.Error(err)
			}
		}
	}
	if len(past.history.messages) != 0 {
		t.Error(shape(past.history.messages))
	}
}

func TestHugeTextsAreCutWhereTheyAreKept(t *testing.T) {
	var h history
	h.add(llm.Message{Role: llm.RoleAssistant, Parts: []llm.Part{{Text: strings.Repeat("é", maxKept)}, {Text: " "}, {}}})
	if got := h.messages[0].Parts; len(got) != 1 || len(got[0].Text) > maxKept || !strings.HasSuffix(got[0].Text, keptNote) || strings.Contains(got[0].Text, "\uFFFD") {
		t.Error(len(got))
	}
	h.add(llm.Message{Role: llm.RoleAssistant, Parts: []llm.Part{{Text: " \n"}}})
	if len(h.messages) != 1 {
		t.Error("an empty message is kept")
	}
}
