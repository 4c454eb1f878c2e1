package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"github.com/spf13/cobra"

	"github.com/hermesd/hermesd/transport"
	"github.com/hermesd/hermesd/transport/identity"
	"github.com/hermesd/hermesd/transport/link"
	"github.com/hermesd/hermesd/transport/remote"
	"github.com/hermesd/hermesd/transport/tokens"
)

// connectPatience is how long another machine may take to answer.
const connectPatience = 30 * time.Second

func (a *app) connectCommand() *cobra.Command {
	var o struct {
		agent, code, tokenFile, fingerprint string
		shares, forget                      bool
	}
	cmd := &cobra.Command{
		Use:   "connect ADDRESS",
		Short: "Be an editor's agent here and use the daemon of another machine",
		Long: `Connect stdin and stdout with the daemon at tcp://HOST:PORT, as hermes-acp-shim
does with the daemon of this machine. The first time needs a code, which hermesd
pair prints on the other machine. The daemon's certificate is remembered then, and
any other one is refused later on.

Editors start hermes-acp-shim --connect ADDRESS, which becomes this command.`,
		Example: `  hermesd connect tcp://box:7777 --code CODE    once, from a terminal
  hermes-acp-shim --connect tcp://box:7777      as an editor's agent, from then on`,
		Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			address, err := transport.ParseAddress(args[0])
			if err != nil {
				return usagef("%w", err)
			}
			if address.Network == transport.Unix {
				return usagef("%s is on this machine: use hermes-acp-shim --socket", address)
			}
			places, err := a.places()
			if err != nil {
				return err
			}
			book := remote.NewBook(filepath.Dir(places.Config))
			book.Note = func(text string) { fmt.Fprintf(a.err, "hermesd: %s\n", text) }
			if o.forget {
				return book.Forget(address)
			}
			var want identity.Fingerprint
			if o.fingerprint != "" {
				if want, err = identity.ParseFingerprint(o.fingerprint); err != nil {
					return usagef("--fingerprint: %w", err)
				}
			}
			hello := link.Hello{
				Link: link.Number, ID: link.NewID(), Version: buildVersion(), PID: os.Getpid(), Agent: o.agent, SharesFiles: o.shares,
			}
			if o.tokenFile != "" {
				if err := keepToken(book, address, o.tokenFile); err != nil {
					return err
				}
			}
			if o.code != "" {
				code, err := tokens.ParseCode(o.code)
				if err != nil {
					return usagef("--code: %w", err)
				}
				if err := a.pairWith(book, address, code, hello); err != nil {
					return err
				}
				if isTerminal(a.in) { // nobody speaks ACP by hand
					fmt.Fprintf(a.err, "Now give your editor this agent: hermes-acp-shim --connect %s\n", address)
					return nil
				}
			}
			return connect(book, address, want, hello)
		},
	}
	cmd.Flags().StringVar(&o.code, "code", "", "the `code` that hermesd pair printed on the other machine: pair first")
	cmd.Flags().StringVar(&o.tokenFile, "token-file", "", "a `file` with a token that hermesd tokens create printed: keep it for this address")
	cmd.Flags().StringVar(&o.fingerprint, "fingerprint", "", "the `fingerprint` the daemon's certificate must have (default: the one it had the first time)")
	cmd.Flags().StringVar(&o.agent, "agent", "", "the `name` of the agent new sessions get (default: the configured one)")
	cmd.Flags().BoolVar(&o.shares, "shares-files", false, "a path means the same file on both machines: the editor may be asked for files")
	cmd.Flags().BoolVar(&o.forget, "forget", false, "forget certificate and token of this address, and do nothing else")
	return cmd
}

// pairWith gets a token for a code.
func (a *app) pairWith(book *remote.Book, address transport.Address, code tokens.Code, hello link.Hello) error {
	ctx, cancel := interruptible()
	defer cancel()
	ctx, stop := context.WithTimeoutCause(ctx, connectPatience, fmt.Errorf("no answer after %v", connectPatience))
	defer stop()
	name, err := book.Pair(ctx, address, code, hello)
	if err != nil {
		return err
	}
	fmt.Fprintf(a.err, "hermesd: this machine is paired with %s, as %s\n", address, printable(name))
	return nil
}

// keepToken takes a token from a file into the book.
func keepToken(book *remote.Book, address transport.Address, path string) error {
	f, err := os.Open(path)
	if err != nil {
		return fmt.Errorf("reading the token: %w", err)
	}
	defer f.Close()
	text, err := io.ReadAll(io.LimitReader(f, 4<<10))
	if err != nil {
		return fmt.Errorf("reading the token: %w", err)
	}
	if err := book.SetToken(address, strings.TrimSpace(string(text))); err != nil {
		return fmt.Errorf("keeping the token of %s: %w", path, err)
	}
	return nil
}

// connect relays until one side leaves.
func connect(book *remote.Book, address transport.Address, want identity.Fingerprint, hello link.Hello) error {
	parent := os.Getppid()
	token, err := book.Token(address)
	if err != nil {
		return err
	}
	if token == "" {
		return fmt.Errorf("%s: %w; run `hermesd pair` there, and here: hermesd connect %s --code CODE", address, remote.ErrNoToken, address)
	}
	hello.Token = token
	ctx, cancel := context.WithTimeoutCause(context.Background(), connectPatience, fmt.Errorf("no answer after %v", connectPatience))
	defer cancel()
	conn, err := book.Dial(ctx, address, want)
	if err != nil {
		return err
	}
	if _, err := conn.Write(hello.Line()); err != nil {
		conn.Close()
		return fmt.Errorf("%w: %w", link.ErrGone, err)
	}
	// An editor that closes our output is not a reason to drop what it said last.
	signal.Ignore(syscall.SIGPIPE)
	relay := link.Relay{In: os.Stdin, Out: os.Stdout, Conn: conn, Parent: parent}
	if err := relay.Run(); errors.Is(err, link.ErrGone) {
		return fmt.Errorf("%s: %w; sessions are kept there, reconnect from the editor", address, err)
	} else if err != nil {
		return fmt.Errorf("%s: %w", address, err)
	}
	return nil
}
