package session

import (
	"fmt"
	"slices"
)

// Environ is the environment of a connection: what agents and their commands
// that run for it get. It is in memory only, and shows itself to nobody but
// callers of List: not in events, not in logs. A nil Environ is one that nobody
// sent.
type Environ struct{ list []string }

// NewEnviron makes one of variables by name; nil if there are none.
func NewEnviron(vars map[string]string) *Environ {
	if len(vars) == 0 {
		return nil
	}
	e := &Environ{list: make([]string, 0, len(vars))}
	for name, value := range vars {
		e.list = append(e.list, name+"="+value)
	}
	slices.Sort(e.list)
	return e
}

// List gives it as os.Environ does, nil if there is none. It is not to be
// changed.
func (e *Environ) List() []string {
	if e == nil {
		return nil
	}
	return e.list
}

// Format implements fmt.Formatter: no verb shows a variable.
func (e *Environ) Format(f fmt.State, _ rune) { _, _ = f.Write([]byte("(environment)")) }

// MarshalText implements encoding.TextMarshaler, for whoever encodes it unawares.
func (e *Environ) MarshalText() ([]byte, error) { return []byte("(environment)"), nil }
