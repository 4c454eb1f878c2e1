package daemontest

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"unicode/utf8"

	"github.com/santhosh-tekuri/jsonschema/v6"
)

// SchemaDirEnv names the folder with the official schemas, v1/schema.json and
// v1/schema.unstable.json in it. scripts/test sets it.
const SchemaDirEnv = "ACP_SCHEMA_DIR"

// SchemaDir is the folder with the official schemas: that of the environment,
// or what `npm ci` in scripts/interop has brought. The error says how to get
// them.
func SchemaDir() (string, error) {
	if dir := os.Getenv(SchemaDirEnv); dir != "" {
		return dir, nil
	}
	root, err := ModuleRoot()
	if err != nil {
		return "", err
	}
	dir := filepath.Join(root, "scripts", "interop", "node_modules", "@agentclientprotocol", "sdk", "schema")
	if _, err := os.Stat(filepath.Join(dir, "v1", "schema.json")); err != nil {
		return "", fmt.Errorf("the official ACP schemas are not here: run `npm ci` in scripts/interop, or set %s", SchemaDirEnv)
	}
	return dir, nil
}

// Schemas are the official schemas of one version of the protocol, compiled.
// They may be used by any number of goroutines.
type Schemas struct {
	stable, unstable *schemaFile
}

// LoadSchemas reads the schemas of ACP v1 below dir.
func LoadSchemas(dir string) (*Schemas, error) {
	stable, err := readSchema(filepath.Join(dir, "v1", "schema.json"))
	if err != nil {
		return nil, err
	}
	unstable, err := readSchema(filepath.Join(dir, "v1", "schema.unstable.json"))
	if err != nil {
		return nil, err
	}
	return &Schemas{stable: stable, unstable: unstable}, nil
}

// Tap is a new watcher of one connection between an editor and an agent.
func (s *Schemas) Tap() *Tap {
	return &Tap{schemas: s, asked: make(map[string][]string)}
}

// Tap checks what an agent says on one connection. Its methods may be called
// from several goroutines, but a request must be given to Sent before its
// answer is given to Received.
type Tap struct {
	schemas *Schemas

	mu    sync.Mutex
	asked map[string][]string // methods of requests in flight by id, oldest first
}

// Sent takes note of a line that goes to the agent. It accepts anything.
func (t *Tap) Sent(line []byte) {
	var frame struct {
		ID     json.RawMessage `json:"id"`
		Method string          `json:"method"`
	}
	line = bytes.TrimPrefix(bytes.TrimSpace(line), []byte("\ufeff"))
	if json.Unmarshal(line, &frame) != nil || frame.ID == nil || frame.Method == "" {
		return
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	t.asked[string(frame.ID)] = append(t.asked[string(frame.ID)], frame.Method)
}

// Received checks one line of the agent, without its line end. The error names
// everything that is wrong with it.
func (t *Tap) Received(line []byte) error {
	if !utf8.Valid(line) {
		return fmt.Errorf("not UTF-8: %q", clip(line))
	}
	if bytes.ContainsAny(line, "\r\n") {
		return fmt.Errorf("a line break inside of a line: %q", clip(line))
	}
	var members map[string]json.RawMessage
	if err := json.Unmarshal(line, &members); err != nil {
		return fmt.Errorf("not a JSON object (%v): %q", err, clip(line))
	}
	var faults []error
	fault := func(format string, args ...any) { faults = append(faults, fmt.Errorf(format, args...)) }
	if string(members["jsonrpc"]) != `"2.0"` {
		fault("jsonrpc is %s", members["jsonrpc"])
	}
	var method string
	_ = json.Unmarshal(members["method"], &method)
	id, hasID := members["id"]
	known := map[string]bool{"jsonrpc": true, "id": true}
	switch {
	case method != "":
		known["method"], known["params"] = true, true
		if hasID && string(id) == "null" {
			fault("a request with id null")
		}
		kind := "Notification"
		if hasID {
			kind = "Request"
		}
		faults = append(faults, t.schemas.check(kind, "client", method, members["params"])...)
	case !hasID:
		fault("neither a request nor a response")
	default:
		known["result"], known["error"] = true, true
		faults = append(faults, t.response(id, members)...)
	}
	for name := range members {
		if !known[name] {
			fault("unknown member %q of the message", name)
		}
	}
	if len(faults) == 0 {
		return nil
	}
	return fmt.Errorf("%w\n  in %s", errors.Join(faults...), clip(line))
}

func (t *Tap) response(id json.RawMessage, members map[string]json.RawMessage) (faults []error) {
	result, hasResult := members["result"]
	fail, hasError := members["error"]
	if hasResult == hasError {
		return []error{errors.New("a response needs one of result and error")}
	}
	if hasError && string(id) == "null" {
		// It may answer a request whose id is null, or something that had none.
		return t.schemas.fault(fail)
	}
	t.mu.Lock()
	methods := t.asked[string(id)]
	method := ""
	if len(methods) > 0 {
		method = methods[0]
		if len(methods) == 1 {
			delete(t.asked, string(id))
		} else {
			t.asked[string(id)] = methods[1:]
		}
	}
	t.mu.Unlock()
	if hasError {
		if method == "" {
			faults = append(faults, fmt.Errorf("an error for the id %s, which is not open", id))
		}
		return append(faults, t.schemas.fault(fail)...)
	}
	if method == "" {
		return []error{fmt.Errorf("an answer to the id %s, which is not open", id)}
	}
	return t.schemas.check("Response", "agent", method, result)
}

// fault checks the error member of a response.
func (s *Schemas) fault(body json.RawMessage) []error {
	faults := s.stable.check("Error", body)
	var e struct {
		Message string `json:"message"`
	}
	_ = json.Unmarshal(body, &e)
	if e.Message == "" || strings.ContainsAny(e.Message, "\r\n") {
		faults = append(faults, fmt.Errorf("error message %q is empty or has several lines", e.Message))
	}
	return faults
}

// check validates the params or the result of a method: against the stable
// schema if that knows the method, else against the unstable one. Members that
// neither knows are faults too: what is ours belongs under `_meta`.
func (s *Schemas) check(kind, side, method string, body json.RawMessage) []error {
	if strings.HasPrefix(method, "_") {
		return nil // an extension; the protocol says nothing about it
	}
	for _, file := range []*schemaFile{s.stable, s.unstable} {
		def, ok := file.methods[kind+" "+side+" "+method]
		if !ok {
			def, ok = file.methods[kind+" protocol "+method]
		}
		if !ok {
			continue
		}
		if body == nil {
			body = json.RawMessage("null")
		}
		faults := file.check(def, body)
		if len(faults) == 0 {
			faults = s.unstable.strangers(def, body)
		}
		return faults
	}
	return []error{fmt.Errorf("%s %q is not in the schema", strings.ToLower(kind), method)}
}

// schemaFile is one schema.json: its text, to walk in, and its compiled parts.
type schemaFile struct {
	root    any
	methods map[string]string // "Request client fs/read_text_file" → name of the definition

	mu       sync.Mutex
	compiler *jsonschema.Compiler
	parts    map[string]*jsonschema.Schema // by JSON pointer
}

const schemaURL = "file:///acp/schema.json"

func readSchema(path string) (*schemaFile, error) {
	data, err := os.ReadFile(path)
	if err != nil {
		return nil, fmt.Errorf("reading the official schema: %w", err)
	}
	root, err := jsonschema.UnmarshalJSON(bytes.NewReader(data))
	if err != nil {
		return nil, fmt.Errorf("reading %s: %w", path, err)
	}
	f := &schemaFile{
		root:     root,
		methods:  make(map[string]string),
		compiler: jsonschema.NewCompiler(),
		parts:    make(map[string]*jsonschema.Schema),
	}
	if err := f.compiler.AddResource(schemaURL, root); err != nil {
		return nil, fmt.Errorf("reading %s: %w", path, err)
	}
	defs, _ := f.at("/$defs").(map[string]any)
	for name, def := range defs {
		def, _ := def.(map[string]any)
		method, _ := def["x-method"].(string)
		side, _ := def["x-side"].(string)
		for _, kind := range []string{"Request", "Response", "Notification"} {
			if method != "" && strings.HasSuffix(name, kind) {
				f.methods[kind+" "+side+" "+method] = name
			}
		}
	}
	if len(f.methods) == 0 {
		return nil, fmt.Errorf("%s defines no methods", path)
	}
	return f, nil
}

// part compiles what stands at a JSON pointer, once.
func (f *schemaFile) part(pointer string) (*jsonschema.Schema, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if s := f.parts[pointer]; s != nil {
		return s, nil
	}
	s, err := f.compiler.Compile(schemaURL + "#" + strings.ReplaceAll(pointer, "%", "%25"))
	if err != nil {
		return nil, err
	}
	f.parts[pointer] = s
	return s, nil
}

func (f *schemaFile) check(def string, body json.RawMessage) []error {
	s, err := f.part("/$defs/" + def)
	if err != nil {
		return []error{err}
	}
	value, err := jsonschema.UnmarshalJSON(bytes.NewReader(body))
	if err != nil {
		return []error{err}
	}
	if err := s.Validate(value); err != nil {
		return []error{fmt.Errorf("does not fit %s: %s", def, causes(err))}
	}
	return nil
}

// causes is what is really wrong: the leaves of the validator's tree.
func causes(err error) string {
	var v *jsonschema.ValidationError
	if !errors.As(err, &v) {
		return err.Error()
	}
	var leaves []string
	var walk func(*jsonschema.ValidationError)
	walk = func(v *jsonschema.ValidationError) {
		if len(v.Causes) == 0 {
			text := v.Error()
			if _, after, ok := strings.Cut(text, "\n- "); ok {
				text = after
			}
			if !slices.Contains(leaves, text) {
				leaves = append(leaves, text)
			}
		}
		for _, c := range v.Causes {
			walk(c)
		}
	}
	walk(v)
	if len(leaves) > 12 {
		leaves = append(leaves[:12], "…")
	}
	return strings.Join(leaves, "; ")
}

// strangers names the members of specified types that no part of the schema
// knows.
func (f *schemaFile) strangers(def string, body json.RawMessage) []error {
	value, err := jsonschema.UnmarshalJSON(bytes.NewReader(body))
	if err != nil {
		return []error{err}
	}
	var faults []error
	for _, name := range f.unknown("/$defs/"+def, value, "$") {
		faults = append(faults, fmt.Errorf("%s is not in the schema of %s; members of ours belong under _meta", name, def))
	}
	return faults
}

func (f *schemaFile) unknown(pointer string, value any, at string) (names []string) {
	places := f.applicable(pointer, value)
	switch value := value.(type) {
	case map[string]any:
		known := make(map[string][]string) // member → pointers to what is said of it
		for _, p := range places {
			node, _ := f.at(p).(map[string]any)
			if more, ok := node["additionalProperties"]; ok && more != false {
				return nil // a free map
			}
			props, _ := node["properties"].(map[string]any)
			for name := range props {
				known[name] = append(known[name], p+"/properties/"+escape(name))
			}
		}
		if len(known) == 0 {
			return nil
		}
		for name, item := range value {
			switch {
			case known[name] == nil:
				names = append(names, at+"."+name)
			case name != "_meta":
				names = append(names, f.fewest(known[name], item, at+"."+name)...)
			}
		}
	case []any:
		var items []string
		for _, p := range places {
			if node, _ := f.at(p).(map[string]any); node["items"] != nil {
				items = append(items, p+"/items")
			}
		}
		if len(items) > 0 {
			for i, item := range value {
				names = append(names, f.fewest(items, item, fmt.Sprintf("%s[%d]", at, i))...)
			}
		}
	}
	return names
}

// fewest is the most generous reading among several schemas for one value.
func (f *schemaFile) fewest(pointers []string, value any, at string) []string {
	var best []string
	for i, p := range pointers {
		if names := f.unknown(p, value, at); i == 0 || len(names) < len(best) {
			best = names
		}
	}
	return best
}

// applicable lists every plain schema object that speaks about this value:
// references and alternatives followed.
func (f *schemaFile) applicable(pointer string, value any) []string {
	node, ok := f.at(pointer).(map[string]any)
	if !ok {
		return nil
	}
	found := []string{pointer}
	if ref, ok := node["$ref"].(string); ok {
		found = append(found, f.applicable(strings.TrimPrefix(ref, "#"), value)...)
	}
	if all, ok := node["allOf"].([]any); ok {
		for i := range all {
			found = append(found, f.applicable(fmt.Sprintf("%s/allOf/%d", pointer, i), value)...)
		}
	}
	for _, word := range []string{"anyOf", "oneOf"} {
		branches, _ := node[word].([]any)
		for i := range branches {
			branch := fmt.Sprintf("%s/%s/%d", pointer, word, i)
			if s, err := f.part(branch); err == nil && s.Validate(value) == nil {
				found = append(found, f.applicable(branch, value)...)
			}
		}
	}
	return found
}

// at is what stands at a JSON pointer, nil if nothing does.
func (f *schemaFile) at(pointer string) any {
	node := f.root
	for _, word := range strings.Split(pointer, "/")[1:] {
		word = strings.ReplaceAll(strings.ReplaceAll(word, "~1", "/"), "~0", "~")
		switch here := node.(type) {
		case map[string]any:
			node = here[word]
		case []any:
			i, err := strconv.Atoi(word)
			if err != nil || i < 0 || i >= len(here) {
				return nil
			}
			node = here[i]
		default:
			return nil
		}
	}
	return node
}

func escape(word string) string {
	return strings.ReplaceAll(strings.ReplaceAll(word, "~", "~0"), "/", "~1")
}

func clip(line []byte) []byte {
	if len(line) <= 600 {
		return line
	}
	return append(slices.Clip(line[:600]), "…"...)
}
