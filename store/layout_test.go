package store

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"go/parser"
	"go/token"
	"os"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	bolt "go.etcd.io/bbolt"

	"github.com/hermesd/hermesd/daemon/session"
	"github.com/hermesd/hermesd/store/storetest"
)

// setFormat writes the number of a format into a database.
func setFormat(t *tree, format byte) error {
	return t.update(func(tx *bolt.Tx) error {
		return tx.Bucket(bucketStore).Put(keyFormat, []byte{format, 0, 0, 0})
	})
}

// packageComment is where the layouts are drawn.
func packageComment(t *testing.T) string {
	t.Helper()
	f, err := parser.ParseFile(token.NewFileSet(), "doc.go", nil, parser.ParseComments|parser.PackageClauseOnly)
	if err != nil {
		t.Fatal(err)
	}
	return f.Doc.Text()
}

// field is a line of a table in the package comment.
type field struct {
	offset, size int // size -1: to the end
	name         string
}

// drawnTable reads the table whose head ends in name.
func drawnTable(t *testing.T, name string) []field {
	t.Helper()
	var fields []field
	inside := false
	row := regexp.MustCompile(`^\s+(\d+)\s+(\d+)?\s+(\D.*)$`)
	for line := range strings.Lines(packageComment(t)) {
		line = strings.TrimRight(line, "\n")
		if strings.HasPrefix(strings.TrimSpace(line), "offset") {
			inside = strings.HasSuffix(line, " "+name)
			continue
		}
		if m := row.FindStringSubmatch(line); inside && m != nil {
			offset, _ := strconv.Atoi(m[1])
			size := -1
			if m[2] != "" {
				size, _ = strconv.Atoi(m[2])
			}
			fields = append(fields, field{offset, size, strings.TrimSpace(m[3])})
		} else {
			inside = false
		}
	}
	if len(fields) == 0 {
		t.Fatalf("no table of a %s is drawn", name)
	}
	at := 0
	for i, f := range fields {
		if f.offset != at || (f.size < 0 && i != len(fields)-1) {
			t.Fatalf("%s: %q is drawn at %d, what is before ends at %d", name, f.name, f.offset, at)
		}
		at += f.size
	}
	return fields
}

// checkTable compares bytes of a file with their drawing and returns the length
// of what is drawn.
func checkTable(t *testing.T, fields []field, b []byte, number uint64) int {
	t.Helper()
	end := 0
	crc := regexp.MustCompile(`^CRC32C of bytes (\d+) to (\d+)$`)
	for _, f := range fields {
		v := b[f.offset:]
		if f.size >= 0 {
			v = v[:f.size]
			end = f.offset + f.size
		}
		number32 := func() uint32 { return binary.LittleEndian.Uint32(v) }
		payload := func() []byte {
			return b[fields[len(fields)-1].offset:][:binary.LittleEndian.Uint32(b[4:])]
		}
		ok := false
		switch word, rest, _ := strings.Cut(f.name, " "); {
		case word == "magic":
			want, err := strconv.Unquote(rest)
			ok = err == nil && string(v) == want
		case word == "mark":
			ok = fmt.Sprintf("% X", v) == rest
		case word == "format":
			ok = strconv.Itoa(int(number32())) == rest
		case f.name == "number of the segment":
			ok = binary.LittleEndian.Uint64(v) == number
		case crc.MatchString(f.name):
			m := crc.FindStringSubmatch(f.name)
			from, _ := strconv.Atoi(m[1])
			to, _ := strconv.Atoi(m[2])
			ok = number32() == checksum(b[from:to])
		case f.name == "length of the payload":
			ok = int(number32()) <= len(b)
		case f.name == "CRC32C of the payload":
			ok = number32() == checksum(payload())
		case f.name == "payload":
			end = f.offset + len(payload())
			ok = true
		}
		if !ok {
			t.Errorf("%q is not what is in the file: % x", f.name, v[:min(len(v), 16)])
		}
	}
	return end
}

func TestTheJournalIsAsDrawn(t *testing.T) {
	s := open(t, t.TempDir(), still())
	appendTo(t, s, "s", storetest.Mixed(1, 40)...)
	appendTo(t, s, "t", storetest.Mixed(1, 3)...)
	number := s.writer.number
	crash(s)
	data, err := os.ReadFile(segmentName(s.journal, number))
	if err != nil {
		t.Fatal(err)
	}
	data = bytes.TrimRight(data, "\x00") // the space that was reserved
	pos := checkTable(t, drawnTable(t, "header"), data, number)
	frames := 0
	for table := drawnTable(t, "frame"); pos < len(data); frames++ {
		pos += checkTable(t, table, data[pos:], number)
	}
	if pos != len(data) || frames != 2 {
		t.Errorf("%d frames end at %d of %d", frames, pos, len(data))
	}
}

// drawnPayload decodes a payload by the lines that draw it and returns what it
// read of each thing, and what is left.
func drawnPayload(t *testing.T, lines map[string]string, name string, b []byte) (values []string, rest []byte) {
	t.Helper()
	in := reader{b: b}
	count := uint64(0)
	skip := false
	for _, thing := range strings.Split(lines[name], ", ") {
		word, what, _ := strings.Cut(thing, " ")
		if skip {
			skip = false
			continue
		}
		switch {
		case strings.HasPrefix(thing, "if 1 "):
			fallthrough
		case word == "text":
			values = append(values, string(in.bytes()))
		case what == "0 or 1":
			skip = in.byte() == 0
		case word == "byte":
			values = append(values, strconv.Itoa(int(in.byte())))
		case word == "uvarint":
			count = in.uvarint()
			values = append(values, strconv.FormatUint(count, 10))
		case word == "varint":
			values = append(values, strconv.FormatInt(in.varint(), 10))
		case word == "count":
			for range count {
				var more []string
				more, in.b = drawnPayload(t, lines, strings.Fields(what)[1], in.b)
				values = append(values, more...)
			}
		default:
			t.Fatalf("%q is drawn in a way this test does not know", thing)
		}
	}
	if in.bad {
		t.Fatalf("%s: the drawing does not fit", name)
	}
	return values, in.b
}

func TestPayloadsAreAsDrawn(t *testing.T) {
	lines := map[string]string{}
	for line := range strings.Lines(packageComment(t)) {
		if m := regexp.MustCompile(`^\t(events|event|deleted|closed)\s+(byte .*)\n$`).FindStringSubmatch(line); m != nil {
			lines[m[1]] = m[2]
		}
	}
	meta := &session.Meta{Title: "x"}
	events := []session.Event{{Seq: 7, Time: 1000, Kind: 2, Version: 1, Data: []byte("a")}, {Seq: 8, Time: 990, Kind: 5, Data: []byte("bc")}}
	for _, test := range []struct {
		name  string
		frame []byte
		want  []string
	}{
		{"events", appendEvents(nil, "id", meta, events), []string{"1", "id", string(appendMeta(nil, meta)), "7", "2", "1000", "2", "1", "0", "a", "5", "0", "-10", "bc"}},
		{"events", appendEvents(nil, "id", nil, nil), []string{"1", "id", "0", "0", "0"}},
		{"deleted", appendDeleted(nil, "id"), []string{"2", "id"}},
		{"closed", appendClosed(nil), []string{"3"}},
	} {
		got, rest := drawnPayload(t, lines, test.name, test.frame[frameHeader:])
		if !slices.Equal(got, test.want) || len(rest) > 0 {
			t.Errorf("%s: read %q and %d bytes more, want %q", test.name, got, len(rest), test.want)
		}
	}
}

// drawnTree reads the tree in the package comment as paths.
func drawnTree(t *testing.T) (paths []string) {
	t.Helper()
	_, text, ok := strings.Cut(packageComment(t), "# The tree in bbolt\n")
	if !ok {
		t.Fatal("no tree is drawn")
	}
	text, _, _ = strings.Cut(text, "\n# ")
	var path []string
	for line := range strings.Lines(text) {
		line = strings.TrimRight(strings.TrimPrefix(line, "\t"), "\n")
		name := strings.TrimLeft(line, "│├└─ ")
		if name == "" {
			continue
		}
		depth := (len([]rune(line)) - len([]rune(name))) / 4
		name, _, _ = strings.Cut(name, "  ")
		path = append(path[:depth], strings.TrimSpace(name))
		paths = append(paths, strings.Join(path, "/"))
	}
	return paths
}

func TestTheTreeIsAsDrawn(t *testing.T) {
	s := open(t, t.TempDir(), still())
	for _, id := range []session.ID{"s", "t"} {
		appendTo(t, s, id, storetest.Mixed(1, 30)...)
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	tr, err := openTree(dbName(s.dir), treeFormat)
	if err != nil {
		t.Fatal(err)
	}
	defer tr.close()
	var real []string
	add := func(path string) {
		if !slices.Contains(real, path) {
			real = append(real, path)
		}
	}
	lastSeq := func(k []byte) bool { return len(k) == 8 && k[0] == 0 }
	err = tr.view(func(tx *bolt.Tx) error {
		var walk func(path string, depth int, b *bolt.Bucket) error
		walk = func(path string, depth int, b *bolt.Bucket) error {
			return b.ForEach(func(k, v []byte) error {
				name := string(k)
				switch {
				case name == "s" || name == "t":
					name = "<session>"
				case lastSeq(k):
					name = "<last seq>"
					if sum, ok := recordOwner(v); !ok || sum != owner("s", session.Seq(k[7])) && sum != owner("t", session.Seq(k[7])) {
						t.Error("a record does not begin with format and sum")
					}
				}
				add(path + "/" + name)
				if v == nil {
					return walk(path+"/"+name, depth+1, b.Bucket(k))
				}
				return nil
			})
		}
		return tx.ForEach(func(name []byte, b *bolt.Bucket) error {
			add(string(name))
			return walk(string(name), 1, b)
		})
	})
	if err != nil {
		t.Fatal(err)
	}
	drawn := drawnTree(t)
	slices.Sort(real)
	slices.Sort(drawn)
	if !slices.Equal(real, drawn) {
		t.Errorf("in the file:\n%s\ndrawn:\n%s", strings.Join(real, "\n"), strings.Join(drawn, "\n"))
	}
}
