//go:build unix

package tool

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// background is a session that may have jobs; they end with the test.
func background(t *testing.T, most int, ended func(JobEnd)) *Env {
	t.Helper()
	e := &Env{Cwd: tempDir(t), Jobs: NewJobs(most, ended), Grace: 200 * time.Millisecond}
	t.Cleanup(e.Jobs.Close)
	return e
}

// inBackground starts a command and returns its id.
func inBackground(t *testing.T, e *Env, command string) string {
	t.Helper()
	r, err := do(t, Terminal{}, e, m{"command": command, "background": true})
	if err != nil {
		t.Fatal(err)
	}
	return r.Raw.(m)["id"].(string)
}

// untilFile waits for a file that a command writes and returns its text.
func untilFile(t *testing.T, path string) string {
	t.Helper()
	for range 2000 {
		if data, err := os.ReadFile(path); err == nil && strings.HasSuffix(string(data), "\n") {
			return strings.TrimSpace(string(data))
		}
		time.Sleep(5 * time.Millisecond)
	}
	t.Fatalf("%s was not written", path)
	return ""
}

func TestAJobIsReadWrittenAndEnded(t *testing.T) {
	e := background(t, 0, nil)
	id := inBackground(t, e, `echo ready; while read line; do echo "got $line"; done; echo bye`)
	step := func(args m, want string) {
		t.Helper()
		r, err := do(t, Process{}, e, args)
		if err != nil || !strings.Contains(r.Text, want) {
			t.Errorf("%v: %q, %v, want %q", args, r.Text, err, want)
		}
	}
	until := func(args m, want string) {
		t.Helper()
		for deadline := time.Now().Add(10 * time.Second); ; time.Sleep(5 * time.Millisecond) {
			if r, err := do(t, Process{}, e, args); err != nil || strings.Contains(r.Text, want) || time.Now().After(deadline) {
				step(args, want)
				return
			}
		}
	}
	until(m{"action": "output", "id": id, "all": true}, "ready\n["+id+": running for ")
	step(m{"action": "list"}, id+": running for ")
	if _, err := do(t, Process{}, e, m{"action": "write", "id": id, "input": "one\n"}); err != nil {
		t.Error(err)
	}
	until(m{"action": "output", "id": id, "all": true}, "ready\ngot one\n")
	step(m{"action": "output", "id": id}, "["+id+": running for ") // nothing is new
	if _, err := do(t, Process{}, e, m{"action": "write", "id": id, "input": "two", "eof": true}); err != nil {
		t.Error(err)
	}
	b, err := e.Jobs.find(id)
	if err != nil {
		t.Fatal(err)
	}
	<-b.done
	step(m{"action": "output", "id": id, "all": true}, "got one\nbye\n["+id+": exit status 0 after ")
	_, err = do(t, Process{}, e, m{"action": "write", "id": id, "input": "x"})
	wantError(t, err, "is over (exit status 0")
	step(m{"action": "list"}, id+": exit status 0 after ")
}

func TestOutputWaitsForSomethingNew(t *testing.T) {
	e := background(t, 0, nil)
	id := inBackground(t, e, "sleep 0.6; echo late; sleep 300")
	r, err := do(t, Process{}, e, m{"action": "output", "id": id, "wait": 60})
	if err != nil || !strings.HasPrefix(r.Text, "late\n[") {
		t.Errorf("%q, %v", r.Text, err)
	}
}

func TestAJobThatFailsAtOnceSaysSoAtOnce(t *testing.T) {
	e := background(t, 0, nil)
	for range 3 { // a machine that is slow says that it runs
		r, err := do(t, Terminal{}, e, m{"command": "echo no >&2; exit 3", "background": true})
		if err != nil {
			t.Fatal(err)
		}
		if r.Failed && strings.HasPrefix(r.Text, "no\n[") && strings.Contains(r.Text, "exit status 3") {
			return
		}
		t.Logf("%q", r.Text)
	}
	t.Error("it says that it runs")
}

func TestKillEndsAJobWithAllItStarted(t *testing.T) {
	e := background(t, 0, nil)
	id := inBackground(t, e, `trap '' TERM; sh -c 'trap "" TERM; echo $$ > child; while :; do sleep 1; done' & wait`)
	child := filepath.Join(e.Cwd, "child")
	untilFile(t, child)
	r, err := do(t, Process{}, e, m{"action": "kill", "id": id})
	if err != nil || !strings.Contains(r.Text, id+": ended on request; ended by SIGKILL") {
		t.Errorf("%q, %v", r.Text, err)
	}
	gone(t, pids(t, child)[0])
	if e.Jobs.Running() != 0 {
		t.Error("it counts as running")
	}
}

func TestCloseEndsAllJobs(t *testing.T) {
	e := background(t, 0, func(end JobEnd) { t.Errorf("told of %+v, which did not end by itself", end) })
	var files []string
	for i := range 3 {
		inBackground(t, e, fmt.Sprintf("echo $$ > pid%d; sleep 300 & cat", i))
		files = append(files, filepath.Join(e.Cwd, fmt.Sprintf("pid%d", i)))
		untilFile(t, files[i])
	}
	e.Jobs.Close()
	e.Jobs.Close()
	for _, file := range files {
		gone(t, pids(t, file)[0])
	}
	_, err := do(t, Terminal{}, e, m{"command": "true", "background": true})
	wantError(t, err, "the session is closed")
}

func TestAJobEndsAtItsTimeLimitAndWithItsTurnWhenCancelledAtOnce(t *testing.T) {
	e := background(t, 0, nil)
	r, err := do(t, Terminal{}, e, m{"command": "sleep 300", "background": true, "timeout": 0.01})
	if err != nil {
		t.Fatal(err)
	}
	b, err := e.Jobs.find(r.Raw.(m)["id"].(string))
	if err != nil {
		t.Fatal(err)
	}
	<-b.done
	if s := b.status(); !strings.HasPrefix(s, "ended after its time limit of 10ms; ") {
		t.Error(s)
	}
	a, err := plan(t, Terminal{}, e, m{"command": "sleep 300", "background": true})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	if _, err := a.Run(ctx, nil); !errors.Is(err, context.Canceled) || e.Jobs.Running() != 0 {
		t.Errorf("%v, %d run", err, e.Jobs.Running())
	}
}

func TestJobsAreBounded(t *testing.T) {
	e := background(t, 2, nil)
	inBackground(t, e, "sleep 300")
	inBackground(t, e, "sleep 300")
	_, err := do(t, Terminal{}, e, m{"command": "sleep 300", "background": true})
	wantError(t, err, "2 commands in the background already")
	few := background(t, 1, nil)
	for range endedJobs + 5 {
		b, err := few.Jobs.start(few, "true", 0)
		if err != nil {
			t.Fatal(err)
		}
		<-b.done
	}
	if n := len(few.Jobs.all); n > endedJobs+1 {
		t.Errorf("%d jobs are remembered", n)
	}
}

func TestTheEndOfAJobIsTold(t *testing.T) {
	told := make(chan JobEnd, 1)
	e := background(t, 0, func(end JobEnd) { told <- end })
	id := inBackground(t, e, "exit 4")
	if end := <-told; end != (JobEnd{ID: id, Command: "exit 4", State: "exit status 4"}) {
		t.Errorf("%+v", end)
	}
}

// Input that nobody reads does not hold the session, and no goroutine stays.
func TestInputThatIsNotReadIsReportedAndDropped(t *testing.T) {
	e := background(t, 0, nil)
	id := inBackground(t, e, "sleep 300")
	b, err := e.Jobs.find(id)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(context.Background(), 50*time.Millisecond)
	defer cancel()
	if err := b.write(ctx, strings.Repeat("x", 1<<20), false, 0); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("writing more than a pipe holds: %v", err)
	}
	if err := b.write(ctx, "y", false, 1); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("writing behind it: %v", err)
	}
}

func TestTheInputOfAJobIsJudgedLikeACommand(t *testing.T) {
	e := background(t, 0, nil)
	id := inBackground(t, e, "cat")
	a, err := plan(t, Process{}, e, m{"action": "write", "id": id, "input": "ls\n"})
	if err != nil || a.Need.Class != Running || a.Need.Forbidden != "" || a.Need.Grants[0] != "input of "+id {
		t.Errorf("%+v, %v", a.Need, err)
	}
	a, err = plan(t, Process{}, e, m{"action": "write", "id": id, "input": "rm -rf /\n"})
	if err != nil || a.Need.Forbidden == "" {
		t.Errorf("%+v, %v", a.Need, err)
	}
	for _, action := range []string{"list", "output", "kill"} {
		if a, err := plan(t, Process{}, e, m{"action": action, "id": id}); err != nil || a.Need.Class != Free {
			t.Errorf("%s: %+v, %v", action, a, err)
		}
	}
}

// What is written in pieces is judged as what a shell makes of them.
func TestInputIsJudgedWithWhatWasWrittenBefore(t *testing.T) {
	for _, c := range []struct {
		command string
		writes  []string // of which the last is judged; "+" before one closes the input
		want    string
	}{
		{"sh", []string{"echo x > .g", "it/hooks-x\n"}, ".git/hooks-x belongs to version control"}, {"sh", []string{"echo x > .g"}, "its last line is open"}, {"sh", []string{"echo x > .g", "o"}, "its last line is open"}, {"sh", []string{"+echo x > a"}, ""}, {"sh", []string{"echo x > .en", "+v"}, ".env holds keys"}, {"sh", []string{"echo x > .env", "+"}, ".env holds keys"},
		{"sh", []string{"cd .git/hooks\n", "echo x > pre-commit\n"}, "belongs to version control"}, {"sh", []string{"cd .git/hooks\n", "echo x > pre-commit\n", "echo y > pre-commit\n"}, "belongs to version control"}, {"sh", []string{"cd .git/hooks\n", "echo x > pre-commit\n", "cd ../..\n", "cat a\n"}, ""},
		{"sh", []string{"D=.git\n", "echo x > $D/hooks/a\n"}, "belongs to version control"}, {"sh", []string{"echo x > .g\\\n", "it/a\n"}, "belongs to version control"}, {"sh", []string{"echo x > '.g\n", "'\n"}, ""}, {"sh", []string{"tee .env <<E\n", "x\n", "E\n"}, ".env holds keys"}, {"sh", []string{"if x; then\n", "echo > .env\n"}, ".env holds keys"}, {"sh", []string{"if x; then\n"}, "it cannot be parsed"}, {"sh", []string{"if x; then\n", "echo > .env\n", "fi\n"}, ".env holds keys"}, {"sh", []string{"f() { echo > $1; }\n", "f .env\n"}, ".env holds keys"},
		{"sh", []string{"$(cat x) a\n"}, "it cannot be told what it does"}, {"sh", []string{"alias a=b\n", "a\n"}, "it cannot be told what it does"}, {"bash -i", []string{"$(cat x)\n"}, "it cannot be told what it does"}, {"sudo -s", []string{"$(cat x)\n"}, "it cannot be told what it does"}, {"sh -c 'cat; sh'", []string{"$(cat x)\n"}, "it cannot be told what it does"},
		{"cat", []string{"$(cat x)\n"}, ""}, {"cat", []string{"it's\n", "all's\n"}, ""}, {"cat", []string{"it's\n", "rm -rf /\n"}, "never"}, {"cat", []string{"it's\n", "echo > .env\n"}, ".env holds keys"}, {"sh", []string{"echo x > a\n", "ls\n"}, ""}, {"sh x.sh", []string{"$X\n"}, ""}, {"sh", []string{"r", "m -rf /\n"}, "never"}, {"sh", []string{"cd /\n", "rm -rf *\n"}, "never"}, {"sh", []string{strings.Repeat("a\n", 200<<10), "ls\n"}, "more was written to it than is looked through"},
	} {
		e := &Env{Cwd: tempDir(t)}
		b := &job{id: "x", command: c.command}
		var n Need
		for i, w := range c.writes {
			w, eof := strings.CutPrefix(w, "+")
			if i == len(c.writes)-1 {
				n = e.inputNeed(b, b.given, w, eof)
			}
			b.given = b.given.Add(w)
		}
		got := n.Sensitive
		if n.Forbidden != "" {
			got = "never"
		}
		if !strings.Contains(got, c.want) || (got == "") != (c.want == "") {
			t.Errorf("%s: %.200q: %q, want %q", c.command, c.writes, got, c.want)
		}
	}
}

func TestInputThatWasJudgedBeforeOtherWasWrittenIsNotWritten(t *testing.T) {
	e := background(t, 0, nil)
	id := inBackground(t, e, "cat")
	first, err := plan(t, Process{}, e, m{"action": "write", "id": id, "input": "a\n"})
	if err != nil {
		t.Fatal(err)
	}
	second, err := plan(t, Process{}, e, m{"action": "write", "id": id, "input": "b\n"})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := first.Run(context.Background(), nil); err != nil {
		t.Error(err)
	}
	_, err = second.Run(context.Background(), nil)
	wantError(t, err, "something else was written to "+id)
	if _, err := do(t, Process{}, e, m{"action": "write", "id": id, "input": "c\n"}); err != nil {
		t.Error(err)
	}
}

func TestProcessArgumentsAreChecked(t *testing.T) {
	e := background(t, 0, nil)
	id := inBackground(t, e, "cat")
	for _, c := range []struct {
		args m
		want string
	}{
		{m{"action": "stop"}, "is unknown: it is list, output, write or kill"},
		{m{"action": "output"}, "the argument id is missing"},
		{m{"action": "output", "id": "x"}, `there is no background command "x": there is ` + id},
		{m{"action": "write", "id": id}, "nothing to write"},
		{m{"action": "write", "id": id, "input": strings.Repeat("x", maxInput+1)}, "too long"},
	} {
		_, err := plan(t, Process{}, e, c.args)
		wantError(t, err, c.want)
	}
	_, err := plan(t, Process{}, &Env{Cwd: e.Cwd, Jobs: NewJobs(0, nil)}, m{"action": "kill", "id": id})
	wantError(t, err, "and no other: they end with the session")
}
