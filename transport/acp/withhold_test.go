package acp

import (
	"encoding/json"
	"strings"
	"testing"
)

func TestSecretsOfMCPServersAreWithheldAndNothingElseChanged(t *testing.T) {
	for name, tc := range map[string]struct{ in, want string }{
		"nothing":          {``, ``},
		"none":             {`[]`, `[]`},
		"null":             {`null`, `null`},
		"no list":          {`{"a":1}`, `{"a":1}`},
		"without a secret": {`[ {"name":"a" , "command":"x","args":["--y"],"env":[]} ]`, `[ {"name":"a" , "command":"x","args":["--y"],"env":[]} ]`},
		"empty values":     {`[{"name":"a","command":"x","env":[{"name":"E","value":""}]}]`, `[{"name":"a","command":"x","env":[{"name":"E","value":""}]}]`},
		"environment": {
			`[{"name":"a","command":"x","args":["k"],"env":[{"name":"E","value":"PLANTED","x":1.0},{"name":"F","value":""}],"_meta":{"b":1e2}}]`,
			`[{"name":"a","command":"x","args":["k"],"env":[{"name":"E","value":"(not kept)","x":1.0},{"name":"F","value":""}],"_meta":{"b":1e2}}]`},
		"headers": {
			`[{"type":"http","name":"a","url":"http://x","headers":[{"name":"Authorization","value":"Bearer PLANTED"}]},{"name":"b","command":"y"}]`,
			`[{"type":"http","name":"a","url":"http://x","headers":[{"name":"Authorization","value":"(not kept)"}]},{"name":"b","command":"y"}]`},
	} {
		got := WithholdSecrets(json.RawMessage(tc.in))
		if string(got) != tc.want {
			t.Errorf("%s: %s", name, got)
		}
		if again := WithholdSecrets(got); string(again) != string(got) {
			t.Errorf("%s: a second time %s", name, again)
		}
		if has := strings.Contains(tc.in, "PLANTED"); IsWithheld(got) != has || IsWithheld(json.RawMessage(tc.in)) {
			t.Errorf("%s: withheld %v", name, IsWithheld(got))
		}
	}
}

func FuzzWithholdSecrets(f *testing.F) {
	for _, s := range []string{`[]`, `[{"name":"a","command":"x","env":[{"name":"E","value":"v"}]}]`, `[{"type":"sse","name":"a","url":"http://x","headers":[{"name":"H","value":"v"},{"value":"w"}]}]`, `[1,{"env":[2]}]`} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		if !json.Valid(b) {
			return
		}
		all, _, err := parseMCPServers(b)
		clean := WithholdSecrets(b)
		if !json.Valid(clean) {
			t.Fatalf("%s became %s", b, clean)
		}
		if err != nil {
			return
		}
		again, err := ParseMCPServers(clean)
		if err != nil || len(again) != len(all) {
			t.Fatalf("%s became %s: %v", b, clean, err)
		}
		for i := range again {
			for j, pairs := range [][]Pair{again[i].Env, again[i].Headers} {
				for k, p := range pairs {
					if before := [][]Pair{all[i].Env, all[i].Headers}[j][k]; p.Name != before.Name || p.Value != Withheld && p.Value != "" {
						t.Errorf("%s keeps %+v", clean, p)
					}
				}
			}
		}
	})
}
