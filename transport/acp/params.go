package acp

import (
	"encoding/json"
	"fmt"
	"runtime"
	"strconv"
	"strings"
	"unicode/utf8"
)

// ParamError says which member of a request's params is wrong. The edge makes
// -32602 of it.
type ParamError struct {
	Path    string // such as mcpServers[0].env; "" for the params themselves
	Message string // what is wrong and, where it helps, what would be right
}

func (e *ParamError) Error() string {
	if e.Path == "" {
		return "params " + e.Message
	}
	return e.Path + " " + e.Message
}

func bad(path, format string, args ...any) *ParamError {
	return &ParamError{Path: path, Message: fmt.Sprintf(format, args...)}
}

// The parsed params share the bytes they were parsed from. Raw is the params
// as they came, Meta their `_meta` when it is an object.

// Initialize is what `initialize` asks.
type Initialize struct {
	ProtocolVersion int
	Caps            ClientCaps
	ClientInfo      Implementation // zero if the editor did not say
	Meta            json.RawMessage
	Raw             json.RawMessage
}

// Implementation names a program.
type Implementation struct {
	Name    string
	Title   string
	Version string
}

// ParseInitialize reads the params of `initialize`. Only protocolVersion can
// be wrong: everything else is optional and absent when malformed.
func ParseInitialize(params json.RawMessage) (Initialize, error) {
	if err := checkObject(params); err != nil {
		return Initialize{}, err
	}
	const path = "protocolVersion"
	v, ok := Get(params, path)
	if !ok {
		return Initialize{}, bad(path, "is missing; it must be an integer, such as 1")
	}
	n, ok := integer(v)
	if !ok || n < 0 || n > 65535 {
		return Initialize{}, bad(path, "must be an integer from 0 to 65535, such as 1, not %s", shown(v))
	}
	p := Initialize{ProtocolVersion: n, Meta: meta(params), Raw: params}
	if caps, ok := Get(params, "clientCapabilities"); ok {
		p.Caps = ParseClientCaps(caps)
	}
	// An editor that asks for a newer version says `info`.
	for _, name := range []string{"clientInfo", "info"} {
		info, ok := Get(params, name)
		if !ok {
			continue
		}
		program, hasName := GetString(info, "name")
		version, hasVersion := GetString(info, "version")
		if hasName && hasVersion {
			title, _ := GetString(info, "title")
			p.ClientInfo = Implementation{Name: program, Title: title, Version: version}
			break
		}
	}
	return p, nil
}

// Setup is what the requests have in common that give a session its place.
type Setup struct {
	Cwd     string   // absolute, as the editor wrote it
	Dirs    []string // additionalDirectories, absolute, in order
	Servers []MCPServer
	// MCPServers is the array of Servers as v1 JSON: bytes as they came, with
	// the lists added that the editor left out.
	MCPServers json.RawMessage
	// DirsGiven and ServersGiven tell "none" from "not said".
	DirsGiven, ServersGiven bool
	// Agent is `_meta.hermes.agent`, "" if not said.
	Agent string
	Meta  json.RawMessage
	Raw   json.RawMessage
}

// NewSession is what `session/new` asks.
type NewSession struct{ Setup }

// SessionSetup is what `session/load`, `session/resume` and `session/fork` ask.
type SessionSetup struct {
	SessionID string
	Setup
}

// ParseNewSession reads the params of `session/new`.
func ParseNewSession(params json.RawMessage) (NewSession, error) {
	return parseNewSession(params, runtime.GOOS)
}

func parseNewSession(params json.RawMessage, goos string) (NewSession, error) {
	setup, err := parseSetup(params, goos)
	if err != nil {
		return NewSession{}, err
	}
	return NewSession{setup}, nil
}

// ParseLoad reads the params of `session/load`.
func ParseLoad(params json.RawMessage) (SessionSetup, error) {
	return parseSessionSetup(params, runtime.GOOS)
}

// ParseResume reads the params of `session/resume`.
func ParseResume(params json.RawMessage) (SessionSetup, error) {
	return parseSessionSetup(params, runtime.GOOS)
}

// ParseFork reads the params of `session/fork`.
func ParseFork(params json.RawMessage) (SessionSetup, error) {
	return parseSessionSetup(params, runtime.GOOS)
}

func parseSessionSetup(params json.RawMessage, goos string) (SessionSetup, error) {
	id, err := sessionID(params)
	if err != nil {
		return SessionSetup{}, err
	}
	setup, err := parseSetup(params, goos)
	if err != nil {
		return SessionSetup{}, err
	}
	return SessionSetup{SessionID: id, Setup: setup}, nil
}

func parseSetup(params json.RawMessage, goos string) (Setup, error) {
	if err := checkObject(params); err != nil {
		return Setup{}, err
	}
	s := Setup{Meta: meta(params), Raw: params}
	cwd, err := requiredString(params, "", "cwd")
	if err != nil {
		return Setup{}, err
	}
	if err := checkDir(goos, "cwd", cwd); err != nil {
		return Setup{}, err
	}
	s.Cwd = cwd

	if v, ok := Get(params, "additionalDirectories"); ok {
		s.DirsGiven = true
		items, ok := Elements(v)
		if !ok {
			return Setup{}, bad("additionalDirectories", "must be an array of absolute paths, not %s", shown(v))
		}
		for i, item := range items {
			path := fmt.Sprintf("additionalDirectories[%d]", i)
			dir, ok := decodeString(item)
			if !ok {
				return Setup{}, bad(path, "must be a string, not %s", shown(item))
			}
			if err := checkDir(goos, path, dir); err != nil {
				return Setup{}, err
			}
			s.Dirs = append(s.Dirs, dir)
		}
	}

	v, ok := Get(params, "mcpServers")
	s.ServersGiven = ok
	s.Servers, s.MCPServers, err = parseMCPServers(v)
	if err != nil {
		return Setup{}, err
	}
	if v, ok := GetPath(params, "_meta", "hermes", "agent"); ok {
		if s.Agent, ok = decodeString(v); !ok {
			return Setup{}, bad("_meta.hermes.agent", "must be a string, not %s", shown(v))
		}
	}
	return s, nil
}

// checkDir refuses what is not the absolute path of a directory, as far as one
// can tell without looking.
func checkDir(goos, path, dir string) error {
	switch {
	case dir == "":
		return bad(path, "must not be empty; it must be an absolute path")
	case !utf8.ValidString(dir) || strings.ContainsRune(dir, utf8.RuneError):
		// Decoding put U+FFFD in the place of what was no character: the path
		// would name another file.
		return bad(path, "contains something that is not valid Unicode")
	case strings.IndexByte(dir, 0) >= 0:
		return bad(path, "contains a NUL character")
	case !IsAbs(goos, dir):
		return bad(path, "must be an absolute path of this machine (%s), not %s", goos, shownText(dir))
	}
	return nil
}

// ListSessions is what `session/list` asks.
type ListSessions struct {
	Cwd    string // "" for any
	Cursor string // "" for the first page
	Meta   json.RawMessage
	Raw    json.RawMessage
}

// ParseList reads the params of `session/list`; it may have none at all.
func ParseList(params json.RawMessage) (ListSessions, error) {
	return parseList(params, runtime.GOOS)
}

func parseList(params json.RawMessage, goos string) (ListSessions, error) {
	if len(params) == 0 || isNull(params) {
		return ListSessions{}, nil
	}
	if err := checkObject(params); err != nil {
		return ListSessions{}, err
	}
	p := ListSessions{Meta: meta(params), Raw: params}
	var err error
	given := false
	if p.Cwd, given, err = optionalString(params, "cwd"); err != nil {
		return ListSessions{}, err
	}
	if given {
		if err := checkDir(goos, "cwd", p.Cwd); err != nil {
			return ListSessions{}, err
		}
	}
	if p.Cursor, given, err = optionalString(params, "cursor"); err != nil {
		return ListSessions{}, err
	}
	if given && p.Cursor == "" {
		return ListSessions{}, bad("cursor", "is empty; leave it out for the first page, else give back the nextCursor of the last one")
	}
	return p, nil
}

// SessionRef is what the methods ask that name a session and nothing else.
type SessionRef struct {
	SessionID string
	Meta      json.RawMessage
	Raw       json.RawMessage
}

// ParseClose reads the params of `session/close`.
func ParseClose(params json.RawMessage) (SessionRef, error) { return parseRef(params) }

// ParseDelete reads the params of `session/delete`.
func ParseDelete(params json.RawMessage) (SessionRef, error) { return parseRef(params) }

// ParseCancel reads the params of `session/cancel`.
func ParseCancel(params json.RawMessage) (SessionRef, error) { return parseRef(params) }

func parseRef(params json.RawMessage) (SessionRef, error) {
	id, err := sessionID(params)
	if err != nil {
		return SessionRef{}, err
	}
	return SessionRef{SessionID: id, Meta: meta(params), Raw: params}, nil
}

// CancelRequest is what `$/cancel_request` asks.
type CancelRequest struct {
	RequestID json.RawMessage // string, integer or null, verbatim
	Raw       json.RawMessage
}

// ParseCancelRequest reads the params of `$/cancel_request`.
func ParseCancelRequest(params json.RawMessage) (CancelRequest, error) {
	if err := checkObject(params); err != nil {
		return CancelRequest{}, err
	}
	id, ok := Get(params, "requestId")
	if !ok {
		return CancelRequest{}, bad("requestId", "is missing")
	}
	if _, number := integer(id); id[0] != '"' && !isNull(id) && !number && !isDigits(id) {
		return CancelRequest{}, bad("requestId", "must be a string or an integer, not %s", shown(id))
	}
	return CancelRequest{RequestID: id, Raw: params}, nil
}

// SetMode is what `session/set_mode` asks.
type SetMode struct {
	SessionID string
	ModeID    string
	Meta      json.RawMessage
	Raw       json.RawMessage
}

// ParseSetMode reads the params of `session/set_mode`.
func ParseSetMode(params json.RawMessage) (SetMode, error) {
	id, err := sessionID(params)
	if err != nil {
		return SetMode{}, err
	}
	mode, err := requiredString(params, "", "modeId")
	if err != nil {
		return SetMode{}, err
	}
	return SetMode{SessionID: id, ModeID: mode, Meta: meta(params), Raw: params}, nil
}

// SetConfigOption is what `session/set_config_option` asks.
type SetConfigOption struct {
	SessionID string
	ConfigID  string
	Value     json.RawMessage // a JSON string, true or false
	Meta      json.RawMessage
	Raw       json.RawMessage
}

// ParseSetConfigOption reads the params of `session/set_config_option`.
func ParseSetConfigOption(params json.RawMessage) (SetConfigOption, error) {
	id, err := sessionID(params)
	if err != nil {
		return SetConfigOption{}, err
	}
	config, err := requiredString(params, "", "configId")
	if err != nil {
		return SetConfigOption{}, err
	}
	kind, _, err := optionalString(params, "type")
	if err != nil {
		return SetConfigOption{}, err
	}
	value, ok := Get(params, "value")
	if !ok {
		return SetConfigOption{}, bad("value", "is missing")
	}
	isBool := string(value) == "true" || string(value) == "false"
	switch {
	case !isBool && value[0] != '"':
		return SetConfigOption{}, bad("value", "must be a string or a boolean, not %s", shown(value))
	case kind == "boolean" && !isBool:
		return SetConfigOption{}, bad("value", `must be a boolean, as type is "boolean", not %s`, shown(value))
	case kind != "" && kind != "boolean" && isBool:
		return SetConfigOption{}, bad("type", `must be "boolean" for a boolean value, not %s`, shownText(kind))
	}
	return SetConfigOption{SessionID: id, ConfigID: config, Value: value, Meta: meta(params), Raw: params}, nil
}

// Authenticate is what `authenticate` asks.
type Authenticate struct {
	MethodID string
	Meta     json.RawMessage
	Raw      json.RawMessage
}

// ParseAuthenticate reads the params of `authenticate`.
func ParseAuthenticate(params json.RawMessage) (Authenticate, error) {
	if err := checkObject(params); err != nil {
		return Authenticate{}, err
	}
	method, err := requiredString(params, "", "methodId")
	if err != nil {
		return Authenticate{}, err
	}
	return Authenticate{MethodID: method, Meta: meta(params), Raw: params}, nil
}

// ParseOutcome reads the result of `session/request_permission`. selected is
// true only for a result in which the user chose optionID, exactly as the
// protocol writes it; whether it was offered is for the caller to judge. later
// is true for a "cancelled" that asks to keep the question open
// (`_meta.hermes.later`). Anything malformed is neither.
func ParseOutcome(result json.RawMessage) (optionID string, selected, later bool) {
	outcome, ok := Get(result, "outcome")
	if !ok {
		return "", false, false
	}
	switch word, _ := GetString(outcome, "outcome"); word {
	case "selected":
		optionID, selected = GetString(outcome, "optionId")
		return optionID, selected, false
	case "cancelled":
		for _, obj := range [][]byte{result, outcome} {
			if v, ok := GetPath(obj, "_meta", "hermes", "later"); ok && string(v) == "true" {
				return "", false, true
			}
		}
	}
	return "", false, false
}

func checkObject(params json.RawMessage) error {
	if len(params) == 0 {
		return bad("", "are missing; they must be an object")
	}
	m := object(params)
	for m.next() {
	}
	if m.bad {
		return bad("", "must be an object")
	}
	return nil
}

func sessionID(params json.RawMessage) (string, error) {
	if err := checkObject(params); err != nil {
		return "", err
	}
	id, err := requiredString(params, "", "sessionId")
	if err != nil {
		return "", err
	}
	if id == "" {
		return "", bad("sessionId", "must not be empty")
	}
	return id, nil
}

// requiredString reads obj's member; path names obj in the error.
func requiredString(obj []byte, path, name string) (string, error) {
	if path != "" {
		path += "."
	}
	path += name
	v, ok := Get(obj, name)
	if !ok {
		return "", bad(path, "is missing")
	}
	s, ok := decodeString(v)
	if !ok {
		return "", bad(path, "must be a string, not %s", shown(v))
	}
	return s, nil
}

// optionalString reads a member that may be absent or null.
func optionalString(obj []byte, name string) (s string, given bool, err error) {
	v, ok := Get(obj, name)
	if !ok || isNull(v) {
		return "", false, nil
	}
	if s, ok = decodeString(v); !ok {
		return "", false, bad(name, "must be a string or null, not %s", shown(v))
	}
	return s, true, nil
}

func meta(params []byte) json.RawMessage {
	v, ok := Get(params, "_meta")
	if !ok || v[0] != '{' {
		return nil
	}
	return v
}

// integer reads a number that has no fraction, however it is written.
func integer(v []byte) (int, bool) {
	if len(v) == 0 || len(v) > 32 || v[0] != '-' && (v[0] < '0' || v[0] > '9') {
		return 0, false
	}
	if n, err := strconv.Atoi(string(v)); err == nil {
		return n, true
	}
	f, err := strconv.ParseFloat(string(v), 64)
	if err != nil || f != float64(int32(f)) {
		return 0, false
	}
	return int(f), true
}

// isDigits reports whether v is an integer of any size.
func isDigits(v []byte) bool {
	if len(v) > 0 && v[0] == '-' {
		v = v[1:]
	}
	for _, c := range v {
		if c < '0' || c > '9' {
			return false
		}
	}
	return len(v) > 0
}

// shown describes a value in an error without repeating what may be large or
// secret.
func shown(v []byte) string {
	switch {
	case len(v) == 0:
		return "nothing"
	case v[0] == '{':
		return "an object"
	case v[0] == '[':
		return "an array"
	case v[0] == '"':
		s, _ := decodeString(v)
		return shownText(s)
	case isNull(v):
		return "null"
	}
	return shownBare(string(v))
}

func shownText(s string) string { return strconv.Quote(shownBare(s)) }

func shownBare(s string) string {
	const limit = 60
	if len(s) <= limit {
		return s
	}
	cut := limit
	for cut > 0 && !utf8.RuneStart(s[cut]) {
		cut--
	}
	return s[:cut] + "…"
}
