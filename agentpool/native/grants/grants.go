// Package grants answers: what has the user allowed for good, and in which
// workspace?
//
// A grant is one "always": a command, the beginning of commands, or the name of
// something else that is called. It is given in an editor, holds in one
// workspace for every session there, also after a restart, and ends when it is
// revoked. All grants stand in one file of mode 0600, which is replaced in one
// step; whoever asks looks whether the file is still the one that was read, so a
// grant that is revoked, by whichever process, is gone for sessions that run.
//
// # Concurrency
//
// A [File] is safe for concurrent use, also by several processes: changes are
// made under a lock beside the file. It owns no goroutine.
package grants

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/hermesd/hermesd/transport/link"
	"github.com/hermesd/hermesd/transport/private"
)

// Kind says what a grant's words mean.
type Kind string

const (
	Command Kind = "command" // exactly this command line
	Prefix  Kind = "prefix"  // simple commands that begin with these words
	Tool    Kind = "tool"    // a tool of somebody else, by its name
	Host    Kind = "host"    // a host that is fetched from
)

var kinds = []Kind{Command, Prefix, Tool, Host}

// Grant is one "always".
type Grant struct {
	ID        string    `json:"id"`        // made of the three below; the same grant has the same
	Workspace string    `json:"workspace"` // absolute folder, links resolved
	Kind      Kind      `json:"kind"`
	What      string    `json:"what"`
	Created   time.Time `json:"created"`
	Session   string    `json:"session,omitempty"` // in which it was given
}

// ErrUnknown: there is no such grant.
var ErrUnknown = errors.New("no such grant")

// contents is the file.
type contents struct {
	Version int     `json:"version"`
	Grants  []Grant `json:"grants"`
}

const (
	fileVersion = 1
	maxFile     = 8 << 20
	maxGrants   = 10_000
	maxWhat     = 128 << 10
)

// FileName is what the file is called in hermesd's state folder.
const FileName = "grants.json"

// File is the grants of one user. A file that is not there has none.
type File struct {
	now  func() time.Time
	file private.File[contents]
}

// Open gives the file at a path; it touches nothing.
func Open(path string) *File {
	return &File{now: time.Now, file: private.File[contents]{
		Path: path, Max: maxFile, Reading: "reading the grants: ", Changing: "changing the grants: ",
		Parse: func(text []byte) (contents, error) {
			c, err := parse(text)
			if err != nil {
				return c, fmt.Errorf("reading the grants: %s: %w; correct it, or remove it and be asked again", path, err)
			}
			return c, nil
		},
		// Who else could write to it could allow anything.
		Exposed: func(mode fs.FileMode) error {
			return fmt.Errorf("reading the grants: other users can get at %s (mode %#o): look whether its grants are yours, then: chmod 600 %[1]s", path, mode)
		},
	}}
}

// Path is where the file is.
func (f *File) Path() string { return f.file.Path }

// Give adds a grant and returns when it is on the disk. What is there already
// stays as it is.
func (f *File) Give(workspace string, kind Kind, what, session string) (Grant, error) {
	g := Grant{ID: id(workspace, kind, what), Workspace: workspace, Kind: kind, What: what, Created: f.now().UTC().Truncate(time.Second), Session: session}
	if err := check(g); err != nil {
		return Grant{}, err
	}
	err := f.change(func(c *contents) error {
		if i := c.find(g.ID); i >= 0 {
			g = c.Grants[i]
			return private.ErrNothing
		}
		if len(c.Grants) >= maxGrants {
			return fmt.Errorf("there are %d grants already; revoke some: hermesd permissions grants list", len(c.Grants))
		}
		c.Grants = append(c.Grants, g)
		return nil
	})
	return g, err
}

// Revoke removes the grant with this id and returns when that is on the disk.
// [ErrUnknown] if there is none.
func (f *File) Revoke(id string) (g Grant, err error) {
	err = f.change(func(c *contents) error {
		i := c.find(id)
		if i < 0 {
			return ErrUnknown
		}
		g = c.Grants[i]
		c.Grants = slices.Delete(c.Grants, i, i+1)
		return nil
	})
	return g, err
}

// List gives all grants, oldest first.
func (f *File) List() ([]Grant, error) {
	c, err := f.file.Current()
	return slices.Clone(c.Grants), err
}

// In gives the grants of a workspace, as they are now.
func (f *File) In(workspace string) ([]Grant, error) {
	c, err := f.file.Current()
	var all []Grant
	for _, g := range c.Grants {
		if g.Workspace == workspace {
			all = append(all, g)
		}
	}
	return all, err
}

func (c *contents) find(id string) int {
	return slices.IndexFunc(c.Grants, func(g Grant) bool { return g.ID == id })
}

// id names a grant by all that it means.
func id(workspace string, kind Kind, what string) string {
	sum := sha256.Sum256([]byte(workspace + "\x00" + string(kind) + "\x00" + what))
	return "grant_" + hex.EncodeToString(sum[:6])
}

// check says what is wrong with a grant.
func check(g Grant) error {
	switch {
	case !filepath.IsAbs(g.Workspace):
		return fmt.Errorf("the workspace %.200q is no absolute path", g.Workspace)
	case !slices.Contains(kinds, g.Kind):
		return fmt.Errorf("the kind %.80q is unknown", g.Kind)
	case strings.TrimSpace(g.What) == "":
		return errors.New("a grant of nothing")
	case len(g.What) > maxWhat:
		return fmt.Errorf("what is granted is longer than %d bytes", maxWhat)
	case g.ID != id(g.Workspace, g.Kind, g.What):
		return fmt.Errorf("the id %.80q is not that of its grant", g.ID)
	}
	return nil
}

// change reads the file, changes it and replaces it, while nobody else does.
func (f *File) change(do func(*contents) error) error {
	if err := link.PrivateDir(filepath.Dir(f.Path())); err != nil {
		return err
	}
	return f.file.Change(func(c contents) ([]byte, error) {
		if err := do(&c); err != nil {
			return nil, err
		}
		c.Version = fileVersion
		text, err := json.MarshalIndent(c, "", "  ")
		if err == nil && len(text) >= maxFile {
			err = errors.New("there is no room for more; revoke some: hermesd permissions grants list")
		}
		if err != nil {
			return nil, fmt.Errorf("changing the grants: %w", err)
		}
		return append(text, '\n'), nil
	})
}

// parse reads the text of the file. Anything it does not know is an error: a
// grant that is understood in part could allow too much.
func parse(text []byte) (contents, error) {
	var c contents
	if err := private.Decode(text, maxFile, fileVersion, &c); err != nil {
		return contents{}, err
	}
	ids := map[string]bool{}
	for _, g := range c.Grants {
		if err := check(g); err != nil {
			return contents{}, err
		}
		if ids[g.ID] {
			return contents{}, fmt.Errorf("the grant %s stands twice", g.ID)
		}
		ids[g.ID] = true
	}
	return c, nil
}
