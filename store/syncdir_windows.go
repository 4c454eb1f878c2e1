package store

// syncDir does nothing: Windows has no way to sync a directory, NTFS journals
// its own changes.
func syncDir(string) error { return nil }
