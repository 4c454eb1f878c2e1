//go:build !windows && !linux

package environ

import "syscall"

// endSession ends the leader of a session and its process group. What has a
// group of its own, as jobs of a shell with job control have, is not found here.
func endSession(leader int) { _ = syscall.Kill(-leader, syscall.SIGKILL) }
