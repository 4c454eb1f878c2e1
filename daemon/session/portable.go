package session

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"time"
	"unicode/utf8"

	"github.com/hermesd/hermesd/transport/acp"
)

// A session travels as lines of JSON: a Header, its records in order, and a
// Footer by which a file that was cut off is told from a whole one.
//
//	{"hermesSession":1,"exported":…,"meta":{…}}
//	{"seq":1,"last":1,"time":…,"ms":…,"kind":"created","data":{…}}
//	{"seq":7,"last":9,"time":…,"ms":…,"kind":"update","version":1,"text":68,"ends":[71,75,80],"data":{…}}
//	{"seq":10,"last":10,"time":…,"ms":…,"kind":"agent_record","raw":"base64"}
//	{"end":10}
//
// Seqs are kept, and data byte for byte. Data that is no JSON, or would not be one
// line, is raw. A joined record says where in its data its events end; text and
// ends count bytes of data. time is for people, ms counts.

// PortableFormat is the number in Header.
const PortableFormat = 1

// Header is the first line of a session that travels.
type Header struct {
	Format   int       `json:"hermesSession"`
	Exported time.Time `json:"exported"`
	By       string    `json:"by,omitempty"` // version of the program
	Meta     Meta      `json:"meta"`
}

// Footer is the last line.
type Footer struct {
	End *Seq `json:"end"` // the last event
}

// line is a record as it travels.
type line struct {
	Seq     Seq             `json:"seq"`
	Last    Seq             `json:"last"`
	Time    string          `json:"time"`
	MS      *int64          `json:"ms"`
	Kind    string          `json:"kind"`
	Version uint8           `json:"version"`
	Text    int             `json:"text"`
	Ends    []int           `json:"ends"`
	Data    json.RawMessage `json:"data"`
	Raw     *string         `json:"raw"`
}

// AppendLine appends a record as one line, with its newline.
func AppendLine(dst []byte, r Record) []byte {
	at := time.UnixMilli(r.Time).UTC().Format("2006-01-02T15:04:05.000Z07:00")
	dst = fmt.Appendf(dst, `{"seq":%d,"last":%d,"time":"%s","ms":%d,"kind":"%s"`, r.First, r.Last, at, r.Time, r.Kind)
	if r.Version != 0 {
		dst = fmt.Appendf(dst, `,"version":%d`, r.Version)
	}
	if r.Ends != nil {
		dst = fmt.Appendf(dst, `,"text":%d,"ends":[`, r.Text)
		for i, end := range r.Ends {
			if i > 0 {
				dst = append(dst, ',')
			}
			dst = strconv.AppendInt(dst, int64(end), 10)
		}
		dst = append(dst, ']')
	}
	if oneJSONLine(r.Data) {
		dst = append(append(dst, `,"data":`...), r.Data...)
	} else {
		dst = append(dst, `,"raw":"`...)
		dst = append(base64.StdEncoding.AppendEncode(dst, r.Data), '"')
	}
	return append(dst, "}\n"...)
}

// oneJSONLine says whether data can stand in a line and come back as it was.
func oneJSONLine(data []byte) bool {
	return json.Valid(data) && utf8.Valid(data) && !bytes.ContainsAny(data, "\r\n") && len(bytes.TrimSpace(data)) == len(data)
}

// ParseLine reads what AppendLine wrote. What it gives is a possible record; that
// it fits those before it is for who puts them together.
func ParseLine(b []byte) (Record, error) {
	var l line
	if err := strictly(b, &l); err != nil {
		return Record{}, err
	}
	r := Record{First: l.Seq, Last: l.Last, Kind: parseKind(l.Kind), Version: l.Version}
	switch {
	case r.Kind == 0:
		return Record{}, fmt.Errorf("kind %.40q is not known", l.Kind)
	case l.MS == nil:
		return Record{}, errors.New("ms is missing")
	case r.First == 0 || r.Last < r.First || r.Last-r.First > 1<<24:
		return Record{}, fmt.Errorf("events %d to %d are no record", r.First, r.Last)
	case (l.Data == nil) == (l.Raw == nil):
		return Record{}, errors.New("there must be data or raw, and not both")
	case (r.Last > r.First) != (l.Ends != nil):
		return Record{}, errors.New("ends must be there if the record has several events, and only then")
	case r.Kind != KindUpdate && r.Last > r.First:
		return Record{}, errors.New("only message chunks are joined")
	}
	r.Time = *l.MS
	if r.Data = l.Data; l.Raw != nil {
		raw, err := base64.StdEncoding.DecodeString(*l.Raw)
		if err != nil {
			return Record{}, fmt.Errorf("raw: %w", err)
		}
		r.Data = raw
	}
	if l.Ends == nil {
		if l.Text != 0 {
			return Record{}, errors.New("text without ends")
		}
		return r, r.check()
	}
	r.Text, r.Ends = l.Text, l.Ends
	if uint64(len(r.Ends)) != uint64(r.Last-r.First)+1 {
		return Record{}, fmt.Errorf("%d ends for events %d to %d", len(r.Ends), r.First, r.Last)
	}
	at := r.Text
	for _, end := range r.Ends {
		if end < at || end > len(r.Data) {
			return Record{}, errors.New("ends do not lie in data, in order")
		}
		at = end
	}
	if at < 0 || r.Text < 0 {
		return Record{}, errors.New("text does not lie in data")
	}
	// They must be where the chunk's text is, and nowhere inside an escape.
	start, end, ok := acp.ChunkText(r.Data)
	if !ok || start != r.Text || end != at {
		return Record{}, errors.New("text and ends are not those of a message chunk")
	}
	from := r.Text
	var quoted []byte
	for _, end := range r.Ends {
		quoted = append(append(append(quoted[:0], '"'), r.Data[from:end]...), '"')
		if !json.Valid(quoted) {
			return Record{}, errors.New("ends divide a character")
		}
		from = end
	}
	return r, r.check()
}

// check looks at the data of a record from outside.
func (r Record) check() error {
	switch r.Kind {
	case KindAgentRecord:
		return nil
	case KindUpdate:
		if r.Version == 0 {
			return errors.New("an update has no version")
		}
	default:
		if r.Version != 0 {
			return errors.New("only updates have a version")
		}
	}
	if !json.Valid(r.Data) || len(r.Data) == 0 || bytes.TrimLeft(r.Data, " \t\r\n")[0] != '{' {
		return errors.New("data is no JSON object")
	}
	return nil
}

// ParseHeader reads the first line.
func ParseHeader(b []byte) (Header, error) {
	var h Header
	if err := json.Unmarshal(b, &h); err != nil {
		return h, err
	}
	switch {
	case h.Format == 0:
		return h, errors.New("this is no session: the first line has no hermesSession")
	case h.Format > PortableFormat:
		return h, fmt.Errorf("the session has format %d, this program knows %d: use a newer version of hermesd", h.Format, PortableFormat)
	case h.Meta.ID == "":
		return h, errors.New("meta has no id")
	}
	return h, nil
}

// ParseFooter reads the last line; ok is false if it is another one.
func ParseFooter(b []byte) (end Seq, ok bool) {
	var f Footer
	if len(b) > 100 || strictly(b, &f) != nil || f.End == nil {
		return 0, false
	}
	return *f.End, true
}

// strictly decodes an object of which every member is known.
func strictly(b []byte, v any) error {
	d := json.NewDecoder(bytes.NewReader(b))
	d.DisallowUnknownFields()
	if err := d.Decode(v); err != nil {
		return err
	}
	if d.More() || len(bytes.TrimSpace(b[d.InputOffset():])) > 0 {
		return errors.New("there is something behind the object")
	}
	return nil
}
