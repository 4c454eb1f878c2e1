package main

import (
	"bytes"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"github.com/hermesd/hermesd/transport/link/linktest"
	"go.uber.org/goleak"
)

// The programs under test, made by TestMain.
var (
	shimProgram    string // as the tests are built: with the race detector if they are
	releaseProgram string // as it is released
)

func TestMain(m *testing.M) {
	linktest.Main() // this binary is also the daemon that the shim starts
	parentMain()    // and a parent that can be killed
	squatMain()     // and a stranger on a socket
	os.Exit(withPrograms(m))
}

func withPrograms(m *testing.M) int {
	dir, err := os.MkdirTemp("", "shim")
	if err != nil {
		panic(err)
	}
	defer os.RemoveAll(dir)
	exe := ""
	if runtime.GOOS == "windows" {
		exe = ".exe"
	}
	shimProgram = filepath.Join(dir, "hermes-acp-shim"+exe)
	releaseProgram = filepath.Join(dir, "release"+exe)
	flags := []string{"build", "-o", shimProgram}
	if raceEnabled {
		flags = append(flags, "-race")
	}
	build(nil, append(flags, ".")...)
	build([]string{"CGO_ENABLED=0"}, "build", "-trimpath", "-ldflags", "-s -w", "-o", releaseProgram, ".")
	code := m.Run()
	if err := goleak.Find(); code == 0 && err != nil {
		fmt.Println(err)
		return 1
	}
	return code
}

func build(env []string, args ...string) {
	cmd := exec.Command("go", args...)
	cmd.Env = append(os.Environ(), env...)
	if out, err := cmd.CombinedOutput(); err != nil {
		panic(fmt.Sprintf("go %s: %v\n%s", strings.Join(args, " "), err, out))
	}
}

// squatVar makes this binary listen on a socket until its input ends.
const squatVar = "SHIM_TEST_SQUAT"

func squatMain() {
	path := os.Getenv(squatVar)
	if path == "" {
		return
	}
	l, err := net.Listen("unix", path)
	if err != nil {
		panic(err)
	}
	if err := os.Chmod(path, 0o666); err != nil {
		panic(err)
	}
	os.Stdout.WriteString("up\n")
	io.Copy(io.Discard, os.Stdin)
	l.Close()
	os.Exit(0)
}

// shim is one that runs, with its pipes in the test's hands.
type shim struct {
	t      *testing.T
	cmd    *exec.Cmd
	stdin  *os.File
	stdout *os.File
	stderr bytes.Buffer
}

// start starts a shim.
func start(t *testing.T, env []string, args ...string) *shim {
	t.Helper()
	cmd := exec.Command(shimProgram, args...)
	cmd.Env = env
	return startCommand(t, cmd)
}

func startCommand(t *testing.T, cmd *exec.Cmd) *shim {
	t.Helper()
	s := &shim{t: t, cmd: cmd}
	inR, inW, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	outR, outW, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	s.stdin, s.stdout = inW, outR
	cmd.Stdin, cmd.Stdout, cmd.Stderr = inR, outW, &s.stderr
	err = cmd.Start()
	inR.Close()
	outW.Close()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { inW.Close(); outR.Close(); cmd.Process.Kill(); cmd.Wait() })
	return s
}

func (s *shim) say(line string) {
	s.t.Helper()
	if _, err := io.WriteString(s.stdin, line); err != nil {
		s.t.Fatal(err)
	}
}

// expect reads a line from the daemon.
func (s *shim) expect(line string) {
	s.t.Helper()
	b := make([]byte, len(line))
	if _, err := io.ReadFull(s.stdout, b); err != nil || string(b) != line {
		s.t.Fatalf("got %q, %v; want %q; its stderr: %s", b, err, line, s.stderr.String())
	}
}

// end waits for the shim's end and returns the rest of its output.
func (s *shim) end(code int, stderr string) string {
	s.t.Helper()
	rest, err := io.ReadAll(s.stdout)
	if err != nil {
		s.t.Error(err)
	}
	s.exited(code, stderr)
	return string(rest)
}

// exited waits for the shim's end. Its standard error has to be empty, or one
// line that contains what is given.
func (s *shim) exited(code int, stderr string) {
	s.t.Helper()
	s.cmd.Wait()
	if got := s.cmd.ProcessState.ExitCode(); got != code {
		s.t.Errorf("exit code %d, want %d (%v)", got, code, s.cmd.ProcessState)
	}
	switch got := s.stderr.String(); {
	case stderr == "" && got != "":
		s.t.Errorf("its standard error is not silent: %q", got)
	case stderr != "" && (strings.Count(got, "\n") != 1 || !strings.HasPrefix(got, "hermes-acp-shim: ") || !strings.Contains(got, stderr)):
		s.t.Errorf("its standard error is %q, want one line with %q", got, stderr)
	}
}
