package store

import (
	"fmt"
	"os"
	"syscall"
)

// identity names one very file, "" if that cannot be known: one that was put
// back from a copy has another.
func identity(name string) string {
	info, err := os.Stat(name)
	if err != nil {
		return ""
	}
	data, ok := info.Sys().(*syscall.Win32FileAttributeData)
	if !ok {
		return ""
	}
	return fmt.Sprintf("%d", data.CreationTime.Nanoseconds())
}
