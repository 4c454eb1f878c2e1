package environ

import (
	"errors"
	"os/exec"
)

func startAlone(*exec.Cmd) (func(), error) { return nil, errors.New("there are no login shells here") }

func ofUser() string { return "" }
