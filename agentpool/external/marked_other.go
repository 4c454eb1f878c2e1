//go:build !linux

package external

// signalMarked: the environment of other processes cannot be read here. On
// Windows the job holds everything; on macOS what leaves the group is on its
// own.
func signalMarked(string, bool) {}
