//go:build !windows

package main

import (
	"context"
	"errors"
	"runtime"
)

// underServiceControl runs the daemon. What a service manager of a Unix wants it
// says with signals and sockets.
func underServiceControl(service bool, run func(ctx context.Context, ready func()) error) error {
	err := run(context.Background(), func() {})
	if errors.Is(err, errMisconfigured) && service {
		return &exit{serviceExit(runtime.GOOS), err}
	}
	return err
}

// serviceExit is with which exit code a service ends that is not to be started
// again. systemd is told of one; launchd knows success only (KeepAlive,
// SuccessfulExit), and what was wrong stands in the log and in `service status`.
func serviceExit(goos string) int {
	if goos == "darwin" {
		return exitDone
	}
	return exitMisconfigured
}
