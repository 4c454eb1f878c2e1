package main

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/hermesd/hermesd/transport/acpclient"
)

func (a *app) permissionsCommand() *cobra.Command {
	return group("permissions", "See and answer what agents ask", a.permissionsList(), a.permissionsAnswer(), a.grantsCommand())
}

func openQuestions(ctx context.Context, c *acpclient.Client) ([]openQuestion, []json.RawMessage, error) {
	var reply struct {
		Questions []json.RawMessage `json:"questions"`
	}
	if err := c.Call(ctx, "_hermes/permissions/list", nil, &reply); err != nil {
		return nil, nil, err
	}
	questions, err := decodeAll[openQuestion](reply.Questions)
	return questions, reply.Questions, err
}

func (a *app) permissionsList() *cobra.Command {
	var asJSON bool
	cmd := &cobra.Command{
		Use:   "list",
		Short: "List the questions that wait for an answer",
		Args:  cobra.NoArgs,
		RunE: func(*cobra.Command, []string) error {
			return a.withDaemon(func(ctx context.Context, c *acpclient.Client) error {
				questions, raw, err := openQuestions(ctx, c)
				if err != nil {
					return err
				}
				if asJSON {
					return a.printJSON(list0(raw))
				}
				if len(questions) == 0 {
					_, err := fmt.Fprintln(a.err, "no questions are open")
					return err
				}
				var rows [][]string
				for _, q := range questions {
					rows = append(rows, []string{q.ID, q.SessionID, ago(q.AskedAt, time.Now()), shorten(q.Title, 60), strings.Join(optionIDs(q.Options), " ")})
				}
				return a.table("QUESTION SESSION ASKED ABOUT OPTIONS", rows)
			})
		},
	}
	jsonFlag(cmd, &asJSON)
	return cmd
}

func optionIDs(options []acpclient.Option) []string {
	ids := make([]string, len(options))
	for i, o := range options {
		ids[i] = o.ID
	}
	return ids
}

func (a *app) permissionsAnswer() *cobra.Command {
	return &cobra.Command{
		Use:   "answer QUESTION OPTION",
		Short: "Answer a question with one of its options",
		Long: `Answer a question with one of its options, named by its id or by its kind
(allow_once, allow_always, reject_once, reject_always). The first answer counts:
in the editors that show the question it disappears.`,
		Example: "  hermesd permissions answer s1:17 allow_once",
		Args:    cobra.ExactArgs(2),
		RunE: func(_ *cobra.Command, args []string) error {
			return a.withDaemon(func(ctx context.Context, c *acpclient.Client) error {
				questions, _, err := openQuestions(ctx, c)
				if err != nil {
					return err
				}
				i := slices.IndexFunc(questions, func(q openQuestion) bool { return q.ID == args[0] })
				if i < 0 {
					return notFoundf("there is no open question %q; see hermesd permissions list", args[0])
				}
				option, err := chooseOption(questions[i].Options, args[1])
				if err != nil {
					return err
				}
				var reply struct {
					Outcome string `json:"outcome"`
				}
				if err := c.Call(ctx, "_hermes/permissions/answer", map[string]string{"id": args[0], "optionId": option.ID}, &reply); err != nil {
					return err
				}
				if reply.Outcome != "selected" && reply.Outcome != "" {
					return fmt.Errorf("the question was closed otherwise: %s", reply.Outcome)
				}
				_, err = fmt.Fprintf(a.out, "%s: %s\n", printable(questions[i].Title), printable(option.Name))
				return err
			})
		},
	}
}

// chooseOption finds an option by its id, or by its kind if only one has it.
func chooseOption(options []acpclient.Option, word string) (acpclient.Option, error) {
	var byKind []acpclient.Option
	for _, o := range options {
		if o.ID == word {
			return o, nil
		}
		if o.Kind == word {
			byKind = append(byKind, o)
		}
	}
	if len(byKind) == 1 {
		return byKind[0], nil
	}
	return acpclient.Option{}, usagef("%q is not an option of this question; choose one of: %s", word, strings.Join(optionIDs(options), ", "))
}
