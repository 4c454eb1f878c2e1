//go:build !windows

package environ

import (
	"bytes"
	"os"
	"os/exec"
	"strconv"
	"syscall"
)

// startAlone starts a command in a session of its own, without a terminal, and
// returns what ends what is left of it: to be called before it is waited for.
func startAlone(cmd *exec.Cmd) (kill func(), err error) {
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	if err := cmd.Start(); err != nil {
		return nil, err
	}
	pid := cmd.Process.Pid
	return func() { endSession(pid) }, nil
}

// ofUser is the shell the user database names, "" if it names none.
func ofUser() string {
	b, err := os.ReadFile("/etc/passwd")
	if err != nil {
		return ""
	}
	me := []byte(strconv.Itoa(os.Getuid()))
	for line := range bytes.Lines(b) {
		if f := bytes.Split(bytes.TrimSpace(line), []byte(":")); len(f) == 7 && bytes.Equal(f[2], me) {
			return string(f[6])
		}
	}
	return ""
}
