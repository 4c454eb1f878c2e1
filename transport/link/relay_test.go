package link

import (
	"bufio"
	"errors"
	"io"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// socketPair returns both ends of a connection.
func socketPair(t *testing.T) (a, b *net.UnixConn) {
	t.Helper()
	l, err := net.Listen("unix", filepath.Join(tempDir(t), "s"))
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	c, err := net.Dial("unix", l.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	s, err := l.Accept()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close(); s.Close() })
	return c.(*net.UnixConn), s.(*net.UnixConn)
}

// relayed is a relay that runs, its editor and its daemon.
type relayed struct {
	stdin  *os.File // what the editor writes to
	stdout *os.File // what the editor reads from
	daemon *net.UnixConn
	lines  *bufio.Reader // of the daemon
	done   chan error
}

func startRelay(t *testing.T) *relayed {
	t.Helper()
	inR, inW, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	outR, outW, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	shim, daemon := socketPair(t)
	r := &relayed{inW, outR, daemon, bufio.NewReader(daemon), make(chan error, 1)}
	go func() {
		relay := Relay{In: inR, Out: outW, Conn: shim}
		r.done <- relay.Run()
		outW.Close()
	}()
	// Both pipes end here in the end, so that whatever reads or watches them ends.
	t.Cleanup(func() { inW.Close(); outR.Close(); daemon.Close(); inR.Close() })
	return r
}

func (r *relayed) say(t *testing.T, s string) {
	t.Helper()
	if _, err := r.daemon.Write([]byte(s)); err != nil {
		t.Fatal(err)
	}
}

func (r *relayed) output(t *testing.T) string {
	t.Helper()
	b, err := io.ReadAll(r.stdout)
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

func TestTheWelcomeDoesNotHoldUpTheEditor(t *testing.T) {
	r := startRelay(t)
	io.WriteString(r.stdin, "one\ntwo\n")
	for _, want := range []string{"one\n", "two\n"} {
		if got, err := r.lines.ReadString('\n'); got != want || err != nil {
			t.Fatalf("got %q, %v", got, err)
		}
	}
	// Only now the daemon says its first line, in pieces, the last one with more.
	welcome := string(Welcome{Link: 1, Version: strings.Repeat("v", 5000)}.Line())
	r.say(t, welcome[:5])
	r.say(t, welcome[5:3000])
	r.say(t, welcome[3000:]+"three\nfo")
	r.say(t, "ur\n")
	r.stdin.Close()
	if _, err := r.lines.ReadString('\n'); err != io.EOF {
		t.Fatalf("the daemon does not see the editor's end: %v", err)
	}
	r.say(t, "five\n")
	r.daemon.Close()
	if err := <-r.done; err != nil {
		t.Error(err)
	}
	if got, want := r.output(t), "three\nfour\nfive\n"; got != want {
		t.Errorf("the editor got %q, want %q", got, want)
	}
}

func TestTheDaemonLeavesFirst(t *testing.T) {
	for _, test := range []struct {
		name, says string
		check      func(error) bool
		output     string
	}{
		{"without a word", "", func(err error) bool { return errors.Is(err, ErrGone) }, ""},
		{"in its first line", `{"hermes":{"li`, func(err error) bool { return errors.Is(err, ErrGone) }, ""},
		{"after its first line", string(Welcome{Link: 1}.Line()), func(err error) bool { return errors.Is(err, ErrGone) }, ""},
		{"in the middle", string(Welcome{Link: 1}.Line()) + "a\nb", func(err error) bool { return errors.Is(err, ErrGone) }, "a\nb"},
		{"refusing", string(Welcome{Link: 1, Error: "no\nway"}.Line()) + "x\n", func(err error) bool {
			var refused *Refused
			return errors.As(err, &refused) && refused.Text == "no way"
		}, ""},
		{"not being hermesd", "HTTP/1.1 400 Bad Request\r\n", func(err error) bool { return strings.Contains(err.Error(), "is not hermesd") }, ""},
		{"not being hermesd and saying no line", "HTTP", func(err error) bool { return strings.Contains(err.Error(), "is not hermesd") }, ""},
		{"with a welcome that is none", `{"hermes":7}` + "\n", func(err error) bool { return strings.Contains(err.Error(), "welcome") }, ""},
		{"with a welcome without end", `{"hermes":{"version":"` + strings.Repeat("v", MaxWelcome), func(err error) bool { return strings.Contains(err.Error(), "is not hermesd") }, ""},
	} {
		t.Run(test.name, func(t *testing.T) {
			r := startRelay(t)
			if test.says != "" {
				r.say(t, test.says)
			}
			r.daemon.Close()
			if err := <-r.done; err == nil || !test.check(err) {
				t.Errorf("got %v", err)
			}
			if got := r.output(t); got != test.output {
				t.Errorf("the editor got %q, want %q", got, test.output)
			}
		})
	}
}

func TestADaemonThatTakesNothingEndsWithItsReason(t *testing.T) {
	r := startRelay(t)
	r.daemon.CloseRead() // writing to it fails from now on
	io.WriteString(r.stdin, "lost\n")
	r.say(t, string(Welcome{Link: 1, Error: "full"}.Line()))
	var refused *Refused
	if err := <-r.done; !errors.As(err, &refused) || refused.Text != "full" {
		t.Errorf("got %v", err)
	}
}

func TestRelayNeedsAConnectionWithTwoDirections(t *testing.T) {
	a, b := net.Pipe()
	defer a.Close()
	defer b.Close()
	if err := (&Relay{Conn: a}).Run(); err == nil {
		t.Error("no error")
	}
}
