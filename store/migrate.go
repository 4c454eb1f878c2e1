package store

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"

	bolt "go.etcd.io/bbolt"

	"github.com/hermesd/hermesd/daemon/session"
)

// formats are those of the database that are known.
type formats struct {
	newest uint32
	// steps lead from the format that is their key to the next one. A step is one
	// transaction together with the number of the format, so that it has happened
	// or has not; it must not expect anything of the sessions' records but that
	// they can be decoded.
	steps map[uint32]func(*bolt.Tx) error
}

// ourFormats are those of this version.
func ourFormats() formats {
	return formats{newest: treeFormat, steps: map[uint32]func(*bolt.Tx) error{
		1: ownedIndex,
	}}
}

// ownedIndex leads to format 2, in which what is kept tells whose it is. Records
// stay as they are, their own format says so; the index has none.
func ownedIndex(tx *bolt.Tx) error {
	index := tx.Bucket(bucketIndex)
	if index == nil {
		return nil
	}
	c := index.Cursor()
	for k, v := c.First(); k != nil; k, v = c.Next() {
		if _, err := decodeAnyonesIndex(session.ID(k), v); err != nil {
			continue // it is damaged, and will be found to be, or was saved from damage
		}
		v = bytes.Clone(v)
		binary.LittleEndian.PutUint32(v, checksum(v[4:])^owner(session.ID(k), 0))
		if err := index.Put(bytes.Clone(k), v); err != nil {
			return err
		}
	}
	return nil
}

// migrate brings the database to the newest format, one step after the other,
// after a copy of the file was put beside it. A process that dies in between
// leaves a database of one of the formats, and the next Open goes on from there.
func (s *Store) migrate(st state) (state, error) {
	f := s.o.formats
	if st.fresh || st.format == f.newest {
		return st, nil
	}
	if st.format > f.newest {
		return st, newer(s.tree.path, st.format, f.newest)
	}
	old := st.format
	kept, err := s.tree.copyBeside(fmt.Sprintf("%s.format-%d", s.tree.path, old))
	if err != nil {
		return st, fmt.Errorf("keeping a copy of %s before it is brought to another format: %w", s.tree.path, err)
	}
	for ; st.format < f.newest; st.format++ {
		step := f.steps[st.format]
		if step == nil {
			return st, fmt.Errorf("%s has format %d, which this version of hermesd cannot read any more: open it with an older version first", s.tree.path, st.format)
		}
		err := s.tree.update(func(tx *bolt.Tx) error {
			if err := step(tx); err != nil {
				return err
			}
			return tx.Bucket(bucketStore).Put(keyFormat, binary.LittleEndian.AppendUint32(nil, st.format+1))
		})
		if err != nil {
			return st, fmt.Errorf("bringing %s from format %d to %d: %w; a copy of it is %s", s.tree.path, st.format, st.format+1, err, kept)
		}
	}
	s.o.Log.Info().Uint32("from", old).Uint32("to", st.format).Str("copy", kept).Msg("the database was brought to another format")
	return st, nil
}

// decodeAnyonesIndex reads an entry of format 1.
func decodeAnyonesIndex(id session.ID, v []byte) (session.Meta, error) {
	if len(v) < 4 || binary.LittleEndian.Uint32(v) != checksum(v[4:]) {
		return session.Meta{}, errDamaged
	}
	return decodeMeta(id, v[4:])
}

// copyBeside copies the file to this name, or to one that begins so if there is
// another file. A copy that an earlier try has made is taken for it: every commit
// changes the first two pages.
func (t *tree) copyBeside(name string) (string, error) {
	front := make([]byte, 2*os.Getpagesize())
	if _, err := t.raw.ReadAt(front, 0); err != nil {
		return "", err
	}
	for n, base := 2, name; ; n++ {
		same, err := beginsWith(name, front)
		if errors.Is(err, fs.ErrNotExist) {
			break
		}
		if err != nil {
			return "", err
		}
		if same {
			return name, nil
		}
		name = fmt.Sprintf("%s-%d", base, n)
	}
	tmp := name + ".tmp"
	if err := copyFile(t.raw, tmp); err != nil {
		return "", errors.Join(err, os.Remove(tmp))
	}
	if err := os.Rename(tmp, name); err != nil {
		return "", err
	}
	return name, syncDir(filepath.Dir(name))
}

func beginsWith(name string, front []byte) (bool, error) {
	f, err := os.Open(name)
	if err != nil {
		return false, err
	}
	defer f.Close()
	b := make([]byte, len(front))
	_, err = io.ReadFull(f, b)
	if errors.Is(err, io.ErrUnexpectedEOF) || errors.Is(err, io.EOF) {
		return false, nil
	}
	return bytes.Equal(b, front), err
}

// copyFile copies an open file to a new one, durably.
func copyFile(from *os.File, to string) error {
	info, err := from.Stat()
	if err != nil {
		return err
	}
	f, err := os.OpenFile(to, os.O_WRONLY|os.O_CREATE|os.O_TRUNC, 0o600)
	if err != nil {
		return err
	}
	_, err = io.Copy(f, io.NewSectionReader(from, 0, info.Size()))
	return errors.Join(err, f.Sync(), f.Close())
}
