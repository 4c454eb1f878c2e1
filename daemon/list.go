package daemon

import (
	"context"
	"encoding/base64"
	"fmt"
	"runtime"
	"strconv"
	"strings"

	"github.com/hermesd/hermesd/daemon/session"
	"github.com/hermesd/hermesd/transport/acp"
	"github.com/hermesd/hermesd/transport/jsonrpc"
)

const pageSize = 50 // sessions of one session/list answer

func (e *editor) list(r *jsonrpc.Request) jsonrpc.Handler {
	p, err := acp.ParseList(r.Params)
	if err != nil {
		return fail(err, "")
	}
	return func(context.Context) (any, error) {
		after, err := parseCursor(p.Cursor)
		if err != nil {
			return nil, wire(err, "")
		}
		var entries []acp.SessionEntry
		next := ""
		for _, m := range e.d.store.List() {
			if e.hello.Agent != "" && m.Agent != e.hello.Agent || p.Cwd != "" && !acp.SamePath(runtime.GOOS, m.Cwd, p.Cwd) || !after.before(m) {
				continue
			}
			if len(entries) == pageSize {
				next = cursorOf(entries[pageSize-1])
				break
			}
			entries = append(entries, acp.SessionEntry{ID: string(m.ID), Cwd: m.Cwd, Dirs: m.Dirs, Title: m.Title, Updated: m.Updated, Meta: sessionMeta(m, false)})
		}
		return acp.ListResult(entries, next), nil
	}
}

// place is a position in the list of sessions, newest first.
type place struct {
	updated int64 // Unix nanoseconds; 0 is the beginning
	id      session.ID
}

// before says whether m comes after the place in the list.
func (p place) before(m session.Meta) bool {
	t := m.Updated.UnixNano()
	return p.updated == 0 || t < p.updated || t == p.updated && m.ID < p.id
}

func cursorOf(last acp.SessionEntry) string {
	return base64.RawURLEncoding.EncodeToString(fmt.Appendf(nil, "1 %d %s", last.Updated.UnixNano(), last.ID))
}

func parseCursor(c string) (p place, err error) {
	if c == "" {
		return p, nil
	}
	bad := &acp.ParamError{Path: "cursor", Message: "not one that session/list gave: start again without"}
	b, err := base64.RawURLEncoding.DecodeString(c)
	if err != nil {
		return p, bad
	}
	f := strings.Fields(string(b))
	if len(f) != 3 || f[0] != "1" {
		return p, bad
	}
	n, err := strconv.ParseInt(f[1], 10, 64)
	if err != nil || n == 0 {
		return p, bad
	}
	return place{n, session.ID(f[2])}, nil
}
