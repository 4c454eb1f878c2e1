package store

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	bolt "go.etcd.io/bbolt"
	berrors "go.etcd.io/bbolt/errors"

	"github.com/hermesd/hermesd/daemon/session"
)

// Names beside the database while another file takes its place: it is built under
// the first, complete under the second.
const (
	buildSuffix = ".new.tmp"
	readySuffix = ".new"
)

// commitBytes is how much a builder commits at once.
const commitBytes = 16 << 20

// builder makes a database that nobody uses yet.
type builder struct {
	path string
	db   *bolt.DB
	tx   *bolt.Tx
	size int // in tx
}

// newBuilder makes the file, in the place of what an earlier try has left.
func newBuilder(path string) (*builder, error) {
	if err := os.Remove(path); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, err
	}
	// It is synced once, at the end.
	db, err := bolt.Open(path, 0o600, &bolt.Options{Timeout: time.Second, FreelistType: bolt.FreelistMapType, NoSync: true, NoGrowSync: true})
	if err != nil {
		return nil, err
	}
	b := &builder{path: path, db: db}
	if err := b.begin(); err != nil {
		return nil, errors.Join(err, b.abandon())
	}
	return b, nil
}

func (b *builder) begin() (err error) {
	if b.tx, err = b.db.Begin(true); err != nil {
		return err
	}
	b.size = 0
	for _, name := range [][]byte{bucketStore, bucketIndex, bucketEvents} {
		if _, err := b.tx.CreateBucketIfNotExists(name); err != nil {
			return err
		}
	}
	return nil
}

// commit frees the memory of what was put.
func (b *builder) commit() error {
	tx := b.tx
	b.tx = nil
	if err := tx.Commit(); err != nil {
		return err
	}
	return b.begin()
}

func (b *builder) meta(m *session.Meta) error {
	return b.tx.Bucket(bucketIndex).Put([]byte(m.ID), encodeIndex(m))
}

func (b *builder) record(id session.ID, r session.Record) error {
	events, err := b.tx.Bucket(bucketEvents).CreateBucketIfNotExists([]byte(id))
	if err != nil {
		return err
	}
	events.FillPercent = 0.95
	v := appendRecord(nil, id, &r)
	if err := events.Put(seqKey(r.Last), v); err != nil {
		return err
	}
	if b.size += len(v) + 64; b.size >= commitBytes {
		return b.commit()
	}
	return nil
}

// remove takes back what was put of a session.
func (b *builder) remove(id session.ID) error {
	if err := b.tx.Bucket(bucketIndex).Delete([]byte(id)); err != nil {
		return err
	}
	if err := b.tx.Bucket(bucketEvents).DeleteBucket([]byte(id)); err != nil && !errors.Is(err, berrors.ErrBucketNotFound) {
		return err
	}
	return nil
}

// finish makes the file complete and durable and closes it.
func (b *builder) finish(st state) error {
	tx := b.tx
	b.tx = nil
	err := putState(tx, st)
	if err == nil {
		err = tx.Commit()
	} else {
		err = errors.Join(err, tx.Rollback())
	}
	if err == nil {
		err = b.db.Sync()
	}
	if err = errors.Join(err, b.db.Close()); err != nil {
		err = errors.Join(err, os.Remove(b.path))
	}
	return err
}

// abandon removes the file.
func (b *builder) abandon() error {
	var err error
	if b.tx != nil {
		err = b.tx.Rollback()
	}
	return errors.Join(err, b.db.Close(), os.Remove(b.path))
}

// asideName is a name beside the database under which there is nothing.
func asideName(path string) string {
	name := fmt.Sprintf("%s.corrupt-%s", path, time.Now().UTC().Format("20060102T150405"))
	for n, base := 2, name; ; n++ {
		if _, err := os.Lstat(name); errors.Is(err, fs.ErrNotExist) {
			return name
		}
		name = fmt.Sprintf("%s-%d", base, n)
	}
}

// replaceFile puts the complete file that was built in the place of the database,
// which nobody has open. keep, if not "", is the name under which the old one
// stays. At any moment there is one or the other.
func replaceFile(path, keep string) error {
	if err := os.Rename(path+buildSuffix, path+readySuffix); err != nil {
		return err
	}
	if keep != "" {
		// Not all file systems have links; finishReplacing ends what begins here.
		if err := os.Link(path, keep); err != nil {
			if err := os.Rename(path, keep); err != nil {
				return err
			}
		}
	}
	if err := os.Rename(path+readySuffix, path); err != nil {
		return err
	}
	return syncDir(filepath.Dir(path))
}

// finishReplacing clears up after a process that died while it put another file
// in the place of the database.
func finishReplacing(path string) error {
	_ = os.Remove(path + buildSuffix)
	if _, err := os.Lstat(path); errors.Is(err, fs.ErrNotExist) {
		if err := os.Rename(path+readySuffix, path); !errors.Is(err, fs.ErrNotExist) {
			return err
		}
		return nil
	}
	_ = os.Remove(path + readySuffix)
	return nil
}

// replace puts the file that was built at path+buildSuffix in the place of the
// one that is open. Who reads waits for as long as that takes. On an error the
// old one is open again, or the tree is closed.
func (t *tree) replace(keep string) error {
	t.mu.Lock()
	defer t.mu.Unlock()
	if err := t.shut(); err != nil {
		return errors.Join(err, t.reopen())
	}
	if err := replaceFile(t.path, keep); err != nil {
		return errors.Join(err, finishReplacing(t.path), t.reopen())
	}
	return t.reopen()
}

// reopen opens the file again; mu is held.
func (t *tree) reopen() error {
	if err := t.open(); err != nil {
		return openError(t, err)
	}
	return nil
}
