package tokens

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"regexp"
	"slices"
	"time"

	"github.com/hermesd/hermesd/transport/link"
	"github.com/hermesd/hermesd/transport/private"
)

// Errors a caller branches on.
var (
	// ErrUnknown: no token has this secret or this name.
	ErrUnknown = errors.New("no such token")
	// ErrExpired: the invitation was good, and its time is over.
	ErrExpired = errors.New("the pairing code has expired")
	// ErrTaken: another token has this name.
	ErrTaken = errors.New("there is a token of this name already")
)

// Token is what is known of a token; its secret is not.
type Token struct {
	ID      string    `json:"id"` // names it for ever, unlike Name
	Name    string    `json:"name"`
	Role    Role      `json:"role"`
	Created time.Time `json:"created"`
	Hash    string    `json:"sha256"`
}

// invitation is what is kept of an open one.
type invitation struct {
	Name    string    `json:"name"`
	Role    Role      `json:"role"`
	Expires time.Time `json:"expires"`
	Hash    string    `json:"sha256"`
}

// contents is the file.
type contents struct {
	Version     int          `json:"version"`
	Tokens      []Token      `json:"tokens"`
	Invitations []invitation `json:"invitations,omitempty"`
}

const (
	fileVersion = 1
	maxFile     = 8 << 20
	maxTokens   = 10_000
	// keepExpired is how long an invitation is remembered whose time is over, so
	// that who comes late is told that.
	keepExpired = 24 * time.Hour
)

// File is the tokens of one daemon. A file that is not there has none.
type File struct {
	now  func() time.Time
	file private.File[contents]
}

// Open gives the file at a path; it touches nothing.
func Open(path string) *File {
	return &File{now: time.Now, file: private.File[contents]{
		Path: path, Max: maxFile, Reading: "reading the tokens: ", Changing: "changing the tokens: ",
		Parse: func(text []byte) (contents, error) {
			c, err := parse(text)
			if err != nil {
				return c, fmt.Errorf("reading the tokens in %s: %w; restore it, or remove it and pair again", path, err)
			}
			return c, nil
		},
		// Who else could write to it could let anybody in.
		Exposed: func(mode fs.FileMode) error {
			return fmt.Errorf("other users can get at %s (mode %#o): look whether its tokens are yours, then: chmod 600 %[1]s", path, mode)
		},
	}}
}

// Path is where the file is.
func (f *File) Path() string { return f.file.Path }

var nameRule = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9._@-]{0,63}$`)

// CheckName says whether something may name a token: it stands in logs, tables
// and arguments.
func CheckName(name string) error {
	if !nameRule.MatchString(name) {
		return fmt.Errorf("%.80q cannot name a token: use letters, digits and . _ @ -, beginning with a letter or digit, at most 64", name)
	}
	return nil
}

// Create makes a token and gives its secret, which is nowhere else. It returns
// when the token is on the disk. [ErrTaken] if the name is in use.
func (f *File) Create(name string, role Role) (secret string, t Token, err error) {
	if err := CheckName(name); err != nil {
		return "", Token{}, err
	}
	err = f.change(func(c *contents) error {
		if c.named(name) >= 0 {
			return fmt.Errorf("%w: %s", ErrTaken, name)
		}
		secret, t, err = f.add(c, name, role)
		return err
	})
	if err != nil {
		return "", Token{}, err
	}
	return secret, t, nil
}

func (f *File) add(c *contents, name string, role Role) (string, Token, error) {
	if len(c.Tokens) >= maxTokens {
		return "", Token{}, fmt.Errorf("there are %d tokens already; revoke some", len(c.Tokens))
	}
	secret := newToken()
	t := Token{ID: "tok_" + random(12), Name: name, Role: role, Created: f.now().UTC().Truncate(time.Second), Hash: digest(secret)}
	c.Tokens = append(c.Tokens, t)
	return secret, t, nil
}

// List gives all tokens, oldest first.
func (f *File) List() ([]Token, error) {
	c, err := f.file.Current()
	return slices.Clone(c.Tokens), err
}

// Revoke removes the token of this name or id. It returns when that is on the
// disk; connections that were made with it are the daemon's to cut. [ErrUnknown]
// if there is none.
func (f *File) Revoke(nameOrID string) (t Token, err error) {
	err = f.change(func(c *contents) error {
		i := c.named(nameOrID)
		if i < 0 {
			i = slices.IndexFunc(c.Tokens, func(t Token) bool { return t.ID == nameOrID })
		}
		if i < 0 {
			return ErrUnknown
		}
		t = c.Tokens[i]
		c.Tokens = slices.Delete(c.Tokens, i, i+1)
		return nil
	})
	return t, err
}

// Invite gives an invitation for a token of this name and role, good once and for
// so long. If the name is taken when it is redeemed, a number is added.
func (f *File) Invite(name string, role Role, life time.Duration) (secret string, expires time.Time, err error) {
	if err := CheckName(name); err != nil {
		return "", time.Time{}, err
	}
	secret = newInvite()
	expires = f.now().Add(life).UTC().Truncate(time.Second)
	err = f.change(func(c *contents) error {
		if len(c.Invitations) >= maxTokens {
			return errors.New("too many pairing codes are open; wait until some have expired")
		}
		c.Invitations = append(c.Invitations, invitation{name, role, expires, digest(secret)})
		return nil
	})
	return secret, expires, err
}

// Redeem gives the token that an invitation is for; the invitation is used up
// before the token exists. [ErrUnknown] or [ErrExpired] otherwise.
func (f *File) Redeem(secret string) (token string, t Token, err error) {
	hash := digest(secret)
	// What is no invitation takes no lock.
	c, err := f.file.Current()
	if err != nil {
		return "", Token{}, err
	}
	if !slices.ContainsFunc(c.Invitations, func(i invitation) bool { return i.Hash == hash }) {
		return "", Token{}, ErrUnknown
	}
	err = f.change(func(c *contents) error {
		i := slices.IndexFunc(c.Invitations, func(i invitation) bool { return i.Hash == hash })
		if i < 0 {
			return ErrUnknown // somebody was quicker
		}
		in := c.Invitations[i]
		if !f.now().Before(in.Expires) {
			return ErrExpired
		}
		c.Invitations = slices.Delete(c.Invitations, i, i+1)
		name := in.Name
		for n := 2; c.named(name) >= 0; n++ {
			name = fmt.Sprintf("%.58s-%d", in.Name, n)
		}
		var err error
		token, t, err = f.add(c, name, in.Role)
		return err
	})
	if err != nil {
		return "", Token{}, err
	}
	return token, t, nil
}

// Check gives the token with this secret, [ErrUnknown] if there is none.
func (f *File) Check(secret string) (Token, error) {
	c, err := f.file.Current()
	if err != nil {
		return Token{}, err
	}
	// The hash of what was shown is compared, so that how long this takes says
	// nothing about any secret.
	hash := digest(secret)
	for _, t := range c.Tokens {
		if t.Hash == hash {
			return t, nil
		}
	}
	return Token{}, ErrUnknown
}

// Valid says whether a token is still there and unchanged.
func (f *File) Valid(t Token) (bool, error) {
	c, err := f.file.Current()
	if err != nil {
		return false, err
	}
	return slices.ContainsFunc(c.Tokens, func(x Token) bool { return x.ID == t.ID && x.Hash == t.Hash && x.Role == t.Role }), nil
}

func (c *contents) named(name string) int {
	return slices.IndexFunc(c.Tokens, func(t Token) bool { return t.Name == name })
}

// change reads the file, changes it and replaces it, while nobody else does.
func (f *File) change(do func(*contents) error) error {
	if err := link.PrivateDir(filepath.Dir(f.Path())); err != nil {
		return err
	}
	return f.file.Change(func(c contents) ([]byte, error) {
		now := f.now()
		c.Invitations = slices.DeleteFunc(c.Invitations, func(i invitation) bool { return now.Sub(i.Expires) > keepExpired })
		if err := do(&c); err != nil {
			return nil, err
		}
		c.Version = fileVersion
		text, err := json.MarshalIndent(c, "", "  ")
		return append(text, '\n'), err
	})
}

// parse reads the text of the file. Anything it does not know is an error: a
// file that is understood in part would let in too many or too few.
func parse(text []byte) (contents, error) {
	var c contents
	if err := private.Decode(text, maxFile, fileVersion, &c); err != nil {
		return contents{}, err
	}
	ids, names, hashes := map[string]bool{}, map[string]bool{}, map[string]bool{}
	for _, t := range c.Tokens {
		switch {
		case t.ID == "" || ids[t.ID]:
			return contents{}, fmt.Errorf("the id %.80q is missing or stands twice", t.ID)
		case CheckName(t.Name) != nil:
			return contents{}, CheckName(t.Name)
		case names[t.Name]:
			return contents{}, fmt.Errorf("the name %q stands twice", t.Name)
		case hashes[t.Hash]:
			return contents{}, fmt.Errorf("token %q has the secret of another one", t.Name)
		}
		if err := checkEntry(t.Role, t.Hash); err != nil {
			return contents{}, fmt.Errorf("token %q: %w", t.Name, err)
		}
		ids[t.ID], names[t.Name], hashes[t.Hash] = true, true, true
	}
	for _, i := range c.Invitations {
		if err := CheckName(i.Name); err != nil {
			return contents{}, err
		}
		if err := checkEntry(i.Role, i.Hash); err != nil {
			return contents{}, fmt.Errorf("invitation %q: %w", i.Name, err)
		}
		if hashes[i.Hash] {
			return contents{}, fmt.Errorf("invitation %q has the secret of another one", i.Name)
		}
		hashes[i.Hash] = true
	}
	return c, nil
}

var hashRule = regexp.MustCompile(`^[0-9a-f]{64}$`)

func checkEntry(r Role, hash string) error {
	if _, err := ParseRole(string(r)); err != nil {
		return err
	}
	if !hashRule.MatchString(hash) {
		return errors.New("its sha256 is not 64 hexadecimal digits")
	}
	return nil
}
