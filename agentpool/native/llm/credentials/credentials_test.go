package credentials

import (
	"bytes"
	"encoding/json"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"testing"
)

const key = "sk-ant-very-secret"

func TestASecretShowsItselfToNobody(t *testing.T) {
	s := NewSecret(key)
	c := Credential{Provider: "p", Key: s}
	var log bytes.Buffer
	slog.New(slog.NewJSONHandler(&log, nil)).Info("x", "secret", s, "all", c)
	j, err := json.Marshal(c)
	if err != nil {
		t.Fatal(err)
	}
	all := log.String() + string(j)
	for _, verb := range []string{"%s", "%v", "%+v", "%#v", "%q", "%x", "%d"} {
		for _, v := range []any{s, &s, c, &c, []any{s}} {
			all += fmt.Sprintf(verb, v)
		}
	}
	if strings.Contains(all, "very") || strings.Contains(all, fmt.Sprintf("%x", "very")) {
		t.Error(all)
	}
	if s.Reveal() != key || s.Empty() || !NewSecret("").Empty() || NewSecret("").Reveal() != "" {
		t.Error("the secret is lost")
	}
	if got := s.Redact("bad key " + key + "!"); got != "bad key (secret)!" {
		t.Error(got)
	}
	if got := (Secret{}).Redact("bad key"); got != "bad key" {
		t.Error(got)
	}
}

func TestTheFileKeepsWhatIsSavedAndOnlyItsOwnerReadsIt(t *testing.T) {
	f := &File{Path: filepath.Join(t.TempDir(), "new", FileName)}
	if all, err := f.Load(); err != nil || len(all) != 0 {
		t.Fatal(all, err)
	}
	if err := f.Delete("anthropic"); err != nil {
		t.Error(err)
	}
	if err := f.Save(Credential{Provider: "anthropic", Key: NewSecret(key)}); err != nil {
		t.Fatal(err)
	}
	if err := f.Save(Credential{Provider: "127.0.0.1:8000", Key: NewSecret("two"), Bearer: true, BaseURL: "http://127.0.0.1:8000/v1"}); err != nil {
		t.Fatal(err)
	}
	if err := f.Save(Credential{Provider: "openai", Key: NewSecret("with space")}); err == nil {
		t.Error("a key with a space is saved")
	}
	all, err := f.Load()
	if err != nil || len(all) != 2 || all["anthropic"].Key.Reveal() != key || !all["127.0.0.1:8000"].Bearer || all["127.0.0.1:8000"].BaseURL == "" {
		t.Fatal(all, err)
	}
	if info, err := os.Stat(f.Path); err != nil || runtime.GOOS != "windows" && info.Mode().Perm() != 0o600 {
		t.Error(info.Mode(), err)
	}
	if err := f.Delete("anthropic"); err != nil {
		t.Fatal(err)
	}
	if all, err := f.Load(); err != nil || len(all) != 1 {
		t.Error(all, err)
	}
	if rest, _ := filepath.Glob(filepath.Join(filepath.Dir(f.Path), ".cred*")); len(rest) != 0 {
		t.Error(rest)
	}
}

func TestAFileThatIsExposedDamagedOrNewerIsRefusedAndLeftAlone(t *testing.T) {
	for name, c := range map[string]struct {
		text string
		mode os.FileMode
		want string
	}{
		"exposed": {`{"version":1,"credentials":{"anthropic":{"key":"` + key + `"}}}`, 0o644, "chmod 600"},
		"damaged": {`{"version":1,"credentials":{"anthropic":{"key":"` + key + `"` + "\x00}", 0o600, "damaged"},
		"newer":   {`{"version":2}`, 0o600, "newer"},
	} {
		t.Run(name, func(t *testing.T) {
			if name == "exposed" && runtime.GOOS == "windows" {
				t.Skip("Windows has no such modes")
			}
			f := &File{Path: filepath.Join(t.TempDir(), FileName)}
			if err := os.WriteFile(f.Path, []byte(c.text), c.mode); err != nil {
				t.Fatal(err)
			}
			_, err := f.Load()
			if err == nil || !strings.Contains(err.Error(), c.want) || strings.Contains(err.Error(), key) {
				t.Error(err)
			}
			if err := f.Save(Credential{Provider: "x", Key: NewSecret("y")}); err == nil {
				t.Error("it was written over")
			}
			if data, _ := os.ReadFile(f.Path); string(data) != c.text {
				t.Errorf("it is now %q", data)
			}
			// What the environment has is there all the same.
			s := Source{File: f, Env: env{"OPENAI_API_KEY": "k"}.get}
			if got, ok, err := s.Find("openai"); !ok || err != nil || got.Key.Reveal() != "k" {
				t.Error(got, ok, err)
			}
			if _, ok, err := s.Find("anthropic"); ok || err == nil {
				t.Error(ok, err)
			}
		})
	}
}

func TestLoginsAtTheSameTimeLoseNothing(t *testing.T) {
	path := filepath.Join(t.TempDir(), FileName)
	var wg sync.WaitGroup
	for i := range 20 {
		wg.Go(func() {
			if err := (&File{Path: path}).Save(Credential{Provider: fmt.Sprint("p", i), Key: NewSecret("k")}); err != nil {
				t.Error(err)
			}
		})
	}
	wg.Wait()
	if all, err := (&File{Path: path}).Load(); err != nil || len(all) != 20 {
		t.Errorf("%d of 20 are kept, %v", len(all), err)
	}
}

type env map[string]string

func (e env) get(name string) string { return e[name] }

func TestTheEnvironmentGoesBeforeTheFileAndHasAnOrder(t *testing.T) {
	f := &File{Path: filepath.Join(t.TempDir(), FileName)}
	for _, c := range []Credential{{Provider: "openai", Key: NewSecret("file")}, {Provider: "box:1", Key: NewSecret("file")}, {Provider: "anthropic", Key: NewSecret("file")}} {
		if err := f.Save(c); err != nil {
			t.Fatal(err)
		}
	}
	for name, c := range map[string]struct {
		env  env
		want string
	}{
		"file only":   {nil, "anthropic=file openai=file box:1=file"},
		"blank":       {env{"ANTHROPIC_API_KEY": " "}, "anthropic=file openai=file box:1=file"},
		"environment": {env{"NOUS_API_KEY": "n", "OPENAI_API_KEY": "e", "OPENROUTER_API_KEY": "r"}, "openai=e openrouter=r nous=n anthropic=file box:1=file"},
		"key before token": {env{"ANTHROPIC_AUTH_TOKEN": "t", "ANTHROPIC_API_KEY": "k"},
			"anthropic=k openai=file box:1=file"},
		"token": {env{"ANTHROPIC_AUTH_TOKEN": "t"}, "anthropic=t(bearer) openai=file box:1=file"},
	} {
		t.Run(name, func(t *testing.T) {
			all, err := Source{Env: c.env.get, File: f}.All()
			if err != nil {
				t.Fatal(err)
			}
			var got []string
			for _, c := range all {
				s := c.Provider + "=" + c.Key.Reveal()
				if c.Bearer {
					s += "(bearer)"
				}
				got = append(got, s)
			}
			if strings.Join(got, " ") != c.want {
				t.Errorf("%s, want %s", got, c.want)
			}
		})
	}
	if all, err := (Source{}).All(); err != nil || len(all) != 0 {
		t.Error(all, err)
	}
	all, _ := Source{Env: env{"OPENAI_API_KEY": "e", "OPENAI_BASE_URL": "http://box/v1"}.get}.All()
	if len(all) != 1 || all[0].BaseURL != "http://box/v1" {
		t.Error(all)
	}
}

func TestCommandsDoNotGetKeys(t *testing.T) {
	got := (Source{}).Strip([]string{"PATH=/bin", "ANTHROPIC_API_KEY=k", "OPENAI_API_KEY=k", "HERMESD_HOME=/x", "OPENAI_BASE_URL=u", "ANTHROPIC_AUTH_TOKEN=k", "NOUS_API_KEY=", "OPENROUTER_API_KEY=k"})
	if strings.Join(got, " ") != "PATH=/bin OPENAI_BASE_URL=u" {
		t.Error(got)
	}
	if Variable("anthropic") != "ANTHROPIC_API_KEY" || Variable("box:1") != "" {
		t.Error("variables")
	}
}
