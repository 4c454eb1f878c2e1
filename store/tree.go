package store

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"runtime/debug"
	"strings"
	"sync"
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

// treeFormat is the format that is written; steps lead to it from the others.
const treeFormat = 2

// tree is the bbolt file.
type tree struct {
	path string

	// mu is held for reading while db is read, and for writing while another file
	// takes its place. It is taken after all other locks.
	mu   sync.RWMutex
	db   *bolt.DB
	file *os.File // bbolt's, for when bbolt cannot close it any more
	raw  *os.File // the same file, for looking at pages
	life int      // counts the files that were opened

	format uint32 // the newest that is known, and the one that is written

	// trusted are the sessions whose pages are known to be a tree.
	trusting sync.Mutex
	trusted  map[session.ID]bool

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
	format  uint32
	backup  bool // it was made by Backup and put here
}

// isBackup stands in a backup for the identity of the file.
const isBackup = "backup"

// emptyTree is the size of a bbolt file in which nothing was ever committed:
// two metas, a freelist, a leaf.
func emptyTree() int64 { return 4 * int64(os.Getpagesize()) }

// openTree opens or makes the file. A file too short to have ever held
// anything (the machine died while it was made) is put aside and made anew.
func openTree(path string, format uint32) (*tree, error) {
	t := &tree{path: path, format: format}
	_ = os.Remove(path + compactSuffix)
	if err := finishReplacing(path); err != nil {
		return nil, err
	}
	if info, err := os.Stat(path); err == nil && info.Size() > 0 && info.Size() < emptyTree() {
		if err := os.Rename(path, asideName(path)); err != nil {
			return nil, err
		}
	}
	if err := t.open(); err != nil {
		return nil, openError(t, err)
	}
	return t, nil
}

// openError says in our words why bbolt could not open the file.
func openError(t *tree, err error) error {
	switch {
	case err == nil:
		return nil
	case errors.Is(err, berrors.ErrTimeout):
		return fmt.Errorf("%w: another program has %s open; close it first", ErrLocked, t.path)
	case errors.Is(err, berrors.ErrInvalid), errors.Is(err, berrors.ErrChecksum), errors.Is(err, berrors.ErrVersionMismatch):
		return t.damaged(err)
	case errors.Is(err, ErrDamaged), errors.Is(err, ErrNewer):
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
	if err := t.firstLook(); err != nil {
		return err
	}
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
	if err != nil {
		return err
	}
	t.broken, t.trusted = nil, make(map[session.ID]bool)
	t.life++
	if err := t.lookClosely(); err != nil {
		return errors.Join(err, t.shut())
	}
	return nil
}

// deepLook is the size up to which all pages of a file are looked at when it is
// opened: that takes time, and somebody waits for the daemon. In a larger one a
// session's are looked at when they are needed.
const deepLook = 16 << 20

// lookClosely looks at the pages, now that nobody else writes to them.
func (t *tree) lookClosely() (err error) {
	if t.raw, err = os.Open(t.path); err != nil {
		return err
	}
	pages, err := t.pages()
	if err == nil {
		pages.r = &blocks{r: pages.r}
	}
	if err == nil && !pages.sound(pages.size <= deepLook) {
		err = t.damaged("its pages do not fit together")
	}
	return err
}

// firstLook keeps bbolt from what it does to files that are not of its version
// and from files in which it would have to look for free pages.
func (t *tree) firstLook() error {
	file, err := os.Open(t.path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	defer file.Close()
	info, err := file.Stat()
	if err != nil || info.Size() == 0 {
		return err
	}
	f := openPages(file, info.Size(), int64(os.Getpagesize()))
	switch {
	case f.newer != 0:
		return newer(t.path, f.newer, boltVersion)
	case len(f.metas) == 0:
		return t.damaged("its first pages are not those of a database")
	case f.metas[0].freelist == boltNoList:
		return t.damaged("it has no list of free pages")
	}
	return nil
}

func (t *tree) pages() (*pageFile, error) {
	info, err := t.raw.Stat()
	if err != nil {
		return nil, err
	}
	return openPages(t.raw, info.Size(), int64(os.Getpagesize())), nil
}

// trust sees to it that bbolt can be let into a session's bucket: in a circle of
// pages it would go round for ever.
func (t *tree) trust(id session.ID, b *bolt.Bucket) error {
	root := uint64(b.Root())
	if root == 0 {
		return nil
	}
	t.trusting.Lock()
	defer t.trusting.Unlock()
	if t.trusted[id] {
		return nil
	}
	pages, err := t.pages()
	if err != nil {
		return err
	}
	if !pages.straight(root, newBitset(pages.count())) {
		return t.damaged(fmt.Sprintf("the pages of session %s do not fit together", id))
	}
	t.trusted[id] = true
	return nil
}

func (t *tree) damaged(cause any) error {
	return fmt.Errorf("%w: %s cannot be read (%v)", ErrDamaged, t.path, cause)
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
	t.mu.RLock()
	defer t.mu.RUnlock()
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
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.shut()
}

// shut is close with mu held. Also after an error the file is let go of.
func (t *tree) shut() error {
	if t.raw != nil {
		t.raw.Close()
	}
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
		if f := binary.LittleEndian.Uint32(format); f > t.format {
			return newer(t.path, f, t.format)
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
			format: binary.LittleEndian.Uint32(format), backup: string(b.Get(keyFile)) == isBackup,
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
	st.format = t.format
	return t.update(func(tx *bolt.Tx) error { return putState(tx, st) })
}

func putState(tx *bolt.Tx, st state) error {
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
		b.Put(keyFormat, binary.LittleEndian.AppendUint32(nil, st.format)),
		b.Put(keyEpoch, []byte(st.epoch)),
		b.Put(keyBoot, []byte(st.boot)),
		b.Put(keyClean, []byte{clean}),
		b.Put(keyFile, []byte(st.file)),
		b.Put(keyJournal, binary.LittleEndian.AppendUint64(nil, st.journal)),
	)
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
			m, err := decodeIndex(id, v)
			if err != nil {
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
	binary.LittleEndian.PutUint32(v, checksum(v[4:])^owner(m.ID, 0))
	return v
}

func decodeIndex(id session.ID, v []byte) (session.Meta, error) {
	if len(v) < 4 || binary.LittleEndian.Uint32(v) != checksum(v[4:])^owner(id, 0) {
		return session.Meta{}, errDamaged
	}
	return decodeMeta(id, v[4:])
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
		if err := t.trust(id, b); err != nil {
			return err
		}
		k, v := b.Cursor().Last()
		if k == nil {
			return nil
		}
		if len(k) == 8 {
			head = session.Seq(binary.BigEndian.Uint64(k))
		}
		if !isRecord(id, head, v) {
			return t.damaged(fmt.Sprintf("the end of session %s", id))
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
		if err := t.trust(id, b); err != nil {
			return err
		}
		c := b.Cursor()
		next := from
		for k, v := c.Seek(seqKey(from)); k != nil && next <= to && (len(page) == 0 || maxBytes > 0); k, v = c.Next() {
			var r session.Record
			err := errDamaged
			if len(k) == 8 {
				r, err = decodeRecord(id, session.Seq(binary.BigEndian.Uint64(k)), v)
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
		// First: what is put under an id that was deleted is another session.
		for _, id := range m.deletes {
			if err := index.Delete([]byte(id)); err != nil {
				return err
			}
			if b := events.Bucket([]byte(id)); b != nil {
				if err := t.trust(id, b); err != nil {
					return err
				}
			}
			if err := events.DeleteBucket([]byte(id)); err != nil && !errors.Is(err, berrors.ErrBucketNotFound) {
				return err
			}
		}
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
				arena = appendRecord(arena, p.id, &p.records[i])
				if err := b.Put(seqKey(p.records[i].Last), arena[start:len(arena):len(arena)]); err != nil {
					return err
				}
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
