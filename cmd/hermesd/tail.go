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

	"github.com/hermesd/hermesd/transport/acp"
	"github.com/hermesd/hermesd/transport/acpclient"
)

// logEvent is one record of a session's log as the daemon gives it: an event, or
// a run of message chunks joined (Seq to Last).
type logEvent struct {
	Seq  uint64          `json:"seq"`
	Last uint64          `json:"last"`
	Time time.Time       `json:"time"`
	Kind string          `json:"kind"`
	Data json.RawMessage `json:"data"`
}

// pageBytes is how much of a log is asked for at once.
const pageBytes = 1 << 20

// readLog gives a session's records after a Seq, in order. With follow it goes on
// until yield or ctx ends it.
func readLog(ctx context.Context, c *acpclient.Client, id string, after uint64, follow bool, yield func(logEvent) error) error {
	for {
		var page struct {
			Events []logEvent `json:"events"`
			Head   uint64     `json:"head"`
			Next   uint64     `json:"next"`
		}
		err := c.Call(ctx, "_hermes/sessions/tail", map[string]any{
			"sessionId": id, "from": after, "limitBytes": pageBytes, "wait": follow,
		}, &page)
		if err != nil {
			return err
		}
		for _, e := range page.Events {
			if err := yield(e); err != nil {
				return err
			}
		}
		if !follow && (page.Next <= after || page.Next >= page.Head) {
			return nil
		}
		after = max(after, page.Next)
	}
}

func (a *app) sessionsTail() *cobra.Command {
	var asJSON, follow bool
	var from uint64
	var lines int
	cmd := &cobra.Command{
		Use:   "tail SESSION",
		Short: "Print the last events of a session's log, or follow it",
		Args:  cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			if lines < 0 {
				return usagef("--lines: %d is not allowed; give 0 (all) or more", lines)
			}
			if cmd.Flags().Changed("from") {
				lines = 0
			}
			return a.withDaemon(func(ctx context.Context, c *acpclient.Client) error {
				s, err := findSession(ctx, c, args[0])
				if err != nil {
					return err
				}
				print := func(e logEvent) error { return a.printEvent(e) }
				if asJSON {
					out := json.NewEncoder(a.out)
					out.SetEscapeHTML(false)
					print = func(e logEvent) error { return out.Encode(e) }
				}
				// The last records are known only when all have been seen: a record
				// may hold any number of events.
				seen := max(from, 1) - 1
				var last []logEvent
				err = readLog(ctx, c, s.ID, seen, false, func(e logEvent) error {
					seen = e.Last
					if lines == 0 {
						return print(e)
					}
					if last = append(last, e); len(last) > lines {
						last = last[1:]
					}
					return nil
				})
				for _, e := range last {
					if err == nil {
						err = print(e)
					}
				}
				if err != nil || !follow {
					return err
				}
				err = readLog(ctx, c, s.ID, seen, true, print)
				if ctx.Err() != nil {
					return nil // Ctrl-C is how one stops following
				}
				return connectionLost(err)
			})
		},
	}
	cmd.Flags().BoolVarP(&follow, "follow", "f", false, "go on printing what happens until Ctrl-C")
	cmd.Flags().Uint64Var(&from, "from", 0, "begin with the event of this `number` instead of with the last ones")
	cmd.Flags().IntVarP(&lines, "lines", "n", 20, "how many records; 0 for all")
	cmd.Flags().BoolVar(&asJSON, "json", false, "print one JSON object a line, for programs")
	return cmd
}

// printEvent prints a record in one line.
func (a *app) printEvent(e logEvent) error {
	c := coloursFor(a.out)
	seq := fmt.Sprint(e.Seq)
	if e.Last > e.Seq {
		seq = fmt.Sprintf("%d-%d", e.Seq, e.Last)
	}
	_, err := fmt.Fprintf(a.out, "%s%9s  %s%s  %s\n", c.dim, seq, e.Time.Local().Format("15:04:05.000"), c.reset, shorten(printable(summary(e)), 160))
	return err
}

// summary says what an event was.
func summary(e logEvent) string {
	str := func(names ...string) string {
		value, _ := acp.GetPath(e.Data, names...)
		var s string
		if json.Unmarshal(value, &s) != nil {
			return string(value)
		}
		return s
	}
	switch e.Kind {
	case "update":
		kind := acp.UpdateKind(e.Data)
		switch {
		case acp.IsChunk(kind):
			if text := str("content", "text"); text != "" {
				return kind + " " + text
			}
			return kind + " (" + str("content", "type") + ")"
		case kind == acp.ToolCall || kind == acp.ToolCallUpdate:
			return kind + " " + acp.ToolCallID(e.Data) + " " + str("status") + " " + str("title")
		}
		return kind
	case "prompt_admitted":
		return e.Kind + " " + promptText(e.Data)
	case "turn_ended":
		if reason := str("stopReason"); reason != "" {
			return e.Kind + " " + reason
		}
		return e.Kind + " with an error: " + str("error", "message")
	case "question_asked":
		return e.Kind + " " + str("toolCall", "title")
	case "question_answered":
		return e.Kind + " " + str("outcome") + " " + str("option")
	case "agent_died":
		return e.Kind + " " + str("agent") + ": " + str("reason")
	case "agent_started":
		return e.Kind + " " + str("agent")
	case "prompt_withdrawn":
		return e.Kind + " " + str("reason")
	}
	return e.Kind
}

// promptText joins the text of a prompt_admitted event's blocks.
func promptText(data json.RawMessage) string {
	var p struct {
		Prompt []struct {
			Type string `json:"type"`
			Text string `json:"text"`
			URI  string `json:"uri"`
		} `json:"prompt"`
	}
	if json.Unmarshal(data, &p) != nil {
		return ""
	}
	text := ""
	for _, b := range p.Prompt {
		switch {
		case b.Text != "":
			text += b.Text
		case b.URI != "":
			text += " [" + b.URI + "] "
		default:
			text += " [" + b.Type + "] "
		}
	}
	return text
}

func (a *app) sessionsExport() *cobra.Command {
	var format, file string
	cmd := &cobra.Command{
		Use:   "export SESSION",
		Short: "Write a session's history as Markdown, or its log as JSON lines, for import",
		Args:  cobra.ExactArgs(1),
		RunE: func(_ *cobra.Command, args []string) error {
			if format != "markdown" && format != "json" {
				return usagef("--format: %q is not allowed; choose one of: markdown, json", format)
			}
			return a.withDaemon(func(ctx context.Context, c *acpclient.Client) error {
				found, err := findSession(ctx, c, args[0])
				if err != nil {
					return err
				}
				s, _, err := showSession(ctx, c, found.ID)
				if err != nil {
					return err
				}
				write := func(w io.Writer) error {
					out := bufio.NewWriter(w)
					if format == "json" {
						err = exportLines(ctx, c, s, out)
					} else {
						err = exportMarkdown(ctx, c, s, out)
					}
					if err != nil {
						return err
					}
					return out.Flush()
				}
				if file == "" || file == "-" {
					return write(a.out)
				}
				return writeFile(file, write)
			})
		},
	}
	cmd.Flags().StringVar(&format, "format", "markdown", "markdown or json")
	cmd.Flags().StringVarP(&file, "output", "o", "", "write to this `file` instead of the terminal")
	return cmd
}

// writeFile writes beside the file and puts it in its place when it is complete,
// readable for its owner only.
func writeFile(path string, write func(io.Writer) error) error {
	f, err := os.CreateTemp(filepath.Dir(path), ".hermesd-*")
	if err != nil {
		return err
	}
	err = write(f)
	if cerr := f.Close(); err == nil {
		err = cerr
	}
	if err == nil {
		err = os.Rename(f.Name(), path)
	}
	if err != nil {
		os.Remove(f.Name())
	}
	return err
}
