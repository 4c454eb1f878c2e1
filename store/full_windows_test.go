package store

const fullDir = "HERMESD_STORE_TEST_FULL"

// onFullDisk is for systems on which a process can limit its own files.
func onFullDisk(string) error { return nil }
