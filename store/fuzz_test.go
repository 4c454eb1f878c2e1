package store

import (
	"bytes"
	"encoding/binary"
	"slices"
	"testing"

	"github.com/hermesd/hermesd/daemon/session"
	"github.com/hermesd/hermesd/store/storetest"
)

func FuzzRecord(f *testing.F) {
	for _, r := range session.JoinEvents(nil, storetest.Mixed(1, 40)) {
		f.Add(uint64(r.Last), appendRecord(nil, "s", &r))
	}
	f.Add(uint64(3), []byte{})
	f.Fuzz(func(t *testing.T, last uint64, b []byte) {
		b = slices.Clone(b)
		if len(b) > 5 { // damage with a right sum is what the decoder must survive
			b[0] = recordFormat
			binary.LittleEndian.PutUint32(b[1:], checksum(b[5:])^owner("s", session.Seq(last)))
		}
		r, err := decodeRecord("s", session.Seq(last), b)
		if err != nil {
			return
		}
		if r.First == 0 || r.First > r.Last || (r.Ends == nil) != (r.First == r.Last) {
			t.Fatalf("impossible record %+v", r)
		}
		for seq := r.First; seq < r.First+20 && seq <= r.Last; seq++ {
			if cut := r.From(seq); cut.First != seq || cut.Last != r.Last {
				t.Fatalf("cut to %d: %+v", seq, cut)
			}
		}
		again, err := decodeRecord("s", r.Last, appendRecord(nil, "s", &r))
		if err != nil || again.First != r.First || !bytes.Equal(again.Data, r.Data) {
			t.Fatalf("%+v became %+v, %v", r, again, err)
		}
	})
}

func FuzzMeta(f *testing.F) {
	m := session.Meta{Agent: "a", Cwd: "/", Dirs: []string{"x", ""}, MCPServers: []byte("[]"), Title: "t", Parent: "p", ForkedAt: 4, Turns: 2}
	f.Add(appendMeta(nil, &m))
	f.Fuzz(func(t *testing.T, b []byte) {
		m, err := decodeMeta("id", b)
		if err != nil {
			return
		}
		code := appendMeta(nil, &m)
		again, err := decodeMeta("id", code)
		if err != nil || !bytes.Equal(appendMeta(nil, &again), code) {
			t.Fatalf("%+v became %+v, %v", m, again, err)
		}
	})
}

func FuzzSegment(f *testing.F) {
	seg := appendHeader(nil, 1)
	seg = appendEvents(seg, "s", &session.Meta{Title: "t"}, storetest.Mixed(1, 2))
	seg = appendEvents(seg, "s", nil, storetest.Mixed(3, 2))
	seg = appendDeleted(seg, "x")
	seg = appendClosed(seg)
	f.Add(seg, 0, byte(0), true)
	f.Add(seg, 40, byte(1), false)
	f.Add(seg[:100], 90, byte(8), true)
	f.Add([]byte{}, 0, byte(0), false)
	f.Fuzz(func(t *testing.T, b []byte, at int, flip byte, repair bool) {
		b = slices.Clone(b)
		if at >= 0 && at < len(b) {
			b[at] ^= flip
		}
		if repair { // so that the payload's decoder sees damage, too
			for pos := headerSize; pos+frameHeader <= len(b); {
				size := int(uint32(b[pos+4])|uint32(b[pos+5])<<8) + frameHeader
				if size > len(b)-pos {
					break
				}
				copy(b[pos:], frameMark)
				b[pos+6], b[pos+7] = 0, 0
				endFrame(b[:pos+size], pos)
				pos += size
			}
		}
		frames := 0
		r := readSegment(b, func(f frame) {
			frames++
			if f.kind == frameEvents && f.id == "" || f.kind == 0 {
				t.Fatalf("impossible frame %+v", f)
			}
			for i, e := range f.events {
				if e.Seq == 0 || e.Seq != f.events[0].Seq+session.Seq(i) {
					t.Fatalf("event %d is number %d", i, e.Seq)
				}
			}
		})
		if r.end > len(b) || r.damaged > len(b) || (frames == 0 && r.closed) {
			t.Fatalf("%d frames, %+v of %d bytes", frames, r, len(b))
		}
	})
}
