package acp

import (
	"errors"
	"reflect"
	"testing"
)

func TestFileURIs(t *testing.T) {
	for _, tc := range []struct {
		goos, uri, path string
		from, to        int
	}{
		{"windows", `file:///C:/Users/u/a%20b.txt`, `C:\Users\u\a b.txt`, 0, 0},
		{"windows", `file:///c:/x.go#L3`, `c:\x.go`, 3, 3},
		{"windows", `C:\x\y.txt`, `C:\x\y.txt`, 0, 0},
		{"windows", `file://server/share/f.txt`, `\\server\share\f.txt`, 0, 0},
		{"windows", `file:///C%3A/x`, `C:\x`, 0, 0},
		{"windows", `file://C:/x`, `C:\x`, 0, 0},
		{"windows", `file:////server/share/f`, `\\server\share\f`, 0, 0},
		{"windows", `file://localhost/C:/x`, `C:\x`, 0, 0},
		{"windows", `\\?\C:\x`, `\\?\C:\x`, 0, 0},
		{"linux", `file:///C:/x`, `/C:/x`, 0, 0},
		{"linux", `file:///home/u/a%20b#L1-L3`, `/home/u/a b`, 1, 3},
		{"linux", `file:///a#L4:25`, `/a`, 4, 4},
		{"linux", `file:///a?symbol=X#L10:2-L12:9`, `/a`, 10, 12},
		{"linux", `file:///a#L7-9`, `/a`, 7, 9},
		{"linux", `file:///a#L9-L7`, `/a`, 9, 9},
		{"linux", `file:///a#section`, `/a`, 0, 0},
		{"linux", `file:///a#L`, `/a`, 0, 0},
		{"linux", `file:///a%23b`, `/a#b`, 0, 0},
		{"linux", `file:///100%.txt`, `/100%.txt`, 0, 0},
		{"linux", `FILE://localhost/a`, `/a`, 0, 0},
		{"linux", `file:/a`, `/a`, 0, 0},
		{"linux", `/plain/a b#c`, `/plain/a b#c`, 0, 0},
		{"darwin", `file:///Users/%C3%BC`, `/Users/ü`, 0, 0},
	} {
		got, err := ParseFileURI(tc.goos, tc.uri)
		if want := (FileRef{tc.path, tc.from, tc.to}); err != nil || got != want {
			t.Errorf("%s %s: got %+v, %v; want %+v", tc.goos, tc.uri, got, err, want)
		}
	}
	for _, tc := range []struct {
		goos, uri string
		notFile   bool
	}{
		{"linux", `https://example.test/x`, true},
		{"linux", `mem://b`, true},
		{"linux", `rel/path`, true},
		{"linux", ``, true},
		{"linux", `file://other/x`, false},
		{"linux", `file:x`, false},
		{"linux", `file://x`, false},
		{"linux", `file:///%ff`, false},
		{"linux", `file:///a%00b`, false},
		{"linux", "/a\xff", false},
		{"windows", `file:///x`, false},
	} {
		_, err := ParseFileURI(tc.goos, tc.uri)
		if err == nil || errors.Is(err, ErrNotFile) != tc.notFile {
			t.Errorf("%s %s: got %v", tc.goos, tc.uri, err)
		}
	}
}

func TestFileURIRoundTrip(t *testing.T) {
	for _, tc := range []struct{ goos, path, uri string }{
		{"linux", `/home/u/a b#?%ü.txt`, `file:///home/u/a%20b%23%3F%25%C3%BC.txt`},
		{"windows", `C:\Users\a b`, `file:///C:/Users/a%20b`},
		{"windows", `\\server\share\f.txt`, `file://server/share/f.txt`},
	} {
		if got := FileURI(tc.goos, tc.path); got != tc.uri {
			t.Errorf("got %s, want %s", got, tc.uri)
		}
		if ref, err := ParseFileURI(tc.goos, tc.uri); err != nil || ref.Path != tc.path {
			t.Errorf("back: got %q, %v", ref.Path, err)
		}
	}
	if got := FileURI("windows", `\\?\C:\x`); got != `file:///C:/x` {
		t.Errorf("got %s", got)
	}
	if got := FileURI("windows", `\\?\UNC\srv\share\x`); got != `file://srv/share/x` {
		t.Errorf("got %s", got)
	}
}

func TestIsAbs(t *testing.T) {
	for p, want := range map[string]bool{`C:\p`: true, `C:/p`: true, `\\srv\share`: true, `\\?\C:\p`: true, `C:p`: false, `\p`: false, `/p`: false, `p`: false, ``: false, `C:`: false, `\\`: false, `\\\x`: false} {
		if got := IsAbs("windows", p); got != want {
			t.Errorf("windows %s: got %v", p, got)
		}
	}
	for p, want := range map[string]bool{`/p`: true, `/`: true, `p`: false, ``: false, `~/x`: false, `./`: false, `C:\Users\u\proj`: false} {
		if got := IsAbs("linux", p); got != want {
			t.Errorf("linux %s: got %v", p, got)
		}
	}
}

func TestSamePath(t *testing.T) {
	for _, tc := range []struct {
		goos, a, b string
		want       bool
	}{
		{"windows", `c:\Work\x`, `C:/work/x/`, true},
		{"windows", `\\?\C:\x`, `c:\x`, true},
		{"windows", `\\?\UNC\srv\s`, `\\SRV\s\`, true},
		{"windows", `C:\`, `c:/`, true},
		{"windows", `C:\x`, `D:\x`, false},
		{"windows", `\\srv\s`, `\\srv\t`, false},
		{"linux", `/w/a/`, `/w//b/../a`, true},
		{"linux", `/w/a`, `/w/A`, false},
		{"linux", `/w/a`, `/w/a b`, false},
	} {
		if got := SamePath(tc.goos, tc.a, tc.b); got != tc.want {
			t.Errorf("%s %s %s: got %v", tc.goos, tc.a, tc.b, got)
		}
	}
}

func TestSplitCommandKeepsBackslashes(t *testing.T) {
	for line, want := range map[string][]string{
		`"D:\Tools 1\npx.cmd" -y agent --dir C:\a\b`: {`D:\Tools 1\npx.cmd`, `-y`, `agent`, `--dir`, `C:\a\b`},
		`  agent	--acp  `:   {`agent`, `--acp`},
		`a --x='b c'd "" e`: {`a`, `--x=b cd`, ``, `e`},
	} {
		if got, err := SplitCommand(line); err != nil || !reflect.DeepEqual(got, want) {
			t.Errorf("%s: got %q, %v", line, got, err)
		}
	}
	for _, line := range []string{``, `  `, `"a`, `a 'b`} {
		if got, err := SplitCommand(line); err == nil {
			t.Errorf("%s: got %q", line, got)
		}
	}
}

func FuzzFileURI(f *testing.F) {
	f.Add("file:///C:/a%20b#L3-L4")
	f.Add("file://h/%zz")
	f.Add(`\\?\UNC\a\b`)
	f.Fuzz(func(t *testing.T, uri string) {
		for _, goos := range []string{"linux", "windows"} {
			if ref, err := ParseFileURI(goos, uri); err == nil && (!IsAbs(goos, ref.Path) || ref.To < ref.From || ref.From < 0) {
				t.Errorf("%s %q: got %+v", goos, uri, ref)
			}
			PathKey(goos, uri)
			FileURI(goos, uri)
		}
		_, _ = SplitCommand(uri)
	})
}
