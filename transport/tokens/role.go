package tokens

import "fmt"

// Role is what the holder of a token may do.
type Role string

// The roles there are. The zero Role is none of them and may do nothing.
const (
	// Control may do everything the user can.
	Control Role = "control"
	// Observe sees everything, and prompts, answers and changes nothing.
	Observe Role = "observe"
)

// ParseRole reads a role as people write it.
func ParseRole(s string) (Role, error) {
	switch r := Role(s); r {
	case Control, Observe:
		return r, nil
	}
	return "", fmt.Errorf("%q is no role: choose %s (may do everything) or %s (sees everything, changes nothing)", s, Control, Observe)
}
