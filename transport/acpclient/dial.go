package acpclient

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"time"

	"github.com/hermesd/hermesd/transport/link"
)

// Greet begins a connection to the daemon as a shim does, with a hello, and
// returns the Client and what the daemon said of itself. A daemon that refuses
// is an error with its words. conn is closed on error.
func Greet(ctx context.Context, conn net.Conn, hello link.Hello, o Options) (*Client, link.Welcome, error) {
	welcome, rest, err := exchange(ctx, conn, hello)
	if err != nil {
		conn.Close()
		return nil, link.Welcome{}, err
	}
	return New(rest, conn, o), welcome, nil
}

// exchange writes the hello and reads the welcome. rest is the stream behind it.
func exchange(ctx context.Context, conn net.Conn, hello link.Hello) (w link.Welcome, rest io.Reader, err error) {
	// A deadline in the past ends the reading below when ctx ends.
	stop := context.AfterFunc(ctx, func() { _ = conn.SetDeadline(time.Unix(1, 0)) })
	defer func() {
		if !stop() && err == nil {
			err = context.Cause(ctx)
		}
	}()
	if _, err := conn.Write(hello.Line()); err != nil {
		return w, nil, fmt.Errorf("greeting the daemon: %w", err)
	}
	buf := make([]byte, 0, 512)
	for {
		if i := bytes.IndexByte(buf, '\n'); i >= 0 {
			w, ok, err := link.ParseWelcome(buf[:i+1])
			switch {
			case err != nil:
				return w, nil, err
			case !ok:
				return w, nil, errors.New("greeting the daemon: what listens there is not hermesd")
			case w.Error != "":
				return w, nil, errors.New(w.Error)
			}
			return w, io.MultiReader(bytes.NewReader(bytes.Clone(buf[i+1:])), conn), nil
		}
		if len(buf) > link.MaxWelcome {
			return w, nil, errors.New("greeting the daemon: what listens there is not hermesd")
		}
		buf = append(buf, make([]byte, 512)...)
		n, err := conn.Read(buf[len(buf)-512:])
		buf = buf[:len(buf)-512+n]
		if err != nil {
			if ctx.Err() != nil {
				err = context.Cause(ctx)
			}
			return w, nil, fmt.Errorf("greeting the daemon: %w", err)
		}
	}
}
