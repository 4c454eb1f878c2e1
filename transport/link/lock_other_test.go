//go:build !linux

package link

import (
	"os"
	"testing"
)

// awaitWaiter: only Linux tells who waits for a lock.
func awaitWaiter(t *testing.T, _ *os.File) { t.Skip("who waits cannot be seen") }
