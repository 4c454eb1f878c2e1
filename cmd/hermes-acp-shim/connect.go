package main

import (
	"fmt"
	"os"
	"path/filepath"

	"github.com/hermesd/hermesd/transport/link"
)

// connectWith hands over to `hermesd connect`: TLS lives there, so that this
// program stays small for everybody who does not need it. It returns the exit code
// if this process is still here then.
func connectWith(address, agent string) (int, error) {
	program, err := link.Find(os.Environ())
	if err != nil {
		return exitFailed, err
	}
	args := []string{filepath.Base(program), "connect"}
	if agent != "" {
		args = append(args, "--agent", agent)
	}
	code, err := become(program, append(args, "--", address))
	if err != nil {
		err = fmt.Errorf("handing over to %s: %w", program, err)
	}
	return code, err
}
