package store

import (
	"bytes"
	"encoding/binary"
	"hash/fnv"
	"io"
	"slices"
)

// The file format of bbolt, as far as it is needed to read a file that bbolt
// itself cannot be trusted with: it believes every number in it, and follows a
// circle of pages for ever.
//
//	page   id 8 | flags 2 | count 2 | overflow 4, in pages | count × element | keys and values
//	leaf   flags 4 | pos 4, from the element | key size 4 | value size 4
//	branch pos 4, from the element | key size 4 | page 8
//	bucket root page 8 | sequence 8 | if the root is 0: a leaf page
//	meta   magic 4 | version 4 | page size 4 | flags 4 | root bucket 16 | freelist 8 | pages 8 | transaction 8 | FNV-64a of all before
const (
	boltMagic    = 0xED0CDAED
	boltVersion  = 2
	boltNoList   = ^uint64(0)
	pageHeader   = 16
	elementSize  = 16
	bucketHeader = 16

	pageBranch   = 0x01
	pageLeaf     = 0x02
	pageFreelist = 0x10

	bucketFlag = 1

	// maxPage bounds the memory that a page takes whose length is damaged.
	maxPage = 256 << 20
	// maxDepth is more than any tree has that fits on a disk.
	maxDepth = 64
)

// boltMeta is what a meta page says.
type boltMeta struct {
	pageSize int64
	root     uint64
	freelist uint64
	pages    uint64 // in use: those behind are not part of the file
	txid     uint64
}

// pageFile is a bbolt file that may be damaged in any way.
type pageFile struct {
	r        io.ReaderAt
	size     int64
	pageSize int64
	metas    []boltMeta // the valid ones, newest first
	newer    uint32     // the version of a meta that we do not know, 0 if there is none
}

// openPages reads the metas. Without a valid one there are none, and the size of
// pages is that of this machine.
func openPages(r io.ReaderAt, size, pageSize int64) *pageFile {
	f := &pageFile{r: r, size: size, pageSize: pageSize}
	if m, ok := f.meta(0); ok {
		f.pageSize = m.pageSize
		f.metas = append(f.metas, m)
	}
	// The second one is where the size of a page says; without the first that has
	// to be guessed.
	for _, at := range []int64{f.pageSize, 4 << 10, 8 << 10, 16 << 10, 32 << 10, 64 << 10} {
		if m, ok := f.meta(at); ok && m.pageSize == at {
			f.pageSize = at
			f.metas = append(f.metas, m)
			break
		}
	}
	slices.SortStableFunc(f.metas, func(a, b boltMeta) int {
		if a.txid > b.txid {
			return -1
		}
		return 1
	})
	return f
}

func (f *pageFile) meta(at int64) (boltMeta, bool) {
	var b [pageHeader + 64]byte
	if n, _ := f.r.ReadAt(b[:], at); n < len(b) {
		return boltMeta{}, false
	}
	m := b[pageHeader:]
	sum := fnv.New64a()
	_, _ = sum.Write(m[:56])
	u32, u64 := binary.NativeEndian.Uint32, binary.NativeEndian.Uint64
	size := int64(u32(m[8:]))
	if v := u32(m[4:]); u32(m) == boltMagic && v > boltVersion && u64(m[56:]) == sum.Sum64() {
		f.newer = v
	}
	if u32(m) != boltMagic || u32(m[4:]) != boltVersion || u64(m[56:]) != sum.Sum64() || size < 512 || size > 1<<20 || size&(size-1) != 0 {
		return boltMeta{}, false
	}
	return boltMeta{pageSize: size, root: u64(m[16:]), freelist: u64(m[32:]), pages: u64(m[40:]), txid: u64(m[48:])}, true
}

// count is the number of whole pages there are.
func (f *pageFile) count() uint64 { return uint64(f.size / f.pageSize) }

// rawPage is a page with what it flows over into.
type rawPage struct {
	id       uint64
	flags    uint16
	count    int
	overflow uint64
	at       int64 // in the file
	b        []byte
	cut      bool // it claims more than there is
}

// header reads the front of a page. ok is false if it is not what is stored
// under this number.
func (f *pageFile) header(id uint64) (p rawPage, ok bool) {
	if id < 2 || id >= f.count() {
		return p, false
	}
	var b [pageHeader]byte
	if n, _ := f.r.ReadAt(b[:], int64(id)*f.pageSize); n < len(b) {
		return p, false
	}
	return f.parseHeader(id, b[:])
}

func (f *pageFile) parseHeader(id uint64, b []byte) (p rawPage, ok bool) {
	p = rawPage{
		id: id, at: int64(id) * f.pageSize, flags: binary.NativeEndian.Uint16(b[8:]),
		count: int(binary.NativeEndian.Uint16(b[10:])), overflow: uint64(binary.NativeEndian.Uint32(b[12:])),
	}
	if binary.NativeEndian.Uint64(b) != id || (p.flags != pageBranch && p.flags != pageLeaf && p.flags != pageFreelist) {
		return p, false
	}
	if room := f.count() - id - 1; p.overflow > room {
		p.overflow, p.cut = room, true
	}
	if most := uint64(maxPage / f.pageSize); p.overflow > most {
		p.overflow, p.cut = most, true
	}
	return p, true
}

// page reads a page with its content.
func (f *pageFile) page(id uint64) (p rawPage, ok bool) {
	if id < 2 || id >= f.count() {
		return p, false
	}
	b := make([]byte, f.pageSize)
	if n, _ := f.r.ReadAt(b, int64(id)*f.pageSize); n < len(b) {
		return p, false
	}
	if p, ok = f.parseHeader(id, b); !ok {
		return p, false
	}
	p.b = b
	if p.overflow > 0 {
		p.b = append(b, make([]byte, int64(p.overflow)*f.pageSize)...)
		n, _ := f.r.ReadAt(p.b[len(b):], p.at+f.pageSize)
		if n += len(b); n < len(p.b) {
			p.b, p.cut = p.b[:n], true
		}
	}
	return p, true
}

// rawElement is one of a page. Key and value are part of the page's bytes.
type rawElement struct {
	key    []byte
	value  []byte // of a leaf
	at     int64  // of the value, in the file
	bucket bool   // the value is a bucket's
	child  uint64 // of a branch
}

// elements gives those whose key and value lie inside of the page, and whether
// these are all.
func (p rawPage) elements(each func(rawElement)) (whole bool) {
	whole = !p.cut
	u32 := binary.NativeEndian.Uint32
	for i := range p.count {
		start := pageHeader + i*elementSize
		if start+elementSize > len(p.b) {
			return false
		}
		head := p.b[start:]
		var e rawElement
		var pos, ksize, vsize uint64
		if p.flags == pageBranch {
			pos, ksize, e.child = uint64(u32(head)), uint64(u32(head[4:])), binary.NativeEndian.Uint64(head[8:])
		} else {
			e.bucket = u32(head)&bucketFlag != 0
			pos, ksize, vsize = uint64(u32(head[4:])), uint64(u32(head[8:])), uint64(u32(head[12:]))
		}
		from := uint64(start) + pos
		if ksize == 0 || from+ksize+vsize > uint64(len(p.b)) {
			whole = false
			continue
		}
		e.key = p.b[from : from+ksize]
		e.value = p.b[from+ksize : from+ksize+vsize]
		e.at = p.at + int64(from+ksize)
		each(e)
	}
	return whole
}

// bitset is a set of page numbers.
type bitset []uint64

func newBitset(n uint64) bitset { return make(bitset, n/64+1) }

// add reports whether n was not in it.
func (s bitset) add(n uint64) bool {
	if n/64 >= uint64(len(s)) {
		return false
	}
	was := s[n/64]&(1<<(n%64)) != 0
	s[n/64] |= 1 << (n % 64)
	return !was
}

func (s bitset) has(n uint64) bool { return n/64 < uint64(len(s)) && s[n/64]&(1<<(n%64)) != 0 }

// walk gives the elements of all leaves below a page in the order of the tree,
// and whether everything could be read. Each page is read once, whoever points
// to it.
func (f *pageFile) walk(root uint64, seen bitset, each func(rawElement)) (whole bool) {
	return f.walkFrom(root, 0, seen, each)
}

func (f *pageFile) walkFrom(id uint64, depth int, seen bitset, each func(rawElement)) (whole bool) {
	if depth > maxDepth || seen.has(id) {
		return false
	}
	p, ok := f.page(id)
	if !ok || p.flags == pageFreelist || !seen.add(id) {
		return false
	}
	if p.flags == pageLeaf {
		return p.elements(each)
	}
	var children []uint64
	whole = p.elements(func(e rawElement) { children = append(children, e.child) }) && len(children) > 0
	for _, child := range children {
		whole = f.walkFrom(child, depth+1, seen, each) && whole
	}
	return whole
}

// straight says whether the pages below root are a tree that uses no page of
// seen, with its keys where its branches say: bbolt can be let into it then. Of
// leaves it looks at the front, the first key and the last. It adds what it sees
// to seen.
func (f *pageFile) straight(root uint64, seen bitset) bool {
	return f.straightFrom(root, 0, seen, nil, nil)
}

// straightFrom is straight for keys from one to another; nil is any.
func (f *pageFile) straightFrom(id uint64, depth int, seen bitset, from, to []byte) bool {
	p, ok := f.header(id)
	if !ok || p.cut || p.flags == pageFreelist || depth > maxDepth {
		return false
	}
	for n := uint64(0); n <= p.overflow; n++ {
		if !seen.add(id + n) {
			return false
		}
	}
	if p.flags == pageLeaf {
		return f.fits(p, from, to)
	}
	if p, ok = f.page(id); !ok || p.count == 0 {
		return false
	}
	var keys [][]byte
	var children []uint64
	if !p.elements(func(e rawElement) { keys, children = append(keys, e.key), append(children, e.child) }) {
		return false
	}
	keys = append(keys, to)
	for i, child := range children {
		low, high := keys[i], keys[i+1]
		if high != nil && bytes.Compare(low, high) >= 0 || from != nil && bytes.Compare(low, from) < 0 {
			return false
		}
		if !f.straightFrom(child, depth+1, seen, low, high) {
			return false
		}
	}
	return true
}

// fits says whether the first and the last key of a leaf lie between two keys.
func (f *pageFile) fits(p rawPage, from, to []byte) bool {
	if p.count == 0 {
		return true
	}
	key := func(i int) []byte {
		start := int64(pageHeader + i*elementSize)
		var head [elementSize]byte
		if _, err := f.r.ReadAt(head[:], p.at+start); err != nil {
			return nil
		}
		pos, size := int64(binary.NativeEndian.Uint32(head[4:])), int64(binary.NativeEndian.Uint32(head[8:]))
		if size > 4096 || start+pos+size > int64(p.overflow+1)*f.pageSize {
			return nil
		}
		k := make([]byte, size)
		if _, err := f.r.ReadAt(k, p.at+start+pos); err != nil {
			return nil
		}
		return k
	}
	first, last := key(0), key(p.count-1)
	return len(first) > 0 && len(last) > 0 && bytes.Compare(first, last) <= 0 && bytes.Compare(from, first) <= 0 && (to == nil || bytes.Compare(last, to) < 0)
}

// inline reads a bucket that is small enough to stand in its parent's page.
func (e rawElement) inline() (p rawPage, ok bool) {
	if !e.bucket || len(e.value) < bucketHeader+pageHeader || binary.NativeEndian.Uint64(e.value) != 0 {
		return p, false
	}
	b := e.value[bucketHeader:]
	p = rawPage{
		at: e.at + bucketHeader, flags: binary.NativeEndian.Uint16(b[8:]), count: int(binary.NativeEndian.Uint16(b[10:])), b: b,
	}
	return p, p.flags == pageLeaf
}

// root is a bucket's page, 0 if it is inline or none.
func (e rawElement) root() uint64 {
	if !e.bucket || len(e.value) < bucketHeader {
		return 0
	}
	return binary.NativeEndian.Uint64(e.value)
}

// freelist says whether the list of free pages can be right, and gives what is
// in it.
func (f *pageFile) freelist(m boltMeta, each func(id uint64)) bool {
	if m.freelist == boltNoList {
		return false // ours always have one; without, bbolt would walk through everything
	}
	p, ok := f.page(m.freelist)
	if !ok || p.cut || p.flags != pageFreelist {
		return false
	}
	ids, n := p.b[pageHeader:], uint64(p.count)
	if p.count == 0xFFFF {
		if len(ids) < 8 {
			return false
		}
		n, ids = binary.NativeEndian.Uint64(ids), ids[8:]
	}
	if n > uint64(len(ids)/8) {
		return false
	}
	last := uint64(1)
	for i := range n {
		id := binary.NativeEndian.Uint64(ids[i*8:])
		if id <= last || id >= m.pages {
			return false
		}
		last = id
		each(id)
	}
	return true
}

// buckets finds the top level buckets of a meta's tree.
func (f *pageFile) buckets(m boltMeta, seen bitset) (found map[string]rawElement, whole bool) {
	found = make(map[string]rawElement)
	whole = f.walk(m.root, seen, func(e rawElement) {
		if e.bucket {
			found[string(e.key)] = e
		}
	})
	return found, whole
}

// entries gives the elements of a bucket.
func (f *pageFile) entries(bucket rawElement, seen bitset, each func(rawElement)) (whole bool) {
	if p, ok := bucket.inline(); ok {
		return p.elements(each)
	}
	if root := bucket.root(); root != 0 {
		return f.walk(root, seen, each)
	}
	return false
}

// sound says whether bbolt can be let into the file: everything that it follows
// is as it must be, and no page that is in use is taken for a free one. What
// records say is not looked at. deep looks also at the fronts of all leaves, and
// else sessions are left out.
func (f *pageFile) sound(deep bool) bool {
	if len(f.metas) < 2 {
		return false
	}
	m := f.metas[0]
	if m.pages > f.count() {
		return false
	}
	used := newBitset(f.count())
	if !f.straight(m.root, used) {
		return false
	}
	tops, good := f.buckets(m, newBitset(f.count()))
	var roots []uint64
	known := 0
	for _, name := range [][]byte{bucketStore, bucketIndex, bucketEvents} {
		if _, ok := tops[string(name)]; ok {
			known++
		}
	}
	if known > 0 && known != 3 || known == 3 && len(tops) != 3 {
		return false
	}
	for name, top := range tops {
		if root := top.root(); root != 0 && !f.straight(root, used) {
			return false
		}
		if name == string(bucketStore) || known == 0 {
			continue
		}
		var last []byte
		whole := f.entries(top, newBitset(f.count()), func(e rawElement) {
			// The index has values, the list of sessions has buckets.
			good = good && e.bucket == (name == string(bucketEvents)) && bytes.Compare(last, e.key) < 0
			last = e.key
			if root := e.root(); deep && root != 0 {
				roots = append(roots, root)
			}
		})
		good = good && whole
	}
	slices.Sort(roots) // the disk is read in order
	for _, root := range roots {
		good = good && f.straight(root, used)
	}
	return good && f.freelist(m, func(id uint64) { good = good && !used.has(id) }) && good
}

// blocks reads a file in large pieces and keeps the last ones: looking at all
// pages of a file is then not many small reads.
type blocks struct {
	r    io.ReaderAt
	kept [4]struct {
		at int64
		b  []byte
	}
	next int
}

const blockSize = 128 << 10

// ReadAt implements io.ReaderAt.
func (r *blocks) ReadAt(b []byte, at int64) (n int, err error) {
	if len(b) >= blockSize/2 {
		return r.r.ReadAt(b, at)
	}
	for n < len(b) {
		block, err := r.block((at + int64(n)) / blockSize)
		from := (at + int64(n)) % blockSize
		if from >= int64(len(block)) {
			if err == nil {
				err = io.EOF
			}
			return n, err
		}
		n += copy(b[n:], block[from:])
	}
	return n, nil
}

func (r *blocks) block(number int64) ([]byte, error) {
	for i := range r.kept {
		if k := &r.kept[i]; k.b != nil && k.at == number {
			return k.b, nil
		}
	}
	k := &r.kept[r.next]
	r.next = (r.next + 1) % len(r.kept)
	if k.b == nil {
		k.b = make([]byte, blockSize)
	}
	n, err := r.r.ReadAt(k.b[:blockSize], number*blockSize)
	k.at, k.b = number, k.b[:n]
	if n == 0 {
		k.b = nil
	}
	return k.b, err
}
