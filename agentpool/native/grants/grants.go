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
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"
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
	// lockWait is how long a change waits for another process's.
	lockWait = 10 * time.Second
)

// FileName is what the file is called in hermesd's state folder.
const FileName = "grants.json"

// File is the grants of one user. A file that is not there has none.
type File struct {
	path string
	now  func() time.Time

	mu   sync.Mutex
	info fs.FileInfo // of what was read last; nil: nothing yet
	read contents
}

// Open gives the file at a path; it touches nothing.
func Open(path string) *File { return &File{path: path, now: time.Now} }

// Path is where the file is.
func (f *File) Path() string { return f.path }

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
			return errNothing
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
	c, err := f.current()
	return slices.Clone(c.Grants), err
}

// In gives the grants of a workspace, as they are now.
func (f *File) In(workspace string) ([]Grant, error) {
	c, err := f.current()
	var all []Grant
	for _, g := range c.Grants {
		if g.Workspace == workspace {
			all = append(all, g)
		}
	}
	return all, err
}

// errNothing ends a change that changes nothing.
var errNothing = errors.New("nothing to change")

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

// current gives what the file holds, reading it only if it has changed.
func (f *File) current() (contents, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	info, err := os.Stat(f.path)
	if errors.Is(err, fs.ErrNotExist) {
		f.info, f.read = nil, contents{}
		return contents{}, nil
	}
	if err == nil && f.info != nil && os.SameFile(info, f.info) && info.ModTime().Equal(f.info.ModTime()) && info.Size() == f.info.Size() && info.Mode() == f.info.Mode() {
		return f.read, nil
	}
	c, info, err := load(f.path)
	if err != nil {
		f.info = nil
		return contents{}, err
	}
	f.info, f.read = info, c
	return c, nil
}

// change reads the file, changes it and replaces it, while nobody else does.
func (f *File) change(do func(*contents) error) error {
	if err := link.PrivateDir(filepath.Dir(f.path)); err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(context.Background(), lockWait)
	defer cancel()
	lock, err := link.WaitLock(ctx, f.path+".lock")
	if err != nil {
		return fmt.Errorf("changing the grants: %w", err)
	}
	defer lock.Close()
	c, _, err := load(f.path)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	if err := do(&c); err == errNothing {
		return nil
	} else if err != nil {
		return err
	}
	c.Version = fileVersion
	text, err := json.MarshalIndent(c, "", "  ")
	if err == nil && len(text) >= maxFile {
		err = errors.New("there is no room for more; revoke some: hermesd permissions grants list")
	}
	if err == nil {
		err = private.Replace(f.path, append(text, '\n'))
	}
	if err != nil {
		return fmt.Errorf("changing the grants: %w", err)
	}
	return nil
}

// load reads the file. Who else could write to it could allow anything, so it
// has to be closed to others.
func load(path string) (contents, fs.FileInfo, error) {
	fail := func(err error) (contents, fs.FileInfo, error) {
		return contents{}, nil, fmt.Errorf("reading the grants: %w", err)
	}
	file, err := os.Open(path)
	if err != nil {
		return fail(err)
	}
	defer file.Close()
	info, err := file.Stat()
	if err != nil {
		return fail(err)
	}
	if runtime.GOOS != "windows" && info.Mode().Perm()&0o077 != 0 {
		return fail(fmt.Errorf("other users can get at %s (mode %#o): look whether its grants are yours, then: chmod 600 %s", path, info.Mode().Perm(), path))
	}
	text, err := io.ReadAll(io.LimitReader(file, maxFile+1))
	if err != nil {
		return fail(err)
	}
	c, err := parse(text)
	if err != nil {
		return fail(fmt.Errorf("%s: %w; correct it, or remove it and be asked again", path, err))
	}
	return c, info, nil
}

// parse reads the text of the file. Anything it does not know is an error: a
// grant that is understood in part could allow too much.
func parse(text []byte) (contents, error) {
	if len(text) > maxFile {
		return contents{}, fmt.Errorf("longer than %d bytes", maxFile)
	}
	var c contents
	d := json.NewDecoder(bytes.NewReader(text))
	d.DisallowUnknownFields()
	if err := d.Decode(&c); err != nil {
		return contents{}, err
	}
	if _, err := d.Token(); !errors.Is(err, io.EOF) {
		return contents{}, errors.New("something stands behind its end")
	}
	if c.Version != fileVersion {
		return contents{}, fmt.Errorf("version %d, and this hermesd knows only version %d", c.Version, fileVersion)
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
