package transport

import (
	"errors"
	"io"
	"net"
	"os"
	"sync"
	"time"
)

// Stdio makes a connection of the process's standard input and output, for a
// daemon that serves one client which is its parent. From then on the output
// belongs to the connection: what the rest of the process prints goes to the
// standard error, and a client that is gone is an error of Write and not the
// end of the process.
//
// Deadlines are not supported. Close ends a Read that waits; the goroutine that
// waits for input on its behalf ends with the input or the process.
func Stdio() (*Conn, error) {
	out, err := takeStdout()
	if err != nil {
		return nil, err
	}
	return stdio(os.Stdin, out), nil
}

func stdio(in io.Reader, out io.WriteCloser) *Conn {
	r, w := io.Pipe()
	go func() {
		_, err := io.Copy(w, in)
		w.CloseWithError(err) // nil is EOF
	}()
	return &Conn{
		Conn:      &stdioConn{in: r, out: out},
		Principal: Principal{UID: os.Getuid(), PID: os.Getppid(), Network: "stdio", Remote: "stdio"},
	}
}

type stdioConn struct {
	in  *io.PipeReader
	out io.WriteCloser

	once sync.Once
	err  error
}

func (c *stdioConn) Read(b []byte) (int, error) {
	n, err := c.in.Read(b)
	if err == io.ErrClosedPipe { // closed here
		err = net.ErrClosed
	}
	return n, err
}

func (c *stdioConn) Write(b []byte) (int, error) { return c.out.Write(b) }

// CloseWrite closes the output; the client sees its end.
func (c *stdioConn) CloseWrite() error {
	c.once.Do(func() { c.err = c.out.Close() })
	return c.err
}

func (c *stdioConn) Close() error {
	return errors.Join(c.in.Close(), c.CloseWrite())
}

func (c *stdioConn) LocalAddr() net.Addr              { return stdioAddr{} }
func (c *stdioConn) RemoteAddr() net.Addr             { return stdioAddr{} }
func (c *stdioConn) SetDeadline(time.Time) error      { return os.ErrNoDeadline }
func (c *stdioConn) SetReadDeadline(time.Time) error  { return os.ErrNoDeadline }
func (c *stdioConn) SetWriteDeadline(time.Time) error { return os.ErrNoDeadline }

type stdioAddr struct{}

func (stdioAddr) Network() string { return "stdio" }
func (stdioAddr) String() string  { return "stdio" }
