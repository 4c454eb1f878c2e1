//go:build !race

package daemontest

// Race says whether the running program was built with the race detector.
const Race = false

// RaceFlags are the build flags that give the programs under test the same
// detector as the test itself.
func RaceFlags() []string { return nil }
