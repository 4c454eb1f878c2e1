//go:build unix

package tool

import (
	"errors"
	"os"
	"os/exec"
	"syscall"
)

// dontWait keeps the opening of a pipe or a device from waiting.
const dontWait = syscall.O_NONBLOCK

func shellCommand(command string) *exec.Cmd { return exec.Command("/bin/sh", "-c", command) }

// signalName is the signal that ended a process, "" if none did.
func signalName(s *os.ProcessState) string {
	if ws, ok := s.Sys().(syscall.WaitStatus); ok && ws.Signaled() {
		return signals[ws.Signal()]
	}
	return ""
}

var signals = map[syscall.Signal]string{
	syscall.SIGABRT: "SIGABRT", syscall.SIGALRM: "SIGALRM", syscall.SIGBUS: "SIGBUS", syscall.SIGFPE: "SIGFPE", syscall.SIGHUP: "SIGHUP",
	syscall.SIGILL: "SIGILL", syscall.SIGINT: "SIGINT", syscall.SIGKILL: "SIGKILL", syscall.SIGPIPE: "SIGPIPE", syscall.SIGQUIT: "SIGQUIT",
	syscall.SIGSEGV: "SIGSEGV", syscall.SIGSYS: "SIGSYS", syscall.SIGTERM: "SIGTERM", syscall.SIGTRAP: "SIGTRAP", syscall.SIGUSR1: "SIGUSR1",
	syscall.SIGUSR2: "SIGUSR2", syscall.SIGXCPU: "SIGXCPU", syscall.SIGXFSZ: "SIGXFSZ",
}

// isOtherDisk tells whether a file cannot be renamed because it would go to
// another file system.
func isOtherDisk(err error) bool { return errors.Is(err, syscall.EXDEV) }
