package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/hermesd/hermesd/configs"
	"github.com/hermesd/hermesd/store"
	"github.com/hermesd/hermesd/transport"
	"github.com/hermesd/hermesd/transport/acpclient"
	"github.com/hermesd/hermesd/transport/link"
)

// finding is one thing that doctor has looked at.
type finding struct {
	ID    string `json:"id"`
	Level string `json:"level"` // ok, note, wrong
	Text  string `json:"text"`
	Fix   string `json:"fix,omitempty"` // a command, or in words what to do
}

const (
	fine  = "ok"
	note  = "note" // worth knowing; nothing has to be done
	wrong = "wrong"
)

func (a *app) doctorCommand() *cobra.Command {
	var asJSON bool
	cmd := &cobra.Command{
		Use: "doctor", Short: "Look for what is wrong, and say what mends it: 0 nothing is, 1 something is",
		Long: `Look at the configuration, the modes of files, the socket, the versions of what
is connected, the sessions on disk, space, the programs of agents in every
environment they may run in, and the service. It changes nothing. With a daemon it
asks that; without one it reads the sessions itself.`,
		Args: cobra.NoArgs,
		RunE: func(*cobra.Command, []string) error {
			ctx, cancel := interruptible()
			defer cancel()
			places, err := a.places()
			if err != nil {
				return err
			}
			d := &doctor{a: a, places: places, found: []finding{}}
			d.examine(ctx)
			if asJSON {
				err = a.printJSON(d.found)
			} else {
				err = a.printFindings(d.found)
			}
			if err != nil {
				return err
			}
			return a.verdict(d.found)
		},
	}
	jsonFlag(cmd, &asJSON)
	return cmd
}

func (a *app) printFindings(all []finding) error {
	c := coloursFor(a.out)
	for _, f := range all {
		mark, colour := "ok   ", c.green
		switch f.Level {
		case note:
			mark, colour = "note ", c.yellow
		case wrong:
			mark, colour = "WRONG", c.red
		}
		text := strings.ReplaceAll(harmless(f.Text), "\n", "\n       ")
		if _, err := fmt.Fprintf(a.out, "%s%s%s  %s: %s\n", colour, mark, c.reset, printable(f.ID), text); err != nil {
			return err
		}
		if f.Fix != "" {
			fmt.Fprintf(a.out, "       %s→ %s%s\n", c.bold, printable(f.Fix), c.reset)
		}
	}
	return nil
}

// verdict sums up on stderr.
func (a *app) verdict(all []finding) error {
	bad := 0
	for _, f := range all {
		if f.Level == wrong {
			bad++
		}
	}
	switch bad {
	case 0:
		return nil
	case 1:
		return errors.New("one thing is wrong")
	}
	return fmt.Errorf("%d things are wrong", bad)
}

// doctor looks at one thing after the other.
type doctor struct {
	a      *app
	places link.Places
	found  []finding

	config *configs.Config // nil if it cannot be read
	client *acpclient.Client
	status *daemonStatus // nil without a daemon that answers
}

func (d *doctor) say(level, id, fix, format string, args ...any) {
	d.found = append(d.found, finding{ID: id, Level: level, Fix: fix, Text: fmt.Sprintf(format, args...)})
}

// The limits of what doctor waits for.
const (
	answerPatience = 5 * time.Second  // a daemon that is well
	loginPatience  = 10 * time.Second // the same, when it has to ask a login shell
	readPatience   = time.Minute      // reading all sessions; nothing is wrong with having many
)

func (d *doctor) examine(ctx context.Context) {
	d.lookAtConfig()
	release := d.lookAtDaemon(ctx)
	d.lookAtModes()
	d.lookAtVersions(ctx)
	d.lookAtStore(ctx)
	release()
	d.lookAtSpace()
	d.lookAtLog()
	d.lookAtMetrics()
	d.lookAtNetwork()
	d.lookAtAgents(ctx)
	d.lookAtService(ctx)
	if d.client != nil {
		d.client.Close()
	}
}

func (d *doctor) lookAtConfig() {
	c, err := configs.Load(d.places.Config)
	if err != nil {
		d.say(wrong, "config", "correct "+d.places.Config+", then: hermesd stop", "%v", err)
		return
	}
	d.config = &c
	if _, err := os.Stat(d.places.Config); errors.Is(err, os.ErrNotExist) {
		d.say(fine, "config", "", "there is no %s: the defaults hold", d.places.Config)
		return
	}
	d.say(fine, "config", "", "%s", d.places.Config)
}

// lookAtDaemon connects to it. Without one it keeps others from starting one
// until release is called, so that the sessions can be read meanwhile: a daemon
// that somebody starts waits for that.
func (d *doctor) lookAtDaemon(ctx context.Context) (release func()) {
	release = func() {}
	dialing, cancel := context.WithTimeout(ctx, answerPatience)
	defer cancel()
	c, err := d.a.dial(dialing, dialOptions{Client: acpclient.Options{Forget: true}})
	if err == nil {
		var s daemonStatus
		if s, err = status(dialing, c); err == nil {
			d.client, d.status = c, &s
			d.say(fine, "daemon", "", "hermesd %s, process %d, listens on %s", s.Version, s.PID, d.places.Socket)
			d.lookAtAge(s)
			return release
		}
		c.Close()
	}
	pid := link.Holder(d.places.Lock)
	if !errors.Is(err, link.ErrNoDaemon) {
		fix := "see: hermesd logs"
		if pid > 0 {
			fix = fmt.Sprintf("see: hermesd logs; end it with: hermesd stop, and if that does not help: kill %d", pid)
		}
		d.say(wrong, "daemon", fix, "the daemon does not answer: %v", err)
		return release
	}
	lock, err := link.TryLock(d.places.Lock)
	switch {
	case err == nil:
		d.say(fine, "daemon", "", "none runs; the first editor starts one")
		return func() { lock.Close() }
	case errors.Is(err, link.ErrLocked):
		d.say(wrong, "daemon", fmt.Sprintf("if it is still so in a minute: kill %d", pid), "process %d is the daemon and accepts no connections on %s: it starts, ends or hangs", pid, d.places.Socket)
	case errors.Is(err, os.ErrNotExist):
		d.say(fine, "daemon", "", "none has run so far; the first editor starts one")
	default:
		d.say(wrong, "daemon", "see to it that "+d.places.Run+" is a folder of yours", "%v", err)
	}
	return release
}

// lookAtAge: what was changed after the daemon began does not hold yet.
func (d *doctor) lookAtAge(s daemonStatus) {
	info, err := os.Stat(d.places.Config)
	if err == nil && !s.Began.IsZero() && info.ModTime().After(s.Began) {
		d.say(note, "config-age", "hermesd stop (sessions are kept; the next editor starts it again)", "%s was changed after the daemon began at %s: what was changed does not hold yet", d.places.Config, s.Began.Local().Format(time.DateTime))
	}
}

// lookAtModes: nobody else may read what hermesd writes.
func (d *doctor) lookAtModes() {
	if runtime.GOOS == "windows" {
		d.say(fine, "modes", "", "Windows has access lists, inherited from your profile")
		return
	}
	before := len(d.found)
	open := map[string][]string{} // by what mends it
	check := func(path string, mask os.FileMode, fix string) {
		info, err := os.Lstat(path)
		if err != nil || info.Mode()&os.ModeSymlink != 0 {
			return
		}
		if info.Mode().Perm()&mask != 0 {
			open[fix] = append(open[fix], path)
		}
	}
	folders := []string{d.places.State, d.places.Log}
	if !d.places.Named() {
		folders = append(folders, d.places.Run)
	}
	for _, dir := range folders {
		check(dir, 0o077, "chmod 700")
	}
	check(filepath.Dir(d.places.Config), 0o022, "chmod go-w")
	mask := os.FileMode(0o022)
	if d.config != nil && hasSecrets(*d.config) {
		mask = 0o077
	}
	check(d.places.Config, mask, map[bool]string{true: "chmod 600", false: "chmod go-w"}[mask == 0o077])
	files := []string{d.places.Socket, filepath.Join(filepath.Dir(d.places.Config), "credentials.json"), filepath.Join(filepath.Dir(d.places.Config), "remote_tokens")}
	for _, dir := range []string{d.places.State, d.places.Log, networkDir(d.places), d.storeDir(), filepath.Join(d.storeDir(), "journal")} {
		entries, err := os.ReadDir(dir)
		if err != nil {
			continue
		}
		for _, e := range entries[:min(len(entries), 1000)] {
			if e.Type().IsRegular() {
				files = append(files, filepath.Join(dir, e.Name()))
			}
		}
	}
	for _, path := range files {
		check(path, 0o077, "chmod 600")
	}
	for _, fix := range []string{"chmod 700", "chmod 600", "chmod go-w"} {
		if paths := open[fix]; len(paths) > 0 {
			slices.Sort(paths)
			d.say(wrong, "modes", fix+" "+strings.Join(shellWords(paths), " "), "other users get at %s", strings.Join(paths, ", "))
		}
	}
	if len(d.found) == before {
		d.say(fine, "modes", "", "nobody else gets at what hermesd keeps")
	}
}

// hasSecrets says whether a configuration has what nobody else should read.
func hasSecrets(c configs.Config) bool {
	for _, s := range c.MCP.Servers {
		if len(s.Env) > 0 || len(s.Headers) > 0 {
			return true
		}
	}
	for _, a := range c.Agents {
		if len(a.Env) > 0 {
			return true
		}
	}
	return false
}

// shellWords quotes paths for a shell where that is needed.
func shellWords(paths []string) []string {
	all := make([]string, len(paths))
	for i, p := range paths {
		all[i] = p
		if strings.ContainsAny(p, " \t\n'\"\\$`&;()<>|*?[]#~!{}") {
			all[i] = "'" + strings.ReplaceAll(p, "'", `'\''`) + "'"
		}
	}
	return all
}

// lookAtVersions: editors keep the shim that they have started, also when it was
// replaced.
func (d *doctor) lookAtVersions(ctx context.Context) {
	own := buildVersion()
	if s := d.status; s != nil && s.Version != own {
		d.say(note, "version-daemon", "hermesd stop (sessions are kept; the next editor starts it again)", "the daemon is hermesd %s, this command is %s", s.Version, own)
	} else if s != nil {
		d.say(fine, "version-daemon", "", "the daemon is of the same version as this command: %s", own)
	}
	if shim, err := d.shim(); err != nil {
		d.say(wrong, "shim", "go install -ldflags \"-s -w\" ./cmd/... puts both programs beside each other", "%v", err)
	} else if v, err := versionOf(ctx, shim); err != nil {
		d.say(wrong, "shim", "install it again", "%s cannot be run: %v", shim, err)
	} else if v != own {
		d.say(note, "shim", "install both programs from one version", "%s is of version %s, this command of %s", shim, v, own)
	} else {
		d.say(fine, "shim", "", "%s", shim)
	}
	if d.status == nil {
		return
	}
	for _, c := range d.status.Connections {
		if c.Client == "hermesd" || c.Version == "" {
			continue // a command, or an editor without a shim
		}
		id := "version-" + c.ID[:min(8, len(c.ID))] // as the log names it
		if c.Version == d.status.Version {
			d.say(fine, id, "", "%s uses a shim of the daemon's version", nameOf(c))
			continue
		}
		d.say(note, id, "have the editor start its agent again", "%s uses a shim of version %s, the daemon is %s", nameOf(c), c.Version, d.status.Version)
	}
}

func nameOf(c connectionStatus) string {
	name := c.Client
	if name == "" {
		name = "an editor"
	}
	return name + " (" + c.who() + ")"
}

// shim is the program that editors start, beside this one or on PATH.
func (d *doctor) shim() (string, error) {
	name := "hermes-acp-shim"
	if runtime.GOOS == "windows" {
		name += ".exe"
	}
	return findBeside(name)
}

func (d *doctor) storeDir() string { return filepath.Join(d.places.State, "sessions") }

func (d *doctor) lookAtStore(ctx context.Context) {
	dir := d.storeDir()
	if aside := store.SetAside(dir); len(aside) > 0 {
		d.say(note, "store-aside", "restore a backup, or remove them: rm "+strings.Join(shellWords(aside), " "), "these files could not be read once, and were put aside: %s", strings.Join(aside, ", "))
	}
	if s := d.status; s != nil {
		if s.Disk.Failing != "" {
			d.say(wrong, "store", "make room where "+dir+" is, or see to it that it can be written", "nothing can be stored: %s", s.Disk.Failing)
			return
		}
		d.say(fine, "store", "", "the daemon keeps %d sessions in %s, %s", s.Stored, dir, bytesText(s.Disk.DatabaseBytes+s.Disk.JournalBytes))
		return
	}
	if slices.ContainsFunc(d.found, func(f finding) bool { return f.ID == "daemon" && f.Level == wrong }) {
		d.say(note, "store", "end the daemon, then: hermesd doctor", "the sessions were not read: a daemon has them")
		return
	}
	ctx, cancel := context.WithTimeout(ctx, readPatience)
	defer cancel()
	r, err := store.Check(ctx, dir)
	switch {
	case errors.Is(err, store.ErrNewer):
		d.say(wrong, "store", "use the newer version of hermesd", "%v", err)
	case err != nil:
		d.say(wrong, "store", "start hermesd: it keeps what can be read; or put a backup in the place of "+filepath.Join(dir, "sessions.db"), "%v", err)
	case len(r.Problems) > 0:
		d.say(wrong, "store", "start hermesd: it keeps what can be read; or put a backup in the place of "+filepath.Join(dir, "sessions.db"), "%s", strings.Join(r.Problems, "\n"))
	case !r.Complete:
		d.say(note, "store", "", "what was read within %s is in order: %d events", readPatience, r.Events)
	default:
		d.say(fine, "store", "", "%d sessions, %d events, all of them can be read", r.Sessions, r.Events)
	}
}

// How little space is little.
const (
	tooLittle = 64 << 20
	little    = 512 << 20
)

func (d *doctor) lookAtSpace() {
	dir := d.places.State
	for { // it need not be there yet
		if _, err := os.Stat(dir); err == nil || filepath.Dir(dir) == dir {
			break
		}
		dir = filepath.Dir(dir)
	}
	free, err := diskFree(dir)
	level, fix := fine, ""
	switch {
	case err != nil:
		d.say(note, "space", "", "%v", err)
		return
	case free < tooLittle:
		level, fix = wrong, "make room; or hermesd sessions delete ID"
	case free < little:
		level, fix = note, "make room; or hermesd sessions delete ID"
	}
	d.say(level, "space", fix, "%s are free where sessions are kept (%s)", bytesText(int64(min(free, 1<<62))), dir)
}

func (d *doctor) lookAtLog() {
	if d.status != nil {
		switch at := d.status.Log; at {
		case logStderr:
			d.say(fine, "log", "", "the daemon writes it to the terminal that it was started in")
		case logJournal:
			d.say(fine, "log", "", "the service's manager keeps it: hermesd logs")
		default:
			d.say(fine, "log", "", "%s: hermesd logs", at)
		}
		return
	}
	if d.config == nil || d.config.Log.File == "" {
		return
	}
	path := d.config.Log.File
	info, err := os.Stat(path)
	if errors.Is(err, os.ErrNotExist) {
		info, err = os.Stat(filepath.Dir(path))
		if err == nil && !info.IsDir() || errors.Is(err, os.ErrNotExist) && filepath.Dir(path) == path {
			err = fmt.Errorf("%s is not a folder", filepath.Dir(path))
		}
	} else if err == nil && !info.Mode().IsRegular() {
		err = fmt.Errorf("%s is not a file", path)
	}
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		d.say(wrong, "log", "choose another file under [log] in "+d.places.Config, "the daemon cannot write its log: %v", err)
	}
}

func (d *doctor) lookAtMetrics() {
	if s := d.status; s != nil && s.MetricsError != "" {
		d.say(wrong, "metrics", "end what uses that address, or choose another one under [metrics] in "+d.places.Config+"; then: hermesd stop", "%s", s.MetricsError)
	} else if s != nil && s.Metrics != "" {
		d.say(fine, "metrics", "", "served at %s", s.Metrics)
	}
}

func (d *doctor) lookAtNetwork() {
	if d.config == nil {
		return
	}
	remote := false
	for _, l := range d.config.Listen {
		if a, err := transport.ParseAddress(l.Address); err == nil && a.Network != transport.Unix {
			remote = true
		}
	}
	if !remote {
		return
	}
	all, err := tokensFile(d.places).List()
	switch {
	case err != nil:
		d.say(wrong, "network", "correct or remove "+tokensFile(d.places).Path()+", then pair again: hermesd pair", "nobody can come in over the network: %v", err)
	case len(all) == 0:
		d.say(note, "network", "hermesd pair --name NAME", "the daemon listens on the network and nobody may come in: there is no token")
	default:
		d.say(fine, "network", "", "%d tokens may come in: hermesd tokens list", len(all))
	}
}
