package tool

import "os/exec"

// Group is a program with everything it starts, as long as that does not leave
// its process group (on Windows: its job). It is for programs that are no
// commands of the model, as servers.
type Group struct{ g *group }

// StartGroup starts cmd as a group of its own, without a terminal. The caller
// waits for cmd and calls Close afterwards.
func StartGroup(cmd *exec.Cmd) (*Group, error) {
	g, err := startGroup(cmd)
	if err != nil {
		return nil, err
	}
	return &Group{g}, nil
}

// Terminate asks all of it to end; false if there is nobody to wait for.
func (g *Group) Terminate() bool { return g.g.terminate() }

// Kill ends all of it.
func (g *Group) Kill() { g.g.kill() }

// Close gives back what the system keeps for the group.
func (g *Group) Close() { g.g.close() }
