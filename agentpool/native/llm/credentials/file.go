package credentials

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"runtime"
	"strings"
)

// fileVersion is of the form of the file; a file of a later one is left alone.
const fileVersion = 1

// FileName is the name of the file in the configuration's folder.
const FileName = "credentials.json"

// File keeps credentials on disk, mode 0600. It is read anew each time, so a
// login is seen by a daemon that runs. Of two processes that write at the same
// time the last one wins; a reader never sees half a file.
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
	form, err := f.read()
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

func (f *File) read() (fileForm, error) {
	form := fileForm{Version: fileVersion, Credentials: map[string]savedForm{}}
	file, err := os.Open(f.Path)
	if errors.Is(err, fs.ErrNotExist) {
		return form, nil
	}
	if err != nil {
		return form, fmt.Errorf("reading the credentials: %w", err)
	}
	defer file.Close()
	info, err := file.Stat()
	if err != nil {
		return form, fmt.Errorf("reading the credentials: %w", err)
	}
	if runtime.GOOS != "windows" && info.Mode().Perm()&0o077 != 0 {
		return form, fmt.Errorf("the credentials in %s can be read by others: run chmod 600 %[1]s", f.Path)
	}
	// No error of the decoder is passed on: it may quote what it read.
	if err := json.NewDecoder(file).Decode(&form); err != nil {
		return form, fmt.Errorf("the credentials in %s are damaged: delete the file and log in again", f.Path)
	}
	if form.Version > fileVersion {
		return form, fmt.Errorf("the credentials in %s are of a newer hermesd: update this one", f.Path)
	}
	return form, nil
}

func (f *File) change(do func(map[string]savedForm)) (err error) {
	form, err := f.read()
	if err != nil {
		return err
	}
	all := maps.Clone(form.Credentials)
	if all == nil {
		all = map[string]savedForm{}
	}
	do(all)
	data, err := json.MarshalIndent(fileForm{fileVersion, all}, "", "  ")
	if err != nil {
		return fmt.Errorf("writing the credentials: %w", err)
	}
	defer func() {
		if err != nil {
			err = fmt.Errorf("writing the credentials: %w", err)
		}
	}()
	dir := filepath.Dir(f.Path)
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return err
	}
	tmp, err := os.CreateTemp(dir, ".credentials-*") // 0600 from the beginning
	if err != nil {
		return err
	}
	defer os.Remove(tmp.Name()) // nothing is there any more if all went well
	_, err = tmp.Write(append(data, '\n'))
	if err == nil {
		err = tmp.Sync()
	}
	if cerr := tmp.Close(); err == nil {
		err = cerr
	}
	if err != nil {
		return err
	}
	return os.Rename(tmp.Name(), f.Path)
}
