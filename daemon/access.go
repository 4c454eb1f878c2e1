package daemon

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"time"

	"github.com/rs/zerolog"

	"github.com/hermesd/hermesd/daemon/session"
	"github.com/hermesd/hermesd/transport"
	"github.com/hermesd/hermesd/transport/jsonrpc"
	"github.com/hermesd/hermesd/transport/link"
)

// observable are the requests of those who may only look. Whatever is not here
// changes something, or may one day.
var observable = map[string]bool{
	"initialize":               true,
	"authenticate":             true, // looks whether there is a key
	"session/list":             true,
	"session/load":             true,
	"session/resume":           true,
	"session/close":            true, // of its own view
	"_hermes/status":           true,
	"_hermes/sessions/show":    true,
	"_hermes/sessions/tail":    true,
	"_hermes/permissions/list": true,
	"_hermes/agents/list":      true,
}

// mayChange says whether the connection may do more than look.
func (e *editor) mayChange() bool { return e.conn.Principal.MayChange() }

// forbidden is the refusal of a request that the connection's role does not
// allow, nil if it does.
func (e *editor) forbidden(method string) error {
	if e.mayChange() || observable[method] {
		return nil
	}
	return &jsonrpc.Error{
		Code:    session.CodeForbidden,
		Message: "token " + e.conn.Principal.Token + " may only observe: " + shown(method) + " is not for it",
		Data:    raw(map[string]any{"role": e.conn.Principal.Role}),
	}
}

// sharesFiles says whether paths mean the same to the editor as to us.
func (e *editor) sharesFiles() bool {
	return !e.conn.Principal.Remotely() || e.hello.SharesFiles || e.caps().SharesFiles
}

var (
	errPaired    = errors.New("paired: it has its token")
	errTakenOver = errors.New("the same client has connected anew")
)

// letIn has a peer from the network prove who it is, before anything is done for
// it, and makes of its hello what may be believed. The kernel has named others.
func (d *Daemon) letIn(c *transport.Conn, hello *link.Hello, said bool) error {
	secret := hello.Token
	hello.Token = "" // from here on it is in no hand of ours
	if !c.Principal.Remotely() {
		return nil
	}
	granted, err := c.Authenticate(context.Background(), secret) // ends when the connection is closed
	var refusal *transport.Refusal
	if errors.As(err, &refusal) {
		c.Refuse(refusal.Text, said)
	}
	if err != nil {
		return err
	}
	// It may have been held back for a while.
	_ = c.SetDeadline(time.Now().Add(d.cfg.Limits.FirstFrame))
	if granted != "" {
		w := d.welcome(*hello)
		w.Token, w.TokenName = granted, c.Principal.Token
		if _, err := c.Write(w.Line()); err != nil {
			return fmt.Errorf("handing over a new token: %w", err)
		}
		_ = c.CloseWrite()
		d.cfg.Log.Info().Str("audit", "paired").Str("token", c.Principal.Token).Str("remote", c.Principal.Remote).Msg("a client was paired")
		return errPaired
	}
	// What another machine's environment and folders are is no use here. The id
	// is its own choice: no token can take the place of another one's connection.
	hello.Env, hello.Cwd = nil, ""
	hello.ID = connID(c.Principal.TokenID, hello.ID)
	return nil
}

// expel closes the connections whose token is not there any more, at once and
// whatever they are doing, and says how many those were. Turns go on.
func (d *Daemon) expel() int {
	n := 0
	for _, e := range d.connected() {
		if !e.conn.Allowed() {
			e.cut(transport.ErrRevoked)
			n++
		}
	}
	return n
}

// cut ends the connection without a word.
func (e *editor) cut(why error) {
	e.log.Info().AnErr("reason", why).Msg("connection cut")
	e.conn.Cut()
	e.peer.Close(why)
}

// tokensChanged is `_hermes/tokens/changed`: the command that has changed the file
// of tokens says so.
func (e *editor) tokensChanged(context.Context, *jsonrpc.Request) (any, error) {
	return map[string]any{"closed": e.d.expel()}, nil
}

// identified adds to a log who is on the other end.
func identified(c zerolog.Context, p transport.Principal) zerolog.Context {
	if p.Remotely() {
		return c.Str("token", p.Token).Str("role", string(p.Role)).Str("remote", p.Remote)
	}
	return c.Int("uid", p.UID).Int("pid", p.PID)
}

// connID is the id of a connection over the network: of the client's own choice,
// and of no use to another token.
func connID(tokenID, id string) string {
	if id == "" {
		return link.NewID()
	}
	sum := sha256.Sum256([]byte(tokenID + "\x00" + id))
	return hex.EncodeToString(sum[:16])
}
