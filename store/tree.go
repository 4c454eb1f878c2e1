package store

import (
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime/debug"
	"strings"
	"syscall"
	"time"
	"unsafe"

	bolt "go.etcd.io/bbolt"
	berrors "go.etcd.io/bbolt/errors"

	"github.com/hermesd/hermesd/daemon/session"
)

// Names in the tree that is drawn in the package comment.
var (
	bucketStore  = []byte("store")
	bucketIndex  = []byte("index")
	bucketEvents = []byte("events")
	keyBoot      = []byte("boot")
	keyClean     = []byte("clean")
	keyEpoch     = []byte("epoch")
	keyFormat    = []byte("format")
	keyFile      = []byte("file")
	keyJournal   = []byte("journal")
)

const treeFormat = 1

// tree is the bbolt file.
type tree struct {
	db   *bolt.DB
	path string
	file *os.File // bbolt's, for when bbolt cannot close it any more
	// broken is set once a transaction that writes has panicked: bbolt may not
	// have let go of its locks. Only Open, the mover and Close write, never two
	// at a time.
	broken error
	// fault, if set, is asked before each transaction is committed.
	fault func() error
}

// state is what the bucket "store" says.
type state struct {
	fresh   bool // nothing stored yet
	epoch   string
	boot    string
	clean   bool
	file    string // identity
	journal uint64
}

// emptyTree is the size of a bbolt file in which nothing was ever committed:
// two metas, a freelist, a leaf.
func emptyTree() int64 { return 4 * int64(os.Getpagesize()) }

// openTree opens or makes the file. A file too short to have ever held
// anything (the machine died while it was made) is put aside and made anew.
func openTree(path string) (*tree, error) {
	t := &tree{path: path}
	if info, err := os.Stat(path); err == nil && info.Size() > 0 && info.Size() < emptyTree() {
		aside := fmt.Sprintf("%s.corrupt-%s", path, time.Now().UTC().Format("20060102T150405"))
		if err := os.Rename(path, aside); err != nil {
			return nil, err
		}
	}
	_ = os.Remove(path + compactSuffix)
	if err := t.open(); err != nil {
		return nil, openError(t, err)
	}
	return t, nil
}

// openError says in our words why bbolt could not open the file.
func openError(t *tree, err error) error {
	switch {
	case errors.Is(err, berrors.ErrTimeout):
		return fmt.Errorf("%w: another program has %s open; close it first", ErrLocked, t.path)
	case errors.Is(err, berrors.ErrInvalid), errors.Is(err, berrors.ErrChecksum), errors.Is(err, berrors.ErrVersionMismatch):
		return t.damaged(err)
	case errors.Is(err, ErrDamaged):
		return err
	}
	return fmt.Errorf("opening %s: %w", t.path, err)
}

// open opens the file with bbolt. The list of free pages is kept in the file:
// transactions are few and large, so that writing it costs little, while
// without it bbolt walks through the whole file when it opens it, in a
// goroutine of its own whose panics, should the file be damaged, nobody can
// catch.
func (t *tree) open() error {
	o := &bolt.Options{Timeout: time.Second, FreelistType: bolt.FreelistMapType}
	o.OpenFile = func(name string, flag int, perm os.FileMode) (f *os.File, err error) {
		f, err = os.OpenFile(name, flag, perm)
		t.file = f
		return f, err
	}
	if mmapAhead && unsafe.Sizeof(uintptr(0)) == 8 {
		// Address space, not memory. A file that grows beyond it has to wait
		// for all readers.
		o.InitialMmapSize = 1 << 30
	}
	open := func() (err error) {
		if t.db, err = bolt.Open(t.path, 0o600, o); err == nil {
			t.db.AllocSize = 4 << 20 // the file grows by this much at a time
		}
		return err
	}
	err := t.guard(open)
	if errors.Is(err, syscall.ENOMEM) && o.InitialMmapSize > 0 {
		o.InitialMmapSize = 0
		err = t.guard(open)
	}
	if errors.Is(err, ErrDamaged) {
		_ = t.drop()
	}
	return err
}

func (t *tree) damaged(cause any) error {
	return fmt.Errorf("%w: %s cannot be read (%v). Put it back from a backup, or move it away to begin without the sessions in it",
		ErrDamaged, t.path, cause)
}

// guard turns what bbolt panics with on a damaged file into an error, page
// faults of its memory map included.
func (t *tree) guard(f func() error) (err error) {
	defer debug.SetPanicOnFault(debug.SetPanicOnFault(true))
	defer func() {
		if p := recover(); p != nil {
			err = t.damaged(p)
		}
	}()
	return f()
}

// view reads. It may be called while close runs and after it; the error is
// ErrClosed then.
func (t *tree) view(f func(*bolt.Tx) error) error {
	err := t.guard(func() error { return t.db.View(f) })
	if errors.Is(err, berrors.ErrDatabaseNotOpen) {
		return ErrClosed
	}
	return err
}

func (t *tree) update(f func(*bolt.Tx) error) error {
	if t.broken != nil {
		return t.broken
	}
	done := false
	err := t.guard(func() error {
		err := t.db.Update(func(tx *bolt.Tx) error {
			if err := f(tx); err != nil {
				return err
			}
			if t.fault != nil {
				return t.fault()
			}
			return nil
		})
		done = true
		return err
	})
	if !done {
		t.broken = err
	}
	return err
}

func (t *tree) close() error {
	if t.broken != nil {
		return t.drop()
	}
	return t.guard(t.db.Close)
}

// drop lets go of the file after a panic, when bbolt's own Close might wait for
// ever. The memory map stays.
func (t *tree) drop() error {
	letGo(t.file)
	return t.file.Close()
}

const (
	compactSuffix = ".compact"
	// A file is made anew when it is opened if that gains this much, and half
	// of it, and costs no more than copying this much.
	compactGain = 64 << 20
	compactCost = 256 << 20
)

// wasteful says whether the file is worth compacting.
func (t *tree) wasteful() bool {
	var size int64
	if err := t.view(func(tx *bolt.Tx) error { size = tx.Size(); return nil }); err != nil {
		return false
	}
	st := t.db.Stats()
	free := int64(st.FreePageN+st.PendingPageN) * int64(t.db.Info().PageSize)
	return free > compactGain && free > size/2 && size-free < compactCost
}

// compact puts a copy without free pages in the file's place. On an error
// everything is as before, or the tree is closed.
func (t *tree) compact() error {
	name := t.path + compactSuffix
	dst, err := bolt.Open(name, 0o600, &bolt.Options{Timeout: time.Second, FreelistType: bolt.FreelistMapType})
	if err != nil {
		return err
	}
	fail := func(err error) error {
		return errors.Join(err, os.Remove(name))
	}
	err = t.guard(func() error { return bolt.Compact(dst, t.db, 16<<20) })
	if err == nil {
		err = dst.Update(func(tx *bolt.Tx) error {
			if b := tx.Bucket(bucketStore); b != nil {
				return b.Put(keyFile, []byte(identity(name)))
			}
			return nil
		})
	}
	if err := errors.Join(err, dst.Close()); err != nil {
		return fail(err)
	}
	if err := t.close(); err != nil {
		return fail(err)
	}
	if err := os.Rename(name, t.path); err != nil {
		return errors.Join(fail(err), t.open())
	}
	return errors.Join(syncDir(filepath.Dir(t.path)), t.open())
}

// load reads the state. It changes nothing; the error is ErrNewer if the file
// is not ours to read.
func (t *tree) load() (state, error) {
	var st state
	err := t.view(func(tx *bolt.Tx) error {
		b := tx.Bucket(bucketStore)
		if b == nil {
			if k, _ := tx.Cursor().First(); k != nil {
				return fmt.Errorf("%s is a bbolt file of another program; move it away", t.path)
			}
			st.fresh = true
			return nil
		}
		format := b.Get(keyFormat)
		if len(format) != 4 {
			return t.damaged("no format")
		}
		if f := binary.LittleEndian.Uint32(format); f > treeFormat {
			return newer(t.path, f, treeFormat)
		}
		number := func(key []byte) uint64 {
			if v := b.Get(key); len(v) == 8 {
				return binary.LittleEndian.Uint64(v)
			}
			return 0
		}
		clean := b.Get(keyClean)
		st = state{
			epoch: string(b.Get(keyEpoch)), boot: string(b.Get(keyBoot)), clean: len(clean) == 1 && clean[0] == 1,
			file: string(b.Get(keyFile)), journal: number(keyJournal),
		}
		return nil
	})
	return st, err
}

func newer(path string, found, known uint32) error {
	return fmt.Errorf("%w: %s has format %d, this program knows %d. It was left untouched: use the newer version of hermesd",
		ErrNewer, path, found, known)
}

// save writes the state and makes the buckets.
func (t *tree) save(st state) error {
	return t.update(func(tx *bolt.Tx) error {
		for _, name := range [][]byte{bucketStore, bucketIndex, bucketEvents} {
			if _, err := tx.CreateBucketIfNotExists(name); err != nil {
				return err
			}
		}
		b := tx.Bucket(bucketStore)
		clean := byte(0)
		if st.clean {
			clean = 1
		}
		return errors.Join(
			b.Put(keyFormat, binary.LittleEndian.AppendUint32(nil, treeFormat)),
			b.Put(keyEpoch, []byte(st.epoch)),
			b.Put(keyBoot, []byte(st.boot)),
			b.Put(keyClean, []byte{clean}),
			b.Put(keyFile, []byte(st.file)),
			b.Put(keyJournal, binary.LittleEndian.AppendUint64(nil, st.journal)),
		)
	})
}

// metas loads the index. A Meta that is damaged leaves a session that can still
// be opened; their ids are returned.
func (t *tree) metas(into *index) (damaged []session.ID, err error) {
	err = t.view(func(tx *bolt.Tx) error {
		b := tx.Bucket(bucketIndex)
		if b == nil {
			return nil
		}
		return b.ForEach(func(k, v []byte) error {
			id := session.ID(k)
			m := session.Meta{ID: id}
			ok := len(v) >= 4 && binary.LittleEndian.Uint32(v) == checksum(v[4:])
			if ok {
				var err error
				m, err = decodeMeta(id, v[4:])
				ok = err == nil
			}
			if !ok {
				m = session.Meta{ID: id}
				damaged = append(damaged, id)
			}
			into.metas[id] = &m
			return nil
		})
	})
	return damaged, err
}

func encodeIndex(m *session.Meta) []byte {
	v := appendMeta(make([]byte, 4, 256), m)
	binary.LittleEndian.PutUint32(v, checksum(v[4:]))
	return v
}

func seqKey(n session.Seq) []byte { return binary.BigEndian.AppendUint64(nil, uint64(n)) }

// head is the Seq of the last event stored, 0 if there is none.
func (t *tree) head(id session.ID) (session.Seq, error) {
	var head session.Seq
	err := t.view(func(tx *bolt.Tx) error {
		b := sessionEvents(tx, id)
		if b == nil {
			return nil
		}
		if k, _ := b.Cursor().Last(); len(k) == 8 {
			head = session.Seq(binary.BigEndian.Uint64(k))
		}
		return nil
	})
	return head, err
}

func sessionEvents(tx *bolt.Tx, id session.ID) *bolt.Bucket {
	events := tx.Bucket(bucketEvents)
	if events == nil {
		return nil
	}
	return events.Bucket([]byte(id))
}

// read returns the records of from … to, about maxBytes of them, and what is
// left of maxBytes. A record that cannot be read ends the page, or is the error
// if it is the first.
func (t *tree) read(id session.ID, from, to session.Seq, maxBytes int) ([]session.Record, int, error) {
	var page []session.Record
	err := t.view(func(tx *bolt.Tx) error {
		b := sessionEvents(tx, id)
		if b == nil {
			return t.damaged(fmt.Sprintf("events of session %s are missing", id))
		}
		c := b.Cursor()
		next := from
		for k, v := c.Seek(seqKey(from)); k != nil && next <= to && (len(page) == 0 || maxBytes > 0); k, v = c.Next() {
			var r session.Record
			err := errDamaged
			if len(k) == 8 {
				r, err = decodeRecord(session.Seq(binary.BigEndian.Uint64(k)), v)
			}
			if err == nil && (r.First > next || (r.First != next && len(page) > 0)) {
				err = errDamaged
			}
			if err != nil {
				if len(page) > 0 {
					return nil
				}
				return t.damaged(fmt.Sprintf("event %d of session %s", next, id))
			}
			page = append(page, r)
			next = r.Last + 1
			maxBytes -= len(r.Data) + eventCost
		}
		if len(page) == 0 {
			return t.damaged(fmt.Sprintf("event %d of session %s is missing", from, id))
		}
		return nil
	})
	return page, maxBytes, err
}

// move is one transaction of the transfer.
type move struct {
	puts    []put
	deletes []session.ID
	journal uint64
}

// put is what one log gives to a move.
type put struct {
	id      session.ID
	meta    *session.Meta
	records []session.Record
}

func (t *tree) apply(m move) error {
	size := 0
	for _, p := range m.puts {
		for i := range p.records {
			size += len(p.records[i].Data) + 2*len(p.records[i].Ends) + 64
		}
	}
	arena := make([]byte, 0, size) // values must stay until the commit
	return t.update(func(tx *bolt.Tx) error {
		index, events := tx.Bucket(bucketIndex), tx.Bucket(bucketEvents)
		for _, p := range m.puts {
			if p.meta != nil {
				if err := index.Put([]byte(p.id), encodeIndex(p.meta)); err != nil {
					return err
				}
			}
			if len(p.records) == 0 {
				continue
			}
			b, err := events.CreateBucketIfNotExists([]byte(p.id))
			if err != nil {
				return err
			}
			b.FillPercent = 0.95 // keys only grow
			for i := range p.records {
				start := len(arena)
				arena = appendRecord(arena, &p.records[i])
				if err := b.Put(seqKey(p.records[i].Last), arena[start:len(arena):len(arena)]); err != nil {
					return err
				}
			}
		}
		for _, id := range m.deletes {
			if err := index.Delete([]byte(id)); err != nil {
				return err
			}
			if err := events.DeleteBucket([]byte(id)); err != nil && !errors.Is(err, berrors.ErrBucketNotFound) {
				return err
			}
		}
		return tx.Bucket(bucketStore).Put(keyJournal, binary.LittleEndian.AppendUint64(nil, m.journal))
	})
}

// dbName is the file in the folder of a store.
func dbName(dir string) string { return filepath.Join(dir, "sessions.db") }

// journalName is its folder of segments.
func journalName(dir string) string { return filepath.Join(dir, "journal") }

// validID says whether a session can be stored under this id.
func validID(id session.ID) error {
	if id == "" || len(id) > 1024 {
		return fmt.Errorf("session id of %d bytes: 1 to 1024 are possible", len(id))
	}
	if strings.ContainsRune(string(id), 0) {
		return errors.New("session id with a zero byte")
	}
	return nil
}
