package main

import (
	"bytes"
	"context"
	"io"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/hermesd/hermesd/daemon/daemontest"
)

// terminal is a new terminal: what a user types goes into ours, theirs is the
// program's.
func terminal(t *testing.T) (ours, theirs *os.File) {
	t.Helper()
	ours, err := os.OpenFile("/dev/ptmx", os.O_RDWR|syscall.O_NOCTTY, 0)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { ours.Close() })
	if err := unix.IoctlSetPointerInt(int(ours.Fd()), unix.TIOCSPTLCK, 0); err != nil {
		t.Fatal(err)
	}
	n, err := unix.IoctlGetInt(int(ours.Fd()), unix.TIOCGPTN)
	if err != nil {
		t.Fatal(err)
	}
	theirs, err = os.OpenFile("/dev/pts/"+strconv.Itoa(n), os.O_RDWR|syscall.O_NOCTTY, 0)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { theirs.Close() })
	return ours, theirs
}

func echoes(t *testing.T, tty *os.File) bool {
	t.Helper()
	s, err := unix.IoctlGetTermios(int(tty.Fd()), unix.TCGETS)
	if err != nil {
		t.Fatal(err)
	}
	return s.Lflag&unix.ECHO != 0
}

// The terminal shows nothing of a key, and shows again what is typed afterwards,
// also when the user changes his mind.
func TestAKeyThatIsTypedIsNotShown(t *testing.T) {
	bin := t.TempDir()
	if err := daemontest.Build(t.Context(), bin, daemontest.RaceFlags()...); err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]struct {
		interrupt bool
		code      int
	}{"typed": {false, 0}, "interrupted": {true, 1}} {
		t.Run(name, func(t *testing.T) {
			home, err := daemontest.NewHome(bin, "")
			if err != nil {
				t.Fatal(err)
			}
			defer func() {
				if err := home.Close(); err != nil {
					t.Error(err)
				}
			}()
			ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
			defer cancel()
			ours, theirs := terminal(t)
			cmd := home.Command(ctx, "login", "openai", "--no-check")
			cmd.Stdin = theirs
			said, err := cmd.StderrPipe()
			if err != nil {
				t.Fatal(err)
			}
			if err := cmd.Start(); err != nil {
				t.Fatal(err)
			}
			var asked []byte
			for one := make([]byte, 1); !bytes.HasSuffix(asked, []byte("(it is not shown): ")); asked = append(asked, one...) {
				if _, err := io.ReadFull(said, one); err != nil {
					t.Fatalf("%q, %v", asked, err)
				}
			}
			for echoes(t, theirs) { // it is switched off right after the question
				if ctx.Err() != nil {
					t.Fatal("the terminal shows what is typed")
				}
				time.Sleep(time.Millisecond)
			}
			if c.interrupt {
				if err := cmd.Process.Signal(os.Interrupt); err != nil {
					t.Fatal(err)
				}
			} else if _, err := io.WriteString(ours, "sk-typed-5678\n"); err != nil {
				t.Fatal(err)
			}
			rest, err := io.ReadAll(said)
			if err != nil {
				t.Fatal(err)
			}
			_ = cmd.Wait()
			if code := cmd.ProcessState.ExitCode(); code != c.code || strings.Contains(string(rest), "sk-typed") {
				t.Errorf("exit code %d: %s", code, rest)
			}
			if !echoes(t, theirs) {
				t.Error("the terminal stays without an echo")
			}
			kept, err := os.ReadFile(filepath.Join(home.Dir, "credentials.json"))
			if has := bytes.Contains(kept, []byte("sk-typed-5678")); has == c.interrupt {
				t.Errorf("kept: %v, %v", has, err)
			}
		})
	}
}
