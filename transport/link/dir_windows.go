package link

import (
	"fmt"
	"os"
)

func owner(dir string) Owner {
	info, err := os.Stat(dir)
	switch {
	case os.IsNotExist(err):
		return Absent
	case err != nil || !info.IsDir():
		return Foreign
	}
	return Ours
}

func makePrivate(path string) error { return checkDir(path) }

func checkDir(path string) error {
	info, err := os.Stat(path)
	if err != nil {
		return fmt.Errorf("checking the folder %s: %w", path, err)
	}
	if !info.IsDir() {
		return fmt.Errorf("%s is not a folder; remove it", path)
	}
	return nil
}
