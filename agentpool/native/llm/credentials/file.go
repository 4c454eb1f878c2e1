package credentials

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/hermesd/hermesd/transport/private"
)

// fileVersion is of the form of the file; a file of a later one is left alone.
const fileVersion = 1

const maxFile = 1 << 20 // bytes

// FileName is the name of the file in the configuration's folder.
const FileName = "credentials.json"

// File keeps credentials on disk, mode 0600. It is read anew each time, so a
// login is seen by a daemon that runs. Processes that write at the same time do so
// one after the other; a reader never sees half a file.
type File struct{ Path string }

type fileForm struct {
	Version     int                  `json:"version"`
	Credentials map[string]savedForm `json:"credentials"`
}

type savedForm struct {
	Key     string `json:"key,omitempty"`
	Bearer  bool   `json:"bearer,omitempty"`
	BaseURL string `json:"baseURL,omitempty"`
}

// Load returns what is saved, by provider. A file that is not there is empty.
// A file that others can read is refused, with what to do about it.
func (f *File) Load() (map[string]Credential, error) {
	form, err := f.file().Current()
	if err != nil {
		return nil, err
	}
	all := make(map[string]Credential, len(form.Credentials))
	for provider, s := range form.Credentials {
		all[provider] = Credential{Provider: provider, Key: NewSecret(s.Key), Bearer: s.Bearer, BaseURL: s.BaseURL, Source: f.Path}
	}
	return all, nil
}

// Save adds a credential or replaces the provider's.
func (f *File) Save(c Credential) error {
	if c.Provider == "" {
		return errors.New("saving a credential: it names no provider")
	}
	if k := c.Key.Reveal(); strings.ContainsFunc(k, func(r rune) bool { return r <= ' ' || r == 0x7f }) {
		return errors.New("saving a credential: the key contains spaces or line ends: paste the key alone")
	}
	return f.change(func(all map[string]savedForm) {
		all[c.Provider] = savedForm{c.Key.Reveal(), c.Bearer, c.BaseURL}
	})
}

// Delete removes the credentials of providers; it is no error if there are none.
func (f *File) Delete(providers ...string) error {
	if _, err := os.Lstat(f.Path); errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return f.change(func(all map[string]savedForm) {
		for _, p := range providers {
			delete(all, p)
		}
	})
}

func (f *File) file() *private.File[fileForm] {
	return &private.File[fileForm]{
		Path: f.Path, Max: maxFile, Reading: "reading the credentials: ", Changing: "writing the credentials: ",
		Parse: func(text []byte) (fileForm, error) {
			var form fileForm
			// No error of the decoder is passed on: it may quote what it read.
			if len(text) > maxFile || json.Unmarshal(text, &form) != nil {
				return form, fmt.Errorf("the credentials in %s are damaged: delete the file and log in again", f.Path)
			}
			if form.Version > fileVersion {
				return form, fmt.Errorf("the credentials in %s are of a newer hermesd: update this one", f.Path)
			}
			return form, nil
		},
		Exposed: func(fs.FileMode) error {
			return fmt.Errorf("the credentials in %s can be read by others: run chmod 600 %[1]s", f.Path)
		},
	}
}

func (f *File) change(do func(map[string]savedForm)) error {
	if err := os.MkdirAll(filepath.Dir(f.Path), 0o700); err != nil {
		return fmt.Errorf("writing the credentials: %w", err)
	}
	return f.file().Change(func(form fileForm) ([]byte, error) {
		all := form.Credentials
		if all == nil {
			all = map[string]savedForm{}
		}
		do(all)
		data, err := json.MarshalIndent(fileForm{fileVersion, all}, "", "  ")
		if err != nil {
			return nil, fmt.Errorf("writing the credentials: %w", err)
		}
		return append(data, '\n'), nil
	})
}
