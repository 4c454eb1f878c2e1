package service

import "os/user"

// lookupUID is the number of a user, "" if there is none of that name.
func lookupUID(name string) string {
	u, err := user.Lookup(name)
	if err != nil {
		return ""
	}
	return u.Uid
}
