package store

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/hermesd/hermesd/daemon/session"
)

// What is drawn in the package comment.
const (
	segmentMagic  = "hermesj\n"
	segmentFormat = 1
	headerSize    = 24
	frameMark     = "\xF5\x68\x6A\xF5"
	frameHeader   = 16

	frameEvents  = 1
	frameDeleted = 2
	frameClosed  = 3

	segmentSuffix = ".journal"
	damagedSuffix = ".damaged"
	unusedSuffix  = ".unused"

	// maxFrame bounds how much one damaged byte can take with it. A single
	// event may be longer.
	maxFrame = 256 << 10
)

func segmentName(dir string, number uint64) string {
	return filepath.Join(dir, fmt.Sprintf("%016x%s", number, segmentSuffix))
}

// listSegments returns the numbers of the segments in dir, ascending.
func listSegments(dir string) ([]uint64, error) {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return nil, err
	}
	var numbers []uint64
	for _, e := range entries {
		name, ok := strings.CutSuffix(e.Name(), segmentSuffix)
		if !ok || len(name) != 16 {
			continue
		}
		if n, err := strconv.ParseUint(name, 16, 64); err == nil {
			numbers = append(numbers, n)
		}
	}
	slices.Sort(numbers)
	return numbers, nil
}

func appendHeader(dst []byte, number uint64) []byte {
	start := len(dst)
	dst = append(dst, segmentMagic...)
	dst = binary.LittleEndian.AppendUint32(dst, segmentFormat)
	dst = binary.LittleEndian.AppendUint64(dst, number)
	return binary.LittleEndian.AppendUint32(dst, checksum(dst[start:]))
}

// readHeader returns the format of a segment; ok is false if b does not begin
// with a whole header.
func readHeader(b []byte) (format uint32, ok bool) {
	if len(b) < headerSize || string(b[:8]) != segmentMagic || binary.LittleEndian.Uint32(b[20:]) != checksum(b[:20]) {
		return 0, false
	}
	return binary.LittleEndian.Uint32(b[8:]), true
}

// beginFrame reserves a frame's header; endFrame fills it in.
func beginFrame(dst []byte) ([]byte, int) {
	return append(dst, frameMark+"............"...), len(dst)
}

func endFrame(dst []byte, start int) {
	payload := dst[start+frameHeader:]
	binary.LittleEndian.PutUint32(dst[start+4:], uint32(len(payload)))
	binary.LittleEndian.PutUint32(dst[start+8:], checksum(payload))
	binary.LittleEndian.PutUint32(dst[start+12:], checksum(dst[start:start+12]))
}

// appendEvents encodes one log's events and meta as frames.
func appendEvents(dst []byte, id session.ID, meta *session.Meta, events []session.Event) []byte {
	for {
		n, size := 0, 0
		for n < len(events) && (n == 0 || size+len(events[n].Data) <= maxFrame) {
			size += len(events[n].Data)
			n++
		}
		var start int
		dst, start = beginFrame(dst)
		dst = append(dst, frameEvents)
		dst = appendBytes(dst, string(id))
		if meta == nil {
			dst = append(dst, 0)
		} else {
			dst = append(dst, 1)
			dst = appendBytes(dst, appendMeta(nil, meta))
			meta = nil
		}
		var first session.Seq
		var now int64
		if n > 0 {
			first, now = events[0].Seq, events[0].Time
		}
		dst = binary.AppendUvarint(dst, uint64(first))
		dst = binary.AppendUvarint(dst, uint64(n))
		dst = binary.AppendVarint(dst, now)
		for i := range events[:n] {
			e := &events[i]
			dst = append(dst, byte(e.Kind), e.Version)
			dst = binary.AppendVarint(dst, e.Time-now)
			now = e.Time
			dst = appendBytes(dst, e.Data)
		}
		endFrame(dst, start)
		if events = events[n:]; len(events) == 0 {
			return dst
		}
	}
}

func appendDeleted(dst []byte, id session.ID) []byte {
	dst, start := beginFrame(dst)
	dst = append(dst, frameDeleted)
	dst = appendBytes(dst, string(id))
	endFrame(dst, start)
	return dst
}

func appendClosed(dst []byte) []byte {
	dst, start := beginFrame(dst)
	dst = append(dst, frameClosed)
	endFrame(dst, start)
	return dst
}

// frame is a frame's payload, decoded. Data of the events shares the bytes it
// was read from.
type frame struct {
	kind   byte
	id     session.ID
	meta   *session.Meta
	events []session.Event
}

func decodeFrame(payload []byte) (frame, error) {
	in := reader{b: payload}
	f := frame{kind: in.byte()}
	switch f.kind {
	case frameEvents:
		f.id = session.ID(in.bytes())
		if in.byte() == 1 {
			m, err := decodeMeta(f.id, in.bytes())
			if err != nil {
				return frame{}, err
			}
			f.meta = &m
		}
		first, count, now := in.uvarint(), in.uvarint(), in.varint()
		if count > uint64(len(in.b))/4 || first+count < first || (count > 0 && first == 0) { // an event takes 4 bytes at least
			return frame{}, errDamaged
		}
		f.events = make([]session.Event, 0, count)
		for i := range count {
			e := session.Event{Seq: session.Seq(first + i), Kind: session.Kind(in.byte()), Version: in.byte()}
			now += in.varint()
			e.Time = now
			e.Data = in.bytes()
			if in.bad {
				return frame{}, errDamaged
			}
			f.events = append(f.events, e)
		}
	case frameDeleted:
		f.id = session.ID(in.bytes())
	case frameClosed:
	default:
		return frame{}, errDamaged
	}
	if in.bad || len(in.b) > 0 || (f.kind != frameClosed && f.id == "") {
		return frame{}, errDamaged
	}
	return f, nil
}

// checkFrame looks at the frame at the front of b. size is its length with its
// header. cut says that it goes on behind the end of b.
func checkFrame(b []byte) (size int, cut, ok bool) {
	if len(b) < frameHeader {
		return 0, len(b) > 0, false
	}
	if string(b[:4]) != frameMark || binary.LittleEndian.Uint32(b[12:]) != checksum(b[:12]) {
		return 0, false, false
	}
	length := uint64(binary.LittleEndian.Uint32(b[4:]))
	if length > uint64(len(b)-frameHeader) {
		return 0, true, false
	}
	size = frameHeader + int(length)
	return size, false, binary.LittleEndian.Uint32(b[8:]) == checksum(b[frameHeader:size])
}

// cutByZeros says whether the frame at the front of b was only begun: it goes on
// behind the bytes that are filled, in space that was reserved and never
// written.
func cutByZeros(b []byte, filled int) bool {
	if filled < frameHeader {
		mark := min(filled, len(frameMark))
		return string(b[:mark]) == frameMark[:mark]
	}
	if string(b[:4]) != frameMark || binary.LittleEndian.Uint32(b[12:]) != checksum(b[:12]) {
		return false
	}
	return uint64(frameHeader)+uint64(binary.LittleEndian.Uint32(b[4:])) > uint64(filled)
}

// reading is what readSegment found besides frames.
type reading struct {
	end     int  // where the last good frame ends
	torn    bool // a frame is cut off by the end of the file, or of what was written of it
	damaged int  // bytes that are neither frames nor a torn tail
	tail    bool // nothing good follows the damage: without a sync a power cut leaves that too
	closed  bool // the last frame says that the store was closed well
}

// readSegment calls each for every frame of a segment, in order. Behind damage
// it goes on with the next frame that is whole; each sees that by the gap it
// may leave.
func readSegment(b []byte, each func(frame)) reading {
	var r reading
	pos := headerSize
	if _, ok := readHeader(b); !ok {
		if len(b) < headerSize {
			r.torn = true // it was being made
			return r
		}
		pos = 0
	}
	r.end = pos
	filled := len(bytes.TrimRight(b, "\x00")) // behind it is reserved space
	for pos < len(b) {
		size, cut, ok := checkFrame(b[pos:])
		if ok {
			f, err := decodeFrame(b[pos+frameHeader : pos+size])
			if ok = err == nil; ok {
				each(f)
				r.closed = f.kind == frameClosed
				pos += size
				r.end = pos
				continue
			}
		}
		if pos >= filled {
			return r
		}
		next := nextFrame(b, pos+1)
		if next < 0 {
			if cut || cutByZeros(b[pos:], filled-pos) {
				r.torn = true
			} else {
				r.damaged += len(b) - pos
				r.tail = true
			}
			r.closed = false
			return r
		}
		r.damaged += next - pos
		pos = next
	}
	return r
}

// nextFrame finds the next whole frame at or behind pos, -1 if there is none.
func nextFrame(b []byte, pos int) int {
	for {
		i := bytes.Index(b[pos:], []byte(frameMark))
		if i < 0 {
			return -1
		}
		pos += i
		if _, _, ok := checkFrame(b[pos:]); ok {
			return pos
		}
		pos++
	}
}
