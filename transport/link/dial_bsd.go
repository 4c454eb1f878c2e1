//go:build !linux && !windows

package link

import (
	"fmt"
	"net"
	"os"
	"syscall"
)

// checkListener refuses a socket of another user. The file's owner is who
// called bind.
func checkListener(_ net.Conn, path string) error {
	info, err := os.Lstat(path)
	if err != nil {
		return fmt.Errorf("asking whose listener it is: %w", err)
	}
	st, ok := info.Sys().(*syscall.Stat_t)
	if !ok {
		return fmt.Errorf("asking whose listener it is: no owner")
	}
	return trusted(int(st.Uid))
}
