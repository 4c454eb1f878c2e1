package daemon

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/hermesd/hermesd/transport/acp"
	"github.com/hermesd/hermesd/transport/jsonrpc"
)

// Environment is one in which programs run.
type Environment struct {
	Name    string   // "service": the daemon's own; "login": the login shell's
	Environ []string // as of os.Environ
}

// seen says which programs one environment has. The variables stay here: they are
// the editor's.
type seen struct {
	ID     string            `json:"id"` // "service", "login", or the connection's as the log names it
	Client string            `json:"client,omitempty"`
	Sent   bool              `json:"sent"`   // there is an environment; a connection need not have sent one
	Found  map[string]string `json:"found"`  // whole path of each program that is there
	Absent map[string]string `json:"absent"` // why the others are not
	Set    []string          `json:"set"`    // which of the variables are there, and not empty
}

// maxAsked is how many programs or variables may be asked for at a time.
const maxAsked = 200

// doctor is `_hermes/doctor`: which of the programs each environment has, and
// which of the variables are set there. What they are set to is told to nobody.
func (e *editor) doctor(ctx context.Context, r *jsonrpc.Request) (any, error) {
	var p struct {
		Commands  []string `json:"commands"`
		Variables []string `json:"variables"`
	}
	if err := decodeParams(r, &p); err != nil {
		return nil, err
	}
	if len(p.Commands) > maxAsked || len(p.Variables) > maxAsked {
		return nil, &acp.ParamError{Message: fmt.Sprintf("more than %d programs or variables", maxAsked)}
	}
	all := []seen{}
	if e.d.cfg.Environments != nil {
		for _, env := range e.d.cfg.Environments(ctx) {
			all = append(all, e.d.look(env.Name, "", env.Environ, p.Commands, p.Variables))
		}
	}
	for _, o := range e.d.connected() {
		if o != e {
			all = append(all, e.d.look(short(o.hello.ID), o.clientName(), o.environ.List(), p.Commands, p.Variables))
		}
	}
	return map[string]any{"environments": all}, nil
}

func (d *Daemon) look(id, client string, environ, commands, variables []string) seen {
	s := seen{ID: id, Client: client, Sent: environ != nil, Found: map[string]string{}, Absent: map[string]string{}, Set: []string{}}
	if !s.Sent || d.cfg.FindProgram == nil {
		return s
	}
	for _, kv := range environ {
		name, value, _ := strings.Cut(kv, "=")
		if value != "" && slices.Contains(variables, name) && !slices.Contains(s.Set, name) {
			s.Set = append(s.Set, name)
		}
	}
	for _, c := range commands {
		path, err := d.cfg.FindProgram(environ, c)
		if err != nil {
			s.Absent[c] = err.Error()
		} else {
			s.Found[c] = path
		}
	}
	return s
}

// clientName is the name that the editor gave itself.
func (e *editor) clientName() string {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.init == nil {
		return ""
	}
	return e.init.ClientInfo.Name
}
