//go:build !linux && !darwin && !windows

package store

// bootID names the running kernel's life; "" if it cannot be known.
func bootID() string { return "" }
