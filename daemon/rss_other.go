//go:build !linux

package daemon

import "runtime"

// residentBytes is what the runtime has from the system: close to the memory
// of the process where the system is not asked.
func residentBytes() int64 {
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int64(m.Sys - m.HeapReleased)
}
