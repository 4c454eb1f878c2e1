//go:build !windows

package link

import (
	"errors"
	"fmt"
	"os"
	"syscall"
)

func nobodyThere(err error) bool {
	return errors.Is(err, syscall.ENOENT) || errors.Is(err, syscall.ECONNREFUSED)
}

func backlogFull(err error) bool { return errors.Is(err, syscall.EAGAIN) }

func trusted(uid int) error {
	if me := os.Geteuid(); uid != me && uid != 0 {
		return fmt.Errorf("its listener %w (uid %d, you are %d); set HERMESD_HOME to a folder of your own", errForeign, uid, me)
	}
	return nil
}
