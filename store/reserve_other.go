//go:build !linux

package store

import (
	"errors"
	"os"
)

// reserve does nothing: there is no call for it, or a sync costs so much that
// it would not be noticed.
func reserve(*os.File, int64, int64) error { return errors.ErrUnsupported }
