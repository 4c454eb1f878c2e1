package transport

import (
	"errors"
	"io"
	"net"
	"os"
	"testing"
	"time"
)

func stdioPair(t *testing.T) (c *Conn, in, out *os.File) {
	t.Helper()
	inR, inW, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	outR, outW, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	c = stdio(inR, outW)
	t.Cleanup(func() { c.Close(); inW.Close(); inR.Close(); outR.Close() })
	return c, inW, outR
}

func TestStdioIsAConnection(t *testing.T) {
	c, in, out := stdioPair(t)
	io.WriteString(in, "to us")
	b := make([]byte, 5)
	if _, err := io.ReadFull(c, b); string(b) != "to us" || err != nil {
		t.Fatalf("got %q, %v", b, err)
	}
	io.WriteString(c, "from us")
	if err := c.CloseWrite(); err != nil {
		t.Fatal(err)
	}
	if b, err := io.ReadAll(out); string(b) != "from us" || err != nil {
		t.Errorf("got %q, %v", b, err)
	}
	in.Close()
	if n, err := c.Read(b); n != 0 || err != io.EOF {
		t.Errorf("after the end of the input: %d, %v", n, err)
	}
	if c.Principal.Network != "stdio" || c.Principal.UID != os.Getuid() {
		t.Errorf("got %+v", c.Principal)
	}
	if err := c.SetReadDeadline(time.Time{}); !errors.Is(err, os.ErrNoDeadline) {
		t.Errorf("deadline: %v", err)
	}
	if c.LocalAddr().Network() != "stdio" || c.RemoteAddr().String() != "stdio" {
		t.Error("not stdio")
	}
}

func TestClosingStdioEndsARead(t *testing.T) {
	c, _, _ := stdioPair(t)
	got := make(chan error)
	go func() {
		_, err := c.Read(make([]byte, 1))
		got <- err
	}()
	if err := c.Close(); err != nil {
		t.Fatal(err)
	}
	if err := <-got; !errors.Is(err, net.ErrClosed) {
		t.Errorf("got %v", err)
	}
}
