package main

import (
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"time"

	"github.com/spf13/cobra"

	"github.com/hermesd/hermesd/agentpool/native/grants"
	"github.com/hermesd/hermesd/transport/link"
)

// grantsFile is where the built-in agent remembers what is allowed for good. The
// commands read and change it themselves, as running sessions do: they need no
// daemon, and what is revoked counts at once.
func grantsFile(p link.Places) *grants.File {
	return grants.Open(filepath.Join(p.State, grants.FileName))
}

func (a *app) grantsCommand() *cobra.Command {
	return group("grants", "See and revoke what is always allowed", a.grantsList(), a.grantsRevoke())
}

func (a *app) grantsList() *cobra.Command {
	var asJSON, here bool
	cmd := &cobra.Command{
		Use:   "list",
		Short: "List what is always allowed, and in which workspace",
		Args:  cobra.NoArgs,
		RunE: func(*cobra.Command, []string) error {
			places, err := a.places()
			if err != nil {
				return err
			}
			all, err := grantsFile(places).List()
			if err != nil {
				return err
			}
			if here {
				cwd, err := filepath.Abs(".")
				if err != nil {
					return err
				}
				ws := grants.Workspace(cwd)
				all = slices.DeleteFunc(all, func(g grants.Grant) bool { return g.Workspace != ws })
			}
			if asJSON {
				return a.printJSON(list0(all))
			}
			if len(all) == 0 {
				_, err := fmt.Fprintln(a.err, "nothing is always allowed; an “always” in an editor makes a grant")
				return err
			}
			var rows [][]string
			for _, g := range all {
				what := g.What
				if g.Kind == grants.Prefix {
					what += " …"
				}
				rows = append(rows, []string{g.ID, string(g.Kind), shorten(what, 60), g.Workspace, ago(g.Created, time.Now())})
			}
			return a.table("GRANT KIND WHAT WORKSPACE GIVEN", rows)
		},
	}
	jsonFlag(cmd, &asJSON)
	cmd.Flags().BoolVar(&here, "here", false, "only those of the workspace this folder is in")
	return cmd
}

func (a *app) grantsRevoke() *cobra.Command {
	var everything bool
	cmd := &cobra.Command{
		Use:   "revoke GRANT… | --all",
		Short: "Take back what is always allowed; running sessions ask again at once",
		RunE: func(_ *cobra.Command, args []string) error {
			if everything == (len(args) > 0) {
				return usagef("name the grants to revoke, or all of them with --all")
			}
			places, err := a.places()
			if err != nil {
				return err
			}
			file := grantsFile(places)
			all, err := file.List()
			if err != nil {
				return err
			}
			if everything {
				for _, g := range all {
					args = append(args, g.ID)
				}
			}
			// All of them are found before the first is revoked.
			for _, arg := range args {
				if !slices.ContainsFunc(all, func(g grants.Grant) bool { return g.ID == arg }) {
					return notFoundf("there is no grant %q; see hermesd permissions grants list", arg)
				}
			}
			for _, arg := range args {
				g, err := file.Revoke(arg)
				if err != nil && !errors.Is(err, grants.ErrUnknown) { // named twice, or revoked meanwhile
					return err
				}
				if err == nil {
					fmt.Fprintf(a.out, "%s is revoked: %s\n", g.ID, printable(shorten(g.What, 60)))
				}
			}
			return nil
		},
	}
	cmd.Flags().BoolVar(&everything, "all", false, "revoke all of them")
	return cmd
}
