//go:build unix

package tool

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"
)

func TestCommandGivesOutputAndStatus(t *testing.T) {
	e := &Env{Cwd: tempDir(t)}
	for command, want := range map[string]struct {
		text   string
		failed bool
	}{
		"echo hi; exit 3":           {"hi\n[exit status 3]", true},
		"echo out; echo err >&2":    {"out\nerr\n[exit status 0]", false},
		"printf x":                  {"x\n[exit status 0]", false},
		"true":                      {"[exit status 0]", false},
		"pwd":                       {e.Cwd + "\n[exit status 0]", false},
		"read x; echo \"got:$x\"":   {"got:\n[exit status 0]", false},
		"kill -KILL $$":             {"[ended by SIGKILL]", true},
		"nosuchcommand 2>/dev/null": {"[exit status 127]", true},
		`printf '\377\376ok'`:       {"\uFFFD\uFFFDok\n[exit status 0]", false},
	} {
		r, err := do(t, Terminal{}, e, m{"command": command})
		if err != nil || r.Text != want.text || r.Failed != want.failed {
			t.Errorf("%s: %q failed %v, %v; want %q", command, r.Text, r.Failed, err, want.text)
		}
	}
}

func TestCommandDoesNotSeeTheDaemonsEnvironment(t *testing.T) {
	t.Setenv("HERMESD_TOKEN", "secret")
	t.Setenv("OTHER", "kept")
	r, err := do(t, Terminal{}, &Env{Cwd: tempDir(t)}, m{"command": `echo "$HERMESD_TOKEN/$OTHER"`})
	if err != nil || !strings.HasPrefix(r.Text, "/kept\n") {
		t.Errorf("%q, %v", r.Text, err)
	}
}

func TestOutputIsBounded(t *testing.T) {
	e := &Env{Cwd: tempDir(t), OutputLimit: 1000}
	r, err := do(t, Terminal{}, e, m{"command": "yes | head -c 3000000; echo end"})
	if err != nil || !strings.HasPrefix(r.Text, "[only the last ") || !strings.Contains(r.Text, "of 3000004 bytes") || !strings.HasSuffix(r.Text, "end\n[exit status 0]") || len(r.Text) > 1200 {
		t.Errorf("%.60q … %d bytes, %v", r.Text, len(r.Text), err)
	}
}

func TestMissingFolderIsNamed(t *testing.T) {
	e := &Env{Cwd: filepath.Join(tempDir(t), "wt")}
	os.Mkdir(e.Cwd, 0o777)
	a, err := plan(t, Terminal{}, e, m{"command": "echo alive"})
	if err != nil {
		t.Fatal(err)
	}
	os.Remove(e.Cwd)
	_, err = a.Run(context.Background(), func([]Content) {})
	wantError(t, err, e.Cwd+" does not exist any more")
	_, err = plan(t, Terminal{}, e, m{"command": "echo alive"})
	wantError(t, err, e.Cwd+" does not exist any more")
}

// gone waits until nobody is left of the group or process.
func gone(t *testing.T, pid int) {
	t.Helper()
	for deadline := time.Now().Add(10 * time.Second); ; time.Sleep(5 * time.Millisecond) {
		err := syscall.Kill(pid, 0)
		if errors.Is(err, syscall.ESRCH) || isZombie(pid) {
			return
		}
		if time.Now().After(deadline) {
			t.Errorf("process %d still runs", pid)
			_ = syscall.Kill(pid, syscall.SIGKILL)
			return
		}
	}
}

// isZombie: where nobody collects orphans, as in some containers, a process
// that was killed stays as a zombie.
func isZombie(pid int) bool {
	stat, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/stat")
	return err == nil && strings.Contains(string(stat), ") Z ")
}

// pids reads numbers a command wrote to a file.
func pids(t *testing.T, path string) []int {
	t.Helper()
	var all []int
	for _, f := range strings.Fields(content(t, path)) {
		n, err := strconv.Atoi(f)
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, n)
	}
	return all
}

func TestACancelledCommandEndsWithItsWholeGroup(t *testing.T) {
	for name, command := range map[string]string{
		"politely":                   "sleep 300 & echo $$ $! > pids; echo ready; wait",
		"against its will":           "trap '' TERM; sleep 300 & echo $$ $! > pids; echo ready; while :; do sleep 1; done",
		"only the child is stubborn": "(trap '' TERM; while :; do sleep 1; done) & echo $$ $! > pids; echo ready; wait",
	} {
		t.Run(name, func(t *testing.T) {
			e := &Env{Cwd: tempDir(t), Grace: 200 * time.Millisecond}
			a, err := plan(t, Terminal{}, e, m{"command": command})
			if err != nil {
				t.Fatal(err)
			}
			ctx, cancel := context.WithCancel(context.Background())
			defer cancel()
			r, err := a.Run(ctx, func(c []Content) {
				if strings.Contains(c[0].Text, "ready") {
					cancel()
				}
			})
			if !errors.Is(err, context.Canceled) || !r.Failed || !strings.Contains(r.Text, "ready\n[ended because the turn was cancelled") {
				t.Errorf("%q, %v", r.Text, err)
			}
			for _, pid := range pids(t, filepath.Join(e.Cwd, "pids")) {
				gone(t, pid)
			}
		})
	}
}

func TestACommandEndsAtItsTimeLimit(t *testing.T) {
	e := &Env{Cwd: tempDir(t), Grace: 100 * time.Millisecond, TimeLimit: 300 * time.Millisecond, MaxTime: 400 * time.Millisecond}
	for _, args := range []m{{"command": "echo a; sleep 300"}, {"command": "echo a; sleep 300", "timeout": 0.2}, {"command": "echo a; sleep 300", "timeout": 1e300}} {
		r, err := do(t, Terminal{}, e, args)
		if err != nil || !r.Failed || !strings.Contains(r.Text, "a\n[ended after its time limit of ") || r.Raw.(map[string]any)["timedOut"] != true {
			t.Errorf("%v: %q, %v", args, r.Text, err)
		}
	}
}

func TestBackgroundChildrenDoNotHangTheCommandAndEndWithIt(t *testing.T) {
	e := &Env{Cwd: tempDir(t), Grace: 100 * time.Millisecond}
	r, err := do(t, Terminal{}, e, m{"command": "sleep 300 & echo $! > pids; trap '' TERM; (while :; do sleep 1; done) & echo $! >> pids; echo started"})
	if err != nil || r.Text != "started\n[exit status 0]" {
		t.Errorf("%q, %v", r.Text, err)
	}
	for _, pid := range pids(t, filepath.Join(e.Cwd, "pids")) {
		gone(t, pid)
	}
}

func TestWhoLeavesTheGroupDoesNotHangTheCommand(t *testing.T) {
	if _, err := os.Stat("/usr/bin/setsid"); err != nil {
		t.Skip("no setsid here: ", err)
	}
	e := &Env{Cwd: tempDir(t), Grace: 100 * time.Millisecond}
	r, err := do(t, Terminal{}, e, m{"command": "setsid sleep 300 & echo $! > pids; echo started"})
	if err != nil || r.Text != "started\n[exit status 0]" {
		t.Errorf("%q, %v", r.Text, err)
	}
	for _, pid := range pids(t, filepath.Join(e.Cwd, "pids")) {
		syscall.Kill(pid, syscall.SIGKILL)
	}
}

// What was ended is ended with what has left the group, where that is to be found.
func TestACommandThatIsEndedTakesWithItWhoLeftItsGroup(t *testing.T) {
	if runtime.GOOS != "linux" {
		return // it is on its own, as process.SignalMarked says
	}
	const leaves = "setsid sh -c 'trap \"\" TERM; setsid sleep 300 & echo $$ $! > pids; while :; do sleep 1; done' >/dev/null 2>&1 & while [ ! -s pids ]; do sleep 0.02; done; echo ready; "
	t.Run("cancelled", func(t *testing.T) {
		e := &Env{Cwd: tempDir(t), Grace: 100 * time.Millisecond}
		a, err := plan(t, Terminal{}, e, m{"command": leaves + "sleep 300"})
		if err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithCancel(context.Background())
		defer cancel()
		if _, err := a.Run(ctx, func([]Content) { cancel() }); !errors.Is(err, context.Canceled) {
			t.Error(err)
		}
		for _, pid := range pids(t, filepath.Join(e.Cwd, "pids")) {
			gone(t, pid)
		}
	})
	t.Run("closed", func(t *testing.T) {
		e := background(t, 0, nil)
		inBackground(t, e, leaves+"sleep 300")
		untilFile(t, filepath.Join(e.Cwd, "pids"))
		e.Jobs.Close()
		for _, pid := range pids(t, filepath.Join(e.Cwd, "pids")) {
			gone(t, pid)
		}
	})
	t.Run("ended by itself", func(t *testing.T) {
		e := &Env{Cwd: tempDir(t), Grace: 100 * time.Millisecond}
		if _, err := do(t, Terminal{}, e, m{"command": leaves}); err != nil {
			t.Error(err)
		}
		all := pids(t, filepath.Join(e.Cwd, "pids"))
		if err := syscall.Kill(all[0], 0); err != nil || isZombie(all[0]) {
			t.Errorf("what it started well is gone: %v", err)
		}
		for _, pid := range all {
			syscall.Kill(pid, syscall.SIGKILL)
			gone(t, pid)
		}
	})
}

func TestOutputIsShownWhileItRuns(t *testing.T) {
	e := &Env{Cwd: tempDir(t)}
	a, err := plan(t, Terminal{}, e, m{"command": "echo first; while [ ! -e go ]; do sleep 0.02; done; echo second"})
	if err != nil {
		t.Fatal(err)
	}
	var shown []string
	r, err := a.Run(context.Background(), func(c []Content) {
		shown = append(shown, c[0].Text)
		put(t, filepath.Join(e.Cwd, "go"), "")
	})
	if err != nil || len(shown) == 0 || shown[0] != "```\nfirst\n```" || r.Content[0].Text != "```\nfirst\nsecond\n```\n[exit status 0]" {
		t.Errorf("%q, %+v, %v", shown, r.Content, err)
	}
}

func TestReadDoesNotWaitForAPipe(t *testing.T) {
	e := &Env{Cwd: tempDir(t)}
	if err := syscall.Mkfifo(filepath.Join(e.Cwd, "fifo"), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, tl := range []Tool{ReadFile{}, WriteFile{}} {
		args := m{"path": "fifo"}
		if tl.Name() == "write_file" {
			args["content"] = ""
		}
		_, err := do(t, tl, e, args)
		wantError(t, err, "no regular file")
	}
	if _, err := readRegular(filepath.Join(e.Cwd, "fifo")); err == nil {
		t.Error("a pipe was read")
	}
	if err := replaceFile(filepath.Join(e.Cwd, "fifo"), nil); err == nil {
		t.Error("a pipe was written")
	}
}

func TestAFileThatMayNotBeWrittenIsNotReplaced(t *testing.T) {
	if os.Getuid() == 0 {
		t.Log("root may write everything: only the other half is tested")
		return
	}
	e := &Env{Cwd: tempDir(t)}
	path := filepath.Join(e.Cwd, "a")
	put(t, path, "old")
	os.Chmod(path, 0o444)
	_, err := do(t, WriteFile{}, e, m{"path": "a", "content": "new"})
	wantError(t, err, "permission denied")
	if content(t, path) != "old" {
		t.Error("it was replaced")
	}
}
