package tool

import (
	"errors"
	"os"
	"os/exec"
	"syscall"

	"golang.org/x/sys/windows"
)

// dontWait: opening does not wait here.
const dontWait = 0

// shellCommand hands the line to cmd.exe as it is: the quoting Go would do is
// not the one cmd.exe reads.
func shellCommand(command string) *exec.Cmd {
	shell := os.Getenv("ComSpec")
	if shell == "" {
		shell = "cmd.exe"
	}
	cmd := exec.Command(shell)
	cmd.SysProcAttr = &syscall.SysProcAttr{CmdLine: `cmd /D /S /C "` + command + `"`}
	return cmd
}

func signalName(*os.ProcessState) string { return "" }

// isOtherDisk tells whether a file cannot be renamed because it would go to
// another file system.
func isOtherDisk(err error) bool { return errors.Is(err, windows.ERROR_NOT_SAME_DEVICE) }
