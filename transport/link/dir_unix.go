//go:build !windows

package link

import (
	"fmt"
	"io/fs"
	"os"
	"syscall"
)

// owner answers [Locate] for this process.
func owner(dir string) Owner {
	info, err := os.Stat(dir)
	switch {
	case os.IsNotExist(err):
		return Absent
	case err != nil || !info.IsDir() || !ours(info):
		return Foreign
	}
	return Ours
}

func ours(info fs.FileInfo) bool {
	st, ok := info.Sys().(*syscall.Stat_t)
	return ok && int(st.Uid) == os.Geteuid()
}

func makePrivate(path string) error {
	info, err := os.Stat(path)
	if err != nil {
		return fmt.Errorf("checking the folder %s: %w", path, err)
	}
	switch mode := info.Mode(); {
	case !info.IsDir():
		return fmt.Errorf("%s is not a folder; remove it", path)
	case !ours(info):
		return fmt.Errorf("the folder %s %w; set HERMESD_HOME to a folder of your own", path, errForeign)
	case mode&(fs.ModeSticky|0o002) != 0:
		return fmt.Errorf("the folder %s is shared with other users (mode %#o); set HERMESD_HOME to a folder of your own", path, mode.Perm())
	case mode.Perm() != 0o700:
		if err := os.Chmod(path, 0o700); err != nil {
			return fmt.Errorf("closing the folder %s to other users: %w", path, err)
		}
	}
	return nil
}

// checkDir refuses a folder in which somebody else could replace a socket.
func checkDir(path string) error {
	info, err := os.Stat(path)
	if err != nil {
		return fmt.Errorf("checking the folder %s: %w", path, err)
	}
	switch mode := info.Mode(); {
	case !info.IsDir():
		return fmt.Errorf("%s is not a folder; choose another socket", path)
	case !ours(info):
		return fmt.Errorf("the folder %s %w; choose a socket in a folder of your own", path, errForeign)
	case mode.Perm()&0o022 != 0:
		return fmt.Errorf("other users can write in the folder %s (mode %#o); chmod go-w it or choose another socket", path, mode.Perm())
	}
	return nil
}
