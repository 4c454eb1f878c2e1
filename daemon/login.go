package daemon

import (
	"context"
	"encoding/json"

	"github.com/hermesd/hermesd/daemon/session"
	"github.com/hermesd/hermesd/transport/acp"
	"github.com/hermesd/hermesd/transport/jsonrpc"
	"github.com/hermesd/hermesd/transport/link"
)

// loginMethods are the ways to log in that are offered to this connection, and
// whether it can log out. Terminal methods make the editor run its command, the
// shim's, once more: that helps only if the command and the daemon are on one
// machine, and only the shim and `hermesd stdio` know what is meant.
func (e *editor) loginMethods() (methods []acp.AuthMethod, logout bool) {
	if e.d.logins == nil {
		return nil, false
	}
	login := e.d.logins.Login(e.ctx, e.hello.Agent)
	terminal := !e.conn.Principal.Remotely() && (e.said || e.d.cfg.Embedded)
	for _, m := range login.Methods {
		if m.Terminal && !terminal {
			continue
		}
		offered := acp.AuthMethod{ID: m.ID, Name: m.Name, Description: m.Description, Terminal: m.Terminal}
		if m.Terminal {
			offered.Args = []string{link.LoginFlag}
		}
		methods = append(methods, offered)
	}
	return methods, login.Logout && e.mayChange()
}

func (e *editor) authenticate(r *jsonrpc.Request) jsonrpc.Handler {
	p, err := acp.ParseAuthenticate(r.Params)
	if err != nil {
		return fail(err, "")
	}
	if e.d.logins == nil {
		return fail(&session.Error{Code: session.CodeParams, Message: "methodId " + shown(p.MethodID) + " was not offered: there is nothing to log in to"}, "")
	}
	return func(ctx context.Context) (any, error) {
		if err := e.d.logins.Authenticate(ctx, e.hello.Agent, p.MethodID); err != nil {
			return nil, wire(err, "")
		}
		return json.RawMessage("{}"), nil
	}
}

// logout forgets keys for everybody: they are the daemon's, not a connection's.
func (e *editor) logout(*jsonrpc.Request) jsonrpc.Handler {
	if e.d.logins == nil {
		return fail(&session.Error{Code: session.CodeInvalid, Message: "there is nothing to log out of"}, "")
	}
	return func(ctx context.Context) (any, error) {
		if err := e.d.logins.Logout(ctx, e.hello.Agent); err != nil {
			return nil, wire(err, "")
		}
		e.log.Info().Str("audit", "logout").Str("agent", e.hello.Agent).Msg("decision")
		return json.RawMessage("{}"), nil
	}
}
