//go:build unix

package process

import (
	"os/exec"
	"syscall"
)

type group struct{ pgid int }

func start(cmd *exec.Cmd) (group, error) {
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	if err := cmd.Start(); err != nil {
		return group{}, err
	}
	return group{pgid: cmd.Process.Pid}, nil
}

// terminate after the leader was waited for does no harm: a group's number is
// not given away while it has members, and an empty group is simply not found.
func (g group) terminate() bool { return syscall.Kill(-g.pgid, syscall.SIGTERM) == nil }

func (g group) kill() { _ = syscall.Kill(-g.pgid, syscall.SIGKILL) }

func (g group) close() {}
