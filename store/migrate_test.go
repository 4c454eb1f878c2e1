package store

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	bolt "go.etcd.io/bbolt"

	"github.com/hermesd/hermesd/store/storetest"
)

// later are formats of a version that is yet to be: each step adds a letter to
// a value.
func later(steps int, crash func(from uint32) error) formats {
	f := ourFormats()
	for range steps {
		from := f.newest
		f.steps[from] = func(tx *bolt.Tx) error {
			if crash != nil {
				if err := crash(from); err != nil {
					return err
				}
			}
			b := tx.Bucket(bucketStore)
			return b.Put([]byte("steps"), append(bytes.Clone(b.Get([]byte("steps"))), byte('a'+from)))
		}
		f.newest++
	}
	return f
}

func stepsOf(t *testing.T, s *Store) (steps string, format uint32) {
	t.Helper()
	if err := s.tree.view(func(tx *bolt.Tx) error {
		b := tx.Bucket(bucketStore)
		steps, format = string(b.Get([]byte("steps"))), binary.LittleEndian.Uint32(b.Get(keyFormat))
		return nil
	}); err != nil {
		t.Fatal(err)
	}
	return steps, format
}

func TestAnOlderDatabaseIsBroughtToTheNewestFormatWithACopyBefore(t *testing.T) {
	dir := t.TempDir()
	s := open(t, dir, still())
	appendTo(t, s, "s", storetest.Mixed(1, 300)...)
	if err := s.moveOnce(); err != nil {
		t.Fatal(err)
	}
	appendTo(t, s, "s", storetest.Mixed(301, 20)...) // is in the journal
	epoch := s.Epoch()
	crash(s)
	old, err := os.ReadFile(dbName(dir))
	if err != nil {
		t.Fatal(err)
	}

	// The second step fails, as if the process died there, again and again.
	o := still()
	wrong := errors.New("the machine is on fire")
	o.formats = later(3, func(from uint32) error {
		if from == treeFormat+1 {
			return wrong
		}
		return nil
	})
	for range 3 {
		if _, err := Open(dir, o); !errors.Is(err, wrong) || !strings.Contains(err.Error(), ".format-") {
			t.Fatalf("Open: %v", err)
		}
	}
	copies, _ := filepath.Glob(dbName(dir) + ".format-*")
	if len(copies) != 2 { // of the format it had, and of that in which it was left
		t.Fatalf("copies: %v", copies)
	}
	o.formats = later(3, nil)
	s = open(t, dir, o)
	if steps, format := stepsOf(t, s); steps != string([]byte{'a' + treeFormat, 'b' + treeFormat, 'c' + treeFormat}) || format != treeFormat+3 {
		t.Errorf("steps %q to format %d", steps, format)
	}
	storetest.Same(t, readAll(t, s, "s"), storetest.Mixed(1, 320))
	if s.Epoch() != epoch {
		t.Error("the epoch changed though nothing was lost")
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	if kept, err := os.ReadFile(fmt.Sprintf("%s.format-%d", dbName(dir), treeFormat)); err != nil || !bytes.Equal(kept, old) {
		t.Errorf("the copy is not what was there: %v", err)
	}
	// It stays there, and this version leaves it alone.
	if _, err := Open(dir, still()); !errors.Is(err, ErrNewer) {
		t.Errorf("Open by the older version: %v", err)
	}
	s = open(t, dir, o)
	if steps, _ := stepsOf(t, s); len(steps) != 3 {
		t.Errorf("steps were made again: %q", steps)
	}
	s.Close()
	// The copy is a database of the older version.
	restore(t, fmt.Sprintf("%s.format-%d", dbName(dir), treeFormat), dir)
	s = open(t, dir, still())
	defer s.Close()
	storetest.Same(t, readAll(t, s, "s"), storetest.Mixed(1, 300))
}

func TestAnotherCopyOfTheSameFormatIsNotOverwritten(t *testing.T) {
	dir := t.TempDir()
	open(t, dir, still()).Close()
	name := fmt.Sprintf("%s.format-%d", dbName(dir), treeFormat)
	if err := os.WriteFile(name, []byte("of another year"), 0o600); err != nil {
		t.Fatal(err)
	}
	o := still()
	o.formats = later(1, nil)
	open(t, dir, o).Close()
	if kept, _ := os.ReadFile(name); string(kept) != "of another year" {
		t.Error("it was overwritten")
	}
	if _, err := os.Stat(name + "-2"); err != nil {
		t.Error(err)
	}
}

// asFormat1 makes of a database what the first version would have written.
func asFormat1(t *testing.T, dir string) {
	t.Helper()
	tr, err := openTree(dbName(dir), treeFormat)
	if err != nil {
		t.Fatal(err)
	}
	defer tr.close()
	err = tr.update(func(tx *bolt.Tx) error {
		type item struct{ k, v []byte }
		var all []item
		tx.Bucket(bucketIndex).ForEach(func(k, v []byte) error {
			v = bytes.Clone(v)
			binary.LittleEndian.PutUint32(v, checksum(v[4:]))
			all = append(all, item{bytes.Clone(k), v})
			return nil
		})
		for _, x := range all {
			if err := tx.Bucket(bucketIndex).Put(x.k, x.v); err != nil {
				return err
			}
		}
		all = nil
		b := sessionEvents(tx, "s")
		b.ForEach(func(k, v []byte) error {
			v = bytes.Clone(v)
			v[0] = anyonesOwn
			binary.LittleEndian.PutUint32(v[1:], checksum(v[5:]))
			all = append(all, item{bytes.Clone(k), v})
			return nil
		})
		for _, x := range all {
			if err := b.Put(x.k, x.v); err != nil {
				return err
			}
		}
		return tx.Bucket(bucketStore).Put(keyFormat, []byte{1, 0, 0, 0})
	})
	if err != nil {
		t.Fatal(err)
	}
}

func TestADatabaseOfTheFirstFormatIsRead(t *testing.T) {
	for _, damaged := range []bool{false, true} {
		t.Run(fmt.Sprintf("damaged %v", damaged), func(t *testing.T) {
			dir := t.TempDir()
			s := open(t, dir, still())
			appendTo(t, s, "s", storetest.Mixed(1, 3000)...)
			if err := s.Close(); err != nil {
				t.Fatal(err)
			}
			asFormat1(t, dir)
			if damaged {
				b, _ := os.ReadFile(dbName(dir))
				clear(b[:os.Getpagesize()])
				os.WriteFile(dbName(dir), b, 0o600)
			}
			s = open(t, dir, still())
			if m, ok := s.Lookup("s"); !ok || m.Title != "title of s" {
				t.Errorf("%+v", m)
			}
			storetest.Same(t, readAll(t, s, "s"), storetest.Mixed(1, 3000))
			appendTo(t, s, "s", storetest.Mixed(3001, 100)...)
			if err := s.Close(); err != nil {
				t.Fatal(err)
			}
			s = open(t, dir, still())
			defer s.Close()
			storetest.Same(t, readAll(t, s, "s"), storetest.Mixed(1, 3100))
			if len(s.Damage()) > 0 {
				t.Errorf("%+v", s.Damage())
			}
		})
	}
}
