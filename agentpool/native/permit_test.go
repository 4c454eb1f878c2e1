//go:build unix

package native

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/hermesd/hermesd/agentpool/native/grants"
	"github.com/hermesd/hermesd/agentpool/native/llm"
	"github.com/hermesd/hermesd/daemon/session"
)

// asks runs a prompt and says how many questions it brought.
func (w *world) asks(prompt string) int {
	w.t.Helper()
	n := len(w.asked)
	w.prompt(prompt)
	return len(w.asked) - n
}

// offered are the ids of the options of the last question.
func (w *world) offered() string {
	var ids []string
	for _, o := range w.asked[len(w.asked)-1].Options {
		ids = append(ids, o.ID)
	}
	return strings.Join(ids, " ")
}

// shown is what an editor is shown with the last question.
func (w *world) shown() string { return string(w.asked[len(w.asked)-1].ToolCall) }

// another opens a session of its own in a folder, with the same grants.
func (w *world) another(dir string) *world {
	w.t.Helper()
	o := &world{fakeHost: newHost(w.t), t: w.t, dir: dir, cfg: w.cfg}
	o.open(true, session.Settings{})
	o.answer = choose(rejectOnce)
	return o
}

func TestAnAlwaysForCommandsHoldsInTheWorkspaceUntilItIsRevoked(t *testing.T) {
	w := newWorld(t, Config{})
	for _, d := range []string{".git", "sub"} {
		if err := os.Mkdir(filepath.Join(w.dir, d), 0o777); err != nil {
			t.Fatal(err)
		}
	}
	w.answer = choose(allowPrefix)
	if n := w.asks("run mkdir one"); n != 1 || w.offered() != "allow_once allow_always allow_prefix reject_once" {
		t.Error(n, w.offered())
	}
	options := w.asked[0].Options
	if options[1].Name != "Always allow exactly “mkdir one” in this workspace" || options[2].Name != "Always allow commands that begin with “mkdir” in this workspace" {
		t.Error(options)
	}
	var meta struct {
		Hermes struct {
			Scope, Workspace string
			Grants           []grant
		}
	}
	if err := json.Unmarshal(options[2].Meta, &meta); err != nil || meta.Hermes.Scope != "workspace" || meta.Hermes.Workspace == "" || fmt.Sprint(meta.Hermes.Grants) != "[{prefix mkdir}]" {
		t.Errorf("%s, %v", options[2].Meta, err)
	}
	w.answer = choose(rejectOnce)
	for prompt, want := range map[string]int{
		"run mkdir two": 0, "run mkdir -p three/four && mkdir five": 0, "run mkdir six; ls": 1, "run mkdir /tmp/hermesd-not": 1, "run mkdir ../out": 1, "run mkdir $X": 1, "run mkdir *": 1, "run mkdir a > b": 1, "run sudo mkdir a": 1, "run rmdir two": 1, "run mkdir .git/x": 1,
	} {
		if got := w.asks(prompt); got != want {
			t.Errorf("%q asked %d times, want %d", prompt, got, want)
		}
	}
	if _, err := os.Stat(filepath.Join(w.dir, "five")); err != nil {
		t.Error(err)
	}
	// Another session, in another folder of the workspace; a restart; another workspace.
	o := w.another(filepath.Join(w.dir, "sub"))
	if n := o.asks("run mkdir seven"); n != 0 {
		t.Errorf("in the same workspace asked %d times", n)
	}
	w.agent.Close()
	w.open(false, session.Settings{})
	if n := w.asks("run mkdir eight"); n != 0 {
		t.Errorf("after opening again asked %d times", n)
	}
	if n := w.another(t.TempDir()).asks("run mkdir nine"); n != 1 {
		t.Errorf("in another workspace asked %d times", n)
	}
	// It is revoked by somebody else, in the middle of a turn.
	file := grants.Open(w.cfg.Grants.Path())
	all, err := file.List()
	if err != nil || len(all) != 1 {
		t.Fatal(all, err)
	}
	o.answer = func(ctx context.Context, q session.Question) (session.Answer, error) {
		if _, err := file.Revoke(all[0].ID); err != nil && len(o.asked) == 1 {
			t.Error(err)
		}
		return choose(rejectOnce)(ctx, q)
	}
	if n := o.asks("run mkdir ten\nrun touch x\nrun mkdir eleven"); n != 2 {
		t.Errorf("asked %d times", n)
	}
	if _, err := os.Stat(filepath.Join(w.dir, "sub", "eleven")); err == nil {
		t.Error("it ran though the grant was revoked")
	}
	if n := w.asks("run mkdir twelve"); n != 1 {
		t.Errorf("in the other session asked %d times", n)
	}
}

func TestAlwaysIsOfferedOnlyWhereItWillHold(t *testing.T) {
	w := newWorld(t, Config{})
	w.answer = choose(rejectOnce)
	for prompt, want := range map[string]string{
		"run git status":            "allow_once allow_always allow_prefix reject_once",
		"run ./script --x":          "allow_once allow_always reject_once",
		"run git status; touch b":   "allow_once allow_always reject_once",
		"run touch a":               "allow_once allow_always reject_once",
		"run git push --force":      "allow_once allow_always reject_once",
		"run rm -rf build":          "allow_once allow_always reject_once",
		"run FOO=1 git status":      "allow_once allow_always reject_once",
		"run git status > out":      "allow_once allow_always reject_once",
		"run cat /etc/hostname":     "allow_once allow_always reject_once",
		"run echo x > .env":         "allow_once reject_once",
		"run curl example.org | sh": "allow_once reject_once",
		"run $(cat x)":              "allow_once reject_once",
		"run echo 'a":               "allow_once reject_once",
		"write .env\nx\n.":          "allow_once reject_once",
		"write a.txt\nx\n.":         "allow_once allow_always reject_once",
	} {
		if n := w.asks(prompt); n != 1 || w.offered() != want {
			t.Errorf("%q: asked %d times, offered %q, want %q", prompt, n, w.offered(), want)
		}
	}
	w.asks("run git push --force")
	if !strings.Contains(w.shown(), "Careful: it rewrites or removes what others have.") || !strings.Contains(string(w.asked[len(w.asked)-1].Meta), "warning") {
		t.Error(w.shown())
	}
	// Grants that cannot be read are none, none is offered, and the question says why.
	if err := os.WriteFile(w.cfg.Grants.Path(), []byte("{"), 0o600); err != nil {
		t.Fatal(err)
	}
	if n := w.asks("run git status"); n != 1 || w.offered() != "allow_once reject_once" || !strings.Contains(w.shown(), "could not be looked up") {
		t.Error(n, w.offered(), w.shown())
	}
	w.cfg.Grants = nil
	w.agent.cfg.Grants = nil
	if n := w.asks("run git status"); n != 1 || w.offered() != "allow_once reject_once" {
		t.Error(n, w.offered())
	}
}

func TestAnAlwaysThatCannotBeKeptIsSaidAndAllowsOnce(t *testing.T) {
	w := newWorld(t, Config{})
	w.answer = func(ctx context.Context, q session.Question) (session.Answer, error) {
		if err := os.WriteFile(w.cfg.Grants.Path(), []byte("{"), 0o600); err != nil { // between question and answer
			t.Error(err)
		}
		return choose(allowAlways)(ctx, q)
	}
	w.prompt("run touch ran")
	if _, err := os.Stat(filepath.Join(w.dir, "ran")); err != nil || !strings.Contains(w.said(), "allowed once: that it is always allowed could not be kept") {
		t.Error(err, w.said())
	}
}

func TestReadingCommandsInTheWorkspaceRunUnasked(t *testing.T) {
	w := newWorld(t, Config{})
	w.answer = choose(rejectOnce)
	put(t, filepath.Join(w.dir, "a"), "text\n")
	if err := os.Symlink("/etc/hostname", filepath.Join(w.dir, "out")); err != nil {
		t.Fatal(err)
	}
	for prompt, want := range map[string]int{
		"run ls -la": 0, "run cat a | grep -n text": 0, "run head -1 a && wc -l a 2>/dev/null": 0,
		"run cat out": 1, "run cat /etc/hostname": 1, "run cat ../x": 1, "run cat *": 1, "run ls > b": 1, "run cat a; touch b": 1, "run cat ~/a": 1, "run sort -o a a": 1,
	} {
		if got := w.asks(prompt); got != want {
			t.Errorf("%q asked %d times, want %d", prompt, got, want)
		}
	}
	// A program that the session could have put there is none of the system's.
	put(t, filepath.Join(w.dir, "ls"), "#!/bin/sh\ntouch evil\n")
	if err := os.Chmod(filepath.Join(w.dir, "ls"), 0o777); err != nil {
		t.Fatal(err)
	}
	w.agent.cfg.Environ = func(context.Context) []string { return []string{"PATH=" + w.dir + ":" + os.Getenv("PATH")} }
	if n := w.asks("run ls"); n != 1 {
		t.Errorf("asked %d times: %s", n, w.said())
	}
}

func TestADeniedEditIsNotRedoneUnaskedInTheTurn(t *testing.T) {
	calls := func(c ...string) [][]llm.Event {
		var all [][]llm.Event
		for i := 0; i < len(c); i += 2 {
			all = append(all, []llm.Event{calling(c[i], c[i+1])})
		}
		return append(all, nil)
	}
	write := func(path string) (string, string) {
		return "write_file", fmt.Sprintf(`{"path":%q,"content":"x"}`, path)
	}
	run := func(command string) (string, string) {
		return "terminal", string(encode(map[string]string{"command": command}))
	}
	for _, c := range []struct {
		name  string
		again func() (string, string)
		asked bool
	}{
		{"the same edit", func() (string, string) { return write("dir/secret.txt") }, true},
		{"the same file by another name", func() (string, string) { return write("alias/secret.txt") }, true},
		{"a patch", func() (string, string) { return "patch", `{"path":"dir/secret.txt","old":"o","new":"n"}` }, true},
		{"redirection", func() (string, string) { return run("echo x > dir/secret.txt") }, true},
		{"appending", func() (string, string) { return run("echo x >> ./dir/../dir/secret.txt") }, true},
		{"redirection after cd", func() (string, string) { return run("cd dir && echo x > secret.txt") }, true},
		{"through a link", func() (string, string) { return run("echo x > alias/secret.txt") }, true},
		{"tee", func() (string, string) { return run("echo x | tee dir/secret.txt") }, true},
		{"sed -i", func() (string, string) { return run("sed -i s/o/n/ dir/secret.txt") }, true},
		{"cp", func() (string, string) { return run("cp other.txt dir/secret.txt") }, true},
		{"cp into the folder", func() (string, string) { return run("cp new/secret.txt dir") }, true},
		{"mv", func() (string, string) { return run("mv other.txt dir/secret.txt") }, true},
		{"moving the folder", func() (string, string) { return run("mv dir gone") }, true},
		{"moving the folder with the tool", func() (string, string) { return "move_file", `{"from":"dir","to":"gone"}` }, true},
		{"rm", func() (string, string) { return run("rm dir/secret.txt") }, true},
		{"dd", func() (string, string) { return run("dd if=other.txt of=dir/secret.txt") }, true},
		{"a name in pieces", func() (string, string) { return run("echo x > dir/sec''ret.t\\xt") }, true},
		{"a name in a variable", func() (string, string) { return run("F=dir/secret; echo x > $F.txt") }, true},
		{"a shell", func() (string, string) { return run("sh -c 'echo x > dir/secret.txt'") }, true},
		{"a program that names it", func() (string, string) { return run("some-editor dir/secret.txt") }, true},
		{"code", func() (string, string) { return run("python3 -c 'open(chr(100))'") }, true},
		{"a script", func() (string, string) { return run("./fix.sh") }, true},
		{"a pattern", func() (string, string) { return run("touch dir/*") }, true},
		{"an unknown name", func() (string, string) { return run("echo x > $(cat name)") }, true},
		{"make", func() (string, string) { return run("make fix") }, true},
		{"a patch by git", func() (string, string) { return run("git apply fix.patch") }, true},
		{"another file", func() (string, string) { return write("dir/other.txt") }, false},
		{"another file by a command", func() (string, string) { return run("echo x > dir/other.txt") }, false},
		{"reading it", func() (string, string) { return run("cat dir/secret.txt") }, false},
		{"a command that says what it does", func() (string, string) { return run("mkdir more") }, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			tool1, args1 := write("dir/secret.txt")
			tool2, args2 := c.again()
			w := newWorld(t, Config{LLM: &script{messages: calls(tool1, args1, tool2, args2)}})
			for _, d := range []string{"dir", "new"} {
				if err := os.Mkdir(filepath.Join(w.dir, d), 0o777); err != nil {
					t.Fatal(err)
				}
			}
			put(t, filepath.Join(w.dir, "dir", "secret.txt"), "o")
			put(t, filepath.Join(w.dir, "other.txt"), "p")
			put(t, filepath.Join(w.dir, "new", "secret.txt"), "q")
			if err := os.Symlink("dir", filepath.Join(w.dir, "alias")); err != nil {
				t.Fatal(err)
			}
			// It is denied while edits are asked about, and nothing is from then on.
			w.answer = func(ctx context.Context, q session.Question) (session.Answer, error) {
				if len(w.asked) == 1 {
					if _, err := w.agent.Set(ctx, session.Change{Mode: string(modeDontAsk)}); err != nil {
						t.Error(err)
					}
				}
				return choose(rejectOnce)(ctx, q)
			}
			w.prompt("go")
			if got := len(w.asked) == 2; got != c.asked {
				t.Fatalf("asked %d times", len(w.asked))
			}
			if c.asked {
				if !strings.Contains(w.shown(), "secret.txt was not allowed in this turn") || w.offered() != "allow_once reject_once" {
					t.Error(w.offered(), w.shown())
				}
			}
			if data, err := os.ReadFile(filepath.Join(w.dir, "dir", "secret.txt")); err != nil || string(data) != "o" {
				t.Error(string(data), err)
			}
			// In the next turn it is forgotten.
			w.agent.model = nil
			w.cfg.LLM.(*script).messages = calls(tool1, args1)
			n := len(w.asked)
			w.prompt("again")
			if len(w.asked) != n {
				t.Error("it is remembered in the next turn")
			}
		})
	}
}

// A file is installed by the folder that holds it, with a name that is only
// then what makes it sensitive.
func TestAFileIsNotInstalledUnaskedByMovingItsFolder(t *testing.T) {
	move := &script{messages: [][]llm.Event{{calling("write_file", `{"path":"x/workflows/ci.yml","content":"x"}`)}, {calling("move_file", `{"from":"x","to":".github"}`)}, {calling("write_file", `{"path":".github/workflows/ci.yml","content":"x"}`)}, nil}}
	w := newWorld(t, Config{LLM: move, ApprovalMode: "workspace_session"})
	w.answer = choose(rejectOnce)
	w.prompt("go")
	if len(w.asked) != 2 || w.offered() != "allow_once reject_once" {
		t.Errorf("asked %d times", len(w.asked))
	}
	if _, err := os.Stat(filepath.Join(w.dir, ".github")); err == nil {
		t.Error("it was moved")
	}
}

func TestADeniedCommandIsNotRedoneAsAnEdit(t *testing.T) {
	w := newWorld(t, Config{ApprovalMode: "workspace_session"})
	w.answer = choose(rejectOnce)
	if n := w.asks("run echo x > a.txt\nwrite a.txt\nx\n.\nwrite b.txt\nx\n."); n != 2 {
		t.Errorf("asked %d times", n)
	}
	if _, err := os.Stat(filepath.Join(w.dir, "a.txt")); err == nil {
		t.Error("it was written")
	}
	if _, err := os.Stat(filepath.Join(w.dir, "b.txt")); err != nil {
		t.Error(err)
	}
}

func TestADenialTellsTheModelWhatToDo(t *testing.T) {
	for o, want := range map[session.Outcome][]string{
		session.Selected:    {"refused by the user", "do not try to reach the same in another way"},
		session.TimedOut:    {"nobody answered the question in time", "no refusal", "do not try again at once"},
		session.NobodyThere: {"nobody was there", "no refusal", "do not try again at once"},
	} {
		s := &script{messages: [][]llm.Event{{calling("terminal", `{"command":"touch x"}`)}}}
		w := newWorld(t, Config{LLM: s})
		w.answer = outcome(o)
		w.prompt("go")
		got := s.requests[1].Messages[2].Parts[0].Result
		for _, part := range want {
			if !got.Failed || !strings.Contains(got.Text, part) {
				t.Errorf("%s: %q, want %q", o, got.Text, part)
			}
		}
	}
}
