//go:build unix

package main

import (
	"bytes"
	"fmt"
	"os"
	"syscall"
)

// processAlive tells whether a process runs. One that has ended and has not
// been waited for by its parent yet counts as ended.
func processAlive(pid int) bool {
	if err := syscall.Kill(pid, 0); err == syscall.ESRCH {
		return false
	}
	// Linux tells such a one by its state, the first field after the name in
	// parentheses (proc_pid_stat(5)).
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return !os.IsNotExist(err) || !hasProc()
	}
	_, rest, _ := bytes.Cut(stat[bytes.LastIndexByte(stat, ')')+1:], []byte(" "))
	return len(rest) == 0 || rest[0] != 'Z' && rest[0] != 'X'
}

func hasProc() bool {
	_, err := os.Stat("/proc/self/stat")
	return err == nil
}
