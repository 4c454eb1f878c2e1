//go:build !linux

package link

import "io/fs"

// scopeCommand: only systemd has scopes.
func scopeCommand([]string, func(string) (fs.FileInfo, error)) []string { return nil }
