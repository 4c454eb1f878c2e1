package store

import (
	"os"
	"strings"
)

// bootID names the running kernel's life; "" if it cannot be known.
func bootID() string {
	id, err := os.ReadFile("/proc/sys/kernel/random/boot_id")
	if err != nil {
		return ""
	}
	return strings.TrimSpace(string(id))
}
