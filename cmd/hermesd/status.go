package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/hermesd/hermesd/transport/acpclient"
	"github.com/hermesd/hermesd/transport/link"
)

func (a *app) statusCommand() *cobra.Command {
	var asJSON bool
	cmd := &cobra.Command{
		Use:   "status",
		Short: "Say what the daemon is doing: connections, live sessions, agents",
		Args:  cobra.NoArgs,
		RunE: func(*cobra.Command, []string) error {
			return a.withDaemon(func(ctx context.Context, c *acpclient.Client) error {
				var raw map[string]json.RawMessage
				if err := c.Call(ctx, "_hermes/status", nil, &raw); err != nil {
					return err
				}
				if asJSON {
					// Everything the daemon says; uptime in seconds.
					raw["uptime"] = raw["uptimeSeconds"]
					delete(raw, "uptimeSeconds")
					return a.printJSON(raw)
				}
				s, err := status(ctx, c)
				if err != nil {
					return err
				}
				return a.printStatus(s, time.Now())
			})
		},
	}
	jsonFlag(cmd, &asJSON)
	return cmd
}

func (a *app) printStatus(s daemonStatus, now time.Time) error {
	up := time.Duration(s.UptimeSeconds * float64(time.Second)).Round(time.Second)
	fmt.Fprintf(a.out, "hermesd %s, process %d, up %v\n", s.Version, s.PID, up)
	fmt.Fprintf(a.out, "socket  %s\n", s.Socket)
	for _, address := range s.Listen {
		if !strings.HasPrefix(address, "unix") {
			fmt.Fprintf(a.out, "network %s\n", printable(address))
		}
	}
	if s.Log != "" {
		fmt.Fprintf(a.out, "log     %s\n", printable(s.Log))
	}
	if s.Metrics != "" {
		fmt.Fprintf(a.out, "metrics %s\n", printable(s.Metrics))
	}
	fmt.Fprintf(a.out, "memory  %s in use, %s heap, %d goroutines\n", bytesText(s.Memory.RSSBytes), bytesText(s.Memory.HeapBytes), s.Goroutines)
	for _, line := range s.figures() {
		fmt.Fprintln(a.out, printable(line))
	}

	if len(s.Sessions) > 0 {
		fmt.Fprintln(a.out)
		var rows [][]string
		for _, x := range s.Sessions {
			rows = append(rows, []string{x.ID, x.State, x.Agent, strconv.Itoa(x.Editors), strconv.Itoa(x.Queue), strconv.Itoa(x.Questions), x.Cwd, shorten(x.Title, 40)})
		}
		if err := a.table("SESSION STATE AGENT EDITORS QUEUE QUESTIONS FOLDER TITLE", rows); err != nil {
			return err
		}
	}
	if len(s.Connections) > 0 {
		fmt.Fprintln(a.out)
		var rows [][]string
		for _, x := range s.Connections {
			rows = append(rows, []string{shorten(x.ID, 12), x.Client, x.who(), ago(x.Since, now), strconv.Itoa(len(x.Sessions)), strconv.FormatUint(x.Behind, 10), bytesText(x.Queued)})
		}
		if err := a.table("CONNECTION CLIENT FROM SINCE SESSIONS BEHIND QUEUED", rows); err != nil {
			return err
		}
	}
	fmt.Fprintln(a.out)
	return a.printAgents(s.Agents)
}

// figures are those of the daemon's metrics that tell a person something.
func (s daemonStatus) figures() []string {
	var ended uint64
	var how []string
	for _, reason := range slices.Sorted(maps.Keys(s.Turns.Ended)) {
		ended += s.Turns.Ended[reason]
		how = append(how, fmt.Sprintf("%s %d", reason, s.Turns.Ended[reason]))
	}
	turns := fmt.Sprintf("turns   %d running, %d waiting, %d ended since it began", s.Turns.Active, s.Turns.Queued, ended)
	if len(how) > 0 {
		turns += " (" + strings.Join(how, ", ") + ")"
	}
	lines := []string{turns}
	if n := s.Questions.Open; n > 0 {
		oldest := time.Duration(s.Questions.OldestSeconds * float64(time.Second)).Round(time.Second)
		lines = append(lines, fmt.Sprintf("asked   %d open, the oldest for %v: hermesd permissions list", n, oldest))
	}
	var agents []string
	for _, name := range slices.Sorted(maps.Keys(s.AgentStates)) {
		for _, state := range slices.Sorted(maps.Keys(s.AgentStates[name])) {
			if n := s.AgentStates[name][state]; n > 0 {
				agents = append(agents, fmt.Sprintf("%s %d %s", name, n, state))
			}
		}
	}
	if len(agents) > 0 {
		lines = append(lines, "agents  "+strings.Join(agents, ", "))
	}
	lines = append(lines, fmt.Sprintf("traffic %s in, %s out", bytesText(s.Traffic.InBytes), bytesText(s.Traffic.OutBytes)))
	disk := fmt.Sprintf("disk    %d sessions in %s, %d commits", s.Stored, bytesText(s.Disk.DatabaseBytes+s.Disk.JournalBytes), s.Disk.Commits)
	if s.Disk.Commits > 0 {
		disk += fmt.Sprintf(" of %.1f ms, the slowest %.1f ms", s.Disk.CommitMeanMs, s.Disk.CommitSlowestMs)
	}
	lines = append(lines, disk)
	if s.Disk.Failing != "" {
		lines = append(lines, "        nothing can be written: "+s.Disk.Failing)
	}
	for _, d := range s.Disk.Damage {
		lines = append(lines, fmt.Sprintf("        at %s the database was found damaged; the damaged file is %s", d.At.Local().Format(time.DateTime), d.File))
		for _, x := range d.Sessions {
			if x.Lost > 0 {
				lines = append(lines, fmt.Sprintf("        %s has lost %d events", x.ID, x.Lost))
			} else {
				lines = append(lines, fmt.Sprintf("        %s may have lost its last events", x.ID))
			}
		}
	}
	return lines
}

// who says where a connection comes from: a process of this machine, or a token
// and the address it was shown from.
func (c connectionStatus) who() string {
	if c.Token == "" {
		return "process " + strconv.Itoa(c.PID)
	}
	return fmt.Sprintf("%s (%s) at %s", c.Token, c.Role, c.Remote)
}

func (a *app) agentsCommand() *cobra.Command {
	var asJSON bool
	list := &cobra.Command{
		Use:   "list",
		Short: "List the agents sessions can have",
		Args:  cobra.NoArgs,
		RunE: func(*cobra.Command, []string) error {
			return a.withDaemon(func(ctx context.Context, c *acpclient.Client) error {
				var reply struct {
					Agents []json.RawMessage `json:"agents"`
				}
				if err := c.Call(ctx, "_hermes/agents/list", nil, &reply); err != nil {
					return err
				}
				if asJSON {
					return a.printJSON(list0(reply.Agents))
				}
				agents, err := decodeAll[agentStatus](reply.Agents)
				if err != nil {
					return err
				}
				return a.printAgents(agents)
			})
		},
	}
	jsonFlag(list, &asJSON)
	return group("agents", "See the agents the daemon has", list)
}

func (a *app) printAgents(agents []agentStatus) error {
	var rows [][]string
	for _, x := range agents {
		isDefault := ""
		if x.Default {
			isDefault = "default"
		}
		rows = append(rows, []string{x.ID, x.Type, isDefault})
	}
	return a.table("AGENT TYPE DEFAULT", rows)
}

// list0 makes an empty list of none: programs want [] and not null.
func list0[T any](list []T) []T {
	if list == nil {
		return []T{}
	}
	return list
}

func decodeAll[T any](raw []json.RawMessage) ([]T, error) {
	all := make([]T, len(raw))
	for i := range raw {
		if err := json.Unmarshal(raw[i], &all[i]); err != nil {
			return nil, fmt.Errorf("reading the daemon's answer: %w", err)
		}
	}
	return all, nil
}

// stopped is what `stop --json` prints.
type stopped struct {
	PID int `json:"pid"` // of the daemon that has ended
}

func (a *app) stopCommand() *cobra.Command {
	var timeout time.Duration
	var asJSON bool
	cmd := &cobra.Command{
		Use:   "stop",
		Short: "End the daemon: running turns are ended, sessions are kept",
		Long: `End the daemon. Running turns are cancelled, sessions and their history are
kept; the next editor, or hermesd chat, starts a new daemon.`,
		Args: cobra.NoArgs,
		RunE: func(*cobra.Command, []string) error {
			if timeout <= 0 {
				return usagef("--timeout: %v is not allowed; give a duration like 30s", timeout)
			}
			places, err := a.places()
			if err != nil {
				return err
			}
			return a.withDaemon(func(ctx context.Context, c *acpclient.Client) error {
				s, err := status(ctx, c)
				if err != nil {
					return err
				}
				ctx, cancel := context.WithTimeoutCause(ctx, timeout, fmt.Errorf("process %d is still there after %v; see its log in %s", s.PID, timeout, places.Log))
				defer cancel()
				spin := newSpinner(a.err, isTerminal(a.err))
				defer spin.stop()
				spin.start("hermesd ends")
				// A daemon that is gone before its answer has been read has stopped.
				if err := c.Call(ctx, "_hermes/stop", nil, nil); err != nil && !errors.Is(err, acpclient.ErrClosed) {
					return err
				}
				// The daemon holds the lock for as long as it lives.
				lock, err := link.WaitLock(ctx, places.Lock)
				if err != nil {
					if cause := context.Cause(ctx); cause != nil {
						err = cause
					}
					return fmt.Errorf("waiting for the daemon to end: %w", err)
				}
				if err := lock.Close(); err != nil {
					return err
				}
				spin.stop()
				if asJSON {
					return a.printJSON(stopped{PID: s.PID})
				}
				_, err = fmt.Fprintf(a.out, "hermesd (process %d) has stopped\n", s.PID)
				return err
			})
		},
	}
	cmd.Flags().DurationVar(&timeout, "timeout", 30*time.Second, "how long to wait for its end")
	jsonFlag(cmd, &asJSON)
	return cmd
}
