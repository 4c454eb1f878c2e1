package configs

import (
	"os"
	"path/filepath"
	"reflect"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/BurntSushi/toml"
	"github.com/google/go-cmp/cmp"
)

func TestNoFileMeansDefaults(t *testing.T) {
	got, err := Load(filepath.Join(t.TempDir(), "config.toml"))
	if err != nil {
		t.Fatal(err)
	}
	if d := cmp.Diff(Default(), got); d != "" {
		t.Errorf("(-want +got)\n%s", d)
	}
}

func TestUnreadableFileIsAnError(t *testing.T) {
	_, err := Load(t.TempDir()) // a directory
	if err == nil || !strings.Contains(err.Error(), "reading the configuration") {
		t.Errorf("got %v", err)
	}
}

func TestSampleHoldsTheDefaults(t *testing.T) {
	got, err := Parse("hermesd.toml", Sample())
	if err != nil {
		t.Fatal(err)
	}
	if d := cmp.Diff(Default(), got); d != "" {
		t.Errorf("the sample differs from the defaults (-default +sample)\n%s", d)
	}
}

// uncommented is the sample with its example lines ("#" and no space) active.
func uncommented() string {
	return regexp.MustCompile(`(?m)^#(\S)`).ReplaceAllString(string(Sample()), "$1")
}

func TestSampleNamesEveryKey(t *testing.T) {
	text := uncommented()
	var any map[string]any
	md, err := toml.Decode(text, &any)
	if err != nil {
		t.Fatal(err)
	}
	have := map[string]bool{}
	for _, k := range md.Keys() {
		if len(k) > 1 && k[0] == "agents" { // whatever its name
			k[1] = "*"
		}
		if len(k) > 2 && k[0] == "mcp" && k[1] == "servers" {
			k[2] = "*"
		}
		if len(k) > 1 && k[0] == "providers" {
			k[1] = "*"
		}
		if len(k) > 3 && k[0] == "agents" && k[2] == "prices" {
			k[3] = "*"
		}
		have[k.String()] = true
	}
	var walk func(t reflect.Type, path toml.Key)
	walk = func(typ reflect.Type, path toml.Key) {
		switch typ.Kind() {
		case reflect.Struct:
			for _, sf := range reflect.VisibleFields(typ) {
				tag := sf.Tag.Get("toml")
				if tag == "" {
					t.Errorf("field %s has no toml key", sf.Name)
				}
				walk(sf.Type, append(path[:len(path):len(path)], tag))
			}
		case reflect.Map:
			if typ.Elem().Kind() != reflect.Struct {
				break
			}
			walk(typ.Elem(), append(path[:len(path):len(path)], "*"))
			return
		case reflect.Slice:
			if typ.Elem().Kind() == reflect.Struct {
				walk(typ.Elem(), path)
				return
			}
		}
		if len(path) > 0 && typ.Kind() != reflect.Struct && !have[path.String()] {
			t.Errorf("the sample lacks %s", path)
		}
	}
	walk(reflect.TypeFor[Config](), nil)
}

func TestSampleExamplesAreValidAndShowDefaults(t *testing.T) {
	got, err := Parse("hermesd.toml", []byte(uncommented()))
	if err != nil {
		t.Fatal(err)
	}
	want := externalAgent()
	want.Command = []string{"claude-agent-acp"}
	want.Env = map[string]string{}
	if d := cmp.Diff(want, got.Agents["claude"]); d != "" {
		t.Errorf("(-default +example)\n%s", d)
	}
	notes := MCPServer{
		Type: "stdio", Command: []string{"npx", "-y", "@modelcontextprotocol/server-filesystem", "/home/me/notes"}, Env: map[string]string{}, Call: defaultMCP().Call,
	}
	if d := cmp.Diff(notes, got.MCP.Servers["notes"]); d != "" {
		t.Errorf("(-default +example)\n%s", d)
	}
}

func TestFileIsReadOverTheDefaults(t *testing.T) {
	got, err := Parse("config.toml", []byte(`
default_agent = "claude"
[permissions]
timeout = "2m"
[limits]
replay = "16MiB"
queued_prompts = 3
[agents.claude]
command = ["claude-agent-acp", "--x"]
warm = 0
env = { A = "b" }
[agents.careless]
approval_mode = "session"
[[listen]]
address = "unix:///tmp/a.sock"
`))
	if err != nil {
		t.Fatal(err)
	}
	want := Default()
	want.DefaultAgent = "claude"
	want.Permissions.Timeout = Duration(2 * time.Minute)
	want.Limits.Replay = 16 * MiB
	want.Limits.QueuedPrompts = 3
	want.Agents["claude"] = Agent{Type: External, Command: []string{"claude-agent-acp", "--x"}, Env: map[string]string{"A": "b"}, Hold: true}
	careless := nativeAgent()
	careless.ApprovalMode = "session"
	want.Agents["careless"] = careless
	want.Listen = []Listen{{Address: "unix:///tmp/a.sock"}}
	if d := cmp.Diff(want, got); d != "" {
		t.Errorf("(-want +got)\n%s", d)
	}
}

func TestMistakesNameFileLineKeyAndWhatIsAllowed(t *testing.T) {
	for name, tc := range map[string]struct {
		text string
		want string // all lines of the error
	}{
		"a server without anything": {"[mcp.servers.x]\ntrusted = true\n",
			`c.toml:1: mcp.servers.x: has neither command nor url; say how the server is reached`},
		"a server with both": {"[mcp.servers.x]\ncommand = [\"a\"]\nurl = \"https://h/mcp\"\n",
			`c.toml:3: mcp.servers.x.url: is not of servers of the type "stdio"; remove it`},
		"a secret is not repeated": {"[mcp.servers.x]\nurl = \"secret\"\nheaders = { \"a b\" = \"secret\" }\n",
			"c.toml:2: mcp.servers.x.url: is no address; write it as in url = \"https://example.org/mcp\"\n" +
				`c.toml:3: mcp.servers.x.headers."a b": is no HTTP header`},
		"mcp limits": {"[mcp]\nwait = \"2m\"\ncall = \"1ms\"\n",
			"c.toml:2: mcp.wait: 2m0s is not allowed; choose 0s to 1m\n" +
				"c.toml:3: mcp.call: 1ms is not allowed; choose 1s or more"},
		"unknown key": {"\ndefault_agnet = \"hermes\"\n",
			"c.toml:2: default_agnet: unknown key; known here: default_agent, log, metrics, permissions, sessions, store, limits, tools, web, agents, mcp, providers, listen"},
		"unknown key in a table": {"[permissions]\n\n# comment\ntimeuot = \"1s\"\n",
			"c.toml:4: permissions.timeuot: unknown key; known here: timeout, detached"},
		"unknown key of an agent": {"[agents.claude]\ncommand = [\"x\"]\nwram = 1\n",
			"c.toml:3: agents.claude.wram: unknown key; known here: type, provider, model, base_url, reasoning_effort, context_window, max_output, max_turn_requests, prices, approval_mode, command, warm, env, hold"},
		"unknown key in an array of tables": {"[[listen]]\naddress = \"unix\"\n[[listen]]\naddress = \"unix\"\ntls = true\n",
			"c.toml:5: listen.tls: unknown key; known here: address"},
		"unknown table, once": {"[telemetry]\na = 1\nb = 2\n",
			"c.toml:1: telemetry: unknown key; known here: default_agent, log, metrics, permissions, sessions, store, limits, tools, web, agents, mcp, providers, listen"},
		"unknown dotted key": {"log.colour = true",
			"c.toml:1: log.colour: unknown key; known here: level, file, max_size, keep"},
		"relative log file": {"[log]\nfile = \"hermesd.log\"\n",
			`c.toml:2: log.file: "hermesd.log" is a relative path; give the whole path`},
		"small log file": {"[log]\nmax_size = \"1KiB\"\n",
			"c.toml:2: log.max_size: 1KiB is not allowed; choose 1MiB to 10GiB"},
		"no old log files": {"[log]\nkeep = 0\n",
			"c.toml:2: log.keep: 0 is not allowed; choose 1 to 1000"},
		"several mistakes, in order of lines": {"x = 1\ny = 2\n[log]\nlevel = \"loud\"\n",
			"c.toml:1: x: unknown key; known here: default_agent, log, metrics, permissions, sessions, store, limits, tools, web, agents, mcp, providers, listen\n" +
				"c.toml:2: y: unknown key; known here: default_agent, log, metrics, permissions, sessions, store, limits, tools, web, agents, mcp, providers, listen\n" +
				"c.toml:4: log.level: \"loud\" is not allowed; choose one of: trace, debug, info, warn, error"},
		"wrong type": {"default_agent = 3\n",
			"c.toml:1: default_agent: has a value of type integer, but must be of type string"},
		"wrong type in an agent": {"[agents.a]\nwarm = \"yes\"\n",
			"c.toml:2: agents.a.warm: has a value of type string, but must be of type integer"},
		"size": {"[limits]\nreplay = \"lots\"\n",
			`c.toml:2: limits.replay: "lots" is not a size: write a number of bytes, or a number with KiB, MiB or GiB, as in "64MiB"`},
		"size out of range": {"[limits]\nreplay = \"1KiB\"\n",
			"c.toml:2: limits.replay: 1KiB is not allowed; choose 64KiB to 1GiB"},
		"count out of range": {"[limits]\nin_flight = 0\n",
			"c.toml:2: limits.in_flight: 0 is not allowed; choose 1 to 100000"},
		"duration without unit": {"[permissions]\ntimeout = 60\n",
			`c.toml:2: permissions.timeout: "60" is not a duration: write a number with ms, s, m or h, as in "60s" or "1h30m"`},
		"duration too short": {"[sessions]\nidle = \"1ms\"\n",
			"c.toml:2: sessions.idle: 1ms is not allowed; choose 1s or more"},
		"choice": {"[permissions]\ndetached = \"allow\"\n",
			`c.toml:2: permissions.detached: "allow" is not allowed; choose one of: wait, deny`},
		"approval mode": {"[agents.hermes]\napproval_mode = \"yolo\"\n",
			`c.toml:2: agents.hermes.approval_mode: "yolo" is not allowed; choose one of: plan, ask, workspace_session, session`},
		"default agent": {"default_agent = \"claude\"\n[agents.codex]\ncommand = [\"codex-acp\"]\n",
			`c.toml:1: default_agent: there is no agent "claude"; the agents are: codex, hermes`},
		"agent without command": {"[agents.a]\ntype = \"external\"\n",
			`c.toml:1: agents.a.command: is missing; say what to start, as in command = ["claude-agent-acp"]`},
		"agent of unknown type": {"[agents.a]\ntype = \"docker\"\n",
			`c.toml:2: agents.a.type: "docker" is not allowed; choose one of: native, external`},
		"native key on a program": {"[agents.a]\ncommand = [\"x\"]\nmodel = \"m\"\n",
			`c.toml:3: agents.a.model: is of native agents only; remove it or set type = "native"`},
		"program's key on a native agent": {"[agents.hermes]\nwarm = 3\n",
			`c.toml:2: agents.hermes.warm: is of external agents only; remove it or set type = "external"`},
		"base url": {"[agents.hermes]\nbase_url = \"localhost:1\"\n",
			`c.toml:2: agents.hermes.base_url: "localhost:1" is not allowed; an address begins with http:// or https://`},
		"name of an agent": {"[agents.\"a b\"]\ncommand = [\"x\"]\n",
			`c.toml:1: agents."a b": a name of an agent has letters, digits, "-", "_" and ".", begins with a letter or digit and has at most 64 characters`},
		"listen": {"[[listen]]\naddress = \"unix://relative\"\n",
			`c.toml:2: listen.address: address "unix://relative": write unix, or unix: with the whole path of a socket`},
		"syntax": {"[log]\nlevel = \n",
			"c.toml:2: log.level: expected value but found '\\n' instead"},
		"duplicate key": {"default_agent = \"hermes\"\ndefault_agent = \"hermes\"\n",
			"c.toml:2: default_agent: Key 'default_agent' has already been defined."},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := Parse("c.toml", []byte(tc.text))
			if err == nil {
				t.Fatal("accepted")
			}
			if d := cmp.Diff(tc.want, err.Error()); d != "" {
				t.Errorf("(-want +got)\n%s", d)
			}
		})
	}
}

func TestSizes(t *testing.T) {
	for in, want := range map[string]Size{
		"0": 0, "4096": 4096, "64MiB": 64 * MiB, "64 MiB": 64 * MiB, "1.5GiB": 3 * GiB / 2, "512KiB": 512 * KiB,
		"10kB": 10_000, "10KB": 10_000, "1MB": 1_000_000, "7B": 7,
	} {
		var got Size
		if err := got.UnmarshalText([]byte(in)); err != nil || got != want {
			t.Errorf("%q = %d, %v, want %d", in, got, err, want)
		}
	}
	for _, in := range []string{"", "MiB", "-1", "-1MiB", "NaN", "InfGiB", "1e300TiB", "64mib", "64 M", "0x10"} {
		var got Size
		if err := got.UnmarshalText([]byte(in)); err == nil {
			t.Errorf("%q accepted as %d", in, got)
		}
	}
	for in, want := range map[Size]string{0: "0", 1000: "1000", 64 * KiB: "64KiB", 3 * GiB / 2: "1536MiB"} {
		if in.String() != want {
			t.Errorf("%d is written %q, want %q", int64(in), in, want)
		}
	}
}

// FuzzParse: whatever the file holds, there is a Config that is valid, or an
// error that names the file.
func FuzzParse(f *testing.F) {
	f.Add(string(Sample()))
	f.Add(uncommented())
	f.Add("[agents.a]\ncommand=[\"x\"]\n[agents.a.env]\n\"\"='1'")
	f.Add("[[listen]]\n[[listen]]\nx.y.z=1")
	f.Add("a.b.\"c,d\".\"e`\"=1\n[a.b]\n")
	f.Add("agents={hermes={x=1}}\nlog=[{level=1}]")
	f.Fuzz(func(t *testing.T, text string) {
		c, err := Parse("c.toml", []byte(text))
		if err != nil {
			if !strings.HasPrefix(err.Error(), "c.toml:") {
				t.Errorf("error does not name the file: %v", err)
			}
			return
		}
		if _, ok := c.Agents[c.DefaultAgent]; !ok || len(c.Listen) == 0 {
			t.Errorf("accepted %+v", c)
		}
	})
}

func TestSampleIsTheFileBesideThisTest(t *testing.T) {
	data, err := os.ReadFile("hermesd.toml")
	if err != nil || string(data) != string(Sample()) {
		t.Errorf("the embedded sample is not hermesd.toml (%v)", err)
	}
}

func TestRetentionIsBounded(t *testing.T) {
	for text, want := range map[string]string{
		"[store]\nmax_age = \"720h\"\nmax_size = \"1GiB\"": "",
		"[store]\nmax_age = \"0s\"\nmax_size = \"0\"":      "",
		"[store]\nmax_age = \"30m\"":                       "c.toml:2: store.max_age: 30m0s is not allowed; choose 1h or more",
		"[store]\nmax_size = \"64KiB\"":                    "c.toml:2: store.max_size: 64KiB is not allowed; choose 1MiB or more",
	} {
		_, err := Parse("c.toml", []byte(text))
		if want == "" && err != nil || want != "" && (err == nil || !strings.Contains(err.Error(), want)) {
			t.Errorf("%q: %v", text, err)
		}
	}
}
