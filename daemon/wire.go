package daemon

import (
	"context"
	"errors"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/hermesd/hermesd/daemon/session"
	"github.com/hermesd/hermesd/transport/acp"
	"github.com/hermesd/hermesd/transport/jsonrpc"
)

func done(res any, err error) jsonrpc.Handler {
	return func(context.Context) (any, error) { return res, err }
}

// fail is the handler of a request that is refused.
func fail(err error, id session.ID) jsonrpc.Handler { return done(nil, wire(err, id)) }

// wire is err as it goes out. It is the one table of error codes.
func wire(err error, id session.ID) error {
	var param *acp.ParamError
	var ours *session.Error
	var sent *jsonrpc.Error
	switch {
	case err == nil:
		return nil
	case errors.As(err, &param):
		return &jsonrpc.Error{Code: session.CodeParams, Message: param.Error()}
	case errors.As(err, &ours):
		return &jsonrpc.Error{Code: ours.Code, Message: oneLine(ours.Message), Data: ours.Data}
	case errors.As(err, &sent):
		return sent
	case errors.Is(err, session.ErrNotFound), errors.Is(err, errPumpDone):
		return &jsonrpc.Error{Code: session.CodeNotFound, Message: "no session " + shown(string(id)) + " is open on this connection: load or resume one of session/list first", Data: raw(map[string]any{"sessionId": id})}
	case errors.Is(err, session.ErrClosed):
		return wire(errStopping, id)
	case errors.Is(err, context.Canceled):
		return &jsonrpc.Error{Code: session.CodeCancelled, Message: "request cancelled"}
	}
	return &jsonrpc.Error{Code: session.CodeInternal, Message: oneLine(err.Error())}
}

func oneLine(s string) string { return strings.Join(strings.Fields(s), " ") }

// shown is an id of a peer as it may stand in a message.
func shown(id string) string {
	if c := cut(id, 80); c != id {
		id = c + "…"
	}
	return strconv.Quote(id)
}

// cut is the beginning of s, of at most n bytes and whole characters.
func cut(s string, n int) string {
	if len(s) <= n {
		return s
	}
	for n > 0 && !utf8.RuneStart(s[n]) {
		n--
	}
	return s[:n]
}

// noAgent says that an agent does not exist, and which do.
func (d *Daemon) noAgent(name string) string {
	var names []string
	for _, a := range d.cfg.Agents() {
		names = append(names, a.Name)
	}
	return "there is no agent named " + shown(name) + ": choose one of " + strings.Join(names, ", ")
}

// unknown is the error of a session that is nowhere.
func unknown(id session.ID) error {
	return &session.Error{Code: session.CodeNotFound, Message: "there is no session " + shown(string(id)) + ": session/list has those there are", Data: raw(map[string]any{"sessionId": id})}
}
