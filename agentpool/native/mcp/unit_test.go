package mcp

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"regexp"
	"strings"
	"testing"
	"testing/synctest"
	"time"
	"unicode/utf8"

	"github.com/hermesd/hermesd/agentpool/native/mcp/mcptest"
	"github.com/hermesd/hermesd/agentpool/native/tool"
	"github.com/hermesd/hermesd/agentpool/process"
	sdk "github.com/modelcontextprotocol/go-sdk/mcp"
)

func TestFullNames(t *testing.T) {
	taken := regexp.MustCompile(`^[A-Za-z0-9_-]{1,64}$`)
	long := strings.Repeat("x", 70)
	seen := map[string]string{}
	for _, c := range []struct{ server, tool, want string }{
		{"github", "create_issue", "mcp__github__create_issue"},
		{"a-b", "C1", "mcp__a-b__C1"},
		{"a", "b__c", "mcp__a__b__c"},
		{"a__b", "c", "mcp__a__b__c_fa1"},
		{"a_", "_c", "mcp__a____c_"},
		{"a", "__c", "mcp__a____c_"},
		{"ai.exa/exa", "search", "mcp__ai_exa_exa__search_"},
		{"日本", "検索", "mcp________"},
		{"x", "a.b", "mcp__x__a_b_"},
		{"x", "a/b", "mcp__x__a_b_"},
		{long, "find", "mcp__xxx"},
		{"files", long, "mcp__files__xxx"},
		{long, long, "mcp__xxx"},
		{long + "1", long, "mcp__xxx"},
		{"", "", "mcp____"},
	} {
		got := FullName(c.server, c.tool)
		key := c.server + " " + c.tool
		if !taken.MatchString(got) {
			t.Errorf("%s: %q is a name some provider refuses", key, got)
		}
		if !strings.HasPrefix(got, c.want[:min(len(c.want), 12)]) {
			t.Errorf("%s: %q, want %q…", key, got, c.want)
		}
		if other, twice := seen[got]; twice {
			t.Errorf("%s and %s are both %q", key, other, got)
		}
		seen[got] = key
		if FullName(c.server, c.tool) != got {
			t.Errorf("%s: it is not always the same", key)
		}
	}
}

func TestWhatIsListedIsTakenByEveryProvider(t *testing.T) {
	for name, c := range map[string]struct {
		schema, want string
	}{
		"as it is":      {`{"properties":{"a":{"type":"string"}},"required":["a"],"type":"object"}`, `{"properties":{"a":{"type":"string"}},"required":["a"],"type":"object"}`},
		"no properties": {`{"type":"object"}`, `{"properties":{},"type":"object"}`},
		"schema":        {`{"$schema":"x","$id":"y","type":"object","properties":{}}`, `{"properties":{},"type":"object"}`},
		"a choice":      {`{"type":"object","anyOf":[{}]}`, anyObject},
		"no object":     {`{"type":"string"}`, anyObject},
		"two types":     {`{"type":["object","null"]}`, anyObject},
		"null":          {`null`, anyObject},
		"true":          {`true`, anyObject},
		"huge":          {`{"type":"object","description":"` + strings.Repeat("x", maxSchema) + `"}`, anyObject},
	} {
		tool := Tool{Server: "s", Name: "n", Description: strings.Repeat("ä", 2000), Schema: json.RawMessage(c.schema)}
		description, schema := tool.Listed()
		if string(schema) != c.want {
			t.Errorf("%s: %s, want %s", name, schema, c.want)
		}
		if len(description) > maxDescription || !utf8.ValidString(description) {
			t.Errorf("%s: a description of %d bytes", name, len(description))
		}
		if (c.want == anyObject) != strings.Contains(description, "Its arguments: see mcp_tools") {
			t.Errorf("%s: %q", name, description)
		}
	}
	if d, _ := (Tool{Server: "s", Name: "n", Schema: json.RawMessage(`{"type":"object"}`)}).Listed(); d == "" {
		t.Error("no description")
	}
}

func TestToolsWithoutAUsableNameAreLeftOutAndTheOrderIsOurs(t *testing.T) {
	yes := true
	got := readTools("s", []*sdk.Tool{
		{Name: "b", Description: "b\xff", InputSchema: map[string]any{"type": "object"}, Annotations: &sdk.ToolAnnotations{Title: "B\u202e", ReadOnlyHint: true, DestructiveHint: &yes}},
		nil, {Name: ""}, {Name: "a\nb"}, {Name: strings.Repeat("x", 300)}, {Name: "b"}, {Name: "a\xff"},
		{Name: "a", Annotations: &sdk.ToolAnnotations{DestructiveHint: &yes, OpenWorldHint: &yes}},
	})
	want := []Tool{
		{Server: "s", Name: "a", Schema: json.RawMessage("null"), Hints: Hints{Destructive: true, OpenWorld: true}},
		{Server: "s", Name: "b", Title: "B\uFFFD", Description: "b\uFFFD", Schema: json.RawMessage(`{"type":"object"}`), Hints: Hints{ReadOnly: true}},
	}
	if string(encode(got)) != string(encode(want)) {
		t.Errorf("%+v\nwant %+v", got, want)
	}
}

func result1(c ...sdk.Content) *sdk.CallToolResult { return &sdk.CallToolResult{Content: c} }

func TestResults(t *testing.T) {
	png := mcptest.Image()
	big := append(append([]byte{}, png...), make([]byte, maxImage)...)
	for name, c := range map[string]struct {
		in       *sdk.CallToolResult
		limit    int
		text     string // for the model
		contents int
		images   int
		shown    string // part of what an editor gets
	}{
		"nothing":      {result1(), 0, "", 0, 0, ""},
		"text":         {result1(&sdk.TextContent{Text: "a"}, &sdk.TextContent{Text: "b\n"}), 0, "a\nb", 2, 0, `{"type":"content","content":{"type":"text","text":"a"}}`},
		"JSON":         {result1(&sdk.TextContent{Text: `{"a":1}`}), 0, `{"a":1}`, 1, 0, "```json"},
		"no UTF-8":     {result1(&sdk.TextContent{Text: "a\xff"}), 0, "a\uFFFD", 1, 0, "a\uFFFD"},
		"cut":          {result1(&sdk.TextContent{Text: "äää"}, &sdk.TextContent{Text: "b"}), 5, "ää\nb\n[the result is cut: 2 more bytes were left out]", 3, 0, "is cut"},
		"picture":      {result1(&sdk.ImageContent{Data: png, MIMEType: "image/jpeg"}), 0, fmt.Sprintf("(an image of %d bytes, image/png; the user is shown it)", len(png)), 1, 1, `"mimeType":"image/png"`},
		"no picture":   {result1(&sdk.ImageContent{Data: []byte("<svg/>"), MIMEType: "image/svg+xml"}), 0, "(an image of 6 bytes, image/svg+xml; the user is shown it)", 1, 0, `"mimeType":"image/svg+xml"`},
		"big picture":  {result1(&sdk.ImageContent{Data: big, MIMEType: "image/png"}), 0, fmt.Sprintf("(an image of %d bytes, image/png; the user is shown it)", len(big)), 1, 0, "image"},
		"too big":      {result1(&sdk.AudioContent{Data: make([]byte, maxBlob+1), MIMEType: "audio/wav"}), 0, fmt.Sprintf("(audio of %d bytes, audio/wav, was too large and left out)", maxBlob+1), 1, 0, "too large"},
		"audio":        {result1(&sdk.AudioContent{Data: []byte("wav"), MIMEType: "audio/wav"}), 0, "(audio of 3 bytes, audio/wav; the user is shown it)", 1, 0, `{"data":"d2F2","mimeType":"audio/wav","type":"audio"}`},
		"link":         {result1(&sdk.ResourceLink{URI: "file:///a", Name: "a", Description: "d"}), 0, "(resource file:///a: a d)", 1, 0, `{"description":"d","name":"a","type":"resource_link","uri":"file:///a"}`},
		"resource":     {result1(&sdk.EmbeddedResource{Resource: &sdk.ResourceContents{URI: "u:b", Text: "inside"}}), 0, "resource u:b:\ninside", 1, 0, `{"resource":{"text":"inside","uri":"u:b"},"type":"resource"}`},
		"blob":         {result1(&sdk.EmbeddedResource{Resource: &sdk.ResourceContents{URI: "u:c", MIMEType: "application/zip", Blob: []byte("zip")}}), 0, "(resource u:c of 3 bytes, application/zip; the user is shown it)", 1, 0, `"blob":"emlw"`},
		"picture blob": {result1(&sdk.EmbeddedResource{Resource: &sdk.ResourceContents{URI: "u:d", Blob: png}}), 0, fmt.Sprintf("(resource u:d: an image of %d bytes, image/png; the user is shown it)", len(png)), 1, 1, `"type":"image"`},
		"structured":   {&sdk.CallToolResult{StructuredContent: map[string]any{"n": 1}}, 0, `{"n":1}`, 1, 0, "```json"},
		"both":         {&sdk.CallToolResult{Content: []sdk.Content{&sdk.TextContent{Text: "n is 1"}}, StructuredContent: map[string]any{"n": 1}}, 0, "n is 1", 1, 0, "n is 1"},
		"failed":       {&sdk.CallToolResult{IsError: true, Content: []sdk.Content{&sdk.TextContent{Text: "no"}}}, 0, "no", 1, 0, "no"},
	} {
		r := Result(c.in, c.limit)
		shown, err := json.Marshal(r.Content)
		if err != nil || r.Text != c.text || len(r.Content) != c.contents || len(r.Images) != c.images || r.Failed != c.in.IsError {
			t.Errorf("%s: %v %q, %d contents, %d images; want %q, %d, %d", name, err, r.Text, len(r.Content), len(r.Images), c.text, c.contents, c.images)
		}
		if !strings.Contains(strings.NewReplacer(`\u003c`, "<", `\u003e`, ">").Replace(string(shown)), c.shown) {
			t.Errorf("%s: shown %.300s, want %s", name, shown, c.shown)
		}
		if (c.in.StructuredContent != nil) != (r.Raw != nil) {
			t.Errorf("%s: rawOutput %v", name, r.Raw)
		}
	}
	many := result1()
	for range maxImages + 3 {
		many.Content = append(many.Content, &sdk.ImageContent{Data: png, MIMEType: "image/png"})
	}
	if r := Result(many, 0); len(r.Images) != maxImages || len(r.Content) != maxImages+3 {
		t.Errorf("%d images, %d contents", len(r.Images), len(r.Content))
	}
}

// Whatever a server puts into an answer, what is told and what is shown of it
// has a limit, and it is said that there was more.
func TestNothingOfAResultIsWithoutALimit(t *testing.T) {
	long := strings.Repeat("x", 200<<10)
	repeat := func(n int, c func(i int) sdk.Content) *sdk.CallToolResult {
		res := result1()
		for i := range n {
			res.Content = append(res.Content, c(i))
		}
		return res
	}
	for name, c := range map[string]struct {
		in   *sdk.CallToolResult
		want string // how much was left out
	}{
		"links": {repeat(1_000, func(i int) sdk.Content {
			return &sdk.ResourceLink{URI: fmt.Sprintf("file:///%d", i), Name: strings.Repeat("n", 1000), Description: strings.Repeat("d", 1500)}
		}), "more parts were left out]"},
		"small links": {repeat(1_000, func(i int) sdk.Content { return &sdk.ResourceLink{URI: fmt.Sprint("u:", i), Name: "n"} }), "[the result is cut: 500 more parts were left out]"},
		"long fields": {repeat(10, func(int) sdk.Content { return &sdk.ResourceLink{URI: "u:", Name: long, Title: long, MIMEType: long} }), ""},
		"long URIs":   {repeat(10, func(int) sdk.Content { return &sdk.ResourceLink{URI: long} }), "(a resource whose URI has 204800 bytes was left out)"},
		"texts":       {repeat(1_000, func(int) sdk.Content { return &sdk.TextContent{Text: "t"} }), "[the result is cut: 500 more bytes were left out]"},
		"a long text": {repeat(1, func(int) sdk.Content { return &sdk.TextContent{Text: long} }), fmt.Sprintf("[the result is cut: %d more bytes were left out]", len(long)-DefaultResultLimit)},
		"control":     {repeat(1, func(int) sdk.Content { return &sdk.TextContent{Text: strings.Repeat("\x01", 1<<20)} }), "more bytes were left out]"},
		"resources": {repeat(1_000, func(int) sdk.Content {
			return &sdk.EmbeddedResource{Resource: &sdk.ResourceContents{URI: "u:" + strings.Repeat("r", 1900), Text: "t"}}
		}), "bytes and "},
		"empty": {repeat(1_000, func(int) sdk.Content { return &sdk.EmbeddedResource{Resource: &sdk.ResourceContents{URI: "u:"}} }), "[the result is cut: 500 more parts were left out]"},
		"resource URIs": {repeat(5, func(int) sdk.Content {
			return &sdk.EmbeddedResource{Resource: &sdk.ResourceContents{URI: long, Blob: []byte("z")}}
		}), "(a resource whose URI has 204800 bytes was left out)"},
		"small sounds": {repeat(1_000, func(int) sdk.Content { return &sdk.AudioContent{Data: []byte("wav"), MIMEType: "audio/wav"} }), "more parts were left out]"},
		"sounds":       {repeat(20, func(int) sdk.Content { return &sdk.AudioContent{Data: make([]byte, 1<<20), MIMEType: "audio/wav"} }), "(audio of 1048576 bytes, audio/wav, was too large and left out)"},
		"types":        {repeat(20, func(int) sdk.Content { return &sdk.AudioContent{Data: []byte("wav"), MIMEType: long} }), ""},
		"pictures": {repeat(5, func(int) sdk.Content {
			return &sdk.ImageContent{Data: append(mcptest.Image(), make([]byte, maxImage-100)...), MIMEType: "image/png"}
		}), "image/png, was too large and left out)"},
		"blobs": {repeat(1_000, func(int) sdk.Content {
			return &sdk.EmbeddedResource{Resource: &sdk.ResourceContents{URI: "u:", MIMEType: "a/b", Blob: []byte("zip")}}
		}), "more parts were left out]"},
		"structured": {&sdk.CallToolResult{StructuredContent: map[string]any{"x": long}}, "more bytes were left out]"},
		"everything": {&sdk.CallToolResult{StructuredContent: map[string]any{"x": strings.Repeat("x", 90_000)}, Content: []sdk.Content{
			&sdk.AudioContent{Data: make([]byte, 9_000_000), MIMEType: "a/b"}, &sdk.TextContent{Text: strings.Repeat("\x01", 90_000)}, &sdk.TextContent{Text: long}}}, "more bytes were left out]"},
		//lint:ignore SA1019 a block of a kind that is passed over
		"unknown": {repeat(1_000, func(int) sdk.Content { return &sdk.ToolUseContent{} }), "[the result is cut: 500 more parts were left out]"},
	} {
		r := Result(c.in, 0)
		images := 0
		for _, i := range r.Images {
			images += len(i.Data)
		}
		shown := len(encode(r.Content)) + len(encode(r.Raw))
		if len(r.Text) > DefaultResultLimit+maxParts+100 || shown > maxBlob+DefaultResultLimit+maxParts+200 || len(r.Content) > maxParts+1 || images > maxBlob {
			t.Errorf("%s: %d bytes told, %d shown in %d parts, pictures of %d bytes", name, len(r.Text), shown, len(r.Content), images)
		}
		if last := r.Content[len(r.Content)-1]; c.want != "" && (!strings.Contains(r.Text, c.want) || strings.HasPrefix(c.want, "[") && last.Text != c.want) {
			t.Errorf("%s: it ends with %.200q %s, want %q", name, r.Text[max(0, len(r.Text)-200):], encode(last), c.want)
		}
	}
	// What the user lets in is let in.
	if r := Result(repeat(1, func(int) sdk.Content { return &sdk.TextContent{Text: strings.Repeat("\x01", 3<<20)} }), 3<<20); len(encode(r.Content)) > maxBlob+3<<20+maxParts+200 || len(r.Text) < 2<<20 {
		t.Errorf("%d bytes told, %d shown", len(r.Text), len(encode(r.Content)))
	}
}

func TestRedact(t *testing.T) {
	s := Server{URL: "https://user:pass4word@host:1/very/long-key-in-the-path/mcp?key=abcdefg&x=1", Env: []Pair{{"A", "hunter22"}, {"B", "1"}}, Headers: []Pair{{"Authorization", "Bearer tok-en-1"}}}
	for in, want := range map[string]string{
		`Post "` + s.URL + `": EOF`:                     `Post "https://host:1": EOF`,
		"it said hunter22 and tok-en-1 and 1":           "it said … and … and 1",
		"Bearer tok-en-1":                               "…",
		"pass4word, long-key-in-the-path, key=abcdefg.": "…, …, key=….",
	} {
		if got := s.redact(in); got != want {
			t.Errorf("%q: %q, want %q", in, got, want)
		}
	}
	if got := (Server{}).redact("as it is"); got != "as it is" {
		t.Error(got)
	}
	// As it is quoted, and as it stands in a URL.
	s = Server{URL: "https://h/mcp?a=1&k=x%2Fy%2Fz%2F1", Env: []Pair{{"A", `pass"word\1`}}}
	if got := s.redact(fmt.Sprintf("%q, %q; x%%2Fy%%2Fz%%2F1", s.Env[0].Value, "https://h/mcp?a=1&k=x%2Fy%2Fz%2F1")); got != `"…", "https://h"; …` {
		t.Error(got)
	}
}

// Wherever a text was cut, before we had it or by us, nothing of a secret is
// left that would be of use.
func TestNoPieceOfASecretIsToldWhereverATextWasCut(t *testing.T) {
	const token = "abcdefghijklmnopqrstuvwxyz0123456789"
	s := Server{Env: []Pair{{"T", token}, {"U", token[10:]}, {"V", "x" + token + "x"}}}
	clear := func(what, got string) {
		t.Helper()
		for i := range len(token) - minPiece + 1 {
			if strings.Contains(got, token[i:i+minPiece]) {
				t.Fatalf("%s: %q", what, got)
			}
		}
	}
	text := "no such key: " + token + ", try another"
	for i := range text {
		for j := i; j <= len(text); j++ {
			clear("a window", s.redact(text[i:j]))
			clear("a window, on", s.fit(text[i:j]+"\n \t", 1000))
		}
	}
	for n := range 600 {
		text := strings.Repeat("y", n) + " " + token + " is no key"
		clear("cut by us", s.fit(text, 300))
		clear("an error", s.short(errors.New(`calling "tools/call": `+text)).Error())
		clear("cut unseen", s.fit(strings.Repeat(" ", maxToRedact-20-n%40)+text, 300))
	}
	if got := s.fit("colours\x00 \n and  lines, "+token, 300); got != "colours\uFFFD and lines, …" {
		t.Error(got)
	}
	for _, said := range []string{
		"fatal: " + strings.Repeat("x", 280) + token + "\n",              // cut at the end of the line
		"fatal: " + token + strings.Repeat(" x", stderrKept/2-10) + "\n", // cut where it is no more kept
		"fatal: " + strings.Repeat(token, 300) + "\n",
		"\x1b[31m" + token[:20] + "\x1b[0m" + token[20:] + "\n",
		token,
	} {
		for kept := stderrKept - 40; kept < stderrKept; kept++ {
			tail := process.NewTail(kept)
			_, _ = tail.Write([]byte(said))
			clear("stderr", s.lastWords(tail))
		}
	}
}

// What a server says of its tools chooses words; only vouched for by the user
// it makes a call run unasked.
func TestHintsAllowNothing(t *testing.T) {
	yes := true
	set := &Set{servers: []*server{newServer(Server{Name: "x"}, Options{}), newServer(Server{Name: "mine", Trusted: true}, Options{})}}
	for _, s := range set.servers {
		tools := readTools(s.spec.Name, []*sdk.Tool{
			{Name: "plain"}, {Name: "reads", Annotations: &sdk.ToolAnnotations{ReadOnlyHint: true}},
			{Name: "fetches", Annotations: &sdk.ToolAnnotations{ReadOnlyHint: true, OpenWorldHint: &yes}},
			{Name: "destroys", Annotations: &sdk.ToolAnnotations{DestructiveHint: &yes}},
			{Name: "both", Annotations: &sdk.ToolAnnotations{ReadOnlyHint: true, DestructiveHint: &yes}},
		})
		s.change(func(c *condition) { c.state, c.tools, c.known = Ready, tools, tools })
	}
	for _, c := range []struct {
		server, tool, kind string
		class              tool.Class
	}{
		{"x", "plain", "other", tool.Calling}, {"x", "reads", "read", tool.Calling}, {"x", "fetches", "fetch", tool.Calling},
		{"x", "destroys", "other", tool.Calling}, {"x", "both", "read", tool.Calling},
		{"mine", "plain", "other", tool.Calling}, {"mine", "reads", "read", tool.Free}, {"mine", "destroys", "other", tool.Calling},
	} {
		a, err := set.plan(c.server, c.tool, json.RawMessage(`{"a":1}`))
		if err != nil {
			t.Fatal(err)
		}
		if a.Kind != c.kind || a.Need.Class != c.class || fmt.Sprint(a.Need.Grants) != "["+c.server+"/"+c.tool+"]" || a.Title != c.server+": "+c.tool {
			t.Errorf("%s/%s: %+v", c.server, c.tool, a)
		}
		// Through the generic tool it is the same.
		g, err := callTool{set}.Plan(t.Context(), nil, json.RawMessage(fmt.Sprintf(`{"server":%q,"tool":%q,"arguments":"{\"a\":1}"}`, c.server, c.tool)))
		if err != nil || g.Need.Class != a.Need.Class || g.Need.Grants[0] != a.Need.Grants[0] || g.Title != a.Title || fmt.Sprint(g.Content) != fmt.Sprint(a.Content) {
			t.Errorf("%s/%s through mcp_call: %+v %v", c.server, c.tool, g, err)
		}
	}
	for args, want := range map[string]string{`[1]`: "must be a JSON object", `"x"`: "must be a JSON object"} {
		if _, err := set.plan("x", "plain", json.RawMessage(args)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v", args, err)
		}
	}
	for args, want := range map[string]string{
		`{"server":"y","tool":"a"}`: `there is no MCP server "y" in this session: there are mine, x`,
		`{"server":"x","tool":"a"}`: `the MCP server "x" has no tool "a"`,
		`{"sever":"x"}`:             `unknown field "sever"`,
	} {
		set.servers[0], set.servers[1] = set.server("mine"), set.server("x")
		if _, err := (callTool{set}).Plan(t.Context(), nil, json.RawMessage(args)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v", args, err)
		}
	}
}

func TestNoTwoToolsHaveOneGrant(t *testing.T) {
	if a, b := grantName("a", "b"), "a/b"; a != b {
		t.Errorf("%s, want %s", a, b)
	}
	seen := map[string]bool{}
	for _, c := range [][2]string{{"a", "b/c"}, {"a/b", "c"}, {"a/b/c", ""}, {"", "a/b/c"}, {"a", "b"}, {"/", "/"}} {
		if g := grantName(c[0], c[1]); seen[g] {
			t.Errorf("%q: %s is another one's", c, g)
		} else {
			seen[g] = true
		}
	}
}

func TestMcpToolsListsAndDescribes(t *testing.T) {
	set := &Set{}
	list := listTool{set}
	run := func(args string) string {
		t.Helper()
		a, err := list.Plan(t.Context(), nil, json.RawMessage(args))
		if err != nil {
			return err.Error()
		}
		if a.Need.Class != tool.Free {
			t.Error("it is asked about")
		}
		r, err := a.Run(t.Context(), nil)
		if err != nil {
			t.Fatal(err)
		}
		return r.Text
	}
	if got := run("{}"); got != "There is no MCP server in this session." {
		t.Error(got)
	}
	for _, name := range []string{"a", "b", "c"} {
		set.servers = append(set.servers, newServer(Server{Name: name}, Options{}))
	}
	tools := readTools("a", []*sdk.Tool{{Name: "one", Description: "First.\nMore.", InputSchema: map[string]any{"type": "object"}}, {Name: "two"}})
	set.servers[0].change(func(c *condition) { c.state, c.tools, c.known = Ready, tools, tools })
	set.servers[1].change(func(c *condition) { c.state, c.reason = Failed, "it is broken" })
	for args, want := range map[string]string{
		`{}`:                          "“a” (2 tools):\n- one: First.\n- two\n“b” does not work: it is broken\n“c” is starting.\n",
		`{"server":"b"}`:              "“b” does not work: it is broken\n",
		`{"server":"a","tool":"one"}`: "one of “a”\n\nFirst.\nMore.\n\nIts arguments, as JSON schema:\n{\"type\":\"object\"}",
		`{"server":"c","tool":"one"}`: "The MCP server “c” is not ready: nothing is known of its tools yet.",
		`{"server":"a","tool":"no"}`:  `the MCP server "a" has no tool "no"`,
		`{"tool":"one"}`:              "reading the arguments: a tool needs its server",
		`{"server":"z"}`:              `there is no MCP server "z" in this session: there are a, b, c`,
	} {
		if got := run(args); got != want {
			t.Errorf("%s: %q, want %q", args, got, want)
		}
	}
}

func TestADescriptionHasALimit(t *testing.T) {
	set := &Set{servers: []*server{newServer(Server{Name: "a"}, Options{})}}
	tools := readTools("a", []*sdk.Tool{{Name: "one", Description: strings.Repeat("d", 1<<20), InputSchema: map[string]any{"type": "object", "x": strings.Repeat("x", 1<<20)}}})
	set.servers[0].change(func(c *condition) { c.state, c.tools, c.known = Ready, tools, tools })
	if text := (listTool{set}).describe("a", "one"); len(text) > 2*maxList || !strings.HasSuffix(text, "and cut.)") {
		t.Errorf("%d bytes, %s", len(text), text[len(text)-50:])
	}
}

// Of a server that ends again and again the pauses grow, then it is left alone
// until somebody wants it; a call of it fails meanwhile, and does not hang.
func TestPausesGrowAndSomebodyWhoWantsAServerHasItTried(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var tries []time.Duration
		began := time.Now()
		broken := errors.New("broken")
		set := Open([]Server{{Name: "x"}}, Options{dial: func(context.Context, *server) (*link, error) {
			tries = append(tries, time.Since(began).Round(time.Second))
			return nil, broken
		}})
		defer set.Close()
		time.Sleep(time.Hour)
		synctest.Wait()
		if want := "[0s 1s 3s 7s 15s 31s]"; fmt.Sprint(tries) != want {
			t.Errorf("tried after %v, want %v", tries, want)
		}
		_, err := set.Call(t.Context(), "x", "y", nil, nil, nil)
		if err == nil || err.Error() != "the MCP server “x” does not work: broken" || len(tries) != 7 {
			t.Errorf("%v, %d tries", err, len(tries))
		}
		for range 10 { // as fast as they like
			_, _ = set.Call(t.Context(), "x", "y", nil, nil, nil)
		}
		if d := time.Since(began) - time.Hour; len(tries) != 17 || d < 9*time.Second || d > 11*time.Second {
			t.Errorf("%d tries in %v", len(tries), d)
		}
		set.Nudge()
		time.Sleep(2 * time.Second)
		synctest.Wait()
		if len(tries) != 18 {
			t.Errorf("%d tries", len(tries))
		}
	})
}

// A server that comes and goes is told of once.
func TestAServerThatComesAndGoesIsToldOfOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		said := newSaid()
		lives := []time.Duration{time.Second, time.Second, time.Second, time.Hour, time.Hour}
		set := Open([]Server{{Name: "x"}}, Options{Tell: said.tell, dial: func(ctx context.Context, s *server) (*link, error) {
			if len(lives) == 0 {
				<-ctx.Done()
				return nil, ctx.Err()
			}
			life := lives[0]
			lives = lives[1:]
			return inMemory(t, ctx, s, life)
		}})
		defer set.Close()
		time.Sleep(30 * time.Minute)
		synctest.Wait()
		told := said.all()
		if len(told) != 2 || !strings.Contains(told[0], "does not work") || !strings.Contains(told[1], "works again") {
			t.Errorf("%q", told)
		}
		time.Sleep(100 * time.Minute) // two long lives later
		synctest.Wait()
		told = said.all()
		if len(told) != 5 || !strings.Contains(told[2], "does not work") || !strings.Contains(told[4], "does not work") {
			t.Errorf("%q", told)
		}
	})
}

// inMemory is a link to a server that lives for a time.
func inMemory(t *testing.T, ctx context.Context, s *server, life time.Duration) (*link, error) {
	t.Helper()
	near, far := sdk.NewInMemoryTransports()
	session, err := mcptest.New().Connect(context.Background(), far, nil)
	if err != nil {
		return nil, err
	}
	time.AfterFunc(life, func() { session.Close() })
	return Options{Cwd: "/"}.handshake(ctx, s, near, func() { session.Close() })
}

func TestStreamsWithEventIDsAreLeftToTheSDK(t *testing.T) {
	for in, ids := range map[string]bool{
		"data: x\n\n":                false,
		"id: 1\ndata: x\n\n":         true,
		"event: m\r\nid:1\r\n\r\n":   true,
		"data: id: 1\n\n":            false,
		"i\nid\nid":                  false,
		"data:\n\n\nid: 3":           true,
		strings.Repeat("x\n", 5000):  false,
		strings.Repeat("\n", 5) + "": false,
	} {
		for _, size := range []int{1, 2, 3, 7, 100_000} {
			_, w := watched(t.Context())
			s := &watchedStream{ReadCloser: io.NopCloser(strings.NewReader(in)), watch: w, bol: true}
			if _, err := io.CopyBuffer(struct{ io.Writer }{io.Discard}, s, make([]byte, size)); err != nil {
				t.Fatal(err)
			}
			lost := false
			select {
			case <-w.lost:
				lost = true
			default:
			}
			if s.ids != ids || lost == ids {
				t.Errorf("%.20q in pieces of %d: ids %v, lost %v", in, size, s.ids, lost)
			}
		}
	}
}

func FuzzLines(f *testing.F) {
	for _, seed := range []string{"", "\n", "{}\n", "[]\n[1]\n", "\ufeff{\"jsonrpc\":\"2.0\",\"id\":1,\"result\":{}}\r\n", "{\"jsonrpc\":\"2.0\",\"method\":\"x\"}", "[{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"x\"},3]"} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, in []byte) {
		r := bufio.NewReaderSize(bytes.NewReader(in), 16)
		whole := 0
		for {
			line, err := readLine(r)
			whole += len(line)
			if line = bytes.TrimSpace(line); len(line) > 0 {
				messages(line)
			}
			if err != nil {
				break
			}
		}
		if whole != len(in) {
			t.Errorf("%d bytes of %d were read", whole, len(in))
		}
	})
}

func FuzzFullName(f *testing.F) {
	f.Add("a", "b", "a", "c")
	f.Add("a__b", "c", "a", "b__c")
	f.Add("a_", "c", "a", "_c")
	f.Fuzz(func(t *testing.T, s1, t1, s2, t2 string) {
		a, b := FullName(s1, t1), FullName(s2, t2)
		if len(a) > maxName || plain(a) != a || (a == b) != (s1 == s2 && t1 == t2) {
			t.Errorf("%q/%q %q, %q/%q %q", s1, t1, a, s2, t2, b)
		}
	})
}
