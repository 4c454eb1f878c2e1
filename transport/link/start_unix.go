//go:build !windows

package link

import (
	"errors"
	"os"
	"strconv"
	"syscall"
)

func rootDir() string { return "/" }

// readyAt is the descriptor that a started process finds its ready pipe at.
const readyAt = 3

// detached makes attr start a process with a session of its own and ready as
// its fourth file.
func detached(attr *os.ProcAttr, ready *os.File) error {
	attr.Files = append(attr.Files, ready)
	attr.Env = append(attr.Env, ReadyFD+"="+strconv.Itoa(readyAt))
	attr.Sys = &syscall.SysProcAttr{Setsid: true}
	closeForeign()
	return nil
}

// relax: there is nothing to ask for less of.
func relax(*os.ProcAttr, error) bool { return false }

// closeForeign keeps what this process inherited without knowing (editors leak
// descriptors: the write ends of other children's pipes, their own sockets) from
// going on to a daemon that would hold it open for days.
func closeForeign() {
	dir, err := os.ReadDir("/dev/fd")
	if err != nil {
		return
	}
	for _, e := range dir {
		if fd, err := strconv.Atoi(e.Name()); err == nil && fd > 2 {
			syscall.CloseOnExec(fd)
		}
	}
}

// inherited returns the pipe a parent left at a descriptor, and keeps it from
// children.
func inherited(fd uintptr) (*os.File, error) {
	var st syscall.Stat_t
	if err := syscall.Fstat(int(fd), &st); err != nil {
		return nil, os.NewSyscallError("fstat", err)
	}
	if st.Mode&syscall.S_IFMT != syscall.S_IFIFO {
		return nil, errors.New(ReadyFD + " is not a pipe")
	}
	syscall.CloseOnExec(int(fd))
	return os.NewFile(fd, "ready"), nil
}
