package transport_test

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"
	"testing"

	"github.com/hermesd/hermesd/transport"
	"github.com/hermesd/hermesd/transport/link"
	"github.com/hermesd/hermesd/transport/link/linktest"
	"go.uber.org/goleak"
)

func TestMain(m *testing.M) {
	linktest.Main()
	stdioMain()
	goleak.VerifyTestMain(m)
}

func TestASecondDaemonIsRefusedWithTheFirstOnesProcess(t *testing.T) {
	place := linktest.New(t)
	first := place.Serve()
	_, err := transport.Listen(t.Context(), transport.ListenConfig{Places: place.Places()})
	if !errors.Is(err, transport.ErrRunning) || !strings.Contains(err.Error(), fmt.Sprintf("(pid %d)", first.Pid)) || !strings.Contains(err.Error(), "hermesd stop") {
		t.Errorf("got %v", err)
	}
	if c, err := link.Dial(t.Context(), place.Places().Socket); err != nil {
		t.Errorf("the first one: %v", err)
	} else {
		c.Close()
	}
}

const stdioVar = "TRANSPORT_TEST_STDIO"

// stdioMain makes this binary answer one line on its standard output while it
// prints, and write on when nobody reads any more.
func stdioMain() {
	if os.Getenv(stdioVar) == "" {
		return
	}
	c, err := transport.Stdio()
	if err != nil {
		panic(err)
	}
	fmt.Println("noise of a library")
	line, _ := bufio.NewReader(c).ReadString('\n')
	for err == nil {
		_, err = io.WriteString(c, line)
	}
	fmt.Fprintln(os.Stderr, "still here")
	os.Exit(7)
}

func TestStdoutBelongsToTheConnection(t *testing.T) {
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(self)
	cmd.Env = append(os.Environ(), stdioVar+"=1", "GORACE=atexit_sleep_ms=0")
	cmd.Stdin = strings.NewReader("hello\n")
	var stderr strings.Builder
	cmd.Stderr = &stderr
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	b := make([]byte, 12)
	if _, err := io.ReadFull(out, b); string(b) != "hello\nhello\n" || err != nil {
		t.Errorf("got %q, %v", b, err)
	}
	out.Close()
	cmd.Wait()
	if code := cmd.ProcessState.ExitCode(); code != 7 || stderr.String() != "noise of a library\nstill here\n" {
		t.Errorf("it ended with %v and said %q", cmd.ProcessState, stderr.String())
	}
}
