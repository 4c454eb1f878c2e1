package acp

import (
	"encoding/json"
	"reflect"
	"strings"
	"testing"
)

func TestObjectsKeepBytesAndOrder(t *testing.T) {
	obj := `{ "b" : 1.0, "a":"<&>\u2028" ,"z":[1, 2], "a":null}`
	for _, tc := range []struct{ name, got, want string }{
		{"set in place", string(Set([]byte(obj), "b", []byte("2"))), `{"b":2,"a":"<&>\u2028","z":[1, 2],"a":null}`},
		{"set at the end", string(Set([]byte(`{"b":1e3}`), "n\n", []byte(`"x"`))), `{"b":1e3,"n\n":"x"}`},
		{"set the one that counts, once", string(Set([]byte(obj), "a", []byte("7"))), `{"b":1.0,"z":[1, 2],"a":7}`},
		{"set in nothing", string(Set(nil, "a", []byte("7"))), `{"a":7}`},
		{"delete all of a name", string(Delete([]byte(obj), "a")), `{"b":1.0,"z":[1, 2]}`},
		{"delete what is not there", string(Delete([]byte(obj), "q")), obj},
		{"delete the last", string(Delete([]byte(`{"a":1}`), "a")), `{}`},
		{"overlay", string(Overlay([]byte(`{"a":1.0,"u":{"x":[]},"c":3}`), []byte(`{"n":0,"c":null,"a":{"k":1}}`))), `{"a":{"k":1},"u":{"x":[]},"c":null,"n":0}`},
		{"overlay by meaning of names", string(Overlay([]byte(`{"\u0061":1}`), []byte(`{"a":2}`))), `{"\u0061":2}`},
		{"overlay on nothing", string(Overlay(nil, []byte(`{"a":2}`))), `{"a":2}`},
		{"overlay of nothing", string(Overlay([]byte(`{"a":2}`), nil)), `{"a":2}`},
	} {
		t.Run(tc.name, func(t *testing.T) {
			if tc.got != tc.want {
				t.Errorf("got  %s\nwant %s", tc.got, tc.want)
			}
		})
	}
	if v, ok := Get([]byte(obj), "a"); !ok || string(v) != "null" {
		t.Errorf("the last of a name counts: got %s", v)
	}
	if v, ok := GetPath([]byte(`{"_meta":{"hermes":{"agent":"x"}}}`), "_meta", "hermes", "agent"); !ok || string(v) != `"x"` {
		t.Errorf("got %s", v)
	}
	if _, ok := GetPath([]byte(`{"_meta":[]}`), "_meta", "hermes"); ok {
		t.Error("found a member of an array")
	}
}

func TestGettingAMemberDoesNotLetItGrowIntoTheNext(t *testing.T) {
	obj := []byte(`{"a":[1],"b":2}`)
	v, _ := Get(obj, "a")
	_ = append(v, "XXXX"...)
	if string(obj) != `{"a":[1],"b":2}` {
		t.Errorf("overwritten: %s", obj)
	}
}

func TestMergeToolCall(t *testing.T) {
	call := `{"sessionUpdate":"tool_call","toolCallId":"t","title":"Read","kind":"read","status":"pending","future":{"x":null},"_meta":{"a":1,"b":2}}`
	for _, tc := range []struct{ name, base, patch, want string }{
		{"status and content", call, `{"sessionUpdate":"tool_call_update","toolCallId":"t","status":"completed","content":[{"type":"content"}]}`,
			`{"sessionUpdate":"tool_call","toolCallId":"t","title":"Read","kind":"read","status":"completed","future":{"x":null},"_meta":{"a":1,"b":2},"content":[{"type":"content"}]}`},
		{"null and wrong types change nothing", call, `{"title":5,"kind":null,"status":[],"content":null,"rawOutput":null,"locations":{},"_meta":null}`, call},
		{"a list is replaced, not extended", `{"sessionUpdate":"tool_call","content":[1,2]}`, `{"content":[]}`, `{"sessionUpdate":"tool_call","content":[]}`},
		{"_meta by key", call, `{"_meta":{"b":{"n":1},"c":3}}`,
			`{"sessionUpdate":"tool_call","toolCallId":"t","title":"Read","kind":"read","status":"pending","future":{"x":null},"_meta":{"a":1,"b":{"n":1},"c":3}}`},
		{"what we do not know is overlaid", call, `{"future":null,"level":3}`,
			`{"sessionUpdate":"tool_call","toolCallId":"t","title":"Read","kind":"read","status":"pending","future":null,"_meta":{"a":1,"b":2},"level":3}`},
		{"without a call before", ``, `{"sessionUpdate":"tool_call_update","toolCallId":"t","title":7,"status":"failed"}`,
			`{"sessionUpdate":"tool_call","toolCallId":"t","status":"failed"}`},
	} {
		t.Run(tc.name, func(t *testing.T) {
			if got := string(MergeToolCall([]byte(tc.base), []byte(tc.patch))); got != tc.want {
				t.Errorf("got  %s\nwant %s", got, tc.want)
			}
		})
	}
}

func TestBuilderAndList(t *testing.T) {
	var o Builder
	o.String("s", "a\"b").Int("n", -3).Bool("t", true).Raw("none", nil).Raw("r", []byte(`[1]`)).Strings("l", []string{"x", "y\n"})
	if got, want := string(o.JSON()), `{"s":"a\"b","n":-3,"t":true,"r":[1],"l":["x","y\n"]}`; got != want {
		t.Errorf("got  %s\nwant %s", got, want)
	}
	var none Builder
	if got := string(none.JSON()); got != "{}" {
		t.Errorf("got %s", got)
	}
	all, ok := Elements([]byte(` [ 1 , {"a":[2]} ,"x" ] `))
	if !ok || string(List(all...)) != `[1,{"a":[2]},"x"]` {
		t.Errorf("got %s", List(all...))
	}
	for _, broken := range []string{``, `{}`, `[1`, `[1 2]`, `[,]`} {
		if _, ok := Elements([]byte(broken)); ok {
			t.Errorf("%s is an array", broken)
		}
	}
}

func TestValidUnicode(t *testing.T) {
	for _, tc := range []struct{ name, in, want string }{
		{"plain", `"a\nb"`, `"a\nb"`},
		{"pair", `"\ud83d\ude00"`, `"\ud83d\ude00"`},
		{"high alone", `"cut \ud83d here"`, `"cut \ufffd here"`},
		{"high at the end", `"\uD83D"`, `"\ufffd"`},
		{"low alone", `"\ude00\ud83d\ude00"`, `"\ufffd\ud83d\ude00"`},
		{"two lows", `"\ude00\ude00"`, `"\ufffd\ufffd"`},
		{"two highs", `"\ud83d\ud83d\ude00"`, `"\ufffd\ud83d\ude00"`},
		{"escaped backslash before u", `"\\ud83d"`, `"\\ud83d"`},
		{"three backslashes", `"\\\ud83d"`, `"\\\ufffd"`},
		{"cut off", `"\ud8`, `"\ud8`},
	} {
		t.Run(tc.name, func(t *testing.T) {
			in := []byte(tc.in)
			if got := string(ValidUnicode(in)); got != tc.want {
				t.Errorf("got %s, want %s", got, tc.want)
			}
			if string(in) != tc.in {
				t.Error("the input was written to")
			}
		})
	}
}

func TestCutTextNeverSplitsACharacter(t *testing.T) {
	inner := `aé😀\n\\\"\u00e9\ud83d\ude00\ud83dx\\u0041` + strings.Repeat("0", 30)
	for limit := -1; limit <= len(inner)+1; limit++ {
		n := CutText([]byte(inner), limit)
		if n > max(limit, 0) {
			t.Fatalf("cut %d is beyond %d", n, limit)
		}
		whole := text([]byte(inner))
		if got := text([]byte(inner[:n])) + text([]byte(inner[n:])); got != whole {
			t.Errorf("cut at %d of %d: %q", n, limit, inner[:n])
		}
		if limit > 12 && n < limit-12 {
			t.Errorf("cut at %d although %d is allowed", n, limit)
		}
	}
}

func FuzzOverlayMeansWhatMapsMean(f *testing.F) {
	f.Add([]byte(`{"a":1,"b":{"c":[]}}`), []byte(`{"b":null,"d":"x"}`), "a")
	f.Add([]byte(`{"\u0061":1,"a":2}`), []byte(`{ "a" : 3 }`), "\n")
	f.Add([]byte(`[]`), []byte(`{`), "")
	f.Fuzz(func(t *testing.T, base, patch []byte, name string) {
		overlaid := Overlay(base, patch)
		MergeToolCall(base, patch)
		set, del := Set(base, name, []byte("1")), Delete(base, name)
		var b, p map[string]any
		if json.Unmarshal(base, &b) != nil || json.Unmarshal(patch, &p) != nil || b == nil || p == nil {
			return
		}
		if !validText(base) || !validText(patch) || !validText([]byte(name)) {
			return
		}
		same := func(what string, got []byte, want map[string]any) {
			var m map[string]any
			if err := json.Unmarshal(got, &m); err != nil {
				t.Fatalf("%s: %v: %s", what, err, got)
			}
			if !reflect.DeepEqual(m, want) {
				t.Errorf("%s: got %v, want %v", what, m, want)
			}
		}
		clone := func() map[string]any {
			c := make(map[string]any, len(b))
			for k, v := range b {
				c[k] = v
			}
			return c
		}
		want := clone()
		for k, v := range p {
			want[k] = v
		}
		same("overlay", overlaid, want)
		want = clone()
		want[name] = 1.0
		same("set", set, want)
		want = clone()
		delete(want, name)
		same("delete", del, want)
	})
}

// validText reports whether encoding/json keeps every string of b as it is.
func validText(b []byte) bool {
	return strings.ToValidUTF8(string(b), "") == string(b) && string(ValidUnicode(b)) == string(b)
}

func FuzzCutText(f *testing.F) {
	f.Add(`a\ud83d\ude00\\é`, 7)
	f.Fuzz(func(t *testing.T, s string, limit int) {
		quoted, err := json.Marshal(s)
		if err != nil {
			return
		}
		inner := quoted[1 : len(quoted)-1]
		n := CutText(inner, limit)
		if n < 0 || n > len(inner) || limit < len(inner) && n > max(limit, 0) {
			t.Fatalf("cut at %d of %d", n, limit)
		}
		if text(inner[:n])+text(inner[n:]) != text(inner) {
			t.Errorf("cut at %d splits %q", n, inner)
		}
	})
}
