package link

import (
	"errors"
	"os"
	"strconv"
	"syscall"
)

const (
	detachedProcess        = 0x00000008
	createBreakawayFromJob = 0x01000000
)

func rootDir() string {
	if dir := os.Getenv("SystemRoot"); dir != "" {
		return dir
	}
	return `C:\`
}

// detached makes attr start a process without a console, outside the job of the
// editor, with the handle of ready inherited.
func detached(attr *os.ProcAttr, ready *os.File) error {
	h := syscall.Handle(ready.Fd())
	if err := syscall.SetHandleInformation(h, syscall.HANDLE_FLAG_INHERIT, syscall.HANDLE_FLAG_INHERIT); err != nil {
		return os.NewSyscallError("SetHandleInformation", err)
	}
	attr.Env = append(attr.Env, ReadyFD+"="+strconv.FormatUint(uint64(h), 10))
	attr.Sys = &syscall.SysProcAttr{
		CreationFlags:              detachedProcess | syscall.CREATE_NEW_PROCESS_GROUP | createBreakawayFromJob,
		AdditionalInheritedHandles: []syscall.Handle{h},
		HideWindow:                 true,
	}
	return nil
}

// relax leaves the daemon in the editor's job if that lets nobody out.
func relax(attr *os.ProcAttr, err error) bool {
	if !errors.Is(err, syscall.ERROR_ACCESS_DENIED) {
		return false
	}
	attr.Sys.CreationFlags &^= createBreakawayFromJob
	return true
}

// inherited returns the pipe a parent left as a handle, and keeps it from
// children.
func inherited(h uintptr) (*os.File, error) {
	kind, err := syscall.GetFileType(syscall.Handle(h))
	if err != nil {
		return nil, os.NewSyscallError("GetFileType", err)
	}
	if kind != syscall.FILE_TYPE_PIPE {
		return nil, os.ErrInvalid
	}
	if err := syscall.SetHandleInformation(syscall.Handle(h), syscall.HANDLE_FLAG_INHERIT, 0); err != nil {
		return nil, os.NewSyscallError("SetHandleInformation", err)
	}
	return os.NewFile(h, "ready"), nil
}
