// Package environ answers: in which environment does a program run that runs for
// nobody's editor in particular? In that of the user's login shell, as a terminal
// would have it: a service manager gives a bare PATH, and one that was recorded
// when the service was installed goes stale.
//
// The shell is started as a terminal starts it, because that is when people's
// profiles set up what they work with. Profiles print, wait for a key, start
// things and fail; none of that holds anybody up for longer than a limit. What
// they start ends with the shell, unless it made a session of its own, as daemons
// do that are meant to stay (elsewhere than on Linux also unless the shell gave it
// a process group of its own, as interactive ones may).
//
// # Concurrency
//
// A Login is safe for concurrent use. It owns no goroutine when no call runs.
package environ

import (
	"bytes"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"
	"time"
)

const (
	// Limit is how long a shell may take.
	Limit = 5 * time.Second
	// Fresh is for how long what a shell said is used; then it is asked again,
	// for a profile may have been changed.
	Fresh = 5 * time.Minute

	// maxOutput is how much of a shell's output is looked at.
	maxOutput = 4 << 20
)

// Login is the environment of a user's login shell.
type Login struct {
	// Command is one that prints its environment as [Print] does. Without one
	// there is no asking.
	Command []string
	// Base is the environment the shell is started in, and what there is without
	// it; nil: this process's.
	Base []string
	// Shell is the program; "" is $SHELL of Base, else what the user database
	// says.
	Shell string
	// Limit of time; 0 is [Limit].
	Limit time.Duration
	// Failed is told, if not nil, why the shell could not be asked.
	Failed func(error)

	mu     sync.Mutex
	asked  time.Time
	got    []string
	asking chan struct{} // closed when the shell that is being asked has answered; nil if none is
}

// Environ gives the environment, as os.Environ does. It asks the shell at the
// first call and when what it said is no longer fresh; who comes meanwhile waits
// for the same answer. A shell that fails costs nothing but its time: what it
// said before holds, else Base, and so it does for who does not wait. The slice
// is not to be changed.
func (l *Login) Environ(ctx context.Context) []string {
	base := l.Base
	if base == nil {
		base = os.Environ()
	}
	for {
		l.mu.Lock()
		known, other := l.got, l.asking
		fresh := known != nil && time.Since(l.asked) < Fresh
		if !fresh && other == nil {
			l.asking = make(chan struct{})
		}
		l.mu.Unlock()
		switch {
		case fresh:
			return known
		case other == nil:
			return l.renew(ctx, base)
		}
		select {
		case <-other:
		case <-ctx.Done():
			if known != nil {
				return known
			}
			return base
		}
	}
}

// renew asks the shell and tells those who wait.
func (l *Login) renew(ctx context.Context, base []string) []string {
	got, err := l.ask(ctx, base)
	if err != nil && ctx.Err() == nil && l.Failed != nil {
		l.Failed(err)
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	close(l.asking)
	l.asking = nil
	switch {
	case err == nil:
		l.got, l.asked = got, time.Now()
	case ctx.Err() != nil: // whoever comes next asks again
		if l.got == nil {
			return base
		}
	default:
		l.asked = time.Now()
		if l.got == nil {
			l.got = base
		}
	}
	return l.got
}

// Getenv is os.Getenv of that environment.
func (l *Login) Getenv(ctx context.Context, name string) string { return lookup(l.Environ(ctx), name) }

func lookup(environ []string, name string) string {
	for _, kv := range slices.Backward(environ) {
		if k, v, _ := strings.Cut(kv, "="); k == name {
			return v
		}
	}
	return ""
}

// Print writes an environment so that it can be read back among whatever else is
// printed: each variable ends with a NUL byte, which none can contain.
func Print(environ []string) []byte {
	var b bytes.Buffer
	for _, kv := range environ {
		b.WriteString(kv)
		b.WriteByte(0)
	}
	return b.Bytes()
}

// marking tells a profile that nobody is there, should it want to know.
const marking = "HERMESD_READS_ENVIRONMENT"

// ask starts the shell and reads its environment.
func (l *Login) ask(ctx context.Context, base []string) ([]string, error) {
	if runtime.GOOS == "windows" {
		return base, nil // the system keeps the user's environment, and the service manager gives it
	}
	if len(l.Command) == 0 {
		return nil, errors.New("reading the login shell's environment: there is no command for it")
	}
	shell, flags := l.shell(base)
	mark := "hermesd-" + rand.Text()
	script := "printf %s " + mark + "; " + quoted(l.Command) + "; printf %s " + mark
	cmd := exec.Command(shell, append(flags, "-c", script)...)
	cmd.Env = append(slices.Clone(base), "TERM=dumb", marking+"=1")
	if home := lookup(base, "HOME"); home != "" {
		cmd.Dir = home
	}
	limit := l.Limit
	if limit <= 0 {
		limit = Limit
	}
	ctx, cancel := context.WithTimeoutCause(ctx, limit, fmt.Errorf("it takes longer than %s", limit))
	defer cancel()
	text, err := between(ctx, cmd, mark)
	if err != nil {
		return nil, fmt.Errorf("reading the environment of the login shell %s: %w", shell, err)
	}
	var environ []string
	for _, kv := range strings.Split(strings.TrimSuffix(string(text), "\x00"), "\x00") {
		name, _, ok := strings.Cut(kv, "=")
		switch {
		case !ok || name == "":
		case name == marking, name == "PWD", name == "OLDPWD", name == "SHLVL", name == "_", name == "TERM":
			// of that shell, not of the user
		default:
			environ = append(environ, kv)
		}
	}
	if lookup(environ, "PATH") == "" {
		return nil, fmt.Errorf("reading the environment of the login shell %s: it has no PATH", shell)
	}
	return environ, nil
}

// shell is the user's, with what makes it read the profiles, if it is one that
// takes our words; else the system's.
func (l *Login) shell(base []string) (string, []string) {
	shell := l.Shell
	if shell == "" {
		shell = lookup(base, "SHELL")
	}
	if shell == "" {
		shell = ofUser()
	}
	switch filepath.Base(shell) {
	case "bash", "zsh", "fish", "ksh", "mksh", "dash", "ash", "sh":
		return shell, []string{"-i", "-l"}
	}
	return "/bin/sh", []string{"-l"}
}

// quoted writes a command for any of these shells.
func quoted(command []string) string {
	words := make([]string, len(command))
	for i, w := range command {
		words[i] = "'" + strings.ReplaceAll(w, "'", `'\''`) + "'"
	}
	return strings.Join(words, " ")
}

// between runs a command in a session of its own, gives what it prints between
// two marks, and ends what is left of it.
func between(ctx context.Context, cmd *exec.Cmd, mark string) ([]byte, error) {
	r, w, err := os.Pipe()
	if err != nil {
		return nil, err
	}
	defer r.Close()
	cmd.Stdout = w // stderr and stdin are nobody's
	kill, err := startAlone(cmd)
	w.Close()
	if err != nil {
		return nil, err
	}
	type result struct {
		text []byte
		err  error
	}
	read := make(chan result, 1)
	go func() { // ends with the marks or with the pipe, which is closed below
		text, err := scan(r, mark)
		read <- result{text, err}
	}()
	var got result
	select {
	case got = <-read:
	case <-ctx.Done():
		got.err = context.Cause(ctx)
	}
	// What the profile has started in the background ends too. The shell has not
	// been waited for, so its number is still its own.
	kill()
	_ = cmd.Wait()
	return got.text, got.err
}

// scan reads until two marks have come, and gives what is between them.
func scan(r *os.File, mark string) ([]byte, error) {
	var all []byte
	buf := make([]byte, 32<<10)
	for len(all) < maxOutput {
		n, err := r.Read(buf)
		all = append(all, buf[:n]...)
		if first := bytes.Index(all, []byte(mark)); first >= 0 {
			rest := all[first+len(mark):]
			if last := bytes.Index(rest, []byte(mark)); last >= 0 {
				return rest[:last], nil
			}
		}
		if err != nil {
			return nil, errors.New("it ended before it said anything")
		}
	}
	return nil, fmt.Errorf("it prints more than %d bytes", maxOutput)
}
