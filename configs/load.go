package configs

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"reflect"
	"slices"
	"strconv"
	"strings"

	"github.com/BurntSushi/toml"
)

// Load reads the file over the defaults. A file that is not there is no error:
// the defaults hold. Any other error names the file and, where there is one,
// line and key.
func Load(path string) (Config, error) {
	data, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		return Default(), nil
	}
	if err != nil {
		return Config{}, fmt.Errorf("reading the configuration: %w", err)
	}
	return Parse(path, data)
}

// Parse reads the text of a file over the defaults. name stands in errors.
func Parse(name string, data []byte) (Config, error) {
	f := file{name: name, data: string(data)}
	// Decoded apart from the defaults: a slice or map decoded into one that has
	// contents would mix with it.
	var read Config
	c := Default()
	read.copyScalars(c)
	md, err := toml.Decode(f.data, &read)
	if err != nil {
		return Config{}, f.broken(err)
	}
	if !md.IsDefined("listen") {
		read.Listen = c.Listen
	}
	if read.Agents == nil {
		read.Agents = map[string]Agent{}
	}
	for name, s := range read.MCP.Servers {
		read.MCP.Servers[name] = s.withDefaults()
	}
	for name, p := range read.Providers {
		read.Providers[name] = p.withDefaults()
	}
	for name, a := range read.Agents {
		read.Agents[name] = a.withDefaults(func(key string) bool { return md.IsDefined("agents", name, key) })
	}
	if _, ok := read.Agents["hermes"]; !ok {
		read.Agents["hermes"] = nativeAgent()
	}
	if errs := append(f.unknown(md), f.invalid(md, read)...); len(errs) > 0 {
		slices.SortStableFunc(errs, func(a, b *Error) int { return a.Line - b.Line })
		joined := make([]error, len(errs))
		for i, e := range errs {
			joined[i] = e
		}
		return Config{}, errors.Join(joined...)
	}
	return read, nil
}

// Error is one thing wrong with a configuration file.
type Error struct {
	File string
	Line int    // 0 if the file has no line for it
	Key  string // as in "agents.claude.warm"; "" if no key is concerned
	Text string // what is wrong, and what would be right
}

// Error writes "file:line: key: text", as editors and compilers expect it.
func (e *Error) Error() string {
	var b strings.Builder
	b.WriteString(e.File)
	if e.Line > 0 {
		b.WriteString(":" + strconv.Itoa(e.Line))
	}
	if e.Key != "" {
		b.WriteString(": " + e.Key)
	}
	return b.String() + ": " + e.Text
}

// copyScalars takes over everything of d that decoding can overwrite key by key.
func (c *Config) copyScalars(d Config) {
	*c = d
	c.Agents, c.Listen = nil, nil
}

// withDefaults fills in what the agent's table leaves out.
func (a Agent) withDefaults(given func(key string) bool) Agent {
	d := nativeAgent()
	if a.Type == External || a.Type == "" && len(a.Command) > 0 {
		d = externalAgent()
	}
	for key, set := range map[string]func(){
		"type":              func() { a.Type = d.Type },
		"provider":          func() { a.Provider = d.Provider },
		"approval_mode":     func() { a.ApprovalMode = d.ApprovalMode },
		"max_turn_requests": func() { a.MaxTurnRequests = d.MaxTurnRequests },
		"warm":              func() { a.Warm = d.Warm },
		"hold":              func() { a.Hold = d.Hold },
	} {
		if !given(key) {
			set()
		}
	}
	return a
}

// file is what errors point into.
type file struct {
	name, data string
}

func (f file) errorf(key toml.Key, format string, args ...any) *Error {
	return &Error{File: f.name, Line: f.line(key), Key: key.String(), Text: fmt.Sprintf(format, args...)}
}

// broken turns an error of the TOML library into one of ours.
func (f file) broken(err error) error {
	var p toml.ParseError
	if errors.As(err, &p) {
		return &Error{File: f.name, Line: p.Position.Line, Key: p.LastKey, Text: p.Message}
	}
	// A value of another type than the key's: the library says the place only
	// in its text: `toml: line 3 (last key "x"): incompatible types: …`.
	text := strings.TrimPrefix(err.Error(), "toml: ")
	e := &Error{File: f.name, Text: text}
	var line int
	var key string
	if n, _ := fmt.Sscanf(text, "line %d (last key %q):", &line, &key); n == 2 {
		_, rest, _ := strings.Cut(text, "): ")
		e.Line, e.Key, e.Text = line, key, rest
	}
	if have, want, ok := strings.Cut(strings.TrimPrefix(e.Text, "incompatible types: TOML value has type "), "; destination has type "); ok {
		e.Text = fmt.Sprintf("has a value of type %s, but must be of type %s", strings.Replace(have, "int64", "integer", 1), want)
	}
	return e
}

// unknown reports the keys that no field of Config takes. A table that is
// unknown is reported once, not again for each key in it.
func (f file) unknown(md toml.MetaData) []*Error {
	var errs []*Error
	var table toml.Key
	for _, key := range md.Undecoded() {
		if table != nil && len(key) > len(table) && slices.Equal(key[:len(table)], table) {
			continue
		}
		if table = key; len(errs) == maxErrors {
			break
		}
		known := keysOf(reflect.TypeFor[Config](), key[:len(key)-1])
		errs = append(errs, f.errorf(key, "unknown key; known here: %s", strings.Join(known, ", ")))
	}
	return errs
}

// keysOf lists the keys of the table at path, in the order of the struct.
func keysOf(t reflect.Type, path toml.Key) []string {
	for {
		for t.Kind() == reflect.Slice {
			t = t.Elem()
		}
		if len(path) == 0 {
			break
		}
		if t.Kind() == reflect.Map {
			t, path = t.Elem(), path[1:]
			continue
		}
		i := slices.IndexFunc(reflect.VisibleFields(t), func(sf reflect.StructField) bool {
			return strings.EqualFold(sf.Tag.Get("toml"), path[0])
		})
		if i < 0 {
			return nil
		}
		t, path = t.Field(i).Type, path[1:]
	}
	var keys []string
	if t.Kind() == reflect.Struct {
		for _, sf := range reflect.VisibleFields(t) {
			keys = append(keys, sf.Tag.Get("toml"))
		}
	}
	return keys
}

// line finds the line of a key, 0 if it cannot. The library knows it, but
// tells only in errors; so the file is decoded once more into a value that
// fails at exactly this key. No key of ours is deeper than maxDepth; of a deeper
// one the line of its table will do.
func (f file) line(key toml.Key) int {
	for key = key[:min(len(key), maxDepth)]; len(key) > 0; key = key[:len(key)-1] {
		target := reflect.New(failingAt(toml.Key{}, key))
		_, err := toml.Decode(f.data, target.Interface())
		var p toml.ParseError
		if errors.As(err, &p) && p.Position.Line > 0 {
			return p.Position.Line
		}
		// Perhaps the key stands inside an array of tables.
		for depth := 1; depth < len(key); depth++ {
			target := reflect.New(failingAt(key[:depth], key))
			_, err := toml.Decode(f.data, target.Interface())
			if errors.As(err, &p) && p.Position.Line > 0 {
				return p.Position.Line
			}
		}
	}
	return 0
}

// maxDepth bounds the keys that are looked for, maxErrors those reported at
// once: the file may be anything.
const (
	maxDepth  = 5
	maxErrors = 20
)

// failingAt makes the type of a document that has only this key, whose
// decoding fails. The value at the key array is a list of tables.
func failingAt(array, key toml.Key) reflect.Type {
	t := reflect.TypeFor[failing]()
	for i := len(key) - 1; i >= 0; i-- {
		t = reflect.StructOf([]reflect.StructField{{
			Name: "F", Type: t, Tag: reflect.StructTag("toml:" + strconv.Quote(key[i])),
		}})
		if i > 0 && i == len(array) {
			t = reflect.SliceOf(t)
		}
	}
	return t
}

// failing is a value that no text decodes into.
type failing struct{}

func (*failing) UnmarshalTOML(any) error { return errors.New("found") }
