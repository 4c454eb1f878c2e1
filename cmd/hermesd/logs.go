package main

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/rs/zerolog"
	"github.com/spf13/cobra"

	"github.com/hermesd/hermesd/configs"
	"github.com/hermesd/hermesd/transport/acpclient"
	"github.com/hermesd/hermesd/transport/link"
)

// logsFlags are those of logs.
type logsFlags struct {
	follow, raw bool
	lines       int
	session     string
}

func (a *app) logsCommand() *cobra.Command {
	var f logsFlags
	cmd := &cobra.Command{
		Use: "logs", Short: "Show the daemon's log, wherever it is",
		Long: `Show the daemon's log: its file, or what the service's manager keeps. With
--session it is what concerns one session: its turns, questions, agent and
decisions, and the connections that were attached to it.`,
		Example: `  hermesd logs -f
  hermesd logs --session sess_0198 -n 1000`,
		Args: cobra.NoArgs,
		RunE: func(*cobra.Command, []string) error {
			if f.lines < 0 {
				return usagef("-n: %d is not allowed; give a number of lines", f.lines)
			}
			places, err := a.places()
			if err != nil {
				return err
			}
			ctx, cancel := interruptible()
			defer cancel()
			return a.showLog(ctx, places, f)
		},
	}
	cmd.Flags().BoolVarP(&f.follow, "follow", "f", false, "go on with what is logged from now on, until Ctrl-C")
	cmd.Flags().IntVarP(&f.lines, "lines", "n", 100, "how many lines to begin with")
	cmd.Flags().StringVar(&f.session, "session", "", "only what concerns the session with this `id`; its beginning will do")
	cmd.Flags().BoolVar(&f.raw, "json", false, "print the lines as they are, for programs; so it is without a terminal, too")
	return cmd
}

func (a *app) showLog(ctx context.Context, places link.Places, f logsFlags) error {
	at, err := a.findLog(ctx, places)
	if err != nil {
		return err
	}
	out := a.logPrinter(f)
	if f.session == "" {
		if at.command == nil {
			return finish(out, tailFile(ctx, out, at.path, f.lines, f.follow))
		}
		return finish(out, a.runLog(ctx, at.command(f.follow, f.lines), out))
	}
	filter := &sessionFilter{session: f.session, conns: make(map[string]bool)}
	if at.command != nil {
		return a.filterJournal(ctx, at, f, filter, out)
	}
	return filterFiles(ctx, at.path, f, filter, out)
}

// foundLog is where a log is: in a file, or behind a command that shows it.
type foundLog struct {
	path    string
	command func(follow bool, lines int) []string
}

// logPatience is how long a daemon has to say where its log is. One that hangs is
// a reason to look at the log.
const logPatience = 3 * time.Second

// findLog asks the daemon; without one it looks where the log of the last one
// would be.
func (a *app) findLog(ctx context.Context, places link.Places) (foundLog, error) {
	switch at := a.askLog(ctx); at {
	case "":
	case logJournal:
		return a.journalLog(places)
	case logStderr:
		return foundLog{}, errors.New("the daemon writes its log to the terminal (or wherever its stderr goes) that it was started in; to have it in a file, set file under [log] in " + places.Config)
	default:
		return foundLog{path: at}, nil
	}
	config, err := configs.Load(places.Config)
	if err == nil && config.Log.File != "" {
		return foundLog{path: config.Log.File}, nil
	}
	// The newest of what there may be.
	var newest foundLog
	var when time.Time
	for _, name := range []string{logName, wordsName} {
		path := filepath.Join(places.Log, name)
		if info, err := os.Stat(path); err == nil && info.Size() > 0 && info.ModTime().After(when) {
			newest, when = foundLog{path: path}, info.ModTime()
		}
	}
	if last, err := lastStart(places); err == nil && last != nil && last.Began.After(when) {
		if at, err := a.journalLog(places); err == nil {
			return at, nil
		}
	}
	if newest.path == "" {
		return foundLog{}, notFoundf("there is no log yet in %s: no daemon has run that kept one", places.Log)
	}
	return newest, nil
}

// askLog asks the running daemon where its log is; "" if none says so in time.
func (a *app) askLog(ctx context.Context) string {
	ctx, cancel := context.WithTimeout(ctx, logPatience)
	defer cancel()
	c, err := a.dial(ctx, dialOptions{Client: acpclient.Options{Forget: true}})
	if err != nil {
		return ""
	}
	defer c.Close()
	s, err := status(ctx, c)
	if err != nil {
		return ""
	}
	return s.Log
}

// journalLog is the log of the service, kept by its manager.
func (a *app) journalLog(places link.Places) (foundLog, error) {
	f := serviceCommandFlags{}
	if strings.HasPrefix(places.Run, "/run/hermesd/") {
		f.system, f.who = true, os.Getenv("USER")
	}
	s, err := a.service(f)
	if err != nil {
		return foundLog{}, err
	}
	if s.Journal(false, 1) == nil {
		return foundLog{path: filepath.Join(places.Log, logName)}, nil
	}
	return foundLog{command: s.Journal}, nil
}

// runLog runs a command that prints a log.
func (a *app) runLog(ctx context.Context, command []string, out io.Writer) error {
	c := exec.CommandContext(ctx, command[0], command[1:]...)
	c.Stdout, c.Stderr = out, a.err
	if err := c.Run(); err != nil && ctx.Err() == nil {
		return fmt.Errorf("%s: %w", strings.Join(command, " "), err)
	}
	return nil
}

// journalDepth is how many lines of a journal are looked through for a session.
const journalDepth = 100_000

func (a *app) filterJournal(ctx context.Context, at foundLog, f logsFlags, filter *sessionFilter, out *lineWriter) error {
	var all bytes.Buffer
	if err := a.runLog(ctx, at.command(false, journalDepth), &all); err != nil {
		return err
	}
	for line := range bytes.Lines(all.Bytes()) {
		filter.keep(line) // who was attached
	}
	last := &lastLines{max: f.lines}
	for line := range bytes.Lines(all.Bytes()) {
		if filter.keep(line) {
			last.add(line)
		}
	}
	if err := last.write(out); err != nil || !f.follow {
		return finish(out, err)
	}
	return finish(out, a.runLog(ctx, at.command(true, 0), &lineWriter{emit: filter.only(out)}))
}

// filterFiles reads a log file and those that were put aside before it.
func filterFiles(ctx context.Context, path string, f logsFlags, filter *sessionFilter, out *lineWriter) error {
	file, err := os.Open(path)
	for errors.Is(err, fs.ErrNotExist) && f.follow && wait(ctx, tailPoll) {
		file, err = os.Open(path)
	}
	if errors.Is(err, fs.ErrNotExist) {
		return notFoundf("there is no log yet: %s", path)
	}
	if err != nil {
		return fmt.Errorf("opening the log: %w", err)
	}
	last := &lastLines{max: f.lines}
	// Twice: a connection may say something before it is attached.
	for _, use := range []func([]byte) error{
		func(line []byte) error { filter.keep(line); return nil },
		func(line []byte) error {
			if filter.keep(line) {
				last.add(line)
			}
			return nil
		},
	} {
		for _, old := range aside(path) {
			if err := eachLine(old, use); err != nil && !errors.Is(err, fs.ErrNotExist) {
				file.Close()
				return fmt.Errorf("reading the log: %w", err)
			}
		}
		_, err := file.Seek(0, io.SeekStart)
		if err == nil {
			err = linesOf(file, use)
		}
		if err != nil {
			file.Close()
			return fmt.Errorf("reading the log: %w", err)
		}
	}
	if err := last.write(out); err != nil {
		file.Close()
		return err
	}
	if !f.follow {
		file.Close()
		return finish(out, nil)
	}
	return finish(out, followFile(ctx, &lineWriter{emit: filter.only(out)}, file, path))
}

// aside are the files that a rotated log was put into, oldest first.
func aside(path string) []string {
	ext := filepath.Ext(path)
	all, err := filepath.Glob(strings.TrimSuffix(path, ext) + "-*" + ext)
	if err != nil {
		return nil // a path with odd characters: the log itself is enough
	}
	slices.Sort(all) // their names are times
	return all
}

func eachLine(path string, use func([]byte) error) error {
	f, err := os.Open(path)
	if err != nil {
		return err
	}
	defer f.Close()
	return linesOf(f, use)
}

func linesOf(r io.Reader, use func([]byte) error) error {
	b := bufio.NewReaderSize(r, 64<<10)
	for {
		line, err := b.ReadBytes('\n')
		if len(line) > 0 {
			if err := use(line); err != nil {
				return err
			}
		}
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
	}
}

// sessionFilter knows the lines of one session: those that name it, and those of
// connections that are or were attached to it.
type sessionFilter struct {
	session string // or its beginning
	conns   map[string]bool
}

func (s *sessionFilter) keep(line []byte) bool {
	var l struct {
		Session string `json:"session"`
		Conn    string `json:"conn"`
	}
	if json.Unmarshal(line, &l) != nil {
		return false
	}
	if l.Session == "" {
		return s.conns[l.Conn]
	}
	if !strings.HasPrefix(l.Session, s.session) {
		return false
	}
	if l.Conn != "" {
		s.conns[l.Conn] = true
	}
	return true
}

func (s *sessionFilter) only(out *lineWriter) func([]byte) error {
	return func(line []byte) error {
		if !s.keep(line) {
			return nil
		}
		return out.emit(line)
	}
}

// lastLines keeps the last lines it is given.
type lastLines struct {
	max   int
	lines [][]byte
}

func (l *lastLines) add(line []byte) {
	if l.max == 0 {
		return
	}
	if len(l.lines) == l.max {
		l.lines = l.lines[1:]
	}
	l.lines = append(l.lines, bytes.Clone(line))
}

func (l *lastLines) write(out *lineWriter) error {
	for _, line := range l.lines {
		if err := out.emit(line); err != nil {
			return err
		}
	}
	return nil
}

// lineWriter gives what is written to it on as whole lines.
type lineWriter struct {
	emit func(line []byte) error
	rest []byte
}

func (w *lineWriter) Write(b []byte) (int, error) {
	w.rest = append(w.rest, b...)
	for {
		i := bytes.IndexByte(w.rest, '\n')
		if i < 0 {
			return len(b), nil
		}
		if err := w.emit(w.rest[:i+1]); err != nil {
			return len(b), err
		}
		w.rest = w.rest[i+1:]
	}
}

// finish gives on what has no end of line, and the error.
func finish(w *lineWriter, err error) error {
	if err == nil && len(w.rest) > 0 {
		err = w.emit(w.rest)
		w.rest = nil
	}
	return err
}

// logPrinter prints lines as they are, or to a person's terminal in columns.
func (a *app) logPrinter(f logsFlags) *lineWriter {
	if f.raw || !isTerminal(a.out) {
		return &lineWriter{emit: func(line []byte) error { _, err := a.out.Write(line); return err }}
	}
	console := zerolog.ConsoleWriter{Out: a.out, TimeFormat: time.DateTime, NoColor: coloursFor(a.out) == colours{}}
	return &lineWriter{emit: func(line []byte) error {
		if json.Valid(line) {
			if _, err := console.Write(line); err == nil {
				return nil
			}
		}
		_, err := io.WriteString(a.out, harmless(string(line)))
		return err
	}}
}
