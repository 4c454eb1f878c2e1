package tokens

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func newFile(t *testing.T) *File {
	t.Helper()
	return Open(filepath.Join(t.TempDir(), "network", "tokens.json"))
}

func create(t *testing.T, f *File, name string, role Role) string {
	t.Helper()
	secret, _, err := f.Create(name, role)
	if err != nil {
		t.Fatal(err)
	}
	return secret
}

func TestAFileThatIsNotThereLetsNobodyIn(t *testing.T) {
	f := newFile(t)
	for _, secret := range []string{"", "hdt_", newToken(), "x"} {
		if _, err := f.Check(secret); !errors.Is(err, ErrUnknown) {
			t.Errorf("%q: %v", secret, err)
		}
	}
	if _, err := os.Stat(filepath.Dir(f.Path())); err == nil {
		t.Error("looking made a folder")
	}
}

func TestATokenIsKnownByItsSecretAlone(t *testing.T) {
	f := newFile(t)
	a, b := create(t, f, "laptop", Control), create(t, f, "wall", Observe)
	for secret, want := range map[string]Token{a: {Name: "laptop", Role: Control}, b: {Name: "wall", Role: Observe}} {
		got, err := f.Check(secret)
		if err != nil || got.Name != want.Name || got.Role != want.Role {
			t.Errorf("got %+v, %v", got, err)
		}
		if valid, err := f.Valid(got); !valid || err != nil {
			t.Errorf("not valid: %v", err)
		}
	}
	for _, wrong := range []string{"laptop", a[:len(a)-1], a + "0", strings.ToUpper(a), " " + a, digest(a)} {
		if _, err := f.Check(wrong); !errors.Is(err, ErrUnknown) {
			t.Errorf("%q is let in: %v", wrong, err)
		}
	}
}

func TestTheFileHoldsNoSecretAndIsClosedToOthers(t *testing.T) {
	f := newFile(t)
	token := create(t, f, "laptop", Control)
	invitation, _, err := f.Invite("other", Observe, time.Minute)
	if err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile(f.Path())
	if err != nil {
		t.Fatal(err)
	}
	for _, secret := range []string{token, invitation} {
		if bytes.Contains(text, []byte(strings.TrimLeft(secret[4:], "_"))) {
			t.Errorf("%s stands in the file", secret)
		}
	}
	if runtime.GOOS == "windows" {
		return
	}
	for path, want := range map[string]os.FileMode{f.Path(): 0o600, filepath.Dir(f.Path()): 0o700 | os.ModeDir} {
		if info, err := os.Stat(path); err != nil || info.Mode() != want {
			t.Errorf("%s: %v, %v, want %v", path, info.Mode(), err, want)
		}
	}
	// Who could write to it could let anybody in.
	if _, err := f.Check(token); err != nil {
		t.Error(err)
	}
	if err := os.Chmod(f.Path(), 0o644); err != nil {
		t.Fatal(err)
	}
	for _, f := range []*File{f, Open(f.Path())} { // also by who has read it already
		if _, err := f.Check(token); err == nil || !strings.Contains(err.Error(), "chmod 600") {
			t.Errorf("a file that others can read: %v", err)
		}
	}
}

func TestARevokedTokenIsGoneForEveryProcess(t *testing.T) {
	f := newFile(t)
	secret := create(t, f, "laptop", Control)
	other := Open(f.Path()) // another process
	token, err := other.Check(secret)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := f.Revoke("laptop"); err != nil {
		t.Fatal(err)
	}
	if _, err := other.Check(secret); !errors.Is(err, ErrUnknown) {
		t.Errorf("still let in: %v", err)
	}
	if valid, err := other.Valid(token); valid || err != nil {
		t.Errorf("still valid: %v", err)
	}
	if _, err := f.Revoke("laptop"); !errors.Is(err, ErrUnknown) {
		t.Errorf("revoked twice: %v", err)
	}
	// A new token of the same name is another one.
	create(t, f, "laptop", Control)
	if valid, _ := other.Valid(token); valid {
		t.Error("the old token lives again under its name")
	}
	if _, err := f.Revoke(token.ID); !errors.Is(err, ErrUnknown) {
		t.Errorf("the old id: %v", err)
	}
}

func TestNamesAreUniqueAndHarmless(t *testing.T) {
	f := newFile(t)
	create(t, f, "laptop", Control)
	if _, _, err := f.Create("laptop", Observe); !errors.Is(err, ErrTaken) {
		t.Errorf("the name twice: %v", err)
	}
	for _, name := range []string{"", "-x", "a b", "a\nb", "ä", strings.Repeat("x", 65), "\x1b[31m"} {
		if _, _, err := f.Create(name, Control); err == nil {
			t.Errorf("%q names a token", name)
		}
		if _, _, err := f.Invite(name, Control, time.Minute); err == nil {
			t.Errorf("%q names an invitation", name)
		}
	}
}

func TestAnInvitationIsGoodOnce(t *testing.T) {
	f := newFile(t)
	create(t, f, "laptop", Control)
	invitation, _, err := f.Invite("laptop", Observe, time.Minute)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := f.Check(invitation); !errors.Is(err, ErrUnknown) {
		t.Errorf("an invitation is a token: %v", err)
	}
	var wg sync.WaitGroup
	got := make(chan string, 8)
	for range cap(got) {
		wg.Go(func() {
			token, t1, err := Open(f.Path()).Redeem(invitation)
			switch {
			case err == nil:
				if t1.Name != "laptop-2" || t1.Role != Observe {
					t.Errorf("got %+v", t1)
				}
				got <- token
			case !errors.Is(err, ErrUnknown):
				t.Error(err)
			}
		})
	}
	wg.Wait()
	if len(got) != 1 {
		t.Fatalf("%d got a token", len(got))
	}
	if t1, err := f.Check(<-got); err != nil || t1.Name != "laptop-2" {
		t.Errorf("%+v, %v", t1, err)
	}
}

func TestAnInvitationExpires(t *testing.T) {
	f := newFile(t)
	now := time.Now()
	f.now = func() time.Time { return now }
	invitation, expires, err := f.Invite("laptop", Control, time.Minute)
	if err != nil {
		t.Fatal(err)
	}
	now = expires
	if _, _, err := f.Redeem(invitation); !errors.Is(err, ErrExpired) {
		t.Errorf("at its end: %v", err)
	}
	now = expires.Add(-time.Nanosecond)
	if _, _, err := f.Redeem(invitation); err != nil {
		t.Errorf("just before its end: %v", err)
	}
	// Old ones do not pile up.
	if _, _, err := f.Invite("b", Control, time.Minute); err != nil {
		t.Fatal(err)
	}
	now = now.Add(48 * time.Hour)
	create(t, f, "c", Control)
	if c, _ := f.file.Current(); len(c.Invitations) != 0 {
		t.Errorf("%d are kept", len(c.Invitations))
	}
}

func TestManyProcessesMakeTokensAtOnce(t *testing.T) {
	f := newFile(t)
	var wg sync.WaitGroup
	for i := range 20 {
		wg.Go(func() {
			if _, _, err := Open(f.Path()).Create(fmt.Sprintf("t%d", i), Control); err != nil {
				t.Error(err)
			}
		})
	}
	wg.Wait()
	all, err := f.List()
	if err != nil || len(all) != 20 {
		t.Errorf("%d tokens, %v", len(all), err)
	}
	if left, _ := filepath.Glob(filepath.Join(filepath.Dir(f.Path()), ".tokens-*")); len(left) > 0 {
		t.Errorf("left behind: %v", left)
	}
}

const oneToken = `{"version":1,"tokens":[{"id":"tok_1","name":"a","role":"control","created":"2026-01-01T00:00:00Z","sha256":"` +
	"0000000000000000000000000000000000000000000000000000000000000000" + `"}]}`

func TestAFileThatIsNotUnderstoodLetsNobodyIn(t *testing.T) {
	if _, err := parse([]byte(oneToken)); err != nil {
		t.Fatalf("the good one: %v", err)
	}
	zeros := strings.Repeat("0", 64)
	for name, text := range map[string]string{
		"empty":            "",
		"no JSON":          "hello",
		"cut off":          oneToken[:len(oneToken)/2],
		"two documents":    oneToken + oneToken,
		"newer":            strings.Replace(oneToken, `"version":1`, `"version":2`, 1),
		"no version":       `{"tokens":[]}`,
		"unknown member":   strings.Replace(oneToken, `"name"`, `"expires":"never","name"`, 1),
		"unknown role":     strings.Replace(oneToken, `"control"`, `"root"`, 1),
		"role in capitals": strings.Replace(oneToken, `"control"`, `"Control"`, 1),
		"short hash":       strings.Replace(oneToken, zeros, zeros[1:], 1),
		"no hash":          strings.Replace(oneToken, zeros, "", 1),
		"no id":            strings.Replace(oneToken, `"tok_1"`, `""`, 1),
		"bad name":         strings.Replace(oneToken, `"name":"a"`, `"name":"a\nb"`, 1),
		"twice":            strings.Replace(oneToken, "}]", `},{"id":"tok_2","name":"b","role":"control","sha256":"`+zeros+`"}]`, 1),
		"bad invitation":   `{"version":1,"invitations":[{"name":"a","role":"x","sha256":"` + zeros + `"}]}`,
	} {
		path := filepath.Join(t.TempDir(), "tokens.json")
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		f := Open(path)
		if _, err := f.Check("hdt_x"); err == nil || errors.Is(err, ErrUnknown) {
			t.Errorf("%s: Check says %v", name, err)
		}
		if valid, err := f.Valid(Token{ID: "tok_1", Role: Control, Hash: zeros}); valid || err == nil {
			t.Errorf("%s: valid, %v", name, err)
		}
		if _, _, err := f.Create("n", Control); err == nil {
			t.Errorf("%s: is overwritten", name)
		}
		if got, _ := os.ReadFile(path); string(got) != text {
			t.Errorf("%s: was changed to %q", name, got)
		}
	}
}

func FuzzParse(f *testing.F) {
	f.Add([]byte(oneToken))
	f.Add([]byte(`{"version":1}`))
	f.Add([]byte(`{"version":1,"tokens":null,"invitations":[{"name":"a","role":"observe","expires":"2026-01-01T00:00:00Z","sha256":"` + strings.Repeat("f", 64) + `"}]}`))
	f.Fuzz(func(t *testing.T, text []byte) {
		c, err := parse(text)
		if err != nil {
			return
		}
		for _, x := range c.Tokens {
			if CheckName(x.Name) != nil || len(x.Hash) != 64 || x.Role != Control && x.Role != Observe {
				t.Errorf("let in: %+v", x)
			}
		}
	})
}

func TestACodeIsReadAsPeopleTypeIt(t *testing.T) {
	code := NewCode(newInvite(), strings.Repeat("0123456789abcdef", 4))
	text := code.String()
	for _, typed := range []string{text, strings.ToUpper(text), strings.ReplaceAll(text, "-", ""), strings.ReplaceAll(text, "-", " "), "  " + text + "\n",
		strings.NewReplacer("0", "o", "1", "l").Replace(text), strings.NewReplacer("0", "O", "1", "I").Replace(text)} {
		if got, err := ParseCode(typed); got != code || err != nil {
			t.Errorf("%q: %+v, %v, want %+v", typed, got, err, code)
		}
	}
	for _, wrong := range []string{"", text[:len(text)-1], text + "0", strings.Replace(text, text[:1], "u", 1), text + strings.Repeat("0", 1<<16), "ä"} {
		if got, err := ParseCode(wrong); err == nil || !strings.Contains(err.Error(), "hermesd pair") {
			t.Errorf("%.50q: %+v, %v", wrong, got, err)
		}
	}
}

func FuzzParseCode(f *testing.F) {
	f.Add(NewCode(newInvite(), strings.Repeat("fedcba9876543210", 4)).String())
	f.Add("0000000-0000000-0000000-0000000")
	f.Fuzz(func(t *testing.T, s string) {
		c, err := ParseCode(s)
		if err != nil {
			return
		}
		if !IsInvitation(c.Invitation) || len(c.Fingerprint) != 20 {
			t.Errorf("%q is %+v", s, c)
		}
		if again, err := ParseCode(c.String()); again != c || err != nil {
			t.Errorf("%q is %+v, and again %+v, %v", s, c, again, err)
		}
	})
}

func TestSecretsAreNotAlike(t *testing.T) {
	seen := map[string]bool{}
	for range 1000 {
		for _, s := range []string{newToken(), newInvite()} {
			if seen[s] {
				t.Fatalf("%s twice", s)
			}
			seen[s] = true
		}
	}
	if n := len(newToken()); n != 56 {
		t.Errorf("a token has %d letters", n)
	}
}
