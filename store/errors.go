package store

import "errors"

// Sentinels a caller branches on.
var (
	// ErrLocked: another process uses the folder.
	ErrLocked = errors.New("the session store is in use")
	// ErrNewer: the folder was written by a newer version and was not touched.
	ErrNewer = errors.New("the session store was written by a newer version")
	// ErrClosed: the store is closed.
	ErrClosed = errors.New("the session store is closed")
	// ErrDamaged: something stored cannot be read any more.
	ErrDamaged = errors.New("the session store is damaged")
)
