package main

import (
	"context"
	"fmt"
	"path/filepath"

	"github.com/spf13/cobra"

	"github.com/hermesd/hermesd/transport/acpclient"
)

// madeBackup is what `backup --json` prints.
type madeBackup struct {
	ID       string `json:"id"` // the file
	Bytes    int64  `json:"bytes"`
	Sessions int    `json:"sessions"`
}

func (a *app) backupCommand() *cobra.Command {
	var asJSON, force bool
	cmd := &cobra.Command{
		Use:   "backup FILE",
		Short: "Write a copy of all sessions to a file, while the daemon works",
		Long: `Write a copy of all sessions to a file, while the daemon works. The file is
complete when it is there.

To go back to it: hermesd stop, put the file in the place of sessions.db in the
folder sessions of the state folder, and start again. Editors are told that
what they have seen may not be there any more.`,
		Args: cobra.ExactArgs(1),
		RunE: func(_ *cobra.Command, args []string) error {
			file, err := filepath.Abs(args[0])
			if err != nil {
				return err
			}
			return a.withDaemon(func(ctx context.Context, c *acpclient.Client) error {
				var made struct {
					Path     string `json:"path"`
					Bytes    int64  `json:"bytes"`
					Sessions int    `json:"sessions"`
				}
				if err := c.Call(ctx, "_hermes/backup", map[string]any{"path": file, "replace": force}, &made); err != nil {
					return fmt.Errorf("%w%s", err, hint(!force, "; --force writes over a file that is there"))
				}
				if asJSON {
					return a.printJSON(madeBackup{made.Path, made.Bytes, made.Sessions})
				}
				_, err := fmt.Fprintf(a.out, "%d sessions, %s: %s\n", made.Sessions, bytesText(made.Bytes), printable(made.Path))
				return err
			})
		},
	}
	cmd.Flags().BoolVarP(&force, "force", "f", false, "write over a file that is there")
	jsonFlag(cmd, &asJSON)
	return cmd
}

func hint(when bool, text string) string {
	if when {
		return text
	}
	return ""
}
