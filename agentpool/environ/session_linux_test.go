package environ

import (
	"os"
	"path/filepath"
	"strconv"
	"syscall"
	"testing"
)

// Interactive shells give each job a process group of its own: it ends all the
// same. What has left the session was meant to stay.
func TestAJobInAGroupOfItsOwnEndsWithTheShell(t *testing.T) {
	l := home(t, `
$SELF start group $HOME/job
$SELF start session $HOME/daemon
export DONE=1`)
	self := l.Command[0]
	l.Base = append(l.Base, "SELF="+self)
	if got := l.Getenv(t.Context(), "DONE"); got != "1" {
		t.Fatalf("got %q", got)
	}
	pid := func(name string) string {
		b, err := os.ReadFile(filepath.Join(lookup(l.Base, "HOME"), name))
		if err != nil {
			t.Fatal(err)
		}
		return string(b)
	}
	daemon, err := strconv.Atoi(pid("daemon"))
	if err != nil {
		t.Fatal(err)
	}
	defer syscall.Kill(daemon, syscall.SIGKILL)
	gone(t, pid("job"))
	if sessionOf(pid("daemon")) != daemon {
		t.Error("what made a session of its own has ended")
	}
}
