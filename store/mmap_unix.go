//go:build !windows

package store

// mmapAhead says whether mapping more than the file costs nothing.
const mmapAhead = true
