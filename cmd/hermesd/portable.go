package main

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"time"

	"github.com/spf13/cobra"

	"github.com/hermesd/hermesd/daemon/session"
	"github.com/hermesd/hermesd/transport/acpclient"
)

// exportLines writes a session so that it can be imported again: its log byte for
// byte, behind a line that says what it is and before one that says that it is
// whole.
func exportLines(ctx context.Context, c *acpclient.Client, s sessionDetails, out *bufio.Writer) error {
	lines := json.NewEncoder(out)
	lines.SetEscapeHTML(false)
	if err := lines.Encode(session.Header{Format: session.PortableFormat, Exported: time.Now().UTC().Truncate(time.Second), By: buildVersion(), Meta: s.Meta}); err != nil {
		return err
	}
	for after := uint64(0); ; {
		var page struct {
			Lines [][]byte `json:"lines"`
			Head  uint64   `json:"head"`
			Next  uint64   `json:"next"`
		}
		err := c.Call(ctx, "_hermes/sessions/tail", map[string]any{
			"sessionId": s.ID, "from": after, "limitBytes": pageBytes, "exact": true,
		}, &page)
		if err != nil {
			return err
		}
		for _, line := range page.Lines {
			if _, err := out.Write(line); err != nil {
				return err
			}
		}
		if page.Next <= after || page.Next >= page.Head {
			end := session.Seq(max(page.Next, after))
			return lines.Encode(session.Footer{End: &end})
		}
		after = page.Next
	}
}

// importedSession is one as `sessions import --json` prints it.
type importedSession struct {
	ID       string `json:"id"`
	Imported string `json:"imported"` // what it was called where it was exported
	Events   uint64 `json:"events"`
	Cwd      string `json:"cwd"`
	Title    string `json:"title"`
}

func (a *app) sessionsImport() *cobra.Command {
	var asJSON bool
	var folder string
	cmd := &cobra.Command{
		Use:   "import FILE",
		Short: "Make a session of a file that export wrote",
		Long: `Make a session of a file that export --format json wrote; "-" is stdin. It keeps
its id if that is free, and gets a new one else. Its MCP servers, its further
folders and its mode are not taken over.

What is in the file is what the agent will believe has been said and done:
import only what you would run.`,
		Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) (err error) {
			if cmd.Flags().Changed("cwd") {
				if folder, err = filepath.Abs(folder); err != nil {
					return err
				}
			}
			file := args[0]
			if file == "-" {
				if file, err = spool(a.in); err != nil {
					return err
				}
				defer os.Remove(file)
			}
			if file, err = filepath.Abs(file); err != nil {
				return err
			}
			return a.withDaemon(func(ctx context.Context, c *acpclient.Client) error {
				var s importedSession
				if err := c.Call(ctx, "_hermes/sessions/import", map[string]any{"path": file, "cwd": folder}, &s); err != nil {
					return err
				}
				if asJSON {
					return a.printJSON(s)
				}
				_, err := fmt.Fprintf(a.out, "%s has %d events, in %s\n", s.ID, s.Events, printable(s.Cwd))
				return err
			})
		},
	}
	cmd.Flags().StringVar(&folder, "cwd", "", "the `folder` of the session here, if it is another one")
	jsonFlag(cmd, &asJSON)
	return cmd
}

// spool writes what comes in to a file that the daemon can read.
func spool(in io.Reader) (name string, err error) {
	f, err := os.CreateTemp("", "hermesd-import-*")
	if err != nil {
		return "", err
	}
	_, err = io.Copy(f, in)
	if cerr := f.Close(); err == nil {
		err = cerr
	}
	if err != nil {
		os.Remove(f.Name())
	}
	return f.Name(), err
}

// pinnedSession is one as `sessions pin --json` lists it.
type pinnedSession struct {
	ID     string `json:"id"`
	Pinned bool   `json:"pinned"`
}

func (a *app) sessionsPin(pin bool) *cobra.Command {
	var asJSON bool
	cmd := &cobra.Command{
		Use:   "pin SESSION…",
		Short: "Keep sessions from being removed for their age or for space",
		Args:  cobra.MinimumNArgs(1),
		RunE: func(_ *cobra.Command, args []string) error {
			return a.withDaemon(func(ctx context.Context, c *acpclient.Client) error {
				var ids []string
				for _, arg := range args {
					s, err := findSession(ctx, c, arg)
					if err != nil {
						return err
					}
					ids = append(ids, s.ID)
				}
				done := []pinnedSession{}
				for _, id := range ids {
					if err := c.Call(ctx, "_hermes/sessions/pin", map[string]any{"sessionId": id, "pinned": pin}, nil); err != nil {
						return err
					}
					done = append(done, pinnedSession{id, pin})
					if !asJSON {
						fmt.Fprintf(a.out, "%s %s\n", id, map[bool]string{true: "is pinned", false: "is not pinned any more"}[pin])
					}
				}
				if asJSON {
					return a.printJSON(done)
				}
				return nil
			})
		},
	}
	if !pin {
		cmd.Use, cmd.Short = "unpin SESSION…", "Let pinned sessions be removed again for their age or for space"
	}
	jsonFlag(cmd, &asJSON)
	return cmd
}
