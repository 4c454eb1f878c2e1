package service

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
)

// File is something that was written for a manager.
type File struct {
	Path  string `json:"path"`
	State State  `json:"state"`
}

// State is how a file compares to what was written.
type State string

const (
	Missing State = "missing"
	Intact  State = "as written"
	Changed State = "changed by hand"
	Unknown State = "not written by hermesd"
)

// sumLine is the line of a file that has the sum of all others.
var sumLine = regexp.MustCompile(`(?m)^.*hermesd-sum: ([0-9a-f]{64}|SUM)\b.*\n`)

// sealed puts the sum of a text into it, in place of "SUM" in its sum line.
func sealed(text string) string {
	return strings.Replace(text, "hermesd-sum: SUM", "hermesd-sum: "+sum(text), 1)
}

func sum(text string) string {
	h := sha256.Sum256([]byte(sumLine.ReplaceAllString(text, "")))
	return hex.EncodeToString(h[:])
}

// stateOf reads a file and compares it to its own sum.
func stateOf(path string) (State, string, error) {
	b, err := os.ReadFile(path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return Missing, "", nil
	case err != nil:
		return "", "", err
	}
	m := sumLine.FindStringSubmatch(string(b))
	switch {
	case m == nil:
		return Unknown, string(b), nil
	case m[1] == sum(string(b)):
		return Intact, string(b), nil
	}
	return Changed, string(b), nil
}

// planned is a file as it should be.
type planned struct {
	path, text string
	was        State
	old        string
}

// plan compares files with what is there. Without Force it is an error if one of
// them is not ours to replace; nothing has been done then.
func (o Options) plan(files ...planned) ([]planned, error) {
	var errs []error
	for i := range files {
		f := &files[i]
		var err error
		if f.was, f.old, err = stateOf(f.path); err != nil {
			return nil, err
		}
		if (f.was == Changed || f.was == Unknown) && f.old != f.text && !o.Force {
			errs = append(errs, fmt.Errorf("%s was %s and is kept; put changes into a drop-in instead (systemctl edit), see what would be written with --dry-run, or replace it with --force, which keeps the present one beside it", f.path, wasHow(f.was)))
		}
	}
	return files, errors.Join(errs...)
}

func wasHow(s State) string {
	if s == Unknown {
		return "not written by hermesd"
	}
	return "changed by hand"
}

// write writes a file unless it is there already, and says what it did. changed
// tells whether it was.
func (o Options) write(f planned) (changed bool, err error) {
	switch {
	case f.old == f.text:
		o.say("%s is as it should be", f.path)
		return false, nil
	case o.DryRun:
		o.say("would write %s:\n%s", f.path, indent(f.text))
		return true, nil
	}
	if f.was == Changed || f.was == Unknown {
		if err := o.putAside(f.path); err != nil {
			return false, err
		}
	}
	if err := os.MkdirAll(filepath.Dir(f.path), 0o755); err != nil {
		return false, fmt.Errorf("making the folder of a service's file: %w", err)
	}
	// What reads it never sees half of it.
	tmp := f.path + ".new"
	if err := os.WriteFile(tmp, []byte(f.text), 0o644); err != nil {
		return false, fmt.Errorf("writing a service's file: %w", err)
	}
	if err := os.Rename(tmp, f.path); err != nil {
		return false, fmt.Errorf("writing a service's file: %w", err)
	}
	if f.was == Missing {
		o.say("wrote %s", f.path)
	} else {
		o.say("updated %s", f.path)
	}
	return true, nil
}

// remove removes a file if it is ours, or says that it stays.
func (o Options) remove(path string) error {
	state, _, err := stateOf(path)
	if err != nil || state == Missing {
		return err
	}
	if state != Intact && !o.Force {
		return fmt.Errorf("%s was %s and is kept; remove it yourself, or with --force, which puts it aside", path, wasHow(state))
	}
	switch {
	case o.DryRun:
		o.say("would remove %s", path)
		return nil
	case state != Intact:
		return o.putAside(path)
	}
	if err := os.Remove(path); err != nil {
		return fmt.Errorf("removing a service's file: %w", err)
	}
	o.say("removed %s", path)
	return nil
}

// putAside renames what is not ours.
func (o Options) putAside(path string) error {
	aside := path + ".saved"
	for i := 2; ; i++ {
		if _, err := os.Lstat(aside); errors.Is(err, fs.ErrNotExist) {
			break
		}
		aside = fmt.Sprintf("%s.saved%d", path, i)
	}
	if err := os.Rename(path, aside); err != nil {
		return fmt.Errorf("putting a file aside: %w", err)
	}
	o.say("kept what was in %s as %s", path, aside)
	return nil
}

func indent(text string) string {
	return "    " + strings.ReplaceAll(strings.TrimRight(text, "\n"), "\n", "\n    ")
}
