package store

import (
	"fmt"
	"syscall"
)

// identity names one very file, "" if that cannot be known: one that was put
// back from a copy has another.
func identity(name string) string {
	var st syscall.Stat_t
	if syscall.Stat(name, &st) != nil {
		return ""
	}
	return fmt.Sprintf("%d-%d.%09d", st.Ino, st.Birthtimespec.Sec, st.Birthtimespec.Nsec)
}
