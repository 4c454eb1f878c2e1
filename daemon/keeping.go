package daemon

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"time"

	"github.com/hermesd/hermesd/daemon/session"
	"github.com/hermesd/hermesd/transport/acp"
	"github.com/hermesd/hermesd/transport/jsonrpc"
)

// Keeper is what a store is besides that keeps sessions on a disk.
type Keeper interface {
	// Backup writes a copy of everything to a file, while everything goes on. An
	// error that is fs.ErrExist says that the file is there and replace was not
	// asked for.
	Backup(ctx context.Context, file string, replace bool) error
	// Used is how many bytes sessions take on the disk. What is free in the files
	// does not count.
	Used() (int64, error)
	// Weigh is how many of them a session takes.
	Weigh(session.ID) (int64, error)
}

// onlyHere refuses what names files of this machine to those on another one.
func (e *editor) onlyHere(what string) error {
	if e.conn.Principal.Remotely() {
		return &session.Error{Code: session.CodeForbidden, Message: what + " can only be asked for on the daemon's machine"}
	}
	return nil
}

// backup is `_hermes/backup`: the daemon writes the file itself.
func (e *editor) backup(ctx context.Context, r *jsonrpc.Request) (any, error) {
	var p struct {
		Path    string `json:"path"`
		Replace bool   `json:"replace"`
	}
	if err := errors.Join(e.onlyHere("a backup"), decodeParams(r, &p)); err != nil {
		return nil, err
	}
	if !filepath.IsAbs(p.Path) {
		return nil, &acp.ParamError{Path: "path", Message: "must be a whole path"}
	}
	if e.d.keeper == nil {
		return nil, &session.Error{Code: session.CodeInternal, Message: "this daemon keeps its sessions in memory only: there is nothing to back up"}
	}
	began := time.Now()
	err := e.d.keeper.Backup(ctx, p.Path, p.Replace)
	if errors.Is(err, fs.ErrExist) {
		return nil, &acp.ParamError{Path: "path", Message: oneLine(p.Path) + " is there already"}
	}
	if err != nil {
		return nil, err
	}
	info, err := os.Stat(p.Path)
	if err != nil {
		return nil, err
	}
	n := len(e.d.store.List())
	e.log.Info().Str("audit", "backup").Str("file", p.Path).Int("sessions", n).Dur("took", time.Since(began)).Msg("the sessions were backed up")
	return map[string]any{"path": p.Path, "bytes": info.Size(), "sessions": n}, nil
}

// pin is `_hermes/sessions/pin`.
func (e *editor) pin(ctx context.Context, r *jsonrpc.Request) (any, error) {
	var p struct {
		SessionID session.ID `json:"sessionId"`
		Pinned    bool       `json:"pinned"`
	}
	if err := decodeParams(r, &p); err != nil {
		return nil, err
	}
	s, err := e.d.reg.get(p.SessionID)
	if err != nil {
		return nil, wire(err, p.SessionID)
	}
	done := make(chan error, 1)
	s.Pin(e.origin(r.Line, r.ID), p.Pinned, func(err error) {
		select {
		case done <- err:
		default:
		}
	})
	select {
	case err := <-done:
		return map[string]any{"id": p.SessionID, "pinned": p.Pinned}, wire(err, p.SessionID)
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

// plainID is an id under which an imported session may be kept.
var plainID = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9._-]{0,199}$`)

// importSession is `_hermes/sessions/import`: the daemon reads the file itself.
func (e *editor) importSession(ctx context.Context, r *jsonrpc.Request) (any, error) {
	var p struct {
		Path string `json:"path"`
		Cwd  string `json:"cwd"`
	}
	if err := errors.Join(e.onlyHere("an import"), decodeParams(r, &p)); err != nil {
		return nil, err
	}
	if !filepath.IsAbs(p.Path) {
		return nil, &acp.ParamError{Path: "path", Message: "must be a whole path"}
	}
	if p.Cwd != "" && !filepath.IsAbs(p.Cwd) {
		return nil, &acp.ParamError{Path: "cwd", Message: "must be a whole path"}
	}
	f, err := os.Open(p.Path)
	if err != nil {
		return nil, &acp.ParamError{Path: "path", Message: oneLine(err.Error())}
	}
	defer f.Close()
	lines := newLineReader(f, e.d.cfg.Limits.MaxLine)
	meta, head, err := e.d.importFrom(ctx, lines, p.Cwd, e.origin(r.Line, r.ID))
	if err != nil {
		var ours *session.Error
		if errors.As(err, &ours) || ctx.Err() != nil {
			return nil, err
		}
		return nil, &acp.ParamError{Message: fmt.Sprintf("%s:%d: %s", oneLine(p.Path), lines.number, oneLine(err.Error()))}
	}
	e.log.Info().Str("audit", "import").Str("session", string(meta.ID)).Str("imported", string(meta.Imported)).Uint64("events", uint64(head)).Msg("a session was imported")
	return map[string]any{"id": meta.ID, "imported": meta.Imported, "events": head, "cwd": meta.Cwd, "title": meta.Title}, nil
}

// importFrom makes a session of lines. An error is about the line at which the
// reader stands.
func (d *Daemon) importFrom(ctx context.Context, lines *lineReader, cwd string, by session.Origin) (session.Meta, session.Seq, error) {
	first, err := lines.next()
	if err != nil {
		return session.Meta{}, 0, ended(err)
	}
	h, err := session.ParseHeader(first)
	if err != nil {
		return session.Meta{}, 0, err
	}
	meta := h.Meta
	meta.Imported = meta.ID
	meta.Parent, meta.ForkedAt, meta.Pinned = "", 0, false
	if cwd != "" {
		meta.Cwd = cwd
	}
	if !filepath.IsAbs(meta.Cwd) {
		return meta, 0, errors.New("meta.cwd is no whole path: give the session a folder with --cwd")
	}
	if meta.Updated.IsZero() || meta.Updated.After(time.Now()) {
		meta.Updated = time.Now().UTC()
	}
	if !d.agents.Has(meta.Agent) {
		meta.Agent = d.agents.Default()
	}
	if _, taken := d.store.Lookup(meta.ID); taken || !plainID.MatchString(string(meta.ID)) {
		meta.ID = session.NewID(time.Now())
	}
	var last session.Seq
	head, err := session.Import(ctx, d.store, meta, by, func() (session.Record, error) {
		b, err := lines.next()
		if err != nil {
			return session.Record{}, ended(err)
		}
		if end, ok := session.ParseFooter(b); ok {
			if end != last {
				return session.Record{}, fmt.Errorf("the session should have %d events, and has %d", end, last)
			}
			if _, err := lines.next(); err != io.EOF {
				return session.Record{}, errors.New("there is something behind the end of the session")
			}
			return session.Record{}, io.EOF
		}
		rec, err := session.ParseLine(b)
		last = rec.Last
		return rec, err
	})
	return meta, head, err
}

func ended(err error) error {
	if err == io.EOF {
		return errors.New("the file ends here, before the end of the session")
	}
	return err
}

// lineReader gives the lines of a file, without empty ones.
type lineReader struct {
	in     *bufio.Reader
	max    int
	number int // of the last line read
}

func newLineReader(r io.Reader, max int) *lineReader {
	return &lineReader{in: bufio.NewReaderSize(r, 64<<10), max: max}
}

// next gives a line that is good until the next call, io.EOF behind the last one.
func (l *lineReader) next() ([]byte, error) {
	for {
		l.number++
		var long []byte
		for {
			part, err := l.in.ReadSlice('\n')
			if err == bufio.ErrBufferFull {
				if long = append(long, part...); len(long) > l.max {
					return nil, fmt.Errorf("the line is longer than %d bytes", l.max)
				}
				continue
			}
			if err != nil && (err != io.EOF || len(part)+len(long) == 0) {
				return nil, err
			}
			if long = append(long, part...); len(long) > l.max {
				return nil, fmt.Errorf("the line is longer than %d bytes", l.max)
			}
			break
		}
		for len(long) > 0 && (long[len(long)-1] == '\n' || long[len(long)-1] == '\r') {
			long = long[:len(long)-1]
		}
		if len(long) > 0 {
			return long, nil
		}
	}
}
