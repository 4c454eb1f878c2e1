package link

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"runtime"
	"time"
)

// ErrNoDaemon: nobody listens on the socket.
var ErrNoDaemon = errors.New("no hermesd is running")

// MaxSocketPath returns how many bytes a socket's path may have on an operating
// system (a GOOS). The kernel's sockaddr_un has room for no more.
func MaxSocketPath(goos string) int {
	switch goos {
	case "linux", "windows", "android", "solaris", "illumos":
		return 107
	}
	return 103
}

// CheckSocketPath tells, before the kernel says "invalid argument", that a path
// is too long for a socket and what helps.
func CheckSocketPath(path string) error {
	if limit := MaxSocketPath(runtime.GOOS); len(path) > limit {
		return fmt.Errorf("the socket's path is too long (%d bytes, at most %d are possible): %s; set HERMESD_HOME (or XDG_RUNTIME_DIR) to a shorter folder, or name a shorter path with --socket",
			len(path), limit, path)
	}
	return nil
}

// Dial connects to the daemon that listens on a socket. It says [ErrNoDaemon]
// when nobody does. A daemon that is stopped or busy is connected to all the
// same: the kernel accepts for it. A listener of another user (root excepted)
// is refused, because the hello carries the user's environment.
func Dial(ctx context.Context, socket string) (net.Conn, error) {
	if err := CheckSocketPath(socket); err != nil {
		return nil, err
	}
	var d net.Dialer
	for {
		c, err := d.DialContext(ctx, "unix", socket)
		switch {
		case err == nil:
			if err := checkListener(c, socket); err != nil {
				c.Close()
				return nil, fmt.Errorf("connecting to %s: %w", socket, err)
			}
			return c, nil
		case backlogFull(err):
			// Somebody listens and has not accepted thousands of others yet.
			// The kernel has no way to wait for that with a limit of time.
			select {
			case <-time.After(10 * time.Millisecond):
				continue
			case <-ctx.Done():
				return nil, fmt.Errorf("connecting to %s: %w", socket, context.Cause(ctx))
			}
		case nobodyThere(err):
			if err := CheckSocketFile(socket); err != nil {
				return nil, err
			}
			return nil, fmt.Errorf("%w (socket %s)", ErrNoDaemon, socket)
		}
		return nil, fmt.Errorf("connecting to hermesd: %w", err)
	}
}

// CheckSocketFile refuses a path at which there is something that is not a
// socket. Such a thing is never removed.
func CheckSocketFile(path string) error {
	info, err := os.Lstat(path)
	if err != nil {
		return nil // nothing there, or the next step has the better error
	}
	// Windows shows sockets as irregular files.
	if info.Mode()&(fs.ModeSocket|fs.ModeIrregular) == 0 {
		return fmt.Errorf("%s is not a socket (%s); move it away or choose another socket with --socket", path, kind(info.Mode()))
	}
	return nil
}

func kind(m fs.FileMode) string {
	switch {
	case m.IsRegular():
		return "it is a regular file"
	case m.IsDir():
		return "it is a folder"
	case m&fs.ModeSymlink != 0:
		return "it is a symbolic link"
	}
	return "mode " + m.String()
}
