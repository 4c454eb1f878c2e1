package link

import (
	"fmt"
	"os"
	"strings"
	"syscall"
	"testing"
	"time"
)

// awaitWaiter waits until somebody waits for a lock that is held.
func awaitWaiter(t *testing.T, f *os.File) {
	t.Helper()
	var st syscall.Stat_t
	if err := syscall.Fstat(int(f.Fd()), &st); err != nil {
		t.Fatal(err)
	}
	inode := fmt.Sprintf(":%d ", st.Ino)
	for deadline := time.Now().Add(10 * time.Second); ; time.Sleep(time.Millisecond) {
		b, err := os.ReadFile("/proc/locks")
		if err != nil {
			t.Skip(err)
		}
		for line := range strings.Lines(string(b)) {
			if strings.Contains(line, "->") && strings.Contains(line, inode) {
				return
			}
		}
		if time.Now().After(deadline) {
			t.Fatal("nobody waits for the lock")
		}
	}
}
