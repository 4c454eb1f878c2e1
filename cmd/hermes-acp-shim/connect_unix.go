//go:build !windows

package main

import (
	"os"
	"syscall"
)

// replace replaces this process by a program: the editor keeps its pipes, its
// process id and its way of ending it.
func replace(program string, args []string) (int, error) {
	return exitFailed, syscall.Exec(program, args, os.Environ())
}
