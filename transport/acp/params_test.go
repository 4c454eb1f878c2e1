package acp

import (
	"encoding/json"
	"errors"
	"strings"
	"testing"
)

// refused checks that err is a ParamError of path.
func refused(t *testing.T, err error, path string) {
	t.Helper()
	var p *ParamError
	if !errors.As(err, &p) {
		t.Fatalf("got %v, want an error about %q", err, path)
	}
	if p.Path != path {
		t.Errorf("the error is about %q, want %q: %v", p.Path, path, err)
	}
	if p.Message == "" || strings.ContainsAny(err.Error(), "\n\r") {
		t.Errorf("not one line of text: %q", err)
	}
}

func TestInitializeWantsAnIntegerVersion(t *testing.T) {
	for in, want := range map[string]int{"1": 1, "0": 0, "99": 99, "65535": 65535, "1.0": 1, "1e0": 1} {
		p, err := ParseInitialize(json.RawMessage(`{"protocolVersion":` + in + `}`))
		if err != nil || p.ProtocolVersion != want {
			t.Errorf("%s: got %d, %v", in, p.ProtocolVersion, err)
		}
	}
	for _, in := range []string{`"1.0"`, `"1"`, `null`, `1.5`, `-1`, `65536`, `1e9`, `true`, `{}`, `99999999999999999999`} {
		_, err := ParseInitialize(json.RawMessage(`{"protocolVersion":` + in + `,"clientCapabilities":{}}`))
		refused(t, err, "protocolVersion")
	}
	_, err := ParseInitialize(json.RawMessage(`{}`))
	refused(t, err, "protocolVersion")
	for _, in := range []string{``, `[]`, `null`, `{"a":`} {
		_, err := ParseInitialize(json.RawMessage(in))
		refused(t, err, "")
	}
}

func TestInitializeReadsMalformedOptionalMembersAsAbsent(t *testing.T) {
	p, err := ParseInitialize(json.RawMessage(`{"protocolVersion":1,"clientInfo":{"name":"ed","version":"2","title":5},
		"clientCapabilities":{"fs":{"readTextFile":true,"writeTextFile":"yes"},"terminal":true,"auth":{"terminal":true},
		"session":{"configOptions":{"boolean":{}},"notices":true,"compaction":{"x":1}},"elicitation":{"form":{},"url":null},"plan":{},"subagents":[]},
		"_meta":{"k":1},"zzz":1}`))
	if err != nil {
		t.Fatal(err)
	}
	want := ClientCaps{FSRead: true, Terminal: true, AuthTerminal: true, ConfigBoolean: true, Compaction: true, ElicitationForm: true, Plan: true}
	if p.Caps != want {
		t.Errorf("got %+v, want %+v", p.Caps, want)
	}
	if p.ClientInfo != (Implementation{Name: "ed", Version: "2"}) || string(p.Meta) != `{"k":1}` {
		t.Errorf("got %+v, %s", p.ClientInfo, p.Meta)
	}
	for _, caps := range []string{`5`, `null`, `[]`, `{"fs":7,"session":"x"}`} {
		p, err := ParseInitialize(json.RawMessage(`{"protocolVersion":1,"clientInfo":"x","_meta":3,"clientCapabilities":` + caps + `}`))
		if err != nil || p.Caps != (ClientCaps{}) || p.ClientInfo != (Implementation{}) || p.Meta != nil {
			t.Errorf("%s: got %+v, %v", caps, p, err)
		}
	}
	p, err = ParseInitialize(json.RawMessage(`{"protocolVersion":2,"info":{"name":"new","version":"9"},"capabilities":{}}`))
	if err != nil || p.ClientInfo.Name != "new" {
		t.Errorf("a request of version 2: got %+v, %v", p, err)
	}
}

func TestNewSessionNamesWhatIsWrong(t *testing.T) {
	const server = `{"name":"m","command":"/m","args":["--x"],"env":[{"name":"T","value":"t=1 2"},{"name":"E","value":""}]}`
	for _, tc := range []struct{ name, params, path string }{
		{"cwd missing", `{"mcpServers":[]}`, "cwd"},
		{"cwd no string", `{"cwd":5}`, "cwd"},
		{"cwd empty", `{"cwd":""}`, "cwd"},
		{"cwd relative", `{"cwd":"p1"}`, "cwd"},
		{"cwd dot", `{"cwd":"./"}`, "cwd"},
		{"cwd home", `{"cwd":"~/x"}`, "cwd"},
		{"cwd of Windows", `{"cwd":"C:\\Users\\u"}`, "cwd"},
		{"cwd replaced character", `{"cwd":"/a` + "\uFFFD" + `"}`, "cwd"},
		{"cwd half pair", `{"cwd":"/a\ud83d"}`, "cwd"},
		{"cwd invalid bytes", "{\"cwd\":\"/a\xff\"}", "cwd"},
		{"cwd NUL", `{"cwd":"/a\u0000b"}`, "cwd"},
		{"dirs null", `{"cwd":"/w","additionalDirectories":null}`, "additionalDirectories"},
		{"dirs object", `{"cwd":"/w","additionalDirectories":{}}`, "additionalDirectories"},
		{"dir relative", `{"cwd":"/w","additionalDirectories":["/a","b"]}`, "additionalDirectories[1]"},
		{"dir empty", `{"cwd":"/w","additionalDirectories":[""]}`, "additionalDirectories[0]"},
		{"dir no string", `{"cwd":"/w","additionalDirectories":[1]}`, "additionalDirectories[0]"},
		{"servers no array", `{"cwd":"/w","mcpServers":{}}`, "mcpServers"},
		{"server no object", `{"cwd":"/w","mcpServers":["x"]}`, "mcpServers[0]"},
		{"no name", `{"cwd":"/w","mcpServers":[{"command":"/m","args":[],"env":[]}]}`, "mcpServers[0].name"},
		{"empty name", `{"cwd":"/w","mcpServers":[{"name":"","command":"/m"}]}`, "mcpServers[0].name"},
		{"no command", `{"cwd":"/w","mcpServers":[{"name":"m","args":[],"env":[]}]}`, "mcpServers[0].command"},
		{"args no array", `{"cwd":"/w","mcpServers":[{"name":"m","command":"/m","args":"x"}]}`, "mcpServers[0].args"},
		{"arg no string", `{"cwd":"/w","mcpServers":[{"name":"m","command":"/m","args":["a",2]}]}`, "mcpServers[0].args[1]"},
		{"env an object", `{"cwd":"/w","mcpServers":[{"name":"m","command":"/m","args":[],"env":{"TOKEN":"x"}}]}`, "mcpServers[0].env"},
		{"env name with =", `{"cwd":"/w","mcpServers":[` + server + `,{"name":"n","command":"/m","args":[],"env":[{"name":"A=B","value":"1"}]}]}`, "mcpServers[1].env[0].name"},
		{"env value no string", `{"cwd":"/w","mcpServers":[{"name":"n","command":"/m","args":[],"env":[{"name":"A","value":1}]}]}`, "mcpServers[0].env[0].value"},
		{"same name twice", `{"cwd":"/w","mcpServers":[` + server + `,` + server + `]}`, "mcpServers[1].name"},
		{"unknown transport", `{"cwd":"/w","mcpServers":[{"type":"carrier-pigeon","name":"p","url":"x"}]}`, "mcpServers[0].type"},
		{"transport no string", `{"cwd":"/w","mcpServers":[{"type":1,"name":"p"}]}`, "mcpServers[0].type"},
		{"http without url", `{"cwd":"/w","mcpServers":[{"type":"http","name":"p","headers":[]}]}`, "mcpServers[0].url"},
		{"http with another url", `{"cwd":"/w","mcpServers":[{"type":"http","name":"p","url":"ftp://x","headers":[]}]}`, "mcpServers[0].url"},
		{"header with a newline", `{"cwd":"/w","mcpServers":[{"type":"http","name":"p","url":"https://x","headers":[{"name":"A","value":"b\nc"}]}]}`, "mcpServers[0].headers[0].name"},
		{"agent no string", `{"cwd":"/w","_meta":{"hermes":{"agent":1}}}`, "_meta.hermes.agent"},
		{"no object", `[]`, ""},
		{"no params", ``, ""},
	} {
		t.Run(tc.name, func(t *testing.T) {
			_, err := parseNewSession(json.RawMessage(tc.params), "linux")
			refused(t, err, tc.path)
		})
	}
}

func TestErrorsAboutServersDoNotRepeatSecrets(t *testing.T) {
	for _, in := range []string{
		`[{"name":"m","command":"/m","args":[],"env":{"TOKEN":"s3cret"}}]`,
		`[{"name":"m","command":"/m","args":[],"env":[{"name":"TOKEN","value":["s3cret"]}]}]`,
		`[{"type":"http","name":"m","url":"s3cret","headers":[]}]`,
		`[{"type":"http","name":"m","url":"https://x","headers":[{"name":"A","value":"s3cret\n"}]}]`,
	} {
		_, err := ParseMCPServers(json.RawMessage(in))
		if err == nil || strings.Contains(err.Error(), "s3cret") {
			t.Errorf("%s: %v", in, err)
		}
	}
}

func TestNewSessionTakesWhatEditorsSend(t *testing.T) {
	for _, tc := range []struct{ name, params, servers string }{
		{"no servers", `{"cwd":"/w"}`, `[]`},
		{"null servers", `{"cwd":"/w","mcpServers":null}`, `[]`},
		{"lists left out or null are empty", `{"cwd":"/w","mcpServers":[{"name":"m","command":"npx","args":null,"_meta":{"a":1.0}}]}`,
			`[{"name":"m","command":"npx","args":[],"_meta":{"a":1.0},"env":[]}]`},
		{"bytes are kept", `{"cwd":"/w","mcpServers":[ {"x":{}, "name":"m","command":"/m","args":[],"env":[]} ]}`,
			`[ {"x":{}, "name":"m","command":"/m","args":[],"env":[]} ]`},
	} {
		t.Run(tc.name, func(t *testing.T) {
			p, err := parseNewSession(json.RawMessage(tc.params), "linux")
			if err != nil || string(p.MCPServers) != tc.servers {
				t.Errorf("got %s, %v; want %s", p.MCPServers, err, tc.servers)
			}
		})
	}
	p, err := parseNewSession(json.RawMessage(`{"cwd":"/a b/ü","additionalDirectories":["/x","/y"],"_meta":{"hermes":{"agent":"claude"}},"mcpServers":[
		{"name":"m","command":"/m","args":["--x"],"env":[{"name":"T","value":"t=1 2"},{"name":"E","value":""}]},
		{"type":"http","name":"h","url":"https://x.test/mcp","headers":[{"name":"Authorization","value":"Bearer y"}]},
		{"type":"sse","name":"s","url":"http://x.test","headers":null}]}`), "linux")
	if err != nil {
		t.Fatal(err)
	}
	if p.Cwd != "/a b/ü" || strings.Join(p.Dirs, " ") != "/x /y" || !p.DirsGiven || !p.ServersGiven || p.Agent != "claude" {
		t.Errorf("got %+v", p)
	}
	m, h := p.Servers[0], p.Servers[1]
	if m.Type != MCPStdio || m.Args[0] != "--x" || m.Env[0] != (Pair{"T", "t=1 2"}) || m.Env[1] != (Pair{"E", ""}) {
		t.Errorf("got %+v", m)
	}
	if h.Type != MCPHTTP || h.URL != "https://x.test/mcp" || h.Headers[0] != (Pair{"Authorization", "Bearer y"}) {
		t.Errorf("got %+v", h)
	}
	if again, err := ParseMCPServers(p.MCPServers); err != nil || len(again) != 3 {
		t.Errorf("what is stored does not parse again: %v", err)
	}
	refused(t, CheckTransports(p.Servers, false, true), "mcpServers[1].type")
	refused(t, CheckTransports(p.Servers, true, false), "mcpServers[2].type")
	if err := CheckTransports(p.Servers, true, true); err != nil {
		t.Error(err)
	}
	if p, err := parseNewSession(json.RawMessage(`{"cwd":"C:\\p"}`), "windows"); err != nil || p.DirsGiven || p.ServersGiven {
		t.Errorf("got %+v, %v", p, err)
	}
}

func TestRequestsThatNameASession(t *testing.T) {
	all := map[string]func(string) error{
		"load":   func(s string) error { _, err := ParseLoad(json.RawMessage(s)); return err },
		"resume": func(s string) error { _, err := ParseResume(json.RawMessage(s)); return err },
		"fork":   func(s string) error { _, err := ParseFork(json.RawMessage(s)); return err },
		"close":  func(s string) error { _, err := ParseClose(json.RawMessage(s)); return err },
		"delete": func(s string) error { _, err := ParseDelete(json.RawMessage(s)); return err },
		"cancel": func(s string) error { _, err := ParseCancel(json.RawMessage(s)); return err },
		"mode":   func(s string) error { _, err := ParseSetMode(json.RawMessage(s)); return err },
		"option": func(s string) error { _, err := ParseSetConfigOption(json.RawMessage(s)); return err },
		"prompt": func(s string) error { _, err := ParsePrompt(json.RawMessage(s)); return err },
	}
	for name, parse := range all {
		t.Run(name, func(t *testing.T) {
			for _, id := range []string{`null`, `7`, `""`, `{}`} {
				refused(t, parse(`{"sessionId":`+id+`,"cwd":"/w"}`), "sessionId")
			}
			refused(t, parse(`{}`), "sessionId")
			refused(t, parse(`null`), "")
			refused(t, parse(``), "")
		})
	}
	p, err := parseSessionSetup(json.RawMessage(`{"sessionId":"../../etc","cwd":"/w"}`), "linux")
	if err != nil || p.SessionID != "../../etc" || p.ServersGiven {
		t.Errorf("got %+v, %v", p, err)
	}
}

func TestListParams(t *testing.T) {
	for _, in := range []string{``, `null`, `{}`, `{"cursor":null,"cwd":null}`, `{"zzz":1}`} {
		if p, err := parseList(json.RawMessage(in), "linux"); err != nil || p.Cwd != "" || p.Cursor != "" {
			t.Errorf("%s: got %+v, %v", in, p, err)
		}
	}
	for in, path := range map[string]string{
		`{"cwd":"rel/dir"}`: "cwd", `{"cwd":""}`: "cwd", `{"cwd":4}`: "cwd", `{"cursor":5}`: "cursor", `{"cursor":""}`: "cursor", `[]`: "",
	} {
		_, err := parseList(json.RawMessage(in), "linux")
		refused(t, err, path)
	}
	if p, err := parseList(json.RawMessage(`{"cwd":"/w/a b","cursor":"c"}`), "linux"); err != nil || p.Cwd != "/w/a b" || p.Cursor != "c" {
		t.Errorf("got %+v, %v", p, err)
	}
}

func TestCancelRequestKeepsTheId(t *testing.T) {
	for _, id := range []string{`1`, `"1"`, `null`, `-7`, `9007199254740993`, `1.0`, `"\u0041"`} {
		p, err := ParseCancelRequest(json.RawMessage(`{"requestId":` + id + `}`))
		if err != nil || string(p.RequestID) != id {
			t.Errorf("%s: got %s, %v", id, p.RequestID, err)
		}
	}
	for _, in := range []string{`{}`, `{"requestId":{}}`, `{"requestId":true}`, `{"requestId":[1]}`} {
		_, err := ParseCancelRequest(json.RawMessage(in))
		refused(t, err, "requestId")
	}
}

func TestSetConfigOptionTakesStringsAndBooleans(t *testing.T) {
	for _, in := range []string{`"value":"x"`, `"value":true,"type":"boolean"`, `"value":false`, `"type":"id","value":"x"`, `"type":null,"value":""`} {
		if p, err := ParseSetConfigOption(json.RawMessage(`{"sessionId":"s","configId":"c",` + in + `}`)); err != nil || p.ConfigID != "c" || len(p.Value) == 0 {
			t.Errorf("%s: %v", in, err)
		}
	}
	for in, path := range map[string]string{
		`"configId":"c"`: "value", `"configId":"c","value":1`: "value", `"configId":"c","value":null`: "value", `"value":"x"`: "configId",
		`"configId":"c","value":"x","type":"boolean"`: "value", `"configId":"c","value":true,"type":"id"`: "type", `"configId":"c","value":true,"type":1`: "type",
	} {
		_, err := ParseSetConfigOption(json.RawMessage(`{"sessionId":"s",` + in + `}`))
		refused(t, err, path)
	}
	if _, err := ParseSetMode(json.RawMessage(`{"sessionId":"s","modeId":"plan"}`)); err != nil {
		t.Error(err)
	}
	_, err := ParseSetMode(json.RawMessage(`{"sessionId":"s","modeId":null}`))
	refused(t, err, "modeId")
	_, err = ParseAuthenticate(json.RawMessage(`{}`))
	refused(t, err, "methodId")
}

func TestPromptBlocks(t *testing.T) {
	for _, tc := range []struct{ name, prompt, path string }{
		{"text", `[{"type":"text","text":"hi"}]`, "ok"},
		{"text is missing", `[{"type":"text"}]`, "prompt[0].text"},
		{"text is no string", `[{"type":"text","text":1}]`, "prompt[0].text"},
		{"link alone", `[{"type":"resource_link","name":"my file.txt","uri":"file:///w/my%20file.txt#L2"}]`, "ok"},
		{"link without name", `[{"type":"resource_link","uri":"x"}]`, "prompt[0].name"},
		{"link without uri", `[{"type":"resource_link","name":"x","uri":""}]`, "prompt[0].uri"},
		{"image with empty text", `[{"type":"text","text":""},{"type":"image","mimeType":"image/png","data":"iVBORw0KGgo="}]`, "ok"},
		{"image with escaped slashes", `[{"type":"image","mimeType":"image/jpeg","data":"\/9j\/"}]`, "ok"},
		{"image of another type", `[{"type":"image","mimeType":"image/avif","data":"AAAA"}]`, "prompt[0].mimeType"},
		{"image that is no base64", `[{"type":"text","text":"x"},{"type":"image","mimeType":"image/png","data":"%%%"}]`, "prompt[1].data"},
		{"image cut off", `[{"type":"image","mimeType":"image/png","data":"iVBOR"}]`, "prompt[0].data"},
		{"image padded inside", `[{"type":"image","mimeType":"image/png","data":"iV==ORAA"}]`, "prompt[0].data"},
		{"image as data URI", `[{"type":"image","mimeType":"image/png","data":"data:image/png;base64,iVBORw0KGgo="}]`, "prompt[0].data"},
		{"image empty", `[{"type":"image","mimeType":"image/png","data":""}]`, "prompt[0].data"},
		{"resource with text", `[{"type":"resource","resource":{"uri":"file:///u.go","mimeType":"text/x-go","text":"package u"}}]`, "ok"},
		{"resource with blob", `[{"type":"resource","resource":{"uri":"mem://b","blob":"AAEC","mimeType":"application/octet-stream"}}]`, "ok"},
		{"resource with nothing", `[{"type":"resource","resource":{"uri":"mem://b"}}]`, "prompt[0].resource"},
		{"resource with a bad blob", `[{"type":"resource","resource":{"uri":"mem://b","blob":"?"}}]`, "prompt[0].resource.blob"},
		{"resource without uri", `[{"type":"resource","resource":{"text":"x"}}]`, "prompt[0].resource.uri"},
		{"resource is missing", `[{"type":"resource"}]`, "prompt[0].resource"},
		{"audio", `[{"type":"audio","mimeType":"audio/wav","data":"AAAA"}]`, "prompt[0].type"},
		{"unknown", `[{"type":"hologram","x":1},{"type":"text","text":"hi"}]`, "prompt[0].type"},
		{"type missing", `[{"text":"hi"}]`, "prompt[0].type"},
		{"no block", `["hi"]`, "prompt[0]"},
		{"empty", `[]`, "prompt"},
		{"no array", `"hi"`, "prompt"},
		{"nothing said", `[{"type":"text","text":""},{"type":"text","text":" \n\t\u00a0\u3000"}]`, "prompt"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			p, err := ParsePrompt(json.RawMessage(`{"sessionId":"s","prompt":` + tc.prompt + `}`))
			if tc.path == "ok" {
				if err != nil || string(p.Content) != tc.prompt {
					t.Errorf("got %s, %v", p.Content, err)
				}
				return
			}
			refused(t, err, tc.path)
		})
	}
	_, err := ParsePrompt(json.RawMessage(`{"sessionId":"s"}`))
	refused(t, err, "prompt")
	_, err = ParsePrompt(json.RawMessage(`{"sessionId":"s","prompt":[{"type":"hologram"}]}`))
	if !strings.Contains(err.Error(), "hologram") {
		t.Errorf("the block's type is not named: %v", err)
	}
}

func TestPromptIsValidUnicodeAndOtherwiseVerbatim(t *testing.T) {
	in := `{"sessionId":"s","prompt":[ {"type":"text", "text":"cut \ud83d here","_meta":{"k":[1.0,"<&>"]}} ],"_meta":{"a":1.50}}`
	p, err := ParsePrompt(json.RawMessage(in))
	if err != nil {
		t.Fatal(err)
	}
	if got, want := string(p.Blocks[0]), `{"type":"text", "text":"cut \ufffd here","_meta":{"k":[1.0,"<&>"]}}`; got != want {
		t.Errorf("got  %s\nwant %s", got, want)
	}
	if string(p.Content) != `[ `+string(p.Blocks[0])+` ]` || string(p.Meta) != `{"a":1.50}` {
		t.Errorf("got %s, %s", p.Content, p.Meta)
	}
}

func TestOutcomeIsSelectedOnlyAsTheProtocolWritesIt(t *testing.T) {
	for _, tc := range []struct {
		result, option  string
		selected, later bool
	}{
		{`{"outcome":{"outcome":"selected","optionId":"o1"}}`, "o1", true, false},
		{`{"_meta":{"hermes":{"later":true}},"outcome":{"optionId":"o1","outcome":"selected"}}`, "o1", true, false},
		{`{"outcome":{"outcome":"cancelled"}}`, "", false, false},
		{`{"outcome":{"outcome":"cancelled"},"_meta":{"hermes":{"later":true}}}`, "", false, true},
		{`{"outcome":{"outcome":"cancelled","_meta":{"hermes":{"later":true}}}}`, "", false, true},
		{`{"outcome":{"outcome":"cancelled"},"_meta":{"hermes":{"later":"yes"}}}`, "", false, false},
		{`{"outcome":{"outcome":"Selected","optionId":"o1"}}`, "", false, false},
		{`{"outcome":{"outcome":"selected"}}`, "", false, false},
		{`{"outcome":{"outcome":"selected","optionId":1}}`, "", false, false},
		{`{"outcome":{"outcome":"selected","optionId":null}}`, "", false, false},
		{`{"outcome":{"optionId":"o1"}}`, "", false, false},
		{`{"outcome":"selected","optionId":"o1"}`, "", false, false},
		{`{"outcome":["selected"]}`, "", false, false},
		{`{}`, "", false, false}, {`null`, "", false, false}, {``, "", false, false}, {`"selected"`, "", false, false}, {`{"outcome":`, "", false, false},
	} {
		option, selected, later := ParseOutcome(json.RawMessage(tc.result))
		if option != tc.option || selected != tc.selected || later != tc.later {
			t.Errorf("%s: got %q %v %v", tc.result, option, selected, later)
		}
	}
}

func FuzzParamsNeverPanic(f *testing.F) {
	for _, s := range []string{
		`{"protocolVersion":1,"clientCapabilities":{"fs":{"readTextFile":true}},"clientInfo":{"name":"a","version":"b"}}`,
		`{"sessionId":"s","cwd":"/w","additionalDirectories":["/a"],"mcpServers":[{"name":"m","command":"c","args":[],"env":[{"name":"A","value":"b"}]},{"type":"http","name":"h","url":"http://x","headers":[{"name":"a","value":"b"}]}]}`,
		`{"sessionId":"s","prompt":[{"type":"text","text":"\ud83d"},{"type":"image","mimeType":"image/png","data":"AAAA"},{"type":"resource","resource":{"uri":"u","blob":""}},{"type":"resource_link","name":"n","uri":"u"}]}`,
		`{"outcome":{"outcome":"selected","optionId":"x"},"requestId":1,"configId":"c","value":true,"type":"boolean","modeId":"m","methodId":"x","cursor":"c"}`,
		`{`, `[`, `{"cwd":`, `{"cwd":"`, `{"mcpServers":[{]}`, `{"sessionId":"s","prompt":[{"type":"image","mimeType":"image/png","data":"\`,
	} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		before := string(b)
		p := json.RawMessage(b)
		var err error
		check := func(e error) {
			var wrong *ParamError
			if e != nil && !errors.As(e, &wrong) {
				t.Errorf("%v is no ParamError", e)
			}
			if e != nil && strings.ContainsAny(e.Error(), "\n\r") {
				t.Errorf("%q is not one line", e)
			}
		}
		_, err = ParseInitialize(p)
		check(err)
		for _, goos := range []string{"linux", "windows"} {
			s, err := parseNewSession(p, goos)
			check(err)
			if err == nil && json.Valid(b) {
				if !IsAbs(goos, s.Cwd) || !json.Valid(s.MCPServers) {
					t.Errorf("took %q, %s", s.Cwd, s.MCPServers)
				}
			}
			_, err = parseSessionSetup(p, goos)
			check(err)
			_, err = parseList(p, goos)
			check(err)
		}
		q, err := ParsePrompt(p)
		check(err)
		if err == nil && json.Valid(b) && (!json.Valid(q.Content) || string(ValidUnicode(q.Content)) != string(q.Content)) {
			t.Errorf("took %s", q.Content)
		}
		_, err = ParseClose(p)
		check(err)
		_, err = ParseCancelRequest(p)
		check(err)
		_, err = ParseSetMode(p)
		check(err)
		_, err = ParseSetConfigOption(p)
		check(err)
		_, err = ParseAuthenticate(p)
		check(err)
		ParseOutcome(p)
		FilterOptions(p, ClientCaps{})
		Project(b, ClientCaps{})
		if string(b) != before {
			t.Error("the params were written to")
		}
	})
}
