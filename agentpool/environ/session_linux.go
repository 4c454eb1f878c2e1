package environ

import (
	"bytes"
	"os"
	"strconv"
	"syscall"
)

// endSession ends all processes of a session, in whichever process groups they
// are: shells with job control give each job one of its own. The session's
// leader must not have been waited for, so that its number is still its own.
func endSession(leader int) {
	_ = syscall.Kill(-leader, syscall.SIGKILL)
	ended := map[int]bool{}
	for more := true; more; {
		// What was started while we looked is found when we look again; what has
		// been ended starts nothing any more.
		more = false
		proc, err := os.Open("/proc")
		if err != nil {
			return
		}
		names, _ := proc.Readdirnames(-1)
		proc.Close()
		for _, name := range names {
			pid, err := strconv.Atoi(name)
			if err != nil || ended[pid] || sessionOf(name) != leader {
				continue
			}
			p, err := os.FindProcess(pid) // by a descriptor: from here on it is this process and no later one
			if err != nil {
				continue
			}
			if sessionOf(name) == leader {
				_ = p.Kill()
				ended[pid], more = true, true
			}
			_ = p.Release()
		}
	}
}

// sessionOf is the session a process that lives is in, 0 if there is none.
func sessionOf(pid string) int {
	stat, err := os.ReadFile("/proc/" + pid + "/stat")
	if err != nil {
		return 0
	}
	// pid (name) state ppid pgrp session …; a name may contain anything.
	f := bytes.Fields(stat[bytes.LastIndexByte(stat, ')')+1:])
	if len(f) < 4 || f[0][0] == 'Z' || f[0][0] == 'X' {
		return 0
	}
	n, _ := strconv.Atoi(string(f[3]))
	return n
}
