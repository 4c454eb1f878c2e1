package acp

import "testing"

func TestWhatIsToldInsteadOfACompaction(t *testing.T) {
	update := func(status string) []byte {
		return []byte(`{"sessionUpdate":"compaction_update","compactionId":"c1","status":"` + status + `"}`)
	}
	got, ok := Project(update("completed"), ClientCaps{})
	if id, _ := GetString(got, "messageId"); !ok || UpdateKind(got) != AgentMessageChunk || id != "c1_note" {
		t.Errorf("%s %v", got, ok)
	}
	for _, status := range []string{"in_progress", "failed", "cancelled", "other"} {
		if got, ok := Project(update(status), ClientCaps{}); ok {
			t.Errorf("%s: %s", status, got)
		}
	}
	if got, _ := Project(update("completed"), ClientCaps{Compaction: true}); string(got) != string(update("completed")) {
		t.Errorf("who takes it gets %s", got)
	}
}

func TestGatedKindsReachOnlyThoseWhoSaidSo(t *testing.T) {
	all := []string{
		UserMessageChunk, AgentMessageChunk, AgentThoughtChunk, ToolCall, ToolCallUpdate, Plan, PlanUpdate, PlanRemoved, AvailableCommands,
		CurrentMode, ConfigOption, SessionInfo, Usage, Notice, CompactionUpdate, CompactionSummaryChunk, SubagentUpdate, SessionMessage,
		SessionMessageChunk, "galaxy_update", "",
	}
	gated := map[string]ClientCaps{
		Notice: {Notices: true}, CompactionUpdate: {Compaction: true}, CompactionSummaryChunk: {Compaction: true}, PlanUpdate: {Plan: true},
		PlanRemoved: {Plan: true}, SubagentUpdate: {Subagents: true}, SessionMessage: {Subagents: true}, SessionMessageChunk: {Subagents: true},
	}
	for _, kind := range all {
		caps, isGated := gated[kind]
		if Filter(kind, ClientCaps{}) == isGated {
			t.Errorf("%s without capabilities: %v", kind, !isGated)
		}
		if !Filter(kind, caps) {
			t.Errorf("%s is kept from those with %+v", kind, caps)
		}
		if (Gate(kind) != "") != isGated {
			t.Errorf("%s has the gate %q", kind, Gate(kind))
		}
	}
}

func TestBooleanOptionsAreHiddenFromThoseWhoCannotShowThem(t *testing.T) {
	const sel, boolean = `{"id":"m","type":"select", "x":1.0}`, `{"id":"b","type":"boolean","currentValue":true}`
	options := []byte(`[ ` + sel + ` ,` + boolean + `]`)
	if got := string(FilterOptions(options, ClientCaps{})); got != `[`+sel+`]` {
		t.Errorf("got %s", got)
	}
	if got := string(FilterOptions(options, ClientCaps{ConfigBoolean: true})); got != string(options) {
		t.Errorf("got %s", got)
	}
	for _, same := range []string{``, `null`, `[]`, `{}`, `[ ` + sel + ` ]`} {
		if got := string(FilterOptions([]byte(same), ClientCaps{})); got != same {
			t.Errorf("got %s, want %s", got, same)
		}
	}
	update := `{"sessionUpdate":"config_option_update","configOptions":` + string(options) + `,"_meta":{"a":1}}`
	got, ok := Project([]byte(update), ClientCaps{})
	if want := `{"sessionUpdate":"config_option_update","configOptions":[` + sel + `],"_meta":{"a":1}}`; !ok || string(got) != want {
		t.Errorf("got %s", got)
	}
	if got, ok := Project([]byte(update), ClientCaps{ConfigBoolean: true}); !ok || string(got) != update {
		t.Errorf("got %s", got)
	}
}

func TestProjectPassesTheUnknownUnchanged(t *testing.T) {
	update := `{ "sessionUpdate":"galaxy_update","level":3 }`
	if got, ok := Project([]byte(update), ClientCaps{}); !ok || string(got) != update {
		t.Errorf("got %s", got)
	}
	if _, ok := Project([]byte(`{"sessionUpdate":"notice"}`), ClientCaps{}); ok {
		t.Error("a notice reached an editor without notices")
	}
}
