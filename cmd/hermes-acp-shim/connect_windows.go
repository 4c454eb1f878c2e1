package main

import (
	"os"
	"os/signal"
)

// replace runs a program with the editor's pipes until it ends: Windows cannot
// replace a process by another. It ends with the pipes, so it does not outlive the
// editor when this process is killed.
func replace(program string, args []string) (int, error) {
	signal.Ignore(os.Interrupt) // Ctrl-C is for the program
	p, err := os.StartProcess(program, args, &os.ProcAttr{Files: []*os.File{os.Stdin, os.Stdout, os.Stderr}})
	if err != nil {
		return exitFailed, err
	}
	state, err := p.Wait()
	if err != nil {
		return exitFailed, err
	}
	return state.ExitCode(), nil
}
