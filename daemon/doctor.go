package daemon

import (
	"context"

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
}

// maxPrograms is how many may be asked for at a time.
const maxPrograms = 100

// doctor is `_hermes/doctor`: which of the programs each environment has.
func (e *editor) doctor(ctx context.Context, r *jsonrpc.Request) (any, error) {
	var p struct {
		Commands []string `json:"commands"`
	}
	if err := decodeParams(r, &p); err != nil {
		return nil, err
	}
	commands := p.Commands[:min(len(p.Commands), maxPrograms)]
	all := []seen{}
	if e.d.cfg.Environments != nil {
		for _, env := range e.d.cfg.Environments(ctx) {
			all = append(all, e.d.look(env.Name, "", env.Environ, commands))
		}
	}
	for _, o := range e.d.connected() {
		if o != e {
			all = append(all, e.d.look(short(o.hello.ID), o.clientName(), o.environ.List(), commands))
		}
	}
	return map[string]any{"environments": all}, nil
}

func (d *Daemon) look(id, client string, environ, commands []string) seen {
	s := seen{ID: id, Client: client, Sent: environ != nil, Found: map[string]string{}, Absent: map[string]string{}}
	if !s.Sent || d.cfg.FindProgram == nil {
		return s
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
