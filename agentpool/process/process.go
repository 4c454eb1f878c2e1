// Package process answers: how does a program run for us so that nothing of it
// is left behind? With everything it starts in a group of its own, found as its
// own environment has it, and with the last it said kept for when it fails.
package process

import "os/exec"

// Group is a program with everything it starts, as long as that does not leave
// its process group (on Windows: its job).
type Group struct{ group }

// Start starts cmd as a group of its own, without a terminal, so that nothing in
// it can wait for a password. The caller waits for cmd, and calls Close
// afterwards.
func Start(cmd *exec.Cmd) (*Group, error) {
	g, err := start(cmd)
	if err != nil {
		return nil, err
	}
	return &Group{g}, nil
}

// Terminate asks all of it to end; false if there is nobody to wait for. It may
// also be called after the program was waited for.
func (g *Group) Terminate() bool { return g.terminate() }

// Kill ends all of it.
func (g *Group) Kill() { g.kill() }

// Close gives back what the system keeps for the group.
func (g *Group) Close() { g.close() }
