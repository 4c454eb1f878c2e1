package main

import (
	"fmt"
	"os"
	"path/filepath"

	"github.com/hermesd/hermesd/transport/link"
)

// connectWith hands over to `hermesd connect`: TLS lives there, so that this
// program stays small for everybody who does not need it.
func connectWith(address, agent string) (int, error) {
	var args []string
	if agent != "" {
		args = append(args, "--agent", agent)
	}
	return become("connect", append(args, "--", address)...)
}

// become hands over to a command of hermesd, which gets our standard input and
// output. It returns the exit code if this process is still here then.
func become(command string, args ...string) (int, error) {
	program, err := link.Find(os.Environ())
	if err != nil {
		return exitFailed, err
	}
	code, err := replace(program, append([]string{filepath.Base(program), command}, args...))
	if err != nil {
		err = fmt.Errorf("handing over to %s: %w", program, err)
	}
	return code, err
}
