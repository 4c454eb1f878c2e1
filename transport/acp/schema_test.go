package acp

import (
	"bytes"
	"encoding/json"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/santhosh-tekuri/jsonschema/v6"
)

// schema validates against definitions of the protocol's official JSON schema.
type schema struct {
	compiler *jsonschema.Compiler
	defs     map[string]*jsonschema.Schema
}

// officialSchema skips the test when the schema is not there; it is not ours
// to keep a copy of.
func officialSchema(t *testing.T) *schema {
	t.Helper()
	dir, set := os.LookupEnv("ACP_SCHEMA_DIR") // scripts/test sets it
	if !set {
		dir = filepath.Join("..", "..", "scripts", "interop", "node_modules", "@agentclientprotocol", "sdk", "schema")
	}
	raw, err := os.ReadFile(filepath.Join(dir, "v1", "schema.json"))
	if !set && errors.Is(err, fs.ErrNotExist) {
		t.Skip("the official schema is not here: run `npm ci` in scripts/interop, or set ACP_SCHEMA_DIR")
	}
	if err != nil {
		t.Fatal(err)
	}
	doc, err := jsonschema.UnmarshalJSON(bytes.NewReader(raw))
	if err != nil {
		t.Fatal(err)
	}
	c := jsonschema.NewCompiler()
	if err := c.AddResource("acp.json", doc); err != nil {
		t.Fatal(err)
	}
	return &schema{compiler: c, defs: make(map[string]*jsonschema.Schema)}
}

func (s *schema) check(t *testing.T, def string, value []byte) {
	t.Helper()
	d := s.defs[def]
	if d == nil {
		var err error
		if d, err = s.compiler.Compile("acp.json#/$defs/" + def); err != nil {
			t.Fatal(err)
		}
		s.defs[def] = d
	}
	v, err := jsonschema.UnmarshalJSON(bytes.NewReader(value))
	if err != nil {
		t.Fatalf("%v: %s", err, value)
	}
	if err := d.Validate(v); err != nil {
		t.Errorf("%s: %v\n%s", def, err, value)
	}
}

// said is everything this package writes, by the definition it must meet.
func said() []struct {
	name, def string
	value     json.RawMessage
} {
	now := time.Date(2026, 11, 30, 12, 0, 0, 5e6, time.FixedZone("x", 3600))
	modes := json.RawMessage(`{"currentModeId":"ask","availableModes":[{"id":"ask","name":"Ask"}]}`)
	options := json.RawMessage(`[{"id":"m","name":"Model","type":"select","currentValue":"a","options":[{"value":"a","name":"A"}]},{"id":"b","name":"Bool","type":"boolean","currentValue":true}]`)
	call := json.RawMessage(`{"sessionUpdate":"tool_call","toolCallId":"t","title":"T","kind":"read","status":"pending"}`)
	ask := json.RawMessage(`[{"optionId":"o","name":"Once","kind":"allow_once"}]`)
	hermes := HermesMeta(json.RawMessage(`{"x":1}`))
	info := Implementation{Name: "hermesd", Title: "Hermes", Version: "1"}
	all := AgentCaps{Load: true, Image: true, EmbeddedContext: true, MCPHTTP: true, List: true, Resume: true, Close: true, Delete: true, Fork: true, AdditionalDirs: true, Logout: true, Meta: hermes}
	login := []AuthMethod{{ID: "agent", Name: "Agent", Description: "d"}, {ID: "term", Name: "Terminal", Terminal: true, Args: []string{"--login"}, Env: []Pair{{"A", "b"}}}}
	return []struct {
		name, def string
		value     json.RawMessage
	}{
		{"initialize with all", "InitializeResponse", InitializeResult(1, info, all, login, ClientCaps{AuthTerminal: true}, hermes)},
		{"initialize with nothing", "InitializeResponse", InitializeResult(1, Implementation{Name: "a", Version: "b"}, AgentCaps{}, nil, ClientCaps{}, nil)},
		{"new", "NewSessionResponse", SessionResult("s", modes, options, hermes)},
		{"new without settings", "NewSessionResponse", SessionResult("s", nil, nil, nil)},
		{"load", "LoadSessionResponse", SessionResult("", modes, options, hermes)},
		{"load without settings", "LoadSessionResponse", SessionResult("", nil, nil, nil)},
		{"resume", "ResumeSessionResponse", SessionResult("", modes, options, nil)},
		{"list", "ListSessionsResponse", ListResult([]SessionEntry{{ID: "s", Cwd: "/w", Dirs: []string{"/a"}, Title: "T", Updated: now, Meta: hermes}, {ID: "t", Cwd: "/w"}}, "c")},
		{"empty list", "ListSessionsResponse", ListResult(nil, "")},
		{"prompt", "PromptResponse", PromptResult("end_turn", nil, hermes)},
		{"options", "SetSessionConfigOptionResponse", ConfigOptionsResult(options)},
		{"no options", "SetSessionConfigOptionResponse", ConfigOptionsResult(nil)},
		{"set mode", "SetSessionModeResponse", EmptyResult()},
		{"close", "CloseSessionResponse", EmptyResult()},
		{"delete", "DeleteSessionResponse", EmptyResult()},
		{"permission", "RequestPermissionRequest", PermissionParams("s", call, ask, hermes)},
		{"user chunk", "SessionUpdate", UserChunk("user_1", json.RawMessage(`{"type":"resource_link","name":"n","uri":"u"}`), json.RawMessage(`{"hermes":{"origin":{"client":"c"}}}`))},
		{"agent text", "SessionUpdate", AgentText("m", "hello \"you\"", hermes)},
		{"mode", "SessionUpdate", ModeUpdate("plan")},
		{"options update", "SessionUpdate", OptionsUpdate(options)},
		{"no options update", "SessionUpdate", OptionsUpdate(nil)},
		{"info", "SessionUpdate", InfoUpdate("T", now, hermes)},
		{"info of nothing", "SessionUpdate", InfoUpdate("", time.Time{}, nil)},
		{"failed call", "SessionUpdate", ToolCallFailed("t", "why", hermes)},
		{"failed call without text", "SessionUpdate", ToolCallFailed("t", "", nil)},
		{"merged call", "SessionUpdate", MergeToolCall(call, ToolCallFailed("t", "why", hermes))},
		{"frame", "SessionNotification", frameParams(UpdateFrame("s", ModeUpdate("plan")))},
	}
}

func frameParams(line []byte) json.RawMessage {
	params, _ := Get(line, "params")
	return params
}

func TestWhatWeSayMeetsTheOfficialSchema(t *testing.T) {
	s := officialSchema(t)
	for _, tc := range said() {
		t.Run(tc.name, func(t *testing.T) { s.check(t, tc.def, tc.value) })
	}
}

func TestParamsWeTakeAreThoseOfTheSchema(t *testing.T) {
	s := officialSchema(t)
	in := json.RawMessage(`{"cwd":"/w","mcpServers":[{"name":"m","command":"npx"},{"type":"http","name":"h","url":"https://x","headers":null}]}`)
	p, err := parseNewSession(in, "linux")
	if err != nil {
		t.Fatal(err)
	}
	// What was left out has been added, so that an agent that is strict takes it.
	s.check(t, "NewSessionRequest", Set(in, "mcpServers", p.MCPServers))
}

func TestWhatWeSayIsJSONOnOneLine(t *testing.T) {
	for _, tc := range said() {
		if !json.Valid(tc.value) || bytes.ContainsAny(tc.value, "\n\r") {
			t.Errorf("%s: %s", tc.name, tc.value)
		}
	}
}

func TestTerminalLoginIsOfferedOnlyToThoseWhoCanRunIt(t *testing.T) {
	methods := []AuthMethod{{ID: "a", Name: "A"}, {ID: "t", Name: "T", Terminal: true}}
	for caps, want := range map[ClientCaps]int{{}: 1, {AuthTerminal: true}: 2} {
		r := InitializeResult(1, Implementation{}, AgentCaps{}, methods, caps, nil)
		offered, _ := Get(r, "authMethods")
		if all, _ := Elements(offered); len(all) != want {
			t.Errorf("%+v: %s", caps, offered)
		}
	}
}

func TestAbsentCapabilitiesAreNotMentioned(t *testing.T) {
	caps, _ := GetPath(InitializeResult(1, Implementation{}, AgentCaps{List: true}, nil, ClientCaps{}, nil), "agentCapabilities", "sessionCapabilities")
	if string(caps) != `{"list":{}}` {
		t.Errorf("got %s", caps)
	}
}

func TestTimesAreRFC3339(t *testing.T) {
	at := time.Date(2026, 1, 2, 3, 4, 5, 0, time.FixedZone("x", -3600))
	if got := Time(at); got != "2026-01-02T04:04:05.000Z" {
		t.Errorf("got %s", got)
	}
	if back, err := time.Parse(time.RFC3339, Time(at)); err != nil || !back.Equal(at) {
		t.Errorf("got %v, %v", back, err)
	}
}

func TestPermissionParamsHoldAToolCallUpdate(t *testing.T) {
	p := PermissionParams("s", json.RawMessage(`{"sessionUpdate":"tool_call","toolCallId":"t","x":1.0}`), json.RawMessage(`[]`), nil)
	if call, _ := Get(p, "toolCall"); string(call) != `{"toolCallId":"t","x":1.0}` {
		t.Errorf("got %s", call)
	}
}
