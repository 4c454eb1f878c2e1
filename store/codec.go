package store

import (
	"encoding/binary"
	"errors"
	"hash/crc32"
	"time"

	"github.com/hermesd/hermesd/daemon/session"
)

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

func checksum(b []byte) uint32 { return crc32.Checksum(b, castagnoli) }

var errDamaged = errors.New("damaged")

// reader takes values off the front of bytes that may be damaged. After the
// first value that is not there everything is zero and ok is false.
type reader struct {
	b   []byte
	bad bool
}

func (r *reader) byte() byte {
	if len(r.b) == 0 {
		r.bad = true
		return 0
	}
	c := r.b[0]
	r.b = r.b[1:]
	return c
}

func (r *reader) uvarint() uint64 {
	v, n := binary.Uvarint(r.b)
	if n <= 0 {
		r.bad, r.b = true, nil
		return 0
	}
	r.b = r.b[n:]
	return v
}

func (r *reader) varint() int64 {
	v, n := binary.Varint(r.b)
	if n <= 0 {
		r.bad, r.b = true, nil
		return 0
	}
	r.b = r.b[n:]
	return v
}

// bytes takes a length and as many bytes; they share r's.
func (r *reader) bytes() []byte {
	n := r.uvarint()
	if r.bad || n > uint64(len(r.b)) {
		r.bad, r.b = true, nil
		return nil
	}
	v := r.b[:n:n]
	r.b = r.b[n:]
	return v
}

func appendBytes[T string | []byte](dst []byte, v T) []byte {
	dst = binary.AppendUvarint(dst, uint64(len(v)))
	return append(dst, v...)
}

// A record in bbolt:
//
//	format 1 | sum 4 | kind 1 | ACP version 1 | time varint
//	| Last-First uvarint | if not 0: Text uvarint, then for each event the length of its text uvarint | Data
//
// The sum is the CRC32C of all that follows, exclusive-or owner: so a record
// tells of which session and which event it is also when what led to it is
// damaged. Format 1 has the CRC32C alone.
const (
	recordFormat = 2
	anyonesOwn   = 1 // the format of records that do not tell whose they are
)

// owner is made of a record's place: mixed of the CRC32C of the session, a zero,
// the Seq as in its key.
func owner(id session.ID, last session.Seq) uint32 {
	return ownerFrom(ownerPrefix(id), last)
}

func ownerPrefix(id session.ID) uint32 {
	b := make([]byte, 0, 64)
	return checksum(append(append(b, id...), 0))
}

func ownerFrom(prefix uint32, last session.Seq) uint32 {
	var b [8]byte
	binary.BigEndian.PutUint64(b[:], uint64(last))
	return mixed(crc32.Update(prefix, castagnoli, b[:]))
}

// mixed is the last step of MurmurHash3. Without it a bit that is wrong at the end
// of a record would look like the same bit of its number.
func mixed(h uint32) uint32 {
	h ^= h >> 16
	h *= 0x85EBCA6B
	h ^= h >> 13
	h *= 0xC2B2AE35
	return h ^ h>>16
}

func appendRecord(dst []byte, id session.ID, r *session.Record) []byte {
	dst = append(dst, recordFormat, 0, 0, 0, 0)
	from := len(dst)
	dst = append(dst, byte(r.Kind), r.Version)
	dst = binary.AppendVarint(dst, r.Time)
	dst = binary.AppendUvarint(dst, uint64(r.Last-r.First))
	if r.Last != r.First {
		dst = binary.AppendUvarint(dst, uint64(r.Text))
		start := r.Text
		for _, end := range r.Ends {
			dst = binary.AppendUvarint(dst, uint64(end-start))
			start = end
		}
	}
	dst = append(dst, r.Data...)
	binary.LittleEndian.PutUint32(dst[from-4:], checksum(dst[from:])^owner(id, r.Last))
	return dst
}

// recordOwner is what the owner of a record must be, if it is whole; ok is false
// if it does not tell.
func recordOwner(v []byte) (sum uint32, ok bool) {
	if len(v) < 5 || v[0] != recordFormat {
		return 0, false
	}
	return binary.LittleEndian.Uint32(v[1:]) ^ checksum(v[5:]), true
}

// isRecord says whether v is the record stored under last of a session, whole.
func isRecord(id session.ID, last session.Seq, v []byte) bool {
	if sum, ok := recordOwner(v); ok {
		return sum == owner(id, last)
	}
	return len(v) >= 5 && v[0] == anyonesOwn && binary.LittleEndian.Uint32(v[1:]) == checksum(v[5:])
}

// decodeRecord reads the record stored under last of a session. Data is a copy.
func decodeRecord(id session.ID, last session.Seq, v []byte) (session.Record, error) {
	if !isRecord(id, last, v) {
		return session.Record{}, errDamaged
	}
	in := reader{b: v[5:]}
	r := session.Record{Last: last, Kind: session.Kind(in.byte()), Version: in.byte(), Time: in.varint()}
	more := in.uvarint()
	if in.bad || more >= uint64(last) {
		return session.Record{}, errDamaged
	}
	r.First = last - session.Seq(more)
	if more > 0 {
		if more >= uint64(len(in.b)) { // each end takes a byte
			return session.Record{}, errDamaged
		}
		text := in.uvarint()
		at := text
		r.Ends = make([]int, 0, more+1)
		for range more + 1 {
			n := in.uvarint()
			if at += n; at > uint64(len(v)) || n > uint64(len(v)) {
				return session.Record{}, errDamaged
			}
			r.Ends = append(r.Ends, int(at))
		}
		r.Text = int(text)
		if in.bad || text > at || at > uint64(len(in.b)) {
			return session.Record{}, errDamaged
		}
	}
	r.Data = append(make([]byte, 0, len(in.b)), in.b...)
	return r, nil
}

// Fields of a stored Meta: each is a number, a length and as many bytes. The
// numbers are persisted: never reuse one. Unknown ones are skipped.
const (
	metaAgent    = 1
	metaCwd      = 2
	metaDir      = 3 // once for each
	metaMCP      = 4
	metaTitle    = 5
	metaCreated  = 6 // varint: Unix nanoseconds
	metaUpdated  = 7
	metaParent   = 8
	metaForkedAt = 9 // uvarint
	metaTurns    = 10
	metaPinned   = 11 // uvarint 1
	metaImported = 12
)

// appendMeta encodes m without its ID, which stands beside it wherever it is kept.
func appendMeta(dst []byte, m *session.Meta) []byte {
	str := func(field byte, s string) {
		if s != "" {
			dst = append(dst, field)
			dst = appendBytes(dst, s)
		}
	}
	num := func(field byte, n uint64) {
		if n != 0 {
			var b [binary.MaxVarintLen64]byte
			dst = append(dst, field)
			dst = appendBytes(dst, b[:binary.PutUvarint(b[:], n)])
		}
	}
	date := func(field byte, t time.Time) {
		if !t.IsZero() {
			var b [binary.MaxVarintLen64]byte
			dst = append(dst, field)
			dst = appendBytes(dst, b[:binary.PutVarint(b[:], t.UnixNano())])
		}
	}
	str(metaAgent, m.Agent)
	str(metaCwd, m.Cwd)
	for _, dir := range m.Dirs {
		dst = append(dst, metaDir)
		dst = appendBytes(dst, dir)
	}
	str(metaMCP, string(m.MCPServers))
	str(metaTitle, m.Title)
	date(metaCreated, m.Created)
	date(metaUpdated, m.Updated)
	str(metaParent, string(m.Parent))
	num(metaForkedAt, uint64(m.ForkedAt))
	num(metaTurns, uint64(m.Turns))
	if m.Pinned {
		num(metaPinned, 1)
	}
	str(metaImported, string(m.Imported))
	return dst
}

func decodeMeta(id session.ID, b []byte) (session.Meta, error) {
	m := session.Meta{ID: id}
	in := reader{b: b}
	for len(in.b) > 0 {
		field, value := in.byte(), in.bytes()
		v := reader{b: value}
		switch field {
		case metaAgent:
			m.Agent = string(value)
		case metaCwd:
			m.Cwd = string(value)
		case metaDir:
			m.Dirs = append(m.Dirs, string(value))
		case metaMCP:
			m.MCPServers = append([]byte(nil), value...)
		case metaTitle:
			m.Title = string(value)
		case metaCreated:
			m.Created = time.Unix(0, v.varint()).UTC()
		case metaUpdated:
			m.Updated = time.Unix(0, v.varint()).UTC()
		case metaParent:
			m.Parent = session.ID(value)
		case metaForkedAt:
			m.ForkedAt = session.Seq(v.uvarint())
		case metaTurns:
			m.Turns = int(v.uvarint())
		case metaPinned:
			m.Pinned = v.uvarint() == 1
		case metaImported:
			m.Imported = session.ID(value)
		}
		if in.bad || v.bad {
			return session.Meta{}, errDamaged
		}
	}
	return m, nil
}

// ownMeta is a copy of m that shares nothing, in the form in which it comes
// back from disk.
func ownMeta(m session.Meta) *session.Meta {
	m.Dirs = append([]string(nil), m.Dirs...)
	m.MCPServers = append([]byte(nil), m.MCPServers...)
	m.Created, m.Updated = plainTime(m.Created), plainTime(m.Updated)
	return &m
}

func plainTime(t time.Time) time.Time {
	if t.IsZero() {
		return time.Time{}
	}
	return time.Unix(0, t.UnixNano()).UTC()
}
