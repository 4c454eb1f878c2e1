package store

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/fnv"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/hermesd/hermesd/daemon/session"
	"github.com/hermesd/hermesd/store/storetest"
)

// wreckable is a store that was closed, and what is in it: some sessions of one
// page, some of many, some that are inline, some that were deleted.
type wreckable struct {
	data []byte
	want map[session.ID][]session.Event
}

func newWreckable(t testing.TB) wreckable {
	t.Helper()
	dir := t.TempDir()
	s := open(t, dir, still())
	w := wreckable{want: make(map[session.ID][]session.Event)}
	put := func(id session.ID, from, n int) {
		events := storetest.Mixed(session.Seq(from), n)
		appendTo(t, s, id, events...)
		w.want[id] = append(w.want[id], events...)
	}
	for i := range 25 {
		put(session.ID(fmt.Sprintf("small-%02d", i)), 1, 1+i)
	}
	put("doomed", 1, 300)
	for i := range 4 {
		put(session.ID(fmt.Sprintf("large-%d", i)), 1, 1500)
	}
	if err := s.moveOnce(); err != nil {
		t.Fatal(err)
	}
	if err := s.Delete(t.Context(), "doomed"); err != nil {
		t.Fatal(err)
	}
	delete(w.want, "doomed")
	for round := range 3 {
		for i := range 4 {
			put(session.ID(fmt.Sprintf("large-%d", i)), 1501+round*100, 100)
		}
		put("small-03", 5+round*10, 10)
		if err := s.moveOnce(); err != nil {
			t.Fatal(err)
		}
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	var err error
	if w.data, err = os.ReadFile(dbName(dir)); err != nil {
		t.Fatal(err)
	}
	return w
}

// isNote says whether an event stands in a hole.
func isNote(e session.Event) bool { return bytes.Contains(e.Data, []byte("hermes_lost_")) }

// outcome is what became of a damaged store.
type outcome struct {
	whole, holed, cut, gone int
	lost                    int // events
	epoch                   string
	damage                  []Damage
}

// survives opens a store with these bytes for a database and requires that
// everything that can be read is right, and that it can be used: nothing of
// another session stands in one, nothing is at another number than it was.
func (w wreckable) survives(t testing.TB, data []byte) (o outcome) {
	t.Helper()
	dir := t.TempDir()
	if err := os.WriteFile(dbName(dir), data, 0o600); err != nil {
		t.Fatal(err)
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		s, err := Open(dir, still())
		if err != nil {
			t.Errorf("Open: %v", err)
			return
		}
		defer func() {
			if err := s.Close(); err != nil {
				t.Errorf("Close: %v", err)
			}
		}()
		w.read(t, s, &o)
		// It goes on from there.
		appendTo(t, s, "new", storetest.Mixed(1, 10)...)
		for i, m := range s.List() {
			if m.ID == "new" || i%15 != 0 {
				continue
			}
			n := len(readAll(t, s, m.ID))
			appendTo(t, s, m.ID, storetest.Tool(session.Seq(n+1)))
			if err := s.Delete(t.Context(), m.ID); err != nil {
				t.Error(err)
			}
		}
		if err := s.moveOnce(); err != nil {
			t.Errorf("moving: %v", err)
		}
		storetest.Same(t, readAll(t, s, "new"), storetest.Mixed(1, 10))
		o.epoch, o.damage = s.Epoch(), s.Damage()
	}()
	select {
	case <-done:
	case <-time.After(100 * time.Second):
		t.Fatal("it hangs")
	}
	return o
}

func (w wreckable) read(t testing.TB, s *Store, o *outcome) {
	for id, want := range w.want {
		if _, ok := s.Lookup(id); !ok {
			o.gone++
			o.lost += len(want)
			continue
		}
		got := readAll(t, s, id)
		if len(got) > len(want) {
			if slices.ContainsFunc(got[len(want):], func(e session.Event) bool { return !isNote(e) }) {
				t.Errorf("%s has %d events, %d were written", id, len(got), len(want))
			}
			got = got[:len(want)]
		}
		holes := 0
		for i, e := range got {
			switch {
			case isNote(e):
				holes++
			case e.Seq != want[i].Seq || e.Kind != want[i].Kind || !bytes.Equal(e.Data, want[i].Data):
				t.Errorf("%s: event %d is another one: %s, not %s", id, i+1, e.Data, want[i].Data)
				return
			}
		}
		o.lost += holes + len(want) - len(got)
		switch {
		case len(got) == len(want) && holes == 0:
			o.whole++
		case holes > 0:
			o.holed++
		default:
			o.cut++
		}
	}
	for _, m := range s.List() {
		if w.want[m.ID] == nil {
			t.Errorf("session %q was never there, or was deleted", m.ID)
		}
	}
}

// kinds finds one page of each kind that is part of the newest tree.
func (w wreckable) kinds(t *testing.T) map[string]uint64 {
	f := openPages(bytes.NewReader(w.data), int64(len(w.data)), int64(os.Getpagesize()))
	if len(f.metas) != 2 {
		t.Fatal("metas", len(f.metas))
	}
	seen := newBitset(f.count())
	tops, whole := f.buckets(f.metas[0], seen)
	kinds := map[string]uint64{"root": f.metas[0].root, "freelist": f.metas[0].freelist}
	name := func(kind string, root uint64) {
		p, ok := f.page(root)
		if !ok {
			t.Fatal(kind)
		}
		if p.flags == pageLeaf {
			kinds[kind+", leaf"] = root
			return
		}
		kinds[kind+", branch"] = root
		var children []uint64
		p.elements(func(e rawElement) { children = append(children, e.child) })
		kinds[kind+", first leaf"], kinds[kind+", middle leaf"], kinds[kind+", last leaf"] = children[0], children[len(children)/2], children[len(children)-1]
	}
	name("index", tops["index"].root())
	name("list of sessions", tops["events"].root())
	whole = f.entries(tops["events"], seen, func(e rawElement) {
		if string(e.key) == "large-2" {
			name("session", e.root())
		}
		if string(e.key) == "small-24" && e.root() != 0 {
			name("small session", e.root())
		}
	}) && whole
	if !whole || kinds["session, branch"] == 0 {
		t.Fatalf("not what this test is about: %v", kinds)
	}
	return kinds
}

func TestADamagedPageOfAnyKindCostsAsLittleAsPossible(t *testing.T) {
	w := newWreckable(t)
	size := int64(os.Getpagesize())
	ways := map[string]func(page []byte){
		"zeros":           func(b []byte) { clear(b) },
		"garbage":         func(b []byte) { rand.NewChaCha8([32]byte{1}).Read(b) },
		"another number":  func(b []byte) { b[0] ^= 1 },
		"another kind":    func(b []byte) { b[8] ^= 3 },
		"too many":        func(b []byte) { b[10], b[11] = 0xFF, 0xFF },
		"much overflow":   func(b []byte) { b[15] = 0x7F },
		"a bit of a key":  func(b []byte) { b[size-1] ^= 1 },
		"element's place": func(b []byte) { b[pageHeader+4] ^= 0x40 },
		"child or value":  func(b []byte) { b[pageHeader+8] ^= 1 },
		"second half":     func(b []byte) { clear(b[size/2:]) },
	}
	// What may be hurt by a page of which nothing is left. All else is to be whole.
	hurt := map[string]int{
		"session, first leaf": 1, "session, middle leaf": 1, "session, last leaf": 1,
		"small session, leaf": 1,
	}
	for kind, page := range w.kinds(t) {
		for way, spoil := range ways {
			t.Run(kind+"/"+way, func(t *testing.T) {
				data := slices.Clone(w.data)
				spoil(data[int64(page)*size : int64(page+1)*size])
				o := w.survives(t, data)
				if most := hurt[kind]; o.whole < len(w.want)-most && !strings.HasPrefix(kind, "list of sessions") {
					t.Errorf("%+v", o)
				}
				if strings.HasPrefix(kind, "list of sessions") && o.holed+o.cut+o.gone > 20 {
					t.Errorf("%+v", o)
				}
				if o.gone > 0 {
					t.Errorf("%d sessions are gone", o.gone)
				}
			})
		}
	}
}

func TestALostMiddleOfASessionIsANoteAndItsEndIsKept(t *testing.T) {
	w := newWreckable(t)
	size := int64(os.Getpagesize())
	data := slices.Clone(w.data)
	page := int64(w.kinds(t)["session, middle leaf"])
	clear(data[page*size : (page+1)*size])
	dir := t.TempDir()
	if err := os.WriteFile(dbName(dir), data, 0o600); err != nil {
		t.Fatal(err)
	}
	before := epochOf(t, w.data)
	s := open(t, dir, still())
	defer s.Close()
	got := readAll(t, s, "large-2")
	want := w.want["large-2"]
	if len(got) != len(want) || isNote(got[0]) || isNote(got[len(got)-1]) {
		t.Fatalf("%d events of %d", len(got), len(want))
	}
	i := slices.IndexFunc(got, isNote)
	if i < 0 || !strings.Contains(string(got[i].Data), "could not be read") {
		t.Fatalf("no note: %d", i)
	}
	if s.Epoch() == before {
		t.Error("the epoch stays")
	}
	damage := s.Damage()
	if len(damage) != 1 || len(damage[0].Hurt) != 1 || damage[0].Hurt[0].Session != "large-2" || damage[0].Hurt[0].Lost == 0 || damage[0].Hurt[0].Ends != session.Seq(len(want)) {
		t.Errorf("%+v", damage)
	}
	if kept, err := os.ReadFile(damage[0].File); err != nil || !bytes.Equal(kept, data) {
		t.Errorf("what was set aside is not what was there: %v", err)
	}
	if aside := SetAside(dir); !slices.Contains(aside, damage[0].File) {
		t.Errorf("set aside: %v", aside)
	}
}

// epochOf is the epoch that a database has.
func epochOf(t *testing.T, data []byte) string {
	t.Helper()
	f := openPages(bytes.NewReader(data), int64(len(data)), int64(os.Getpagesize()))
	epoch := string(surveyFile(f).state["epoch"])
	if epoch == "" {
		t.Fatal("no epoch")
	}
	return epoch
}

func TestAFileOfWhichLittleIsLeftStillGivesAStore(t *testing.T) {
	w := newWreckable(t)
	size := os.Getpagesize()
	for name, tc := range map[string]struct {
		spoil func(b []byte) []byte
		whole int // at least
	}{
		"one meta":            {func(b []byte) []byte { clear(b[:size]); return b }, len(w.want)},
		"the other meta":      {func(b []byte) []byte { clear(b[size : 2*size]); return b }, len(w.want)},
		"both metas":          {func(b []byte) []byte { clear(b[:2*size]); return b }, len(w.want) - 25},
		"all pages":           {func(b []byte) []byte { clear(b[2*size:]); return b }, 0},
		"cut short":           {func(b []byte) []byte { return b[:5*size] }, 0},
		"half":                {func(b []byte) []byte { return b[:len(b)/2] }, 0},
		"cut in a page":       {func(b []byte) []byte { return b[:len(b)/2+100] }, 0},
		"no bbolt":            {func(b []byte) []byte { return bytes.Repeat([]byte("x"), 8*size) }, 0},
		"one byte":            {func(b []byte) []byte { return b[:1] }, 0},
		"grown by zeros":      {func(b []byte) []byte { return append(b, make([]byte, 10*size)...) }, len(w.want)},
		"every second zeroed": {func(b []byte) []byte { everySecond(b, size); return b }, 0},
		"a file of zeros":     {func(b []byte) []byte { clear(b); return b }, 0},
	} {
		t.Run(name, func(t *testing.T) {
			o := w.survives(t, tc.spoil(slices.Clone(w.data)))
			if o.whole < tc.whole {
				t.Errorf("%+v", o)
			}
		})
	}
}

func everySecond(b []byte, size int) {
	for at := 3 * size; at+size <= len(b); at += 2 * size {
		clear(b[at : at+size])
	}
}

func TestAnEmptyFileIsANewStore(t *testing.T) {
	dir := t.TempDir()
	for _, n := range []int{0, os.Getpagesize()} {
		if err := os.WriteFile(dbName(dir), make([]byte, n), 0o600); err != nil {
			t.Fatal(err)
		}
		open(t, dir, Options{}).Close()
	}
	if aside := SetAside(dir); len(aside) != 1 {
		t.Errorf("put aside: %v", aside)
	}
}

// A circle of pages is what bbolt would follow for ever.
func TestACircleOfPagesIsNoHang(t *testing.T) {
	w := newWreckable(t)
	size := int64(os.Getpagesize())
	for kind, page := range w.kinds(t) {
		if !strings.HasSuffix(kind, "branch") {
			continue
		}
		for i := range 3 {
			t.Run(fmt.Sprintf("%s, child %d", kind, i), func(t *testing.T) {
				data := slices.Clone(w.data)
				b := data[int64(page)*size:]
				binary.NativeEndian.PutUint64(b[pageHeader+i*elementSize+8:], page)
				w.survives(t, data)
			})
		}
	}
}

// Damage in a record that bbolt knows nothing of is found by who reads it, while
// the daemon runs.
func TestDamageThatIsFoundWhileReadingIsHealed(t *testing.T) {
	w := newWreckable(t)
	dir := t.TempDir()
	if err := os.WriteFile(dbName(dir), w.data, 0o600); err != nil {
		t.Fatal(err)
	}
	s := open(t, dir, still())
	defer s.Close()
	epoch := s.Epoch()
	log, err := s.Open("large-1", storetest.OpenSink())
	if err != nil {
		t.Fatal(err)
	}
	spoilRecord(t, s, "large-1", 700)
	got := storetest.ReadAll(t, log, 1, 1<<20)
	if n := len(got); n != len(w.want["large-1"]) || !slices.ContainsFunc(got, isNote) || isNote(got[0]) || isNote(got[n-1]) {
		t.Errorf("%d events", n)
	}
	if s.Epoch() == epoch || len(s.Damage()) != 1 {
		t.Errorf("epoch %q, damage %+v", s.Epoch(), s.Damage())
	}
	// It goes on, also in the log that was open.
	sink := storetest.OpenSink()
	log.Close()
	if log, err = s.Open("large-1", sink); err != nil {
		t.Fatal(err)
	}
	next := log.Head() + 1
	log.Append(nil, []session.Event{storetest.Tool(next)}, false)
	sink.WaitWritten(t, next)
	if err := s.moveOnce(); err != nil {
		t.Fatal(err)
	}
	log.Close()
	for id, want := range w.want {
		if id != "large-1" {
			storetest.Same(t, readAll(t, s, id), want)
		}
	}
	epoch = s.Epoch()
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	s = open(t, dir, still())
	defer s.Close()
	if s.Epoch() != epoch || len(s.Damage()) != 0 {
		t.Error("the damage is found twice")
	}
}

// spoilRecord changes a byte of the record that holds an event, in the file.
func spoilRecord(t *testing.T, s *Store, id session.ID, seq session.Seq) {
	t.Helper()
	f, err := os.OpenFile(dbName(s.dir), os.O_RDWR, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	sv, closeFile, err := surveyPath(dbName(s.dir))
	if err != nil {
		t.Fatal(err)
	}
	defer closeFile()
	for _, ref := range sv.sessions[id].refs {
		if ref.first <= seq && seq <= ref.last {
			at := ref.at + ref.size - 1
			var b [1]byte
			if _, err := f.ReadAt(b[:], at); err != nil {
				t.Fatal(err)
			}
			b[0] ^= 1
			if _, err := f.WriteAt(b[:], at); err != nil {
				t.Fatal(err)
			}
			return
		}
	}
	t.Fatal("no such record")
}

// The transfer meets damage where nobody has read yet.
func TestDamageThatIsFoundWhileMovingIsHealed(t *testing.T) {
	w := newWreckable(t)
	dir := t.TempDir()
	if err := os.WriteFile(dbName(dir), w.data, 0o600); err != nil {
		t.Fatal(err)
	}
	s := open(t, dir, still())
	defer s.Close()
	appendTo(t, s, "large-3", storetest.Mixed(session.Seq(len(w.want["large-3"])+1), 50)...)
	page := w.kinds(t)["index, first leaf"]
	if page == 0 {
		page = w.kinds(t)["index, leaf"]
	}
	f, err := os.OpenFile(dbName(dir), os.O_RDWR, 0)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := f.WriteAt(make([]byte, 100), int64(page)*int64(os.Getpagesize())); err != nil {
		t.Fatal(err)
	}
	f.Close()
	if err := s.Delete(t.Context(), "small-00"); err != nil {
		t.Fatal(err)
	}
	if err := s.moveOnce(); err != nil {
		t.Fatal(err)
	}
	if len(s.Damage()) != 1 {
		t.Fatalf("damage %+v", s.Damage())
	}
	for id, want := range w.want {
		switch id {
		case "small-00":
			if readAll(t, s, id) != nil {
				t.Error("a deleted session is back")
			}
		case "large-3":
			storetest.Same(t, readAll(t, s, id), append(slices.Clone(want), storetest.Mixed(session.Seq(len(want)+1), 50)...))
		default:
			storetest.Same(t, readAll(t, s, id), want)
		}
	}
}

// What is in the journal fills what the database has lost, and a hole between
// the two is a note.
func TestTheJournalGoesOnBehindADamagedEnd(t *testing.T) {
	w := newWreckable(t)
	dir := t.TempDir()
	if err := os.WriteFile(dbName(dir), w.data, 0o600); err != nil {
		t.Fatal(err)
	}
	s := open(t, dir, still())
	n := session.Seq(len(w.want["large-2"]))
	appendTo(t, s, "large-2", storetest.Mixed(n+1, 50)...)
	crash(s)
	data, err := os.ReadFile(dbName(dir))
	if err != nil {
		t.Fatal(err)
	}
	page := int64(w.kinds(t)["session, last leaf"]) * int64(os.Getpagesize())
	clear(data[page : page+int64(os.Getpagesize())])
	if err := os.WriteFile(dbName(dir), data, 0o600); err != nil {
		t.Fatal(err)
	}
	s = open(t, dir, still())
	defer s.Close()
	got := readAll(t, s, "large-2")
	if len(got) != int(n)+50 || !slices.ContainsFunc(got[:n], isNote) {
		t.Fatalf("%d events of %d, a note: %v", len(got), n+50, slices.ContainsFunc(got, isNote))
	}
	storetest.Same(t, got[n:], storetest.Mixed(n+1, 50))
}

// A machine that went down is when everything is read.
func TestAfterAPowerCutTheWholeDatabaseIsRead(t *testing.T) {
	w := newWreckable(t)
	dir := t.TempDir()
	if err := os.WriteFile(dbName(dir), w.data, 0o600); err != nil {
		t.Fatal(err)
	}
	before := still()
	before.boot = func() string { return "before" }
	s := open(t, dir, before)
	crash(s)
	spoilRecord(t, s, "large-0", 900)
	same := open(t, dir, before)
	if len(same.Damage()) != 0 {
		t.Error("everything is read at each start")
	}
	crash(same)
	s = open(t, dir, still())
	defer s.Close()
	if d := s.Damage(); len(d) != 1 || len(d[0].Hurt) != 1 || d[0].Hurt[0].Session != "large-0" {
		t.Errorf("damage %+v", d)
	}
}

func TestAProcessThatDiesWhilePuttingAFileInPlaceLosesNeither(t *testing.T) {
	w := newWreckable(t)
	for name, stage := range map[string]func(dir string){
		"built":           func(dir string) { os.WriteFile(dbName(dir)+buildSuffix, []byte("half"), 0o600) },
		"ready":           func(dir string) { os.WriteFile(dbName(dir)+readySuffix, w.data, 0o600) },
		"old one renamed": func(dir string) { os.Rename(dbName(dir), dbName(dir)+readySuffix) },
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			if err := os.WriteFile(dbName(dir), w.data, 0o600); err != nil {
				t.Fatal(err)
			}
			stage(dir)
			s := open(t, dir, still())
			defer s.Close()
			var o outcome
			w.read(t, s, &o)
			if o.whole != len(w.want) {
				t.Errorf("%+v", o)
			}
			if left, _ := filepath.Glob(dbName(dir) + ".new*"); len(left) > 0 {
				t.Errorf("left behind: %v", left)
			}
		})
	}
}

func TestADatabaseOfALaterFormatIsNeverSaved(t *testing.T) {
	w := newWreckable(t)
	dir := t.TempDir()
	if err := os.WriteFile(dbName(dir), w.data, 0o600); err != nil {
		t.Fatal(err)
	}
	tr, err := openTree(dbName(dir), treeFormat)
	if err != nil {
		t.Fatal(err)
	}
	if err := setFormat(tr, treeFormat+1); err != nil {
		t.Fatal(err)
	}
	tr.close()
	data, _ := os.ReadFile(dbName(dir))
	f := openPages(bytes.NewReader(data), int64(len(data)), int64(os.Getpagesize()))
	tops, _ := f.buckets(f.metas[0], newBitset(f.count()))
	root := int64(tops["index"].root()) * f.pageSize
	clear(data[root : root+f.pageSize])
	if err := os.WriteFile(dbName(dir), data, 0o600); err != nil {
		t.Fatal(err)
	}
	before := snapshot(t, dir)
	if _, err := Open(dir, still()); !errors.Is(err, ErrNewer) {
		t.Errorf("Open: %v", err)
	}
	if after := snapshot(t, dir); after != before {
		t.Errorf("it was touched:\n%s\n%s", before, after)
	}
	// The same for a version of bbolt that is not known.
	data = slices.Clone(w.data)
	for _, at := range []int64{0, f.pageSize} {
		m := data[at+pageHeader:]
		binary.NativeEndian.PutUint32(m[4:], 3)
		h := fnv.New64a()
		h.Write(m[:56])
		binary.NativeEndian.PutUint64(m[56:], h.Sum64())
	}
	os.WriteFile(dbName(dir), data, 0o600)
	if _, err := Open(dir, still()); !errors.Is(err, ErrNewer) {
		t.Errorf("Open: %v", err)
	}
}

// FuzzDatabase damages a database in any way. Whatever is left opens, can be
// used, and says nothing wrong.
func FuzzDatabase(f *testing.F) {
	w := newWreckable(f)
	f.Add(uint64(1), uint8(1), uint8(0))
	f.Add(uint64(2), uint8(9), uint8(1))
	f.Add(uint64(3), uint8(3), uint8(2))
	f.Add(uint64(4), uint8(30), uint8(3))
	f.Add(uint64(5), uint8(5), uint8(4))
	f.Fuzz(func(t *testing.T, seed uint64, times, way uint8) {
		w.survives(t, w.spoiled(seed, int(times), int(way)))
	})
}

func (w wreckable) spoiled(seed uint64, times, way int) []byte {
	rng := rand.New(rand.NewPCG(seed, uint64(way)))
	data := slices.Clone(w.data)
	size := os.Getpagesize()
	for range times%40 + 1 {
		page := data[rng.IntN(len(data)/size)*size:][:size]
		switch way % 6 {
		case 0: // a bit
			page[rng.IntN(size)] ^= 1 << rng.IntN(8)
		case 1: // a bit where pages say what they are
			page[rng.IntN(64)] ^= 1 << rng.IntN(8)
		case 2: // a page
			clear(page)
		case 3: // a page that was not written, or written elsewhere
			copy(page, data[rng.IntN(len(data)/size)*size:][:size])
		case 4: // another number in a header or an element
			binary.NativeEndian.PutUint32(page[4*rng.IntN(24):], rng.Uint32()>>rng.IntN(32))
		case 5:
			data = data[:max(len(data)-rng.IntN(len(data)/8), size)]
		}
		if len(data) < 2*size {
			break
		}
	}
	return data
}

func TestRandomDamage(t *testing.T) {
	w := newWreckable(t)
	rounds := uint64(12)
	if testing.Short() {
		rounds = 10
	}
	var whole, all int
	for seed := range rounds {
		for way := range 6 {
			o := w.survives(t, w.spoiled(seed, int(seed%4), way))
			whole += o.whole
			all += len(w.want)
			if t.Failed() {
				t.Fatalf("seed %d, way %d: %+v", seed, way, o)
			}
		}
	}
	t.Logf("%d of %d sessions whole", whole, all)
}

// The sum is to tell every error of one bit in a record from every one in its
// number and its session.
func TestNoSmallErrorOfARecordLooksLikeOneOfItsPlace(t *testing.T) {
	rec := session.JoinEvents(nil, storetest.Mixed(1, 3))[0]
	v := appendRecord(nil, "a session", &rec)
	places := map[uint32]string{}
	for bit := range 64 {
		places[owner("a session", rec.Last^1<<bit)] = fmt.Sprintf("number, bit %d", bit)
	}
	for i := range len("a session") * 8 {
		id := []byte("a session")
		id[i/8] ^= 1 << (i % 8)
		places[owner(session.ID(id), rec.Last)] = fmt.Sprintf("session, bit %d", i)
	}
	for i := 8; i < len(v)*8; i++ {
		bad := slices.Clone(v)
		bad[i/8] ^= 1 << (i % 8)
		sum, _ := recordOwner(bad)
		if what := places[sum]; what != "" || isRecord("a session", rec.Last, bad) {
			t.Errorf("bit %d of the record looks like %s", i, what)
		}
	}
}
