package store

func child() bool { return false }
