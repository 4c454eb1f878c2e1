package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"path/filepath"
	"time"

	"github.com/spf13/cobra"

	"github.com/hermesd/hermesd/transport/acpclient"
)

func (a *app) sessionsCommand() *cobra.Command {
	return group("sessions", "See, follow, export, import, pin and delete sessions",
		a.sessionsList(), a.sessionsShow(), a.sessionsTail(), a.sessionsExport(), a.sessionsImport(), a.sessionsPin(true), a.sessionsPin(false), a.sessionsDelete())
}

// listedSession is a session as `sessions list --json` prints it.
type listedSession struct {
	ID      string          `json:"id"`
	State   string          `json:"state"` // idle, running, waiting; stored if it is not in memory
	Pinned  bool            `json:"pinned,omitempty"`
	Agent   string          `json:"agent,omitempty"`
	Cwd     string          `json:"cwd"`
	Dirs    []string        `json:"dirs,omitempty"`
	Title   string          `json:"title"`
	Updated string          `json:"updated"`
	Meta    json.RawMessage `json:"_meta,omitempty"`
}

func (a *app) sessionsList() *cobra.Command {
	var asJSON bool
	var folder string
	cmd := &cobra.Command{
		Use:   "list",
		Short: "List all sessions, newest first",
		Args:  cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if cmd.Flags().Changed("cwd") {
				abs, err := filepath.Abs(folder)
				if err != nil {
					return err
				}
				folder = abs
			}
			return a.withDaemon(func(ctx context.Context, c *acpclient.Client) error {
				list, err := listSessions(ctx, c, folder)
				if err != nil {
					return err
				}
				if asJSON {
					return a.printJSON(list0(list))
				}
				if len(list) == 0 {
					_, err := fmt.Fprintln(a.err, "there are no sessions yet")
					return err
				}
				var rows [][]string
				for _, s := range list {
					updated, _ := time.Parse(time.RFC3339, s.Updated)
					if s.Pinned {
						s.State += ", pinned"
					}
					rows = append(rows, []string{s.ID, s.State, s.Agent, ago(updated, time.Now()), s.Cwd, shorten(s.Title, 50)})
				}
				return a.table("SESSION STATE AGENT UPDATED FOLDER TITLE", rows)
			})
		},
	}
	cmd.Flags().StringVar(&folder, "cwd", "", "only the sessions of this `folder`")
	jsonFlag(cmd, &asJSON)
	return cmd
}

// listSessions joins the list of sessions with what is known of the live ones.
func listSessions(ctx context.Context, c *acpclient.Client, cwd string) ([]listedSession, error) {
	infos, err := c.List(ctx, cwd)
	if err != nil {
		return nil, err
	}
	s, err := status(ctx, c)
	if err != nil {
		return nil, err
	}
	live := map[string]sessionStatus{}
	for _, x := range s.Sessions {
		live[x.ID] = x
	}
	var list []listedSession
	for _, i := range infos {
		x := listedSession{ID: i.ID, State: "stored", Cwd: i.Cwd, Dirs: i.Dirs, Title: i.Title, Updated: i.UpdatedAt, Meta: i.Meta}
		var meta struct {
			Hermes struct {
				Agent  string `json:"agent"`
				Pinned bool   `json:"pinned"`
			} `json:"hermes"`
		}
		_ = json.Unmarshal(i.Meta, &meta) // absent is fine
		x.Agent, x.Pinned = meta.Hermes.Agent, meta.Hermes.Pinned
		if l, ok := live[i.ID]; ok {
			x.State, x.Agent = l.State, l.Agent
		}
		list = append(list, x)
	}
	return list, nil
}

func (a *app) sessionsShow() *cobra.Command {
	var asJSON bool
	cmd := &cobra.Command{
		Use:   "show SESSION",
		Short: "Say everything that is known of a session",
		Args:  cobra.ExactArgs(1),
		RunE: func(_ *cobra.Command, args []string) error {
			return a.withDaemon(func(ctx context.Context, c *acpclient.Client) error {
				found, err := findSession(ctx, c, args[0])
				if err != nil {
					return err
				}
				s, raw, err := showSession(ctx, c, found.ID)
				if err != nil {
					return err
				}
				if asJSON {
					return a.printJSON(raw)
				}
				return a.printSession(s)
			})
		},
	}
	jsonFlag(cmd, &asJSON)
	return cmd
}

func (a *app) printSession(s sessionDetails) error {
	line := func(name, format string, args ...any) {
		fmt.Fprintf(a.out, "%-10s %s\n", name, printable(fmt.Sprintf(format, args...)))
	}
	line("session", "%s", s.ID)
	if s.Title != "" {
		line("title", "%s", s.Title)
	}
	line("agent", "%s", s.Agent)
	line("folder", "%s", s.Cwd)
	for _, d := range s.Dirs {
		line("", "%s", d)
	}
	state := s.State
	if !s.Live {
		state = "stored"
	}
	if s.Pinned {
		state += ", pinned"
	}
	line("state", "%s", state)
	line("created", "%s", s.Created.Local().Format(time.DateTime))
	line("updated", "%s", s.Updated.Local().Format(time.DateTime))
	line("turns", "%d, %d events", s.Turns, s.Events)
	if s.Imported != "" {
		line("imported", "as %s", s.Imported)
	}
	if s.Parent != "" {
		line("fork of", "%s at event %d", s.Parent, s.ForkedAt)
	}
	var modes struct {
		Current string `json:"currentModeId"`
	}
	if json.Unmarshal(s.Modes, &modes) == nil && modes.Current != "" {
		line("mode", "%s", modes.Current)
	}
	if s.Turn != nil {
		line("turn", "asked by %s, for %v", s.Turn.Origin, time.Since(s.Turn.Since).Round(time.Second))
	}
	for _, c := range s.Attached {
		line("attached", "%s, %s", c.Client, c.who())
	}
	if len(s.Queue) > 0 {
		line("queue", "%d prompts wait", len(s.Queue))
	}
	for _, q := range s.Questions {
		line("question", "%s: %s", q.ID, q.Title)
		for _, o := range q.Options {
			line("", "  %s  %s", o.ID, o.Name)
		}
	}
	return nil
}

// deletedSession is one as `sessions delete --json` lists it.
type deletedSession struct {
	ID string `json:"id"`
}

func (a *app) sessionsDelete() *cobra.Command {
	var asJSON bool
	cmd := &cobra.Command{
		Use:   "delete SESSION…",
		Short: "Delete sessions and their history for good",
		Args:  cobra.MinimumNArgs(1),
		RunE: func(_ *cobra.Command, args []string) error {
			return a.withDaemon(func(ctx context.Context, c *acpclient.Client) error {
				// All of them are found before the first is deleted.
				var found []acpclient.SessionInfo
				for _, arg := range args {
					s, err := findSession(ctx, c, arg)
					if err != nil {
						return err
					}
					found = append(found, s)
				}
				deleted := []deletedSession{}
				err := func() error {
					for _, s := range found {
						if err := c.Delete(ctx, s.ID); err != nil {
							return fmt.Errorf("deleting %s: %w", s.ID, err)
						}
						deleted = append(deleted, deletedSession{s.ID})
						if !asJSON {
							fmt.Fprintf(a.out, "%s is deleted\n", s.ID)
						}
					}
					return nil
				}()
				if asJSON { // also when one failed: the others are gone
					err = errors.Join(err, a.printJSON(deleted))
				}
				return err
			})
		},
	}
	jsonFlag(cmd, &asJSON)
	return cmd
}
