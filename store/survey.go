package store

import (
	"bytes"
	"encoding/binary"
	"encoding/json"
	"maps"
	"os"
	"slices"
	"sort"
	"time"

	"github.com/hermesd/hermesd/daemon/session"
)

// survey is everything that can be found in a database, whatever has happened
// to it. It is looked for in this order, and what was found first holds:
//
//	the newest tree    what bbolt would read
//	the tree before    bbolt writes no page of it before the newest is safe
//	all other leaves   whose records tell by their sums which session they are of
//
// The second and third are looked at only if there is damage. A session that was
// deleted comes back from them only if neither tree can say which sessions there
// are.
type survey struct {
	f *pageFile
	// damaged says that something in the file is not as bbolt left it, also where
	// that costs nothing.
	damaged  bool
	state    map[string][]byte // of the bucket "store"
	sessions map[session.ID]*remains
	ours     bool // one of our buckets was found
}

// remains is what was found of a session.
type remains struct {
	meta  *session.Meta
	refs  []recordRef // apart from each other, ascending
	whole bool        // everything that the newest tree has of it could be read
	claim session.Seq // the highest number of a record that cannot be read
	named bool        // it has events in the newest tree
}

// recordRef says where a good record stands in the file.
type recordRef struct {
	first, last session.Seq
	at, size    int64
}

// surveyFile reads all of a file. It changes nothing and needs no more memory than
// a few words for each record.
func surveyFile(f *pageFile) *survey {
	s := &survey{f: f, state: make(map[string][]byte), sessions: make(map[session.ID]*remains)}
	reached := newBitset(f.count())
	listed := false // what sessions there are is known
	for rank, m := range f.metas {
		seen := reached
		if rank > 0 {
			seen = newBitset(f.count())
		}
		whole, list := s.tree(m, seen, rank == 0, !listed)
		if rank == 0 {
			s.damaged = !whole || len(f.metas) < 2 || m.pages > f.count()
			good := f.freelist(m, func(id uint64) { s.damaged = s.damaged || reached.has(id) })
			if s.damaged = s.damaged || !good; !s.damaged {
				return s
			}
		}
		listed = listed || list
	}
	s.damaged = true
	s.orphans(listed)
	return s
}

// tree looks at one tree, the newest one first. create says that a session may be
// new to the survey.
func (s *survey) tree(m boltMeta, seen bitset, first, create bool) (whole, listed bool) {
	tops, whole := s.f.buckets(m, seen)
	if e, ok := tops[string(bucketStore)]; ok {
		s.ours = true
		whole = s.f.entries(e, seen, s.addState) && whole
	}
	index, okIndex := tops[string(bucketIndex)]
	listed = okIndex && s.f.entries(index, seen, func(e rawElement) { whole = s.addMeta(e, create) && whole })
	events, okEvents := tops[string(bucketEvents)]
	if okEvents {
		s.ours = true
		all := s.f.entries(events, seen, func(e rawElement) {
			id := session.ID(e.key)
			r := s.sessions[id]
			if r == nil {
				r = new(remains)
				// The name may be what is damaged: then it has no records.
				defer func() {
					if create && validID(id) == nil && len(r.refs) > 0 {
						s.sessions[id] = r
					} else {
						whole = false
					}
				}()
			}
			good := true
			all := s.f.entries(e, seen, func(e rawElement) { good = s.addRecord(id, r, e) && good })
			if good = good && all; first {
				r.named, r.whole = true, good
			}
			whole = whole && good
		})
		for _, r := range s.sessions {
			if first && all && !r.named { // nothing but its Meta was stored
				r.whole = true
			}
		}
		listed, whole = listed && all, whole && all
	}
	if len(tops) == 0 && m.txid <= 1 { // nothing was stored yet
		return whole, whole
	}
	return whole && okIndex && okEvents && listed, listed && okEvents
}

// of gives a session's remains, nil if it is not known and may not be new.
func (s *survey) of(id session.ID, create bool) *remains {
	r := s.sessions[id]
	if r == nil && create && validID(id) == nil {
		r = new(remains)
		s.sessions[id] = r
	}
	return r
}

func (s *survey) addState(e rawElement) {
	if _, ok := s.state[string(e.key)]; !ok && len(e.value) <= 1024 {
		s.state[string(e.key)] = slices.Clone(e.value)
	}
}

// addMeta reports whether the entry was good.
func (s *survey) addMeta(e rawElement, create bool) bool {
	id := session.ID(e.key)
	if e.bucket || validID(id) != nil {
		return false
	}
	m, err := decodeIndex(id, e.value)
	if err != nil && bytes.Equal(s.state[string(keyFormat)], []byte{1, 0, 0, 0}) {
		m, err = decodeAnyonesIndex(id, e.value)
	}
	if err != nil {
		return false
	}
	if r := s.of(id, create); r != nil && r.meta == nil {
		r.meta = &m
	}
	return true
}

// addRecord reports whether the record was good.
func (s *survey) addRecord(id session.ID, r *remains, e rawElement) bool {
	if e.bucket || len(e.key) != 8 {
		return false
	}
	last := session.Seq(binary.BigEndian.Uint64(e.key))
	rec, err := decodeRecord(id, last, e.value)
	if err == nil {
		return r.add(recordRef{rec.First, rec.Last, e.at, int64(len(e.value))})
	}
	// One bit of the number may be all that is wrong.
	if sum, ok := recordOwner(e.value); ok {
		for prefix, bit := ownerPrefix(id), 0; bit < 64; bit++ {
			if at := last ^ 1<<bit; ownerFrom(prefix, at) == sum {
				if rec, err := decodeRecord(id, at, e.value); err == nil {
					r.add(recordRef{rec.First, rec.Last, e.at, int64(len(e.value))})
					return false
				}
			}
		}
	}
	if n := len(r.refs); n == 0 && last <= maxClaim || n > 0 && last > r.refs[n-1].last && last-r.refs[n-1].last <= maxClaim {
		r.claim = max(r.claim, last)
	}
	return false
}

// maxClaim is how many events the number of a record may be ahead that cannot be
// read itself.
const maxClaim = 1 << 16

// add takes a record if nothing of it is there yet.
func (r *remains) add(x recordRef) bool {
	i := len(r.refs)
	if i > 0 && r.refs[i-1].last >= x.first {
		i = sort.Search(i, func(i int) bool { return r.refs[i].last >= x.first })
		if r.refs[i].first <= x.last {
			return r.refs[i].first == x.first && r.refs[i].last == x.last
		}
	}
	r.refs = slices.Insert(r.refs, i, x)
	return true
}

// orphans looks at all leaves, whether a tree has led to them or not: it may have
// led to them by a wrong name.
func (s *survey) orphans(listed bool) {
	owners := make(map[session.ID]uint32)
	note := func(id session.ID) {
		if _, ok := owners[id]; !ok && s.sessions[id] != nil {
			owners[id] = ownerPrefix(id)
		}
	}
	for id := range s.sessions {
		note(id)
	}
	var leaves []uint64
	for id := uint64(2); id < s.f.count(); id++ {
		p, ok := s.f.header(id)
		if !ok || p.flags != pageLeaf {
			continue
		}
		leaves = append(leaves, id)
		if p, ok = s.f.page(id); !ok {
			continue
		}
		// Names first: without them nothing can be told.
		p.elements(func(e rawElement) {
			if !e.bucket && len(e.key) != 8 {
				if s.addMeta(e, !listed) {
					note(session.ID(e.key))
				}
				return
			}
			inner, ok := e.inline()
			if !ok || validID(session.ID(e.key)) != nil {
				return
			}
			id := session.ID(e.key)
			inner.elements(func(e rawElement) {
				if sum, ok := recordOwner(e.value); !ok || len(e.key) != 8 || sum != owner(id, session.Seq(binary.BigEndian.Uint64(e.key))) {
					return
				}
				if r := s.of(id, !listed); r != nil {
					note(id)
					s.addRecord(id, r, e)
				}
			})
		})
	}
	ids := slices.Sorted(maps.Keys(owners))
	for _, leaf := range leaves {
		p, ok := s.f.page(leaf)
		if !ok {
			continue
		}
		likely := session.ID("")
		p.elements(func(e rawElement) {
			sum, ok := recordOwner(e.value)
			if !ok || e.bucket || len(e.key) != 8 {
				return
			}
			last := session.Seq(binary.BigEndian.Uint64(e.key))
			if likely == "" || ownerFrom(owners[likely], last) != sum { // a leaf holds records of one session
				i := slices.IndexFunc(ids, func(id session.ID) bool { return ownerFrom(owners[id], last) == sum })
				if i < 0 {
					return
				}
				likely = ids[i]
			}
			s.addRecord(likely, s.sessions[likely], e)
		})
	}
}

// read gives a session's records in order, and its holes filled. It says how
// many events were lost. upTo, if it is not 0, is where the session ends at least.
func (s *survey) read(id session.ID, upTo session.Seq, each func(session.Record) error) (lost uint64, err error) {
	r := s.sessions[id]
	next := session.Seq(1)
	var now int64 // of the log
	fill := func(to session.Seq) error {
		lost += uint64(to - next + 1)
		err := holeRecords(next, to, now, each)
		next = to + 1
		return err
	}
	for _, ref := range r.refs {
		if ref.first-next > maxHole {
			break
		}
		v := make([]byte, ref.size)
		if _, err := s.f.r.ReadAt(v, ref.at); err != nil {
			return lost, err
		}
		rec, err := decodeRecord(id, ref.last, v)
		if err != nil {
			continue // the disk says something else than a moment ago
		}
		now = rec.Time
		if ref.first > next {
			if err := fill(ref.first - 1); err != nil {
				return lost, err
			}
		}
		if err := each(rec); err != nil {
			return lost, err
		}
		next = ref.last + 1
	}
	if upTo = max(upTo, r.claim); upTo >= next && upTo-next <= maxHole {
		err := fill(upTo)
		return lost, err
	}
	return lost, nil
}

// metaOf is what is known of a session: what the index says, else its first
// event, else nothing but what it is called.
func (s *survey) metaOf(id session.ID) *session.Meta {
	r := s.sessions[id]
	if r.meta != nil {
		return r.meta
	}
	m := session.Meta{ID: id, Title: "(what was known of this session is lost)"}
	if len(r.refs) == 0 {
		return &m
	}
	v := make([]byte, r.refs[0].size)
	if _, err := s.f.r.ReadAt(v, r.refs[0].at); err != nil {
		return &m
	}
	rec, err := decodeRecord(id, r.refs[0].last, v)
	if err != nil {
		return &m
	}
	m.Created, m.Updated = time.UnixMilli(rec.Time).UTC(), time.UnixMilli(rec.Time).UTC()
	var first session.Created
	if rec.Kind == session.KindCreated && json.Unmarshal(rec.Data, &first) == nil && first.Meta.ID == id {
		m = first.Meta
	}
	return ownMeta(m)
}

// surveyPath looks at the file of this name.
func surveyPath(path string) (*survey, func() error, error) {
	file, err := os.Open(path)
	if err != nil {
		return nil, nil, err
	}
	info, err := file.Stat()
	if err != nil {
		file.Close()
		return nil, nil, err
	}
	return surveyFile(openPages(file, info.Size(), int64(os.Getpagesize()))), file.Close, nil
}
